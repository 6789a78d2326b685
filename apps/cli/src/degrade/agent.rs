//! The agent in a JVM: told with the words that it is loaded with, heard through system properties. So no port, no file and
//! no network is needed between the two, and a container is no border.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use super::jvm::Jvm;
use super::{hotspot, properties};
use crate::installed;

const JAR: &str = "quartier-degrade.jar";
/// What the agent writes every second, while it is active.
const STATUS: &str = "quartier.degrade.status";
/// Where the JVM has the agent's jar from.
const ITS_JAR: &str = "quartier.degrade.jar";
/// With the number of the question behind it.
const ANSWER: &str = "quartier.degrade.answer.";
const PROPERTIES_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Raised when a reader of the old form would go wrong.
const STATUS_FORMAT: u64 = 1;

/// A JVM that may have the agent in it.
#[derive(Debug)]
pub struct Agent {
    jvm: Jvm,
}

impl Agent {
    /// # Errors
    /// When there is no such JVM, or it is not ours to ask.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        Ok(Self { jvm: Jvm::find(Path::new("/proc"), pid)? })
    }

    pub fn pid(&self) -> u32 {
        self.jvm.pid()
    }

    pub fn jvm(&self) -> &Jvm {
        &self.jvm
    }

    /// Whether the JVM has a file of this name.
    pub fn sees(&self, path: &Path) -> bool {
        self.jvm.outside(path).is_file()
    }

    fn property(&self, name: &str) -> anyhow::Result<Option<String>> {
        Ok(properties::find(&hotspot::properties(&self.jvm, PROPERTIES_WITHIN)?, name))
    }

    /// What it does.
    ///
    /// # Errors
    /// When it is not there.
    pub fn status(&self) -> anyhow::Result<Value> {
        let pid = self.pid();
        let Some(text) = self.property(STATUS)? else {
            bail!(
                "no agent is active in process {pid}: `quartier degrade attach {pid}` puts it there"
            );
        };
        let status: Value = serde_json::from_str(&text).with_context(|| {
            format!("what the agent in process {pid} says of itself is not understood")
        })?;
        match status["format"].as_u64() {
            Some(STATUS_FORMAT) => Ok(status),
            _ => bail!("the agent in process {pid} is of another version: restart that JVM"),
        }
    }

    /// # Errors
    /// When it is there already.
    pub fn refuse_second(&self) -> anyhow::Result<()> {
        let pid = self.pid();
        match self.property(STATUS)? {
            None => Ok(()),
            Some(_) => bail!(
                "an agent is active in process {pid} already: write its configuration anew, which it reads by itself, or \
                 `quartier degrade detach {pid}` first"
            ),
        }
    }

    /// Tells it something and waits for the answer.
    ///
    /// # Errors
    /// When it refuses, with its reason, or does not answer in time.
    pub fn ask(&self, words: &str, within: Duration) -> anyhow::Result<String> {
        let began = Instant::now();
        let question = format!("{}-{}", std::process::id(), unix_nanos());
        hotspot::load(&self.jvm, &self.jar()?, &format!("ask {question} {words}"), within)?;
        let name = format!("{ANSWER}{question}");
        loop {
            match self.property(&name)? {
                Some(answer) => return understood(&answer),
                None if began.elapsed() > within => bail!(
                    "the agent in process {} has not answered within {} s; its standard error stream may say why",
                    self.pid(),
                    within.as_secs()
                ),
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// The jar, by its name in the JVM's file system: the one that it has, or ours, or in a container a copy of ours.
    fn jar(&self) -> anyhow::Result<PathBuf> {
        if let Some(jar) = self.property(ITS_JAR)? {
            return Ok(PathBuf::from(jar));
        }
        let ours = installed::library(JAR, "the agent").map_err(|_| {
            anyhow!(
                "the agent {JAR} is neither beside this command nor in ../lib/quartier: run `make degrade-jar`, or reinstall"
            )
        })?;
        let ours =
            ours.canonicalize().with_context(|| format!("cannot find {}", ours.display()))?;
        if is_same_file(&ours, &self.jvm.outside(&ours)) {
            return Ok(ours);
        }
        self.copied(&ours).with_context(|| {
            format!(
                "process {} has a file system of its own, and the agent cannot be put there",
                self.pid()
            )
        })
    }

    /// Stays there: a JVM reads from a jar as long as it lives.
    fn copied(&self, jar: &Path) -> anyhow::Result<PathBuf> {
        let inside = Path::new("/tmp");
        let mut copy = tempfile::Builder::new()
            .prefix("quartier-degrade-")
            .suffix(".jar")
            .tempfile_in(self.jvm.outside(inside))?;
        std::io::copy(&mut fs::File::open(jar)?, copy.as_file_mut())?;
        copy.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        let (_, path) = copy.keep()?;
        let name = path.file_name().context("a file has a name")?;
        Ok(inside.join(name))
    }
}

/// `ok` or `refused`, and what there is to say.
fn understood(answer: &str) -> anyhow::Result<String> {
    match answer.split_once(' ') {
        Some(("ok", said)) => Ok(said.to_owned()),
        Some(("refused", why)) => bail!("{}", why.trim_end()),
        _ => bail!("the agent answers \"{answer}\", which is of another version: restart that JVM"),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((of(one), of(other)), (Ok(one), Ok(other)) if one == other)
}

fn unix_nanos() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos()
}
