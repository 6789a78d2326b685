//! The process's own state: its session, its slot, what it was told to do.

use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use quartier_session::{
    Config, Counter, CpuBits, DeskRequest, ENV_NEXT_TOUCH, ENV_SESSION, Pin, Policy, ProcessSlot,
    Reason, Rung, Session, SlotState,
};

use crate::helper::{self, Marked, Orders};
use crate::share::{self, Watch};
use crate::threads::Thread;
use crate::{
    Count, Decide, Factory, affinity, device, fork, ranges, resident, seats, sys, threads,
};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Automatic marking may take at most this share of the time since the process began, so that a
/// program that starts a short-lived thread again and again does not pay for each.
const MARK_SHARE_PERCENT: u64 = 5;

/// What a process under `quartier run` knows.
#[derive(Debug)]
pub struct Runtime {
    /// The run's shared memory.
    pub session: &'static Session,
    /// Index of this process's slot; changes in a child after `fork`.
    slot: AtomicUsize,
    /// Threads of the program besides the first.
    others: AtomicUsize,
    /// Whether Auto-Next-Touch was asked for and not turned off.
    next_touch: AtomicBool,
    /// Whether a helper watches the share of the first thread.
    watching: AtomicBool,
    began_nanos: u64,
    factory: Factory,
    decide: OnceLock<Option<Box<dyn Decide>>>,
}

/// The runtime of this process, if it runs under a session.
pub fn get() -> Option<&'static Runtime> {
    RUNTIME.get()
}

/// Starts the runtime, from the library's initialiser: nothing of the program has run yet.
pub fn start(factory: Factory) {
    let Some(path) = std::env::var_os(ENV_SESSION) else { return };
    helper::prepare();
    device::remember_socket();
    // No session at all (the launcher is gone, say): run as if alone.
    let Some(session) = Session::open(Path::new(&path)).ok().or_else(ask_for_session) else {
        return;
    };
    let session: &'static Session = Box::leak(Box::new(session));
    let Some((index, slot)) = session.claim(sys::pid() as u32) else { return };
    slot.set_name(&program_name());
    // What an earlier program of this process left.
    session.free_seats_of(index, sys::tid() as u32);
    slot.set_ledger_process(None);
    let turned_off = std::env::var_os(ENV_NEXT_TOUCH).is_some_and(|value| value == "off");
    if turned_off && session.config().policy() == Policy::NextTouch {
        slot.note(Reason::TurnedOff);
    }
    restore_affinity(session, slot, factory);
    enter_first_thread();
    let runtime = Runtime {
        session,
        slot: AtomicUsize::new(index),
        others: AtomicUsize::new(0),
        next_touch: AtomicBool::new(session.config().policy() == Policy::NextTouch && !turned_off),
        watching: AtomicBool::new(false),
        began_nanos: sys::now_nanos(),
        factory,
        decide: OnceLock::new(),
    };
    if RUNTIME.set(runtime).is_ok() {
        fork::watch();
        if let Some(runtime) = get() {
            runtime.limit_share();
        }
    }
}

/// A process that has become another user may not open the session by its path; the launcher knows its
/// descendants and gives it to them.
fn ask_for_session() -> Option<Session> {
    let descriptor = device::from_launcher(DeskRequest::Session)?;
    // SAFETY: just received, and nobody else's.
    let file = unsafe { std::fs::File::from_raw_fd(descriptor) };
    Session::of(&file).ok()
}

/// Ends the runtime's account of a process that exits in order.
pub fn end() {
    let Some(runtime) = get() else { return };
    let slot = runtime.slot();
    if runtime.is_here() && slot.state() == SlotState::Running {
        resident::count(runtime);
        helper::note_lost();
        if let Some(Some(decide)) = runtime.decide.get() {
            decide.leave();
        }
        runtime.session.free_seats_of(runtime.slot_index(), sys::tid() as u32);
        slot.set_state(SlotState::Ended);
    }
}

fn program_name() -> Vec<u8> {
    std::fs::read("/proc/self/comm")
        .map(|mut name| {
            name.retain(|byte| *byte != b'\n');
            name
        })
        .unwrap_or_default()
}

