//! The first process of the guest: it makes the guest look like the host, runs one command in it
//! and tells the host how it went.

mod begun;
mod clocks;
mod cpus;
mod enter;
mod group;
mod mounts;
mod plan;
mod random;
mod server;
mod session;
mod spaces;
mod streams;
mod timers;

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::system::RebootCommand;

use crate::error::{Context, Error, Result};
use crate::frame::{Frame, Start};
use crate::initramfs::{MODULES, START};

pub use enter::enter;
pub use mounts::ROOT_TAG;

/// The name of the virtio-serial port that leads to the host.
pub const PORT: &str = "quartier";
/// How often the host hears that the guest lives.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The same where a second is a thousand million instructions.
const HEARTBEAT_REPEATABLE: Duration = Duration::from_millis(50);
/// Where time passes as work does: this machine takes so many times as long for that as for time without work, with many CPUs.
const SLOWER_AT_WORK: u32 = 40;
/// How long the kernel may take to find its devices.
const PORT_WAIT: Duration = Duration::from_secs(120);

/// The way to the host, shared by the agent's threads.
#[derive(Clone, Debug)]
struct Host(Arc<Mutex<File>>);

impl Host {
    fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut port = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        frame.write(&mut *port)
    }
}

/// Runs the agent. It does not return: when all is said, the machine is switched off.
///
/// # Errors
/// When this is not the first process of a guest.
pub fn main() -> Result<Infallible> {
    if !rustix::process::getpid().is_init() {
        return Err(Error::refused("`quartier lab /init` is for the inside of a guest"));
    }
    if let Err(error) = boot() {
        // The console is all there is; the host shows its tail.
        let _ = writeln!(io::stderr(), "quartier: {error}");
    }
    // The host ends the guest as soon as it has read the last frame; this is for when it does not.
    thread::sleep(Duration::from_secs(2));
    rustix::system::reboot(RebootCommand::PowerOff).doing("switch the guest off")?;
    loop {
        thread::park();
    }
}

fn boot() -> Result<()> {
    mounts::early()?;
    load_modules()?;
    let port = open_port()?;
    let mut from_host = port.try_clone().doing("use the port to the host")?;
    let host = Host(Arc::new(Mutex::new(port)));
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let start = start_from_initramfs()?;
    // Before the host has heard anything: then it boots another. Where one thread emulates all CPUs none loses its timer.
    if start.is_none() {
        timers::check()?;
    }
    host.send(&Frame::Hello(release)).doing("write to the host")?;
    let run = || {
        // A guest may stop here, and others go on as it was, at another time: nothing is begun before, and nothing is half sent.
        let start = start.map_or_else(|| receive_start(&mut from_host), Ok)?;
        let heartbeat = if start.is_repeatable { HEARTBEAT_REPEATABLE } else { HEARTBEAT };
        let slower =
            start.slower.saturating_mul(if start.follows_work { SLOWER_AT_WORK } else { 1 });
        start_heartbeat(host.clone(), heartbeat / slower);
        random::begin_anew(&start.seed)?;
        if start.is_repeatable {
            mounts::stay(&start)?;
        } else {
            mounts::root(&start)?;
            mounts::forget_unused_files(&start);
        }
        settle(&start)?;
        session::run(&start, &host, from_host)
    };
    let last = match run() {
        Ok(exit) => Frame::Exit(exit),
        Err(Error::Refused(why)) => Frame::Refused(why),
        Err(error) => Frame::Failed(error.to_string()),
    };
    // What the command wrote through --rw must be on the host before the guest is ended.
    rustix::fs::sync();
    host.send(&last).doing("write to the host")
}

/// The plan of a guest that is told nothing.
fn start_from_initramfs() -> Result<Option<Start>> {
    let path = Path::new(START);
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => {
            let bytes = bytes.path("read", path)?;
            postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other).path("read", path)
        }
    }
}

fn receive_start(from_host: &mut File) -> Result<Start> {
    match Frame::read(from_host).doing("read from the host")? {
        Some(Frame::Start(start)) => Ok(*start),
        other => Err(Error::refused(format!("the host began with {other:?}"))),
    }
}

fn start_heartbeat(host: Host, period: Duration) {
    thread::spawn(move || {
        while host.send(&Frame::Heartbeat).is_ok() {
            thread::sleep(period);
        }
    });
}

fn load_modules() -> Result<()> {
    let folder = Path::new(MODULES);
    let entries = fs::read_dir(folder).path("read", folder)?;
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    for path in paths {
        let file = File::open(&path).path("open", &path)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error).path("load", &path),
        }
    }
    Ok(())
}

/// The port appears when its driver has found it, which may be after the first process starts.
fn open_port() -> Result<File> {
    let end = Instant::now() + PORT_WAIT;
    loop {
        if let Some(device) = find_port() {
            return File::options().read(true).write(true).open(&device).path("open", &device);
        }
        if Instant::now() > end {
            return Err(Error::refused("there is no port to the host"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn find_port() -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().find_map(|entry| {
        let name = fs::read_to_string(entry.path().join("name")).ok()?;
        let device = Path::new("/dev").join(entry.file_name());
        (name.trim() == PORT && device.exists()).then_some(device)
    })
}

/// Name, clock and loopback, as on the host.
fn settle(start: &Start) -> Result<()> {
    rustix::system::sethostname(&start.hostname).doing("set the host name")?;
    let now = rustix::time::Timespec {
        tv_sec: (start.time_ns / 1_000_000_000) as i64,
        tv_nsec: (start.time_ns % 1_000_000_000) as i64,
    };
    if start.time_ns != 0 {
        rustix::time::clock_settime(rustix::time::ClockId::Realtime, now).doing("set the clock")?;
    }
    bring_up_loopback().doing("bring up the loopback interface")
}

/// One netlink message: RTM_NEWLINK for interface 1, which is always the loopback, with IFF_UP.
fn bring_up_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, netlink};
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const IFF_UP: u32 = 1;
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // NETLINK_ROUTE is protocol 0.
    )?;
    let mut message = Vec::new();
    message.extend_from_slice(&32u32.to_ne_bytes());
    message.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // sequence, port
    message.extend_from_slice(&[0; 4]); // family, padding, type
    for word in [1, IFF_UP, IFF_UP] {
        message.extend_from_slice(&word.to_ne_bytes()); // index, flags, which flags
    }
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    Ok(())
}
