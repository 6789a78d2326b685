//! QEMU's command line, and the two processes that a guest is: QEMU and the file server.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::MemfdFlags;

use super::Request;
use super::console::Tail;
use super::instrument;
use crate::agent::PORT;
use crate::error::{Context, Error, Result};

// Descriptors of QEMU.
const FD_INITRD: i32 = 10;
const FD_PORT: i32 = 11;
const FD_FIRST_SHARE: i32 = 12;

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

/// The descriptor of the first node's memory in a counted run.
fn first_memory(nr_shares: usize) -> i32 {
    FD_FIRST_SHARE + nr_shares as i32
}

/// A running guest. Dropping it ends it.
#[derive(Debug)]
pub struct Processes {
    qemu: Child,
    /// Serves the host's files, to a guest that sees them.
    server: Option<Child>,
    pub console: Option<Tail>,
    pub complaints: Option<Tail>,
}

impl Processes {
    /// Starts both. `shares` are tag, path and whether it is writable.
    pub fn start(
        request: &Request,
        initramfs: &[u8],
        port: UnixStream,
        shares: &[(String, &Path, bool)],
        console: Option<Box<dyn Write + Send>>,
    ) -> Result<Self> {
        let (listener, connections) = connect_shares(shares.len())?;
        let serve = || start_server(request, listener, shares);
        let server = (!shares.is_empty()).then(serve).transpose()?;
        let mut mappings = vec![
            FdMapping { parent_fd: memory_file(initramfs)?, child_fd: FD_INITRD },
            FdMapping { parent_fd: port.into(), child_fd: FD_PORT },
        ];
        for (child_fd, connection) in (FD_FIRST_SHARE..).zip(connections) {
            mappings.push(FdMapping { parent_fd: connection.into(), child_fd });
        }
        if request.instrument.is_some() {
            let files = instrument::memory_files(&request.topology)?;
            for (child_fd, file) in (first_memory(shares.len())..).zip(files) {
                mappings.push(FdMapping { parent_fd: file, child_fd });
            }
        }
        let mut command = tethered(request, request.qemu.program.as_os_str());
        command.args(qemu_args(request, shares)).envs(request.qemu.environment());
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
            console: None,
            complaints: None,
        };
        processes.console = processes.qemu.stdout.take().map(|stream| Tail::start(stream, console));
        processes.complaints = processes.qemu.stderr.take().map(|stream| Tail::start(stream, None));
        Ok(processes)
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

fn start_server(
    request: &Request,
    listener: UnixListener,
    shares: &[(String, &Path, bool)],
) -> Result<Child> {
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

fn qemu_args(request: &Request, shares: &[(String, &Path, bool)]) -> Vec<OsString> {
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
    // The fifth level is switched on by what unpacks a kernel, and by nothing else.
    let unpacked = request.kernel.unpacked.as_ref().filter(|_| !request.five_levels);
    push("-kernel", unpacked.unwrap_or(&request.kernel.image).into());
    push("-initrd", format!("/proc/self/fd/{FD_INITRD}").into());
    push("-append", kernel_args.into());
    push("-chardev", "stdio,id=console,signal=off".into());
    push("-serial", "chardev:console".into());
    // Without the eventfd, what the guest sends is taken by the thread of its CPU: not a moment later.
    let taken = if repeatable { ",ioeventfd=off" } else { "" };
    push("-device", format!("virtio-serial-pci,max_ports=2{taken}").into());
    push("-chardev", format!("socket,id=port,fd={FD_PORT}").into());
    push("-device", format!("virtserialport,chardev=port,name={PORT}").into());
    for (fd, (tag, _, _)) in (FD_FIRST_SHARE..).zip(shares) {
        push("-chardev", format!("socket,id={tag},fd={fd}").into());
        push("-device", format!("vhost-user-fs-pci,chardev={tag},tag={tag}").into());
    }
    args.extend(request.qemu.data_args());
    let mut machine = request.topology.qemu_args(cpu);
    if let Some(instrument) = &request.instrument {
        let first_file = first_memory(shares.len());
        instrument::use_memory_files(&mut machine, first_file);
        args.extend(["-plugin".into(), instrument.plugin_arg(&request.topology, first_file)]);
        if repeatable {
            args.extend(REPEATABLE.map(Into::into));
        }
    }
    args.extend(machine.into_iter().map(Into::into));
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
