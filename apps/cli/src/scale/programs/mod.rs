//! The programs of the study, ready to run: those that Debian has, each below a folder of its own and on a port of its own, by any
//! user. What is done with each is a script of functions (`common.sh` says which).

pub mod in_guests;
mod place;
pub mod sanity;

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use anyhow::{Context, bail};
use place::Place;

use super::guard::Guard;
use super::measure::last_line;

const COMMON: &str = include_str!("common.sh");
/// Behind all functions: the one that is asked for.
const DO_IT: &str = "\n\"$1\"\n";
/// Root becomes nobody by these words.
const BECOME_NOBODY: &str = "setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all";
/// What scripts print of the work that was done.
pub const METRIC: &str = r"(?m)^work ([0-9]+)$";

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// A mail server: a process for each connection and each delivery
    Exim,
    /// A cache that all share, nine of ten requests read
    Memcached,
    /// A web server: a small file, a connection for each request
    Apache,
    /// A database in memory, a row by its key for each query
    Postgresql,
    /// C files compiled side by side, and linked at the end
    Gmake,
    /// Texts indexed by a process for each CPU, and what they found made one
    Indexer,
    /// How often each word is in a text
    Mapreduce,
}

impl Program {
    fn script(self) -> &'static str {
        match self {
            Self::Exim => include_str!("exim.sh"),
            Self::Memcached => include_str!("memcached.sh"),
            Self::Apache => include_str!("apache.sh"),
            Self::Postgresql => include_str!("postgresql.sh"),
            Self::Gmake => include_str!("gmake.sh"),
            Self::Indexer => include_str!("indexer.sh"),
            Self::Mapreduce => include_str!("mapreduce.sh"),
        }
    }

    /// Whether it answers a load; else it does a job and ends.
    pub fn is_server(self) -> bool {
        matches!(self, Self::Exim | Self::Memcached | Self::Apache | Self::Postgresql)
    }

    /// Whether its script says when it may be loaded, and not just that it listens.
    fn says_when_ready(self) -> bool {
        matches!(self, Self::Apache | Self::Postgresql)
    }

    /// What a report of it is named by: as it is typed, with what its configuration says too.
    ///
    /// # Errors
    /// One sentence where it has none.
    pub fn named(self, settings: &[String]) -> anyhow::Result<Vec<OsString>> {
        if let Some(first) = settings.first().filter(|_| !self.is_server()) {
            bail!(
                "{} has no configuration that could say `{first}`: --set is for servers",
                self.word()
            );
        }
        let set = settings.iter().flat_map(|line| ["--set".into(), line.into()]);
        Ok(std::iter::once(self.word().into()).chain(set).collect())
    }

    /// What it counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Exim => "messages",
            Self::Memcached | Self::Apache => "requests",
            Self::Postgresql => "queries",
            Self::Gmake => "files",
            Self::Indexer | Self::Mapreduce => "parts",
        }
    }

    /// As it is typed.
    pub fn word(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A program with everything that it needs; all of that is gone when this is dropped.
#[derive(Debug)]
pub struct Prepared {
    pub program: Program,
    script: PathBuf,
    place: Place,
}

impl Prepared {
    /// For this machine's CPUs, with so many more lines of its configuration.
    ///
    /// # Errors
    /// One sentence: what is missing, with the remedy.
    pub fn new(program: Program, settings: &[String]) -> anyhow::Result<Self> {
        Self::of_size(program, Size::Machine, settings)
    }

    fn of_size(program: Program, size: Size, settings: &[String]) -> anyhow::Result<Self> {
        let place = Place::new()?;
        let script = place.path().join("program.sh");
        let port = ("PORT", free_port()?.to_string());
        let head = head(place.path(), &[port, size.told(), told(settings)])?;
        write(&script, &[&head, COMMON, program.script(), DO_IT])?;
        let prepared = Self { program, script, place };
        if let Err(why) = prepared.does("prepare", 1) {
            bail!("{} cannot be run: {why}", program.word());
        }
        Ok(prepared)
    }

    /// The command that does one of the things that its script knows.
    pub fn words(&self, action: &str) -> Vec<OsString> {
        vec!["sh".into(), self.script.clone().into(), action.into()]
    }

    fn command(&self, action: &str, nr_cpus: usize) -> Command {
        command(&self.script, action, nr_cpus)
    }

    /// Does one of the things, and gives what it printed; the error is what it complained of last.
    fn does(&self, action: &str, nr_cpus: usize) -> Result<String, String> {
        self.printed_by(self.command(action, nr_cpus), action)
    }

    /// The same of any script's.
    fn printed_by(&self, command: Command, action: &str) -> Result<String, String> {
        let Output { status, stdout, stderr } =
            self.ran(command).map_err(|error| format!("sh could not be run: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() {
            return Ok(text(&stdout));
        }
        let complained = text(&stderr);
        let last = last_line(&complained).map(str::to_owned);
        Err(last.unwrap_or_else(|| format!("its `{action}` failed ({status})")))
    }

    fn ran(&self, mut command: Command) -> io::Result<Output> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.guard().start(&mut command, Command::spawn)?;
        let group = child.id();
        let output = child.wait_with_output();
        self.guard().ended(group);
        output
    }

    /// Who ends what is started of it.
    pub fn guard(&self) -> &Guard {
        self.place.guard()
    }
}

/// How much of everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Machine,
    /// Of the lab, where all that is done is counted.
    Guest,
}

