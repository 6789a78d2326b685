//! The userfaultfd interface (`include/uapi/linux/userfaultfd.h`, Linux 7.3), as far as we use it.

use syscalls::{Errno, Sysno, syscall};

use crate::sys::{self, SysResult};

const API: u64 = 0xAA;
const FEATURE_EVENT_FORK: u64 = 1 << 1;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const FEATURE_THREAD_ID: u64 = 1 << 8;
const FEATURE_MOVE: u64 = 1 << 16;
const FEATURE_RWP: u64 = 1 << 17;

/// Register: a touch of a page that is not there.
pub const MODE_MISSING: u64 = 1;
/// Register: a write to a page that was protected; without such pages, nothing.
pub const MODE_WP: u64 = 1 << 1;
/// Register: a touch of a page that was made inaccessible.
pub const MODE_RWP: u64 = 1 << 3;

const fn iowr(number: usize, size: usize) -> usize {
    (3 << 30) | (size << 16) | (0xAA << 8) | number
}
const fn ior(number: usize, size: usize) -> usize {
    (2 << 30) | (size << 16) | (0xAA << 8) | number
}

const UFFDIO_API: usize = iowr(0x3F, size_of::<ApiArgument>());
const UFFDIO_REGISTER: usize = iowr(0x00, size_of::<RegisterArgument>());
const UFFDIO_UNREGISTER: usize = ior(0x01, size_of::<Range>());
const UFFDIO_WAKE: usize = ior(0x02, size_of::<Range>());
const UFFDIO_COPY: usize = iowr(0x03, size_of::<CopyArgument>());
const UFFDIO_ZEROPAGE: usize = iowr(0x04, size_of::<ZeroArgument>());
const UFFDIO_MOVE: usize = iowr(0x05, size_of::<CopyArgument>());
const UFFDIO_RWPROTECT: usize = iowr(0x09, size_of::<ProtectArgument>());
/// On `/dev/userfaultfd`: opens one.
pub const USERFAULTFD_IOC_NEW: usize = 0xAA << 8;

const COPY_DONTWAKE: u64 = 1;
const MOVE_ALLOW_SRC_HOLES: u64 = 2;

#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
}
#[repr(C)]
struct RegisterArgument {
    range: Range,
    mode: u64,
    ioctls: u64,
}
/// `uffdio_copy` and `uffdio_move` alike.
#[repr(C)]
struct CopyArgument {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    done: i64,
}
#[repr(C)]
struct ZeroArgument {
    range: Range,
    mode: u64,
    done: i64,
}
#[repr(C)]
struct ProtectArgument {
    range: Range,
    mode: u64,
}

/// What a userfaultfd can do here.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// `UFFDIO_MOVE`.
    pub moves: bool,
    /// `UFFDIO_RWPROTECT`.
    pub rwp: bool,
    /// A fork past the C library is seen.
    pub forks_seen: bool,
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A thread waits at `address`.
    Touch {
        /// Where, rounded down to a page.
        address: usize,
        /// The thread's id in our pid namespace.
        tid: i32,
    },
    /// The process forked; the child's registered ranges are served through `uffd`.
    Fork {
        /// The child's descriptor.
        uffd: i32,
    },
    /// `mremap` moved a registered range.
    Remap {
        /// Old start.
        from: usize,
        /// New start.
        to: usize,
        /// Bytes moved.
        len: usize,
    },
    /// `MADV_DONTNEED` or `MADV_FREE` is about to drop the range.
    Remove {
        /// Start.
        start: usize,
        /// End.
        end: usize,
    },
    /// `munmap` dropped the range.
    Unmap {
        /// Start.
        start: usize,
        /// End.
        end: usize,
    },
    /// One this version does not know.
    Unknown,
}

/// Size of one message as the kernel writes it.
pub const MESSAGE_BYTES: usize = 32;

impl Message {
    /// Reads one message from the kernel's bytes.
    #[must_use]
    pub fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(eight) as usize
        };
        match bytes[0] {
            0x12 => {
                Self::Touch { address: word(16) & !(sys::PAGE - 1), tid: word(24) as u32 as i32 }
            }
            0x13 => Self::Fork { uffd: word(8) as u32 as i32 },
            0x14 => Self::Remap { from: word(8), to: word(16), len: word(24) },
            0x15 => Self::Remove { start: word(8), end: word(16) },
            0x16 => Self::Unmap { start: word(8), end: word(16) },
            _ => Self::Unknown,
        }
    }
}

/// An open userfaultfd. Copies are the same descriptor; whoever opened it closes it.
#[derive(Clone, Copy, Debug)]
pub struct Uffd(pub i32);

