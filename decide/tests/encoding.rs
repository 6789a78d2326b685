//! Trees as bytes, and bytes that are no tree.

mod common;

use common::{machine, synthetic};
use proptest::prelude::*;
use quartier_decide::dqdt::{Allowed, DecodeError, Estimates, Ledger, Tree};
use quartier_decide::policy::{Exec, Fork, Thread, decide};
use quartier_model::CpuId;

/// Uses everything of a tree that indexes something.
fn walk(tree: &Tree) {
    let threads = tree.new_threads();
    let estimates = Estimates::new(tree, &threads).unwrap();
    let allowed = Allowed::all(tree);
    for cpu in (0..100).map(CpuId) {
        let _ = estimates.add_thread(cpu);
        let decision = decide(&estimates, &Thread::new(Some(cpu), &allowed)).unwrap();
        assert!(tree.leaf_of(decision.cpu).is_some());
        let _ = decide(&estimates, &Fork { parent: Some(cpu), allowed: &allowed }).unwrap();
    }
    let _ = decide(&estimates, &Exec { allowed: &allowed, free_pages_min: None, seed: 1 }).unwrap();
    for id in tree.cluster_ids() {
        let _ = (tree.updater(id), tree.path_to_root(id).count(), tree.cluster_cpus(id).count());
    }
    assert!(Ledger::nr_records(tree) > 0);
}

proptest! {
    #[test]
    fn a_tree_survives_as_bytes(machine in machine()) {
        let tree = Tree::build(&machine);
        prop_assert_eq!(Tree::decode(&tree.encode()), Ok(tree));
    }

    #[test]
    fn damaged_bytes_are_an_error_or_a_tree_that_can_be_used(
        machine in machine(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = Tree::build(&machine).encode();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(tree) = Tree::decode(&bytes) {
            walk(&tree);
        }
    }

    #[test]
    fn random_bytes_are_no_tree(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Tree::decode(&bytes).is_err());
    }

    /// Small numbers get further than random ones.
    #[test]
    fn small_words_are_an_error_or_a_tree(words in prop::collection::vec(0u32..5, 0..80)) {
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Ok(tree) = Tree::decode(&bytes) {
            walk(&tree);
        }
    }
}

#[test]
fn every_word_of_a_small_tree_matters_or_is_harmless() {
    let bytes = Tree::build(&synthetic("2,2,0")).encode();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(tree) = Tree::decode(&damaged) {
                walk(&tree);
            }
        }
        assert_eq!(Tree::decode(&bytes[..at]), Err(DecodeError::Truncated));
    }
}
