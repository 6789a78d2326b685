//! One run of a server under load: the server on the CPUs that are counted, the load elsewhere; what is profiled is the
//! server, while the load runs.

use std::ffi::OsString;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use quartier_decide::verdict::Run;
use quartier_model::{CpuList, Happening, Recording};
use quartier_observe::profile::{Clock, Unprofiled};
use quartier_observe::{ServerUsage, TICKS_PER_SECOND};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

use super::guard::Guard;
use super::measure::{self, Measured, Outcome};

/// A server answers within this time, or is none.
pub const READY_WITHIN: Duration = Duration::from_secs(30);
/// Between attempts.
pub const ASKED_EVERY: Duration = Duration::from_millis(200);
/// From being asked to end to being made to.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// A load generator that uses more of its CPUs is taken for the limit.
const LOAD_BUSY_MAX_PERCENT: f64 = 90.0;

/// What to run: `server` is measured, under this load.
#[derive(Debug)]
pub struct Served<'a> {
    pub server: Measured<'a>,
    pub load: &'a [OsString],
    pub load_cpus: &'a CpuList,
    pub lasts: Lasts,
}

/// For how long a server is loaded, at least: a load that ends earlier is repeated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lasts {
    /// Before anything is measured. The load has to succeed once in any case.
    pub warm_up: Duration,
    /// While it is measured.
    pub run: Duration,
}

/// A server that runs.
struct Server {
    child: Child,
    /// Dropped when it has ended.
    running: Sender<()>,
}

impl Served<'_> {
    /// Runs it; the error is a sentence's end.
    pub fn run(&self) -> Result<Outcome, String> {
        // Whatever the thread starts that opens the profile is profiled: so the load is started by this one.
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            let recorder = scope.spawn(move || self.serve(&tell));
            let Ok(server) = told.recv() else {
                // It says why in the end.
                return match recorder.join() {
                    Ok(Err(why)) => Err(why),
                    _ => Err("could not be followed".to_owned()),
                };
            };
            let mut server: Server = server;
            let loaded = self.load(&mut server);
            let ended = end(&mut server.child, self.server.guard);
            drop(server.running);
            let recorded = recorder.join().map_err(|_| "could not be followed".to_owned())??;
            let loaded = loaded?;
            ended?;
            Ok(loaded.outcome(recorded))
        })
    }

    fn serve(&self, tell: &Sender<Server>) -> Result<Recorded, String> {
        let profiler = self.server.profiler();
        let (mut command, _printed) = self.server.own_command()?;
        let child = self.server.start_on(&mut command, self.server.cpus)?;
        let (running, ended): (_, Receiver<()>) = channel();
        tell.send(Server { child, running }).map_err(|_| "could not be followed".to_owned())?;
        Ok(match profiler {
            Some(Ok(profiler)) => {
                let clock = profiler.clock();
                Recorded::Yes(profiler.record(Path::new("/"), &ended), clock)
            }
            not => {
                // Until `running` is dropped.
                let _ = ended.recv();
                Recorded::No(not.and_then(Result::err))
            }
        })
    }

    /// Warms up until the load succeeds, and then for as long as is asked; measures after that.
    fn load(&self, server: &mut Server) -> Result<Loaded, String> {
        let began = Instant::now();
        loop {
            match self.load_once(server) {
                Ok(_) => break,
                Err(why) if began.elapsed() > READY_WITHIN => {
                    return Err(format!(
                        "was not ready within {} s: the load {why}",
                        READY_WITHIN.as_secs()
                    ));
                }
                Err(_) => std::thread::sleep(ASKED_EVERY),
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!(
                    "ended before its load did ({status}): is its address in use?"
                ));
            }
        }
        let ready = Instant::now();
        while ready.elapsed() < self.lasts.warm_up {
            self.again(server)?;
        }
        let (began, mut loaded) = (Instant::now(), self.again(server)?);
        while began.elapsed() < self.lasts.run {
            loaded.add(self.again(server)?);
        }
        Ok(loaded)
    }

    fn again(&self, server: &Server) -> Result<Loaded, String> {
        self.load_once(server).map_err(|why| format!("was ready, but then the load {why}"))
    }

    fn load_once(&self, server: &Server) -> Result<Loaded, String> {
        let (mut command, printed) = self.server.command(self.load)?;
        let server_usage = || self.server.host.server_usage(server.child.id());
        let (before, server_before) = (measure::usage()?, server_usage());
        let host_stolen = self.server.host_stolen_s();
        let (began, from_ns) = (Instant::now(), now_ns());
        let mut child = self.server.start_on(&mut command, self.load_cpus)?;
        let status = child.wait().map_err(|error| format!("could not be waited for: {error}"))?;
        self.server.guard.ended(child.id());
        let (wall_s, to_ns) = (began.elapsed().as_secs_f64(), now_ns());
        let host_stolen_s = measure::since(&host_stolen, &self.server.host_stolen_s());
        let served = server_usage().zip(server_before).map(|(now, before)| now.since(before));
        let used = measure::cpu_s(&measure::usage()?) - measure::cpu_s(&before);
        let printed =
            measure::text(printed).map_err(|error| format!("said what cannot be read: {error}"))?;
        measure::check(status, &printed)?;
        let units = self.server.metric.units(&printed, wall_s)?;
        let busy_percent = 100.0 * used / (wall_s * self.load_cpus.len().max(1) as f64);
        let load_ns = (from_ns, to_ns);
        Ok(Loaded { units, wall_s, load_ns, busy_percent, served, host_stolen_s })
    }
}

