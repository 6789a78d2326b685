//! Standard error, for people. Nobody may be reading it any more (`2>&1 | head`), and that is no reason
//! to end: `eprintln!` would.

use std::io::Write;

/// Writes a line, after the command's name.
pub fn sentence(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "quartier: {sentence}");
}

/// Writes a text as it is.
pub fn text(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
