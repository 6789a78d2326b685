//! Files that somebody damages, before they are opened and while they are used: an error, or a tree
//! that answers with what is allowed, soon.
//!
//! Each test runs in a process of its own, so that one that dies or hangs fails with its input.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;
use quartier_decide::dqdt::{Allowed, ClusterId, FreeMemory, Owner, Tree, Usage};
use quartier_decide::policy::{
    Balance, Exec, Fork, Strategy as Order, Thread, decide, group, memory, visits_max,
    visits_max_within,
};
use quartier_model::{CpuId, NodeId, SyntheticSpec};
use quartier_shared::{Create, SharedTree};
use tempfile::TempDir;

/// One leaf, a node without CPUs, odd sizes, and one of which masks have more leaves than are looked
/// at one by one.
const MACHINES: [&str; 4] = ["1x1", "2,3,0", "6x5", "24x4"];
const FILES: [&str; 2] = ["tree", "threads"];
/// Both headers, the mark included.
const HEADER_WORDS: u64 = 14;
const PAGE: u64 = 4096;

fn made(spec: &str) -> (TempDir, SharedTree) {
    let directory = TempDir::new().unwrap();
    let tree = Tree::build(&spec.parse::<SyntheticSpec>().unwrap().machine().unwrap());
    let options = Create { free_pages_min: Some(100), ..Create::default() };
    let shared = SharedTree::create(directory.path(), &tree, &options).unwrap();
    (directory, shared)
}

fn len(directory: &Path, file: &str) -> u64 {
    fs::metadata(directory.join(file)).unwrap().len()
}

