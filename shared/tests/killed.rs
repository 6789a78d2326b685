//! Processes that are killed while they place and release threads, as fast as they can.

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use quartier_decide::dqdt::{Allowed, ClusterId, Life, Swept, Tree};
use quartier_decide::policy::Thread;
use quartier_model::{CpuId, SyntheticSpec};
use quartier_shared::{Create, SharedTree, life, own_identity};
use tempfile::TempDir;

/// Set in a child: the directory it works in.
const DIRECTORY: &str = "QUARTIER_TEST_DIRECTORY";

/// Not a test of its own: what a child of the test below does until it is killed.
#[test]
fn child_that_works_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let shared = SharedTree::open(Path::new(&directory)).unwrap();
    let ledger = shared.ledger().unwrap();
    let me = shared.enter().unwrap();
    let allowed = Allowed::all(shared.tree());
    let began = Instant::now();
    let mut records = Vec::new();
    // A child whose parent died ends too.
    while began.elapsed() < Duration::from_secs(60) {
        let request = Thread::new(Some(CpuId(records.len() as u32 % 8)), &allowed);
        let placed = ledger.place(me, &request).unwrap();
        records.extend(placed.record);
        if records.len() > 5 {
            ledger.release(me, records.swap_remove(0));
        }
    }
}

fn child(directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_works_until_it_is_killed"]).env(DIRECTORY, directory);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

#[test]
fn after_kills_at_any_moment_t_is_right_again() {
    let directory = TempDir::new().unwrap();
    let tree = Tree::build(&SyntheticSpec::uniform(16, 2).machine().unwrap());
    let shared = SharedTree::create(directory.path(), &tree, &Create::default()).unwrap();
    let me = shared.enter().unwrap();
    let kept = shared.ledger().unwrap().count(me, CpuId(9)).unwrap();
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    println!("seed {seed}");
    let mut all = Swept::default();
    for round in 0..rounds() {
        let mut children: Vec<_> = (0..3).map(|_| child(directory.path())).collect();
        let wait = seed.wrapping_mul(2_654_435_761).wrapping_mul(round + 1) >> 16;
        while shared.estimates().nr_threads(ClusterId::ROOT) < 10 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_micros(u64::from(wait % 20_000)));
        // One by one: while some are dead the others go on changing T.
        for at in (0..3).rev() {
            children[at].kill().unwrap();
            children[at].wait().unwrap();
            if at > 0 {
                let swept = shared.sweep(me).unwrap();
                all.nr_threads += swept.nr_threads;
            }
        }
        let swept = shared.sweep(me).unwrap();
        all.nr_threads += swept.nr_threads;
        all.nr_repaired += swept.nr_repaired;
        assert_eq!(swept.nr_pending, 0, "round {round}");
        for id in tree.cluster_ids() {
            let has_9 = tree.cluster_cpus(id).any(|cpu| cpu == CpuId(9));
            let estimates = shared.estimates();
            assert_eq!(estimates.nr_threads(id), u32::from(has_9), "round {round}: {id:?}");
        }
    }
    println!("{all:?}");
    assert!(all.nr_threads > 30, "nothing was ever left behind: {all:?}");
    assert!(shared.ledger().unwrap().release(me, kept));
    let own = own_identity().unwrap();
    assert_eq!(life(&own, &own), Life::Alive);
}

/// `QUARTIER_TEST_ROUNDS` for a longer search.
fn rounds() -> u32 {
    std::env::var("QUARTIER_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}
