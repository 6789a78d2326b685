//! `libquartier_sites.so`, for `quartier scale --allocations`: notes of each block of memory which code asked for it.
//!
//! The functions that allocate do as ever, and beside that write into a table that was made before the program began
//! (`observe/src/profile/sites.rs` reads it). In a guest that is counted there is no table: the instrument around it is told, by an
//! instruction that does nothing (`lab/plugin/marker/`). Here nothing is allocated or freed, no lock is taken and errno stays; what
//! cannot be noted is not, and the program runs on.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod allocator;
mod note;
mod table;

use std::ffi::{c_int, c_void};

use note::Caller;

/// The body of a function with so many arguments: it goes on in another one, which is told beside them where the call
/// returns to and what the stack is then. Plain Rust knows neither.
#[cfg(target_arch = "x86_64")]
macro_rules! go_on {
    (1, $body:ident) => {
        std::arch::naked_asm!("mov rsi, [rsp]", "lea rdx, [rsp + 8]", "jmp {body}", body = sym $body)
    };
    (2, $body:ident) => {
        std::arch::naked_asm!("mov rdx, [rsp]", "lea rcx, [rsp + 8]", "jmp {body}", body = sym $body)
    };
    (3, $body:ident) => {
        std::arch::naked_asm!("mov rcx, [rsp]", "lea r8, [rsp + 8]", "jmp {body}", body = sym $body)
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! go_on {
    (1, $body:ident) => {
        std::arch::naked_asm!("mov x1, x30", "mov x2, sp", "b {body}", body = sym $body)
    };
    (2, $body:ident) => {
        std::arch::naked_asm!("mov x2, x30", "mov x3, sp", "b {body}", body = sym $body)
    };
    (3, $body:ident) => {
        std::arch::naked_asm!("mov x3, x30", "mov x4, sp", "b {body}", body = sym $body)
    };
}

// SAFETY: the loader calls it once, before the program, with the environment in place.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = note::init;

/// `malloc(3)`.
///
/// # Safety
/// The contract of `malloc(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc(_bytes: usize) -> *mut c_void {
    go_on!(1, noting_malloc)
}

/// `calloc(3)`.
///
/// # Safety
/// The contract of `calloc(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn calloc(_nr: usize, _bytes: usize) -> *mut c_void {
    go_on!(2, noting_calloc)
}

/// `realloc(3)`.
///
/// # Safety
/// The contract of `realloc(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(_block: *mut c_void, _bytes: usize) -> *mut c_void {
    go_on!(2, noting_realloc)
}

/// `aligned_alloc(3)`.
///
/// # Safety
/// The contract of `aligned_alloc(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn aligned_alloc(_alignment: usize, _bytes: usize) -> *mut c_void {
    go_on!(2, noting_aligned_alloc)
}

/// `memalign(3)`.
///
/// # Safety
/// The contract of `memalign(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn memalign(_alignment: usize, _bytes: usize) -> *mut c_void {
    go_on!(2, noting_memalign)
}

/// `posix_memalign(3)`.
///
/// # Safety
/// The contract of `posix_memalign(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(
    _block: *mut *mut c_void,
    _alignment: usize,
    _bytes: usize,
) -> c_int {
    go_on!(3, noting_posix_memalign)
}

unsafe extern "C" fn noting_malloc(bytes: usize, to: usize, stack: *const u64) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    let block = unsafe { allocator::malloc(bytes) };
    note::block(block, bytes, Caller { returns_to: to, stack });
    block
}

unsafe extern "C" fn noting_calloc(
    nr: usize,
    bytes: usize,
    to: usize,
    stack: *const u64,
) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    let block = unsafe { allocator::calloc(nr, bytes) };
    // There would be no block if this were too much.
    note::block(block, nr.wrapping_mul(bytes), Caller { returns_to: to, stack });
    block
}

unsafe extern "C" fn noting_realloc(
    old: *mut c_void,
    bytes: usize,
    to: usize,
    stack: *const u64,
) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    let block = unsafe { allocator::realloc(old, bytes) };
    note::block(block, bytes, Caller { returns_to: to, stack });
    block
}

unsafe extern "C" fn noting_aligned_alloc(
    alignment: usize,
    bytes: usize,
    to: usize,
    stack: *const u64,
) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    let block = unsafe { allocator::aligned_alloc(alignment, bytes) };
    note::block(block, bytes, Caller { returns_to: to, stack });
    block
}

unsafe extern "C" fn noting_memalign(
    alignment: usize,
    bytes: usize,
    to: usize,
    stack: *const u64,
) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    let block = unsafe { allocator::memalign(alignment, bytes) };
    note::block(block, bytes, Caller { returns_to: to, stack });
    block
}

unsafe extern "C" fn noting_posix_memalign(
    made: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
    to: usize,
    stack: *const u64,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    let status = unsafe { allocator::posix_memalign(made, alignment, bytes) };
    if status == 0 {
        // SAFETY: it succeeded, so the caller's pointer was written.
        note::block(unsafe { *made }, bytes, Caller { returns_to: to, stack });
    }
    status
}