impl Uffd {
    /// Opens one by the system call: needs `CAP_SYS_PTRACE` or `vm.unprivileged_userfaultfd=1`,
    /// because it must also serve accesses made by the kernel for the program.
    pub fn by_syscall() -> SysResult<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: creates a descriptor.
        let fd = unsafe { syscall!(Sysno::userfaultfd, flags) }?;
        Ok(Self(fd as i32))
    }

    /// Opens one through a descriptor of `/dev/userfaultfd` (Linux 6.1), which needs no capability.
    pub fn by_device(device: i32) -> SysResult<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: creates a descriptor; the argument is a plain number.
        let fd = unsafe { syscall!(Sysno::ioctl, device, USERFAULTFD_IOC_NEW, flags) }?;
        Ok(Self(fd as i32))
    }

    /// Asks what the kernel can do; the descriptor must not be used afterwards.
    pub fn abilities(self) -> SysResult<Abilities> {
        let mut argument = ApiArgument { api: API, features: 0, ioctls: 0 };
        // SAFETY: the structure of this request.
        unsafe { sys::ioctl(self.0, UFFDIO_API, &mut argument) }?;
        let has = |feature| argument.features & feature != 0;
        Ok(Abilities {
            moves: has(FEATURE_MOVE) && has(FEATURE_EVENT_REMAP) && has(FEATURE_THREAD_ID),
            rwp: has(FEATURE_RWP) && has(FEATURE_THREAD_ID),
            forks_seen: has(FEATURE_EVENT_FORK),
        })
    }

    /// Begins the `rwp` rung: no events needed, since pages never leave their place.
    pub fn begin_rwp(self) -> SysResult {
        self.begin(FEATURE_THREAD_ID | FEATURE_RWP)
    }

    /// Begins the `move` rung; `forks` asks to see forks, which needs `CAP_SYS_PTRACE`.
    pub fn begin_move(self, forks: bool) -> SysResult {
        let events = FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP;
        let fork = if forks { FEATURE_EVENT_FORK } else { 0 };
        self.begin(FEATURE_THREAD_ID | FEATURE_MOVE | events | fork)
    }

    /// Begins without any feature: missing pages only, no events.
    pub fn begin_plain(self) -> SysResult {
        self.begin(0)
    }

    fn begin(self, features: u64) -> SysResult {
        let mut argument = ApiArgument { api: API, features, ioctls: 0 };
        // SAFETY: the structure of this request.
        unsafe { sys::ioctl(self.0, UFFDIO_API, &mut argument) }
    }

    /// Registers a range.
    pub fn register(self, start: usize, len: usize, mode: u64) -> SysResult {
        let range = Range { start: start as u64, len: len as u64 };
        let mut argument = RegisterArgument { range, mode, ioctls: 0 };
        // SAFETY: the structure of this request; registering keeps contents.
        unsafe { sys::ioctl(self.0, UFFDIO_REGISTER, &mut argument) }
    }

    /// Ends the registration of a range and wakes who waits there.
    ///
    /// # Safety
    /// Data that was taken out of the range must have been put back.
    pub unsafe fn unregister(self, start: usize, len: usize) -> SysResult {
        let mut argument = Range { start: start as u64, len: len as u64 };
        // SAFETY: the structure of this request.
        unsafe { sys::ioctl(self.0, UFFDIO_UNREGISTER, &mut argument) }
    }

    /// Wakes who waits in a range; they try their access again.
    pub fn wake(self, start: usize, len: usize) {
        let mut argument = Range { start: start as u64, len: len as u64 };
        // SAFETY: the structure of this request.
        let _ = unsafe { sys::ioctl(self.0, UFFDIO_WAKE, &mut argument) };
    }

    /// Makes the range's missing pages read as zero and wakes.
    ///
    /// # Safety
    /// The range must really be zero to the program.
    pub unsafe fn zero(self, start: usize, len: usize) -> (usize, SysResult) {
        let range = Range { start: start as u64, len: len as u64 };
        let mut argument = ZeroArgument { range, mode: 0, done: 0 };
        // SAFETY: the structure of this request.
        let result = unsafe { sys::ioctl(self.0, UFFDIO_ZEROPAGE, &mut argument) };
        finished(argument.done, len, result)
    }

    /// Whether the program is changing its mappings and we have not read of it, or it has not gone on
    /// since we have. Asked by a call that cannot succeed: the kernel looks at this first.
    #[must_use]
    pub fn mappings_changing(self) -> bool {
        let mut argument = ZeroArgument { range: Range { start: 0, len: 0 }, mode: 0, done: 0 };
        // SAFETY: the structure of this request; an empty range is refused.
        let result = unsafe { sys::ioctl(self.0, UFFDIO_ZEROPAGE, &mut argument) };
        result == Err(Errno::EAGAIN)
    }

    /// Whether a touch of the page would be told of; `None` while the program is changing its mappings. Asked
    /// by a copy of `nothing`, an address where nothing is mapped, which fails after the kernel has looked.
    #[must_use]
    pub fn is_registered(self, page: usize, nothing: usize) -> Option<bool> {
        // SAFETY: there is nothing to copy from.
        match unsafe { self.copy(page, nothing, sys::PAGE) }.1 {
            Err(error) if self.is_change(error) => None,
            Err(Errno::ENOENT) => Some(false),
            _ => Some(true),
        }
    }

    /// Whether a call failed because the program is changing its mappings. The kernel looks for changes before
    /// it looks for the mapping: one that comes in between is no `EAGAIN`.
    #[must_use]
    pub fn is_change(self, error: Errno) -> bool {
        error == Errno::EAGAIN || error == Errno::ENOENT && self.mappings_changing()
    }

    /// Fills missing pages at `dst` with a copy of `src` and wakes; gives the bytes done.
    ///
    /// # Safety
    /// `src` must hold what the program believes is at `dst`.
    pub unsafe fn copy(self, dst: usize, src: usize, len: usize) -> (usize, SysResult) {
        // SAFETY: the caller's contract.
        unsafe { self.transfer(UFFDIO_COPY, dst, src, len, 0) }
    }

    /// Fills missing pages as [`Self::copy`] does, but wakes nobody.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    pub unsafe fn copy_quietly(self, dst: usize, src: usize, len: usize) -> (usize, SysResult) {
        // SAFETY: the caller's contract.
        unsafe { self.transfer(UFFDIO_COPY, dst, src, len, COPY_DONTWAKE) }
    }

    /// Moves the present pages of `src` to `dst` and wakes; gives the bytes done.
    ///
    /// # Safety
    /// `dst` must be where the program believes, or we keep, what is at `src`.
    pub unsafe fn move_pages(self, dst: usize, src: usize, len: usize) -> (usize, SysResult) {
        // SAFETY: the caller's contract.
        unsafe { self.transfer(UFFDIO_MOVE, dst, src, len, MOVE_ALLOW_SRC_HOLES) }
    }

    unsafe fn transfer(
        self,
        request: usize,
        dst: usize,
        src: usize,
        len: usize,
        mode: u64,
    ) -> (usize, SysResult) {
        let mut argument =
            CopyArgument { dst: dst as u64, src: src as u64, len: len as u64, mode, done: 0 };
        // SAFETY: the structure of both requests; the addresses by the caller's contract.
        let result = unsafe { sys::ioctl(self.0, request, &mut argument) };
        finished(argument.done, len, result)
    }

    /// Makes present pages inaccessible (`protect`), or accessible again, waking who waits.
    pub fn rwprotect(self, start: usize, len: usize, protect: bool) -> SysResult {
        let range = Range { start: start as u64, len: len as u64 };
        let mut argument = ProtectArgument { range, mode: u64::from(protect) };
        // SAFETY: the structure of this request; contents stay.
        unsafe { sys::ioctl(self.0, UFFDIO_RWPROTECT, &mut argument) }
    }
}

