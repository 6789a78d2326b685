//! Where CPUs wait for memory: which instructions, for what lies where, and how much of it for other nodes. Lines that another
//! CPU had are [`Lines`](crate::Lines), and none of these.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::codes::{Codes, dearest, keep_dearest};
use crate::handovers::Allocation;
use crate::lines::{CodePlace, Naming, object};

/// What one instruction waited for, of one region of memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalled {
    /// Whose memory: a process's number, or none for the kernel's.
    pub process: Option<u32>,
    /// An address of the region, where the process (or the kernel) has it.
    pub address: u64,
    /// Who asked for the memory there. Absent: nobody who told it, or it was not allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Allocation>,
    /// The instruction, likewise.
    pub instruction: u64,
    /// Which process waited; 0: nobody knows.
    pub by_process: u32,
    /// Whether another node than the CPU's was asked.
    pub is_remote: bool,
    /// So often, at least.
    pub count: u64,
    /// What that has stalled CPUs for, in thousandths of a cycle. Modelled.
    pub modelled_stall_millicycles: u64,
    /// Who called it, by what is behind each call, the innermost first: of many the middle is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<u64>,
}

/// All that was waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Accesses of the program that was measured which asked a node for a line that no other CPU had, or for the right to write it.
    pub total: u64,
    /// What these have stalled its CPUs for, in thousandths of a cycle. Modelled.
    pub modelled_stall_millicycles: u64,
    /// By which instructions, those that waited longest first.
    pub most: Vec<Stalled>,
}

impl Stalls {
    /// Adds what others waited for, or the same ones in another phase.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.modelled_stall_millicycles += other.modelled_stall_millicycles;
        self.most.extend(other.most);
    }

    /// Those that cost most come first, in the same order in every run.
    pub fn sort(&mut self) {
        keep_dearest(&mut self.most, usize::MAX, |stalled| stalled.modelled_stall_millicycles);
    }
}

/// Where CPUs waited for memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryStalls {
    /// Accesses of the program that asked a node for a line.
    pub asked: u64,
    /// What these have stalled its CPUs for, cycles. Modelled.
    pub modelled_stall_cycles: u64,
    /// Those that stalled them longest.
    pub most: Vec<StalledPlace>,
}

/// A function that waits for what it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StalledPlace {
    /// If anybody has a name for it.
    pub function: Option<String>,
    /// File name of the program or library that it is of, or `[kernel]`.
    pub module: Option<String>,
    /// What it uses, if anybody has a name for it.
    pub object: Option<String>,
    /// Who called it, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CodePlace>,
    /// What it waited for of its own node's memory.
    pub near: Waited,
    /// And of other nodes'.
    pub far: Waited,
}

/// How often, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waited {
    /// A node was asked so often.
    pub asked: u64,
    /// And that stalled CPUs for so long, cycles. Modelled.
    pub modelled_stall_cycles: u64,
}

impl Waited {
    /// Both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            modelled_stall_cycles: self.modelled_stall_cycles + other.modelled_stall_cycles,
        }
    }
}

impl StalledPlace {
    /// For both.
    #[must_use]
    pub fn modelled_stall_cycles(&self) -> u64 {
        self.near.modelled_stall_cycles + self.far.modelled_stall_cycles
    }
}

