//! A saved copy of the files that tell a machine's topology, in one file.
//!
//! The files are saved as the kernel gave them, not as this version understood them, so a better
//! reader can read old fixtures again. One JSON object, path to text, sorted: every tool reads it,
//! a diff shows which file of /sys changed, and a pull request needs no archive. Left out is what
//! changes from minute to minute (all of `meminfo` but the total) and whatever could tell the
//! machine from another of its kind: serial numbers, addresses, the host name, the local suffix of
//! the kernel's version.

use quartier_model::{
    MACHINE_FORMAT, Machine, MachineError, MachineParts, NodeOsId, Origin, check_name,
};
use serde::{Deserialize, Serialize};

use crate::cpus::{self, CACHE_INDICES_MAX};
use crate::error::printable;
use crate::host::Files;
use crate::{Error, Host, Result, json_complaint, parse};

/// The version of the file; raised when a reader of the old form would go wrong.
pub const GATHERED_FORMAT: u32 = 1;

/// What a machine without a name is called.
const UNNAMED: &str = "unnamed";

/// Saved without what follows the first hyphen, which can name who built the kernel.
const RELEASE: &str = "proc/sys/kernel/osrelease";

/// Files of every machine.
const MACHINE_FILES: [&str; 8] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/possible",
    "sys/devices/system/cpu/present",
    "sys/devices/system/node/has_cpu",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/has_normal_memory",
    "sys/devices/system/node/online",
    "sys/devices/system/node/possible",
];

/// Files of every node; the last two tell which nodes' CPUs reach its memory fastest.
const NODE_FILES: [&str; 4] =
    ["cpulist", "distance", "access0/initiators/read_latency", "access0/initiators/read_bandwidth"];

/// Files of every CPU. The reader does not use all of them yet.
const CPU_FILES: [&str; 8] = [
    "cpu_capacity",
    "cpufreq/cpuinfo_max_freq",
    "topology/cluster_id",
    "topology/core_cpus_list",
    "topology/core_id",
    "topology/die_id",
    "topology/package_cpus_list",
    "topology/physical_package_id",
];

/// Files of every cache.
const CACHE_FILES: [&str; 5] = ["id", "level", "shared_cpu_list", "size", "type"];

/// A saved copy of the files that tell a machine's topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gathered {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Set in files that a program or a person made up: no such machine was seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    synthetic: bool,
    files: Files,
}

impl Gathered {
    /// Saves a host's files. The machine is read first: what cannot be read is not worth saving.
    ///
    /// # Errors
    /// When the machine cannot be read, or could not be called so.
    pub fn gather(host: &Host, name: Option<String>) -> Result<Self> {
        name.as_deref().map_or(Ok(()), check_name).map_err(Error::Name)?;
        let machine = host.machine()?;
        let mut files = Files::new();
        let mut save = |path: String| -> Result<bool> {
            let text = host.read(&path)?;
            Ok(text.map(|text| files.insert(path, text)).is_some())
        };
        for path in MACHINE_FILES {
            save(path.to_owned())?;
        }
        for node in machine.nodes() {
            for file in NODE_FILES {
                save(format!("sys/devices/system/node/node{}/{file}", node.os_id.0))?;
            }
        }
        for cpu in machine.cpus() {
            let dir = format!("{}/cpu{}", cpus::DIR, cpu.os_id.0);
            for file in CPU_FILES {
                save(format!("{dir}/{file}"))?;
            }
            for index in 0..CACHE_INDICES_MAX {
                let saved =
                    CACHE_FILES.map(|file| save(format!("{dir}/cache/index{index}/{file}")));
                if !saved
                    .into_iter()
                    .try_fold(false, |any, saved| saved.map(|saved| any | saved))?
                {
                    break;
                }
            }
        }
        save_memory(host, &machine, &mut files)?;
        if let Some(release) = host.read(RELEASE)? {
            let version = release.split('-').next().unwrap_or_default().trim();
            files.insert(RELEASE.to_owned(), format!("{version}\n"));
        }
        Ok(Self { format: GATHERED_FORMAT, name, synthetic: false, files })
    }

