//! The host's side of a run, from start to status.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use quartier_model::NodeId;
use signal_hook::consts::{SIGABRT, SIGBUS, SIGILL, SIGSEGV};

use super::console::Tail;
use super::input::Pump;
use super::machine::{Origin, Processes, Share};
use super::plan::{alone, now_ns, plan};
use super::signals::{Ending, Forwarder};
use super::{Input, Report, Request, Spaces, Streams};
use crate::agent::ROOT_TAG;
use crate::error::{Context, Error, Result};
use crate::frame::{Exit, Frame, Start};
use crate::initramfs;
use crate::modules::{ModuleTree, NEEDED};

/// What our agent says where nobody hears it but the console.
const OURS: &str = "quartier: ";
/// Frames read ahead of what this process has written out.
const FRAMES_AHEAD: usize = 16;
/// How often limits are looked at.
const TICK: Duration = Duration::from_millis(200);

/// Runs a command in a guest. One that does not boot is tried once more: under heavy load a kernel may
/// hang before its first process, QEMU crash (10.0: a processor that reads from a device while another moves
/// it, `iotlb_to_section`) or lose a processor's timer (`agent/timers.rs`), and nothing of the command's has begun then.
///
/// # Errors
/// When something asked for cannot be, or when the guest ends before the command does.
pub fn run(request: &Request, mut streams: Streams) -> Result<Report> {
    let begun = Instant::now();
    let what = match run_in_one_guest(request, &mut streams, begun, true)? {
        Tried::Ran(report) => return Ok(report),
        Tried::NotBooted { what, .. } => what,
    };
    let note = "nothing has run in it, so another is tried, once";
    let _ = writeln!(streams.error, "quartier: {what}; {note}");
    match run_in_one_guest(request, &mut streams, begun, false)? {
        Tried::Ran(report) => Ok(report),
        Tried::NotBooted { what, console } => Err(Error::GuestDied { what, console }),
    }
}

/// What came of one guest.
enum Tried {
    Ran(Report),
    /// It ended, or was silent for too long, before our agent in it had said anything.
    NotBooted {
        what: String,
        console: String,
    },
}

fn run_in_one_guest(
    request: &Request,
    streams: &mut Streams,
    begun: Instant,
    may_go_on: bool,
) -> Result<Tried> {
    let booting_since = Instant::now();
    let start = plan(request, &streams.input)?;
    let modules = match &request.kernel.modules {
        Some(folder) => ModuleTree::open(folder)?.load_order(&NEEDED)?,
        None => Vec::new(),
    };
    let alone = start.is_repeatable.then(|| alone(request, &start)).transpose()?;
    let initramfs = initramfs::build(&request.quartier, &modules, alone.as_ref())?;
    let (ours, theirs) = UnixStream::pair().doing("make a socket")?;
    let mut shares: Vec<Share<'_>> = Vec::new();
    if !start.is_repeatable {
        shares.push((ROOT_TAG.to_owned(), Path::new("/"), false));
        let folders = start.writable.iter().zip(&request.writable);
        shares.extend(folders.map(|((tag, _), path)| (tag.clone(), path.as_path(), true)));
    }
    let console = streams.console.take();
    // Who reads the console wants to see the guest boot.
    let origin = (may_go_on && console.is_none())
        .then(|| Origin::of(request, &initramfs, &shares))
        .transpose()?
        .flatten();
    let origin = origin.as_ref();
    let mut processes = Processes::start(request, &initramfs, theirs, &shares, console, origin)?;
    drop(initramfs);
    let ending = Ending::new(processes.qemu_id());
    let (to_guest, frames_out) = mpsc::channel();
    let (frames_in, from_guest) = mpsc::sync_channel(FRAMES_AHEAD);
    let reading = ours.try_clone().doing("use a socket")?;
    thread::spawn(move || write_frames(ours, &frames_out));
    thread::spawn(move || read_frames(reading, &frames_in));
    let started = Arc::new(AtomicBool::new(false));
    let _forwarder = request
        .handle_signals
        .then(|| Forwarder::start(to_guest.clone(), started.clone(), ending.clone()))
        .transpose()?;
    let mut run = Run {
        request,
        streams,
        begun,
        booting_since,
        has_answered: false,
        origin,
        start: Some(start).filter(|start| !start.is_repeatable),
        to_guest,
        ending,
        started,
        pump: None,
        boot: None,
        heard: Instant::now(),
        spaces: Spaces::default(),
    };
    let end = run.go_on(&mut processes).and_then(|end| match end {
        Some(end) => Ok(end),
        None => run.until_end(&from_guest, &mut processes),
    });
    run.pump = None;
    let tried = run.judge(end, &mut processes);
    if let (Ok(Tried::NotBooted { .. }), Some(origin)) = (&tried, origin) {
        origin.forget();
    }
    tried
}

