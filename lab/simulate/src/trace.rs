//! What happens on a machine, known in advance to the simulation and to no chooser: the same for all
//! of them, whatever they choose.

use std::ops::Range;

/// A thread, as an index into [`Trace::lives`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub u32);

impl ThreadIndex {
    /// The number as a list index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a thread comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The first thread of a new program.
    Exec,
    /// The first thread of a process that this thread forks.
    Fork(ThreadIndex),
    /// A thread that this thread creates.
    Thread(ThreadIndex),
}

impl Creation {
    /// Who creates it.
    #[must_use]
    pub fn creator(self) -> Option<ThreadIndex> {
        match self {
            Self::Exec => None,
            Self::Fork(creator) | Self::Thread(creator) => Some(creator),
        }
    }
}

/// One thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// How it comes to be.
    pub creation: Creation,
    /// When.
    pub start_ns: u64,
    /// When it ends, wherever it runs.
    pub end_ns: u64,
    /// How much of a CPU it would use if it had one alone. What is missing to 1000 it sleeps.
    pub demand_permille: u64,
    /// Base pages that it touches first.
    pub nr_pages: u64,
}

/// A thread comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// It ends.
    Exit(ThreadIndex),
    /// It is created.
    Start(ThreadIndex),
}

/// All threads of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The threads, creators before those that they create.
    pub lives: Vec<Life>,
    /// What happens when, in order. Of what happens at the same time ends come first.
    pub events: Vec<(u64, Event)>,
    /// What is measured: before, the machine fills, and afterwards it drains.
    pub measured_ns: Range<u64>,
}

impl Trace {
    /// Puts lives in order.
    ///
    /// # Panics
    /// If a thread ends before it starts, or is created by one that does not live at that time.
    #[must_use]
    pub fn new(lives: Vec<Life>, measured_ns: Range<u64>) -> Self {
        let mut events = Vec::with_capacity(2 * lives.len());
        for (index, life) in (0..).map(ThreadIndex).zip(&lives) {
            assert!(life.start_ns < life.end_ns, "a thread starts before it ends");
            if let Some(creator) = life.creation.creator() {
                let creator = &lives[creator.index()];
                let lives = creator.start_ns..creator.end_ns;
                assert!(lives.contains(&life.start_ns), "a creator lives");
            }
            events.push((life.start_ns, Event::Start(index)));
            events.push((life.end_ns, Event::Exit(index)));
        }
        events.sort_unstable();
        Self { lives, events, measured_ns }
    }
}