/// By function, its callers and what it uses, with names: so many at most, those that stall CPUs longest.
#[must_use]
pub fn most_stalled(stalls: &Stalls, nr_max: usize, names: &mut dyn Naming) -> MemoryStalls {
    // Near and far: how often, and thousandths of a cycle.
    let mut codes = Codes::new(names);
    let mut places: HashMap<_, [(u64, u64); 2]> = HashMap::new();
    for stalled in &stalls.most {
        let code = codes.number(stalled.process, stalled.instruction);
        let callers = codes.callers(stalled.by_process, &stalled.callers);
        let allocated = stalled.allocated.as_ref();
        let object = object(stalled.process, stalled.address, allocated, codes.names());
        let waited = places.entry((code, object, callers)).or_default();
        let (asked, millicycles) = &mut waited[usize::from(stalled.is_remote)];
        *asked += stalled.count;
        *millicycles += stalled.modelled_stall_millicycles;
    }
    let most = dearest(places, nr_max, |[near, far]| near.1 + far.1);
    let place = |((code, object, callers), waited): (_, [(u64, u64); 2])| {
        let (function, module) = codes.told(code);
        let callers: Vec<u32> = callers;
        let callers = codes.all_told(&callers);
        let [near, far] = waited.map(|(asked, millicycles)| Waited {
            asked,
            modelled_stall_cycles: millicycles / 1000,
        });
        StalledPlace { function, module, object, callers, near, far }
    };
    let modelled_stall_cycles = stalls.modelled_stall_millicycles / 1000;
    MemoryStalls {
        asked: stalls.total,
        modelled_stall_cycles,
        most: most.into_iter().map(place).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::Made;

    fn stalled(address: u64, instruction: u64, is_remote: bool, count: u64) -> Stalled {
        let modelled_stall_millicycles = count * if is_remote { 90_500 } else { 40_500 };
        Stalled {
            process: Some(1),
            by_process: 1,
            address,
            allocated: None,
            instruction,
            is_remote,
            count,
            modelled_stall_millicycles,
            callers: Vec::new(),
        }
    }

    #[test]
    fn regions_of_one_variable_are_one_and_other_nodes_stand_beside_its_own() {
        let most = vec![
            stalled(0x10_0000, 0x1000, true, 100),
            stalled(0x11_0000, 0x1010, true, 100),
            stalled(0x12_0000, 0x1000, false, 100),
            stalled(0x10_0000, 0x2000, false, 10),
            Stalled { process: None, ..stalled(0x10_0000, 0, false, 5) },
        ];
        let total = 1000;
        let stalls = Stalls { total, modelled_stall_millicycles: 99_999_999, most };
        let found = most_stalled(&stalls, 2, &mut Made(20));
        assert_eq!((found.asked, found.modelled_stall_cycles, found.most.len()), (1000, 99_999, 2));
        let first = &found.most[0];
        assert_eq!((first.function.as_deref(), first.object.as_deref()), (Some("f1"), Some("v1")));
        assert_eq!(first.far, Waited { asked: 200, modelled_stall_cycles: 18_100 });
        assert_eq!(first.near, Waited { asked: 100, modelled_stall_cycles: 4_050 });
        // By another caller it is another place.
        let mut called = stalls.clone();
        called.most[1].callers = vec![0x5001, 0x6001];
        let called = most_stalled(&called, 9, &mut Made(20)).most;
        assert_eq!(called.len(), 4);
        let callers = called.iter().map(|place| &place.callers).find(|callers| !callers.is_empty());
        let functions = callers.unwrap().iter().map(|caller| caller.function.as_str());
        assert_eq!(functions.collect::<Vec<_>>(), ["f5", "f6"]);
        // What somebody asked for has that name, wherever it lies.
        let mut asked = stalls.clone();
        for stalled in &mut asked.most[..2] {
            stalled.allocated = Some(Allocation { returns_to: 0x7001, stack: Vec::new() });
        }
        let asked = most_stalled(&asked, 9, &mut Made(20)).most;
        assert_eq!(asked[0].object.as_deref(), Some("memory from f7"));
        assert_eq!((asked.len(), asked[0].far.asked, asked[0].near.asked), (4, 200, 0));
        let all = most_stalled(&stalls, 9, &mut Made(20)).most;
        assert_eq!(
            (all.len(), all[2].function.as_deref(), all[2].object.as_deref()),
            (3, None, None)
        );
    }

    #[test]
    fn those_that_waited_longest_come_first_not_those_that_waited_most_often() {
        let mut stalls = Stalls::default();
        stalls.add(Stalls { total: 10, most: vec![stalled(1, 1, false, 10)], ..Stalls::default() });
        stalls.add(Stalls { total: 9, most: vec![stalled(2, 2, true, 9)], ..Stalls::default() });
        stalls.sort();
        assert_eq!((stalls.total, stalls.most.len(), stalls.most[0].address), (19, 2, 2));
    }
}
