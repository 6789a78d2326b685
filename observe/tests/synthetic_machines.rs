//! The made-up machines of `observe/machines`: files as a kernel would give them, written by this
//! generator and marked as synthetic. `QUARTIER_BLESS=1 cargo test -p quartier-observe` writes
//! them anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use quartier_observe::Gathered;

#[derive(Default)]
struct Files(BTreeMap<String, String>);

impl Files {
    fn put(&mut self, path: impl Into<String>, text: impl std::fmt::Display) {
        self.0.insert(path.into(), format!("{text}\n"));
    }

    fn cpus(&mut self, present: &str, online: &str) {
        self.put("proc/sys/kernel/osrelease", "6.12.0");
        self.put("sys/devices/system/cpu/present", present);
        self.put("sys/devices/system/cpu/online", online);
    }

    fn node(&mut self, node: u32, cpus: &str, memory_mib: u64, distances: &[u32]) {
        let dir = format!("sys/devices/system/node/node{node}");
        let memory = format!("Node {node} MemTotal:       {} kB", memory_mib * 1024);
        let mut row = String::new();
        for distance in distances {
            let separator = if row.is_empty() { "" } else { " " };
            let _ = write!(row, "{separator}{distance}");
        }
        self.put(format!("{dir}/cpulist"), cpus);
        self.put(format!("{dir}/meminfo"), memory);
        self.put(format!("{dir}/distance"), row);
    }

    fn cpu(&mut self, cpu: u32, package: u32, core: u32, llc: (&str, &str)) {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        self.put(format!("{dir}/topology/physical_package_id"), package);
        self.put(format!("{dir}/topology/core_id"), core);
        self.put(format!("{dir}/cache/index3/level"), 3);
        for index in 0..3 {
            self.put(format!("{dir}/cache/index{index}/level"), index.max(1));
        }
        self.put(format!("{dir}/cache/index3/size"), llc.0);
        self.put(format!("{dir}/cache/index3/shared_cpu_list"), llc.1);
        self.put(format!("{dir}/cache/index3/type"), "Unified");
    }
}

/// Two sockets of four nodes each, two caches per node, four cores per cache, two threads per
/// core: what a server processor of many chiplets looks like with four nodes per socket.
fn chiplets() -> Files {
    let mut files = Files::default();
    files.cpus("0-127", "0-127");
    files.put("sys/devices/system/node/online", "0-7");
    for node in 0..8 {
        let package = node / 4;
        let row: Vec<_> = (0..8)
            .map(|to| {
                if to == node {
                    10
                } else if to / 4 == package {
                    12
                } else {
                    32
                }
            })
            .collect();
        let (first, twin) = (node * 8, node * 8 + 64);
        let cpus = format!("{first}-{},{twin}-{}", first + 7, twin + 7);
        files.node(node, &cpus, if node == 0 { 63_900 } else { 64_460 }, &row);
        for core in first..first + 8 {
            let cache = core / 4 * 4;
            let sharers = format!("{cache}-{},{}-{}", cache + 3, cache + 64, cache + 67);
            for cpu in [core, core + 64] {
                files.cpu(cpu, package, core % 32, ("32768K", &sharers));
            }
        }
    }
    files
}

/// Two sockets, each with a memory expander that is a node without CPUs, numbered after a gap.
fn expanders() -> Files {
    let mut files = Files::default();
    files.cpus("0-31", "0-31");
    files.put("sys/devices/system/node/online", "0-1,4-5");
    files.node(0, "0-15", 257_000, &[10, 21, 14, 24]);
    files.node(1, "16-31", 258_000, &[21, 10, 24, 14]);
    files.node(4, "", 131_072, &[14, 24, 10, 26]);
    files.node(5, "", 131_072, &[24, 14, 26, 10]);
    for cpu in 0..32 {
        let (package, sharers) = if cpu < 16 { (0, "0-15") } else { (1, "16-31") };
        files.cpu(cpu, package, cpu % 16, ("61440K", sharers));
    }
    files
}

/// What nobody would buy: offline CPUs, a node without memory, one without a known cache, a CPU
/// of no known node, gaps everywhere.
fn oddities() -> Files {
    let mut files = Files::default();
    files.cpus("0-9,16-17", "0-4,6,8,16-17");
    files.put("sys/devices/system/node/online", "0,2,7");
    files.node(0, "0-3", 8192, &[10, 16, 40]);
    files.node(2, "4,6", 0, &[16, 10, 40]);
    files.node(7, "16-17", 2048, &[40, 40, 10]);
    for cpu in 0..4 {
        files.cpu(cpu, 0, cpu / 2, ("16384K", "0-3"));
    }
    files.put("sys/devices/system/cpu/cpu4/topology/physical_package_id", 1);
    files.put("sys/devices/system/cpu/cpu6/topology/physical_package_id", -1);
    files
}

#[test]
fn made_up_machines_are_as_the_generator_makes_them() {
    let machines = [
        ("chiplets-2s-8n", chiplets()),
        ("expanders-2s-4n", expanders()),
        ("oddities", oddities()),
    ];
    for (name, files) in machines {
        let gathered = Gathered::synthetic(name, files.0);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("machines/{name}.json"));
        if env::var_os("QUARTIER_BLESS").is_some() {
            fs::write(&path, gathered.to_json()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), gathered.to_json(), "{name}");
    }
}
