//! What the names of functions mean: which take a lock, which wait for others, which are only on the way.

use quartier_model::Frame;
use serde::{Deserialize, Serialize};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// A lock that another thread has.
    Lock,
    /// Other threads or processes: a barrier, a condition, the end of one.
    Others,
    /// A disk, or another device.
    Disk,
    /// Somebody at the other end of a socket or pipe.
    Peer,
    /// Time to pass.
    Time,
    /// Something that its stack does not tell.
    Unknown,
}

impl Waits {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Lock => "a lock",
            Self::Others => "other threads",
            Self::Disk => "a disk",
            Self::Peer => "a socket or pipe",
            Self::Time => "time to pass",
            Self::Unknown => "something unknown",
        }
    }
}

/// What a thread with this stack, from the outermost frame, waits for.
///
/// `is_locked`: on a futex that is 2.
pub fn waits_for<'a>(stack: impl DoubleEndedIterator<Item = &'a Frame>, is_locked: bool) -> Waits {
    let stack: Vec<_> = stack.collect();
    let (kernel, user): (Vec<&Frame>, Vec<_>) =
        stack.into_iter().partition(|frame| frame.is_kernel());
    let calls = |words: &[&str]| {
        kernel.iter().any(|frame| words.iter().any(|word| frame.function.contains(word)))
    };
    if calls(&["futex"]) {
        return futex(&user, is_locked);
    }
    // In this order: a read of a file goes through the same calls as one of a socket.
    for (words, waits) in [
        (
            &["io_schedule", "blkdev", "wait_on_page", "folio_wait", "jbd2", "submit_bio"][..],
            Waits::Disk,
        ),
        (&["nanosleep", "hrtimer_sleep", "sys_pause"], Waits::Time),
        (&["do_wait", "pidfd_poll"], Waits::Others),
        (
            &[
                "epoll_wait",
                "ep_poll",
                "poll_schedule_timeout",
                "wait_woken",
                "do_poll",
                "do_select",
                "sk_wait",
                "inet_csk_accept",
                "skb_wait",
                "unix_stream",
                "pipe_read",
                "pipe_write",
                "recvmsg",
                "accept",
                "do_sys_poll",
                "anon_pipe",
            ],
            Waits::Peer,
        ),
        (&["rwsem_down", "mutex_lock", "down_read", "down_write"], Waits::Lock),
    ] {
        if calls(words) {
            return waits;
        }
    }
    Waits::Unknown
}

/// A futex is a lock, or the other half of a condition: who called it knows.
fn futex(user: &[&Frame], is_locked: bool) -> Waits {
    let innermost = user.iter().rev().take_while(|frame| is_plumbing(frame));
    let names: Vec<_> = innermost.map(|frame| frame.function.as_str()).collect();
    let says =
        |words: &[&str]| names.iter().any(|name| words.iter().any(|word| name.contains(word)));
    if says(&["cond", "join", "barrier", "sem_", "park", "wait_for", "recv", "Once", "aio_suspend"])
    {
        Waits::Others
    } else if says(&["lock", "mutex", "Mutex"]) {
        Waits::Lock
    } else if user.last().is_some_and(|frame| is_c_library(&frame.module)) {
        // Functions of the C library's own have no names: those that take the locks of malloc, stdio, localtime wait
        // for one that is locked, those that join threads do not.
        if is_locked { Waits::Lock } else { Waits::Others }
    } else {
        Waits::Unknown
    }
}

/// Whether a function takes or releases a lock.
pub fn is_lock(frame: &Frame) -> bool {
    let name = frame.function.as_str();
    let is_pthread = ["pthread_mutex_", "pthread_spin_", "pthread_rwlock_"]
        .iter()
        .any(|part| name.contains(part));
    is_pthread
        || name.contains("lll_lock")
        || name.contains("lll_mutex")
        || ["std::sys::sync::mutex", "std::sys::sync::rwlock", "parking_lot::raw_", "lock_api::"]
            .iter()
            .any(|part| name.contains(part))
}

/// Whether a function of the kernel waits for a lock of the kernel's, or spins on it.
pub fn is_kernel_lock(frame: &Frame) -> bool {
    const PARTS: [&str; 9] = [
        "queued_spin_lock",
        "_raw_spin_lock",
        "rwsem_",
        "down_read",
        "down_write",
        "mutex_lock",
        "rt_mutex_slow",
        "osq_lock",
        "queued_read_lock",
    ];
    frame.is_kernel() && PARTS.iter().any(|part| frame.function.contains(part))
}

/// Whether a frame is of a library that everybody uses: whose it is, is who called it.
pub fn is_plumbing(frame: &Frame) -> bool {
    let name = &frame.function;
    frame.is_kernel()
        || is_c_library(&frame.module)
        || [
            "std::",
            "core::",
            "alloc::",
            "<std::",
            "<core::",
            "<alloc::",
            "parking_lot",
            "lock_api",
        ]
        .iter()
        .any(|start| name.starts_with(start))
        || name == "_start"
}

/// Whether a frame is a function of the program's own.
pub fn is_own(frame: &Frame) -> bool {
    !is_plumbing(frame) && !frame.is_program()
}

fn is_c_library(module: &str) -> bool {
    ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libgcc_s", "[vdso]"]
        .iter()
        .any(|start| module.starts_with(start))
}

/// By a part of what handles them in the kernel: interrupts come whatever the program does, and say nothing of where it is.
const INTERRUPTS: [(&str, &str); 5] = [
    ("sysvec_apic_timer", "interrupts of timers"),
    ("sysvec_call_function", "interrupts by other CPUs"),
    ("sysvec_reschedule", "interrupts by other CPUs"),
    ("sysvec_", "other interrupts"),
    ("common_interrupt", "other interrupts"),
];

