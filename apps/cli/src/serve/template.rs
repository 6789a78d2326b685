//! `{node}` and the like in commands and configuration files.

use std::path::Path;

use anyhow::bail;

/// What may differ between copies.
#[derive(Clone, Debug)]
pub struct Values {
    /// The words and what stands for them.
    words: Vec<(&'static str, String)>,
}

impl Values {
    /// Of one copy.
    pub fn new(copy: usize, copies: usize, node: u32, cpus: &str, directory: &Path) -> Self {
        Self {
            words: vec![
                ("copy", copy.to_string()),
                ("copies", copies.to_string()),
                ("node", node.to_string()),
                ("cpus", cpus.to_owned()),
                ("dir", directory.display().to_string()),
            ],
        }
    }

    /// With words of a recipe's own.
    pub fn with(mut self, words: &[(&'static str, String)]) -> Self {
        self.words.extend_from_slice(words);
        self
    }

    /// Puts them into a text. `{word}` is ours if the word has only small letters (and `_`) and nothing that makes it another
    /// language's stands before it (`%{word}`, `${word}`); `{{word}}` is `{word}`, and `{{{word}}}` what is filled in, in braces.
    pub fn fill(&self, text: &str, what: &str) -> anyhow::Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            filled += before;
            let is_theirs = filled.ends_with(['%', '$', '#', '\\']);
            let found = word(from).filter(|(nr_braces, _)| *nr_braces > 1 || !is_theirs);
            if let Some((2, word)) = found {
                filled += &format!("{{{word}}}");
                rest = &from[word.len() + 4..];
            } else if let Some((nr_braces, word)) = found {
                let Some((_, value)) = self.words.iter().find(|(name, _)| *name == word) else {
                    let line = text[..text.len() - from.len()].matches('\n').count() + 1;
                    let at =
                        if text.contains('\n') { format!(", line {line}") } else { String::new() };
                    let known: Vec<_> =
                        self.words.iter().map(|(name, _)| format!("{{{name}}}")).collect();
                    bail!(
                        "{what}{at}: there is no {{{word}}} to fill in; there are {}, and {{{{{word}}}}} \
                         stands for {{{word}}} itself",
                        known.join(", ")
                    );
                };
                filled += &if nr_braces == 1 { value.clone() } else { format!("{{{value}}}") };
                rest = &from[word.len() + 2 * nr_braces..];
            } else {
                filled.push('{');
                rest = &from[1..];
            }
        }
        Ok(filled + rest)
    }
}

/// The word in braces at the beginning, and how many are on each side: up to three.
fn word(text: &str) -> Option<(usize, &str)> {
    let nr_braces = text.bytes().take_while(|byte| *byte == b'{').count().min(3);
    let inside = &text[nr_braces..];
    let (word, after) = inside.split_at(inside.find('}')?);
    let is_word = !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    let is_closed = after.starts_with(&"}}}"[..nr_braces]);
    (is_word && is_closed).then_some((nr_braces, word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> Values {
        Values::new(1, 4, 2, "4-5", Path::new("/run/x"))
    }

    #[test]
    fn what_is_ours_is_filled_in_and_what_is_not_stays() {
        for (text, filled) in [
            ("-p {dir}/pid.{copy}", "-p /run/x/pid.1"),
            ("{node} {cpus} of {copies}", "2 4-5 of 4"),
            ("events { worker_connections 64; }", "events { worker_connections 64; }"),
            ("^[0-9]{4}$ ${node} %{ms}T {}", "^[0-9]{4}$ ${node} %{ms}T {}"),
            ("{{node}} {{{node}}}", "{node} {2}"),
            ("{ node } {Node} {node", "{ node } {Node} {node"),
        ] {
            assert_eq!(values().fill(text, "x").unwrap(), filled, "{text}");
        }
    }

    #[test]
    fn a_word_that_is_none_is_refused_with_its_line() {
        let refused = values().fill("{nodes}", "the command").unwrap_err().to_string();
        assert_eq!(
            refused,
            "the command: there is no {nodes} to fill in; there are {copy}, {copies}, {node}, {cpus}, \
             {dir}, and {{nodes}} stands for {nodes} itself"
        );
        let refused = values().fill("a\n\n{nod}\n", "a.conf").unwrap_err().to_string();
        assert!(refused.starts_with("a.conf, line 3: there is no {nod}"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_text_is_filled_or_refused(text in "[{}a-z$\\n]{0,40}") {
            let _ = values().fill(&text, "x");
        }
    }
}
