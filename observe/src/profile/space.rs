//! The address space of a process: which file's code is where, and stacks by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};

use super::arch::{BP, IP, Registers, SP};
use super::modules::{ModuleId, Modules};

/// Frames of a stack; deeper ones are not looked for.
const FRAMES_MAX: usize = 128;

/// Caches what is found out about places, for every space.
pub type UnwindCache = CacheX86_64;

/// An address space.
#[derive(Clone)]
pub struct Space {
    mappings: BTreeMap<u64, Mapping>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
}

#[derive(Clone, Copy)]
struct Mapping {
    end: u64,
    module: ModuleId,
    /// What addresses are more here than in the file; absent: no such file could be read.
    bias: Option<u64>,
    /// Of the mapping, for modules without a bias.
    start: u64,
}

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// An address in the kernel.
    Kernel(u64),
    /// An address as a module states it.
    Module(ModuleId, u64),
    /// A function of the kernel, by the number of its name.
    Waits(u32),
    /// Code that no file has: made by the program itself.
    Made,
}

impl Space {
    /// With nothing in it.
    pub fn new() -> Self {
        Self { mappings: BTreeMap::new(), unwinder: UnwinderX86_64::new() }
    }

    /// A file's code is mapped.
    pub fn map(&mut self, start: u64, bytes: u64, offset: u64, path: &str, modules: &mut Modules) {
        let module = modules.of(path);
        let end = start.saturating_add(bytes);
        let covered: Vec<_> = self
            .mappings
            .range(..end)
            .filter(|(_, old)| old.end > start)
            .map(|(at, _)| *at)
            .collect();
        for at in covered {
            self.mappings.remove(&at);
            self.unwinder.remove_module(at);
        }
        let elf = modules.elf(module);
        let bias = elf.and_then(|elf| Some(start.wrapping_sub(elf.address_of_code(offset)?)));
        if let (Some(elf), Some(bias)) = (elf, bias) {
            let module = Module::new(path.to_owned(), start..end, bias, elf.sections());
            self.unwinder.add_module(module);
        }
        self.mappings.insert(start, Mapping { end, module, bias, start });
    }

    /// The place of an address.
    pub fn place(&self, address: u64) -> Place {
        let found = self.mappings.range(..=address).next_back();
        let Some((_, mapping)) = found.filter(|(_, mapping)| address < mapping.end) else {
            return Place::Made;
        };
        Place::Module(mapping.module, address.wrapping_sub(mapping.bias.unwrap_or(mapping.start)))
    }

    /// What addresses of a module are more here than in its file.
    pub fn bias(&self, module: ModuleId) -> Option<u64> {
        self.mappings.values().find(|mapping| mapping.module == module)?.bias
    }

    /// The module in whose data an address is, and the address there.
    pub fn data(&self, address: u64, modules: &Modules) -> Option<(ModuleId, u64)> {
        self.mappings.values().find_map(|mapping| {
            let stated = address.wrapping_sub(mapping.bias?);
            modules.elf(mapping.module)?.contains(stated).then_some((mapping.module, stated))
        })
    }

    /// The stack of user code, innermost first.
    pub fn unwind(
        &self,
        registers: &Registers,
        stack: &[u8],
        cache: &mut UnwindCache,
    ) -> Vec<Place> {
        let (ip, sp, bp) = (registers.get(IP), registers.get(SP), registers.get(BP));
        self.walk(UnwindRegsX86_64::new(ip, sp, bp), stack, cache)
    }

    /// Who called a function, innermost first: by where it returns to, and what is on the stack then.
    pub fn callers(&self, returns_to: u64, stack: &[u8], cache: &mut UnwindCache) -> Vec<Place> {
        // Where the stack lay makes no difference, and no frame pointer is known.
        const ANYWHERE: u64 = 1 << 32;
        let call = returns_to.saturating_sub(1);
        self.walk(UnwindRegsX86_64::new(call, ANYWHERE, 0), stack, cache)
    }

    fn walk(&self, from: UnwindRegsX86_64, stack: &[u8], cache: &mut UnwindCache) -> Vec<Place> {
        let (ip, sp) = (from.ip(), from.sp());
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_ne_bytes(word.try_into().map_err(|_| ())?))
        };
        let mut frames = self.unwinder.iter_frames(ip, from, cache, &mut read);
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let address = match frame {
                FrameAddress::InstructionPointer(address) => address,
                // The call, not what follows it: that may be another line, or another function.
                FrameAddress::ReturnAddress(address) => address.get() - 1,
            };
            places.push(self.place(address));
            if places.len() == FRAMES_MAX {
                break;
            }
        }
        places
    }
}
