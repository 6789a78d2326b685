//! A CPU's registers, and memory as it sees it.

use std::ffi::CStr;

use super::declarations::{self as qemu, Array};

/// Registers that are read, as the debugger's description calls them; general ones by number first.
const NAMES: [&CStr; 21] = [
    c"rax",
    c"rcx",
    c"rdx",
    c"rbx",
    c"rsp",
    c"rbp",
    c"rsi",
    c"rdi",
    c"r8",
    c"r9",
    c"r10",
    c"r11",
    c"r12",
    c"r13",
    c"r14",
    c"r15",
    c"rip",
    c"cr3",
    c"cr4",
    c"gs_base",
    c"k_gs_base",
];

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// A general one, as instructions number them.
    General(u8),
    /// The instruction pointer; exact where a block begins.
    Instruction,
    /// Control register 3.
    Root,
    /// Control register 4.
    Features,
    /// Where this CPU's own data is, if the kernel runs.
    Area,
    /// The same, if a program runs.
    AreaAside,
}

impl Register {
    /// The first two arguments of a function.
    pub const ARGUMENTS: [Self; 2] = [Self::General(7), Self::General(6)];
    /// What a program says of a block that it was given: address, size, where the call returns to, the stack then, the process.
    pub const ALLOCATED: [Self; 5] =
        [Self::General(7), Self::General(6), Self::General(2), Self::General(1), Self::General(8)];

    fn index(self) -> usize {
        match self {
            Self::General(number) => usize::from(number & 15),
            Self::Instruction => 16,
            Self::Root => 17,
            Self::Features => 18,
            Self::Area => 19,
            Self::AreaAside => 20,
        }
    }
}

/// One CPU's registers, and a place to read into. Only the CPU's own callbacks have it.
#[derive(Debug)]
pub struct Registers {
    handles: [*mut qemu::Register; NAMES.len()],
    buffer: *mut Array,
}

impl Registers {
    /// Those of the CPU whose first callback this is.
    ///
    /// # Errors
    /// QEMU does not show one of them.
    pub fn of_this_cpu() -> Result<Self, String> {
        let mut handles = [std::ptr::null_mut(); NAMES.len()];
        // SAFETY: JUSTIFICATION: only QEMU knows the handles. This is a callback of a CPU, and the
        // array's elements are descriptors by the interface; it is ours and nobody else changes it.
        let descriptors = unsafe {
            let array = qemu::qemu_plugin_get_registers();
            let first = (*array).data.cast::<qemu::RegisterDescriptor>();
            std::slice::from_raw_parts(first, (*array).len as usize)
        };
        for descriptor in descriptors {
            // SAFETY: names are texts that end with zero and live as long as QEMU.
            let name = unsafe { CStr::from_ptr(descriptor.name) };
            if let Some(index) = NAMES.iter().position(|wanted| *wanted == name) {
                handles[index] = descriptor.handle;
            }
        }
        match handles.iter().position(|handle| handle.is_null()) {
            Some(index) => Err(format!(
                "this QEMU does not let plugins read the register {}",
                NAMES[index].to_string_lossy()
            )),
            // SAFETY: GLib only allocates.
            None => Ok(Self { handles, buffer: unsafe { qemu::g_byte_array_new() } }),
        }
    }

    /// A register of the CPU that runs now.
    pub fn read(&mut self, register: Register) -> u64 {
        // SAFETY: the handle is QEMU's own and the same for all CPUs of a kind; the array is only ours.
        unsafe {
            qemu::g_byte_array_set_size(self.buffer, 0);
            qemu::qemu_plugin_read_register(self.handles[register.index()], self.buffer);
        }
        self.word(0)
    }

    /// `count` words at a virtual address as the CPU that runs now sees it; `None` where it sees nothing.
    pub fn memory(&mut self, vaddr: u64, count: usize) -> Option<Vec<u64>> {
        // SAFETY: the array is only ours; QEMU walks the tables of the CPU that this thread runs.
        let is_read = unsafe {
            qemu::g_byte_array_set_size(self.buffer, 0);
            qemu::qemu_plugin_read_memory_vaddr(vaddr, self.buffer, count * 8)
        };
        is_read.then(|| (0..count).map(|index| self.word(index)).collect())
    }

    /// A word of what was read last; zero beyond it.
    fn word(&self, index: usize) -> u64 {
        // SAFETY: the array is only ours, and has `len` bytes at `data`, which may be null without any.
        let bytes = unsafe {
            match &*self.buffer {
                Array { len: 0, .. } => &[],
                Array { data, len } => std::slice::from_raw_parts(*data, *len as usize),
            }
        };
        let rest = bytes.get(index * 8..).unwrap_or(&[]);
        let mut word = [0; 8];
        let count = rest.len().min(word.len());
        word[..count].copy_from_slice(&rest[..count]);
        u64::from_le_bytes(word)
    }
}