fn write_frames(mut port: UnixStream, frames: &Receiver<Frame>) {
    while let Ok(frame) = frames.recv() {
        if frame.write(&mut port).is_err() {
            return;
        }
    }
}

fn read_frames(mut port: UnixStream, frames: &SyncSender<Frame>) {
    while let Ok(Some(frame)) = Frame::read(&mut port) {
        if frames.send(frame).is_err() {
            return;
        }
    }
}

/// How a run came to its end.
enum End {
    Exit(Exit),
    GuestFailed(String),
    Refused(String),
    /// The guest is gone without having said why.
    Gone,
    /// The file server has ended.
    NoServer,
    Hung(Duration),
    BootTooLong(Duration),
    /// It did not go on from a snapshot.
    NoSnapshot(String),
    TimeLimit(Duration),
    /// Nobody reads the command's output any more.
    OutputClosed,
}

struct Run<'a> {
    request: &'a Request,
    /// What names addresses, as the guest tells it.
    spaces: Spaces,
    streams: &'a mut Streams,
    begun: Instant,
    booting_since: Instant,
    has_answered: bool,
    origin: Option<&'a Origin>,
    start: Option<Start>,
    to_guest: Sender<Frame>,
    ending: Ending,
    started: Arc<AtomicBool>,
    pump: Option<Pump>,
    boot: Option<Duration>,
    heard: Instant,
}

