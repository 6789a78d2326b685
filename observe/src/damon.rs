//! How much of its memory a process uses: DAMON, the kernel's data access monitor, through its files in sysfs
//! (Documentation/admin-guide/mm/damon/usage.rst; `tried_regions/total_bytes` is there since Linux 6.6).
//!
//! There is one such place for the whole machine. Where somebody else uses it, it is left alone; what an earlier one of
//! ours left behind is known by an interval that nobody else would set.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use quartier_model::{Bytes, TaskId, WorkingSets};

const ADMIN: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// Linux 6.17 and newer may keep statistics of its own, beside which nobody else can watch anything.
const STATISTICS: &str = "sys/module/damon_stat/parameters/enabled";
const REGIONS: &str = "0/contexts/0/schemes/0/tried_regions";
const TOTAL: &str = "0/contexts/0/schemes/0/tried_regions/total_bytes";
/// So often a region is checked in an aggregation.
const CHECKS: u64 = 50;
/// A page of each region is looked at this often, and what was seen counts together for so long.
const SAMPLE_US: &str = "20000";
const AGGREGATION_US: &str = "1000000";
/// Mappings are looked at again this often: our mark, too.
const UPDATE_US: &str = "1000003";
const REGIONS_MIN: &str = "10";
const REGIONS_MAX: &str = "100";
/// Until regions have come to follow what is used.
const WATCHES: Duration = Duration::from_secs(8);

/// Why it is not known how much a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatched {
    /// The process has ended.
    Ended,
    /// No use of anything was seen: it slept, or the CPUs kept all translations it needs.
    Unseen,
    /// The kernel has no DAMON, or one before Linux 6.6.
    Unsupported,
    /// Only root may.
    NotPermitted,
    /// Somebody else uses it.
    InUse,
    /// The kernel does, for statistics of its own.
    Statistics,
}

impl Unwatched {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Unsupported,
            ErrorKind::PermissionDenied => Self::NotPermitted,
            ErrorKind::ResourceBusy => Self::InUse,
            _ => Self::Ended,
        }
    }

    /// What it says about all processes; `None`: nothing.
    #[must_use]
    pub fn state(self) -> Option<WorkingSets> {
        match self {
            Self::Ended | Self::Unseen => None,
            Self::Unsupported => Some(WorkingSets::Unsupported),
            Self::NotPermitted => Some(WorkingSets::NotPermitted),
            Self::InUse => Some(WorkingSets::InUse),
            Self::Statistics => Some(WorkingSets::Statistics),
        }
    }
}

/// What was found out about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub process: TaskId,
    /// In the last second.
    pub used: Result<Used, Unwatched>,
}

/// What was used of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes of regions in which anything was.
    pub bytes: Bytes,
    /// Of the checks of these (a page of each, every 20 ms), by their bytes, so many in 1,000 found it accessed; `None`: regions were
    /// not told one by one.
    pub accessed_per_mille: Option<u32>,
}

/// Watches one process after the other, in a thread of its own: the kernel answers no sooner than after an aggregation.
#[derive(Debug)]
pub struct Watcher {
    ask: Option<Sender<TaskId>>,
    found: Receiver<Found>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Of the machine below a root.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn begin(root: &Path) -> io::Result<Self> {
        Self::begin_with(root, WATCHES)
    }

    fn begin_with(root: &Path, watches: Duration) -> io::Result<Self> {
        let kdamonds = Kdamonds::below(root);
        let (ask, asked) = channel();
        let (tell, found) = channel();
        let work = move || work(&kdamonds, watches, &asked, &tell);
        let thread = std::thread::Builder::new().name("damon".to_owned()).spawn(work)?;
        Ok(Self { ask: Some(ask), found, is_busy: false, thread: Some(thread) })
    }

    /// Whether a process is being watched.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Begins to watch a process.
    pub fn ask(&mut self, process: TaskId) {
        if let Some(ask) = &self.ask {
            self.is_busy = ask.send(process).is_ok();
        }
    }

