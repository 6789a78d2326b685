//! The classic next-touch: `mprotect(PROT_NONE)`, then `move_pages` and `mprotect` in a handler of
//! SIGSEGV. A system call that touches such memory fails with EFAULT.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::ensure;
use quartier_kernel::sys::{self, HUGE, PAGE};

use super::region::{Region, kernel_can_read, warm_up};
use super::{Sample, Shape};

const PAGES_MAX: usize = HUGE / PAGE;

static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static BLOCK: AtomicUsize = AtomicUsize::new(0);

pub fn measure(shape: Shape, block: usize) -> anyhow::Result<Sample> {
    ensure!(block.is_power_of_two() && (PAGE..=HUGE).contains(&block), "a block is 4K to 2M");
    let cold_ns = warm_up(2 * shape.bytes())?;
    let region = Region::map(shape.bytes())?;
    let (start, len) = region.range();
    START.store(start, Ordering::Relaxed);
    END.store(start + len, Ordering::Relaxed);
    BLOCK.store(block, Ordering::Relaxed);
    catch()?;
    let mark_ns = Cell::new(0.0);
    let sweep = region.sweep(shape.threads, || {
        region.fill();
        let began = Instant::now();
        protect(start, len, libc::PROT_NONE)?;
        mark_ns.set(began.elapsed().as_nanos() as f64 / region.nr_pages() as f64);
        Ok(())
    })?;
    region.check(2)?;
    protect(start, len, libc::PROT_NONE)?;
    let kernel_access = Some(kernel_can_read(start)?);
    Ok(Sample {
        mark_ns: mark_ns.get(),
        touch_ns: sweep.touch_ns,
        // Marking is one call of the thread that marks, which does not sleep in it.
        cpu_ns: mark_ns.get() + sweep.cpu_ns,
        again_ns: sweep.again_ns,
        cold_ns,
        kernel_access,
        ..Sample::default()
    })
}

fn protect(start: usize, len: usize, protection: i32) -> anyhow::Result<()> {
    // SAFETY: our own mapping; a touch while it is protected is caught below.
    let status = unsafe { libc::mprotect(start as *mut libc::c_void, len, protection) };
    ensure!(status == 0, "mprotect failed: {}", std::io::Error::last_os_error());
    Ok(())
}

fn catch() -> anyhow::Result<()> {
    // SAFETY: all-zero is a valid sigaction; the handler only makes system calls.
    let status = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_SIGINFO;
        action.sa_sigaction = on_touch as *const () as usize;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut())
    };
    ensure!(status == 0, "sigaction failed: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Moves the block to the node of the thread that touched it, and lets it be used again.
extern "C" fn on_touch(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo with the address of the touch.
    let address = unsafe { (*info).si_addr() } as usize;
    let (start, end) = (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    if !(start..end).contains(&address) {
        sys::exit_group(139);
    }
    let len = BLOCK.load(Ordering::Relaxed);
    let block = address & !(len - 1);
    let count = len / PAGE;
    let (mut pages, mut status) = ([0; PAGES_MAX], [0; PAGES_MAX]);
    for (index, page) in pages[..count].iter_mut().enumerate() {
        *page = block + index * PAGE;
    }
    let nodes = [this_node(); PAGES_MAX];
    let _ = sys::move_pages(&pages[..count], &nodes[..count], &mut status);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: our own mapping. If this fails the touch is simply caught again.
    unsafe { libc::mprotect(block as *mut libc::c_void, len, access) };
}

fn this_node() -> i32 {
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: the kernel writes two integers.
    unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, 0) };
    node as i32
}
