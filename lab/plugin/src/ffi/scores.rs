//! What translated code counts and compares itself, so that it calls back less often.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use super::declarations::{self as qemu, Block, Entry, OnExecution, Scoreboard};

/// What translated code of a CPU knows.
#[repr(C)]
#[derive(Debug)]
pub struct Score {
    /// Instructions executed.
    pub instructions: Cell<u64>,
    /// The page whose code was executed last, as [`Code::page`](crate::code::Code::page) calls it.
    pub page: Cell<u64>,
}

/// Those of all CPUs.
#[derive(Debug)]
pub struct Scores(*mut Scoreboard);

// SAFETY: JUSTIFICATION: each CPU's thread looks at its own. QEMU makes and keeps the values, at one
// place for each CPU; `Scores::of` gives them to that CPU's callbacks alone.
unsafe impl Send for Scores {}
// SAFETY: as for `Send`.
unsafe impl Sync for Scores {}

impl Scores {
    /// All zero.
    pub fn new() -> Self {
        // SAFETY: QEMU only allocates.
        Self(unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<Score>()) })
    }

    /// A CPU's.
    ///
    /// # Safety
    /// Only in a callback of CPU `index`, and not beyond it: another CPU that begins may move them.
    pub unsafe fn of(&self, index: usize) -> &Score {
        // SAFETY: the CPU has begun, so QEMU has its values; they are of the size given.
        unsafe { &*qemu::qemu_plugin_scoreboard_find(self.0, index as c_uint).cast::<Score>() }
    }

    fn entry(&self, offset: usize) -> Entry {
        Entry { scores: self.0, offset }
    }

    /// Has a block that is being translated count its instructions.
    pub fn count(&self, block: *mut Block, nr_instructions: u32) {
        let entry = self.entry(std::mem::offset_of!(Score, instructions));
        // SAFETY: the block is good in the callback that it is translated in.
        unsafe {
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                block,
                qemu::ADD,
                entry,
                u64::from(nr_instructions),
            );
        }
    }

    /// Has a block that is being translated call back if the last page was another.
    pub fn call_on_new_page(
        &self,
        block: *mut Block,
        callback: OnExecution,
        page: u64,
        data: *mut c_void,
    ) {
        let entry = self.entry(std::mem::offset_of!(Score, page));
        // SAFETY: the block is good in the callback that it is translated in; `data` is what the
        // callback expects, as the caller says.
        unsafe {
            qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                block,
                callback,
                qemu::REGISTERS_READ,
                qemu::NOT_EQUAL,
                entry,
                page,
                data,
            );
        }
    }
}
