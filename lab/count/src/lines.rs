//! Of the lines that CPUs take from each other those that are taken most: what lies there, who takes it, and whether it is one
//! word that all want or words of several that lie too close.

use std::collections::BTreeMap;

use quartier_memmodel::Access;
use serde::{Deserialize, Serialize};

use crate::handovers::{Allocation, Handed, Handovers};

/// A word is one thread's where so much of what is taken of it is that thread's.
const OWN_SHARE: f64 = 0.9;

/// Why CPUs take a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nature {
    /// They want the same word.
    Shared,
    /// Each thread (of the kernel's: each CPU) wants a word of its own, and they share the line.
    FalselyShared,
}

/// What CPUs took from each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Lines, all that were taken for the program.
    pub taken: u64,
    /// And for anybody else: none of those is below.
    pub taken_by_the_rest: u64,
    /// What all that was taken for the program has stalled its CPUs for, cycles. Modelled.
    #[serde(default)]
    pub modelled_stall_cycles: u64,
    /// Those that were taken most.
    pub most: Vec<ContendedLine>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContendedLine {
    /// Whose memory; none: the kernel's.
    pub process: Option<u32>,
    /// Its first byte.
    pub address: u64,
    /// So often.
    pub taken: u64,
    /// Of all that was taken.
    pub share: f64,
    /// Why.
    pub nature: Nature,
    /// Of the line, most first.
    pub words: Vec<Word>,
}

/// What CPUs wanted of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The first byte of eight.
    pub address: u64,
    /// What lies there, if anybody has a name for it.
    pub object: Option<String>,
    /// So often.
    pub taken: u64,
    /// By whom.
    pub cpus: Vec<u16>,
    /// By which threads.
    pub threads: Vec<u32>,
    /// By what, most first.
    pub takers: Vec<Taker>,
}

/// Code that takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taker {
    /// If anybody has a name for it.
    pub function: Option<String>,
    /// File name of the program or library that it is of, or `[kernel]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// To do what.
    pub access: Access,
    /// So often.
    pub taken: u64,
    /// What that has stalled CPUs for, cycles. Modelled.
    #[serde(default)]
    pub modelled_stall_cycles: u64,
    /// Who called it, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CodePlace>,
}

/// Where code is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePlace {
    /// Its function.
    pub function: String,
    /// File name of the program or library, or `[kernel]`.
    pub module: String,
}

/// What names addresses: of a process, or of the kernel.
pub trait Naming {
    /// The function that an instruction is of.
    fn code(&mut self, process: Option<u32>, address: u64) -> Option<CodePlace>;
    /// What lies at an address.
    fn object(&mut self, process: Option<u32>, address: u64) -> Option<String>;
    /// The file that a process is run from.
    fn program(&mut self, process: u32) -> Option<String>;
    /// Memory of a process's, by who asked for it.
    fn memory(&mut self, process: Option<u32>, allocated: &Allocation) -> Option<String>;
}

/// What lies at an address: memory that somebody asked for, or else what a file or the kernel has a name for.
pub(crate) fn object(
    process: Option<u32>,
    address: u64,
    allocated: Option<&Allocation>,
    names: &mut dyn Naming,
) -> Option<String> {
    let memory = allocated.and_then(|allocated| names.memory(process, allocated));
    memory.or_else(|| names.object(process, address))
}

/// Who called an instruction, by what is behind each call; those without a name are left out.
pub(crate) fn callers(process: u32, behind: &[u64], names: &mut dyn Naming) -> Vec<CodePlace> {
    behind.iter().filter_map(|address| names.code(Some(process), address - 1)).collect()
}

/// By instruction and word, with names: so many lines at most, those that were taken most. An instruction of the kernel's is the kernel's, whoever asked for it.
#[must_use]
pub fn most_contended(
    handovers: &Handovers,
    line_bytes: u64,
    nr_max: usize,
    names: &mut dyn Naming,
) -> Lines {
    let mut lines: BTreeMap<(Option<u32>, u64), Vec<&Handed>> = BTreeMap::new();
    for handed in &handovers.most {
        let line = handed.address & !(line_bytes - 1);
        lines.entry((handed.process, line)).or_default().push(handed);
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, handed)| std::cmp::Reverse(taken(handed)));
    lines.truncate(nr_max);
    let most = lines.into_iter().map(|((process, address), handed)| {
        let words = by(&handed, |handed| handed.address & !7);
        ContendedLine {
            process,
            address,
            taken: taken(&handed),
            share: taken(&handed) as f64 / handovers.total.max(1) as f64,
            nature: nature(process, &words),
            words: words.iter().map(|(at, handed)| word(process, *at, handed, names)).collect(),
        }
    });
    Lines {
        taken: handovers.total,
        taken_by_the_rest: handovers.of_the_rest,
        modelled_stall_cycles: handovers.modelled_stall_millicycles / 1000,
        most: most.collect(),
    }
}

