//! One sentence for what is wrong with a command line.

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::Cli;

/// What is wrong with the command line `words`, and where to look. The whole help only where nothing
/// was asked for.
#[must_use]
pub fn one_sentence(error: &clap::Error, words: &[String]) -> String {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!("a command is needed\n\n{text}");
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_about_it = |line: &&str| {
        !["Usage:", "For more information", "tip:"].iter().any(|start| line.starts_with(start))
    };
    let what: Vec<_> = lines.clone().take_while(is_about_it).collect();
    let what = what.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    // "to pass '-1' as a value, use '-- -1'": behind `--` is what is run, or nothing that it could be.
    let is_of_use = |tip: &&str| !tip.starts_with("to pass ");
    let tip = lines.clone().filter_map(|line| line.strip_prefix("tip: ")).find(is_of_use);
    let help = || format!("see `{} --help`", command_of(words));
    format!("{what}; {}", tip.map_or_else(help, str::to_owned))
}

/// The (sub)command that the words name, as far as there is one.
fn command_of(words: &[String]) -> String {
    let mut command = Cli::command();
    let mut name = command.get_name().to_owned();
    for word in words.iter().skip(1) {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        name = format!("{name} {word}");
        command = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_mistake_is_one_sentence_that_says_where_to_look() {
        for (line, what, remedy) in [
            ("quartier run --policy foo -- true", "no policy `foo`", "quartier run --help"),
            ("quartier run --initial-share 200 -- true", "200", "quartier run --help"),
            ("quartier run", "<CMD>", "quartier run --help"),
            ("quartier rum", "rum", "run"),
            ("quartier topo --nonsense", "--nonsense", "quartier topo --help"),
            ("quartier explain-decision thread --x", "'--x'", "quartier explain-decision --help"),
            ("quartier run --initial-share -1 -- true", "from 0 to 100", "quartier run --help"),
            ("quartier lab simulate --seed -1", "from 0 to", "quartier lab simulate --help"),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let sentence = one_sentence(&error, &words);
            assert!(sentence.contains(what) && sentence.contains(remedy), "{line}: {sentence}");
            assert_eq!(sentence.lines().count(), 1, "{line}: {sentence}");
            assert!(!sentence.contains("-- -"), "{line}: {sentence}");
        }
    }
}
