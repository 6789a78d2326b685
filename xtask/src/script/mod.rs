//! Python scripts that run in a guest with four nodes, as root.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// What all of them import.
const GUEST: &str = include_str!("guest.py");

/// Nodes of the guest.
const NODES: u32 = 4;

/// How quartierd is configured there: a guest is some 30 times slower than a machine, so looking at as many pages takes
/// 30 times the part of a CPU.
const CONFIG: &str = "monitor.pages_percent = 15\n";

/// A script where guests see it: beside the built programs.
#[derive(Debug)]
pub struct Script {
    quartier: PathBuf,
    path: PathBuf,
}

/// Where processes and their memory were at one time, as a script says it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Look {
    pub seconds: f64,
    local_bytes: u64,
    resident_bytes: u64,
}

impl Look {
    /// The part that is where the threads are; `None` of nothing.
    pub fn local(&self) -> Option<f64> {
        (self.resident_bytes > 0).then(|| self.local_bytes as f64 / self.resident_bytes as f64)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line<End> {
    Look(Look),
    /// By the daemon, for people.
    Said(IgnoredAny),
    End(End),
}

/// Takes apart what a script says: its looks, and what it says at the end.
pub fn read<End: DeserializeOwned>(said: &str) -> anyhow::Result<(Vec<Look>, End)> {
    let (mut looks, mut end) = (Vec::new(), None);
    for line in said.lines().filter(|line| line.starts_with('{')) {
        match serde_json::from_str(line).with_context(|| format!("not understood: {line}"))? {
            Line::Look(look) => looks.push(look),
            Line::Said(_) => {}
            Line::End(last) => end = Some(last),
        }
    }
    Ok((looks, end.context("it did not end well")?))
}

/// The guest that a script runs in.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    pub kernel: &'a str,
    pub cpus_per_node: u32,
    pub mib_per_node: u32,
    pub timeout_s: u32,
}

impl Guest<'_> {
    /// As results name it.
    pub fn name(&self) -> String {
        format!("{NODES}x{}-{}", self.cpus_per_node, self.kernel)
    }
}

impl Script {
    /// Writes it, as a file of that name.
    pub fn new(name: &str, text: &str) -> anyhow::Result<Self> {
        let quartier = crate::release_build()?;
        let quartier =
            quartier.canonicalize().context("there is no release build: run `make build`")?;
        let path = quartier.with_file_name(name);
        let script = Self { quartier, path };
        script.beside(name, text)?;
        script.beside("guest.py", GUEST)?;
        Ok(script)
    }

    /// Writes a file that the guest sees too.
    fn beside(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.with_file_name(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// The command that starts quartierd there.
    pub fn quartierd(&self) -> anyhow::Result<Vec<OsString>> {
        let program = self.quartier.with_file_name("quartierd");
        let config = self.beside("quartierd.toml", CONFIG)?;
        let options = ["--apply", "--journal", "/tmp/journal", "--log", "/tmp/log", "--config"];
        let options = options.map(OsString::from).into_iter();
        Ok([program.into()].into_iter().chain(options).chain([config.into()]).collect())
    }

    /// Runs it; gives what it says. CPUs per node and nodes are its first arguments.
    pub fn run(&self, guest: Guest<'_>, arguments: &[OsString]) -> anyhow::Result<String> {
        let cpus_per_node = guest.cpus_per_node.to_string();
        let mut command = Command::new(&self.quartier);
        command
            .args(["lab", "run", "--kernel", guest.kernel, "--nodes", &NODES.to_string()])
            .args(["--cpus-per-node", &cpus_per_node])
            .args(["--mem", &format!("{}M", NODES * guest.mib_per_node), "--root"])
            .args(["--timeout", &guest.timeout_s.to_string(), "--", "/usr/bin/python3"])
            .arg(&self.path)
            .args([&cpus_per_node, &NODES.to_string()])
            .args(arguments);
        crate::said_by(&mut command, "quartier lab run")
    }
}
