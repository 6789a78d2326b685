//! What says when running code is looked at: the processor's counter of cycles, or else the kernel's software clock.
//!
//! The software clock is held off by code of the kernel's that holds interrupts off, so that this code is seen where it ends; a
//! counter is not. It tells of each so many cycles rather than so many times each second: that would be the kernel's to learn, which
//! begins with one cycle in every thread anew, and the beginnings of threads would be seen more often than the rest of them.

use std::fmt;
use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, SampleFlag};
use rustix::time::{ClockId, clock_gettime};

use super::rings::{Unprofiled, unprofiled};
use crate::Host;

/// The largest frequency of the first processor, kHz.
const FREQUENCY: &str = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
/// For so long it is tried whether cycles are counted.
const TRIED_FOR: Duration = Duration::from_millis(2);
/// Cycles between two looks then, and what these are written to.
const TRIED_CYCLES: u64 = 100_000;
const TRIED_RING_BYTES: usize = 16 << 10;

/// What says when it is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The processor's counter of cycles.
    Cycles,
    /// The kernel's software clock, for this reason.
    Software(NoCycles),
}

/// Why cycles do not say it. What is shown is the middle of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCycles {
    /// By the machine, or the hypervisor that shows it.
    #[error("this machine shows no counter of cycles (many virtual ones have none)")]
    Missing,
    /// By the administrator.
    #[error(
        "cycles must not be counted here (run as root, or sysctl kernel.perf_event_paranoid=1)"
    )]
    NotPermitted,
    /// By limits.
    #[error("there is no room for a counter of cycles (kernel.perf_event_mlock_kb, `ulimit -n`)")]
    NoRoom,
    /// There is a counter, which does not count or does not say so.
    #[error("this machine's counter of cycles stands still, or others have it")]
    Silent,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycles => write!(f, "the processor's counter of cycles"),
            Self::Software(why) => write!(f, "the kernel's software clock, as {why}"),
        }
    }
}

impl From<Unprofiled> for NoCycles {
    fn from(why: Unprofiled) -> Self {
        match why {
            Unprofiled::NotPermitted => Self::NotPermitted,
            Unprofiled::NoRoom => Self::NoRoom,
            Unprofiled::Unsupported => Self::Missing,
        }
    }
}

/// What opens profiles.
pub trait Opener {
    /// A profile.
    type Opened;

    /// One that looks at each so many cycles.
    fn by_cycles(&mut self, is_user_only: bool) -> Result<Self::Opened, NoCycles>;

    /// One that looks by the software clock.
    fn by_software(&mut self, is_user_only: bool) -> Result<Self::Opened, Unprofiled>;
}

/// Opens the best one that there may be: that the kernel is seen is worth more than what says when.
pub fn open<O: Opener>(opener: &mut O) -> Result<(O::Opened, Clock), Unprofiled> {
    for is_user_only in [false, true] {
        let why = match opener.by_cycles(is_user_only) {
            Ok(opened) => return Ok((opened, Clock::Cycles)),
            Err(why) => why,
        };
        match opener.by_software(is_user_only) {
            Ok(opened) => return Ok((opened, Clock::Software(why))),
            Err(Unprofiled::NotPermitted) => {}
            Err(why) => return Err(why),
        }
    }
    Err(Unprofiled::NotPermitted)
}

/// Cycles from one look to the next, for so many each second at most. A counter that is shown need not count, nor tell of it: it
/// is tried first, on the calling thread.
pub fn cycles_between(host: &Host, hertz: u32) -> Result<u64, NoCycles> {
    let counter = Builder::new(Hardware::CPU_CYCLES)
        .observe_self()
        .sample_period(TRIED_CYCLES)
        .sample(SampleFlag::TIME)
        .build()
        .map_err(|error| unprofiled(&error))?;
    let mut ring = counter.sampled(TRIED_RING_BYTES).map_err(|_| NoCycles::NoRoom)?;
    let began = own_time();
    ring.enable().map_err(|_| NoCycles::Silent)?;
    while own_time() - began < TRIED_FOR {
        // Asking for the time is the kernel's work, which is not counted.
        for nr in 0..100_000_u32 {
            std::hint::black_box(nr);
        }
    }
    let took = own_time() - began;
    let nr_cycles = ring.read().map_err(|_| NoCycles::Silent)?;
    if nr_cycles == 0 || ring.next_record().is_none() {
        return Err(NoCycles::Silent);
    }
    let counted = nr_cycles as f64 / took.as_secs_f64();
    // It may have been slow: whoever has rested begins so.
    let stated_khz = host.read(FREQUENCY).ok().flatten();
    let stated_khz = stated_khz.and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0);
    Ok(((counted.max(1e3 * stated_khz) / f64::from(hertz.max(1))) as u64).max(1))
}

