//! What happened in a run: one account over all its processes.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartier_model::{Machine, Nanos, NodeOsId};
use quartier_session::{Counter, Policy, ProcessSlot, Reason, Rung, Session};
use serde::Serialize;

/// The account of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// The policy asked for.
    pub policy: &'static str,
    /// How long the program ran.
    pub elapsed_ns: Nanos,
    /// Every process, in the order in which they began.
    pub processes: Vec<ProcessReport>,
    /// All processes together.
    pub total: ProcessReport,
}

/// The account of one process, or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessReport {
    /// Process id; absent in the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The program's name as the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// By which kernel interface pages were caught; `none` when they were not.
    pub rung: &'static str,
    /// Threads created (without the first).
    pub threads_created: u64,
    /// Of those, threads placed.
    pub threads_placed: u64,
    /// Of those, threads for which no core was idle, and which were held later.
    pub threads_settled: u64,
    /// Times that a thread was held on another node, because it waited for a CPU on its own.
    pub thread_moves: u64,
    /// Threads and pages by node.
    pub nodes: Vec<NodeReport>,
    /// Whether resident pages are known: a process that was killed could not count them.
    pub resident_known: bool,
    /// Times that memory was marked.
    pub marks: u64,
    /// Blocks marked.
    pub blocks_marked: u64,
    /// Blocks of which a page was moved to another node.
    pub blocks_moved: u64,
    /// Blocks touched from where they were.
    pub blocks_kept: u64,
    /// Blocks given back untouched.
    pub blocks_given_back: u64,
    /// Times that a huge page in which two nodes' parts meet was kept from being joined.
    pub fences: u64,
    /// Pages marked.
    pub pages_marked: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Pages that the kernel would not hand over.
    pub pages_busy: u64,
    /// Touches served.
    pub touches: u64,
    /// Time that marking took; the program waits for it when it gets its second thread.
    pub mark_ns: Nanos,
    /// Time spent on serving touches.
    pub serve_ns: Nanos,
    /// What was not done, why, and the remedy.
    pub notes: Vec<Note>,
}

/// Threads and pages of one node.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeReport {
    /// The kernel's number of the node.
    pub node: u32,
    /// Threads placed there (with the first, where it is held), those that were moved where they went.
    pub threads: u64,
    /// Resident 4 KiB pages of private data at the end; absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_pages: Option<u64>,
}

/// Something that was not done.
#[derive(Clone, Debug, Serialize)]
pub struct Note {
    /// Its name.
    pub name: &'static str,
    /// What, why, and the remedy.
    pub sentence: Cow<'static, str>,
}

impl Report {
    /// The account of a program that runs without the runtime.
    #[must_use]
    pub fn of_nothing(policy: Policy, why: &str) -> Self {
        let note = Note { name: "RunsAsItIs", sentence: Cow::Owned(why.to_owned()) };
        Self {
            format: 1,
            policy: policy.name(),
            elapsed_ns: Nanos(0),
            processes: Vec::new(),
            total: ProcessReport {
                rung: Rung::None.name(),
                notes: vec![note],
                ..ProcessReport::default()
            },
        }
    }

    /// Collects what the processes of a session counted.
    #[must_use]
    pub fn collect(session: &Session, machine: &Machine, elapsed: Duration) -> Self {
        let nodes: Vec<_> = machine.nodes().iter().map(|node| node.os_id).collect();
        let processes: Vec<_> = session
            .processes()
            .map(|(index, slot)| ProcessReport::of(session, index, slot, &nodes))
            .collect();
        let policy = session.config().policy();
        Self {
            format: 1,
            policy: policy.name(),
            elapsed_ns: Nanos(elapsed.as_nanos().try_into().unwrap_or(u64::MAX)),
            total: ProcessReport::sum(&processes, &nodes, policy),
            processes,
        }
    }
}

impl ProcessReport {
    fn of(session: &Session, index: usize, slot: &ProcessSlot, nodes: &[NodeOsId]) -> Self {
        let resident_known = slot.resident_known();
        let threads = session.threads_per_node(index);
        let pages = session.pages_per_node(index);
        let node = |(at, os_id): (usize, &NodeOsId)| NodeReport {
            node: os_id.0,
            threads: threads[at].load(Ordering::Relaxed),
            resident_pages: resident_known.then(|| pages[at].load(Ordering::Relaxed)),
        };
        Self {
            pid: Some(slot.pid()),
            name: Some(slot.name()),
            rung: slot.rung().name(),
            threads_created: slot.get(Counter::ThreadsCreated),
            threads_placed: slot.get(Counter::ThreadsPlaced),
            threads_settled: slot.get(Counter::ThreadsSettled),
            thread_moves: slot.get(Counter::ThreadMoves),
            nodes: nodes.iter().enumerate().map(node).collect(),
            resident_known,
            marks: slot.get(Counter::Marks),
            blocks_marked: slot.get(Counter::BlocksMarked),
            blocks_moved: slot.get(Counter::BlocksMoved),
            blocks_kept: slot.get(Counter::BlocksKept),
            blocks_given_back: slot.get(Counter::BlocksGivenBack),
            fences: slot.get(Counter::Fences),
            pages_marked: slot.get(Counter::PagesMarked),
            pages_moved: slot.get(Counter::PagesMoved),
            pages_busy: slot.get(Counter::PagesBusy),
            touches: slot.get(Counter::Faults),
            mark_ns: Nanos(slot.get(Counter::MarkNanos)),
            serve_ns: Nanos(slot.get(Counter::ServeNanos)),
            notes: slot.reasons().map(Note::from).collect(),
        }
    }

    fn sum(processes: &[Self], nodes: &[NodeOsId], policy: Policy) -> Self {
        let mut total = Self { rung: Rung::None.name(), ..Self::default() };
        total.nodes = nodes
            .iter()
            .map(|os_id| NodeReport { node: os_id.0, ..NodeReport::default() })
            .collect();
        for process in processes {
            total.add(process);
        }
        total.resident_known = processes.iter().any(|process| process.resident_known);
        if policy != Policy::NextTouch {
            total.rung = Rung::None.name();
        }
        total
    }

    fn add(&mut self, other: &Self) {
        if other.rung != Rung::None.name() {
            self.rung = other.rung;
        }
        for (mine, other) in self.nodes.iter_mut().zip(&other.nodes) {
            mine.threads += other.threads;
            if let Some(pages) = other.resident_pages {
                *mine.resident_pages.get_or_insert(0) += pages;
            }
        }
        self.threads_created += other.threads_created;
        self.threads_placed += other.threads_placed;
        self.threads_settled += other.threads_settled;
        self.thread_moves += other.thread_moves;
        self.marks += other.marks;
        self.blocks_marked += other.blocks_marked;
        self.blocks_moved += other.blocks_moved;
        self.blocks_kept += other.blocks_kept;
        self.blocks_given_back += other.blocks_given_back;
        self.fences += other.fences;
        self.pages_marked += other.pages_marked;
        self.pages_moved += other.pages_moved;
        self.pages_busy += other.pages_busy;
        self.touches += other.touches;
        self.mark_ns = self.mark_ns + other.mark_ns;
        self.serve_ns = self.serve_ns + other.serve_ns;
        for note in &other.notes {
            if !self.notes.iter().any(|mine| mine.name == note.name) {
                self.notes.push(note.clone());
            }
        }
    }
}

impl From<Reason> for Note {
    fn from(reason: Reason) -> Self {
        Self { name: reason.name(), sentence: Cow::Borrowed(reason.sentence()) }
    }
}
