//! How many threads each copy keeps active, which is what T of the decision tree counts: the time that its threads ran, or waited for
//! a CPU, by the time that passed. How many threads a server has says nothing of that: most wait for a client.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use quartier_model::Nanos;
use quartier_observe::{Host, ThreadTimes};

use super::sockets::Processes;

/// All threads are looked through once a second, or as rarely as it takes for that to be a part in so many of one CPU.
const EVERY: Duration = Duration::from_secs(1);
const PART: u32 = 300;

const NOT_COUNTED: &str = "the copies' threads are not counted in T of the decision tree, so `quartier run` goes by U alone where they \
                           are: this kernel does not count how long threads run; one with CONFIG_SCHED_INFO does, as Debian's";

/// What a copy keeps active.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Active {
    /// So many threads at any one moment.
    pub threads: f64,
    /// Threads that were for half of the time or more, each by itself: quartierd, where it counts, counts these.
    pub nr_by_themselves: usize,
}

/// Times of threads, by their numbers.
type Times = BTreeMap<u32, ThreadTimes>;

/// Differences need what was before.
#[derive(Debug)]
pub struct Actives {
    may_count: bool,
    next: Option<Instant>,
    looked: Option<Instant>,
    /// By copy.
    before: Vec<Times>,
    /// What all of its threads did so far, by copy: those too that have ended, but for what they did after the last look.
    totals: Vec<ThreadTimes>,
}

impl Actives {
    pub fn new(host: &Host) -> Self {
        // So that what this thread ran is added up.
        std::thread::yield_now();
        let own = std::process::id();
        let own = host.thread_times(own, own).ok().flatten();
        let may_count = own.is_some_and(|times| times.ran > Nanos(0));
        Self { may_count, next: None, looked: None, before: Vec::new(), totals: Vec::new() }
    }

    /// Why nothing is counted, if nothing is.
    pub fn why_not(&self) -> Option<&'static str> {
        (!self.may_count).then_some(NOT_COUNTED)
    }

    /// What each copy kept active since the last time; `None`: it is not time yet, or there is nothing to compare with.
    pub fn look(&mut self, host: &Host, processes: &[Processes]) -> Option<Vec<Active>> {
        let began = Instant::now();
        if !self.may_count || self.next.is_some_and(|next| began < next) {
            return None;
        }
        let window = self.looked.replace(began).map(|looked| began - looked);
        self.before.resize(processes.len(), Times::new());
        self.totals.resize(processes.len(), ThreadTimes::default());
        let mut all = Vec::new();
        for (at, processes) in processes.iter().enumerate() {
            let now = times(host, processes);
            let gained = gained(&self.before[at], &now);
            all.push(active(&gained, window.unwrap_or_default()));
            gained.iter().for_each(|gained| add(&mut self.totals[at], *gained));
            self.before[at] = now;
        }
        self.next = Some(began + EVERY.max(PART * began.elapsed()));
        window.map(|_| all)
    }

    /// How long the threads of a copy ran, and waited for a CPU, since this began; `None`: nobody counts.
    pub fn total(&self, copy: usize) -> Option<ThreadTimes> {
        self.totals.get(copy).copied().filter(|_| self.may_count)
    }
}

/// Of all threads of a copy's processes.
fn times(host: &Host, processes: &Processes) -> Times {
    let mut all = Times::new();
    for pid in processes {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        all.extend(ids.filter_map(|tid| Some((tid, host.thread_times(*pid, tid).ok()??))));
    }
    all
}

/// What each thread did in between.
fn gained(before: &Times, now: &Times) -> Vec<ThreadTimes> {
    let since = |(tid, now): (&u32, &ThreadTimes)| {
        let before = before.get(tid).copied().unwrap_or_default();
        let ran = now.ran.0.checked_sub(before.ran.0).map(Nanos);
        let waited = now.waited.0.checked_sub(before.waited.0).map(Nanos);
        // A number may be another thread's by now, which has done less.
        ran.zip(waited).map_or(*now, |(ran, waited)| ThreadTimes { ran, waited })
    };
    now.iter().map(since).collect()
}

