//! The bpf(2) system call: maps and one program, no more than steering needs.
//!
//! No library for this fits: of the two that are kept up, one has no programs of this kind, and the other
//! brings a C library with two more, and a compiler for a program of forty instructions.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use thiserror::Error;

use crate::insn::Insn;

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_MAP_DELETE_ELEM: i32 = 3;
const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_TYPE_SK_REUSEPORT: u32 = 21;
/// The program is asked about connections that wait at a socket that is closed, too (Linux 5.14).
const BPF_SK_REUSEPORT_SELECT_OR_MIGRATE: u32 = 40;
const LOG_BYTES: usize = 64 << 10;

/// Kinds of maps.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value for each index.
    Array = 2,
    /// The same, for each CPU.
    PerCpuArray = 6,
    /// Sockets that listen.
    ReuseportSockets = 20,
}

/// Why connections cannot be steered.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum Error {
    #[error(
        "the kernel's own hashing chooses the copy: eBPF needs CAP_BPF and CAP_NET_ADMIN; start as root, \
         or give the command these two"
    )]
    NotPermitted,
    #[error(
        "the kernel's own hashing chooses the copy: this kernel has no programs that choose a socket and \
         move what waits ({what}: {cause}); Linux 5.14 or newer has, with CONFIG_BPF_SYSCALL"
    )]
    NotSupported { what: &'static str, cause: std::io::Error },
    #[error("the kernel's own hashing chooses the copy: {what} failed: {cause}{log}")]
    Failed { what: &'static str, cause: std::io::Error, log: String },
}

impl Error {
    pub(crate) fn of(what: &'static str, cause: std::io::Error, log: &str) -> Self {
        match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if log.is_empty() => Self::NotPermitted,
            Some(libc::ENOSYS | libc::EINVAL) if log.is_empty() => {
                Self::NotSupported { what, cause }
            }
            _ => {
                let last = log.lines().rev().take(2).collect::<Vec<_>>().join(" / ");
                let log = if last.is_empty() { String::new() } else { format!(" ({last})") };
                Self::Failed { what, cause, log }
            }
        }
    }
}

/// The beginning of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// For `BPF_MAP_*_ELEM`.
#[repr(C)]
struct Element {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// For `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

fn bpf<T>(command: i32, attributes: &T) -> std::io::Result<i32> {
    // SAFETY: `T` is one of the structures above, laid out as the kernel has it for `command`; the
    // pointers in it are to buffers that live longer than the call, of the sizes the map was made with.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map; its keys are indices.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    nr_entries: u32,
    value_bytes: usize,
}

impl Map {
    /// Makes one. `value_bytes` is what a reader gets: of a map for each CPU, that of all of them.
    pub fn create(kind: Kind, value_size: u32, nr_entries: u32) -> Result<Self, Error> {
        let attributes = MapCreate {
            map_type: kind as u32,
            key_size: 4,
            value_size,
            max_entries: nr_entries,
            ..MapCreate::default()
        };
        let fd = bpf(BPF_MAP_CREATE, &attributes)
            .map_err(|cause| Error::of("making a map", cause, ""))?;
        let copies = if kind == Kind::PerCpuArray { nr_possible_cpus() } else { 1 };
        Ok(Self { fd: owned(fd), nr_entries, value_bytes: value_size as usize * copies })
    }

    /// The number by which a program names it.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Puts a value of the map's size there.
    pub fn put(&self, index: u32, value: &[u8]) -> std::io::Result<()> {
        assert!(value.len() == self.value_bytes && index < self.nr_entries);
        self.element(BPF_MAP_UPDATE_ELEM, index, value.as_ptr() as u64).map(drop)
    }

    /// The value there: of a map for each CPU, one after the other.
    pub fn get(&self, index: u32) -> std::io::Result<Vec<u8>> {
        assert!(index < self.nr_entries);
        let mut value = vec![0; self.value_bytes];
        self.element(BPF_MAP_LOOKUP_ELEM, index, value.as_mut_ptr() as u64)?;
        Ok(value)
    }

    /// Empties a place among sockets.
    pub fn remove(&self, index: u32) -> std::io::Result<()> {
        self.element(BPF_MAP_DELETE_ELEM, index, 0).map(drop)
    }

    fn element(&self, command: i32, index: u32, value: u64) -> std::io::Result<i32> {
        let key = std::ptr::from_ref(&index) as u64;
        bpf(command, &Element { map_fd: self.fd() as u32, _pad: 0, key, value, flags: 0 })
    }
}

/// A program that chooses sockets.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Has the kernel check and translate it.
    pub fn load(insns: &[Insn]) -> Result<Self, Error> {
        let mut log = vec![0u8; LOG_BYTES];
        let license = c"MIT";
        let mut attributes = ProgLoad {
            prog_type: BPF_PROG_TYPE_SK_REUSEPORT,
            insn_cnt: insns.len() as u32,
            insns: insns.as_ptr() as u64,
            license: license.as_ptr() as u64,
            prog_name: *b"quartier_serve\0\0",
            expected_attach_type: BPF_SK_REUSEPORT_SELECT_OR_MIGRATE,
            ..ProgLoad::default()
        };
        if let Ok(fd) = bpf(BPF_PROG_LOAD, &attributes) {
            return Ok(Self(owned(fd)));
        }
        // Once more for the reason: writing it down takes longer than the check.
        attributes.log_level = 1;
        attributes.log_size = LOG_BYTES as u32;
        attributes.log_buf = log.as_mut_ptr() as u64;
        match bpf(BPF_PROG_LOAD, &attributes) {
            Ok(fd) => Ok(Self(owned(fd))),
            Err(cause) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                Err(Error::of("loading the program", cause, &String::from_utf8_lossy(&log[..end])))
            }
        }
    }

    /// The kernel asks it from now on which socket of the group a connection goes to.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        let program = self.0.as_raw_fd();
        // SAFETY: the kernel reads one int.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_EBPF,
                std::ptr::from_ref(&program).cast(),
                size_of::<i32>() as u32,
            )
        };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// How many values a map for each CPU has: one for every CPU that the kernel could ever have.
pub fn nr_possible_cpus() -> usize {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let list: Option<quartier_model::CpuList> = possible.parse().ok();
    let last = list.and_then(|list| list.iter().last());
    last.map_or(1, |last| last as usize + 1)
}
