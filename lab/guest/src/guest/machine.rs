//! QEMU's command line, and the two processes that a guest is: QEMU and the file server.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use quartier_marker::CLOCK_SLOWER;
use rustix::fs::MemfdFlags;

use serde_json::json;

use super::console::Tail;
use super::qmp::{Qmp, StateAt};
use super::snapshot::{Key, Snapshot, Snapshots};
use super::{Request, SlowTime};
use crate::agent::PORT;
use crate::error::{Context, Error, Result};

// Descriptors of QEMU.
const FD_INITRD: i32 = 10;
const FD_PORT: i32 = 11;
const FD_QMP: i32 = 12;
const FD_STATE: i32 = 13;
const FD_FIRST_MEMORY: i32 = 14;

/// Where a machine's state is written to and read from.
const STATE: StateAt<'_> = StateAt("/proc/self/fd/13");

/// Places for folders of the host that every machine has whose snapshot is taken, so that most can go on from the same.
const PLACES_MIN: usize = 2;

/// The kernel's command line. What is switched off only costs time in an emulated machine, or
/// takes slowness for a fault; `panic=-1` makes a panic end QEMU instead of waiting.
const KERNEL_ARGS: &str = "console=ttyS0 panic=-1 loglevel=5 nokaslr mitigations=off nowatchdog \
                           rcupdate.rcu_cpu_stall_suppress=1 no_timer_check edd=off \
                           random.trust_cpu=on 8250.nr_uarts=1 cryptomgr.notests";

/// The same for a processor that QEMU emulates: its clock is the host's, so that measuring and
/// watching it costs seconds and finds nothing.
const KERNEL_ARGS_EMULATED: &str = " lpj=8000000 tsc=reliable";

/// An emulated processor copies and clears byte by byte where it says that it is quick at that (`rep movsb`, `rep stosb`):
/// eight times as many steps as by words, for each page that the kernel fills or moves.
const CPU_EMULATED: &str = "max,erms=off,fsrm=off";

/// Time is instructions executed, and what is random begins the same.
const REPEATABLE: [&str; 6] =
    ["-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"];

/// The descriptor of the first of the host's folders.
fn first_share(request: &Request) -> i32 {
    FD_FIRST_MEMORY + request.topology.bytes_of_nodes().count() as i32
}

/// A folder of the host: tag, path and whether it is writable.
pub type Share<'a> = (String, &'a Path, bool);

/// What a guest goes on from, or what others are to go on from when it has booted.
#[derive(Debug)]
pub struct Origin {
    snapshots: Snapshots,
    key: Key,
    found: Option<Snapshot>,
}

