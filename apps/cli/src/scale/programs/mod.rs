//! The programs of the study, ready to run: those that Debian has, each below a folder of its own and on a port of its own, by any
//! user. What is done with each is a script of functions (`common.sh` says which).

mod place;
pub mod sanity;

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use anyhow::{Context, bail};
use place::Place;

use super::guard::Guard;

const COMMON: &str = include_str!("common.sh");
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
    /// # Errors
    /// One sentence: what is missing, with the remedy.
    pub fn new(program: Program) -> anyhow::Result<Self> {
        let place = Place::new()?;
        let script = place.path().join("program.sh");
        let folder = place
            .path()
            .to_str()
            .context("the folder for temporary files has a name that no shell can be told")?;
        let head = format!("PLACE={}\nPORT={}\n", shlex::try_quote(folder)?, free_port()?);
        fs::write(&script, [&head, COMMON, program.script(), "\n\"$1\"\n"].concat())
            .with_context(|| format!("cannot write {}", script.display()))?;
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
        let mut command = Command::new("sh");
        command
            .arg(&self.script)
            .arg(action)
            .env("QUARTIER_CPUS", nr_cpus.to_string())
            .stdin(Stdio::null());
        command
    }

    /// Does one of the things, and gives what it printed; the error is what it complained of last.
    fn does(&self, action: &str, nr_cpus: usize) -> Result<String, String> {
        let Output { status, stdout, stderr } = self
            .ran(self.command(action, nr_cpus))
            .map_err(|error| format!("sh could not be run: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() {
            return Ok(text(&stdout));
        }
        let complained = text(&stderr);
        let last = complained.lines().rev().find(|line| !line.trim().is_empty());
        Err(last.map_or_else(
            || format!("its `{action}` failed ({status})"),
            |line| line.trim().to_owned(),
        ))
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

/// One that nobody has now.
fn free_port() -> anyhow::Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of 127.0.0.1 can be had")?;
    Ok(listener.local_addr()?.port())
}
