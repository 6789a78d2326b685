//! A fixed number of slots of the helper's, in a mapping of its own that fills as it is used: what shares a slot takes
//! it from each other.

use quartier_kernel::sys::{self, SysResult};

use crate::own;

/// `N` slots, all zero at first.
#[derive(Debug)]
pub(super) struct Slots<T, const N: usize>(*mut T);

impl<T, const N: usize> Slots<T, N> {
    const BYTES: usize = N * size_of::<T>();

    /// Slots of zeros.
    ///
    /// # Safety
    /// Zeros must be a `T`, which needs no drop.
    pub unsafe fn new() -> SysResult<Self> {
        Ok(Self(own::map(Self::BYTES)? as *mut T))
    }

    /// The slot for a number.
    pub fn at(&mut self, number: usize) -> &mut T {
        // SAFETY: below `N`, in our own mapping, which `&mut self` is the only way into; it holds zeros, or what was
        // written here.
        unsafe { &mut *self.0.add(number % N) }
    }

    /// All are zero again.
    pub fn clear(&mut self) {
        // SAFETY: our own mapping, which reads as zero afterwards.
        let _ = unsafe { sys::madvise(self.0 as usize, Self::BYTES, libc::MADV_DONTNEED) };
    }
}

impl<T, const N: usize> Drop for Slots<T, N> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody uses it any more.
        unsafe { own::unmap(self.0 as usize, Self::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_share_slots_and_all_are_zero_at_first_and_when_cleared() {
        // SAFETY: numbers.
        let mut slots = unsafe { Slots::<u32, 4096>::new() }.unwrap();
        assert_eq!((*slots.at(0), *slots.at(4095)), (0, 0));
        *slots.at(7) = 9;
        assert_eq!((*slots.at(7 + 4096), *slots.at(8)), (9, 0));
        slots.clear();
        assert_eq!(*slots.at(7), 0);
    }
}
