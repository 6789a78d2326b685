//! Where one mapping begins and ends: `PROCMAP_QUERY` (Linux 6.11), which finds it without reading them all.

use crate::sys::{self, SysResult};

const PROCMAP_QUERY: usize =
    (3 << 30) | (size_of::<QueryArgument>() << 16) | (b'f' as usize) << 8 | 17;

const COVERING_OR_NEXT: u64 = 0x10;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct QueryArgument {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `/proc/self/maps`, open. Copies are the same descriptor, which stays open.
#[derive(Clone, Copy, Debug)]
pub struct Mappings(i32);

impl Mappings {
    /// Opens it.
    pub fn open() -> SysResult<Self> {
        sys::open(c"/proc/self/maps", libc::O_RDONLY).map(Self)
    }

    /// Start and end of the mapping that holds an address, or of the next one; `ENOENT` where there is none,
    /// `ENOTTY` before Linux 6.11.
    pub fn at_or_after(self, address: usize) -> SysResult<(usize, usize)> {
        let mut argument = QueryArgument {
            size: size_of::<QueryArgument>() as u64,
            query_flags: COVERING_OR_NEXT,
            query_addr: address as u64,
            ..QueryArgument::default()
        };
        // SAFETY: the structure of this request; no name and no build id are asked for.
        unsafe { sys::ioctl(self.0, PROCMAP_QUERY, &mut argument) }?;
        Ok((argument.vma_start as usize, argument.vma_end as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscalls::Errno;

    #[test]
    fn the_request_number_is_the_kernels() {
        assert_eq!(PROCMAP_QUERY, 0xC068_6611);
    }

    #[test]
    fn a_mapping_is_found_by_any_of_its_addresses() {
        let mappings = Mappings::open().unwrap();
        let here = std::ptr::from_ref(&mappings) as usize;
        match mappings.at_or_after(here) {
            Ok((start, end)) => assert!(start <= here && here < end),
            Err(error) => assert_eq!(error, Errno::ENOTTY, "a kernel before 6.11"),
        }
        if let Ok((start, _)) = mappings.at_or_after(0) {
            assert!(start > 0, "nothing is mapped there");
        }
    }
}