/// A program started by a thread that we narrowed, or placed by the launcher, inherits the narrow mask;
/// the user's is put back before the program can read it: runtimes count their CPUs by it. A mask that
/// the program before it, or its parent, set on purpose is kept.
fn restore_affinity(session: &'static Session, slot: &ProcessSlot, factory: Factory) {
    let Ok(now) = affinity::get(0) else { return };
    let allowed = &session.config().allowed;
    if now != *allowed {
        // SAFETY: a query.
        let parent = unsafe { libc::getppid() } as u32;
        let by_parent =
            session.processes().any(|(_, other)| other.pid() == parent && other.user_affinity());
        if by_parent {
            slot.set_user_affinity();
        }
        if !slot.user_affinity() && is_ours(session, &now, factory) {
            let _ = affinity::set(0, allowed);
        }
    }
    let base = affinity::get(0).unwrap_or(now);
    affinity::set_base(base);
    slot.set_base(&base);
}

/// Whether a mask is one that we narrow threads to.
fn is_ours(session: &'static Session, mask: &CpuBits, factory: Factory) -> bool {
    let config = session.config();
    // Every run's own program starts with this one: no tree has to be opened for it.
    if *mask == config.start {
        return true;
    }
    let (Some(decide), Some(first)) = (factory(session), mask.iter().next()) else { return false };
    match (config.pin(), decide.locate(first)) {
        (Pin::Cpu, Some(_)) => mask.iter().count() == 1,
        (_, Some(place)) => {
            decide.node_cpus(place.node_index).intersection(&config.allowed) == *mask
        }
        (_, None) => false,
    }
}

fn enter_first_thread() {
    crate::create::make_key();
    let rseq = crate::create::rseq_area();
    ranges::keep_first(rseq);
    Thread::enter(sys::tid() as u32, rseq, (0, 0));
}