impl Size {
    /// As scripts are told.
    fn told(self) -> (&'static str, String) {
        let word = match self {
            Self::Machine => "",
            Self::Guest => "1",
        };
        ("IN_GUEST", word.to_owned())
    }
}

/// As scripts are told what a configuration says too.
fn told(settings: &[String]) -> (&'static str, String) {
    ("SETTINGS", settings.join("\n"))
}

/// A script that does one of the things that it knows.
fn command(script: &Path, action: &str, nr_cpus: usize) -> Command {
    let mut command = Command::new("sh");
    command.arg(script).arg(action).env("QUARTIER_CPUS", nr_cpus.to_string()).stdin(Stdio::null());
    command
}

/// What a script finds: its program's folder, by what words root becomes somebody else unless it did, and this.
fn head(place: &Path, more: &[(&str, String)]) -> anyhow::Result<String> {
    let become_words = if rustix::process::geteuid().is_root() { BECOME_NOBODY } else { "" };
    let mut head = format!(
        "PLACE={}\nBECOME=\"${{QUARTIER_BECOME-{become_words}}}\"\n",
        quoted(text(place)?)?
    );
    for (name, value) in more {
        head += &format!("{name}={}\n", quoted(value)?);
    }
    Ok(head)
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the folder for temporary files has a name that no shell can be told")
}

/// As a shell reads it as one word.
fn quoted(word: &str) -> anyhow::Result<String> {
    Ok(shlex::try_quote(word)?.into_owned())
}

fn write(script: &Path, parts: &[&str]) -> anyhow::Result<()> {
    fs::write(script, parts.concat()).with_context(|| format!("cannot write {}", script.display()))
}

/// One that nobody has now.
fn free_port() -> anyhow::Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of 127.0.0.1 can be had")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// What a shell makes of a program's script, without doing anything of it.
    fn read_by_sh(program: Program, size: Size, options: &[&str], end: &str) -> Output {
        let place = Path::new("/a place");
        let settings = told(&["one 'thing'".to_owned(), "another".to_owned()]);
        let head = head(place, &[("PORT", "7".to_owned()), size.told(), settings]).unwrap();
        let script = [head.as_str(), COMMON, program.script(), end].concat();
        Command::new("sh").args(options).args(["-c", &script]).output().unwrap()
    }

    #[test]
    fn scripts_are_read_without_a_complaint() {
        for program in Program::value_variants() {
            for size in [Size::Machine, Size::Guest] {
                let output = read_by_sh(*program, size, &["-n"], DO_IT);
                assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            }
        }
    }

    #[test]
    fn there_is_less_to_do_in_a_guest() {
        for (program, name) in [
            (Program::Exim, "CONNECTIONS"),
            (Program::Memcached, "REQUESTS"),
            (Program::Apache, "REQUESTS"),
            (Program::Postgresql, "TRANSACTIONS"),
            (Program::Gmake, "NR_FILES"),
            (Program::Indexer, "NR_PARTS"),
            (Program::Mapreduce, "NR_PARTS"),
        ] {
            let told = |size| {
                let output = read_by_sh(program, size, &[], &format!("\necho \"${name}\"\n"));
                let said = String::from_utf8_lossy(&output.stdout);
                said.trim().parse::<u32>().unwrap_or_else(|_| panic!("{program:?}: {output:?}"))
            };
            let (on_machine, in_guest) = (told(Size::Machine), told(Size::Guest));
            assert!(0 < in_guest && in_guest < on_machine, "{program:?}: {in_guest}, {on_machine}");
        }
    }

    #[test]
    fn whoever_has_become_another_becomes_nobody_else() {
        let end = "\nprintf '%s\n' \"$PLACE\" \"$BECOME\"\n";
        let script = head(Path::new("/it's a place"), &[]).unwrap() + end;
        let printed = |become_words: Option<&str>| {
            let mut command = Command::new("sh");
            command.args(["-c", &script]).env_remove("QUARTIER_BECOME");
            command.envs(become_words.map(|words| ("QUARTIER_BECOME", words)));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let words = if rustix::process::geteuid().is_root() { BECOME_NOBODY } else { "" };
        assert_eq!(printed(None), format!("/it's a place\n{words}\n"));
        assert_eq!(printed(Some("")), "/it's a place\n\n");
    }
}
