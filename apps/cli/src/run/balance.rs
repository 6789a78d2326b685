//! Threads that wait while CPUs elsewhere are idle (thesis 4.3.4): the launcher looks at the run's threads
//! (observe), wishes some away and asks the tree where to (decide), and holds them there (act).

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use quartier_act::{Hold, is_gone};
use quartier_decide::dqdt::{Allowed, Ledger, Process, RecordId, Refresher, Resources, Usage};
use quartier_decide::policy::{self, Balance};
use quartier_decide::{Balancer, Seen, Wish};
use quartier_model::{CpuId, CpuList, Machine, Nanos, NodeId, NodeOsId};
use quartier_observe::{Host, own_cpu_time};
use quartier_session::{
    Counter, CpuBits, ProcessSlot, Seat, Session, Sitting, SlotState, own_pid_namespace,
};
use quartier_shared::Member;

use crate::busy::{self, AllTimes};

/// A CPU that is busier than this takes nobody over: two threads on it would both wait.
const BUSY_PERCENT_MAX: u32 = 50;

/// Looking takes one hundredth of one CPU's time at most,
const TIMES_A_LOOK: u32 = 100;
/// but comes after so many periods even where threads are so many that it takes more.
const PERIODS_MAX: u32 = 10;

/// Looks at the threads of a run until it ends.
pub fn watch(
    machine: &Machine,
    tree: &Member,
    period: Duration,
    session: &Session,
    ended: &Receiver<()>,
) {
    let mut watch = Watch {
        host: Host::live(),
        machine,
        tree,
        session,
        balancer: Balancer::new(),
        looked: Instant::now(),
        cpu_times: None,
        pid_namespace: own_pid_namespace(),
        tid: rustix::thread::gettid().as_raw_nonzero().get() as u32,
    };
    let mut wait = period;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let began = own_cpu_time();
        watch.look();
        let took = own_cpu_time().saturating_sub(began);
        wait = period.max(took * TIMES_A_LOOK).min(period * PERIODS_MAX);
    }
}

struct Watch<'a> {
    host: Host,
    machine: &'a Machine,
    tree: &'a Member,
    session: &'a Session,
    balancer: Balancer,
    looked: Instant,
    /// At the last look, if anybody waited then.
    cpu_times: Option<AllTimes>,
    /// 0: unknown.
    pid_namespace: u32,
    /// The thread that looks.
    tid: u32,
}

/// A thread that something is to become of.
struct Subject<'a> {
    seat: &'a Seat,
    sitting: Sitting,
    process: &'a ProcessSlot,
    /// Where it is.
    cpu: CpuId,
    /// What its user allows it.
    base: CpuBits,
}

impl<'a> Watch<'a> {
    fn look(&mut self) {
        let elapsed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        let elapsed = Nanos(elapsed.as_nanos().try_into().unwrap_or(u64::MAX));
        let seen: Vec<_> =
            self.session.seats().filter_map(|(at, seat)| self.see(at, seat)).collect();
        let wishes = self.balancer.look(elapsed, seen);
        let usage = self.usage();
        let mut given = CpuBits::EMPTY;
        for wish in wishes {
            match (wish, &usage) {
                (Wish::Settle(id), _) => self.settle(id),
                (Wish::Leave(id), Some(usage)) => {
                    if let Some(cpu) = self.take_elsewhere(id, usage, &given) {
                        given.insert(cpu);
                        self.balancer.moved(id);
                    }
                }
                (Wish::Leave(_), None) => {}
            }
        }
    }

    /// A thread that we place.
    fn see(&self, at: usize, seat: &Seat) -> Option<Seen> {
        let sitting = seat.sitting()?;
        let process = self.process(&sitting)?;
        let Some(times) = self.host.thread_times(process.pid(), sitting.tid).ok()? else {
            if is_gone(sitting.tid) {
                self.forget(seat, &sitting);
            }
            return None;
        };
        let is_held = seat.placed()?.node_os_id.is_some();
        // Whoever has the seat next is another thread.
        let id = (at as u64) << 32 | u64::from(sitting.tid);
        Some(Seen { id, is_held, ran: times.ran, waited: times.waited })
    }

