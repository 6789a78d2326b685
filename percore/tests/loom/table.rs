//! The table: what a change has returned from is seen on every CPU.

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use quartier_percore::PerCpuTable;

use crate::{model, on_cpu};

type Hasher = BuildHasherDefault<DefaultHasher>;

fn table() -> Arc<PerCpuTable<u8, u8, Hasher>> {
    let table = PerCpuTable::with_hasher(1, Hasher::default());
    table.insert(1, 10);
    Arc::new(table)
}

#[test]
fn a_change_that_has_returned_is_seen() {
    model(|| {
        let (table, is_changed) = (table(), Arc::new(AtomicBool::new(false)));
        let (other, told) = (Arc::clone(&table), Arc::clone(&is_changed));
        let other = on_cpu(1, move || {
            other.insert(1, 11);
            told.store(true, Ordering::Release);
        });
        // Copied before, meanwhile or after.
        let before = table.get(&1).unwrap();
        assert!(before == 10 || before == 11);
        let must_be_new = is_changed.load(Ordering::Acquire) || before == 11;
        let after = table.get(&1).unwrap();
        assert!(after == 11 || !must_be_new);
        other.join().unwrap();
        assert_eq!(table.get(&1), Some(11));
    });
}

#[test]
fn two_of_one_cpu_never_share_a_copy() {
    model(|| {
        let table = table();
        assert_eq!(table.get(&1), Some(10));
        let other = Arc::clone(&table);
        let other = on_cpu(0, move || {
            assert_eq!(other.get(&2), None);
            assert_eq!(other.get(&1), Some(10));
        });
        assert_eq!(table.with(&1, |ten| ten + 1), Some(11));
        assert_eq!(table.get(&2), None);
        other.join().unwrap();
    });
}
