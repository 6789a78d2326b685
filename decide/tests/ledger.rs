//! T after processes were killed at the worst moments.

mod common;

use std::collections::BTreeSet;
use std::sync::Mutex;

use common::{Own, machine};
use proptest::prelude::*;
use quartier_decide::dqdt::{
    Allowed, ClusterId, Ledger, Life, Owner, ProcessEntry, Record, RecordId, Sweeper,
};
use quartier_decide::policy::Thread;
use quartier_model::CpuId;

struct Books {
    sweeper: Sweeper,
    processes: Vec<ProcessEntry>,
    records: Vec<Record>,
}

impl Books {
    fn new(nr_processes: usize, nr_records: usize) -> Self {
        Self {
            sweeper: Sweeper::new(),
            processes: (0..nr_processes).map(|_| ProcessEntry::new()).collect(),
            records: (0..nr_records).map(|_| Record::new()).collect(),
        }
    }

    fn ledger<'a>(&'a self, own: &'a Own) -> Ledger<'a> {
        Ledger::new(own.estimates(), &self.sweeper, &self.processes, &self.records)
    }
}

fn owner(pid: u32) -> Owner {
    Owner { pid, start_ticks: Some(7), pid_namespace: 0xff_fffc }
}

fn all_alive(_: &Owner) -> Life {
    Life::Alive
}

fn dead(pids: &[u32]) -> impl Fn(&Owner) -> Life {
    move |owner| if pids.contains(&owner.pid) { Life::Dead } else { Life::Alive }
}

#[test]
fn a_killed_process_is_taken_off_with_all_its_threads() {
    let (own, books) = (Own::of("4x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let allowed = Allowed::all(&own.tree);
    let (killed, other) = (ledger.enter(&owner(10)).unwrap(), ledger.enter(&owner(11)).unwrap());
    for _ in 0..5 {
        let _ = ledger.place(killed, &Thread::new(Some(CpuId(0)), &allowed)).unwrap();
    }
    let kept = ledger.place(other, &Thread::new(Some(CpuId(7)), &allowed)).unwrap();
    let swept = ledger.sweep(other, dead(&[10])).unwrap();
    assert_eq!((swept.nr_processes, swept.nr_threads, swept.nr_pending), (1, 5, 0));
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 1);
    assert!(ledger.release(other, kept.record.unwrap()));
    assert!(!ledger.release(other, kept.record.unwrap()), "released twice");
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 0);
}

