//! What the instrument must know of the guest's kernel.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::btf::Btf;

/// How many words [`Facts::words`] has.
pub const WORDS: usize = 14;
/// The first word: any change of this file changes it, and so of what the others mean. Command and
/// instrument compare it before a guest boots.
pub const INTERFACE: u64 = fingerprint(include_bytes!("facts.rs"));

/// Addresses and offsets in the running kernel. Offsets are in bytes from a task's `task_struct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The address of `__switch_to`, whose second argument is the task that runs next.
    pub switch_to: u64,
    /// The address of `wake_up_new_task`, whose argument is a task that begins.
    pub wake_up_new_task: u64,
    /// The address of `release_task`, whose argument is a task that has ended.
    pub release_task: u64,
    /// The address of `try_to_wake_up`, whose arguments are a task and in which states it is woken; 0: the kernel does not say.
    pub wake_up: u64,
    /// Where the kernel sees all memory, one after the other.
    pub direct_map: u64,
    /// The running task's pointer, from a CPU's own area.
    pub current_task: u64,
    /// The CPU's number, likewise.
    pub cpu_number: u64,
    /// `cgroups`: the same in all tasks of a control group.
    pub cgroups: u64,
    /// `pid`: the task's number.
    pub pid: u64,
    /// `tgid`: its process's number.
    pub tgid: u64,
    /// `comm`: the name of its program, or that which it gave itself.
    pub comm: u64,
    /// `__state`: 0 while the task runs or waits for a CPU.
    pub state: u64,
}

