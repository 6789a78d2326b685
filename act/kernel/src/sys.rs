//! System calls without errno, for code that runs in the helper: it shares the program's memory, so
//! a C library call there could write into a thread of the program.

use syscalls::{Errno, Sysno, syscall};

/// Result of a system call.
pub type SysResult<T = usize> = Result<T, Errno>;

/// Bytes of a base page; x86-64 has no other.
pub const PAGE: usize = 4096;

/// Bytes of a huge page (PMD) on x86-64.
pub const HUGE: usize = 2 << 20;

const FUTEX_WAIT: usize = 0;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
const MPOL_DEFAULT: usize = 0;
const MPOL_PREFERRED: usize = 1;
const MPOL_F_ADDR: usize = 2;
const MPOL_MF_MOVE: usize = 2;
const KCMP_VM: usize = 1;

/// Words of a node mask: 1024 nodes.
pub const NODE_WORDS: usize = 16;

/// A set of nodes by OS id.
pub type NodeMask = [u64; NODE_WORDS];

/// The mask with one node in it; none for an id over 1023.
#[must_use]
pub fn node_mask(os_id: u32) -> NodeMask {
    let mut mask = [0; NODE_WORDS];
    if let Some(word) = mask.get_mut(os_id as usize / 64) {
        *word = 1 << (os_id % 64);
    }
    mask
}

/// `openat(AT_FDCWD, path, flags | O_CLOEXEC)`.
pub fn open(path: &std::ffi::CStr, flags: i32) -> SysResult<i32> {
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: `path` ends in NUL.
    let fd = unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) }?;
    Ok(fd as i32)
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: closing a number cannot break memory.
    let _ = unsafe { syscall!(Sysno::close, fd) };
}

/// Reads at an offset; gives the number of bytes.
pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> SysResult {
    // SAFETY: the kernel writes at most `buffer.len()` bytes.
    unsafe { syscall!(Sysno::pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset) }
}

/// Reads; gives the number of bytes.
pub fn read(fd: i32, buffer: &mut [u8]) -> SysResult {
    // SAFETY: the kernel writes at most `buffer.len()` bytes.
    unsafe { syscall!(Sysno::read, fd, buffer.as_mut_ptr(), buffer.len()) }
}

/// An `ioctl` whose argument is a structure that the kernel reads and writes.
///
/// # Safety
/// `T` must be the structure of `request`, and what it points at must be the caller's to change.
pub unsafe fn ioctl<T>(fd: i32, request: usize, argument: &mut T) -> SysResult {
    // SAFETY: the caller's contract.
    unsafe { syscall!(Sysno::ioctl, fd, request, std::ptr::from_mut(argument)) }
}

/// Makes the kernel's random numbers begin anew from what its pool has (`RNDRESEEDCRNG` of an open `/dev/urandom`; for root alone).
///
/// # Errors
/// As the kernel has it.
pub fn reseed(urandom: i32) -> SysResult {
    const RNDRESEEDCRNG: usize = 0x5207;
    // SAFETY: it takes no argument, so the kernel reads and writes none of this process's memory.
    unsafe { syscall!(Sysno::ioctl, urandom, RNDRESEEDCRNG) }
}

/// `madvise`.
///
/// # Safety
/// The range must be ours to treat as `advice` says.
pub unsafe fn madvise(start: usize, len: usize, advice: i32) -> SysResult {
    // SAFETY: the caller's contract.
    unsafe { syscall!(Sysno::madvise, start, len, advice) }
}

/// The node of each page, or a negative errno (`-ENOENT`: not present), without moving anything.
pub fn query_nodes(pages: &[usize], status: &mut [i32]) -> SysResult {
    assert!(status.len() >= pages.len());
    // SAFETY: both arrays have the length given; a null node list means "only ask".
    unsafe {
        syscall!(Sysno::move_pages, 0, pages.len(), pages.as_ptr(), 0, status.as_mut_ptr(), 0)
    }
}

/// The same of another process's pages.
pub fn query_nodes_of(pid: i32, pages: &[u64], status: &mut [i32]) -> SysResult {
    assert!(status.len() >= pages.len());
    // SAFETY: as above.
    unsafe {
        syscall!(Sysno::move_pages, pid, pages.len(), pages.as_ptr(), 0, status.as_mut_ptr(), 0)
    }
}

