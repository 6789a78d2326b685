//! A thread that is looked at again and again.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use quartier_model::{CpuId, FaultsSeen, Nanos, NodeId, PerNode, TaskId};

use super::files::Files;
use super::stat::{self, Class, Faults, Stat};
use crate::ThreadTimes;
use crate::events::{Counters, Counts, Refused};

/// A window has so many periods.
pub const PERIODS: usize = 5;
/// Who ran and waited for less than this part of a window does next to nothing.
const SLIGHT_PART: u64 = 100;

/// How long the window is that these looks are of.
pub fn window(looked: &VecDeque<Nanos>) -> Nanos {
    match (looked.front(), looked.back()) {
        (Some(first), Some(last)) => *last - *first,
        _ => Nanos(0),
    }
}

/// A thread that neither runs nor waits: nothing is kept of it but its times.
#[derive(Clone, Copy, Debug)]
pub struct Asleep {
    pub id: TaskId,
    /// When it was looked at last.
    times: ThreadTimes,
}

/// A thread that ran or waited lately.
#[derive(Debug)]
pub struct Busy {
    pub id: TaskId,
    /// Kept open while there are descriptors left.
    schedstat: Option<File>,
    stat: Option<File>,
    /// Its times at the last looks, the newest last; one more than there are periods in a window.
    looks: VecDeque<ThreadTimes>,
    /// When it was looked at last.
    times: ThreadTimes,
    /// Where it was at the last looks at that.
    pub cpu: Option<CpuId>,
    pub class: Class,
    nodes: VecDeque<NodeId>,
    /// Its page faults when these were looked at last,
    faulted: Option<(Nanos, Faults)>,
    /// and how many there were between the last two looks.
    pub faults: Option<FaultsSeen>,
    /// Periods since it was seen to do anything.
    idle_looks: usize,
    /// In this period it was taken to do nothing, and not looked at.
    is_skipped: bool,
    /// What counts it, or that it cannot be counted; `None`: that was not tried yet.
    pub counters: Option<Result<Box<dyn Counters>, Refused>>,
    /// What was counted at the last looks, as many as of its times.
    counted: VecDeque<Option<Counts>>,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Ended,
    Idle,
    Busy,
}

fn schedstat(pid: u32, id: TaskId) -> String {
    format!("proc/{pid}/task/{}/schedstat", id.id)
}

/// Takes what was read of a thread's times; `None`: it has ended. Says whether they have changed.
fn is_changed(times: &mut ThreadTimes, text: io::Result<Option<&[u8]>>) -> Option<bool> {
    let now = match text {
        Ok(Some(text)) => stat::times(text),
        Ok(None) => return None,
        Err(_) => None,
    };
    // What cannot be read now may be read the next time.
    let now = now.unwrap_or(*times);
    Some(std::mem::replace(times, now) != now)
}

impl Asleep {
    pub fn new(id: TaskId, times: ThreadTimes) -> Self {
        Self { id, times }
    }

    /// Looks whether it still sleeps.
    pub fn look(&mut self, files: &mut Files, pid: u32) -> Found {
        match is_changed(&mut self.times, files.read(&schedstat(pid, self.id))) {
            None => Found::Ended,
            Some(false) => Found::Idle,
            Some(true) => Found::Busy,
        }
    }
}

impl Busy {
    /// One that was asleep and did something.
    pub fn woken(Asleep { id, times }: Asleep) -> Self {
        let mut woken = Self {
            id,
            schedstat: None,
            stat: None,
            looks: VecDeque::with_capacity(PERIODS + 1),
            times,
            cpu: None,
            class: Class::Fair,
            nodes: VecDeque::with_capacity(PERIODS),
            faulted: None,
            faults: None,
            idle_looks: 0,
            is_skipped: false,
            counters: None,
            counted: VecDeque::with_capacity(PERIODS + 1),
        };
        woken.note(true);
        woken
    }

    /// It does nothing any more.
    pub fn asleep(&self) -> Asleep {
        Asleep { id: self.id, times: self.times }
    }

    /// Whether a look in each window is enough for it. Before it is taken to sleep it is looked at.
    pub fn is_slight(&self, window: Nanos) -> bool {
        let (Some(first), Some(last)) = (self.looks.front(), self.looks.back()) else {
            return false;
        };
        let did = (last.ran - first.ran) + (last.waited - first.waited);
        let was_watched = self.looks.len() > PERIODS && self.idle_looks < PERIODS;
        was_watched && did.0 < window.0 / SLIGHT_PART
    }

    /// Takes its times to be as they were. What it did meanwhile is seen at the next look.
    pub fn skip(&mut self) -> Found {
        self.is_skipped = true;
        self.note(false)
    }

    /// Looks after all, if it was skipped in this period.
    pub fn catch_up(&mut self, files: &mut Files, pid: u32, may_open: &mut usize) -> Found {
        if !self.is_skipped {
            return Found::Busy;
        }
        self.looks.pop_back();
        self.counted.pop_back();
        self.look(files, pid, may_open)
    }

    /// Looks at its times.
    pub fn look(&mut self, files: &mut Files, pid: u32, may_open: &mut usize) -> Found {
        self.is_skipped = false;
        let path = || schedstat(pid, self.id);
        if self.schedstat.is_none() && *may_open > 0 {
            self.schedstat = files.open(&path());
            *may_open -= usize::from(self.schedstat.is_some());
        }
        let text = match &self.schedstat {
            Some(file) => files.read_open(file),
            None => files.read(&path()),
        };
        match is_changed(&mut self.times, text) {
            None => Found::Ended,
            Some(did_something) => self.note(did_something),
        }
    }

