//! What is seen of each copy, as the loop wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use quartier_decide::dqdt::Usage;
use quartier_decide::steer::{CopySeen, State};
use quartier_model::CpuOsId;
use quartier_observe::{Host, TICKS_PER_SECOND};

use super::chooser::Given;
use super::copy::{Copy, Life};
use super::places::Places;
use super::sockets::{Owned, Processes};
use crate::busy::{self, AllTimes};

/// Open connections are counted once a second, or as rarely as it takes for that to be a part in so many of one CPU:
/// those that are closed but not forgotten (`TIME_WAIT`) stand among them, tens of thousands of a busy server.
const COUNTED_EVERY: Duration = Duration::from_secs(1);
const COUNTED_PART: u32 = 300;

/// Differences need what was before.
#[derive(Debug, Default)]
pub struct Looks {
    /// When open connections are counted next.
    next_count: Option<Instant>,
    times: AllTimes,
    ticks: Vec<BTreeMap<u32, u64>>,
    arrived: Option<Vec<u64>>,
    open: Vec<Option<u32>>,
}

impl Looks {
    /// Everything about every copy since the last time.
    pub fn look(
        &mut self,
        host: &Host,
        places: &Places,
        copies: &[Copy],
        processes: &[Processes],
        owned: &[Owned],
        given: Option<&Given>,
    ) -> Vec<CopySeen> {
        let busy = self.busy(host, places);
        let arrived = self.arrived(given, copies.len());
        let began = Instant::now();
        if self.next_count.is_none_or(|next| next <= began) {
            self.open = open(host, processes, owned);
            self.next_count = Some(began + COUNTED_EVERY.max(COUNTED_PART * began.elapsed()));
        }
        self.ticks.resize(copies.len(), BTreeMap::new());
        let mut seen = Vec::new();
        for (at, copy) in copies.iter().enumerate() {
            let (is_stopped, worked_s) = self.worked(host, at, &processes[at]);
            let sockets = owned.iter().filter(|socket| socket.copy == at);
            let waiting: Vec<Option<u32>> = sockets.map(|socket| socket.waiting).collect();
            let state = match copy.life {
                Life::Up { .. } if is_stopped => State::Stopped,
                Life::Up { .. } if !waiting.is_empty() => State::Listens,
                _ => State::Gone,
            };
            seen.push(CopySeen {
                state,
                waiting: waiting
                    .iter()
                    .copied()
                    .sum::<Option<u32>>()
                    .filter(|_| !waiting.is_empty()),
                open: self.open.get(at).copied().flatten(),
                arrived: arrived.as_ref().map(|arrived| arrived[at]),
                worked_s,
                busy: busy[places.homes[at]],
                // Of these the decision tree knows.
                usage: None,
                others: None,
            });
        }
        seen
    }

    /// The part of the time that the CPUs of each domain were busy.
    fn busy(&mut self, host: &Host, places: &Places) -> Vec<Option<f64>> {
        let now = host.cpu_times().unwrap_or_default();
        let before = std::mem::replace(&mut self.times, now);
        let usage = |cpu| busy::usage(&before, &self.times, CpuOsId(cpu));
        let of_domain = |cpus: &quartier_model::CpuList| {
            let known: Vec<f64> = cpus.iter().filter_map(usage).map(part).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        places.domains.iter().map(|domain| of_domain(&domain.allowed)).collect()
    }

    fn arrived(&mut self, given: Option<&Given>, nr_copies: usize) -> Option<Vec<u64>> {
        let given = given?;
        let of_copy =
            |copy: usize| given.new.iter().map(|row| row[copy]).sum::<u64>() + given.moved[copy];
        let now: Vec<u64> = (0..nr_copies).map(of_copy).collect();
        let before = self.arrived.replace(now.clone())?;
        Some(now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect())
    }

    /// Whether all of a copy's processes are stopped, and the CPU time that they used.
    fn worked(&mut self, host: &Host, copy: usize, processes: &Processes) -> (bool, Option<f64>) {
        let known: Vec<_> = processes.iter().filter_map(|pid| host.server_process(*pid)).collect();
        let now: BTreeMap<u32, u64> = known.iter().map(|it| (it.pid, it.cpu_ticks)).collect();
        let before = std::mem::replace(&mut self.ticks[copy], now);
        let used = |(pid, ticks): (&u32, &u64)| Some(ticks.saturating_sub(*before.get(pid)?));
        let used: Vec<u64> = self.ticks[copy].iter().filter_map(used).collect();
        let worked_s =
            (!used.is_empty()).then(|| used.iter().sum::<u64>() as f64 / TICKS_PER_SECOND);
        let is_stopped = !known.is_empty() && known.iter().all(|process| process.is_stopped);
        (is_stopped, worked_s)
    }
}

/// From 0 to 1.
pub fn part(usage: Usage) -> f64 {
    f64::from(usage.scaled()) / f64::from(Usage::FULL.scaled())
}

/// Connections of each copy that are open; unknown where there are too many to look through.
fn open(host: &Host, processes: &[Processes], owned: &[Owned]) -> Vec<Option<u32>> {
    let ports: BTreeSet<u16> = owned.iter().map(|socket| socket.listening.address.port()).collect();
    let connections = host.connections(std::process::id(), &ports).ok().flatten();
    let Some(connections) = connections else { return vec![None; processes.len()] };
    let of_copy = |processes: &Processes| {
        let all = processes.iter().flat_map(|pid| host.sockets_of(*pid));
        let open: BTreeSet<u64> =
            all.map(|(inode, _)| inode).filter(|inode| connections.contains(inode)).collect();
        Some(open.len() as u32)
    };
    processes.iter().map(of_copy).collect()
}
