//! The table that all processes of a run write: one slot for each block of memory, the latest that came to it.
//!
//! Whoever comes to a slot overwrites it, and nobody waits: of two that do so at once what is left may be some words of
//! each, but then its last word is wrong, and it counts for nothing. `observe/src/profile/sites.rs` has the same layout.

use std::ffi::CStr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A file that begins otherwise is somebody's.
const HEAD: [u8; 16] = *b"QUARTIER SITES 1";
/// From so many bytes on blocks are few, and have slots that small ones do not take.
const LARGE_BYTES: u64 = 4096;
const LARGE_BITS: u32 = 14;
const SMALL_BITS: u32 = 17;
/// What is kept of a caller's stack: enough to find who called a function that allocates for others.
pub const STACK_WORDS: usize = 9;

/// Of a slot, in this order: start, bytes, process, since when, when, where the call returns to, and its stack; then their sum.
const WORDS: usize = 6 + STACK_WORDS;
const SINCE: usize = 3;
/// What is the same of a block that the same code allocates again.
const SAME: [usize; 4] = [0, 1, 2, 5];
/// An odd number with bits all over.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A block that was allocated.
#[derive(Clone, Copy)]
pub struct Allocation {
    /// Its address.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// Whose it is.
    pub process: u64,
    /// When, by the monotonic clock.
    pub at_ns: u64,
    /// Where the call returns to.
    pub returns_to: u64,
    /// The caller's stack.
    pub stack: [u64; STACK_WORDS],
}

/// The whole file.
#[repr(C, align(4096))]
pub struct Table {
    _head: [u8; 4096],
    large: [Slot; 1 << LARGE_BITS],
    small: [Slot; 1 << SMALL_BITS],
}

/// Two lines, so that no two slots share one.
#[repr(C, align(128))]
struct Slot([AtomicU64; WORDS + 1]);

impl Table {
    /// The one in a file, for good; `None`: there is none.
    pub fn map(path: &CStr) -> Option<&'static Self> {
        // SAFETY: a C string.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if file < 0 {
            return None;
        }
        let table = Self::of_file(file);
        // SAFETY: opened above, and nobody else's.
        unsafe { libc::close(file) };
        table
    }

    fn of_file(file: libc::c_int) -> Option<&'static Self> {
        let mut head = [0_u8; HEAD.len()];
        // SAFETY: the file's first bytes are written there, and no more than there is room for.
        let nr = unsafe { libc::pread(file, head.as_mut_ptr().cast(), head.len(), 0) };
        // SAFETY: moves the place of a descriptor that nobody else has.
        let bytes = unsafe { libc::lseek(file, 0, libc::SEEK_END) };
        if nr != HEAD.len() as isize || head != HEAD || bytes != size_of::<Self>() as i64 {
            return None;
        }
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Self>(),
                read_write,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        // SAFETY: as large as a table, at the beginning of a page, and never unmapped; any bytes are one, and those that
        // change are atomic.
        (start != libc::MAP_FAILED).then(|| unsafe { &*start.cast::<Self>() })
    }

    /// Notes a block in its slot.
    pub fn note(&self, new: &Allocation) {
        let slot = self.slot(new);
        let mut words = [0; WORDS];
        words[..6].copy_from_slice(&[
            new.start,
            new.bytes,
            new.process,
            new.at_ns,
            new.at_ns,
            new.returns_to,
        ]);
        words[6..].copy_from_slice(&new.stack);
        if SAME.iter().all(|at| slot.0[*at].load(Relaxed) == words[*at]) {
            words[SINCE] = slot.0[SINCE].load(Relaxed).min(new.at_ns);
        }
        for (place, word) in slot.0.iter().zip(words) {
            place.store(word, Relaxed);
        }
        slot.0[WORDS].store(sum(&words), Relaxed);
    }

    fn slot(&self, of: &Allocation) -> &Slot {
        let key = (of.start >> 4) ^ (of.process << 44);
        let scattered = key.wrapping_mul(SCATTER);
        let (slots, bits): (&[Slot], u32) = match of.bytes {
            LARGE_BYTES.. => (&self.large, LARGE_BITS),
            _ => (&self.small, SMALL_BITS),
        };
        &slots[(scattered >> (u64::BITS - bits)) as usize]
    }
}