    /// Looks at its `stat`; `None`: it has ended, or that cannot be read.
    pub fn read_stat<'a>(
        &mut self,
        files: &'a mut Files,
        pid: u32,
        may_open: &mut usize,
    ) -> Option<Stat<'a>> {
        let path = || format!("proc/{pid}/task/{}/stat", self.id.id);
        // Its times come first.
        if self.stat.is_none() && self.is_open() && *may_open > 0 {
            self.stat = files.open(&path());
            *may_open -= usize::from(self.stat.is_some());
        }
        let text = match &self.stat {
            Some(file) => files.read_open(file),
            None => files.read(&path()),
        };
        Stat::parse(text.ok()??)
    }

    fn note(&mut self, did_something: bool) -> Found {
        self.idle_looks = if did_something { 0 } else { self.idle_looks + 1 };
        if self.idle_looks > PERIODS {
            return Found::Idle;
        }
        push(&mut self.looks, self.times, PERIODS + 1);
        let counted = match &mut self.counters {
            _ if self.is_skipped => self.counted.back().copied().flatten(),
            Some(Ok(counters)) => counters.read(),
            _ => None,
        };
        push(&mut self.counted, counted, PERIODS + 1);
        Found::Busy
    }

    /// Descriptors of it that are kept open.
    pub fn nr_open(&self) -> usize {
        let counters = self.counters.as_ref().and_then(|counters| counters.as_ref().ok());
        let files = [&self.schedstat, &self.stat].into_iter().flatten().count();
        files + counters.map_or(0, |counters| counters.nr_open())
    }

    /// Time on a CPU since it began.
    pub fn ran(&self) -> Nanos {
        self.times.ran
    }

    /// How long it ran and waited within the window that these looks are of. One that was not looked at all
    /// the time is taken to have done the same before; `None`: it was looked at once.
    pub fn in_window(&self, looked: &VecDeque<Nanos>) -> Option<ThreadTimes> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let began = looked.get(looked.len().checked_sub(self.looks.len())?)?;
        let watched = *looked.back()? - *began;
        let window = *looked.back()? - *looked.front()?;
        let in_window = |time: Nanos| {
            let nanos = u128::from(time.0) * u128::from(window.0) / u128::from(watched.0.max(1));
            Nanos(nanos.try_into().unwrap_or(u64::MAX))
        };
        let (ran, waited) = (last.ran - first.ran, last.waited - first.waited);
        let times = ThreadTimes { ran: in_window(ran), waited: in_window(waited) };
        (watched > Nanos(0)).then_some(times)
    }

    /// What it did within the same window, likewise; `None`: it was not counted.
    pub fn counted_in_window(&self, looked: &VecDeque<Nanos>) -> Option<Counts> {
        self.counters.as_ref()?.as_ref().ok()?;
        let first = self.counted.iter().position(Option::is_some)?;
        let (before, now) = (self.counted[first]?, (*self.counted.back()?)?);
        let began = looked.get(looked.len().checked_sub(self.counted.len() - first)?)?;
        let watched = *looked.back()? - *began;
        let window = *looked.back()? - *looked.front()?;
        let in_window = |before: u64, now: u64| {
            let counted = u128::from(now.saturating_sub(before)) * u128::from(window.0);
            counted.checked_div(u128::from(watched.0))?.try_into().ok()
        };
        let both = |before: Option<u64>, now: Option<u64>| in_window(before?, now?);
        Some(Counts {
            instructions: in_window(before.instructions, now.instructions)?,
            llc_misses: both(before.llc_misses, now.llc_misses),
            cycles: both(before.cycles, now.cycles),
            remote_reads: both(before.remote_reads, now.remote_reads),
        })
    }

    /// Whether the file of its times is kept open.
    pub fn is_open(&self) -> bool {
        self.schedstat.is_some()
    }

    /// It was seen on a CPU of a node.
    pub fn was_on(&mut self, cpu: CpuId, node: Option<NodeId>) {
        self.cpu = Some(cpu);
        if let Some(node) = node {
            push(&mut self.nodes, node, PERIODS);
        }
    }

    /// So many page faults it has had until now.
    pub fn has_faulted(&mut self, at: Nanos, now: Faults) {
        let before = self.faulted.replace((at, now));
        let since = |(then, before): (Nanos, Faults)| FaultsSeen {
            minor: now.minor.saturating_sub(before.minor),
            major: now.major.saturating_sub(before.major),
            over: at - then,
        };
        // Two looks at one moment say nothing more.
        self.faults = before.map(since).filter(|seen| seen.over > Nanos(0)).or(self.faults);
    }

    /// Whether it is not known yet where it runs.
    pub fn is_new(&self) -> bool {
        self.nodes.len() < PERIODS
    }

    pub fn found_on(&self) -> PerNode {
        let mut found = PerNode::new();
        for node in &self.nodes {
            *found.entry(*node).or_default() += 1;
        }
        found
    }
}

/// Adds one, and leaves so many of the newest.
fn push<T>(queue: &mut VecDeque<T>, newest: T, most: usize) {
    queue.push_back(newest);
    while queue.len() > most {
        queue.pop_front();
    }
}
