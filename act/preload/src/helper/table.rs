//! A table of the helper's: it has no heap, so each lies in a mapping of its own, which grows.

use crate::own;
use quartier_kernel::sys::{self, SysResult};

/// Bytes that a table begins with.
const FIRST_BYTES: usize = 64 << 10;

/// Entries in order, with room for more.
#[derive(Debug)]
pub struct Table<T> {
    base: *mut T,
    len: usize,
    bytes: usize,
}

impl<T: Copy> Table<T> {
    /// An empty one.
    pub fn new() -> SysResult<Self> {
        let base = own::map(FIRST_BYTES)?;
        let table = Self { base: base as *mut T, len: 0, bytes: FIRST_BYTES };
        table.keep_from_children();
        Ok(table)
    }

    /// Makes sure that `count` more entries fit.
    pub fn make_room(&mut self, count: usize) -> SysResult<()> {
        let needed = (self.len + count) * size_of::<T>();
        if needed > self.bytes {
            let bytes = needed.next_power_of_two();
            // SAFETY: the table's own mapping; `&mut self` says that nobody looks into it.
            let base = unsafe { own::lengthen(self.base as usize, self.bytes, bytes) }?;
            (self.base, self.bytes) = (base as *mut T, bytes);
            self.keep_from_children();
        }
        Ok(())
    }

    /// Puts an entry at `at`, the ones from there on after it.
    pub fn insert(&mut self, at: usize, entry: T) -> SysResult<()> {
        self.make_room(1)?;
        let at = at.min(self.len);
        // SAFETY: there is room for one entry more than `len`, and `at` is no more than `len`.
        unsafe {
            let place = self.base.add(at);
            place.copy_to(place.add(1), self.len - at);
            place.write(entry);
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the entry at `at` out.
    pub fn remove(&mut self, at: usize) -> T {
        let entry = self.all()[at];
        self.all().copy_within(at + 1.., at);
        self.len -= 1;
        entry
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// All entries.
    pub fn all(&mut self) -> &mut [T] {
        // SAFETY: the first `len` entries were written by `insert`; `&mut self` is the only user.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// A child of the program has no use for it.
    fn keep_from_children(&self) {
        // SAFETY: our own mapping; the advice is about children alone.
        let _ = unsafe { sys::madvise(self.base as usize, self.bytes, libc::MADV_DONTFORK) };
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the table's own mapping, which ends with it.
        unsafe { own::unmap(self.base as usize, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A table is what a `Vec` is.
        #[test]
        fn entries_stay_in_order(changes in prop::collection::vec((any::<bool>(), 0usize..40_000), 1..200)) {
            let mut table = Table::new().unwrap();
            let mut model: Vec<usize> = (0..30_000).collect();
            for number in 0..30_000 {
                table.insert(number, number).unwrap();
            }
            for (insert, at) in changes {
                let at = at % model.len();
                if insert {
                    table.insert(at, at).unwrap();
                    model.insert(at, at);
                } else {
                    prop_assert_eq!(table.remove(at), model.remove(at));
                }
            }
            prop_assert_eq!(table.all(), &model[..]);
        }
    }
}