/// The CPU time of this thread.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::super::rings::Profiler;
    use super::*;

    /// What may be opened, and what was tried.
    struct Made {
        cycles: [Option<NoCycles>; 2],
        software: [Option<Unprofiled>; 2],
        tried: Vec<(&'static str, bool)>,
    }

    impl Opener for Made {
        type Opened = bool;

        fn by_cycles(&mut self, is_user_only: bool) -> Result<bool, NoCycles> {
            self.tried.push(("cycles", is_user_only));
            self.cycles[usize::from(is_user_only)].map_or(Ok(is_user_only), Err)
        }

        fn by_software(&mut self, is_user_only: bool) -> Result<bool, Unprofiled> {
            self.tried.push(("software", is_user_only));
            self.software[usize::from(is_user_only)].map_or(Ok(is_user_only), Err)
        }
    }

    #[test]
    fn cycles_come_first_but_the_kernel_is_worth_more() {
        const MISSING: Option<NoCycles> = Some(NoCycles::Missing);
        const SECRET: Option<NoCycles> = Some(NoCycles::NotPermitted);
        const FORBIDDEN: Option<Unprofiled> = Some(Unprofiled::NotPermitted);
        let software = |why: Option<NoCycles>| Clock::Software(why.unwrap());
        for (cycles, of_software, expected) in [
            ([None, None], [None, None], Ok((false, Clock::Cycles))),
            ([MISSING, None], [None, None], Ok((false, software(MISSING)))),
            (
                [Some(NoCycles::Silent); 2],
                [None; 2],
                Ok((false, Clock::Software(NoCycles::Silent))),
            ),
            // At kernel.perf_event_paranoid=2, with a counter and without.
            ([SECRET, None], [FORBIDDEN, None], Ok((true, Clock::Cycles))),
            ([MISSING, MISSING], [FORBIDDEN, None], Ok((true, software(MISSING)))),
            ([SECRET, SECRET], [FORBIDDEN, FORBIDDEN], Err(Unprofiled::NotPermitted)),
            // Where there is no room, or nothing at all, the user's code alone is no remedy.
            ([MISSING; 2], [Some(Unprofiled::NoRoom), None], Err(Unprofiled::NoRoom)),
            ([MISSING; 2], [Some(Unprofiled::Unsupported), None], Err(Unprofiled::Unsupported)),
        ] {
            let mut made = Made { cycles, software: of_software, tried: Vec::new() };
            assert_eq!(open(&mut made), expected, "{:?}", made.tried);
            let in_order =
                [("cycles", false), ("software", false), ("cycles", true), ("software", true)];
            assert!(in_order.starts_with(&made.tried), "{:?}", made.tried);
        }
    }

    #[test]
    fn what_the_kernel_says_is_a_reason_or_another() {
        for (errno, expected) in [
            (1, NoCycles::NotPermitted),
            (13, NoCycles::NotPermitted),
            (2, NoCycles::Missing),
            (16, NoCycles::Missing),
            (19, NoCycles::Missing),
            (22, NoCycles::Missing),
            (95, NoCycles::Missing),
            (12, NoCycles::NoRoom),
            (24, NoCycles::NoRoom),
        ] {
            let error = std::io::Error::from_raw_os_error(errno);
            assert_eq!(NoCycles::from(unprofiled(&error)), expected, "{errno}");
        }
    }

    #[test]
    fn where_no_processors_counters_are_shown_the_software_clock_looks() {
        let host = Host::live();
        let profiler = match Profiler::open(&host, &"0".parse().unwrap(), 99) {
            Ok(profiler) => profiler,
            Err(why) => return println!("skipped: {why}"),
        };
        let shown = std::fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten();
        let mut names = shown.flatten().map(|of| of.file_name().to_string_lossy().into_owned());
        let has_pmu = names.any(|name| name.starts_with("cpu") || name.contains("pmu"));
        println!("{}; a PMU: {has_pmu}", profiler.clock());
        assert!(has_pmu || profiler.clock() == Clock::Software(NoCycles::Missing));
    }

    #[test]
    fn cycles_between_looks_are_fewer_the_more_looks_there_are() {
        let [few, many] = [100, 1000].map(|hertz| cycles_between(&Host::live(), hertz));
        match (few, many) {
            // No processor is that slow, nor that fast.
            (Ok(few), Ok(many)) => {
                assert!((1_000_000..100_000_000).contains(&few), "{few}");
                assert!(many < few, "{many} and {few}");
            }
            (few, many) => println!("no cycles here: {few:?}, {many:?}"),
        }
    }
}