/// How often, all together.
fn taken(handed: &[&Handed]) -> u64 {
    handed.iter().map(|handed| handed.count).sum()
}

/// In groups, that which was taken most first.
fn by<'a, K: Ord + Copy>(
    handed: &[&'a Handed],
    key: impl Fn(&Handed) -> K,
) -> Vec<(K, Vec<&'a Handed>)> {
    let mut groups: BTreeMap<K, Vec<&Handed>> = BTreeMap::new();
    handed.iter().for_each(|handed| groups.entry(key(handed)).or_default().push(handed));
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, handed)| std::cmp::Reverse(taken(handed)));
    groups
}

/// Falsely shared is a line whose words are one thread's each, and not all the same one's. Threads go from CPU to CPU; what the
/// kernel has for each CPU does not.
fn nature(process: Option<u32>, words: &[(u64, Vec<&Handed>)]) -> Nature {
    let owner = |handed: &[&Handed]| {
        let by_whom = |handed: &Handed| match process {
            Some(_) => handed.thread,
            None => u32::from(handed.cpu),
        };
        let cpus = by(handed, by_whom);
        let (whose, own) = cpus.first()?;
        (taken(own) as f64 >= OWN_SHARE * taken(handed) as f64).then_some(*whose)
    };
    let owners: Option<Vec<u32>> = words.iter().map(|(_, handed)| owner(handed)).collect();
    match owners {
        Some(owners) if owners.iter().any(|owner| *owner != owners[0]) => Nature::FalselyShared,
        _ => Nature::Shared,
    }
}

