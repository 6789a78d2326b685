//! Lets copies of a server listen on the same ports: `bind` sets `SO_REUSEPORT` where the server does not.
//!
//! The first copy binds without it, as it would alone, and sets it afterwards: so a port that somebody
//! else has is refused by the kernel, as ever, even if that one would share it. While it starts, there is
//! a file that says so. Servers throw parts of their environment away, so all is read before they begin.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;

/// Exists while the first copy starts.
const ENV_ALONE: &CStr = c"QUARTIER_SERVE_ALONE";
/// `80,443`: these ports only; otherwise all but port 0.
const ENV_PORTS: &CStr = c"QUARTIER_SERVE_PORTS";

type Bind = unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;

struct Settings {
    alone: Option<CString>,
    ports: Vec<u16>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

// SAFETY: the loader calls it once, before the program, with the environment in place.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

extern "C" fn init() {
    let ports = variable(ENV_PORTS).map(|ports| ports.to_string_lossy().into_owned());
    let ports =
        ports.iter().flat_map(|ports| ports.split(',')).filter_map(|port| port.parse().ok());
    let _ = SETTINGS.set(Settings { alone: variable(ENV_ALONE), ports: ports.collect() });
}

fn variable(name: &CStr) -> Option<CString> {
    // SAFETY: a C string in, one or null out; nobody changes the environment before the program begins.
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: not null, so a C string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_owned())
}

impl Settings {
    fn starts_alone(&self) -> bool {
        // SAFETY: a C string.
        self.alone
            .as_ref()
            .is_some_and(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 })
    }

    fn shares(&self, port: u16) -> bool {
        port != 0 && (self.ports.is_empty() || self.ports.contains(&port))
    }
}

/// `bind(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    fd: c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    let Some(real) = real_bind() else {
        // SAFETY: the caller's contract; the system call is what the C library's function is.
        return unsafe { libc::syscall(libc::SYS_bind, fd, address, len) as c_int };
    };
    // SAFETY: the caller's contract.
    let port = unsafe { tcp_port(fd, address, len) };
    let settings = SETTINGS.get().filter(|settings| port.is_some_and(|port| settings.shares(port)));
    let Some(settings) = settings else {
        // SAFETY: the caller's contract.
        return unsafe { real(fd, address, len) };
    };
    let alone = settings.starts_alone();
    set_reuseport(fd, !alone);
    // SAFETY: the caller's contract.
    let result = unsafe { real(fd, address, len) };
    if alone && result == 0 {
        set_reuseport(fd, true);
    }
    result
}

fn real_bind() -> Option<Bind> {
    static REAL: OnceLock<Option<Bind>> = OnceLock::new();
    *REAL.get_or_init(|| {
        // SAFETY: a name; what the next library has under it is the C library's `bind`.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"bind".as_ptr()) };
        // SAFETY: as above, so it has this type.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Bind>(found) })
    })
}

/// The port, if this is a socket of TCP.
///
/// # Safety
/// `address` points at `len` bytes.
unsafe fn tcp_port(fd: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> Option<u16> {
    // Both families have the port behind the family.
    if address.is_null() || (len as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: there are enough bytes for this structure; reading needs no alignment.
    let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
    let is_ip = [libc::AF_INET, libc::AF_INET6].contains(&i32::from(address.sin_family));
    let is_tcp = option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && option(fd, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP);
    (is_ip && is_tcp).then(|| u16::from_be(address.sin_port))
}

fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len)
    };
    (result == 0).then_some(value)
}

fn set_reuseport(fd: c_int, on: bool) {
    let value = c_int::from(on);
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one int.
    let _ = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, (&raw const value).cast(), len)
    };
}
