//! What is compared with what: by the benchmark in time, and by `examples/contend.rs` where lines of memory are counted.
#![allow(dead_code)] // Neither uses all of it.

mod counters;
mod locks;
mod mailbox;
pub mod tables;

use std::hint::black_box;

use crossbeam_utils::CachePadded;

use counters::{counting, references, values};
use tables::{free_lists, lookups};

// After each operation, and where others are to come in the middle of one. What it does is the program's own.
use super::end_turn;

/// Mailboxes, and cells of fast-counter.
pub const NR_THREADS_MAX: usize = 64;

/// What is compared, the first with each of the others.
pub struct Group {
    /// On a command line.
    pub word: &'static str,
    pub name: &'static str,
    pub make: fn() -> Vec<Case>,
}

/// One of a group.
pub struct Case {
    /// On a command line.
    pub word: &'static str,
    pub name: &'static str,
    pub way: Box<dyn Way>,
}

/// How an operation is done.
pub trait Way: Sync {
    /// Does it so many times, as the thread of this number. How many went wrong.
    fn run(&self, number: usize, times: u32) -> u32;

    /// Whether all is as it must be after so many operations of all threads. May use up what is there.
    fn is_right(&self, _nr_operations: u64) -> bool {
        true
    }
}

pub const GROUPS: &[Group] = &[
    Group { word: "counter", name: "count one up", make: counting },
    Group { word: "reference", name: "take a reference and give it back", make: references },
    Group { word: "value-1", name: "the exact value after 1 more", make: values::<1> },
    Group { word: "value-100", name: "the exact value after 100 more", make: values::<100> },
    Group { word: "value-1000", name: "the exact value after 1,000 more", make: values::<1_000> },
    Group { word: "table", name: "look up one of 64 keys", make: lookups },
    Group { word: "lock", name: "a lock around one addition", make: locks::locks },
    Group { word: "free-list", name: "take from a free list and give back", make: free_lists },
    Group { word: "mailbox", name: "run a function through a mailbox", make: mailbox::mailboxes },
];

/// Something that all threads use, on lines of its own.
struct Shared<T, F, C> {
    state: CachePadded<T>,
    once: F,
    is_right: C,
}

impl<T, F, C> Way for Shared<T, F, C>
where
    T: Sync,
    F: Fn(&T, u64) -> bool + Sync,
    C: Fn(&T, u64) -> bool + Sync,
{
    fn run(&self, number: usize, times: u32) -> u32 {
        let mut nr_wrong = 0;
        for at in 0..u64::from(times) {
            let went_well = (self.once)(&self.state, number as u64 + at);
            nr_wrong += u32::from(!went_well);
            end_turn();
        }
        nr_wrong
    }

    fn is_right(&self, nr_operations: u64) -> bool {
        (self.is_right)(&self.state, nr_operations)
    }
}

/// `once` does it, told how many this thread has done (which begins at the thread's number), and says whether it went well;
/// `is_right` is [`Way::is_right`].
fn case<T: Sync + 'static>(
    word: &'static str,
    name: &'static str,
    state: T,
    once: impl Fn(&T, u64) -> bool + Sync + 'static,
    is_right: impl Fn(&T, u64) -> bool + Sync + 'static,
) -> Case {
    let state = CachePadded::new(state);
    Case { word, name, way: Box::new(Shared { state, once, is_right }) }
}

/// Of what cannot go wrong the result has to be made all the same.
fn done<R>(result: R) -> bool {
    black_box(result);
    true
}

/// Threads that begin, take their turns, and end.
pub fn nothing() -> Case {
    case("nothing", "nothing", (), |(), at| done(at), |(), _| true)
}
