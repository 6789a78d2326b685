//! Restartable sequences (`rseq(2)`, Linux 4.18): an addition to a word of the own CPU without an atomic
//! instruction.
//!
//! The kernel looks at a thread that it takes off a CPU or gives a signal: if its instruction
//! pointer is inside a *critical section* that the thread has announced, the thread goes on at the
//! section's abort handler instead. So a section whose last instruction is a plain store happens
//! as a whole on one CPU, or not at all. glibc 2.35 registers every thread and tells where its area lies.
//!
//! Words of other CPUs are never written in a section. Who must read them all has every section
//! refused (`is_closed`), and then has those under way restarted by `membarrier(2)`
//! ([`Rseq::restart_all`], Linux 5.10).

use std::arch::asm;
use std::ffi::c_uint;
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicI64, AtomicU32};

/// The calling thread's area, from the thread pointer: for every thread of the process alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rseq {
    offset: isize,
    has_node: bool,
}

/// In `struct rseq` of the kernel's ABI, `cpu_id` is at 4, `rseq_cs` at 8 and, where the kernel says that
/// it has so many bytes, `node_id` at 20.
const AREA_BYTES_MIN: c_uint = 16;
const AREA_BYTES_WITH_NODE: libc::c_ulong = 24;

/// What the kernel tells a program about its `struct rseq` (Linux 6.3).
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// One word for each CPU, and the word that closes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<'a> {
    pub(crate) words: &'a [CachePadded<AtomicI64>],
    /// While it is not 0 every addition is refused.
    pub(crate) is_closed: &'a AtomicU32,
}

/// How far apart words are, as a power of two.
const SLOT_SHIFT: usize = 7;
const _: () = assert!(size_of::<CachePadded<AtomicI64>>() == 1 << SLOT_SHIFT);

impl Rseq {
    /// The area, if the C library has registered this process's threads.
    #[inline]
    pub(crate) fn area() -> Option<Self> {
        static AREA: OnceLock<Option<Rseq>> = OnceLock::new();
        *AREA.get_or_init(Self::find)
    }

    /// The same where sections of all threads can be restarted too.
    pub(crate) fn with_barrier() -> Option<Self> {
        static HAS_BARRIER: OnceLock<bool> = OnceLock::new();
        let area = Self::area()?;
        let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ;
        HAS_BARRIER.get_or_init(|| membarrier(register)).then_some(area)
    }

    fn find() -> Option<Self> {
        // Looked up, not linked: a C library without them is no reason not to start.
        // SAFETY: the names end in 0; RTLD_DEFAULT is no handle that could be closed.
        let (offset, size) = unsafe {
            (
                libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>(),
                libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<c_uint>(),
            )
        };
        // SAFETY: null or of these types for the life of the process (glibc manual, "Restartable
        // Sequences"); 0 for the size says that registration was refused or switched off.
        let (offset, size) = unsafe { (offset.as_ref()?, size.as_ref()?) };
        // SAFETY: has no preconditions; 0 for what the kernel did not say.
        let has_node = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } >= AREA_BYTES_WITH_NODE;
        (*size >= AREA_BYTES_MIN).then_some(Self { offset: *offset, has_node })
    }

    /// The CPU, if this thread is registered.
    #[inline]
    pub(crate) fn cpu(self) -> Option<usize> {
        usize::try_from(self.word::<4>()).ok()
    }

    /// The node, if the kernel tells it here and this thread is registered.
    #[inline]
    pub(crate) fn node(self) -> Option<usize> {
        (self.has_node && self.word::<4>() >= 0).then_some(self.word::<20>() as usize)
    }

    /// The word of the calling thread's area at `AT` bytes, which is in it.
    #[inline]
    fn word<const AT: usize>(self) -> i32 {
        let word: i32;
        // SAFETY: `find` saw that the area of each thread is there, at this offset; the kernel writes it,
        // and this reads a word of it.
        unsafe {
            asm!(
                "mov {word:e}, dword ptr fs:[{rseq} + {at}]",
                word = lateout(reg) word,
                rseq = in(reg) self.offset,
                at = const AT,
                options(nostack, preserves_flags, readonly),
            );
        }
        word
    }

    /// Adds `delta` to the word of the CPU that the thread is on, if the sum is in `0..=max`, the words
    /// are not closed and the CPU has one. Whether it did.
    ///
    /// Who writes to the words in another way loses additions, unless they are closed and
    /// [`restart_all`](Self::restart_all) has returned.
    #[inline]
    pub(crate) fn add_within(self, slots: Slots<'_>, delta: i64, max: i64) -> bool {
        let mut is_done: u32 = 0;
        // SAFETY: the area is there (`find`), its `rseq_cs` is for programs to set, and the section keeps
        // the kernel's rules: no stack, no call, one store at its end, an abort handler after the
        // signature. It stores to one of `words`, which are atomics and `1 << SLOT_SHIFT` bytes apart.
        unsafe {
            asm!(
                // The section, as the kernel reads it: version and flags, start, length, abort handler.
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "66:",
                ".long 0, 0",
                ".quad 33f, 44f - 33f, 88f",
                ".popsection",
                "22:",
                "lea {sum}, [rip + 66b]",
                "mov qword ptr fs:[{rseq} + 8], {sum}",
                "33:",
                "mov {slot:e}, dword ptr fs:[{rseq} + 4]",
                // Unsigned: what is negative, for threads that are not registered, is too large.
                "cmp {slot}, {nr}",
                "jae 55f",
                "cmp dword ptr [{is_closed}], 0",
                "jne 55f",
                "shl {slot}, {shift}",
                "mov {sum}, qword ptr [{first} + {slot}]",
                "add {sum}, {delta}",
                "cmp {sum}, {max}",
                "ja 55f",
                "mov qword ptr [{first} + {slot}], {sum}",
                "44:",
                "mov {is_done:e}, 1",
                "55:",
                // A library that is unloaded must leave no pointer to what was in it.
                "mov qword ptr fs:[{rseq} + 8], 0",
                ".pushsection __rseq_failure, \"ax\"",
                // An undefined instruction whose operand is glibc's signature (RSEQ_SIG).
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "88:",
                "jmp 22b",
                ".popsection",
                sum = out(reg) _,
                slot = out(reg) _,
                is_done = inout(reg) is_done,
                rseq = in(reg) self.offset,
                nr = in(reg) slots.words.len(),
                is_closed = in(reg) std::ptr::from_ref(slots.is_closed),
                first = in(reg) slots.words.as_ptr(),
                delta = in(reg) delta,
                max = in(reg) max,
                shift = const SLOT_SHIFT,
                options(nostack),
            );
        }
        is_done != 0
    }

    /// When it returns, every section that was under way is done or was restarted, and what this thread wrote
    /// before is seen by those that begin.
    pub(crate) fn restart_all(self) {
        let restart = || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
        // Whatever took the registration from a process that had it: a new one is as good.
        let register = || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
        let is_done = restart() || register() && restart();
        assert!(is_done, "membarrier(2) worked when the counter was made, and is refused now");
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
