//! A mapped file: the only place where its bytes become references.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::fs::{FlockOperation, flock};

/// A shared mapping of a whole file, with the file.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    file: File,
    is_writable: bool,
}

// SAFETY: what lies behind `base` is shared with other processes anyway: atomics, and bytes that are
// written before anybody else maps them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps as much as the file is long.
    pub fn new(file: File, is_writable: bool) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let write = if is_writable { libc::PROT_WRITE } else { 0 };
        let protection = libc::PROT_READ | write;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, file, is_writable })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether this process holds the file's lock now.
    pub fn try_lock(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Where a part of the mapping is, for system calls about it.
    pub fn address(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.len);
        // SAFETY: inside the mapping, or one past it.
        unsafe { self.base.add(offset) }
    }

    /// A copy of some bytes; `None` when they are not all there.
    pub fn bytes(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.len as u64 {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        // SAFETY: the range is inside the mapping; whatever another process writes there meanwhile,
        // any bytes are bytes, and they are checked after the copy.
        unsafe {
            self.address(offset as usize)
                .copy_to_nonoverlapping(NonNull::new_unchecked(bytes.as_mut_ptr()), bytes.len());
        }
        Some(bytes)
    }

    /// The start of the file as a header.
    ///
    /// # Safety
    /// The file is at least as long, and no field of `T` is changed but atomics.
    pub unsafe fn header<T>(&self) -> &T {
        debug_assert!(size_of::<T>() <= self.len);
        // SAFETY: the caller's promise; a mapping starts at a page.
        unsafe { self.base.cast().as_ref() }
    }

    /// A list in the file.
    ///
    /// # Safety
    /// It lies inside the file and is aligned for `T`, every bit pattern is a `T`, and no field of `T`
    /// is anything but atomics.
    pub unsafe fn list<T>(&self, offset: u64, count: u64) -> &[T] {
        debug_assert!(offset as usize + count as usize * size_of::<T>() <= self.len);
        let first = self.address(offset as usize).cast();
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: references into the mapping borrow from `self`, so none are left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