fn add(total: &mut ThreadTimes, more: ThreadTimes) {
    total.ran.0 = total.ran.0.saturating_add(more.ran.0);
    total.waited.0 = total.waited.0.saturating_add(more.waited.0);
}

fn active(gained: &[ThreadTimes], window: Duration) -> Active {
    if window.is_zero() {
        return Active::default();
    }
    let part = |gained: &ThreadTimes| {
        let since = gained.ran.0.saturating_add(gained.waited.0);
        (since as f64 / window.as_nanos() as f64).min(1.0)
    };
    let parts: Vec<f64> = gained.iter().map(part).collect();
    let nr_by_themselves = parts.iter().filter(|part| **part >= 0.5).count();
    Active { threads: parts.iter().sum(), nr_by_themselves }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn times_of(all: &[(u32, u64, u64)]) -> Times {
        let times = |ran, waited| ThreadTimes { ran: Nanos(ran), waited: Nanos(waited) };
        all.iter().map(|(tid, ran, waited)| (*tid, times(*ran, *waited))).collect()
    }

    fn active_between(before: &Times, now: &Times, window: Duration) -> Active {
        active(&gained(before, now), window)
    }

    #[test]
    fn what_many_did_now_and_then_adds_up_and_nobody_did_more_than_there_was_time() {
        let window = Duration::from_nanos(1000);
        // 200 that ran for a hundredth of the time.
        let before: Vec<_> = (1..=200).map(|tid| (tid, 7, 5)).collect();
        let now: Vec<_> = (1..=200).map(|tid| (tid, 16, 6)).collect();
        let found = active_between(&times_of(&before), &times_of(&now), window);
        assert!((found.threads - 2.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.nr_by_themselves, 0);
        // One that waited longer than it ran, one that did all at once what it began before, and one that slept.
        let before = times_of(&[(1, 0, 0), (2, 0, 0), (3, 9, 9)]);
        let found =
            active_between(&before, &times_of(&[(1, 100, 600), (2, 5000, 0), (3, 9, 9)]), window);
        assert_eq!(found, Active { threads: 1.7, nr_by_themselves: 2 });
    }

    #[test]
    fn a_thread_that_has_just_begun_counts_whole_also_under_the_number_of_another() {
        let window = Duration::from_nanos(1000);
        let now = times_of(&[(1, 200, 100), (2, 100, 0)]);
        let found = active_between(&times_of(&[(1, 900_000, 0)]), &now, window);
        assert!((found.threads - 0.4).abs() < 1e-9, "{found:?}");
        assert_eq!(active_between(&Times::new(), &now, Duration::ZERO), Active::default());
    }

    #[test]
    fn who_computes_is_active_and_who_sleeps_is_not() {
        let host = Host::live();
        let mut actives = Actives::new(&host);
        if let Some(why) = actives.why_not() {
            return println!("skipped: {why}");
        }
        let start = |script: &str| Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut started: Vec<Child> =
            ["while :; do :; done", "exec sleep 60"].map(start).into_iter().collect();
        let processes: Vec<Processes> = started.iter().map(|child| vec![child.id()]).collect();
        // Until the second has become what it is.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(actives.look(&host, &processes), None, "there is nothing to compare with");
        assert_eq!(actives.look(&host, &processes), None, "it is not time yet");
        std::thread::sleep(Duration::from_millis(500));
        actives.next = None;
        let found = actives.look(&host, &processes).unwrap();
        for child in &mut started {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let [busy, idle] = [0, 1].map(|copy| actives.total(copy).unwrap());
        let took = |times: ThreadTimes| Duration::from_nanos(times.ran.0 + times.waited.0);
        let window = Duration::from_millis(500);
        assert!(took(busy) >= window && took(idle) < window / 2, "{busy:?} {idle:?}");
        // It has ended, and what it did stays.
        actives.next = None;
        actives.look(&host, &[Processes::new(), Processes::new()]).unwrap();
        assert_eq!(actives.total(0), Some(busy));
        assert_eq!(actives.total(2), None, "there is no such copy");
        assert!(found[0].threads >= 0.5 && found[0].nr_by_themselves == 1, "{found:?}");
        assert!(found[1].threads < 0.1 && found[1].nr_by_themselves == 0, "{found:?}");
    }
}
