//! Man pages and completions, from the one definition of each command line.
//!
//! They are made when they are installed and not kept in git, so they cannot differ from it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use quartier_cli::Cli;
use quartier_daemon::Args;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// A program's definition, and the section of the manual that it is in.
type Program = (fn() -> clap::Command, &'static str);

/// What is installed for people to call.
const PROGRAMS: [Program; 2] = [(Cli::command, "1"), (Args::command, "8")];

/// Writes `man/*.[18]` and `completions/*` below `folder`.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for place in [&man, &completions] {
        if place.exists() {
            fs::remove_dir_all(place)
                .with_context(|| format!("cannot empty {}", place.display()))?;
        }
        fs::create_dir_all(place).with_context(|| format!("cannot create {}", place.display()))?;
    }
    for (command, section) in PROGRAMS {
        let mut all = documented(command());
        all.build();
        write_pages(&all, section, &man).context("cannot write the man pages")?;
        for shell in SHELLS {
            let name = all.get_name().to_owned();
            clap_complete::generate_to(shell, &mut visible(&command()), name, &completions)
                .with_context(|| format!("cannot write the completions for {shell}"))?;
        }
    }
    println!("pages: {}/ and {}/", man.display(), completions.display());
    Ok(())
}

/// The page of a command, and those of its subcommands, which are built.
fn write_pages(command: &clap::Command, section: &str, folder: &Path) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(subcommand, section, folder)?;
    }
    Man::new(command.clone()).section(section).generate_to(folder)?;
    Ok(())
}

/// The command without what nobody types: hidden subcommands are quartier's calls of itself. Pages
/// leave them out by themselves, completions do not, and clap cannot remove what it was given: a
/// command that has hidden ones is put together again from its parts.
fn visible(command: &clap::Command) -> clap::Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(visible);
    let mut kept = clap::Command::new(command.get_name().to_owned())
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .disable_help_subcommand(true)
        .subcommands(subcommands);
    if let Some(about) = command.get_about() {
        kept = kept.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        kept = kept.version(version.to_owned());
    }
    kept
}

/// The command as its pages show it.
fn documented(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(documented)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Commands = Vec<(String, clap::Command)>;

    /// A command and all below it that people see, by their whole names.
    fn below(command: clap::Command) -> Commands {
        fn collect(prefix: &str, command: &clap::Command, into: &mut Commands) {
            let name = format!("{prefix}{}", command.get_name());
            for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                collect(&format!("{name} "), subcommand, into);
            }
            into.push((name, command.clone()));
        }
        let mut commands = Vec::new();
        collect("", &command, &mut commands);
        commands
    }

    /// Every command that people see.
    fn commands() -> Commands {
        PROGRAMS.iter().flat_map(|(command, _)| below(command())).collect()
    }

    #[test]
    fn the_definitions_hold_together() {
        PROGRAMS.iter().for_each(|(command, _)| command().debug_assert());
    }

    #[test]
    fn every_command_has_a_page_and_hidden_ones_appear_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let pages = |(command, section): &Program| -> Vec<_> {
            let page = |(name, _): (String, _)| format!("{}.{section}", name.replace(' ', "-"));
            below(command()).into_iter().map(page).collect()
        };
        let mut expected: Vec<_> = PROGRAMS.iter().flat_map(pages).collect();
        let entries = fs::read_dir(folder.path().join("man")).unwrap();
        let mut found: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
        let hidden_options = ["always-copy", "helper-idle-ms"];
        let hidden_commands = ["/init", "tether"];
        for place in ["man", "completions"] {
            for entry in fs::read_dir(folder.path().join(place)).unwrap() {
                let text = fs::read_to_string(entry.unwrap().path()).unwrap();
                // Completions list hidden options: whoever types one may have it completed.
                let options = hidden_options.iter().filter(|_| place == "man");
                let mut hidden = hidden_commands.iter().chain(options);
                assert!(hidden.all(|word| !text.contains(word)), "{text}");
            }
        }
        let (of_cli, of_daemon) = (["lab", "cpus-per-node"], ["apply", "check"]);
        for (shell, words) in [
            ("quartier.bash", of_cli),
            ("_quartier", of_cli),
            ("quartier.fish", of_cli),
            ("quartierd.bash", of_daemon),
            ("_quartierd", of_daemon),
            ("quartierd.fish", of_daemon),
        ] {
            let text = fs::read_to_string(folder.path().join("completions").join(shell)).unwrap();
            assert!(words.iter().all(|word| text.contains(word)), "{shell}");
        }
        // Writing again replaces what is there, a page of a removed command too.
        fs::write(folder.path().join("man/quartier-gone.1"), "").unwrap();
        write(folder.path()).unwrap();
        assert!(!folder.path().join("man/quartier-gone.1").exists());
    }

    #[test]
    fn every_command_and_flag_says_what_it_is_for() {
        for (name, command) in commands() {
            assert!(command.get_about().is_some(), "{name} has no help text");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{name}: {} has no help", argument.get_id());
            }
        }
    }

    #[test]
    fn every_command_shows_examples() {
        let has_examples = |command: &clap::Command| {
            let help = command.clone().render_long_help().to_string();
            help.contains("Example")
        };
        let leaves = commands().into_iter().filter(|(_, command)| !command.has_subcommands());
        let without: Vec<_> =
            leaves.filter(|(_, command)| !has_examples(command)).map(|(name, _)| name).collect();
        assert!(without.is_empty(), "no examples: {without:?}");
    }
}
