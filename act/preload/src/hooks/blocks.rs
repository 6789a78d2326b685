//! `realloc(3)`: the C library resizes a large block by `mremap`, and does not come by our `mremap` for it.

use std::ffi::c_void;

use crate::helper::{self, Hold};
use crate::real;
use crate::runtime::{self, Runtime};

/// What the C library's `malloc` has before a block: how far behind the start of its mapping it begins, where it has one,
/// and its size.
type Head = [usize; 2];

/// Of the size: the block is a mapping of its own.
const IS_MAPPED: usize = 2;

/// Of the size: all that are no size.
const FLAGS: usize = 7;

/// `realloc(3)`: what lies in a block that is a mapping is given back first, as for `mremap`.
///
/// # Safety
/// The contract of `realloc(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let may_be_marked = runtime::get().is_some_and(Runtime::moves_pages);
    // SAFETY: the caller's contract: a block, or null.
    let mapping = if may_be_marked { unsafe { mapping_of(block) } } else { None };
    let _hold = mapping.map(|(start, end)| {
        let hold = Hold::new();
        helper::give_back_range(start, end);
        hold
    });
    // SAFETY: the caller's contract is passed on.
    unsafe { real::realloc()(block, bytes) }
}

/// The mapping that a block has for itself, if it is the C library's own `malloc` that made it.
///
/// # Safety
/// A block of the program's allocator, or null.
unsafe fn mapping_of(block: *mut c_void) -> Option<(usize, usize)> {
    if block.is_null() || !real::allocates_as_glibc() {
        return None;
    }
    // SAFETY: the head of the block.
    let [before, size] = unsafe { block.cast::<Head>().sub(1).read() };
    let chunk = block as usize - size_of::<Head>();
    (size & IS_MAPPED != 0).then(|| (chunk - before, chunk + (size & !FLAGS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_block_is_a_mapping_and_a_small_one_is_none() {
        for (bytes, alignment) in [(64 << 20, 16), (64 << 20, 1 << 16), (100, 16)] {
            // SAFETY: blocks of this function.
            unsafe {
                let block = libc::memalign(alignment, bytes);
                let mapping = mapping_of(block);
                assert_eq!(mapping.is_some(), bytes > 100, "{bytes}");
                if let Some((start, end)) = mapping {
                    assert_eq!((start % 4096, end % 4096), (0, 0));
                    assert!(start < block as usize && end >= block as usize + bytes);
                }
                libc::free(block);
            }
        }
        // SAFETY: null is no block.
        assert_eq!(unsafe { mapping_of(std::ptr::null_mut()) }, None);
    }
}
