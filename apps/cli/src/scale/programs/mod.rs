//! The programs of the study, ready to run: those that Debian has, each below a folder of its own and on a port of its own, by any
//! user. What is done with each is a script of functions (`common.sh` says which).

pub mod sanity;

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

const COMMON: &str = include_str!("common.sh");
/// In memory, so that no disk is measured.
const IN_MEMORY: &str = "/dev/shm";
/// What the largest needs, with room to spare.
const PLACE_BYTES: u64 = 1 << 30;
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
    _place: TempDir,
}

impl Prepared {
    /// # Errors
    /// One sentence: what is missing, with the remedy.
    pub fn new(program: Program) -> anyhow::Result<Self> {
        let place = place()?;
        let script = place.path().join("program.sh");
        let folder = place
            .path()
            .to_str()
            .context("the folder for temporary files has a name that no shell can be told")?;
        let head = format!("PLACE={}\nPORT={}\n", shlex::try_quote(folder)?, free_port()?);
        fs::write(&script, [&head, COMMON, program.script(), "\n\"$1\"\n"].concat())
            .with_context(|| format!("cannot write {}", script.display()))?;
        let prepared = Self { program, script, _place: place };
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
        let output = self.command(action, nr_cpus).output();
        let Output { status, stdout, stderr } =
            output.map_err(|error| format!("sh could not be started: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if status.success() {
            return Ok(text(&stdout));
        }
        let said = text(&stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(last.map_or_else(
            || format!("its `{action}` failed ({status})"),
            |line| line.trim().to_owned(),
        ))
    }
}

/// A folder of its own, in memory where there is room.
fn place() -> anyhow::Result<TempDir> {
    let has_room = |folder: &Path| {
        rustix::fs::statvfs(folder).is_ok_and(|fs| fs.f_bavail * fs.f_frsize >= PLACE_BYTES)
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix("quartier-");
    let in_memory = Path::new(IN_MEMORY);
    if has_room(in_memory)
        && let Ok(place) = builder.tempdir_in(in_memory)
    {
        return Ok(place);
    }
    crate::say::sentence(&format!(
        "{IN_MEMORY} has no GiB free, so files are on a disk, which may be what is measured"
    ));
    builder
        .tempdir()
        .context("no folder can be made for temporary files: set TMPDIR to one that can be written")
}

/// One that nobody has now.
fn free_port() -> anyhow::Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of 127.0.0.1 can be had")?;
    Ok(listener.local_addr()?.port())
}