impl Runtime {
    /// This process's slot.
    pub fn slot(&self) -> &'static ProcessSlot {
        self.session.slot(self.slot.load(Ordering::Relaxed))
    }

    /// Its index.
    pub fn slot_index(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    /// What the launcher asked for.
    pub fn config(&self) -> &'static Config {
        self.session.config()
    }

    /// Who decides; built when first needed.
    pub fn decide(&self) -> Option<&dyn Decide> {
        let made = self.decide.get_or_init(|| {
            let decide = (self.factory)(self.session)?;
            for cpu in 0..(quartier_session::NR_CPU_WORDS as u32 * 64) {
                if let Some(place) = decide.locate(cpu) {
                    threads::set_node_of_cpu(cpu, place.node_os_id);
                }
            }
            Some(decide)
        });
        made.as_deref()
    }

    /// Whether threads are to be placed.
    pub fn places(&self) -> bool {
        self.config().pin() != Pin::None && self.config().policy() != Policy::None
    }

    /// What a helper is to do.
    pub fn orders(&self) -> Orders {
        let config = self.config();
        Orders {
            slot: self.slot(),
            nr_nodes: self.session.threads_per_node(self.slot_index()).len() as u32,
            rung_max: config.rung_max(),
            block_bytes: config.block_bytes as usize,
            block_bytes_max: config.block_bytes_max as usize,
            split_huge: config.split_huge != 0,
            always_copy: config.always_copy != 0,
            idle_ms: config.helper_idle_ms,
            tick_ms: config.tick_ms,
            remark_ms_first: config.remark_ms_first,
            remark_ms_max: config.remark_ms_max,
        }
    }

    /// Whether the caller is this process: not a child that shares its memory, nor one of a fork that
    /// nobody saw.
    pub fn is_here(&self) -> bool {
        self.slot().pid() == sys::pid() as u32
    }

    /// Whether Auto-Next-Touch was asked for and not turned off.
    pub fn moves_pages(&self) -> bool {
        self.next_touch.load(Ordering::SeqCst)
    }

    /// Whether what the process has may be marked again now: it has several threads, and moves pages.
    pub fn may_mark_again(&self) -> bool {
        self.others.load(Ordering::Acquire) > 0 && self.moves_pages()
    }

    /// A thread is about to be created; the first one makes the process parallel.
    pub fn thread_begins(&self) {
        self.slot().add(Counter::ThreadsCreated, 1);
        if self.others.fetch_add(1, Ordering::AcqRel) == 0 {
            self.becomes_parallel();
        }
    }

    /// A thread other than the first has ended, or could not be created.
    pub fn thread_ends(&self) {
        if self.others.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.becomes_sequential();
        }
    }

    /// `R_max`: while there is one thread, it fills at most its share of a node.
    fn limit_share(&self) {
        let share_percent = self.config().initial_share_percent;
        let by_policy =
            self.config().policy() == Policy::NextTouch && sys::task_policy_is_default();
        let Some(decide) = (share_percent > 0 && by_policy).then(|| self.decide()).flatten() else {
            return;
        };
        let nodes = decide.nodes_by_distance(crate::create::current_cpu());
        let watch = Watch { program: sys::pid(), share_percent, nodes };
        if share::prepare(watch) && helper::watch_share() {
            self.watching.store(true, Ordering::Release);
        }
    }

    fn becomes_parallel(&self) {
        if self.watching.swap(false, Ordering::AcqRel) {
            helper::end_watch();
        }
        let decide = self.decide();
        let me = Thread::find(sys::tid());
        if let (Some(decide), Some(me), true) = (decide, me, self.places()) {
            crate::create::hold_creator(self, decide, me);
        }
        if self.may_mark() {
            helper::mark_all(&self.orders());
        }
    }

    fn may_mark(&self) -> bool {
        let slot = self.slot();
        if !self.may_move_pages() {
            return false;
        }
        let spent = slot.get(Counter::MarkNanos);
        let lived = sys::now_nanos().saturating_sub(self.began_nanos);
        slot.get(Counter::Marks) == 0 || spent.saturating_mul(100 / MARK_SHARE_PERCENT) <= lived
    }

    /// Whether Auto-Next-Touch is on here, and the calling thread has no memory policy of its own.
    fn may_move_pages(&self) -> bool {
        if !self.moves_pages() || self.config().rung_max() == Rung::None || !self.is_here() {
            return false;
        }
        if !sys::task_policy_is_default() {
            self.slot().note(Reason::PolicySet);
            return false;
        }
        true
    }

    /// Marks a range because the program asked; not when Auto-Next-Touch is off here, or its user has bound
    /// its memory from outside.
    pub fn mark_range(&self, start: usize, end: usize) -> Marked {
        if !self.may_move_pages() {
            return Marked::Off;
        }
        let _ = self.decide();
        helper::mark_range(&self.orders(), start, end)
    }

    /// Stops moving pages in this process for good, and puts back what is marked.
    pub fn stop_next_touch(&self, reason: Reason) {
        self.mark_no_more(reason);
        // Also for who comes second: the first may not be through.
        helper::give_back();
    }

    /// From now on nothing is marked in this process.
    pub fn mark_no_more(&self, reason: Reason) {
        if self.next_touch.swap(false, Ordering::SeqCst) {
            self.slot().note(reason);
        }
    }

    /// Gives the first thread its affinity back, once it is alone, if it still is ours to place.
    fn becomes_sequential(&self) {
        let Some(first) = Thread::find(sys::pid()) else { return };
        let (Some(base), Some(taken)) = (affinity::base(), seats::take(first)) else { return };
        let _ = affinity::set(first.tid() as i32, base);
        self.uncount(seats::give_up(first, taken));
    }

    /// A counted thread is gone, or was never made.
    pub fn uncount(&self, count: Option<Count>) {
        if let (Some(count), Some(decide)) = (count, self.decide()) {
            decide.uncount(count);
        }
    }

    /// Whether the launcher looks at threads of this process, and holds them elsewhere where they wait.
    pub fn is_balanced(&self) -> bool {
        let launchers = self.session.header().launcher.pid_namespace;
        let is_seen = launchers != 0 && self.slot().pid_namespace() == launchers;
        is_seen && self.config().pin() == Pin::Node && self.config().balance_ms > 0
    }

    /// In a child after `fork`: a process of its own, with one thread.
    pub fn begin_again(&self) {
        let user_affinity = self.slot().user_affinity();
        if let Some((index, slot)) = self.session.claim(sys::pid() as u32) {
            slot.set_name(&program_name());
            if let Some(base) = affinity::base() {
                slot.set_base(base);
            }
            if user_affinity {
                slot.set_user_affinity();
            }
            self.slot.store(index, Ordering::Relaxed);
        }
        if let Some(Some(decide)) = self.decide.get() {
            decide.forked();
        }
        self.others.store(0, Ordering::Relaxed);
        self.watching.store(false, Ordering::Relaxed);
        helper::forget();
    }
}