impl Origin {
    /// Of a guest that may have one.
    ///
    /// # Errors
    /// When what it boots is not there.
    pub fn of(request: &Request, initramfs: &[u8], shares: &[Share<'_>]) -> Result<Option<Self>> {
        let may = !request.kvm && !request.is_repeatable() && request.qemu.is_new();
        let Some(folder) = request.snapshots.as_deref().filter(|_| may) else { return Ok(None) };
        let args = machine_args(request, Some(nr_places(shares)));
        let machine: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        // How fast a clock goes is found out while a guest boots.
        let (slower, follows) = (request.slower(), request.clock_follows());
        let machine = format!("{} slower={slower} follows={follows}", machine.join(" "));
        let key = Key::new(&machine, &[image(request), &request.qemu.program], initramfs)?;
        let snapshots = Snapshots::at(folder);
        let found = snapshots.find(&key, request.topology.bytes_of_nodes().count());
        Ok(Some(Self { snapshots, key, found }))
    }

    /// Whether the guest goes on from a snapshot.
    pub fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Forgets the snapshot: no guest comes of it.
    pub fn forget(&self) {
        self.snapshots.forget(&self.key);
    }
}

/// A running guest. Dropping it ends it.
#[derive(Debug)]
pub struct Processes {
    qemu: Child,
    /// Serves the host's files, to a guest that sees them.
    server: Option<Child>,
    /// Leads to the QEMU of a guest that has an [`Origin`].
    qmp: Option<UnixStream>,
    files: Snapshot,
    /// Of the host's folders, while they are not there yet.
    to_plug: Vec<String>,
    pub console: Option<Tail>,
    pub complaints: Option<Tail>,
}

impl Processes {
    /// Starts both. One that goes on from a snapshot waits for [`Self::go_on`].
    pub fn start(
        request: &Request,
        initramfs: &[u8],
        port: UnixStream,
        shares: &[Share<'_>],
        console: Option<Box<dyn Write + Send>>,
        origin: Option<&Origin>,
    ) -> Result<Self> {
        let (listener, connections) = connect_shares(shares.len())?;
        let serve = || start_server(request, listener, shares);
        let server = (!shares.is_empty()).then(serve).transpose()?;
        let mut mappings = vec![
            FdMapping { parent_fd: memory_file(initramfs)?, child_fd: FD_INITRD },
            FdMapping { parent_fd: port.into(), child_fd: FD_PORT },
        ];
        let (ours, theirs) = UnixStream::pair().doing("make a socket")?;
        mappings.push(FdMapping { parent_fd: theirs.into(), child_fd: FD_QMP });
        let files = Snapshot::of_new(&request.topology)?;
        for (child_fd, parent_fd) in (FD_STATE..).zip(files.files()?) {
            mappings.push(FdMapping { parent_fd, child_fd });
        }
        for (child_fd, connection) in (first_share(request)..).zip(connections) {
            mappings.push(FdMapping { parent_fd: connection.into(), child_fd });
        }
        let mut command = tethered(request, request.qemu.program.as_os_str());
        command.args(machine_args(request, origin.map(|_| nr_places(shares))));
        command.args(run_args(request, shares, origin)).envs(request.qemu.environment());
        if let Some(SlowTime { times, library }) = &request.slow_time {
            command.env("LD_PRELOAD", library).env(CLOCK_SLOWER, times.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .fd_mappings(mappings)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .doing("give QEMU its files")?;
        let mut processes = Self {
            qemu: match command.spawn() {
                Ok(qemu) => qemu,
                Err(error) => {
                    server.into_iter().for_each(end);
                    return Err(error).doing("start QEMU");
                }
            },
            server,
            qmp: None,
            files,
            to_plug: Vec::new(),
            console: None,
            complaints: None,
        };
        processes.console = processes.qemu.stdout.take().map(|stream| Tail::start(stream, console));
        processes.complaints = processes.qemu.stderr.take().map(|stream| Tail::start(stream, None));
        if origin.is_some() {
            processes.qmp = Some(ours);
            processes.to_plug = shares.iter().map(|(tag, _, _)| tag.clone()).collect();
        }
        Ok(processes)
    }

    /// Has the guest go on from the snapshot that was found for it.
    ///
    /// # Errors
    /// When QEMU cannot. The guest is of no use then, and maybe the snapshot.
    pub fn go_on(&mut self, origin: &Origin) -> Result<()> {
        let (Some(found), Some(stream)) = (&origin.found, self.qmp.take()) else { return Ok(()) };
        // While QEMU makes its devices.
        found.copy_to(&self.files)?;
        let mut qmp = Qmp::open(stream)?;
        qmp.read(&STATE)?;
        qmp.go_on()?;
        self.plug(&mut qmp)
    }

    /// Takes a snapshot of a guest that has just booted, if there is room for it, and gives it the host's folders then.
    ///
    /// # Errors
    /// When the guest does not go on.
    pub fn has_booted(&mut self, origin: &Origin) -> Result<()> {
        let Some(stream) = self.qmp.take() else { return Ok(()) };
        let mut qmp = Qmp::open(stream)?;
        if origin.snapshots.has_room() {
            // Without one the next guest boots too, and all is as it was.
            if qmp.stop_and_write(&STATE).is_ok() {
                let _ = origin.snapshots.keep(&origin.key, &self.files);
            }
            qmp.go_on()?;
        }
        self.plug(&mut qmp)
    }

    fn plug(&mut self, qmp: &mut Qmp) -> Result<()> {
        for (place, tag) in self.to_plug.drain(..).enumerate() {
            let bus = format!("place{place}");
            let device = "vhost-user-fs-pci";
            qmp.plug(json!({ "driver": device, "chardev": tag, "tag": tag, "bus": bus }))?;
        }
        Ok(())
    }

    /// QEMU's process id.
    pub fn qemu_id(&self) -> u32 {
        self.qemu.id()
    }

    /// Ends QEMU if it has not ended; gives its status.
    pub fn end_qemu(&mut self) -> Result<ExitStatus> {
        let _ = self.qemu.kill();
        self.qemu.wait().doing("wait for QEMU")
    }

    /// Whether QEMU has ended by itself.
    pub fn qemu_ended(&mut self) -> bool {
        !matches!(self.qemu.try_wait(), Ok(None))
    }

    /// Waits a little for QEMU to end by itself.
    pub fn wait_qemu(&mut self) -> Result<ExitStatus> {
        for _ in 0..100 {
            if let Some(status) = self.qemu.try_wait().doing("wait for QEMU")? {
                return Ok(status);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.end_qemu()
    }

    /// Whether the file server has ended, without which the guest can read nothing.
    pub fn server_ended(&mut self) -> bool {
        self.server.as_mut().is_some_and(|server| !matches!(server.try_wait(), Ok(None)))
    }

    /// What the file server complained about; it must have ended or be about to.
    pub fn server_complaints(&mut self) -> String {
        let Some(server) = &mut self.server else { return String::new() };
        let _ = server.kill();
        let mut text = String::new();
        if let Some(stderr) = server.stderr.as_mut() {
            let _ = stderr.take(4096).read_to_string(&mut text);
        }
        text.trim().to_owned()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        self.server.take().into_iter().for_each(end);
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// `program` in a process that dies with this one.
fn tethered(request: &Request, program: &OsStr) -> Command {
    let mut command = Command::new(&request.quartier);
    command.env_remove("LD_PRELOAD").current_dir("/");
    command.args(["lab", "tether", "--parent"]).arg(std::process::id().to_string());
    command.arg("--").arg(program);
    command
}

fn start_server(request: &Request, listener: UnixListener, shares: &[Share<'_>]) -> Result<Child> {
    let mut command = Command::new(&request.quartier);
    command.env_remove("LD_PRELOAD").current_dir("/");
    command.args(["lab", "share", "--parent"]).arg(std::process::id().to_string()).arg("--");
    for (_, path, writable) in shares {
        let mut share = OsString::from(if *writable { "rw:" } else { "ro:" });
        share.push(path);
        command.arg(share);
    }
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().doing("start the file server")
}

/// A listening socket and `count` connections that wait in it. It has a name for only as long as
/// it takes to connect, in a folder nobody else can enter.
fn connect_shares(count: usize) -> Result<(UnixListener, Vec<UnixStream>)> {
    let folder = tempfile::Builder::new()
        .prefix("quartier-")
        .tempdir()
        .path("write in", &std::env::temp_dir())?;
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).path("listen at", &path)?;
    let connect = |_| UnixStream::connect(&path).path("connect to", &path);
    let connections = (0..count).map(connect).collect::<Result<_>>()?;
    folder.close().doing("remove a temporary folder")?;
    Ok((listener, connections))
}

fn memory_file(content: &[u8]) -> Result<OwnedFd> {
    let making = "make a memory file";
    let file = rustix::fs::memfd_create("initramfs", MemfdFlags::CLOEXEC).doing(making)?;
    let mut writer = File::from(file.as_fd().try_clone_to_owned().doing(making)?);
    writer.write_all(content).doing(making)?;
    Ok(file)
}

fn nr_places(shares: &[Share<'_>]) -> usize {
    shares.len().max(PLACES_MIN)
}

/// What is booted. The fifth level of page tables is switched on by what unpacks a kernel, and by nothing else.
fn image(request: &Request) -> &Path {
    let unpacked = request.kernel.unpacked.as_ref().filter(|_| !request.five_levels);
    unpacked.unwrap_or(&request.kernel.image)
}

/// The machine itself, by which a snapshot is known: with so many places for folders of the host, if they are plugged in later.
fn machine_args(request: &Request, nr_places: Option<usize>) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["-nodefaults", "-no-user-config", "-no-reboot"].map(Into::into).into();
    let mut push = |option: &str, value: OsString| args.extend([option.into(), value]);
    push("-display", "none".into());
    push("-machine", "q35,graphics=off,sata=off,smbus=off,vmport=off".into());
    let repeatable = request.is_repeatable();
    let (accelerator, cpu) = match (request.kvm, repeatable) {
        (true, _) => ("kvm", "host"),
        (false, false) => ("tcg,thread=multi", CPU_EMULATED),
        (false, true) => ("tcg,thread=single", CPU_EMULATED),
    };
    push("-accel", accelerator.into());
    // A fifth level of page tables only makes walks longer on machines this small, unless that is asked for.
    let levels = if request.five_levels { "on" } else { "off" };
    push("-cpu", format!("{cpu},la57={levels},vendor=GenuineIntel").into());
    let emulated = if request.kvm { "" } else { KERNEL_ARGS_EMULATED };
    let topology_args = request.topology.kernel_args();
    let kernel_args: String = topology_args
        .iter()
        .chain(&request.kernel_args)
        .fold(KERNEL_ARGS.to_owned() + emulated, |text, arg| text + " " + arg);
    push("-kernel", image(request).into());
    push("-initrd", format!("/proc/self/fd/{FD_INITRD}").into());
    push("-append", kernel_args.into());
    push("-chardev", "stdio,id=console,signal=off".into());
    push("-serial", "chardev:console".into());
    // Without the eventfd, what the guest sends is taken by the thread of its CPU: not a moment later.
    let taken = if repeatable { ",ioeventfd=off" } else { "" };
    push("-device", format!("virtio-serial-pci,max_ports=2{taken}").into());
    push("-chardev", format!("socket,id=port,fd={FD_PORT}").into());
    push("-device", format!("virtserialport,chardev=port,name={PORT}").into());
    for place in 0..nr_places.unwrap_or(0) {
        let slot = place + 1;
        push(
            "-device",
            format!("pcie-root-port,id=place{place},chassis={slot},slot={slot}").into(),
        );
    }
    args.extend(request.qemu.data_args());
    if repeatable {
        args.extend(REPEATABLE.map(Into::into));
    }
    args.extend(request.topology.qemu_args(cpu, FD_FIRST_MEMORY).into_iter().map(Into::into));
    args
}

/// What is of one run alone.
fn run_args(request: &Request, shares: &[Share<'_>], origin: Option<&Origin>) -> Vec<OsString> {
    let mut args = Vec::new();
    let mut push = |option: &str, value: OsString| args.extend([option.into(), value]);
    for (fd, (tag, _, _)) in (first_share(request)..).zip(shares) {
        push("-chardev", format!("socket,id={tag},fd={fd}").into());
        if origin.is_none() {
            push("-device", format!("vhost-user-fs-pci,chardev={tag},tag={tag}").into());
        }
    }
    if let Some(instrument) = &request.instrument {
        push("-plugin", instrument.plugin_arg(&request.topology, FD_FIRST_MEMORY));
    }
    if let Some(origin) = origin {
        push("-chardev", format!("socket,id=qmp,fd={FD_QMP}").into());
        push("-mon", "chardev=qmp,mode=control".into());
        if origin.is_found() {
            push("-incoming", "defer".into());
        }
    }
    args
}

/// Refuses what QEMU would take for options of its own.
pub fn check_kernel_arg(arg: &str) -> Result<()> {
    if arg.split_whitespace().any(|word| word == "--") || arg.contains(['\n', '\0']) {
        return Err(Error::refused(format!(
            "`{arg}` is not an argument for a kernel: what follows `--` goes to its first process, \
             which is the lab's own"
        )));
    }
    Ok(())
}