#[test]
fn who_counts_for_another_leaves_that_ones_thread_counted_and_his_own_doubts() {
    let (own, books) = (Own::of("4x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let (me, of) = (ledger.enter(&owner(10)).unwrap(), ledger.enter(&owner(11)).unwrap());
    let on = |cpu| own.estimates().nr_threads_on(CpuId(cpu));
    let first = ledger.count(of, CpuId(0)).unwrap();
    assert_eq!(ledger.recount(me, me, first, CpuId(3)), None, "it is another's");
    let moved = ledger.recount(me, of, first, CpuId(3)).unwrap();
    assert_eq!((on(0), on(3)), (0, 1));
    assert_eq!(ledger.recount(me, of, first, CpuId(5)), None, "it was there before");
    // Killed in the middle of the next: nobody waits for the process whose thread it was.
    ledger.begin_and_die(me, CpuId(6));
    let swept = ledger.sweep(of, dead(&[10])).unwrap();
    assert_eq!((swept.nr_processes, swept.nr_pending), (1, 0));
    assert!(ledger.release(of, moved));
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 0);
}

#[test]
fn a_process_of_which_nothing_can_be_seen_stays_counted() {
    let (own, books) = (Own::of("2x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let other = ledger.enter(&Owner { pid_namespace: 5, ..owner(10) }).unwrap();
    let me = ledger.enter(&owner(11)).unwrap();
    let _ = ledger.count(other, CpuId(3)).unwrap();
    let sees = |owner: &Owner| if owner.pid_namespace == 5 { Life::Unknown } else { Life::Dead };
    let swept = ledger.sweep(me, sees).unwrap();
    assert_eq!(swept.nr_threads, 0);
    assert_eq!(own.estimates().nr_threads_on(CpuId(3)), 1);
}

#[test]
fn exec_leaves_nothing_of_the_program_before() {
    let (own, books) = (Own::of("2x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let before = ledger.enter(&owner(10)).unwrap();
    let _ = ledger.count(before, CpuId(1)).unwrap();
    let after = ledger.enter(&owner(10)).unwrap();
    assert_ne!(before, after);
    let _ = ledger.count(after, CpuId(2)).unwrap();
    let swept = ledger.sweep(after, all_alive).unwrap();
    assert_eq!((swept.nr_processes, swept.nr_threads), (1, 1));
    assert_eq!(own.estimates().nr_threads_on(CpuId(1)), 0);
    assert_eq!(own.estimates().nr_threads_on(CpuId(2)), 1);
}

#[test]
fn a_full_ledger_still_decides_and_says_that_it_does_not_count() {
    let (own, books) = (Own::of("2x2"), Books::new(1, 3));
    let ledger = books.ledger(&own);
    let allowed = Allowed::all(&own.tree);
    let me = ledger.enter(&owner(10)).unwrap();
    assert_eq!(ledger.enter(&owner(11)), None, "one process fits");
    let request = Thread::new(Some(CpuId(0)), &allowed);
    let placed: Vec<_> = (0..5).map(|_| ledger.place(me, &request).unwrap()).collect();
    assert_eq!(placed.iter().filter(|placed| placed.record.is_some()).count(), 3);
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 3);
    assert_eq!(ledger.count(me, CpuId(0)), None);
    ledger.leave(me);
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 0);
    assert!(ledger.enter(&owner(11)).is_some());
}

#[test]
fn what_was_cut_off_half_way_is_put_right_once_it_is_quiet() {
    let (own, books) = (Own::of("16x4"), Books::new(8, 256));
    let ledger = books.ledger(&own);
    let me = ledger.enter(&owner(11)).unwrap();
    let _ = ledger.count(me, CpuId(5)).unwrap();
    // Killed between its first addition and the second: the record says in flight.
    let killed = ledger.enter(&owner(10)).unwrap();
    ledger.begin_and_die(killed, CpuId(63));
    own.cut_off(CpuId(63), 1);
    let swept = ledger.sweep(me, dead(&[10])).unwrap();
    assert_eq!((swept.nr_repaired, swept.nr_pending), (1, 0));
    for at in own.tree.cluster_ids() {
        let counts_5 = own.tree.cluster_cpus(at).any(|cpu| cpu == CpuId(5));
        assert_eq!(own.estimates().nr_threads(at), u32::from(counts_5));
    }
}

#[test]
fn a_moment_is_not_quiet_while_a_living_process_changes_something() {
    let (own, books) = (Own::of("4x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let me = ledger.enter(&owner(11)).unwrap();
    let killed = ledger.enter(&owner(10)).unwrap();
    let busy = ledger.enter(&owner(12)).unwrap();
    ledger.begin_and_die(killed, CpuId(1));
    ledger.begin_and_die(busy, CpuId(2)); // It only takes its time.
    let swept = ledger.sweep(me, dead(&[10])).unwrap();
    assert_eq!((swept.nr_repaired, swept.nr_pending), (0, 1));
    let swept = ledger.sweep(me, dead(&[10, 12])).unwrap();
    assert_eq!((swept.nr_repaired, swept.nr_pending), (0, 0));
}

#[test]
fn one_sweeps_at_a_time_and_a_dead_sweeper_does_not_count() {
    let (own, books) = (Own::of("1x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let (first, second) = (ledger.enter(&owner(1)).unwrap(), ledger.enter(&owner(2)).unwrap());
    let inside = Mutex::new(None);
    let look = |_: &Owner| {
        if let Ok(mut inside) = inside.try_lock()
            && inside.is_none()
        {
            *inside = Some(ledger.sweep(second, all_alive));
        }
        Life::Alive
    };
    assert!(ledger.sweep(first, look).is_some());
    assert_eq!(inside.into_inner().unwrap(), Some(None));
    ledger.lock_and_die(first);
    assert!(ledger.sweep(second, all_alive).is_none());
    assert!(ledger.sweep(second, dead(&[1])).is_some());
}

#[test]
fn damaged_records_are_survived() {
    let (own, books) = (Own::of("2x2"), Books::new(8, 64));
    let ledger = books.ledger(&own);
    let me = ledger.enter(&owner(1)).unwrap();
    for (at, record) in books.records.iter().enumerate() {
        record.overwrite(u64::MAX.rotate_left(at as u32) ^ (at as u64) << 7);
    }
    for at in 0..80 {
        ledger.release(me, RecordId(at));
    }
    let _ = ledger.sweep(me, |_| Life::Dead);
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 0);
}

proptest! {
    /// Processes that place, release and die at any moment; after a sweep T is what the living have.
    #[test]
    fn after_a_sweep_t_is_what_the_living_processes_have(
        machine in machine(),
        steps in prop::collection::vec((0u32..6, 0u8..10, any::<prop::sample::Index>()), 1..150),
    ) {
        let own = Own::new(&machine);
        let books = Books::new(200, 512);
        let ledger = books.ledger(&own);
        let allowed = Allowed::all(&own.tree);
        let me = ledger.enter(&owner(99)).unwrap();
        let mut living = Vec::new();
        let mut killed = BTreeSet::new();
        let mut generation = 100;
        for (slot, step, index) in steps {
            while living.len() <= slot as usize {
                generation += 1;
                living.push((generation, ledger.enter(&owner(generation)).unwrap(), Vec::new()));
            }
            let (pid, process, threads) = &mut living[slot as usize];
            match step {
                0..6 => {
                    let creator = Some(CpuId(index.index(90) as u32));
                    let placed = ledger.place(*process, &Thread::new(creator, &allowed)).unwrap();
                    threads.push((placed.record.unwrap(), placed.decision.cpu));
                }
                6 | 7 if !threads.is_empty() => {
                    let (record, _) = threads.swap_remove(index.index(threads.len()));
                    prop_assert!(ledger.release(*process, record));
                }
                8 => {
                    ledger.begin_and_die(*process, CpuId(0));
                    own.cut_off(CpuId(0), 1);
                    killed.insert(*pid);
                    living.swap_remove(slot as usize);
                }
                9 => {
                    killed.insert(*pid);
                    living.swap_remove(slot as usize);
                    let swept = ledger.sweep(me, |owner| {
                        if killed.contains(&owner.pid) { Life::Dead } else { Life::Alive }
                    });
                    prop_assert_eq!(swept.unwrap().nr_pending, 0);
                }
                _ => {}
            }
        }
        let life = |owner: &Owner| if killed.contains(&owner.pid) { Life::Dead } else { Life::Alive };
        ledger.sweep(me, life).unwrap();
        for at in own.tree.cluster_ids() {
            let inside: BTreeSet<_> = own.tree.cluster_cpus(at).collect();
            let threads = living.iter().flat_map(|(_, _, threads)| threads);
            let expected = threads.filter(|(_, cpu)| inside.contains(cpu)).count();
            prop_assert_eq!(own.estimates().nr_threads(at) as usize, expected);
            prop_assert_eq!(own.estimates().nr_threads_above(at) as usize, expected);
        }
    }
}
