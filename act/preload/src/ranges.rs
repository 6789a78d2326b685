//! Ranges among the program's that are never marked, because the runtime or the helper needs them in
//! order to work. Mappings that we made ourselves lie in a zone of their own (see `own`).

use std::sync::atomic::{AtomicUsize, Ordering};

use quartier_kernel::sys::PAGE;

const OWN_MAX: usize = 64;

static OWN: [[AtomicUsize; 2]; OWN_MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; OWN_MAX];

/// Notes what the runtime needs from the start: the segments of its library and of the C library, and
/// the page with the first thread's `rseq` area, which the helper reads.
pub fn keep_first(rseq: usize) {
    // All of the runtime's state lies in its library. The C library's `memcpy` reads variables of its
    // own to choose how to copy.
    keep_object_of(std::ptr::from_ref(&OWN) as usize);
    keep_object_of(libc::memcpy as *const () as usize);
    if rseq != 0 {
        let page = rseq & !(PAGE - 1);
        keep(page, page + 2 * PAGE);
    }
}

/// Notes the segments of the loaded object that an address lies in.
fn keep_object_of(mut address: usize) {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        address: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader's description of one object, valid during the call, and the caller's
        // address.
        let (base, headers, address) = unsafe {
            let info = &*info;
            (
                info.dlpi_addr as usize,
                std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
                *address.cast::<usize>(),
            )
        };
        let segments =
            headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
                let start = base + header.p_vaddr as usize;
                (start & !(PAGE - 1), (start + header.p_memsz as usize).next_multiple_of(PAGE))
            });
        let holds = segments.clone().any(|(start, end)| start <= address && address < end);
        if holds {
            segments.for_each(|(start, end)| keep(start, end));
        }
        libc::c_int::from(holds)
    }
    // SAFETY: `visit` has the type the loader calls, and gets the address it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::from_mut(&mut address).cast()) };
}

/// Notes a range. There are as many as two libraries have segments, and one more.
fn keep(start: usize, end: usize) {
    let _ = OWN.iter().any(|[first, last]| {
        let free = first.load(Ordering::Relaxed) == 0;
        let won =
            free && first.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            last.store(end, Ordering::Release);
        }
        won
    });
}

/// The lowest own range that overlaps `[start, end)`.
pub fn overlapping(start: usize, end: usize) -> Option<(usize, usize)> {
    OWN.iter()
        .map(|[first, last]| (first.load(Ordering::Acquire), last.load(Ordering::Acquire)))
        .filter(|(first, last)| *first < end && start < *last)
        .min()
}

/// Forgets all: in a child after `fork`, which has none of the helper's mappings.
pub fn forget_all() {
    for [first, last] in &OWN {
        last.store(0, Ordering::Relaxed);
        first.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the list is everybody's.
    #[test]
    fn what_is_kept_is_seen_by_whatever_overlaps_it() {
        keep_first(0);
        let address = libc::memcpy as *const () as usize;
        assert!(overlapping(address, address + 1).is_some());
        // Low addresses, where nothing of another test can be.
        keep(0x1000, 0x2000);
        assert_eq!(overlapping(0x1fff, 0x3000), Some((0x1000, 0x2000)));
        assert_eq!(overlapping(0x2000, 0x3000), None);
        forget_all();
        assert_eq!(overlapping(0, 0x3000), None);
    }
}