    /// What was found out since the last time.
    pub fn take(&mut self) -> Option<Found> {
        let found = self.found.try_recv().ok()?;
        self.is_busy = false;
        Some(found)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The thread hears that nobody asks any more, and leaves nothing behind.
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(kdamonds: &Kdamonds, watches: Duration, asked: &Receiver<TaskId>, tell: &Sender<Found>) {
    while let Ok(process) = asked.recv() {
        let used = match kdamonds.begin(process.id) {
            Err(why) => Err(why),
            Ok(()) => {
                // Nobody asks again before there is an answer, so this waits, or it is to end.
                let waited = asked.recv_timeout(watches);
                let used = (waited == Err(RecvTimeoutError::Timeout)).then(|| kdamonds.used());
                kdamonds.end();
                let Some(used) = used else { break };
                used
            }
        };
        if tell.send(Found { process, used }).is_err() {
            break;
        }
    }
}

/// Stops what a killed one of ours left running; says whether there was anything.
#[must_use]
pub fn stop_left_behind(root: &Path) -> bool {
    let kdamonds = Kdamonds::below(root);
    let is_left = kdamonds.is_ours();
    if is_left {
        kdamonds.end();
    }
    is_left
}

/// The folder of DAMON's threads.
#[derive(Debug)]
struct Kdamonds {
    folder: PathBuf,
    statistics: PathBuf,
}

impl Kdamonds {
    fn below(root: &Path) -> Self {
        Self { folder: root.join(ADMIN), statistics: root.join(STATISTICS) }
    }

    fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.folder.join(name)).map(|text| text.trim().to_owned())
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(name), value)
    }

    /// Whether what is there is what we set up.
    fn is_ours(&self) -> bool {
        let update = self.read("0/contexts/0/monitoring_attrs/intervals/update_us");
        self.read("nr_kdamonds").is_ok_and(|nr| nr == "1") && update.is_ok_and(|us| us == UPDATE_US)
    }

    /// Starts watching a process.
    fn begin(&self, pid: u32) -> Result<(), Unwatched> {
        let nr = self.read("nr_kdamonds").map_err(|error| Unwatched::of(&error))?;
        if nr != "0" {
            if !self.is_ours() {
                return Err(Unwatched::InUse);
            }
            self.end();
        }
        // From here on it is ours.
        self.write("nr_kdamonds", "1").map_err(|error| Unwatched::of(&error))?;
        let begun = self.set_up_and_start(pid);
        if begun.is_err() {
            self.end();
        }
        begun
    }

    fn set_up_and_start(&self, pid: u32) -> Result<(), Unwatched> {
        self.set_up(pid).map_err(|error| Unwatched::of(&error))?;
        // A kernel before 6.6 cannot say how much.
        if !self.folder.join(TOTAL).exists() {
            return Err(Unwatched::Unsupported);
        }
        let in_use = match fs::read(&self.statistics) {
            Ok(enabled) if enabled.starts_with(b"Y") => Unwatched::Statistics,
            _ => Unwatched::InUse,
        };
        self.write("0/state", "on").map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => in_use,
            _ => Unwatched::Ended,
        })
    }

    fn set_up(&self, pid: u32) -> io::Result<()> {
        self.write("0/contexts/nr_contexts", "1")?;
        // What makes it ours comes first: whoever is killed here is known.
        for (name, value) in [
            ("monitoring_attrs/intervals/update_us", UPDATE_US),
            ("operations", "vaddr"),
            ("monitoring_attrs/intervals/sample_us", SAMPLE_US),
            ("monitoring_attrs/intervals/aggr_us", AGGREGATION_US),
            ("monitoring_attrs/nr_regions/min", REGIONS_MIN),
            ("monitoring_attrs/nr_regions/max", REGIONS_MAX),
            ("targets/nr_targets", "1"),
            ("targets/0/pid_target", &pid.to_string()),
            // Nothing is done to what is used, it is only counted.
            ("schemes/nr_schemes", "1"),
            ("schemes/0/action", "stat"),
            ("schemes/0/access_pattern/sz/min", "0"),
            ("schemes/0/access_pattern/sz/max", "18446744073709551615"),
            ("schemes/0/access_pattern/nr_accesses/min", "1"),
            ("schemes/0/access_pattern/nr_accesses/max", "4294967295"),
            ("schemes/0/access_pattern/age/min", "0"),
            ("schemes/0/access_pattern/age/max", "4294967295"),
        ] {
            self.write(&format!("0/contexts/0/{name}"), value)?;
        }
        Ok(())
    }

    /// Waits for the end of an aggregation.
    fn used(&self) -> Result<Used, Unwatched> {
        self.write("0/state", "update_schemes_tried_regions").map_err(|_| Unwatched::Ended)?;
        let total = self.read(TOTAL).map_err(|_| Unwatched::Ended)?;
        match total.parse() {
            // Whoever runs uses something.
            Ok(0) => Err(Unwatched::Unseen),
            Ok(total) => {
                let accessed_per_mille = self.accessed_per_mille();
                Ok(Used { bytes: Bytes(total), accessed_per_mille })
            }
            Err(_) => Err(Unwatched::Ended),
        }
    }

    /// How often checks of regions that were accessed at all found them accessed.
    fn accessed_per_mille(&self) -> Option<u32> {
        let number = |region: &str, name: &str| -> Option<u64> {
            self.read(&format!("{REGIONS}/{region}/{name}")).ok()?.parse().ok()
        };
        let (mut bytes, mut hits) = (0u128, 0u128);
        for entry in fs::read_dir(self.folder.join(REGIONS)).ok()? {
            let name = entry.ok()?.file_name();
            let Some(region) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
                continue;
            };
            let size = number(region, "end")?.saturating_sub(number(region, "start")?);
            bytes += u128::from(size);
            hits += u128::from(size) * u128::from(number(region, "nr_accesses")?.min(CHECKS));
        }
        let of_all = (1000 * hits).checked_div(bytes * u128::from(CHECKS))?;
        of_all.try_into().ok()
    }

    /// Leaves all as it was. What has ended by itself cannot be ended.
    fn end(&self) {
        let _ = self.write("0/state", "off");
        let _ = self.write("nr_kdamonds", "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: TaskId = TaskId { id: 42, start_ticks: 7 };
    const USED: Used = Used { bytes: Bytes(8192), accessed_per_mille: None };

    /// Files as the kernel makes them when there is one kdamond with one context, target and scheme.
    fn files(nr_kdamonds: &str, has_total: bool) -> tempfile::TempDir {
        let root = tempfile::TempDir::new().unwrap();
        let kdamonds = root.path().join(ADMIN);
        let context = kdamonds.join("0/contexts/0");
        for folder in [
            "monitoring_attrs/intervals",
            "monitoring_attrs/nr_regions",
            "targets/0",
            "schemes/0/tried_regions",
            "schemes/0/access_pattern/sz",
            "schemes/0/access_pattern/nr_accesses",
            "schemes/0/access_pattern/age",
        ] {
            fs::create_dir_all(context.join(folder)).unwrap();
        }
        fs::write(kdamonds.join("nr_kdamonds"), format!("{nr_kdamonds}\n")).unwrap();
        if has_total {
            fs::write(kdamonds.join(TOTAL), "8192\n").unwrap();
        }
        root
    }

    fn ask(root: &Path) -> Result<Used, Unwatched> {
        let mut watcher = Watcher::begin_with(root, Duration::from_millis(10)).unwrap();
        watcher.ask(PROCESS);
        assert!(watcher.is_busy());
        loop {
            if let Some(found) = watcher.take() {
                assert_eq!((found.process, watcher.is_busy()), (PROCESS, false));
                return found.used;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn read(root: &Path, name: &str) -> String {
        Kdamonds::below(root).read(name).unwrap()
    }

    #[test]
    fn a_process_is_watched_and_all_is_as_before() {
        let root = files("0", true);
        assert_eq!(ask(root.path()), Ok(USED));
        assert_eq!(read(root.path(), "0/contexts/0/targets/0/pid_target"), "42");
        assert_eq!(read(root.path(), "0/state"), "off");
        assert_eq!(read(root.path(), "nr_kdamonds"), "0");
    }

    #[test]
    fn how_often_memory_is_accessed_counts_by_its_size() {
        let root = files("0", true);
        let kdamonds = Kdamonds::below(root.path());
        // One in ten of the checks of three quarters of it, all of those of the rest.
        for (region, start, end, accesses) in [(0, 4096, 16384, 5), (1, 20480, 24576, 60)] {
            let folder = root.path().join(ADMIN).join(format!("{REGIONS}/{region}"));
            fs::create_dir_all(folder).unwrap();
            for (name, value) in [("start", start), ("end", end), ("nr_accesses", accesses)] {
                kdamonds
                    .write(&format!("{REGIONS}/{region}/{name}"), &format!("{value}\n"))
                    .unwrap();
            }
        }
        assert_eq!(ask(root.path()), Ok(Used { accessed_per_mille: Some(325), ..USED }));
        kdamonds.write(&format!("{REGIONS}/1/nr_accesses"), "").unwrap();
        assert_eq!(ask(root.path()), Ok(USED), "what is half read is unknown");
    }

    #[test]
    fn that_nothing_was_seen_is_not_that_nothing_is_used() {
        let root = files("0", true);
        Kdamonds::below(root.path()).write(TOTAL, "0\n").unwrap();
        assert_eq!(ask(root.path()), Err(Unwatched::Unseen));
        assert_eq!(Unwatched::Unseen.state(), None);
    }

    #[test]
    fn what_somebody_else_uses_is_left_alone() {
        let root = files("1", true);
        assert_eq!(ask(root.path()), Err(Unwatched::InUse));
        assert_eq!(read(root.path(), "nr_kdamonds"), "1");
        assert!(!root.path().join(ADMIN).join("0/state").exists());
        assert!(!stop_left_behind(root.path()));
    }

    #[test]
    fn what_a_killed_one_left_behind_is_taken_over_or_stopped() {
        for takes_over in [true, false] {
            let root = files("1", true);
            let kdamonds = Kdamonds::below(root.path());
            kdamonds.write("nr_kdamonds", "1").unwrap();
            kdamonds.set_up(1).unwrap();
            match takes_over {
                true => assert_eq!(ask(root.path()), Ok(USED)),
                false => assert!(stop_left_behind(root.path())),
            }
            assert_eq!(read(root.path(), "nr_kdamonds"), "0");
        }
    }

    #[test]
    fn without_it_nothing_is_known_and_nothing_written() {
        let none = tempfile::TempDir::new().unwrap();
        assert_eq!(ask(none.path()), Err(Unwatched::Unsupported));
        let old = files("0", false);
        assert_eq!(ask(old.path()), Err(Unwatched::Unsupported));
        assert_eq!(read(old.path(), "nr_kdamonds"), "0");
    }

    #[test]
    fn whoever_stops_does_not_wait_for_the_end() {
        let root = files("0", true);
        let began = std::time::Instant::now();
        let mut watcher = Watcher::begin_with(root.path(), Duration::from_secs(3600)).unwrap();
        watcher.ask(PROCESS);
        drop(watcher);
        assert!(began.elapsed() < Duration::from_secs(1800));
        assert_eq!(read(root.path(), "nr_kdamonds"), "0");
    }
}
