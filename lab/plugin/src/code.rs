//! Where code is really executed. QEMU translates a physical page of code once, however many programs
//! have it at however many addresses: the address at translation is only the first one's. The real one
//! is read from the instruction pointer, once per page and address space.

/// A translated block.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Where its first user had it.
    vaddr: u64,
    /// The page of memory it begins on, by a number that is this page's alone.
    page: u64,
    bytes: u32,
    nr_instructions: u32,
}

impl Code {
    /// One instruction, at `host` in QEMU's own memory.
    pub fn new(vaddr: u64, host: u64, bytes: u32) -> Self {
        Self { vaddr, page: host >> 12, bytes, nr_instructions: 1 }
    }

    /// Where its first user had it.
    pub fn vaddr(&self) -> u64 {
        self.vaddr
    }

    /// One that follows is of the same block; also for the first one itself.
    pub fn extend(&mut self, next: &Self) {
        let bytes = (next.vaddr.wrapping_sub(self.vaddr) as u32).wrapping_add(next.bytes);
        self.nr_instructions += u32::from(next.vaddr != self.vaddr);
        self.bytes = bytes;
    }

    /// The page of memory that it begins on, by its number.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// Whether all of it is on the page that it begins on.
    pub fn is_on_one_page(&self) -> bool {
        (self.vaddr & IN_PAGE) + u64::from(self.bytes) <= IN_PAGE + 1
    }

    /// How long it is.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// How many instructions it has.
    pub fn nr_instructions(&self) -> u32 {
        self.nr_instructions
    }
}

const ENTRIES: usize = 256;
/// Pages of memory are this and one more; what is in one is never moved within it.
const IN_PAGE: u64 = 0xfff;
const NOWHERE: u64 = u64::MAX;

/// Where each page of code is in the current address space.
#[derive(Clone, Debug)]
pub struct Places(Box<[(u64, u64); ENTRIES]>);

impl Default for Places {
    fn default() -> Self {
        Self(Box::new([(NOWHERE, 0); ENTRIES]))
    }
}

impl Places {
    /// Where `code` is; `now` says where it is if that is not known.
    #[inline]
    pub fn find(&mut self, code: &Code, now: impl FnOnce() -> u64) -> u64 {
        if code.vaddr >> 63 != 0 {
            // The kernel is at one place.
            return code.vaddr;
        }
        let entry = &mut self.0[code.page as usize % ENTRIES];
        if entry.0 != code.page {
            *entry = (code.page, now() & !IN_PAGE);
        }
        entry.1 | code.vaddr & IN_PAGE
    }

    /// Where `code` is, if that is known: a block's page is, while it runs.
    pub fn known(&self, code: &Code) -> Option<u64> {
        if code.vaddr >> 63 != 0 {
            return Some(code.vaddr);
        }
        let entry = self.0[code.page as usize % ENTRIES];
        (entry.0 == code.page).then_some(entry.1 | code.vaddr & IN_PAGE)
    }

    /// Other pages may be at the same addresses now.
    pub fn forget(&mut self) {
        self.0.fill((NOWHERE, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_asked_for_once() {
        let mut places = Places::default();
        let code = Code::new(0x1000, 7 << 12, 4);
        // Translated for another program, which has the page elsewhere.
        let next = Code { vaddr: 0x9100, ..code };
        assert_eq!(places.find(&code, || 0x7000), 0x7000);
        assert_eq!(places.find(&next, || unreachable!()), 0x7100);
        assert_eq!(places.known(&next), Some(0x7100));
        // Another page that falls on the same entry.
        let other = Code { page: 7 + ENTRIES as u64, ..code };
        assert_eq!(places.find(&other, || 0x5000), 0x5000);
        assert_eq!(places.find(&next, || 0x7100), 0x7100);
        places.forget();
        assert_eq!(places.known(&code), None);
        assert_eq!(places.find(&code, || 0x1000), 0x1000);
    }

    #[test]
    fn a_block_is_its_instructions() {
        let mut code = Code::new(0x1030, 0, 4);
        for (vaddr, bytes) in [(0x1030, 4), (0x1034, 15), (0x1043, 2)] {
            code.extend(&Code::new(vaddr, 0, bytes));
        }
        assert_eq!((code.vaddr(), code.bytes(), code.nr_instructions()), (0x1030, 0x15, 3));
    }

    #[test]
    fn code_that_ends_with_its_page_is_on_one() {
        let at = |vaddr, bytes| Code::new(vaddr, 0, bytes).is_on_one_page();
        assert!(at(0x1ff0, 16) && at(0x1000, 0x1000) && at(u64::MAX - 3, 4));
        assert!(!at(0x1ff0, 17) && !at(u64::MAX - 3, 5));
    }

    #[test]
    fn the_kernel_is_where_it_is() {
        let code = Code::new(u64::MAX - 0xfff, 1 << 12, 4);
        assert_eq!(Places::default().find(&code, || unreachable!()), code.vaddr);
    }
}
