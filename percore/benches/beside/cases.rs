//! What is compared with what.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock, mpsc};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::sync::ShardedLock;
use dashmap::DashMap;
use fast_counter::ConcurrentCounter;
use quartier_percore::events::{Events, Listener, Priority};
use quartier_percore::lock::{CnaLock, Exclusive, McsLock, QueueLock, TicketLock};
use quartier_percore::{FreeList, PerCpuTable, SloppyCounter};

use super::{Group, Op};

pub const GROUPS: &[Group] = &[
    Group { name: "count one up", make: counting },
    Group { name: "take a reference and give it back", make: references },
    Group { name: "the exact value after 1 more", make: values::<1> },
    Group { name: "the exact value after 100 more", make: values::<100> },
    Group { name: "the exact value after 1,000 more", make: values::<1_000> },
    Group { name: "look up one of 64 keys", make: lookups },
    Group { name: "a lock around one addition", make: locks },
    Group { name: "take from a free list and give back", make: free_lists },
    Group { name: "run a function through a mailbox", make: events },
];

/// A case of one operation that needs no thread's number.
fn op<R>(name: &'static str, once: impl Fn() -> R + Sync + 'static) -> (&'static str, Op) {
    let run = move |_: usize, times: u32| {
        for _ in 0..times {
            black_box(once());
        }
    };
    (name, Box::new(run))
}

fn without_rseq() -> SloppyCounter {
    SloppyCounter::without_rseq(0, NonZeroU16::new(32).expect("is not zero"))
}

fn counting() -> Vec<(&'static str, Op)> {
    let atomic = AtomicU64::new(0);
    let (sloppy, without) = (SloppyCounter::new(0), without_rseq());
    let fast = ConcurrentCounter::new(64);
    vec![
        op("AtomicU64", move || atomic.fetch_add(1, Ordering::Relaxed)),
        op("SloppyCounter", move || sloppy.increment()),
        op("SloppyCounter without rseq", move || without.increment()),
        op("fast-counter", move || fast.add(1)),
    ]
}

fn references() -> Vec<(&'static str, Op)> {
    let atomic = AtomicI64::new(1);
    let (sloppy, without) = (SloppyCounter::new(1), without_rseq());
    vec![
        op("AtomicI64", move || {
            atomic.fetch_add(1, Ordering::Relaxed);
            atomic.fetch_sub(1, Ordering::AcqRel)
        }),
        op("SloppyCounter", move || {
            sloppy.increment();
            sloppy.decrement()
        }),
        op("SloppyCounter without rseq", move || {
            without.increment();
            without.decrement()
        }),
    ]
}

/// How rarely must it be read to be worth it?
fn values<const TIMES: u32>() -> Vec<(&'static str, Op)> {
    let atomic = AtomicI64::new(0);
    let (sloppy, without) = (SloppyCounter::new(0), without_rseq());
    vec![
        op("AtomicI64", move || {
            for _ in 0..TIMES {
                atomic.fetch_add(1, Ordering::Relaxed);
            }
            atomic.load(Ordering::Acquire)
        }),
        op("SloppyCounter", move || {
            (0..TIMES).for_each(|_| sloppy.increment());
            sloppy.value()
        }),
        op("SloppyCounter without rseq", move || {
            (0..TIMES).for_each(|_| without.increment());
            without.value()
        }),
    ]
}

const NR_KEYS: u64 = 64;

/// Each thread goes through the keys.
fn lookup<R>(name: &'static str, get: impl Fn(u64) -> R + Sync + 'static) -> (&'static str, Op) {
    let run = move |number: usize, times: u32| {
        for at in 0..u64::from(times) {
            black_box(get((at + number as u64) % NR_KEYS));
        }
    };
    (name, Box::new(run))
}

