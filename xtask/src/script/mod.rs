//! Python scripts that run in a guest with four nodes, as root.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

/// What all of them import.
const GUEST: &str = include_str!("guest.py");

/// Nodes of the guest.
const NODES: u32 = 4;

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
    pub fn beside(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.with_file_name(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// A program that was built beside the command.
    pub fn built(&self, name: &str) -> PathBuf {
        self.quartier.with_file_name(name)
    }

    /// Runs it; gives what it says. CPUs per node and nodes are its first arguments.
    pub fn run(&self, guest: Guest<'_>, arguments: &[OsString]) -> anyhow::Result<String> {
        let cpus_per_node = guest.cpus_per_node.to_string();
        let output = Command::new(&self.quartier)
            .args(["lab", "run", "--kernel", guest.kernel, "--nodes", &NODES.to_string()])
            .args(["--cpus-per-node", &cpus_per_node])
            .args(["--mem", &format!("{}M", NODES * guest.mib_per_node), "--root"])
            .args(["--timeout", &guest.timeout_s.to_string(), "--", "/usr/bin/python3"])
            .arg(&self.path)
            .args([&cpus_per_node, &NODES.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run quartier")?;
        ensure!(output.status.success(), "the guest ended with {}", output.status);
        String::from_utf8(output.stdout).context("what it said is no text")
    }
}

/// The command that starts quartierd there, configured by a file.
pub fn quartierd(program: &Path, config: &Path) -> Vec<OsString> {
    let options = ["--apply", "--journal", "/tmp/journal", "--log", "/tmp/log", "--config"];
    let program = program.as_os_str().to_owned();
    let options = options.map(OsString::from);
    [program].into_iter().chain(options).chain([config.as_os_str().to_owned()]).collect()
}

/// How quartierd is configured there: a guest is some 30 times slower than a machine, so looking at as many pages takes
/// 30 times the part of a CPU.
pub const CONFIG: &str = "monitor.pages_percent = 15\n";