/// Whether it was profiled.
enum Recorded {
    Yes(Recording, Clock),
    /// And why not, if it was to be.
    No(Option<Unprofiled>),
}

/// A load that has ended.
struct Loaded {
    units: f64,
    wall_s: f64,
    load_ns: (u64, u64),
    /// Of its CPUs.
    busy_percent: f64,
    /// What the server took meanwhile; `None`: it has ended, and was waited for.
    served: Option<ServerUsage>,
    /// What the host took of the server's CPUs.
    host_stolen_s: Vec<f64>,
}

impl Loaded {
    /// Another one followed.
    fn add(&mut self, next: Self) {
        let busy = |of: &Self| of.busy_percent * of.wall_s;
        let all_s = self.wall_s + next.wall_s;
        self.busy_percent = (busy(self) + busy(&next)) / all_s.max(f64::MIN_POSITIVE);
        self.units += next.units;
        self.wall_s = all_s;
        self.load_ns.1 = next.load_ns.1;
        let both = self.host_stolen_s.iter().zip(next.host_stolen_s);
        self.host_stolen_s = both.map(|(so_far, next)| so_far + next).collect();
        self.served = self.served.zip(next.served).map(|(served, next)| served.plus(next));
    }

    fn outcome(self, recorded: Recorded) -> Outcome {
        let (recorded, unprofiled) = match recorded {
            Recorded::Yes(recording, clock) => (Some((recording, clock)), None),
            Recorded::No(why) => (None, why),
        };
        let (recording, clock) = recorded.unzip();
        let (from_ns, to_ns) = self.load_ns;
        let left = |is_preempted| {
            let during = recording.as_ref()?.events.iter();
            let during = during.filter(|event| (from_ns..to_ns).contains(&event.at_ns));
            let left = during.filter(|event| event.what == Happening::Left { is_preempted });
            Some(left.count() as u64)
        };
        let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
        let run = Run {
            units: self.units,
            wall_s: self.wall_s,
            user_s: self.served.map(|used| seconds(used.user_ticks)),
            kernel_s: self.served.map(|used| seconds(used.kernel_ticks)),
            nr_waits: left(false),
            nr_preemptions: left(true),
            nr_faults: self.served.map(|used| used.nr_faults),
            nr_disk_faults: self.served.map(|used| used.nr_disk_faults),
            load_busy_percent: Some(self.busy_percent),
            host_stolen_s: self.host_stolen_s,
            ..Run::default()
        };
        let complaint = (self.busy_percent > LOAD_BUSY_MAX_PERCENT).then(|| {
            format!(
                "the load generator used {:.0} % of its CPUs, so it may be the limit: give it more, or a faster one",
                self.busy_percent
            )
        });
        Outcome { run, recording, clock, load_ns: Some(self.load_ns), unprofiled, complaint }
    }
}

/// Asks the server and all that it started to end, and makes them after a while. The guard need not.
pub fn end(server: &mut Child, guard: &Guard) -> Result<(), String> {
    let ended = make_end(server);
    guard.ended(server.id());
    ended
}

fn make_end(server: &mut Child) -> Result<(), String> {
    let Some(group) = Pid::from_raw(server.id() as i32) else { return Ok(()) };
    let began = Instant::now();
    let _ = kill_process_group(group, Signal::TERM);
    while began.elapsed() < ENDS_WITHIN {
        if let Ok(Some(_)) = server.try_wait() {
            // Whoever it left behind.
            let _ = kill_process_group(group, Signal::KILL);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = kill_process_group(group, Signal::KILL);
    server.wait().map(|_| ()).map_err(|error| format!("could not be ended: {error}"))
}

/// By the clock that recordings have.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The load's words, as a shell would read them.
pub fn words(option: &str, text: &str) -> anyhow::Result<Vec<OsString>> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| {
        anyhow::anyhow!(
            "{option} `{text}` is no command: a quote has no end, or there is nothing in it"
        )
    })?;
    Ok(words.into_iter().map(OsString::from).collect())
}

/// The CPUs of the load: those that the server does not have, or all where it has them all.
pub fn load_cpus(all: &CpuList, server: &CpuList) -> CpuList {
    let rest: CpuList = all.iter().filter(|cpu| !server.contains(*cpu)).collect();
    if rest.is_empty() { all.clone() } else { rest }
}
