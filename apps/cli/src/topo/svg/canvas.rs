//! Rectangles and text.

use std::fmt::Write;

use crate::markup::escape;

/// All colours and fonts. Classes, so that a reader may restyle the drawing.
const STYLE: &str = "\
text{font-family:'DejaVu Sans',Verdana,'Segoe UI',sans-serif;fill:#2b2a28}\
.ground{fill:#faf8f4}\
.title{font-size:20px;font-weight:bold}\
.summary{font-size:13px;fill:#6b675f}\
.heading{font-size:14px;font-weight:bold}\
.note{font-size:11px;fill:#6b675f}\
.right{text-anchor:end}\
.package{fill:#f0ebe0;stroke:#cfc6b4}\
.node{fill:#fff;stroke:#b9b1a0}\
.node.odd{stroke:#c98a1b;stroke-dasharray:5 3}\
.name{font-size:12px;font-weight:bold}\
.name.small{font-size:8px}\
.odd-text{fill:#a06a0a}\
.cache{fill:#e8f0f8;stroke:#a9c3df}\
.cache-name{font-size:9px;fill:#4a6d92}\
.core{fill:#c9dcef}\
.cpu{fill:#2f6db0}\
.cpu-name{font-size:9px;fill:#fff;text-anchor:middle}\
.cpu.off{fill:#fff;stroke:#9b968c;stroke-dasharray:2 2}\
.cpu-name.off{fill:#7d786e}\
.memory-ground{fill:#e9ede4}\
.memory{fill:#6d9f5b}\
.memory-unknown{fill:none;stroke:#b9b1a0;stroke-dasharray:3 3}\
.axis{font-size:10px;fill:#6b675f;text-anchor:middle}\
.axis.left{text-anchor:end}\
.cell-text{font-size:10px;text-anchor:middle}\
.light{fill:#fff}\
.edge{fill:#b9b1a0}\
.part{fill:#f4f7fa;stroke:#c3cfdb}\
.cpu.updater{fill:#b8741a}";

/// What is different where the reader prefers dark pages. Colours of the heat map stay: light means
/// near in both.
const STYLE_DARK: &str = "\
text{fill:#e4e0d8}\
.ground{fill:#1d1c1a}\
.summary,.note,.axis{fill:#a8a297}\
.package{fill:#38301f;stroke:#6b5f48}\
.node{fill:#252422;stroke:#6e685c}\
.node.odd{stroke:#c98a1b}\
.odd-text{fill:#dca13f}\
.cache{fill:#1d2a38;stroke:#3f5f80}\
.cache-name{fill:#8fb3d9}\
.core{fill:#2b4058}\
.cpu{fill:#3a7cc2}\
.cpu-name{fill:#fff}\
.cpu.off{fill:#252422;stroke:#7d786e}\
.cpu-name.off{fill:#a8a297}\
.memory-ground{fill:#31372c}\
.memory-unknown{stroke:#6e685c}\
.cell-text{fill:#2b2a28}\
.light{fill:#fff}\
.edge{fill:#6e685c}\
.part{fill:#20262d;stroke:#43566a}\
.cpu.updater{fill:#c07d22}";

/// A drawing under construction. Later shapes cover earlier ones.
pub struct Canvas {
    body: String,
}

impl Canvas {
    pub fn new() -> Self {
        Self { body: String::new() }
    }

    /// A rectangle with corners rounded by `radius`.
    pub fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), radius: f64, class: &str) {
        self.rect_open((x, y), (w, h), radius, &format!(r#"class="{class}""#));
        self.body.push_str("/>\n");
    }

    /// A rectangle that tells `hint` to a pointer over it.
    pub fn hinted_rect(
        &mut self,
        at: (f64, f64),
        size: (f64, f64),
        radius: f64,
        class: &str,
        hint: &str,
    ) {
        self.rect_open(at, size, radius, &format!(r#"class="{class}""#));
        let _ = writeln!(self.body, "><title>{}</title></rect>", escape(hint));
    }

    /// A rectangle of one colour.
    pub fn filled_rect(&mut self, at: (f64, f64), size: (f64, f64), colour: &str, hint: &str) {
        self.rect_open(at, size, 0.0, &format!(r#"fill="{colour}""#));
        let _ = writeln!(self.body, "><title>{}</title></rect>", escape(hint));
    }

    fn rect_open(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), radius: f64, look: &str) {
        let (x, y, w, h) = (Px(x), Px(y), Px(w), Px(h));
        let _ = write!(self.body, r#"<rect x="{x}" y="{y}" width="{w}" height="{h}""#);
        if radius > 0.0 {
            let _ = write!(self.body, r#" rx="{}""#, Px(radius));
        }
        let _ = write!(self.body, " {look}");
    }

    /// A line of text on the base line `y`.
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (Px(x), Px(y), escape(text));
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}" class="{class}">{text}</text>"#);
    }

    /// The drawing's text, on a ground of this size.
    pub fn finish(self, width: f64, height: f64) -> String {
        let (width, height) = (Px(width.ceil()), Px(height.ceil()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n\
             <style>{STYLE}@media (prefers-color-scheme:dark){{{STYLE_DARK}}}</style>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Pixels with at most one decimal: what rounding leaves out nobody sees, and files stay small.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        write!(f, "{tenths}")
    }
}

/// About how wide a text is: sans-serif letters are around 0.6 of their size.
pub fn text_width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * 0.62
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(escape("<a b=\"&\">\u{1b}"), "&lt;a b=&quot;&amp;&quot;&gt; ");
    }
}