    /// The process of a thread, if its ids mean the same to us.
    fn process(&self, sitting: &Sitting) -> Option<&'a ProcessSlot> {
        let slot = self.session.find_slot(sitting.process)?;
        let is_ours = self.pid_namespace != 0 && slot.pid_namespace() == self.pid_namespace;
        (is_ours && slot.state() == SlotState::Running).then_some(slot)
    }

    /// The seat of a thread that ended without a word (killed, or in the middle of a program that calls
    /// another) is free again, and the thread not counted any more.
    fn forget(&self, seat: &Seat, sitting: &Sitting) {
        let record = seat.forget(sitting, self.tid);
        let books = self.process(sitting).and_then(|process| self.books(process));
        if let (Some((ledger, me, of)), Some(record)) = (books, record) {
            ledger.release_of(me, of, RecordId(record));
        }
    }

    /// The tree's ledger, with us and a process of the run in it.
    fn books(&self, process: &ProcessSlot) -> Option<(Ledger<'a>, Process, Process)> {
        let of = Process::from_word(process.ledger_process()?)?;
        Some((self.tree.shared().ledger()?, self.tree.process()?, of))
    }

    /// Which CPUs were at most half used since the last look, if anybody waited at both: those have U = 0, all others
    /// U = 100.
    fn usage(&mut self) -> Option<Box<[Resources]>> {
        let now = self.balancer.anybody_waits().then(|| self.host.cpu_times().ok()).flatten();
        let before = std::mem::replace(&mut self.cpu_times, now);
        let (before, now) = (before?, self.cpu_times.as_ref()?);
        let shared = self.tree.shared();
        let resources = shared.tree().new_resources();
        let one_tick = NonZeroU32::MIN;
        let refresher = Refresher::new(shared.estimates(), &resources, one_tick).ok()?;
        let usage = |cpu| {
            let usage = busy::usage(&before, now, shared.tree().cpu_os_id(cpu))?;
            let is_free = usage <= Usage::from_percent(BUSY_PERCENT_MAX);
            Some(if is_free { Usage::IDLE } else { Usage::FULL })
        };
        refresher.tick(usage, |_| None);
        Some(resources)
    }

    /// Holds a thread on the node where it is.
    fn settle(&self, id: u64) {
        let Some(subject) = self.subject(id) else { return };
        if let Some(node) = self.machine.cpus()[subject.cpu.index()].node
            && self.hold(&subject, &subject.base, subject.cpu, node)
        {
            subject.process.add(Counter::ThreadsSettled, 1);
        }
    }

    /// Holds a thread on another node where a CPU is idle, if there is one that was not `given` to another thread just
    /// now; gives that CPU's OS id.
    fn take_elsewhere(&self, id: u64, usage: &[Resources], given: &CpuBits) -> Option<u32> {
        let subject = self.subject(id)?;
        let from = self.machine.node_by_os_id(NodeOsId(subject.sitting.node_os_id?))?;
        let from_cpus = self.cpus_of(from);
        let isolated = self.session.config().isolated;
        let may = |cpu: &u32| !from_cpus.contains(*cpu) && !given.contains(*cpu);
        let elsewhere: CpuList = subject.base.without(&isolated).iter().filter(may).collect();
        let shared = self.tree.shared();
        let allowed = Allowed::from_os_ids(shared.tree(), &elsewhere);
        let estimates = shared.estimates().with_resources(usage).ok()?;
        let request = Balance { initiator: subject.cpu, allowed: &allowed };
        let found = policy::decide(&estimates, &request)?;
        let from_mask = from_cpus.intersection(&subject.base);
        if !self.hold(&subject, &from_mask, found.cpu, found.node?) {
            return None;
        }
        subject.process.add(Counter::ThreadMoves, 1);
        self.report(&subject.sitting, from, found.node?);
        Some(shared.tree().cpu_os_id(found.cpu).0)
    }

    fn subject(&self, id: u64) -> Option<Subject<'a>> {
        let (_, seat) = self.session.seats().nth((id >> 32) as usize)?;
        let sitting = seat.placed().filter(|sitting| u64::from(sitting.tid) == id & 0xffff_ffff)?;
        let process = self.process(&sitting)?;
        let os_id = self.host.thread_cpu(process.pid(), sitting.tid).ok()??;
        let cpu = self.machine.cpu_by_os_id(os_id)?;
        Some(Subject { seat, sitting, process, cpu, base: process.base() })
    }

    fn hold(&self, subject: &Subject<'_>, from: &CpuBits, cpu: CpuId, node: NodeId) -> bool {
        let to = &self.cpus_of(node).intersection(&subject.base);
        let node_os_id = self.machine.nodes()[node.index()].os_id.0;
        let hold = Hold { sitting: subject.sitting, from, to, node_os_id };
        hold.apply(subject.seat, self.tid, |record| self.recount(subject.process, record?, cpu))
    }

    /// Counts a thread on this CPU instead; as before where that cannot be.
    fn recount(&self, process: &ProcessSlot, record: u32, cpu: CpuId) -> Option<u32> {
        let recounted = self
            .books(process)
            .and_then(|(ledger, me, of)| ledger.recount(me, of, RecordId(record), cpu));
        Some(recounted.map_or(record, |RecordId(new)| new))
    }

    fn report(&self, sitting: &Sitting, from: NodeId, to: NodeId) {
        let threads = self.session.threads_per_node(sitting.process);
        // A first thread that began where another was already is not in it.
        let less = |count: u64| count.checked_sub(1);
        let was = threads[from.index()].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if was.is_ok() {
            threads[to.index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cpus_of(&self, node: NodeId) -> CpuBits {
        self.machine.node_cpu_list(node).iter().collect()
    }
}
