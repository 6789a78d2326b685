//! What the launcher has for us: a userfaultfd that also serves the kernel's accesses, who guards it,
//! and the session itself where it cannot be opened by its path.

use std::sync::OnceLock;

use quartier_kernel::sys::{self, SysResult};
use quartier_kernel::uffd::Uffd;
use quartier_session::{DeskRequest, ENV_SOCKET};
use syscalls::{Sysno, syscall};

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
            || from_launcher(DeskRequest::Lend).map(Self::Device),
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

/// A connection to the launcher that keeps a copy of our userfaultfd, so that nobody who kills the
/// helper turns the program's data into zeros.
#[derive(Debug)]
pub struct Guard(Option<i32>);

impl Guard {
    /// No guard: nothing is held.
    pub fn none() -> Self {
        Self(None)
    }

    /// Asks the launcher to guard; without a launcher there is no guard.
    pub fn ask(uffd: Uffd, program: u32) -> Self {
        let Some(socket) = connect() else { return Self(None) };
        let asked = send(socket, DeskRequest::Guard { program }, Some(uffd.0)).is_ok();
        let mut answer = [0u8; 1];
        if asked && sys::read(socket, &mut answer) == Ok(1) {
            return Self(Some(socket));
        }
        sys::close(socket);
        Self(None)
    }

    /// Nothing is held any more.
    pub fn goodbye(&self) {
        if let Some(socket) = self.0 {
            let _ = send(socket, DeskRequest::Goodbye, None);
        }
    }
}

/// Receives a descriptor from the launcher: of `/dev/userfaultfd`, or of the session's memory.
pub fn from_launcher(request: DeskRequest) -> Option<i32> {
    let socket = connect()?;
    let received = send(socket, request, None).ok().and_then(|_| receive_descriptor(socket));
    sys::close(socket);
    received
}

fn connect() -> Option<i32> {
    let address = SOCKET.get()?;
    let path_len = address.sun_path[1..].iter().take_while(|byte| **byte != 0).count();
    let address_len = size_of::<libc::sa_family_t>() + 1 + path_len;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: creates a descriptor.
    let socket = unsafe { syscall!(Sysno::socket, libc::AF_UNIX, kind, 0) }.ok()? as i32;
    // SAFETY: the address has at least the length given.
    let connected =
        unsafe { syscall!(Sysno::connect, socket, std::ptr::from_ref(address), address_len) };
    if connected.is_err() {
        sys::close(socket);
        return None;
    }
    Some(socket)
}

/// One control message with one descriptor, as the kernel lays it out.
#[repr(C, align(8))]
struct ControlMessage {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

/// `CMSG_LEN(sizeof(int))`.
const CONTROL_LEN: usize = 20;

/// Calls `recvmsg` or `sendmsg` with these parts.
fn message(
    call: Sysno,
    socket: i32,
    bytes: &mut [u8],
    control: Option<&mut ControlMessage>,
    flags: i32,
) -> SysResult {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if let Some(control) = control {
        header.msg_control = std::ptr::from_mut(control).cast();
        header.msg_controllen = size_of::<ControlMessage>();
    }
    // SAFETY: the header points at the parts above, with their lengths.
    unsafe { syscall!(call, socket, &raw mut header, flags) }
}

fn send(socket: i32, request: DeskRequest, descriptor: Option<i32>) -> SysResult {
    let mut bytes = request.to_bytes();
    let mut control = descriptor.map(|fd| ControlMessage {
        len: CONTROL_LEN,
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        fd,
        padding: 0,
    });
    message(Sysno::sendmsg, socket, &mut bytes, control.as_mut(), libc::MSG_NOSIGNAL)
}

fn receive_descriptor(socket: i32) -> Option<i32> {
    let mut byte = [0u8; 1];
    let mut control = ControlMessage { len: 0, level: 0, kind: 0, fd: -1, padding: 0 };
    message(Sysno::recvmsg, socket, &mut byte, Some(&mut control), libc::MSG_CMSG_CLOEXEC).ok()?;
    let ours = control.level == libc::SOL_SOCKET && control.kind == libc::SCM_RIGHTS;
    (ours && control.len >= CONTROL_LEN && control.fd >= 0).then_some(control.fd)
}