fn overwrite(directory: &Path, file: &str, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(directory.join(file)).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// Everything that a program does with a tree, through every policy and a mask of CPUs.
fn use_all(shared: &SharedTree, mask: u64) -> Result<(), TestCaseError> {
    let (tree, estimates) = (shared.tree(), shared.estimates());
    let nr_cpus = tree.nr_cpus() as u32;
    let masked = (0..nr_cpus).map(CpuId).filter(|cpu| mask >> (cpu.0 % 64) & 1 == 1);
    let allowed = Allowed::new(tree, masked);
    let from = CpuId(mask as u32 % nr_cpus);
    let thread = |strategy| Thread { strategy, ..Thread::new(Some(from), &allowed) };
    let exec = Exec { allowed: &allowed, free_pages_min: shared.free_pages_min(), seed: mask };
    let decisions = [
        decide(&estimates, &thread(Order::Thesis)),
        decide(&estimates, &thread(Order::Packed)),
        decide(&estimates, &thread(Order::Spread)),
        decide(&estimates, &Fork { parent: Some(from), allowed: &allowed }),
        decide(&estimates, &exec),
        decide(&estimates, &Balance { initiator: from, allowed: &allowed }),
    ];
    for (at, decision) in decisions.into_iter().enumerate() {
        let Some(decision) = decision else { continue };
        prop_assert!(allowed.contains(tree, decision.cpu), "policy {}: {:?}", at, decision);
        prop_assert!(decision.visited <= visits_max_within(tree, &allowed), "policy {}", at);
    }
    let mut cpus = [CpuId(u32::MAX); 9];
    if group::decide(&estimates, &group::Group { near: Some(from), allowed: &allowed }, &mut cpus)
        .is_some()
    {
        prop_assert!(cpus.iter().all(|&cpu| allowed.contains(tree, cpu)), "{:?}", cpus);
    }
    let nodes = (0..tree.nr_nodes() as u32).map(NodeId);
    let nodes = memory::AllowedNodes::new(tree, nodes.filter(|n| mask >> (n.0 % 64) & 1 == 0));
    let request = memory::Request {
        from: Some(NodeId(0)),
        allowed: &nodes,
        nr_pages: 7,
        block_order: Some(3),
    };
    if let Some(decision) = memory::decide(&estimates, &request) {
        prop_assert!(nodes.contains(decision.node) && decision.visited <= visits_max(tree));
    }
    count_and_sweep(shared, &allowed)?;
    show_and_refresh(shared);
    Ok(())
}

fn count_and_sweep(shared: &SharedTree, allowed: &Allowed) -> Result<(), TestCaseError> {
    let (Some(me), Some(ledger)) = (shared.enter(), shared.ledger()) else { return Ok(()) };
    let mut records = Vec::new();
    for _ in 0..6 {
        let Some(placed) = ledger.place(me, &Thread::new(None, allowed)) else { break };
        prop_assert!(allowed.contains(shared.tree(), placed.decision.cpu));
        records.extend(placed.record);
    }
    records.extend(ledger.count(me, CpuId(0)));
    let _ = shared.sweep(me);
    for record in records {
        let _ = ledger.release(me, record);
    }
    ledger.leave(me);
    Ok(())
}

/// What `quartier tree` does.
fn show_and_refresh(shared: &SharedTree) {
    let estimates = shared.estimates();
    for at in shared.tree().cluster_ids() {
        let _ = (estimates.nr_threads(at), estimates.nr_threads_above(at), estimates.usage(at));
        let _ = estimates.free_memory(at);
    }
    let _ = (shared.age(), shared.free_pages_min());
    if let Some(refresher) = shared.refresher() {
        let free = FreeMemory { pages: 1 << 40, blocks: [u32::MAX; 10] };
        refresher.tick(|cpu| Some(Usage::from_percent(cpu.0 % 101)), |_| Some(free));
        shared.set_refreshed_now();
    }
    let _ = estimates.usage(ClusterId::ROOT);
}

/// Numbers at which lengths and offsets go wrong, and any number.
fn word() -> impl Strategy<Value = u64> {
    let near = prop_oneof![Just(0u64), Just(64), Just(PAGE), Just(1 << 16), Just(1 << 32), Just(0)];
    let near = (near, -9i64..9).prop_map(|(word, more)| word.wrapping_add_signed(more));
    let wraps = prop_oneof![Just(u64::MAX), Just(u64::MAX / 8 + 1), Just(u64::MAX / 64 + 2)];
    prop_oneof![near, wraps, any::<u64>()]
}

/// Which file, where in a part of it, and what is written there.
fn damage() -> impl Strategy<Value = Vec<(usize, Index, u64)>> {
    prop::collection::vec((0usize..2, any::<Index>(), word()), 1..6)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        fork: true,
        timeout: 20_000,
        max_shrink_iters: 100,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn bytes_that_changed_and_ends_that_are_gone(
        spec in prop::sample::select(&MACHINES[..]),
        damage in damage(),
        cut in prop::option::weighted(0.3, (0usize..2, any::<Index>())),
        mask in any::<u64>(),
    ) {
        let (directory, shared) = made(spec);
        drop(shared);
        let directory = directory.path();
        for (file, at, word) in damage {
            let at = at.index(len(directory, FILES[file]) as usize) as u64;
            overwrite(directory, FILES[file], at, &word.to_le_bytes()[..1 + word as usize % 8]);
        }
        if let Some((file, at)) = cut {
            let file = directory.join(FILES[file]);
            let at = at.index(fs::metadata(&file).unwrap().len() as usize);
            OpenOptions::new().write(true).open(file).unwrap().set_len(at as u64).unwrap();
        }
        match SharedTree::open(directory) {
            Ok(shared) => use_all(&shared, mask)?,
            Err(error) => {
                let error = error.to_string();
                let told = error.contains(directory.to_str().unwrap()) && !error.contains('\n');
                prop_assert!(told, "{}", error);
            }
        }
    }

    /// The numbers that say where everything lies. In a test of every byte they would seldom be hit.
    #[test]
    fn headers_that_changed(
        spec in prop::sample::select(&MACHINES[..]),
        damage in damage(),
        mask in any::<u64>(),
    ) {
        let (directory, shared) = made(spec);
        drop(shared);
        let directory = directory.path();
        for (file, at, word) in damage {
            // After the mark: every change of that is refused.
            let at = 6 + at.index(HEADER_WORDS as usize - 6) as u64;
            overwrite(directory, FILES[file], 8 * at, &word.to_le_bytes());
        }
        if let Ok(shared) = SharedTree::open(directory) {
            use_all(&shared, mask)?;
        }
    }

    /// What anybody writes there who may write there.
    #[test]
    fn numbers_that_change_while_the_tree_is_used(
        spec in prop::sample::select(&MACHINES[..]),
        damage in prop::collection::vec((any::<Index>(), word()), 1..200),
        mask in any::<u64>(),
    ) {
        let (directory, shared) = made(spec);
        let other = SharedTree::open(directory.path()).unwrap();
        let directory = directory.path();
        let topology = shared.tree().encode().len() as u64;
        let places = [PAGE + topology.next_multiple_of(PAGE), PAGE];
        // Of another namespace: for all we know it lives.
        let unknown = Owner { pid: 1, start_ticks: Some(1), pid_namespace: 1 };
        let unknown = shared.ledger().unwrap().enter(&unknown).unwrap();
        let write = |nr: usize| {
            let (at, mut word) = damage[nr % damage.len()];
            if nr % 4 == 1 {
                // A thread of that process, on any CPU.
                word = unknown.to_word() << 16 | word & 0xfffc | 2;
            }
            let (file, first) = (FILES[nr % 2], places[nr % 2]);
            let nr_words = (len(directory, file) - first) / 8;
            let at = first + 8 * (at.index(nr_words as usize) as u64);
            overwrite(directory, file, at, &word.to_le_bytes());
        };
        // First all of it, then again and again while it is used.
        (0..2 * damage.len()).for_each(write);
        use_all(&other, mask)?;
        let is_over = AtomicBool::new(false);
        let used = std::thread::scope(|scope| {
            scope.spawn(|| (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(write));
            let used = (0..3).try_for_each(|_| use_all(&shared, mask));
            is_over.store(true, Ordering::Relaxed);
            used
        });
        used?;
    }

    /// The header too, by somebody who may write `threads` and wants others to go wrong.
    #[test]
    fn headers_that_change_while_the_tree_is_used(
        spec in prop::sample::select(&MACHINES[..]),
        damage in damage(),
        mask in any::<u64>(),
    ) {
        let (directory, shared) = made(spec);
        for (file, at, word) in damage {
            let at = at.index(HEADER_WORDS as usize) as u64;
            overwrite(directory.path(), FILES[file], 8 * at, &word.to_le_bytes());
            use_all(&shared, mask)?;
        }
    }
}

/// Else a process that enters itself would change where it enters itself.
#[test]
fn lists_that_begin_in_the_header_are_refused() {
    for (file, word) in [("tree", 9), ("threads", 6), ("threads", 8), ("threads", 10)] {
        let (directory, shared) = made("2,3,0");
        drop(shared);
        overwrite(directory.path(), file, 8 * word, &0u64.to_le_bytes());
        let refused = SharedTree::open(directory.path()).unwrap_err().to_string();
        assert!(refused.contains("do not fit"), "{file}, word {word}: {refused}");
    }
}
