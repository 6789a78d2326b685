//! Text in pictures and pages.

/// The same text, of which nothing becomes markup: names come from files and programs. Control characters are not XML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