fn word(process: Option<u32>, address: u64, handed: &[&Handed], names: &mut dyn Naming) -> Word {
    let mut cpus: Vec<_> = handed.iter().map(|handed| handed.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut threads: Vec<_> = handed.iter().map(|handed| handed.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut takers: Vec<Taker> = Vec::new();
    for handed in handed {
        // Whose instruction it is, the memory's process or the kernel, its address says.
        let place = names.code(process, handed.instruction);
        let (function, module) = place.map(|of| (of.function, of.module)).unzip();
        let (access, callers) = (handed.access, callers(handed.by_process, &handed.callers, names));
        let same = |taker: &&mut Taker| {
            let is_same =
                (&taker.function, &taker.module, taker.access) == (&function, &module, access);
            is_same && taker.callers == callers
        };
        let (taken, cycles) = (handed.count, handed.modelled_stall_millicycles / 1000);
        match takers.iter_mut().find(same) {
            Some(taker) => {
                taker.taken += taken;
                taker.modelled_stall_cycles += cycles;
            }
            None => takers.push(Taker {
                function,
                module,
                access,
                taken,
                modelled_stall_cycles: cycles,
                callers,
            }),
        }
    }
    takers.sort_by_key(|taker| std::cmp::Reverse(taker.taken));
    // Several may have had it one after the other.
    let most = handed.iter().max_by_key(|handed| handed.count);
    let allocated = most.and_then(|handed| handed.allocated.as_ref());
    Word {
        address,
        object: object(process, address, allocated, names),
        taken: taken(handed),
        cpus,
        threads,
        takers,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Functions of 4 KiB, and variables of two to the power of so many bytes.
    pub(crate) struct Made(pub u32);

    impl Naming for Made {
        fn code(&mut self, _: Option<u32>, address: u64) -> Option<CodePlace> {
            let function = format!("f{}", address >> 12);
            (address != 0).then(|| CodePlace { function, module: "program".to_owned() })
        }

        fn program(&mut self, process: u32) -> Option<String> {
            (process != 0).then(|| format!("p{process}"))
        }

        fn object(&mut self, process: Option<u32>, address: u64) -> Option<String> {
            process.map(|_| format!("v{:x}", address >> self.0))
        }

        fn memory(&mut self, process: Option<u32>, allocated: &Allocation) -> Option<String> {
            let function = self.code(process, allocated.returns_to)?.function;
            Some(format!("memory from {function}"))
        }
    }

    fn handed(address: u64, instruction: u64, cpu: u16, count: u64) -> Handed {
        let access = Access::Store;
        let thread = 100 + u32::from(cpu);
        let modelled_stall_millicycles = 200_000 * count;
        let process = Some(1);
        Handed {
            process,
            by_process: 1,
            thread,
            address,
            allocated: None,
            instruction,
            cpu,
            access,
            count,
            modelled_stall_millicycles,
            callers: Vec::new(),
        }
    }

    fn lines(most: Vec<Handed>) -> Vec<ContendedLine> {
        let total = 1000;
        let modelled_stall_millicycles = 300_000_000;
        let handovers = Handovers { total, of_the_rest: 5, modelled_stall_millicycles, most };
        most_contended(&handovers, 64, 10, &mut Made(0)).most
    }

    #[test]
    fn a_word_that_several_write_is_shared() {
        let found = lines(vec![
            handed(0x1008, 0x1000, 0, 300),
            handed(0x1008, 0x1010, 1, 290),
            handed(0x100c, 0x2000, 1, 10),
            handed(0x2000, 0x3000, 0, 5),
        ]);
        assert_eq!(
            (found[0].address, found[0].taken, found[0].nature),
            (0x1000, 600, Nature::Shared)
        );
        assert!((found[0].share - 0.6).abs() < 1e-9);
        let word = &found[0].words[0];
        assert_eq!((word.object.as_deref(), &word.cpus[..]), (Some("v1008"), &[0, 1][..]));
        let takers: Vec<_> =
            word.takers.iter().map(|of| (of.function.as_deref(), of.taken)).collect();
        assert_eq!(
            takers,
            [(Some("f1"), 590), (Some("f2"), 10)],
            "instructions of one function are one"
        );
        assert_eq!(word.takers[0].modelled_stall_cycles, 590 * 200);
        assert_eq!(word.takers[0].module.as_deref(), Some("program"));
        assert_eq!(found[1].address, 0x2000);
        // By another caller it is another taker.
        let called = Handed { callers: vec![0x5001], ..handed(0x1008, 0x1000, 0, 7) };
        let found = lines(vec![handed(0x1008, 0x1000, 0, 9), called]);
        let takers: Vec<_> = found[0].words[0].takers.iter().map(|of| of.callers.len()).collect();
        assert_eq!(takers, [0, 1]);
    }

    #[test]
    fn memory_is_called_by_who_asked_for_it_and_of_several_by_whose_was_taken_most() {
        let by = |returns_to| Some(Allocation { returns_to, stack: Vec::new() });
        let allocated =
            |call, count| Handed { allocated: by(call), ..handed(0x1008, 0x1000, 0, count) };
        let found = lines(vec![
            allocated(0x8001, 5),
            allocated(0x9001, 300),
            handed(0x1008, 0x1000, 1, 200),
            Handed { allocated: by(0), ..handed(0x1010, 0x1000, 1, 100) },
        ]);
        let objects: Vec<_> = found[0].words.iter().map(|word| word.object.as_deref()).collect();
        assert_eq!(objects, [Some("memory from f9"), Some("v1010")], "or by where it lies");
    }

    #[test]
    fn words_of_one_thread_each_are_falsely_shared() {
        let found = lines(vec![
            handed(0x1000, 0x1000, 0, 300),
            handed(0x1008, 0x1010, 1, 290),
            handed(0x1008, 0x1010, 0, 10),
        ]);
        assert_eq!(found[0].nature, Nature::FalselyShared);
        assert_eq!(found[0].words.len(), 2);
        // Two words of one CPU, which another takes the line from by reading a third.
        let found = lines(vec![handed(0x1000, 0x1000, 0, 300), handed(0x1008, 0x1010, 0, 290)]);
        assert_eq!(found[0].nature, Nature::Shared);
        // Threads that went to each other's CPUs meanwhile.
        let moved = |address, cpu, thread| Handed { thread, ..handed(address, 0x1000, cpu, 100) };
        let found = lines(vec![
            moved(0x1000, 0, 7),
            moved(0x1000, 1, 7),
            moved(0x1008, 0, 8),
            moved(0x1008, 1, 8),
        ]);
        assert_eq!(found[0].nature, Nature::FalselyShared);
        // Of the kernel's, CPUs count.
        let kernels =
            |address, cpu| Handed { process: None, thread: 7, ..handed(address, 0x1000, cpu, 100) };
        let found = lines(vec![kernels(0x1000, 0), kernels(0x1008, 1)]);
        assert_eq!(found[0].nature, Nature::FalselyShared);
    }

    #[test]
    fn the_kernels_line_and_a_processs_are_two_and_what_has_no_name_has_none() {
        let kernel = Handed { process: None, ..handed(0x1000, 0, 0, 9) };
        let found = lines(vec![handed(0x1000, 0x1000, 0, 10), kernel]);
        assert_eq!(found.len(), 2);
        let word = &found[1].words[0];
        assert_eq!((word.object.as_deref(), word.takers[0].function.as_deref()), (None, None));
        assert!(lines(Vec::new()).is_empty());
    }
}
