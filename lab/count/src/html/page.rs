//! What every page has: head, style, escaped words, tables, and the data behind it.

use std::fmt::Write;

use serde::Serialize;

use crate::svg::{DARK, Drawing, LIGHT, STYLE};
use crate::words::clean;

const PAGE_STYLE: &str = include_str!("style.css");
const PAGE_DARK: &str = include_str!("dark.css");

/// A page under construction.
///
/// Pages are XML too, so that any XML parser can read what is in them. Nothing in them is fetched, and
/// nothing in them runs.
pub(super) struct Page {
    body: String,
}

/// A cell of a table.
pub(super) struct Cell {
    html: String,
    class: &'static str,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    /// Adds markup as it is.
    pub(super) fn raw(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// Adds an element with words in it.
    pub(super) fn words(&mut self, element: &str, class: &str, words: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.body, "<{element}{class}>{}</{element}>", escape(words));
    }

    /// Adds a drawing with words below.
    pub(super) fn figure(&mut self, drawing: &Drawing, caption: &str) {
        self.raw("<figure>");
        self.raw(&drawing.inline());
        if !caption.is_empty() {
            self.words("figcaption", "", caption);
        }
        self.raw("</figure>");
    }

    /// Adds a table. Names of columns that hold words begin with `<`.
    pub(super) fn table(&mut self, caption: &str, columns: &[&str], rows: &[(&str, Vec<Cell>)]) {
        self.raw("<div class=\"scroll\"><table>");
        if !caption.is_empty() {
            self.words("caption", "", caption);
        }
        self.raw("<thead><tr>");
        for column in columns {
            let (class, name) = match column.strip_prefix('<') {
                Some(name) => (" class=\"text\"", name),
                None => ("", *column),
            };
            let _ = writeln!(self.body, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        self.raw("</tr></thead><tbody>");
        for (class, cells) in rows {
            let _ = write!(self.body, "<tr class=\"{class}\">");
            for Cell { html, class } in cells {
                let _ = write!(self.body, "<td class=\"{class}\">{html}</td>");
            }
            self.raw("</tr>");
        }
        self.raw("</tbody></table></div>");
    }

    /// The page's text. `data` is what is behind it.
    pub(super) fn finish(self, title: &str, data: &impl Serialize) -> String {
        format!(
            "<!DOCTYPE html>\n\
             <html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n\
             <head>\n\
             <meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{}</title>\n\
             <style>\n{PAGE_STYLE}{STYLE}\n{LIGHT}\n\
             @media screen and (prefers-color-scheme:dark){{\n{PAGE_DARK}{DARK}\n}}\n</style>\n\
             </head>\n\
             <body>\n{}<script type=\"application/json\" id=\"data\">{}</script>\n\
             </body>\n\
             </html>\n",
            escape(title),
            self.body,
            json(data),
        )
    }
}

impl Cell {
    pub(super) fn number(html: String) -> Self {
        Self { html, class: "" }
    }

    pub(super) fn words(words: &str) -> Self {
        Self { html: escape(words), class: "text" }
    }

    /// Words that may go on in a line below.
    pub(super) fn wide(words: &str) -> Self {
        Self { html: escape(words), class: "text wide" }
    }

    /// A share in percent as markup, with a bar.
    pub(super) fn rate(html: &str, percent: Option<f64>) -> Self {
        let bar = percent.map_or_else(String::new, |percent| {
            format!("<span class=\"rate\"><i style=\"width:{percent:.2}%\"></i></span>")
        });
        Self { html: format!("{html}{bar}"), class: "" }
    }
}

/// A number as a person reads it, with the exact one and where it stands in the JSON (RFC 6901).
pub(super) fn data(at: &str, value: impl Serialize, text: &str) -> String {
    let value = serde_json::to_string(&value).unwrap_or_default();
    format!("<data value=\"{}\" data-at=\"{}\">{}</data>", escape(&value), escape(at), escape(text))
}

/// A number that may be absent.
pub(super) fn maybe(at: &str, value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), |value| data(at, value, &format(value)))
}

/// Words from anywhere: nothing in them may become markup.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON that is no markup, in HTML nor XML.
fn json(data: &impl Serialize) -> String {
    let text = serde_json::to_string(data).unwrap_or_default();
    text.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{fffe}', "\\ufffe")
        .replace('\u{ffff}', "\\uffff")
        .replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_become_markup() {
        assert_eq!(escape("<a b=\"&\">\u{1b}"), "&lt;a b=&quot;&amp;&quot;&gt; ");
        assert_eq!(json(&"</script>&"), "\"\\u003c/script\\u003e\\u0026\"");
    }
}
