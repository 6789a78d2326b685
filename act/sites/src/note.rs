//! A block is noted: by whom and when. And it is told to an instrument around the machine, if the machine is a guest that is counted.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::table::{Allocation, STACK_WORDS, Table};

/// The table's file.
const ENV_TABLE: &CStr = c"QUARTIER_SITES";
/// The smallest pages there are.
const PAGE_BYTES: usize = 4096;

/// The displacement of an instruction that does nothing, and says that memory was allocated; `lab/plugin/marker/` has it too.
#[cfg(any(test, target_arch = "x86_64"))]
const ALLOCATED: u32 = 0x5155_4103;

/// Null: there is none.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());
/// This process's id, in memory that is zero again in a child that has memory of its own. Null: nothing is noted.
static PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Who called.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Where the call returns to.
    pub returns_to: usize,
    /// Where the stack begins then.
    pub stack: *const u64,
}

/// Begins to note.
pub extern "C" fn init() {
    // SAFETY: errno is the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(process) = wiped_in_children() {
        if let Some(table) = table() {
            TABLE.store(std::ptr::from_ref(table).cast_mut(), Ordering::Relaxed);
        }
        PROCESS.store(process, Ordering::Release);
    }
    // SAFETY: as above. A program may rely on it that it begins without an error.
    unsafe { *libc::__errno_location() = errno };
}

fn table() -> Option<&'static Table> {
    // SAFETY: a C string in, one or null out; nobody changes the environment before the program begins.
    let path = unsafe { libc::getenv(ENV_TABLE.as_ptr()) };
    // SAFETY: not null, so a C string.
    (!path.is_null()).then(|| Table::map(unsafe { CStr::from_ptr(path) }))?
}

/// A word that a fork sets to zero.
fn wiped_in_children() -> Option<*mut AtomicU32> {
    let (read_write, own) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, at a place of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, read_write, own, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: a mapping of ours, which stays.
    let is_wiped = unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } == 0;
    is_wiped.then_some(page.cast())
}

/// Notes a block, if there is one.
pub fn block(block: *mut c_void, bytes: usize, caller: Caller) {
    // SAFETY: null, or a word that stays mapped.
    let Some(process) = (unsafe { PROCESS.load(Ordering::Acquire).as_ref() }) else { return };
    if block.is_null() || bytes == 0 {
        return;
    }
    let process = own_number(process);
    tell(block, bytes, caller, process);
    // SAFETY: null, or a table that stays mapped.
    let Some(table) = (unsafe { TABLE.load(Ordering::Relaxed).as_ref() }) else { return };
    table.note(&Allocation {
        start: block as usize as u64,
        bytes: bytes as u64,
        process: process.into(),
        at_ns: now_ns(),
        returns_to: caller.returns_to as u64,
        stack: caller.words(),
    });
}

/// For whoever emulates this processor and recognises the instruction.
#[cfg(target_arch = "x86_64")]
fn tell(block: *mut c_void, bytes: usize, caller: Caller, process: u32) {
    // SAFETY: the instruction neither reads nor writes memory or registers, whatever its operand says; an instrument only reads
    // what the stack of this thread has.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {displacement}",
            displacement = const ALLOCATED,
            in("rdi") block,
            in("rsi") bytes,
            in("rdx") caller.returns_to,
            in("rcx") caller.stack,
            in("r8") u64::from(process),
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// There is no instrument for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn tell(_block: *mut c_void, _bytes: usize, _caller: Caller, _process: u32) {}

fn own_number(known: &AtomicU32) -> u32 {
    match known.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: no arguments.
            let process = unsafe { libc::getpid() } as u32;
            known.store(process, Ordering::Relaxed);
            process
        }
        process => process,
    }
}

/// By the clock that profiles have. That as of the kernel's last tick is read faster, but of a thousand blocks in between
/// nobody would know which came last.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Caller {
    /// What lies on the stack behind the return address, as far as that address's page goes: behind it there may be nothing.
    fn words(self) -> [u64; STACK_WORDS] {
        let mut words = [0; STACK_WORDS];
        let returned_from = (self.stack as usize).wrapping_sub(size_of::<u64>());
        let nr = (PAGE_BYTES - returned_from % PAGE_BYTES) / size_of::<u64>() - 1;
        for (at, word) in words.iter_mut().enumerate().take(nr) {
            // SAFETY: on the page of the return address, which the call has just written.
            *word = unsafe { self.stack.add(at).read_volatile() };
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `lab/plugin/marker/` has this number too.
    #[test]
    fn the_marker_is_that_of_the_instrument_and_does_nothing_without_one() {
        assert_eq!(ALLOCATED, 0x5155_4103);
        let mut stack = [7_u64; STACK_WORDS];
        let caller = Caller { returns_to: 1, stack: stack.as_ptr() };
        tell(stack.as_mut_ptr().cast(), 8, caller, 9);
        assert_eq!(stack, [7; STACK_WORDS]);
    }

    #[test]
    fn nothing_is_read_behind_the_page_of_the_return_address() {
        #[repr(align(4096))]
        struct Pages([u64; 1024]);
        let pages = Box::new(Pages(std::array::from_fn(|at| at as u64)));
        // 512 is the first word of the second page.
        for (stack, expected) in [
            (9, [9, 10, 11, 12, 13, 14, 15, 16, 17]),
            (503, [503, 504, 505, 506, 507, 508, 509, 510, 511]),
            (510, [510, 511, 0, 0, 0, 0, 0, 0, 0]),
            (512, [0; 9]),
            (513, [513, 514, 515, 516, 517, 518, 519, 520, 521]),
        ] {
            let caller = Caller { returns_to: 1, stack: &raw const pages.0[stack] };
            assert_eq!(caller.words(), expected, "{stack}");
        }
    }

    #[test]
    fn a_child_that_has_memory_of_its_own_is_another_process() {
        let word = wiped_in_children().unwrap();
        // SAFETY: a word of ours.
        unsafe { &*word }.store(7, Ordering::Relaxed);
        // SAFETY: the child only looks and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a word of ours; nothing of the test's runs in the child.
            unsafe { libc::_exit((*word).load(Ordering::Relaxed) as i32) };
        }
        let mut status = 1;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "it sees its parent's");
        // SAFETY: as above.
        assert_eq!(unsafe { &*word }.load(Ordering::Relaxed), 7);
    }
}
