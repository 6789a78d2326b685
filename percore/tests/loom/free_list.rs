//! The free list: what is pushed is popped once.

use loom::sync::Arc;
use quartier_percore::FreeList;

use crate::{model, on_cpu};

fn pushes_while_another_pops(others_cpu: usize) {
    model(move || {
        let list = Arc::new(FreeList::new(2, 2));
        list.push(1).unwrap();
        let other = Arc::clone(&list);
        let other = on_cpu(others_cpu, move || {
            other.push(2).unwrap();
            other.pop()
        });
        let mine = list.pop();
        let others = other.join().unwrap();
        let mut all: Vec<_> = list.take_all();
        all.extend([mine, others].into_iter().flatten());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn on_one_cpu() {
    pushes_while_another_pops(0);
}

#[test]
fn on_two_cpus() {
    pushes_while_another_pops(1);
}
