//! Our own mappings inside a program. They lie in one zone of the address space, far from where the
//! kernel puts a program's: so none of ours lies in a hole that the program has just made and is about
//! to fill again (`MAP_FIXED`), and what is ours is known by its address, however much there is.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use quartier_kernel::sys::{HUGE, SysResult};
use syscalls::{Errno, Sysno, syscall};

/// The zone, 22 TiB long: above programs and heaps at fixed addresses, below position-independent
/// programs (`0x5555…`) and the mappings that the kernel places from the top down.
pub const ZONE: Range<usize> = 0x3a00_0000_0000..0x5000_0000_0000;

/// An address where nothing is ever mapped.
pub const NOTHING: usize = ZONE.end - HUGE;

/// How often a place is tried that somebody else has, each time farther from the last.
const TRIES: u32 = 24;

static NEXT: AtomicUsize = AtomicUsize::new(ZONE.start);

/// A private, zeroed, lazily filled mapping of our own that begins at a huge page's boundary, with a
/// gap before the next one.
pub fn map(len: usize) -> SysResult {
    map_around(0, len)
}

/// The same around a huge page's boundary, which is what it gives: `below` bytes before it, which so
/// never lie in one huge page with the `above` bytes after it.
pub fn map_around(below: usize, above: usize) -> SysResult {
    let room_below = below.next_multiple_of(HUGE);
    let step = room_below + above.next_multiple_of(HUGE) + HUGE;
    for attempt in 0..TRIES {
        let start = NEXT.fetch_add(step << attempt, Ordering::Relaxed);
        if !ZONE.contains(&start) || NOTHING.saturating_sub(start) < step {
            // Round again: what lay at the start is mostly given back by now.
            NEXT.store(ZONE.start, Ordering::Relaxed);
            continue;
        }
        let boundary = start + room_below;
        match map_at(boundary - below, below + above) {
            Ok(_) => return Ok(boundary),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ENOMEM)
}

fn map_at(start: usize, len: usize) -> SysResult {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a fresh mapping, made only where nothing is.
    unsafe { syscall!(Sysno::mmap, start, len, protection, flags, -1isize, 0) }
}

/// Makes one of our mappings longer; gives where it lies now.
///
/// # Safety
/// `[start, start + len)` must be a whole mapping of ours, and nothing may keep an address in it.
pub unsafe fn lengthen(start: usize, len: usize, new_len: usize) -> SysResult {
    let target = map(new_len)?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the caller's contract; the target was mapped just now and holds nothing.
    let moved = unsafe { syscall!(Sysno::mremap, start, len, new_len, flags, target) };
    if moved.is_err() {
        // SAFETY: mapped above, unused.
        unsafe { unmap(target, new_len) };
    }
    moved
}

/// Gives back a mapping of our own.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(start: usize, len: usize) {
    // SAFETY: the caller's contract.
    let _ = unsafe { syscall!(Sysno::munmap, start, len) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_kernel::sys::PAGE;

    #[test]
    fn own_mappings_lie_in_the_zone_also_after_it_was_used_up() {
        let first = map(PAGE).unwrap();
        NEXT.store(ZONE.end - HUGE, Ordering::Relaxed);
        // Begins at the start again, where others are.
        let again = map(64 * HUGE).unwrap();
        assert!(ZONE.contains(&first) && ZONE.contains(&again));
        assert!(again >= first + PAGE || again + 64 * HUGE <= first);
    }

    #[test]
    fn a_mapping_around_a_boundary_reaches_to_both_sides() {
        let boundary = map_around(3 * PAGE, HUGE).unwrap();
        assert_eq!(boundary % HUGE, 0);
        for address in [boundary - 3 * PAGE, boundary, boundary + HUGE - 8] {
            // SAFETY: inside the fresh mapping.
            unsafe { (address as *mut u64).write(1) };
        }
    }

    #[test]
    fn a_lengthened_mapping_keeps_its_contents() {
        let start = map(PAGE).unwrap();
        // SAFETY: inside the fresh mapping.
        unsafe { (start as *mut u64).write(77) };
        // SAFETY: as mapped above.
        let longer = unsafe { lengthen(start, PAGE, 4 * PAGE) }.unwrap();
        // SAFETY: inside the longer mapping.
        let words =
            unsafe { [(longer as *const u64).read(), ((longer + 3 * PAGE) as *const u64).read()] };
        assert_eq!(words, [77, 0]);
        assert!(ZONE.contains(&longer));
    }
}
