//! Names of addresses that were seen elsewhere, in a guest say: by where processes had what, and what the kernel there called
//! its own.

use std::collections::BTreeMap;
use std::path::Path;

use quartier_model::{Frame, KERNEL_MODULE};

use super::kernel::Kernel;
use super::modules::Modules;
use super::sites;
use super::space::{Place, Space, UnwindCache};

/// What names them.
pub struct Names {
    kernel: Kernel,
    modules: Modules,
    processes: BTreeMap<u32, Process>,
    cache: UnwindCache,
}

struct Process {
    space: Space,
    /// Where mappings begin and end, and what the kernel calls them; empty: nothing.
    mappings: Vec<(u64, u64, String)>,
}

impl Names {
    /// By each process's `/proc/PID/maps`, whose paths begin at `root`, and by `/proc/kallsyms`.
    #[must_use]
    pub fn new(root: &Path, maps: &BTreeMap<u32, String>, kernel_names: &str) -> Self {
        let mut modules = Modules::new(root);
        let processes =
            maps.iter().map(|(process, maps)| (*process, Process::of(maps, &mut modules)));
        let processes = processes.collect();
        let (kernel, cache) = (Kernel::parse(kernel_names), UnwindCache::new());
        Self { kernel, modules, processes, cache }
    }

    /// The function that the instruction at an address is of, the innermost of inlined ones. `None`: no file has it.
    pub fn function(&mut self, process: Option<u32>, address: u64) -> Option<Frame> {
        if is_kernels(address) {
            let function = self.kernel.function(address)?.to_owned();
            return Some(Frame { function, module: KERNEL_MODULE.to_owned(), line: None });
        }
        match self.processes.get(&process?)?.space.place(address) {
            Place::Module(module, stated) => self.modules.frames(module, stated).pop(),
            _ => None,
        }
    }

    /// The variable at an address, or what it lies in: a file's data, the heap, a stack. `None`: nobody has a name for it.
    #[must_use]
    pub fn object(&self, process: Option<u32>, address: u64) -> Option<String> {
        if is_kernels(address) {
            return self.kernel.variable(address).map(str::to_owned);
        }
        let process = self.processes.get(&process?)?;
        let found = process.space.data(address, &self.modules);
        let variable = found.and_then(|(module, stated)| {
            self.modules.elf(module)?.variable(stated).map(str::to_owned)
        });
        variable.or_else(|| {
            let mapping =
                process.mappings.iter().find(|(start, end, _)| (*start..*end).contains(&address));
            let (.., name) = mapping.filter(|(.., name)| !name.is_empty())?;
            Some(name.rsplit('/').next().unwrap_or(name).to_owned())
        })
    }

    /// The file that a process is run from: what is mapped first of all is of it. `None`: not known.
    #[must_use]
    pub fn program(&self, process: u32) -> Option<&str> {
        let mappings = &self.processes.get(&process)?.mappings;
        let (.., path) = mappings.iter().find(|(.., name)| name.starts_with('/'))?;
        path.rsplit('/').next()
    }

    /// Memory that a process was given, by who asked for it: by where the call returns to, and what is on the stack then. `None`: no file
    /// has that code.
    #[must_use]
    pub fn memory(&mut self, process: u32, returns_to: u64, stack: &[u64]) -> Option<String> {
        let space = &self.processes.get(&process)?.space;
        let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let places = space.callers(returns_to, &stack, &mut self.cache);
        let modules = &mut self.modules;
        let (site, _) = sites::site(places, |place| match place {
            // What the library does that tells of it is its caller's.
            Place::Module(module, stated) if modules.name(module) != sites::LIBRARY => {
                modules.frames(module, stated)
            }
            _ => Vec::new(),
        })?;
        Some(sites::name(&site))
    }
}

fn is_kernels(address: u64) -> bool {
    address >> 63 != 0
}

impl Process {
    fn of(maps: &str, modules: &mut Modules) -> Self {
        let mut space = Space::new();
        let mut mappings = Vec::new();
        for line in maps.lines() {
            let Some(Mapping { start, end, is_code, offset, name }) = Mapping::parse(line) else {
                continue;
            };
            if is_code && name.starts_with('/') {
                space.map(start, end - start, offset, name, modules);
            }
            mappings.push((start, end, name.to_owned()));
        }
        Self { space, mappings }
    }
}

