//! A thread that is looked at again and again.

use std::collections::VecDeque;
use std::fs::File;

use quartier_model::{CpuId, Nanos, NodeId, PerNode, TaskId};

use super::files::Files;
use super::stat::{self, Class};
use crate::ThreadTimes;
use crate::events::{Counters, Counts, Refused};

/// A window has so many periods.
pub const PERIODS: usize = 5;

/// A thread. Of one that neither runs nor waits nothing is kept but its times.
#[derive(Debug)]
pub struct Watched {
    pub id: TaskId,
    /// When it was looked at last.
    times: ThreadTimes,
    pub busy: Option<Box<Busy>>,
}

/// A thread that ran or waited lately.
#[derive(Debug)]
pub struct Busy {
    /// Kept open while there are descriptors left.
    schedstat: Option<File>,
    /// Its times at the last looks, the newest last; one more than there are periods in a window.
    looks: VecDeque<ThreadTimes>,
    /// Where it was at the last looks at that.
    pub cpu: Option<CpuId>,
    pub class: Class,
    nodes: VecDeque<NodeId>,
    /// Looks since it did anything.
    idle_looks: usize,
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

impl Watched {
    pub fn new(id: TaskId, times: ThreadTimes) -> Self {
        Self { id, times, busy: None }
    }

    /// Looks at its times.
    pub fn look(&mut self, files: &mut Files, pid: u32, may_open: &mut usize) -> Found {
        let path = || format!("proc/{pid}/task/{}/schedstat", self.id.id);
        let open = self.busy.as_mut().and_then(|busy| {
            if busy.schedstat.is_none() && *may_open > 0 {
                busy.schedstat = files.open(&path());
                *may_open -= usize::from(busy.schedstat.is_some());
            }
            busy.schedstat.as_ref()
        });
        let text = match open {
            Some(file) => files.read_open(file),
            None => files.read(&path()),
        };
        let now = match text {
            Ok(Some(text)) => stat::times(text),
            Ok(None) => return Found::Ended,
            Err(_) => None,
        };
        // What cannot be read now may be read the next time.
        let now = now.unwrap_or(self.times);
        let did_something = now != self.times;
        self.times = now;
        self.note(did_something)
    }

    fn note(&mut self, did_something: bool) -> Found {
        if did_something && self.busy.is_none() {
            let busy = Busy {
                schedstat: None,
                looks: VecDeque::with_capacity(PERIODS + 1),
                cpu: None,
                class: Class::Fair,
                nodes: VecDeque::with_capacity(PERIODS),
                idle_looks: 0,
                counters: None,
                counted: VecDeque::with_capacity(PERIODS + 1),
            };
            self.busy = Some(Box::new(busy));
        }
        let Some(busy) = &mut self.busy else { return Found::Idle };
        busy.idle_looks = if did_something { 0 } else { busy.idle_looks + 1 };
        if busy.idle_looks > PERIODS {
            self.busy = None;
            return Found::Idle;
        }
        push(&mut busy.looks, self.times, PERIODS + 1);
        let counted = match &mut busy.counters {
            Some(Ok(counters)) => counters.read(),
            _ => None,
        };
        push(&mut busy.counted, counted, PERIODS + 1);
        Found::Busy
    }

    /// Descriptors of it that are kept open.
    pub fn nr_open(&self) -> usize {
        let Some(busy) = &self.busy else { return 0 };
        let counters = busy.counters.as_ref().and_then(|counters| counters.as_ref().ok());
        usize::from(busy.schedstat.is_some()) + counters.map_or(0, |counters| counters.nr_open())
    }

    pub fn busy_mut(&mut self) -> Option<&mut Busy> {
        self.busy.as_deref_mut()
    }

    /// Time on a CPU since it began.
    pub fn ran(&self) -> Nanos {
        self.times.ran
    }
}

impl Busy {
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
        let first = self.counted.iter().position(Option::is_some)?;
        let (before, now) = (self.counted[first]?, (*self.counted.back()?)?);
        let began = looked.get(looked.len().checked_sub(self.counted.len() - first)?)?;
        let watched = *looked.back()? - *began;
        let window = *looked.back()? - *looked.front()?;
        let in_window = |before: u64, now: u64| {
            let counted = u128::from(now.saturating_sub(before)) * u128::from(window.0);
            counted.checked_div(u128::from(watched.0))?.try_into().ok()
        };
        let misses = now.llc_misses.zip(before.llc_misses);
        Some(Counts {
            instructions: in_window(before.instructions, now.instructions)?,
            llc_misses: misses.and_then(|(now, before)| in_window(before, now)),
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
