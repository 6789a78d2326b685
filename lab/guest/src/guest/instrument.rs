//! The instrument of a counted run: QEMU's plugin, and what it must be told of the machine.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use quartier_marker::INTERFACE;
use quartier_model::NodeId;

use crate::topology::Topology;

/// What counts, and how.
#[derive(Clone, Debug)]
pub struct Instrument {
    /// The plugin's library.
    pub library: PathBuf,
    /// Where its result goes.
    pub out: PathBuf,
    /// The geometry's name or file.
    pub geometry: String,
    /// One of so many sets of each cache is modelled; 1 is all.
    pub sets_one_in: u32,
    /// Some translations are compared with QEMU's own.
    pub checks_translations: bool,
    /// Which instructions take lines from other CPUs is told, and where processes have what, to name them.
    pub tells_handovers: bool,
    /// All CPUs in one thread, in the guest's own time: the same run again gives the same counts, if
    /// nothing comes from outside the guest meanwhile.
    pub repeatable: bool,
}

/// Below this, a q35 machine has all memory in one piece.
const PIECE_MAX: u64 = 0xb000_0000;
/// The first piece of a larger one; the rest is above the devices.
const PIECE_LOW: u64 = 0x8000_0000;
const ABOVE_DEVICES: u64 = 1 << 32;

/// A node's memory, or a piece of it: node, physical address, bytes, place in the node's file.
type Piece = (usize, u64, u64, u64);

impl Instrument {
    /// The argument of QEMU's `-plugin`. Each node's memory is in a file that QEMU has open under a
    /// number: the first node's is `first_file`.
    pub fn plugin_arg(&self, topology: &Topology, first_file: i32) -> OsString {
        let mut arg = escaped(&self.library);
        arg.push(format!(",interface={INTERFACE:x},out="));
        arg.push(escaped(&self.out));
        arg.push(",geometry=");
        arg.push(escaped(Path::new(&self.geometry)));
        arg.push(format!(",sets={},cpus=", self.sets_one_in));
        arg.push(cpus(topology));
        arg.push(if self.repeatable { ",threads=single" } else { ",threads=multi" });
        if self.checks_translations {
            arg.push(",check=translations");
        }
        if self.tells_handovers {
            arg.push(",lines=handed-over");
        }
        for (node, start, bytes, offset) in pieces(topology) {
            let file = first_file + node as i32;
            arg.push(format!(",range={node}:{start}:{bytes}:{file}:{offset}"));
        }
        arg
    }
}

/// QEMU lays the nodes out one after the other, around the devices.
fn pieces(topology: &Topology) -> Vec<Piece> {
    let total = topology.memory().0;
    let low = if total >= PIECE_MAX { PIECE_LOW } else { total };
    let mut pieces = Vec::new();
    let mut at = 0;
    for (node, size) in topology.bytes_of_nodes().enumerate() {
        let mut done = 0;
        while done < size {
            let left = size - done;
            let (start, bytes) = match low.checked_sub(at) {
                Some(room @ 1..) => (at, left.min(room)),
                _ => (ABOVE_DEVICES + at - low, left),
            };
            pieces.push((node, start, bytes, done));
            done += bytes;
            at += bytes;
        }
    }
    pieces
}

/// The node of each CPU, in the order in which QEMU makes them. Room for a CPU counts as one.
fn cpus(topology: &Topology) -> String {
    let node_of = |node: usize| {
        let count = topology.machine().node_cpus(NodeId(node as u32)).len();
        std::iter::repeat_n(node.to_string(), count)
    };
    (0..topology.machine().nodes().len()).flat_map(node_of).collect::<Vec<_>>().join("+")
}

/// QEMU takes two commas for one.
fn escaped(path: &Path) -> OsString {
    let mut bytes = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        bytes.extend(std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 }));
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use quartier_model::Bytes;

    use super::*;
    use crate::topology::{CpusPerNode, Memory};

    fn topology(mib: &[u64]) -> Topology {
        let memory = Memory::Each(mib.iter().map(|mib| Bytes::from_mib(*mib)).collect());
        Topology::new(None, &CpusPerNode::Each(vec![2; mib.len()]), Some(&memory), None).unwrap()
    }

    #[test]
    fn a_large_machine_has_a_node_on_both_sides_of_the_devices() {
        const MIB: u64 = 1 << 20;
        let small = pieces(&topology(&[512, 512]));
        assert_eq!(small, [(0, 0, 512 * MIB, 0), (1, 512 * MIB, 512 * MIB, 0)]);
        let large = pieces(&topology(&[1536, 1536]));
        assert_eq!(
            large,
            [
                (0, 0, 1536 * MIB, 0),
                (1, 1536 * MIB, 512 * MIB, 0),
                (1, 4096 * MIB, 1024 * MIB, 512 * MIB),
            ]
        );
    }

    #[test]
    fn the_plugin_hears_of_the_whole_machine() {
        let instrument = Instrument {
            library: "/a,b.so".into(),
            out: "/out".into(),
            geometry: "tsar".to_owned(),
            sets_one_in: 8,
            checks_translations: true,
            tells_handovers: true,
            repeatable: false,
        };
        let argument = instrument.plugin_arg(&topology(&[512, 512]), 20);
        assert_eq!(
            argument.to_str().unwrap().replace(&format!("{INTERFACE:x}"), "INTERFACE"),
            "/a,,b.so,interface=INTERFACE,out=/out,geometry=tsar,sets=8,cpus=0+0+1+1,threads=multi,check=translations,\
             lines=handed-over,\
             range=0:0:536870912:20:0,range=1:536870912:536870912:21:0"
        );
    }
}