/// A line of `/proc/PID/maps`.
struct Mapping<'a> {
    start: u64,
    end: u64,
    is_code: bool,
    offset: u64,
    name: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (permissions, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        // Device and inode, and the name behind as many spaces as there are.
        let name = rest.splitn(3, ' ').nth(2).unwrap_or_default().trim();
        let (start, end) = (number(start)?, number(end)?);
        (start < end).then_some(Self {
            start,
            end,
            is_code: permissions.contains('x'),
            offset: number(offset)?,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At an address of this test that its own maps tell of.
    static COUNTER: [u64; 64] = [7; 64];

    /// Neither calls anything nor has anything inlined, not even of the standard library: the
    /// innermost function at an address is the one that is named.
    #[inline(never)]
    fn leaf(value: u64) -> u64 {
        value ^ COUNTER[3]
    }

    #[test]
    fn what_this_process_has_is_named() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut names = Names::new(Path::new("/"), &[(1, maps)].into(), "");
        assert_eq!(leaf(std::hint::black_box(8)), 15);
        let here = leaf as *const () as u64;
        let function = names.function(Some(1), here).unwrap().function;
        assert!(function.contains("leaf"), "{function}");
        let object = names.object(Some(1), COUNTER.as_ptr() as u64 + 8).unwrap();
        assert!(object.contains("COUNTER"), "{object}");
        let on_stack = 1_u64;
        // A thread of a test has a stack that the kernel has no name for.
        let object = names.object(Some(1), (&raw const on_stack) as u64);
        assert!(object.is_none_or(|object| object.starts_with('[')));
        assert!(names.function(Some(2), here).is_none(), "another process");
        let own = std::env::current_exe().unwrap();
        assert_eq!(names.program(1), own.file_name().unwrap().to_str());
        assert_eq!(names.program(2), None, "another process");
        assert!(names.object(None, COUNTER.as_ptr() as u64).is_none());
    }

    /// As if it asked for memory first of all.
    #[inline(never)]
    fn asks(value: u64) -> u64 {
        leaf(value) + 1
    }

    #[test]
    fn memory_is_called_by_the_function_that_the_call_returns_to() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut names = Names::new(Path::new("/"), &[(1, maps)].into(), "");
        assert_eq!(asks(std::hint::black_box(8)), 16);
        let returns_to = asks as *const () as u64 + 1;
        let name = names.memory(1, returns_to, &[0; 9]).unwrap();
        assert!(name.starts_with("memory from ") && name.contains("asks"), "{name}");
        assert_eq!(names.memory(2, returns_to, &[]), None, "another process");
        assert_eq!(names.memory(1, 8, &[]), None, "no file's");
    }

    #[test]
    fn what_the_kernel_has_is_named_whoever_asks() {
        let kernel = "ffffffff81000000 T _text\nffffffff81000100 t futex_wait\n\
                      ffffffff82000000 d jiffies\nffffffff82000040 b lock\n";
        let mut names = Names::new(Path::new("/"), &BTreeMap::new(), kernel);
        let frame = names.function(Some(3), 0xffff_ffff_8100_0180).unwrap();
        assert_eq!((frame.function.as_str(), frame.module.as_str()), ("futex_wait", KERNEL_MODULE));
        assert_eq!(names.object(None, 0xffff_ffff_8200_0044).as_deref(), Some("lock"));
        assert_eq!(names.object(None, 0xffff_8880_0000_0000), None, "not by what comes before it");
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        for line in ["", "x", "12-10 r-xp 0 0:0 1", "10-12", "10-12 r-xp zz 0:0 1 /x"] {
            assert!(Mapping::parse(line).is_none(), "{line}");
        }
        let line = "7f0000000000-7f0000001000 r-xp 00002000 08:01 12345      /a b/c (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(
            (mapping.offset, mapping.name, mapping.is_code),
            (0x2000, "/a b/c (deleted)", true)
        );
        let nameless = Mapping::parse("10-20 rw-p 00000000 00:00 0").unwrap();
        assert_eq!((nameless.name, nameless.is_code), ("", false));
    }
}