fn lookups() -> Vec<(&'static str, Op)> {
    let map = || (0..NR_KEYS).map(|key| (key, key)).collect::<HashMap<_, _>>();
    let in_mutex = Mutex::new(map());
    let in_rw_lock = RwLock::new(map());
    let in_sharded_lock = ShardedLock::new(map());
    let in_parking_lot = parking_lot::RwLock::new(map());
    let dashmap: DashMap<_, _> = map().into_iter().collect();
    let table = PerCpuTable::new();
    for (key, value) in map() {
        table.insert(key, value);
    }
    vec![
        lookup("HashMap in RwLock", move |key| {
            in_rw_lock.read().expect("nobody panics").get(&key).copied()
        }),
        lookup("PerCpuTable", move |key| table.get(&key)),
        lookup("HashMap in Mutex", move |key| {
            in_mutex.lock().expect("nobody panics").get(&key).copied()
        }),
        lookup("HashMap in parking_lot::RwLock", move |key| {
            in_parking_lot.read().get(&key).copied()
        }),
        lookup("HashMap in crossbeam's ShardedLock", move |key| {
            in_sharded_lock.read().expect("nobody panics").get(&key).copied()
        }),
        lookup("DashMap", move |key| dashmap.get(&key).map(|value| *value)),
    ]
}

fn queue_lock<L: QueueLock + Sync + 'static>(name: &'static str, lock: L) -> (&'static str, Op) {
    let value = Exclusive::new(lock, 0_u64);
    op(name, move || value.with(|value| *value += 1))
}

fn locks() -> Vec<(&'static str, Op)> {
    let parking_lot = parking_lot::Mutex::new(0_u64);
    let std = Mutex::new(0_u64);
    vec![
        op("parking_lot::Mutex", move || *parking_lot.lock() += 1),
        op("std's Mutex", move || *std.lock().expect("nobody panics") += 1),
        queue_lock("TicketLock", TicketLock::new()),
        queue_lock("McsLock", McsLock::new()),
        queue_lock("CnaLock", CnaLock::new()),
    ]
}

fn free_lists() -> Vec<(&'static str, Op)> {
    const NR_THINGS: usize = 1024;
    let things = || (0..NR_THINGS as u64).collect::<Vec<_>>();
    let stack = Mutex::new(things());
    let queue = ArrayQueue::new(NR_THINGS);
    things().into_iter().for_each(|thing| queue.push(thing).expect("there is room"));
    let list = FreeList::new(64, NR_THINGS);
    things().into_iter().for_each(|thing| list.push(thing).expect("there is room"));
    vec![
        op("Vec in Mutex", move || {
            let thing = stack.lock().expect("nobody panics").pop();
            stack.lock().expect("nobody panics").extend(black_box(thing));
        }),
        op("FreeList", move || {
            if let Some(thing) = list.pop() {
                let _ = list.push(black_box(thing));
            }
        }),
        op("crossbeam's ArrayQueue", move || {
            if let Some(thing) = queue.pop() {
                let _ = queue.push(black_box(thing));
            }
        }),
        op("allocate 64 bytes and free them", || black_box(Box::new([0_u64; 8]))),
    ]
}

/// Each thread sends to itself: the cost of the mailbox alone, without a wait for another CPU.
fn events() -> Vec<(&'static str, Op)> {
    let events = Events::new(64, 256);
    let through_mailbox = move |number: usize, times: u32| {
        let mut listener: Listener = events.listen(number).expect("each thread has its own");
        for at in 0..times {
            let sent = events.send(number, Priority::Normal, None, move || at);
            listener.run_pending(1);
            let _ = black_box(sent.expect("there is room").wait());
        }
    };
    let through_channel = |_: usize, times: u32| {
        type Work = Box<dyn FnOnce() + Send>;
        let (send, listen) = mpsc::sync_channel::<Work>(256);
        for at in 0..times {
            let (answer, reply) = mpsc::sync_channel(1);
            let work = move || answer.send(at).expect("it is waited for");
            send.send(Box::new(work)).expect("it is listened to");
            listen.recv().expect("one was sent")();
            let _ = black_box(reply.recv());
        }
    };
    vec![
        ("std's sync_channel, both ways", Box::new(through_channel)),
        ("Events", Box::new(through_mailbox)),
    ]
}