/// FNV-1a of a text.
const fn fingerprint(text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < text.len() {
        hash = (hash ^ text[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

const SYMBOLS: &str = "proc/kallsyms";

/// What is looked for among the kernel's symbols.
const NAMES: [&str; 7] = [
    "__switch_to",
    "wake_up_new_task",
    "release_task",
    "current_task",
    "cpu_number",
    "pcpu_hot",
    "try_to_wake_up",
];

/// The address of each of [`NAMES`], of those that the kernel has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Symbols([Option<u64>; NAMES.len()]);

impl Symbols {
    /// Reads no further than the last that is wanted: there are two hundred thousand, and the kernel has to write out each.
    fn read(mut table: impl BufRead) -> io::Result<Self> {
        let (mut found, mut line) = (Self::default(), String::new());
        while !found.is_complete() && table.read_line(&mut line)? > 0 {
            found.take(&line);
            line.clear();
        }
        Ok(found)
    }

    /// The first of a name counts.
    fn take(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        if let Some(index) = NAMES.iter().position(|wanted| *wanted == name) {
            self.0[index] = self.0[index].or(u64::from_str_radix(address, 16).ok());
        }
    }

    /// Kernels 6.2 to 6.14 have `pcpu_hot`, all others the two before.
    fn is_complete(&self) -> bool {
        let has = |index: usize| self.0[index].is_some();
        (0..3).all(has) && has(6) && (has(5) || (has(3) && has(4)))
    }
}

/// Why the facts cannot be had.
#[derive(Debug)]
pub enum FactsError {
    /// A file cannot be read.
    Read(String, std::io::Error),
    /// The kernel does not say it.
    Missing(&'static str),
}

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read {path}: {error}"),
            Self::Missing(what) => write!(f, "the kernel does not say where its {what} is"),
        }
    }
}

impl std::error::Error for FactsError {}

impl Facts {
    /// Reads what the running kernel says of itself below `root`.
    ///
    /// # Errors
    /// When the kernel is without type information, or its symbols are hidden from this user.
    pub fn read(root: &Path) -> Result<Self, FactsError> {
        let at = |name: &str| root.join(name);
        let failed = |name: &str, error| FactsError::Read(at(name).display().to_string(), error);
        let read = |name: &str| fs::read(at(name)).map_err(|error| failed(name, error));
        let symbols = File::open(at(SYMBOLS)).and_then(|file| Symbols::read(BufReader::new(file)));
        let symbols = symbols.map_err(|error| failed(SYMBOLS, error))?;
        let types = read("sys/kernel/btf/vmlinux")?;
        // The lab's kernels are told not to shuffle addresses, so that the number of levels of page
        // tables says where all memory is; the instrument finds no task if it is elsewhere.
        let levels_five = String::from_utf8_lossy(&read("proc/cpuinfo")?).contains(" la57");
        Self::of(&symbols, &types, levels_five)
    }

    fn of(symbols: &Symbols, types: &[u8], levels_five: bool) -> Result<Self, FactsError> {
        let Symbols(found) = symbols;
        let btf = Btf::parse(types).ok_or(FactsError::Missing("type information"))?;
        let task = |member| btf.offset("task_struct", member).ok_or(FactsError::Missing("tasks"));
        // Kernels 6.2 to 6.14 had them together in one structure.
        let own = |symbol: Option<u64>, member, what| {
            let in_area = || Some(found[5]? + btf.offset("pcpu_hot", member)?);
            symbol.or_else(in_area).ok_or(FactsError::Missing(what))
        };
        let visible = |address: Option<u64>, what| {
            address.filter(|address| *address != 0).ok_or(FactsError::Missing(what))
        };
        Ok(Self {
            switch_to: visible(found[0], "task switch")?,
            wake_up_new_task: visible(found[1], "task creation")?,
            release_task: visible(found[2], "end of tasks")?,
            wake_up: found[6].unwrap_or_default(),
            direct_map: if levels_five { 0xff11_0000_0000_0000 } else { 0xffff_8880_0000_0000 },
            current_task: own(found[3], "current_task", "running task")?,
            cpu_number: own(found[4], "cpu_number", "CPU number")?,
            cgroups: task("cgroups")?,
            pid: task("pid")?,
            tgid: task("tgid")?,
            comm: task("comm")?,
            state: task("__state")?,
        })
    }

    /// As they are handed over.
    #[must_use]
    pub fn words(&self) -> [u64; WORDS] {
        [
            INTERFACE,
            WORDS as u64,
            self.switch_to,
            self.wake_up_new_task,
            self.release_task,
            self.wake_up,
            self.direct_map,
            self.current_task,
            self.cpu_number,
            self.cgroups,
            self.pid,
            self.tgid,
            self.comm,
            self.state,
        ]
    }

    /// From what was handed over; `None` if it is something else.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let [
            INTERFACE,
            count,
            switch_to,
            wake_up_new_task,
            release_task,
            wake_up,
            direct_map,
            current_task,
            cpu_number,
            cgroups,
            pid,
            tgid,
            comm,
            state,
        ] = *words
        else {
            return None;
        };
        (count == WORDS as u64).then_some(Self {
            switch_to,
            wake_up_new_task,
            release_task,
            wake_up,
            direct_map,
            current_task,
            cpu_number,
            cgroups,
            pid,
            tgid,
            comm,
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_the_same() {
        let facts = Facts { switch_to: 1, direct_map: 2, tgid: 3, ..Facts::default() };
        assert_eq!(Facts::from_words(&facts.words()), Some(facts));
        assert_eq!(Facts::from_words(&facts.words()[1..]), None);
        assert_eq!(Facts::from_words(&[0; WORDS]), None);
    }

    #[test]
    fn texts_have_different_fingerprints() {
        assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn symbols_are_read_until_all_are_there() {
        let text = "0000000000019160 A cpu_number\n000000000001fb80 A current_task\n\n\
            ffffffff8102f240 T __switch_to\nffffffff81098c70 T release_task\n\
            ffffffff810d4a90 T wake_up_new_task\nffffffff810d4000 t try_to_wake_up\nffffffff00000001 t release_task\t[module]\n";
        let addresses = [0xffff_ffff_8102_f240, 0xffff_ffff_810d_4a90, 0xffff_ffff_8109_8c70];
        let own = [Some(0x1_fb80), Some(0x1_9160), None, Some(0xffff_ffff_810d_4000)];
        let all = [&addresses.map(Some)[..], &own].concat();
        let mut table = text.as_bytes();
        assert_eq!(Symbols::read(&mut table).unwrap().0, *all);
        assert!(table.starts_with(b"ffffffff00000001"), "nothing is read for nothing");
        let hot = text.replace("A cpu_number", "A pcpu_hot").replace("A current_task", "A other");
        assert!(Symbols::read(hot.as_bytes()).unwrap().is_complete());
        // What is not there is looked for to the end; what is no table has none.
        let none = text.replace("cpu_number", "other");
        assert_eq!(Symbols::read(none.as_bytes()).unwrap().0[4], None);
        assert_eq!(Symbols::read(&b"x\nzz T __switch_to\n"[..]).unwrap(), Symbols::default());
    }

    #[test]
    fn this_kernel_may_be_without_them_and_says_so() {
        match Facts::read(Path::new("/")) {
            Ok(facts) => assert!(facts.cgroups > 0),
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
}