/// Of some words of one block and some of another it is wrong.
fn sum(words: &[u64; WORDS]) -> u64 {
    let parts = words.iter().zip(FACTORS).map(|(word, factor)| word.wrapping_mul(factor));
    parts.fold(0, u64::wrapping_add)
}

/// Powers of one number: each word has its own.
const FACTORS: [u64; WORDS] = {
    let mut factors = [SCATTER; WORDS];
    let mut at = 1;
    while at < WORDS {
        factors[at] = factors[at - 1].wrapping_mul(SCATTER);
        at += 1;
    }
    factors
};

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed};

    use super::*;

    fn empty() -> Box<Table> {
        // SAFETY: memory as a box has it, and zeros are a table.
        unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Table>()).cast()) }
    }

    fn allocation(start: u64, bytes: u64, at_ns: u64) -> Allocation {
        Allocation { start, bytes, process: 9, at_ns, returns_to: 0x5000, stack: [7; STACK_WORDS] }
    }

    fn words(table: &Table, of: &Allocation) -> [u64; WORDS + 1] {
        std::array::from_fn(|at| table.slot(of).0[at].load(Relaxed))
    }

    /// `observe/src/profile/sites.rs` has these numbers too.
    #[test]
    fn the_layout_is_that_of_the_reader() {
        assert_eq!(size_of::<Table>(), 18_878_464);
        assert_eq!(sum(&std::array::from_fn(|at| at as u64 + 1)), 0x7f24_2911_7e69_e398);
    }

    #[test]
    fn a_block_that_the_same_code_allocates_again_is_known_since_the_first_time() {
        let table = empty();
        let first = allocation(0x1000, 64, 100);
        table.note(&first);
        assert_eq!(words(&table, &first)[..6], [0x1000, 64, 9, 100, 100, 0x5000]);
        table.note(&Allocation { at_ns: 300, stack: [8; STACK_WORDS], ..first });
        assert_eq!(words(&table, &first)[..7], [0x1000, 64, 9, 100, 300, 0x5000, 8]);
        for other in [
            Allocation { at_ns: 400, returns_to: 0x6000, ..first },
            Allocation { at_ns: 500, bytes: 65, ..first },
        ] {
            table.note(&other);
            assert_eq!(words(&table, &other)[3..5], [other.at_ns; 2]);
            let words: [u64; WORDS + 1] = words(&table, &other);
            assert_eq!(words[WORDS], sum(words[..WORDS].try_into().unwrap()));
        }
    }

    #[test]
    fn large_blocks_do_not_lose_their_slots_to_small_ones() {
        let table = empty();
        let large = allocation(0x7f00_0000_0010, LARGE_BYTES, 1);
        table.note(&large);
        for at in 0..400_000 {
            table.note(&allocation(0x5500_0000_0000 + 32 * at, 24, 2));
        }
        assert_eq!(words(&table, &large)[0], large.start);
    }

    #[test]
    fn what_lies_side_by_side_has_slots_of_its_own() {
        let table = empty();
        let small = |at: u64| allocation(0x5500_0000_0000 + 32 * at, 24, 1);
        let all: Vec<_> = (0..1000).map(small).collect();
        all.iter().for_each(|one| table.note(one));
        let kept = all.iter().filter(|one| words(&table, one)[0] == one.start).count();
        assert!(kept > 950, "{kept} of 1000");
        // The same addresses in another process are other blocks.
        all.iter().for_each(|one| table.note(&Allocation { process: 10, ..*one }));
        let kept = all.iter().filter(|one| words(&table, one)[2] == 9).count();
        assert!(kept > 900, "{kept} of 1000 are left");
    }

    #[test]
    fn a_file_that_is_somebodys_is_left_alone() {
        let path = std::env::temp_dir().join(format!("quartier-sites-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let is_table = |head: &[u8], bytes: u64| {
            let file = std::fs::File::create(&path).unwrap();
            std::io::Write::write_all(&mut &file, head).unwrap();
            file.set_len(bytes).unwrap();
            Table::map(&name).is_some()
        };
        let bytes = size_of::<Table>() as u64;
        assert!(is_table(&HEAD, bytes));
        assert!(!is_table(&HEAD, bytes - 1) && !is_table(&HEAD, 16) && !is_table(b"", bytes));
        assert!(!is_table(b"QUARTIER SITES 2", bytes));
        std::fs::remove_file(&path).unwrap();
        assert!(Table::map(&name).is_none());
    }
}
