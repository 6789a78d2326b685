//! A made-up `/sys` and `/proc` in a temporary directory.

use std::fs;
use std::path::PathBuf;

use quartier_model::Machine;
use quartier_observe::{Error, Host};
use tempfile::TempDir;

pub struct FakeSys {
    dir: TempDir,
}

#[allow(dead_code)] // Each test file uses its part.
impl FakeSys {
    /// A kernel, and nothing else.
    pub fn new() -> Self {
        let fake = Self { dir: tempfile::tempdir().unwrap() };
        fake.write("proc/sys/kernel/osrelease", "6.1.0-test\n");
        fake
    }

    /// Nodes of CPUs in the kernel's list format (empty for a CPU-less node), 1 GiB each, 20
    /// between them; every CPU present and online, no caches and no packages.
    pub fn with_nodes(nodes: &[(u32, &str)]) -> Self {
        let fake = Self::new();
        let online: Vec<_> = nodes.iter().map(|(node, _)| node.to_string()).collect();
        fake.write("sys/devices/system/node/online", &online.join(","));
        for (at, (node, cpus)) in nodes.iter().enumerate() {
            let dir = format!("sys/devices/system/node/node{node}");
            fake.write(&format!("{dir}/cpulist"), cpus);
            fake.write(&format!("{dir}/meminfo"), &format!("Node {node} MemTotal: 1048576 kB\n"));
            let row: Vec<_> =
                (0..nodes.len()).map(|to| if to == at { "10" } else { "20" }).collect();
            fake.write(&format!("{dir}/distance"), &row.join(" "));
        }
        let cpus: Vec<_> =
            nodes.iter().map(|(_, cpus)| *cpus).filter(|cpus| !cpus.is_empty()).collect();
        fake.cpus(&cpus.join(","), &cpus.join(","));
        fake
    }

    pub fn cpus(&self, present: &str, online: &str) {
        self.write("sys/devices/system/cpu/present", present);
        self.write("sys/devices/system/cpu/online", online);
    }

    pub fn cache(&self, cpu: u32, index: u32, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{file}");
            self.write(&path, text);
        }
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn host(&self) -> Host {
        Host::at(self.dir.path(), "fake")
    }

    pub fn machine(&self) -> Machine {
        self.host().machine().unwrap()
    }

    /// The error of reading the machine, as the user sees it.
    pub fn error(&self) -> String {
        let error: Error = self.host().machine().unwrap_err();
        error.to_string()
    }
}
