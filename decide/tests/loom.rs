//! T under every interleaving of two processes: `make loom`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use quartier_decide::dqdt::{
    Allowed, ClusterId, EMA_TICKS, Estimates, FreeMemory, Ledger, Life, Owner, ProcessEntry,
    Record, Refresher, Resources, Sweeper, Threads, Tree, Usage,
};
use quartier_decide::policy::{Thread, decide, decide_and_count};
use quartier_model::{CpuId, SyntheticSpec};

struct Shared {
    tree: Tree,
    threads: Box<[Threads]>,
    resources: Box<[Resources]>,
    sweeper: Sweeper,
    processes: Vec<ProcessEntry>,
    records: Vec<Record>,
}

/// Made inside a model: loom's atomics belong to one.
fn shared(spec: &str) -> Arc<Shared> {
    let tree = Tree::build(&spec.parse::<SyntheticSpec>().unwrap().machine().unwrap());
    Arc::new(Shared {
        threads: tree.new_threads(),
        resources: tree.new_resources(),
        sweeper: Sweeper::new(),
        processes: (0..3).map(|_| ProcessEntry::new()).collect(),
        records: (0..4).map(|_| Record::new()).collect(),
        tree,
    })
}

impl Shared {
    fn estimates(&self) -> Estimates<'_> {
        Estimates::new(&self.tree, &self.threads).unwrap()
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::new(self.estimates(), &self.sweeper, &self.processes, &self.records)
    }

    fn assert_adds_up(&self, nr_threads: u32) {
        let estimates = self.estimates();
        assert_eq!(estimates.nr_threads(ClusterId::ROOT), nr_threads);
        for id in self.tree.cluster_ids() {
            let of_cpus: u32 =
                self.tree.cluster_cpus(id).map(|cpu| estimates.nr_threads_on(cpu)).sum();
            assert_eq!(estimates.nr_threads(id), of_cpus);
            assert_eq!(estimates.nr_threads_above(id), of_cpus);
        }
    }
}

fn owner(pid: u32) -> Owner {
    Owner { pid, start_ticks: Some(1), pid_namespace: 1 }
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Leaving out the count of changes, its fence, or the look at records in flight is found by this.
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

#[test]
fn two_that_decide_at_once_add_up_and_never_share_while_two_cpus_are_idle() {
    model(|| {
        let shared = shared("2x2");
        let decide = |shared: &Shared| {
            let allowed = Allowed::all(&shared.tree);
            decide_and_count(&shared.estimates(), &Thread::new(Some(CpuId(0)), &allowed))
                .unwrap()
                .cpu
        };
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || decide(&other));
        let mine = decide(&shared);
        let others = other.join().unwrap();
        assert_ne!(mine, others);
        shared.assert_adds_up(2);
    });
}

#[test]
fn one_places_while_another_releases() {
    model(|| {
        let shared = shared("2x1");
        shared.estimates().add_thread(CpuId(1));
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || other.estimates().remove_thread(CpuId(1)).unwrap());
        let allowed = Allowed::all(&shared.tree);
        let decision =
            decide_and_count(&shared.estimates(), &Thread::new(Some(CpuId(0)), &allowed));
        other.join().unwrap();
        assert!(decision.is_some());
        shared.assert_adds_up(1);
    });
}

#[test]
fn a_reader_sees_old_or_new_estimates_and_always_decides() {
    model(|| {
        let shared = shared("2x1");
        shared.estimates().add_thread(CpuId(0));
        shared.estimates().add_thread(CpuId(1));
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || {
            let refresher = Refresher::new(other.estimates(), &other.resources, EMA_TICKS).unwrap();
            let free = FreeMemory { pages: 8, blocks: [0; 10] };
            refresher.tick(|cpu| Some(Usage::from_percent(cpu.0 * 100)), |_| Some(free));
        });
        let estimates = shared.estimates().with_resources(&shared.resources).unwrap();
        let allowed = Allowed::all(&shared.tree);
        let decision = decide(&estimates, &Thread::new(None, &allowed)).unwrap();
        assert!(decision.attempt == 2 || decision.attempt == 3);
        let usage = estimates.usage(ClusterId::ROOT).map(Usage::percent);
        assert!(matches!(usage, None | Some(50)));
        other.join().unwrap();
    });
}

/// The heart of the ledger: a sweep while somebody places never takes a living thread off, and never
/// leaves a dead one.
#[test]
fn a_sweep_while_another_places_repairs_only_what_is_dead() {
    model(|| {
        let shared = shared("2x1");
        let ledger = shared.ledger();
        let me = ledger.enter(&owner(1)).unwrap();
        let living = ledger.enter(&owner(2)).unwrap();
        let dead = ledger.enter(&owner(3)).unwrap();
        // Killed after the first of two additions.
        ledger.begin_and_die(dead, CpuId(1));
        let leaf = shared.tree.leaf_of(CpuId(1)).unwrap();
        shared.threads[shared.tree.cluster(leaf).slot()].set(0, 1);
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || other.ledger().count(living, CpuId(1)).unwrap());
        let life = |owner: &Owner| if owner.pid == 3 { Life::Dead } else { Life::Alive };
        ledger.sweep(me, life).unwrap();
        let record = other.join().unwrap();
        // Whatever the first sweep found, one in peace finds the rest.
        let swept = ledger.sweep(me, life).unwrap();
        assert_eq!(swept.nr_pending, 0);
        shared.assert_adds_up(1);
        assert!(ledger.release(living, record));
        shared.assert_adds_up(0);
    });
}

#[test]
fn a_sweep_while_another_releases_counts_nothing_twice() {
    model(|| {
        let shared = shared("2x1");
        let ledger = shared.ledger();
        let me = ledger.enter(&owner(1)).unwrap();
        let living = ledger.enter(&owner(2)).unwrap();
        let dead = ledger.enter(&owner(3)).unwrap();
        let record = ledger.count(living, CpuId(0)).unwrap();
        let _ = ledger.count(dead, CpuId(0)).unwrap();
        ledger.begin_and_die(dead, CpuId(1));
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || assert!(other.ledger().release(living, record)));
        let life = |owner: &Owner| if owner.pid == 3 { Life::Dead } else { Life::Alive };
        ledger.sweep(me, life).unwrap();
        other.join().unwrap();
        assert_eq!(ledger.sweep(me, life).unwrap().nr_pending, 0);
        shared.assert_adds_up(0);
    });
}
