//! Standard output and error, for people. Nobody may be reading them any more, and that is no reason to end:
//! `println!` would, and leave behind what is to be taken back.

use std::io::Write;

/// Writes a line about what is done.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes a sentence about what is wrong, after the program's name.
pub fn sentence(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "quartierd: {sentence}");
}
