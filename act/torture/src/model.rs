//! What memory must contain. A granule's contents follow from one number, its tag, so the model is
//! small, lies outside the memory under test, and a wrong word says which granule it came from.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::PAGE;

/// Bytes that have one tag.
pub const GRANULE: usize = 256;
/// Granules of a page.
pub const PER_PAGE: usize = PAGE / GRANULE;
/// Words of a granule.
pub const WORDS: usize = GRANULE / 8;

/// The tag of zeroed memory.
pub const ZERO: u32 = 0;
/// Set in a tag after `MADV_FREE`: the contents may be zero already.
pub const MAYBE_ZERO: u32 = 1 << 31;

const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The inverse of `SPREAD` modulo 2^64.
const GATHER: u64 = 0xF1DE_83E1_9937_733D;

/// The word at `index` of its page (0 to 511) in a granule with this tag.
#[must_use]
pub fn word(tag: u32, index: usize) -> u64 {
    match tag & !MAYBE_ZERO {
        ZERO => 0,
        tag => (u64::from(tag) << 32 | index as u64).wrapping_mul(SPREAD),
    }
}

/// The tag and the index that a word was made of, if it looks like one of ours.
#[must_use]
pub fn origin(word: u64) -> Option<(u32, usize)> {
    let plain = word.wrapping_mul(GATHER);
    let (tag, index) = ((plain >> 32) as u32, plain as u32 as usize);
    (word != 0 && tag != 0 && tag & MAYBE_ZERO == 0 && index < PAGE / 8).then_some((tag, index))
}

/// A word that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its index in the granule.
    pub index: usize,
    /// What it must be.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

/// Checks a granule read by `read`; `granule` is its index, of which only the place in its page
/// counts.
pub fn check(tag: u32, granule: usize, mut read: impl FnMut(usize) -> u64) -> Result<(), Wrong> {
    let first = granule % PER_PAGE * WORDS;
    let mut zeroed = false;
    for index in 0..WORDS {
        let found = read(index);
        // A granule is zero as a whole or not at all: the first word decides.
        zeroed |= index == 0 && found == 0 && tag & MAYBE_ZERO != 0;
        let expected = if zeroed { 0 } else { word(tag, first + index) };
        if found != expected {
            return Err(Wrong { index, expected, found });
        }
    }
    Ok(())
}

/// The tags of all granules.
#[derive(Clone, Copy, Debug)]
pub struct Tags(pub &'static [AtomicU32]);

impl Tags {
    /// The tag of a granule.
    #[must_use]
    pub fn get(self, granule: usize) -> u32 {
        self.0[granule].load(Ordering::Relaxed)
    }

    /// Sets the tag of a granule.
    pub fn set(self, granule: usize, tag: u32) {
        self.0[granule].store(tag, Ordering::Relaxed);
    }

    /// All granules of a page are zero.
    pub fn zero_page(self, page: usize) {
        (page * PER_PAGE..(page + 1) * PER_PAGE).for_each(|granule| self.set(granule, ZERO));
    }

    /// All granules of a page may be zero from now on.
    pub fn free_page(self, page: usize) {
        for granule in page * PER_PAGE..(page + 1) * PER_PAGE {
            let tag = self.get(granule);
            self.set(granule, if tag == ZERO { ZERO } else { tag | MAYBE_ZERO });
        }
    }

    /// A page's contents went to another.
    pub fn move_page(self, from: usize, to: usize) {
        for granule in 0..PER_PAGE {
            self.set(to * PER_PAGE + granule, self.get(from * PER_PAGE + granule));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_where_it_came_from() {
        for (tag, index) in [(1, 0), (77, 511), (0x7fff_ffff, 256)] {
            assert_eq!(origin(word(tag, index)), Some((tag, index)));
        }
        assert_eq!(origin(0), None);
        assert_eq!(word(ZERO, 5), 0);
        assert_eq!(word(ZERO | MAYBE_ZERO, 5), 0);
    }

    #[test]
    fn freed_contents_are_old_or_zero_and_never_a_mixture() {
        let old = |index| word(9, PER_PAGE / 2 * WORDS + index);
        let granule = PER_PAGE / 2;
        assert!(check(9, granule, old).is_ok());
        assert!(check(9, granule, |_| 0).is_err());
        assert!(check(9 | MAYBE_ZERO, granule, old).is_ok());
        assert!(check(9 | MAYBE_ZERO, granule, |_| 0).is_ok());
        assert!(check(9 | MAYBE_ZERO, granule, |i| if i < 3 { 0 } else { old(i) }).is_err());
        assert!(check(9 | MAYBE_ZERO, granule, |i| if i == 3 { 0 } else { old(i) }).is_err());
    }
}
