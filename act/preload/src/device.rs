//! Where a userfaultfd that also serves the kernel's accesses can be had.

use std::sync::OnceLock;

use quartier_session::ENV_SOCKET;
use syscalls::{Sysno, syscall};

use crate::sys::{self, SysResult};
use crate::uffd::Uffd;

/// A way to open userfaultfds.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The system call itself.
    Syscall,
    /// A descriptor of `/dev/userfaultfd`.
    Device(i32),
}

/// The launcher's socket, as the environment names it; read before the helper needs it.
static SOCKET: OnceLock<libc::sockaddr_un> = OnceLock::new();

/// Remembers the launcher's socket. Called once, in the program's own time.
pub fn remember_socket() {
    let Some(name) = std::env::var_os(ENV_SOCKET) else { return };
    let name = name.into_encoded_bytes();
    let mut address =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    // Abstract: the first byte stays zero, the name fills the rest exactly.
    if name.len() < address.sun_path.len() {
        for (to, from) in address.sun_path[1..].iter_mut().zip(&name) {
            *to = *from as libc::c_char;
        }
        let _ = SOCKET.set(address);
    }
}

impl Source {
    /// Tries the system call, then the device, then the launcher's descriptor of the device.
    pub fn find() -> Option<Self> {
        let ways: [fn() -> Option<Self>; 3] = [
            || Some(Self::Syscall),
            || sys::open(c"/dev/userfaultfd", libc::O_RDWR).ok().map(Self::Device),
            || from_launcher().map(Self::Device),
        ];
        ways.into_iter()
            .filter_map(|way| way())
            .find(|source| source.open().inspect(|uffd| sys::close(uffd.0)).is_ok())
    }

    /// Opens one more.
    pub fn open(self) -> SysResult<Uffd> {
        match self {
            Self::Syscall => Uffd::by_syscall(),
            Self::Device(fd) => Uffd::by_device(fd),
        }
    }
}

/// Receives a descriptor of `/dev/userfaultfd` from the launcher.
fn from_launcher() -> Option<i32> {
    let address = SOCKET.get()?;
    let path_len = address.sun_path[1..].iter().take_while(|byte| **byte != 0).count();
    let address_len = size_of::<libc::sa_family_t>() + 1 + path_len;
    // SAFETY: plain system calls on our own structures; lengths are those of the structures.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let socket = syscall!(Sysno::socket, libc::AF_UNIX, kind, 0).ok()? as i32;
        let connected = syscall!(Sysno::connect, socket, std::ptr::from_ref(address), address_len);
        let received = connected.ok().and_then(|_| receive_descriptor(socket));
        sys::close(socket);
        received
    }
}

/// Room for one control message with one descriptor, aligned as the kernel wants it.
#[repr(C, align(8))]
struct ControlMessage {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

fn receive_descriptor(socket: i32) -> Option<i32> {
    let mut byte = 0u8;
    let mut control = ControlMessage { len: 0, level: 0, kind: 0, fd: -1, padding: 0 };
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<ControlMessage>();
    // SAFETY: the header points at the structures above, with their lengths.
    unsafe { syscall!(Sysno::recvmsg, socket, &raw mut header, libc::MSG_CMSG_CLOEXEC) }.ok()?;
    let ours = control.level == libc::SOL_SOCKET && control.kind == libc::SCM_RIGHTS;
    (ours && control.len >= 20 && control.fd >= 0).then_some(control.fd)
}
