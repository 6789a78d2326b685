//! Which code executes the instructions, and stalls for what is near: every so many of either it is looked at, which code that was.
//! Where CPUs wait for other nodes, for memory or for each other is known one by one: see [`Lines`](crate::Lines) and
//! [`MemoryStalls`](crate::MemoryStalls), and none of that is here.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::codes::{Codes, dearest, keep_dearest};
use crate::lines::{CodePlace, Naming};

/// A look at what is executed stands for so many instructions: a prime, as loops have other lengths.
pub const INSTRUCTIONS_PER_LOOK: u64 = 1009;
/// And a look at what stalls for so many cycles. Modelled.
pub const CYCLES_PER_LOOK: u64 = 997;

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It executes.
    Executes,
    /// It waits for a cache of its own node, or for a translation.
    Stalls,
}

/// Looks that found one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Looked {
    /// Doing what.
    pub doing: Doing,
    /// Which CPU.
    pub cpu: u16,
    /// While no other one ran any of the program.
    pub is_alone: bool,
    /// Whose code: a process's number, or none for the kernel's.
    pub process: Option<u32>,
    /// An instruction of it, where the process (or the kernel) has it.
    pub instruction: u64,
    /// Which process executes it; 0: nobody knows.
    pub by_process: u32,
    /// Who called it, by what is behind each call, the innermost first: of many the middle is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<u64>,
    /// So many.
    pub count: u64,
}

/// All looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Looks {
    /// How many there were.
    pub total: u64,
    /// Of each CPU the cycles, instructions and all stalls, while no other one ran any of the program nor would have if it had been free. Modelled.
    #[serde(default)]
    pub alone: BTreeMap<u16, u64>,
    /// What was found, most first.
    pub most: Vec<Looked>,
}

impl Looks {
    /// Adds what another CPU did, or the same one in another phase.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        for (cpu, cycles) in other.alone {
            *self.alone.entry(cpu).or_default() += cycles;
        }
        self.most.extend(other.most);
    }

    /// Those that cost most come first, in the same order in every run.
    pub fn sort(&mut self) {
        keep_dearest(&mut self.most, usize::MAX, |looked| looked.count);
    }
}

/// Which code is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executed {
    /// Looks that there were, at instructions and at stalls.
    pub looks: u64,
    /// Of each CPU the cycles while no other one ran any of the program. Modelled; empty: nobody noted them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub alone_cycles: BTreeMap<u16, u64>,
    /// Where most was found.
    pub most: Vec<ExecutedPlace>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutedPlace {
    /// The file that the process is run from which executed it; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// If anybody has a name for it.
    pub function: Option<String>,
    /// File name of the program or library that it is of, or `[kernel]`.
    pub module: Option<String>,
    /// Who called it, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CodePlace>,
    /// Instructions that it executed: as many as its looks stand for.
    pub instructions: u64,
    /// Cycles that it stalled for what is near, likewise. Modelled.
    pub modelled_stall_cycles: u64,
    /// Of both each CPU's, by number; empty: nobody noted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<ExecutedOn>,
}

/// What a CPU executed of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutedOn {
    /// The CPU.
    pub cpu: u16,
    /// Instructions that it executed.
    pub instructions: u64,
    /// Cycles that it stalled. Modelled.
    pub modelled_stall_cycles: u64,
    /// Of both together, what no other CPU ran any of the program beside.
    pub alone: u64,
}