/// Moves pages of another process to nodes, those alone that no third one maps.
pub fn move_pages_of(pid: i32, pages: &[u64], nodes: &[i32], status: &mut [i32]) -> SysResult {
    assert!(status.len() >= pages.len() && nodes.len() >= pages.len());
    // SAFETY: three arrays of the length given; moving a page keeps its contents.
    unsafe {
        syscall!(
            Sysno::move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE
        )
    }
}

/// Moves pages of this process to nodes.
pub fn move_pages(pages: &[usize], nodes: &[i32], status: &mut [i32]) -> SysResult {
    assert!(status.len() >= pages.len() && nodes.len() >= pages.len());
    // SAFETY: three arrays of the length given; moving a page keeps its contents.
    unsafe {
        syscall!(
            Sysno::move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE
        )
    }
}

/// Prefers one node for this task's allocations, or the default policy with `None`.
pub fn prefer_node(node: Option<u32>) -> SysResult {
    let mask = node.map(node_mask);
    let (mode, pointer, bits) = match &mask {
        Some(mask) => (MPOL_PREFERRED, mask.as_ptr() as usize, NODE_WORDS * 64 + 1),
        None => (MPOL_DEFAULT, 0, 0),
    };
    // SAFETY: the mask has the number of bits given.
    unsafe { syscall!(Sysno::set_mempolicy, mode, pointer, bits) }
}

/// Whether this task has the default memory policy.
#[must_use]
pub fn task_policy_is_default() -> bool {
    policy_is_default(0, 0)
}

/// Whether the mapping at `address` has no memory policy of its own.
#[must_use]
pub fn range_policy_is_default(address: usize) -> bool {
    policy_is_default(address, MPOL_F_ADDR)
}

fn policy_is_default(address: usize, flags: usize) -> bool {
    let mut mode = 0i32;
    // SAFETY: the kernel writes one int; `address` is only looked up.
    let result = unsafe { syscall!(Sysno::get_mempolicy, &raw mut mode, 0, 0, address, flags) };
    result.is_err() || mode as usize == MPOL_DEFAULT
}

/// Sleeps while `*word == value`, at most `timeout_ms`; `false` if that is over.
pub fn futex_wait(word: &std::sync::atomic::AtomicU32, value: u32, timeout_ms: u64) -> bool {
    wait_on(word, FUTEX_WAIT_PRIVATE, value, timeout_ms) != Err(Errno::ETIMEDOUT)
}

/// The same for a word that the kernel itself wakes (`CLONE_CHILD_CLEARTID`).
pub fn futex_wait_shared(word: &std::sync::atomic::AtomicU32, value: u32, timeout_ms: u64) {
    let _ = wait_on(word, FUTEX_WAIT, value, timeout_ms);
}

fn wait_on(
    word: &std::sync::atomic::AtomicU32,
    operation: usize,
    value: u32,
    timeout_ms: u64,
) -> SysResult {
    let timeout = libc::timespec {
        tv_sec: (timeout_ms / 1000) as i64,
        tv_nsec: (timeout_ms % 1000 * 1_000_000) as i64,
    };
    // SAFETY: the word outlives the call; the kernel only reads it.
    unsafe { syscall!(Sysno::futex, word.as_ptr(), operation, value, &raw const timeout) }
}

/// Wakes everybody who sleeps on `word`.
pub fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: the kernel only uses the address.
    let _ = unsafe { syscall!(Sysno::futex, word.as_ptr(), FUTEX_WAKE_PRIVATE, i32::MAX) };
}

/// Whether two processes share their memory; `None` where the kernel will not say.
#[must_use]
pub fn same_memory(a: i32, b: i32) -> Option<bool> {
    compare_memory(a, b).ok().map(|order| order == 0)
}

/// Whether a task (a thread's id) is gone, or has other memory than the caller; `false` where the kernel
/// will not say.
#[must_use]
pub fn is_gone_from_here(task: i32) -> bool {
    match compare_memory(tid(), task) {
        Ok(order) => order != 0,
        Err(error) => error == Errno::ESRCH,
    }
}

/// 0 where two tasks have the same memory.
fn compare_memory(a: i32, b: i32) -> SysResult {
    // SAFETY: a query.
    unsafe { syscall!(Sysno::kcmp, a, b, KCMP_VM, 0, 0) }
}

/// The calling thread's id.
#[must_use]
pub fn tid() -> i32 {
    // SAFETY: a query.
    unsafe { syscall!(Sysno::gettid) }.map_or(0, |tid| tid as i32)
}

