//! The list in shards: what is pushed is popped once, and found wherever it is.

use std::num::NonZeroUsize;

use loom::sync::Arc;
use quartier_percore::ShardedList;

use crate::{model, on_cpu};

#[test]
fn what_one_cpu_pushes_another_finds() {
    model(|| {
        let list = Arc::new(ShardedList::new(NonZeroUsize::new(2).unwrap(), 1));
        list.push(1).unwrap();
        let other = Arc::clone(&list);
        let other = on_cpu(1, move || {
            let popped = other.pop();
            // There is room for two, and never are there more.
            other.push(2).unwrap();
            popped
        });
        let mine = list.pop();
        let others = other.join().unwrap();
        let mut all = list.take_all();
        all.extend([mine, others].into_iter().flatten());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn what_was_there_before_is_given_to_one_of_two() {
    model(|| {
        let list = Arc::new(ShardedList::new(NonZeroUsize::new(2).unwrap(), 2));
        list.push(1).unwrap();
        let other = Arc::clone(&list);
        let other = on_cpu(1, move || other.pop());
        let mine = list.pop();
        assert_eq!([mine, other.join().unwrap()].into_iter().flatten().collect::<Vec<_>>(), [1]);
    });
}