/// By function and its callers, with names: so many at most.
#[must_use]
pub fn most_executed(looks: &Looks, nr_max: usize, names: &mut dyn Naming) -> Executed {
    let mut codes = Codes::new(names);
    let mut places: HashMap<_, BTreeMap<u16, ExecutedOn>> = HashMap::new();
    for looked in &looks.most {
        let code = codes.number(looked.process, looked.instruction);
        let callers = codes.callers(looked.by_process, &looked.callers);
        let program = codes.program(looked.by_process);
        let on = places.entry((program, code, callers)).or_default().entry(looked.cpu).or_default();
        on.cpu = looked.cpu;
        let (sum, each) = match looked.doing {
            Doing::Executes => (&mut on.instructions, INSTRUCTIONS_PER_LOOK),
            Doing::Stalls => (&mut on.modelled_stall_cycles, CYCLES_PER_LOOK),
        };
        *sum += looked.count * each;
        if looked.is_alone {
            on.alone += looked.count * each;
        }
    }
    let cycles = |on: &ExecutedOn| on.instructions + on.modelled_stall_cycles;
    let most = dearest(places, nr_max, |cpus| cpus.values().map(cycles).sum());
    let place = |((program, code, callers), cpus): (_, BTreeMap<u16, ExecutedOn>)| {
        let (program, _) = codes.told(program);
        let (function, module) = codes.told(code);
        let callers: Vec<u32> = callers;
        let callers = codes.all_told(&callers);
        let cpus: Vec<ExecutedOn> = cpus.into_values().collect();
        let instructions = cpus.iter().map(|on| on.instructions).sum();
        let modelled_stall_cycles = cpus.iter().map(|on| on.modelled_stall_cycles).sum();
        ExecutedPlace {
            program,
            function,
            module,
            callers,
            instructions,
            modelled_stall_cycles,
            cpus,
        }
    };
    let most = most.into_iter().map(place).collect();
    Executed { looks: looks.total, alone_cycles: looks.alone.clone(), most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::Made;

    #[test]
    fn a_functions_instructions_and_stalls_are_put_together() {
        let looked = |doing, instruction, count| Looked {
            doing,
            cpu: 2,
            is_alone: doing == Doing::Stalls,
            process: Some(1),
            instruction,
            by_process: 1,
            callers: vec![0x9001],
            count,
        };
        let mut looks = Looks {
            total: 13,
            alone: BTreeMap::from([(2, 7)]),
            most: vec![
                looked(Doing::Executes, 0x1000, 3),
                looked(Doing::Executes, 0x1ff0, 2),
                looked(Doing::Stalls, 0x1008, 4),
                looked(Doing::Executes, 0x2000, 1),
                Looked { callers: Vec::new(), ..looked(Doing::Executes, 0x1000, 1) },
                Looked { cpu: 1, ..looked(Doing::Executes, 0x1000, 1) },
                Looked { by_process: 2, ..looked(Doing::Executes, 0x2000, 2) },
            ],
        };
        let found = most_executed(&looks, 10, &mut Made(0));
        assert_eq!(found.alone_cycles, looks.alone);
        let each = INSTRUCTIONS_PER_LOOK;
        let told: Vec<_> = found
            .most
            .iter()
            .map(|of| {
                let function = of.function.as_deref().unwrap();
                assert_eq!(
                    of.program.as_deref(),
                    Some(if function == "f2" && of.instructions > each { "p2" } else { "p1" })
                );
                (function, of.callers.len(), of.instructions, of.modelled_stall_cycles)
            })
            .collect();
        let cycles = 4 * CYCLES_PER_LOOK;
        let expected = [
            ("f1", 1, 6 * each, cycles),
            ("f2", 1, 2 * each, 0),
            ("f1", 0, each, 0),
            ("f2", 1, each, 0),
        ];
        assert_eq!(told, expected);
        let on = |cpu, instructions, modelled_stall_cycles| ExecutedOn {
            cpu,
            instructions,
            modelled_stall_cycles,
            alone: modelled_stall_cycles,
        };
        assert_eq!(found.most[0].cpus, [on(1, each, 0), on(2, 5 * each, cycles)]);
        assert_eq!(most_executed(&looks, 1, &mut Made(0)).most.len(), 1);
        looks.sort();
        assert_eq!(looks.most[0], looked(Doing::Stalls, 0x1008, 4));
        assert_eq!(looks.total, 13);
        looks.add(Looks { alone: BTreeMap::from([(1, 4), (2, 5)]), ..Looks::default() });
        assert_eq!(looks.alone, BTreeMap::from([(1, 4), (2, 12)]));
    }
}