    /// Reads a saved file's text.
    ///
    /// # Errors
    /// When it is not one, or one of another format.
    pub fn from_json(text: &str) -> Result<Self> {
        let gathered = serde_json::from_str::<Self>(text);
        // A later version may say more than this one knows: that it is later is what is wrong.
        let found = match &gathered {
            Ok(gathered) => Some(u64::from(gathered.format)),
            Err(_) => format_of(&serde_json::from_str(text).unwrap_or_default()),
        };
        if let Some(found) = found.filter(|found| *found != u64::from(GATHERED_FORMAT)) {
            return Err(Error::Format { found });
        }
        let gathered = gathered.map_err(|error| Error::Json {
            writer: "quartier gather",
            complaint: json_complaint(&error),
        })?;
        check_name(gathered.name()).map_err(Error::Name)?;
        Ok(gathered)
    }

    /// The text of the file: the same machine always gives the same.
    ///
    /// # Panics
    /// Never: strings serialise.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings serialise");
        text.push('\n');
        text
    }

    /// What the machine is called.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(UNNAMED)
    }

    /// Calls a machine that has no name after its file.
    #[must_use]
    pub fn or_named(mut self, name: &str) -> Self {
        let given = self.name.take().filter(|name| !name.trim().is_empty());
        self.name = Some(given.unwrap_or_else(|| printable(name)));
        self
    }

    /// Whether it was made up.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.synthetic
    }

    /// A made-up machine from files as a kernel would give them.
    #[must_use]
    pub fn synthetic(name: &str, files: impl IntoIterator<Item = (String, String)>) -> Self {
        let files = files.into_iter().collect();
        Self { format: GATHERED_FORMAT, name: Some(name.to_owned()), synthetic: true, files }
    }

    pub(crate) fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
}

/// Of `meminfo` the total alone: the rest changes while we look. The whole machine's where no node
/// has one.
fn save_memory(host: &Host, machine: &Machine, files: &mut Files) -> Result<()> {
    let node_path =
        |NodeOsId(os_id): NodeOsId| format!("sys/devices/system/node/node{os_id}/meminfo");
    let of_nodes = machine.nodes().iter().map(|node| node_path(node.os_id));
    for path in of_nodes.chain(["proc/meminfo".to_owned()]) {
        if path == "proc/meminfo" && files.keys().any(|path| path.ends_with("/meminfo")) {
            break;
        }
        let Some(text) = host.read(&path)? else { continue };
        if let Some(line) = text.lines().find(|line| parse::is_meminfo_line(line, "MemTotal")) {
            files.insert(path, format!("{line}\n"));
        }
    }
    Ok(())
}

/// The machine of a file that `quartier gather` or `quartier topo --json` made. Whatever the file
/// says, the machine is not [`Origin::Live`]: it must not be acted on.
///
/// # Errors
/// When the text is neither, or the machine in it cannot be read.
pub fn machine_from_json(text: &str, name: &str) -> Result<Machine> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        Error::NotAMachine(format!("its text is no JSON ({})", json_complaint(&error)))
    })?;
    if value.get("files").is_some() {
        return Host::gathered(Gathered::from_json(text)?.or_named(name)).machine();
    }
    if value.get("nodes").is_none() {
        return Err(Error::NotAMachine("it has neither `files` nor `nodes`".to_owned()));
    }
    if let Some(found) = format_of(&value).filter(|found| *found != u64::from(MACHINE_FORMAT)) {
        return Err(Error::FileMachine(MachineError::Format { found }));
    }
    // From the text, not from the value: so a complaint has the line that it is about.
    let mut parts: MachineParts = serde_json::from_str(text).map_err(|error| Error::Json {
        writer: "quartier topo --json",
        complaint: json_complaint(&error),
    })?;
    if let Origin::Live { .. } = parts.origin {
        parts.origin = Origin::Gathered { name: printable(name) };
    }
    Machine::try_from(parts).map_err(Error::FileMachine)
}

/// The version of a file, of any version.
fn format_of(file: &serde_json::Value) -> Option<u64> {
    file.get("format")?.as_u64()
}