/// The calling process's id, asked of the kernel.
#[must_use]
pub fn pid() -> i32 {
    // SAFETY: a query.
    unsafe { syscall!(Sysno::getpid) }.map_or(0, |pid| pid as i32)
}

/// Monotonic time in nanoseconds.
#[must_use]
pub fn now_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { syscall!(Sysno::clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time that all threads of a process have used, in nanoseconds; `None` if there is none.
#[must_use]
pub fn cpu_nanos_of(pid: i32) -> Option<u64> {
    /// `CPUCLOCK_SCHED` of a process: its id, inverted, before three bits (clock_getcpuclockid(3)).
    const SCHEDULED: i32 = 2;
    let clock = !pid << 3 | SCHEDULED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { syscall!(Sysno::clock_gettime, clock, &raw mut time) }.ok()?;
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Ends the calling process (all its threads), without any C library handler.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { syscall!(Sysno::exit_group, status) };
    }
}

/// Gives a range of this process the policy "prefer this node", or the default with `None`. Pages
/// that are there stay where they are.
pub fn prefer_for_range(start: usize, len: usize, node: Option<u32>) -> SysResult {
    let mask = node.map(node_mask);
    let (mode, pointer, bits) = match &mask {
        Some(mask) => (MPOL_PREFERRED, mask.as_ptr() as usize, NODE_WORDS * 64 + 1),
        None => (MPOL_DEFAULT, 0, 0),
    };
    // SAFETY: the mask has the number of bits given; a policy changes no contents.
    unsafe { syscall!(Sysno::mbind, start, len, mode, pointer, bits, 0) }
}

/// Whether a process (by its pidfd) has ended.
#[must_use]
pub fn has_ended(pidfd: i32) -> bool {
    let mut poll = libc::pollfd { fd: pidfd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, as said.
    let ready = unsafe { syscall!(Sysno::poll, &raw mut poll, 1, 0) };
    ready == Ok(1)
}

/// A descriptor of a process.
pub fn pidfd(pid: i32) -> SysResult<i32> {
    // SAFETY: creates a descriptor.
    unsafe { syscall!(Sysno::pidfd_open, pid, 0) }.map(|fd| fd as i32)
}

/// Lets a process go on that somebody has stopped; one that was not stopped takes no notice.
pub fn let_go_on(pid: i32) {
    // SAFETY: sends a signal.
    let _ = unsafe { syscall!(Sysno::kill, pid, libc::SIGCONT) };
}

/// Whether a process has a thread with this id.
#[must_use]
pub fn thread_exists(pid: i32, tid: i32) -> bool {
    // SAFETY: signal 0 is a query.
    let result = unsafe { syscall!(Sysno::tgkill, pid, tid, 0) };
    result != Err(Errno::ESRCH)
}

/// Whether there is a thread with this id, of whatever process.
#[must_use]
pub fn any_thread_exists(tid: i32) -> bool {
    // SAFETY: signal 0 is a query.
    let result = unsafe { syscall!(Sysno::tkill, tid, 0) };
    result != Err(Errno::ESRCH)
}

/// Reads the affinity of a thread (0: the caller) into a mask, CPU 64 n + i being bit i of word n. The mask is long
/// enough for every CPU that the kernel can have, and what the kernel does not write is as before.
pub fn affinity(tid: i32, words: &mut [u64]) -> SysResult {
    // SAFETY: the kernel writes at most the length given.
    unsafe { syscall!(Sysno::sched_getaffinity, tid, size_of_val(words), words.as_mut_ptr()) }
}

/// Sets it.
pub fn set_affinity(tid: i32, words: &[u64]) -> SysResult {
    // SAFETY: the kernel reads the length given.
    unsafe { syscall!(Sysno::sched_setaffinity, tid, size_of_val(words), words.as_ptr()) }
}

/// Sleeps.
pub fn sleep_micros(micros: u32) {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let time = libc::timespec { tv_sec: i64::from(seconds), tv_nsec: i64::from(rest) * 1000 };
    // SAFETY: the kernel reads one timespec.
    let _ = unsafe { syscall!(Sysno::nanosleep, &raw const time, 0) };
}

/// Reads entries of an open directory (`getdents64`); gives the number of bytes, 0 at the end.
pub fn read_directory(fd: i32, buffer: &mut [u8]) -> SysResult {
    // SAFETY: the kernel writes at most `buffer.len()` bytes.
    unsafe { syscall!(Sysno::getdents64, fd, buffer.as_mut_ptr(), buffer.len()) }
}
