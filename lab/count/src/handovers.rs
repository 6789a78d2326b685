//! Lines of memory that CPUs take from each other: how often, by which instruction, at which word.

use quartier_memmodel::Access;
use serde::{Deserialize, Serialize};

use crate::codes::keep_dearest;

/// What one instruction took on one CPU, of one word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handed {
    /// Whose memory: a process's number, or none for the kernel's.
    pub process: Option<u32>,
    /// Which process took it; 0: nobody knows.
    #[serde(default)]
    pub by_process: u32,
    /// Which thread took it; 0: nobody knows.
    pub thread: u32,
    /// The access's first byte, where the process (or the kernel) has it.
    pub address: u64,
    /// Who asked for that memory. Absent: nobody who told it, or it was not allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Allocation>,
    /// The instruction, likewise.
    pub instruction: u64,
    /// Who took it.
    pub cpu: u16,
    /// To do what.
    pub access: Access,
    /// So often, at least.
    pub count: u64,
    /// What that has stalled the CPU for, in thousandths of a cycle. Modelled.
    #[serde(default)]
    pub modelled_stall_millicycles: u64,
    /// Who called it, by what is behind each call, the innermost first: of many the middle is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<u64>,
}

/// A call that gave a program memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// Where it returns to.
    pub returns_to: u64,
    /// What is on the stack then, as far as it was read.
    pub stack: Vec<u64>,
}

/// All that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handovers {
    /// Lines that CPUs took from each other for the program that was measured.
    pub total: u64,
    /// And for anybody else, the kernel's own threads say, and CPUs that were idle.
    pub of_the_rest: u64,
    /// What all that was taken for the program has stalled its CPUs for, in thousandths of a cycle. Modelled.
    #[serde(default)]
    pub modelled_stall_millicycles: u64,
    /// Of which instructions are known that took some more than once, most first.
    pub most: Vec<Handed>,
}

impl Handovers {
    /// Adds what others took, or the same ones in another phase.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.of_the_rest += other.of_the_rest;
        self.modelled_stall_millicycles += other.modelled_stall_millicycles;
        self.most.extend(other.most);
    }

    /// Leaves so many at most, those that took most.
    pub fn keep_most(&mut self, nr_max: usize) {
        keep_dearest(&mut self.most, nr_max, |handed| handed.count);
    }
}