impl Run<'_> {
    /// Has a guest go on that need not boot, and tells it what to run. Gives why not, if it does not.
    fn go_on(&mut self, processes: &mut Processes) -> Result<Option<End>> {
        let Some(origin) = self.origin.filter(|origin| origin.is_found()) else { return Ok(None) };
        if let Err(error) = processes.go_on(origin) {
            let why = error.to_string();
            return Ok(Some(if processes.qemu_ended() { End::Gone } else { End::NoSnapshot(why) }));
        }
        self.send_start();
        Ok(None)
    }

    fn send_start(&mut self) {
        if let Some(mut start) = self.start.take() {
            start.time_ns = now_ns();
            let _ = self.to_guest.send(Frame::Start(Box::new(start)));
        }
    }

    fn until_end(
        &mut self,
        from_guest: &Receiver<Frame>,
        processes: &mut Processes,
    ) -> Result<End> {
        loop {
            match from_guest.recv_timeout(TICK) {
                Ok(frame) => {
                    self.has_answered = true;
                    if let (Frame::Hello(_), Some(origin)) = (&frame, self.origin) {
                        processes.has_booted(origin)?;
                    }
                    if let Some(end) = self.take(frame)? {
                        return Ok(end);
                    }
                    // Only now: writing out may have taken long.
                    self.heard = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Gone),
                Err(RecvTimeoutError::Timeout) if processes.server_ended() => {
                    return Ok(End::NoServer);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(end) = self.silence() {
                        return Ok(end);
                    }
                }
            }
            if let Some(limit) = self.request.time_limit.filter(|l| self.begun.elapsed() > *l) {
                return Ok(End::TimeLimit(limit));
            }
        }
    }

    /// Whether nothing was heard for too long.
    fn silence(&self) -> Option<End> {
        let silent = self.heard.elapsed();
        if self.boot.is_some() {
            return (silent > self.request.hang_limit).then_some(End::Hung(silent));
        }
        let limit = self.request.boot_limit;
        (self.booting_since.elapsed() > limit).then_some(End::BootTooLong(limit))
    }

    fn take(&mut self, frame: Frame) -> Result<Option<End>> {
        let written = match frame {
            Frame::Hello(_) => {
                self.send_start();
                Ok(())
            }
            Frame::Serving => {
                self.boot = Some(self.begun.elapsed());
                Ok(())
            }
            Frame::Started => {
                self.boot.get_or_insert(self.begun.elapsed());
                self.started.store(true, Ordering::SeqCst);
                // Input would come at another moment each time.
                if self.pump.is_none() && !self.request.is_repeatable() {
                    let input = std::mem::replace(&mut self.streams.input, Input::Null);
                    let pump = Pump::start(input, self.to_guest.clone(), self.ending.clone())?;
                    self.pump = Some(pump);
                }
                Ok(())
            }
            Frame::Credit(bytes) => {
                if let Some(pump) = &self.pump {
                    pump.grant(bytes);
                }
                Ok(())
            }
            Frame::Output(data) => {
                let output = &mut self.streams.output;
                output.write_all(&data).and_then(|()| output.flush())
            }
            Frame::ErrorOutput(data) => {
                let error = &mut self.streams.error;
                error.write_all(&data).and_then(|()| error.flush())
            }
            Frame::Space(process, maps) => {
                let maps = String::from_utf8_lossy(&maps).into_owned();
                self.spaces.maps.insert(process, maps);
                Ok(())
            }
            Frame::KernelNames(part) => {
                self.spaces.kernel_names += &String::from_utf8_lossy(&part);
                Ok(())
            }
            Frame::Exit(exit) => return Ok(Some(End::Exit(exit))),
            Frame::Failed(why) => return Ok(Some(End::GuestFailed(why))),
            Frame::Refused(why) => return Ok(Some(End::Refused(why))),
            _ => Ok(()),
        };
        Ok(written.is_err().then_some(End::OutputClosed))
    }

    /// What an end means, once everything has stopped.
    fn judge(&mut self, end: Result<End>, processes: &mut Processes) -> Result<Tried> {
        let gone = matches!(end, Ok(End::Gone));
        let status = if gone { processes.wait_qemu()? } else { processes.end_qemu()? };
        let (console, copy) = processes.console.take().map(Tail::finish).unwrap_or_default();
        self.streams.console = copy;
        let complaints = processes.complaints.take().map(Tail::finish).unwrap_or_default().0;
        if let Some(signal) = self.ending.signal() {
            return Ok(self.ran(Exit::Signal(signal)));
        }
        let mut may_boot_again = false;
        let what = match end? {
            End::Exit(exit) => return Ok(self.ran(exit)),
            End::OutputClosed => return Ok(self.ran(Exit::Signal(signal_hook::consts::SIGPIPE))),
            End::TimeLimit(limit) => return Err(Error::TimedOut { seconds: limit.as_secs() }),
            End::Refused(what) => return Err(Error::Refused(what)),
            End::GuestFailed(what) => return Err(Error::GuestFailed { what, console }),
            End::NoServer => {
                format!("the file server ended: {}", processes.server_complaints())
            }
            End::Hung(silent) => format!(
                "the guest hangs: it has said nothing for {} s (--hang-timeout)",
                silent.as_secs()
            ),
            End::BootTooLong(limit) => {
                may_boot_again = true;
                format!("the guest did not start within {} s", limit.as_secs())
            }
            End::NoSnapshot(why) => {
                may_boot_again = true;
                format!("the guest did not go on from a snapshot: {why}")
            }
            End::Gone if console.contains("Kernel panic") => {
                may_boot_again = true;
                "the guest's kernel panicked".into()
            }
            End::Gone if !status.success() && self.is_instrument_refused(&console) => {
                return Err(Error::refused(format!(
                    "QEMU {} does not run with the instrument: {}; build or install quartier and its \
                     instrument together (`make build`)",
                    self.request.qemu.version,
                    reason(&complaints)
                )));
            }
            // What QEMU refuses once it refuses again; where it crashes it may not.
            End::Gone if !status.success() => {
                let server = processes.server_complaints();
                may_boot_again = has_crashed(status);
                format!("QEMU ended ({status}): {}", [complaints, server].join(" ").trim())
            }
            End::Gone => {
                may_boot_again = true;
                let ours = console.lines().find_map(|line| line.trim_end().strip_prefix(OURS));
                let nobody = "the guest switched itself off before the command ended";
                ours.unwrap_or(nobody).to_owned()
            }
        };
        if may_boot_again && !self.has_answered {
            return Ok(Tried::NotBooted { what, console });
        }
        Err(Error::GuestDied { what, console })
    }

    /// Whether QEMU ended before the guest's processor ran, in a run with a plugin to load.
    fn is_instrument_refused(&self, console: &str) -> bool {
        self.request.instrument.is_some() && !self.has_answered && console.trim().is_empty()
    }

    fn ran(&self, exit: Exit) -> Tried {
        Tried::Ran(self.report(exit))
    }

    fn report(&self, exit: Exit) -> Report {
        let machine = self.request.topology.machine();
        let nodes = 0..machine.nodes().len() as u32;
        Report {
            kernel: self.request.kernel.release.clone(),
            qemu: self.request.qemu.version.clone(),
            cpus: nodes.map(|node| machine.node_cpus(NodeId(node)).len() as u32).collect(),
            memory_bytes: machine
                .nodes()
                .iter()
                .map(|node| node.memory.unwrap_or_default())
                .collect(),
            distances: machine.distances().clone(),
            from_snapshot: self.origin.is_some_and(Origin::is_found),
            boot_ms: self.boot.map(|boot| boot.as_millis() as u64),
            elapsed_ms: self.begun.elapsed().as_millis() as u64,
            exit,
            exit_status: exit.shell_status(),
            spaces: self.spaces.clone(),
        }
    }
}

/// Whether a process came to its end by what it did itself, and not by what somebody sent it.
fn has_crashed(status: ExitStatus) -> bool {
    const CRASHES: [i32; 4] = [SIGABRT, SIGBUS, SIGILL, SIGSEGV];
    status.signal().is_some_and(|signal| CRASHES.contains(&signal))
}

/// Of QEMU's complaints the one that says why: the plugin's own, or else the first.
fn reason(complaints: &str) -> &str {
    let own = complaints.lines().find_map(|line| line.strip_prefix("quartier-plugin: "));
    own.or(complaints.lines().next()).unwrap_or("it says nothing")
}