/// What the kernel does of its own accord where a thread happens to be: at a fault, or on the way back from an interrupt or a call.
pub const NUMA_BALANCING: &str = "NUMA balancing";

/// Whether a function of the kernel's marks pages to see who uses them, or handles the faults of that, or moves pages and threads for it (Linux 6.1 to 7.3).
pub fn is_numa_balancing(frame: &Frame) -> bool {
    const STARTS: [&str; 8] = [
        "task_numa_",
        "change_prot_numa",
        "do_numa_page",
        "do_huge_pmd_numa_page",
        "migrate_misplaced_",
        "numa_migrate_",
        "mpol_misplaced",
        "should_numa_migrate",
    ];
    STARTS.iter().any(|start| frame.function.starts_with(start))
}

/// Whether that is what brought a program into the kernel.
pub fn is_interrupt(entry: &str) -> bool {
    INTERRUPTS.iter().any(|(_, interrupts)| *interrupts == entry)
}

/// What brought the program into the kernel: a system call's name, or a fault's.
pub fn kernel_entry<'a>(stack: impl DoubleEndedIterator<Item = &'a Frame>) -> Option<String> {
    // The kernel calls no code of the program's: what is outside of that has been left.
    let kernel: Vec<_> = stack.rev().take_while(|frame| frame.is_kernel()).collect();
    let mut first = None;
    for frame in kernel.into_iter().rev() {
        let name = frame.function.as_str();
        for start in ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__se_sys_", "ksys_"] {
            if let Some(call) = name.strip_prefix(start) {
                return Some(format!("{call}()"));
            }
        }
        if name.contains("exc_page_fault") {
            return Some("page faults".to_owned());
        }
        for (part, interrupts) in INTERRUPTS {
            if name.contains(part) {
                return Some(interrupts.to_owned());
            }
        }
        // Every system call goes through these.
        let is_entry = ["entry_SYSCALL", "do_syscall", "x64_sys_call", "asm_", "el0"];
        if !is_entry.iter().any(|start| name.starts_with(start)) {
            first = first.or(Some(name));
        }
    }
    first.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(function, module): &(&str, &str)| Frame {
            function: (*function).to_owned(),
            module: (*module).to_owned(),
            line: None,
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn a_futex_is_a_lock_or_not_by_who_waits_on_it() {
        const FUTEX: (&str, &str) = ("futex_wait", "[kernel]");
        for (of, is_locked, expected) in [
            (
                &[
                    ("work", "a"),
                    ("pthread_mutex_lock", "libc.so.6"),
                    ("libc.so.6+0x8a", "libc.so.6"),
                ][..],
                true,
                Waits::Lock,
            ),
            (&[("work", "a"), ("pthread_barrier_wait", "libc.so.6")], true, Waits::Others),
            (&[("main", "a"), ("__pthread_clockjoin_ex", "libc.so.6")], false, Waits::Others),
            (&[("main", "a"), ("libc.so.6+0x1", "libc.so.6")], false, Waits::Others),
            (&[("work", "a"), ("pthread_cond_wait", "libc.so.6")], false, Waits::Others),
            // An arena's lock, and that of localtime.
            (
                &[("work", "a"), ("malloc", "libc.so.6"), ("libc.so.6+0x1", "libc.so.6")],
                true,
                Waits::Lock,
            ),
            (
                &[("work", "a"), ("std::sys::sync::mutex::futex::Mutex::lock_contended", "a")],
                false,
                Waits::Lock,
            ),
            (&[("work", "a"), ("std::thread::park", "a")], false, Waits::Others),
            (&[("runtime.futexsleep", "a")], true, Waits::Unknown),
        ] {
            let mut frames = stack(of);
            frames.extend(stack(&[("do_syscall_64", "[kernel]"), FUTEX, ("schedule", "[kernel]")]));
            assert_eq!(waits_for(frames.iter(), is_locked), expected, "{of:?}");
        }
    }

    #[test]
    fn what_brought_it_into_the_kernel_is_named() {
        let calls = stack(&[
            ("write", "libc.so.6"),
            ("entry_SYSCALL_64_after_hwframe", "[kernel]"),
            ("__x64_sys_write", "[kernel]"),
        ]);
        assert_eq!(kernel_entry(calls.iter()).as_deref(), Some("write()"));
        let fault = stack(&[("work", "a"), ("asm_exc_page_fault", "[kernel]"), ("x", "[kernel]")]);
        assert_eq!(kernel_entry(fault.iter()).as_deref(), Some("page faults"));
        let tick = stack(&[
            ("work", "a"),
            ("asm_sysvec_apic_timer_interrupt", "[kernel]"),
            ("sysvec_apic_timer_interrupt", "[kernel]"),
        ]);
        let entry = kernel_entry(tick.iter()).unwrap();
        assert!(is_interrupt(&entry) && entry.contains("timers"), "{entry}");
        // Where the compiler left no function of the call's own.
        let inlined = stack(&[("do_syscall_64", "[kernel]"), ("vm_mmap_pgoff", "[kernel]")]);
        assert_eq!(kernel_entry(inlined.iter()).as_deref(), Some("vm_mmap_pgoff"));
        assert_eq!(kernel_entry(stack(&[("work", "a")]).iter()), None);
        let left = stack(&[("asm_exc_page_fault", "[kernel]"), ("work", "a")]);
        assert_eq!(kernel_entry(left.iter()), None);
    }
}
