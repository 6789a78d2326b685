//! What the page is made of. It is XML too, so that any XML parser can read it.

use std::fmt::Write;

use serde::Serialize;

use crate::markup::escape;

const STYLE: &str = include_str!("style.css");

/// A page under construction.
#[derive(Default)]
pub struct Page {
    body: String,
}

impl Page {
    /// Adds markup as it is.
    pub fn raw(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// Adds an element with words in it; what is between backticks is code.
    pub fn words(&mut self, element: &str, words: &str) {
        let mut html = String::new();
        for (at, part) in words.split('`').enumerate() {
            let part = escape(part);
            html += &if at % 2 == 1 { format!("<code>{part}</code>") } else { part };
        }
        let _ = writeln!(self.body, "<{element}>{html}</{element}>");
    }

    /// Adds a table of words.
    pub fn table(&mut self, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        self.raw("<div class=\"scroll\"><table><thead><tr>");
        columns.iter().for_each(|column| self.words("th", column));
        self.raw("</tr></thead><tbody>");
        for row in rows {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
            self.raw(&format!("<tr>{}</tr>", cells.collect::<String>()));
        }
        self.raw("</tbody></table></div>");
    }

    /// The page's text, with what is behind it.
    pub fn finish(self, data: &impl Serialize) -> String {
        let json = serde_json::to_string(data).unwrap_or_default();
        // No markup, in HTML nor XML.
        let json = json
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>quartier scale</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
             <script type=\"application/json\" id=\"data\">{json}</script>\n</body>\n</html>\n",
            self.body
        )
    }
}
