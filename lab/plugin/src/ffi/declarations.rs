//! The part of QEMU's plugin interface that is used, version 4 (QEMU 9.2 and newer), declared from its
//! documentation.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The interface's version that these declarations are of.
pub const API_VERSION: c_int = 4;

/// A block that is being translated.
#[repr(C)]
pub struct Block {
    _private: [u8; 0],
}

/// An instruction of such a block.
#[repr(C)]
pub struct Instruction {
    _private: [u8; 0],
}

/// A register of a virtual CPU.
#[repr(C)]
pub struct Register {
    _private: [u8; 0],
}

/// What QEMU says of a register: its handle, its name, and which part of the processor it is of.
#[repr(C)]
pub struct RegisterDescriptor {
    pub handle: *mut Register,
    pub name: *const c_char,
    _feature: *const c_char,
}

/// GLib's `GArray` and `GByteArray`: bytes or elements, and how many.
#[repr(C)]
pub struct Array {
    pub data: *mut u8,
    pub len: c_uint,
}

/// What QEMU says of itself to a plugin that it loads.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_now: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// Values that translated code may look at and change itself, one for each virtual CPU.
#[repr(C)]
pub struct Scoreboard {
    _private: [u8; 0],
}

/// Eight bytes of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub scores: *mut Scoreboard,
    pub offset: usize,
}

/// Translated code adds to an entry.
pub const ADD: c_int = 0;
/// A callback comes if an entry is not as said.
pub const NOT_EQUAL: c_int = 3;

/// What QEMU says of where an access went.
#[repr(C)]
pub struct Place {
    _private: [u8; 0],
}

/// A callback that reads no register.
pub const REGISTERS_NONE: c_int = 0;
/// A callback that reads registers.
pub const REGISTERS_READ: c_int = 1;

/// A callback for loads.
pub const ACCESS_READ: c_int = 1;
/// A callback for stores.
pub const ACCESS_WRITE: c_int = 2;

pub type OnPlugin = extern "C" fn(id: u64);
pub type OnPluginData = extern "C" fn(id: u64, data: *mut c_void);
pub type OnCpu = extern "C" fn(id: u64, cpu: c_uint);
pub type OnTranslation = extern "C" fn(id: u64, block: *mut Block);
pub type OnExecution = extern "C" fn(cpu: c_uint, data: *mut c_void);
pub type OnAccess = extern "C" fn(cpu: c_uint, info: u32, vaddr: u64, data: *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: u64, done: OnPlugin);
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, callback: OnCpu);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslation);
    pub fn qemu_plugin_register_atexit_cb(id: u64, callback: OnPluginData, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: OnExecution,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut Block,
        callback: OnExecution,
        registers: c_int,
        condition: c_int,
        entry: Entry,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        operation: c_int,
        entry: Entry,
        value: u64,
    );
    pub fn qemu_plugin_scoreboard_new(size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(scores: *mut Scoreboard, cpu: c_uint) -> *mut c_void;
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: OnExecution,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: OnAccess,
        registers: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(
        instruction: *const Instruction,
        to: *mut c_void,
        size: usize,
    ) -> usize;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    /// Where QEMU itself has the instruction's bytes; null for code in a device.
    pub fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *mut c_void;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    /// Null if it does not know.
    pub fn qemu_plugin_get_hwaddr(info: u32, vaddr: u64) -> *mut Place;
    pub fn qemu_plugin_hwaddr_is_io(place: *const Place) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(place: *const Place) -> u64;
    pub fn qemu_plugin_get_registers() -> *mut Array;
    pub fn qemu_plugin_read_register(handle: *mut Register, into: *mut Array) -> c_int;
    pub fn qemu_plugin_read_memory_vaddr(vaddr: u64, into: *mut Array, size: usize) -> bool;
    // GLib's, which QEMU has loaded.
    pub fn g_byte_array_new() -> *mut Array;
    pub fn g_byte_array_set_size(array: *mut Array, size: c_uint) -> *mut Array;
}
