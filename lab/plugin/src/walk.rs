//! The guest's page tables, walked as a processor would.

use quartier_memmodel::{PageSize, Translation, Walk};

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
/// Bits 12 to 51 of an entry are a physical page's address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The guest's memory by physical address.
pub trait Memory {
    /// The eight bytes at `address`, which is a multiple of eight; `None` where no memory is.
    fn word(&self, address: u64) -> Option<u64>;
}

/// The tables that one processor uses now.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a, M: ?Sized> {
    /// Where they are.
    pub memory: &'a M,
    /// Control register 3.
    pub root: u64,
    /// 4 or 5.
    pub levels: u32,
}

impl<M: Memory + ?Sized> Walk for Tables<'_, M> {
    fn walk(&mut self, vaddr: u64) -> Option<Translation> {
        let mut places = [0; 5];
        let mut table = self.root & ADDRESS;
        for (count, level) in (0..self.levels).rev().enumerate() {
            places[count] = table + (vaddr >> (12 + 9 * level) & 0x1ff) * 8;
            let entry = self.memory.word(places[count])?;
            if entry & PRESENT == 0 {
                return None;
            }
            if let Some(size) = page_size(level, entry) {
                return Some(translation(entry, size, &places[..=count]));
            }
            table = entry & ADDRESS;
        }
        None
    }
}

/// The size of the page that an entry is for; `None` if it is for another table.
fn page_size(level: u32, entry: u64) -> Option<PageSize> {
    match level {
        0 => Some(PageSize::Small),
        1 if entry & LARGE != 0 => Some(PageSize::Huge),
        2 if entry & LARGE != 0 => Some(PageSize::Giant),
        _ => None,
    }
}

fn translation(entry: u64, size: PageSize, places: &[u64]) -> Translation {
    // Bit 12 of a large page's entry is an attribute, not an address.
    let page = entry & ADDRESS & (u64::MAX << size.shift());
    let known = Translation::new(page, size);
    let known = if entry & GLOBAL == 0 { known } else { known.global() };
    places.iter().fold(known, |known, place| known.reading(*place))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    impl Memory for HashMap<u64, u64> {
        fn word(&self, address: u64) -> Option<u64> {
            self.get(&address).copied()
        }
    }

    fn address(found: &Translation, vaddr: u64) -> u64 {
        found.page | vaddr & !(u64::MAX << found.size.shift())
    }

    fn translate(memory: &HashMap<u64, u64>, levels: u32, vaddr: u64) -> Option<Translation> {
        Tables { memory, root: 0x1_0000 | 0xfff, levels }.walk(vaddr)
    }

    #[test]
    fn four_levels_to_a_small_page() {
        let vaddr = 0x7f12_3456_7abc_u64;
        let index = |level: u32| (vaddr >> (12 + 9 * level) & 0x1ff) * 8;
        let memory = HashMap::from([
            (0x1_0000 + index(3), 0x2_0000 | 0x67),
            (0x2_0000 + index(2), 0x3_0000 | 0x67),
            (0x3_0000 + index(1), 0x4_0000 | 0x67),
            (0x4_0000 + index(0), 0x8000_0005_5555_5000 | 0x67),
        ]);
        let found = translate(&memory, 4, vaddr).unwrap();
        assert_eq!((found.page, found.size), (0x5_5555_5000, PageSize::Small));
        assert_eq!(address(&found, vaddr), 0x5_5555_5abc);
        assert_eq!(found.reads()[3], 0x4_0000 + index(0));
        assert_eq!(found.reads().len(), 4);
        assert!(!found.global);
        assert_eq!(translate(&memory, 4, vaddr + 0x1000), None);
    }

    #[test]
    fn five_levels_to_large_pages() {
        let kernel = 0xff11_0000_4020_0123_u64;
        let index = |level: u32| (kernel >> (12 + 9 * level) & 0x1ff) * 8;
        let mut memory = HashMap::from([
            (0x1_0000 + index(4), 0x2_0000 | 0x63),
            (0x2_0000 + index(3), 0x3_0000 | 0x63),
            (0x3_0000 + index(2), 0x4_0000_0000 | 0x1000 | 0x1e3),
        ]);
        let found = translate(&memory, 5, kernel).unwrap();
        assert_eq!((found.page, found.size), (0x4_0000_0000, PageSize::Giant));
        assert_eq!((found.reads().len(), found.global), (3, true));
        assert_eq!(address(&found, kernel), 0x4_0020_0123);
        memory.insert(0x3_0000 + index(2), 0x4_0000 | 0x63);
        memory.insert(0x4_0000 + index(1), 0x60_0000 | 0x1e3);
        let found = translate(&memory, 5, kernel).unwrap();
        assert_eq!((found.page, found.size), (0x60_0000, PageSize::Huge));
        assert_eq!(address(&found, kernel), 0x60_0123);
    }

    #[test]
    fn tables_outside_memory_lead_nowhere() {
        assert_eq!(translate(&HashMap::new(), 4, 0), None);
    }
}
