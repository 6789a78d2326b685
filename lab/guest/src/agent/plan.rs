//! What a new process is to become, in memory: it reads it through /proc, and writes there why it
//! could not.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use quartier_marker::Facts;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::frame::Start;

/// What the process is for the instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The command, counted from its begin.
    Command,
    /// A server, counted once it has its load.
    Server,
    /// A server's load: counting begins with it, but it is not counted itself.
    Load,
}

/// The plan of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub start: Start,
    pub role: Role,
    /// What the instrument must know of the kernel, as words, if anything is counted.
    facts: Option<Vec<u64>>,
}

/// A plan where its process finds it.
#[derive(Debug)]
pub struct PlanFile(File);

/// What a process left of its plan.
#[derive(Debug, Serialize, Deserialize)]
enum Content {
    Plan(Box<Plan>),
    /// It could not follow it, and why.
    Failure(String),
}

impl Plan {
    pub fn new(start: Start, role: Role, facts: Option<&Facts>) -> Self {
        Self { start, role, facts: facts.map(|facts| facts.words().to_vec()) }
    }

    pub fn facts(&self) -> Option<Facts> {
        self.facts.as_deref().and_then(Facts::from_words)
    }

    pub fn write(self) -> Result<PlanFile> {
        let making = "make a memory file";
        let file = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC).doing(making)?;
        let mut file = PlanFile(File::from(file));
        file.put(&Content::Plan(Box::new(self)))?;
        Ok(file)
    }
}

impl PlanFile {
    /// The plan at `path`, for the process that follows it.
    pub fn open(path: &Path) -> Result<(Plan, Self)> {
        let file = File::options().read(true).write(true).open(path).path("open", path)?;
        let mut file = Self(file);
        match file.get()? {
            Content::Plan(plan) => Ok((*plan, file)),
            Content::Failure(why) => Err(Error::Refused(why)),
        }
    }

    /// The command that becomes what the plan says.
    pub fn command(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.env_clear().args(["lab", "enter"]);
        command.arg(format!("/proc/1/fd/{}", self.0.as_raw_fd()));
        command
    }

    /// Leaves word why the plan was not followed.
    pub fn fail(&mut self, why: &str) -> Result<()> {
        self.put(&Content::Failure(why.to_owned()))
    }

    /// Why the plan was not followed, if it was not.
    pub fn failure(&mut self) -> Option<String> {
        match self.get() {
            Ok(Content::Failure(why)) => Some(why),
            _ => None,
        }
    }

    fn put(&mut self, content: &Content) -> Result<()> {
        let bytes = postcard::to_stdvec(content).map_err(io::Error::other).doing("write a plan")?;
        self.0.set_len(0).doing("write a plan")?;
        self.0.seek(SeekFrom::Start(0)).doing("write a plan")?;
        self.0.write_all(&bytes).doing("write a plan")
    }

    fn get(&mut self) -> Result<Content> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0)).doing("read a plan")?;
        self.0.read_to_end(&mut bytes).doing("read a plan")?;
        postcard::from_bytes(&bytes).map_err(io::Error::other).doing("read a plan")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_answered() {
        let start = Start { umask: 7, ..Start::default() };
        let plan = Plan::new(start, Role::Load, Some(&Facts { tgid: 3, ..Facts::default() }));
        let mut agents = plan.clone().write().unwrap();
        let path = format!("/proc/self/fd/{}", agents.0.as_raw_fd());
        let (read, mut processes) = PlanFile::open(Path::new(&path)).unwrap();
        assert_eq!((&read, read.facts().map(|facts| facts.tgid)), (&plan, Some(3)));
        assert_eq!(agents.failure(), None);
        processes.fail("no").unwrap();
        assert_eq!(agents.failure().as_deref(), Some("no"));
        assert!(PlanFile::open(Path::new(&path)).is_err());
    }
}