/// The kernel reports progress, or a negative errno, in the last field, also when the call fails.
fn finished(done: i64, len: usize, result: SysResult) -> (usize, SysResult) {
    match (done, result) {
        (_, Ok(value)) => (len, Ok(value)),
        (done, Err(error)) if done > 0 => (done as usize, Err(error)),
        (done, Err(_)) if done < 0 => (0, Err(Errno::new(-done as i32))),
        (_, Err(error)) => (0, Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_are_the_kernels() {
        assert_eq!(UFFDIO_API, 0xC018_AA3F);
        assert_eq!(UFFDIO_REGISTER, 0xC020_AA00);
        assert_eq!(UFFDIO_UNREGISTER, 0x8010_AA01);
        assert_eq!(UFFDIO_COPY, 0xC028_AA03);
        assert_eq!(UFFDIO_ZEROPAGE, 0xC020_AA04);
        assert_eq!(UFFDIO_MOVE, 0xC028_AA05);
        assert_eq!(UFFDIO_RWPROTECT, 0xC018_AA09);
    }

    #[test]
    fn any_bytes_make_a_message() {
        let mut bytes = [0u8; MESSAGE_BYTES];
        for event in 0..=255 {
            bytes[0] = event;
            let _ = Message::parse(&bytes);
        }
        bytes[0] = 0x12;
        bytes[16..24].copy_from_slice(&0x7000_1234u64.to_ne_bytes());
        bytes[24..28].copy_from_slice(&77u32.to_ne_bytes());
        assert_eq!(Message::parse(&bytes), Message::Touch { address: 0x7000_1000, tid: 77 });
    }
}
