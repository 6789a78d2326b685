//! The order in which a CNA lock is handed over, without threads: waiters enter, and the holder releases.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::property::tries;

/// A lock and those who came, in their order.
struct World {
    caller: Rc<Cell<usize>>,
    lock: CnaLock<Box<dyn Fn() -> usize>>,
    /// The queues point to them; they stay where they are while the vector grows.
    nodes: Vec<Rc<CnaNode>>,
    /// Who holds it.
    holder: Option<usize>,
    released: Vec<usize>,
}

impl World {
    fn new(local_max: u32) -> Self {
        let caller = Rc::new(Cell::new(0));
        let told = Rc::clone(&caller);
        let node_of_caller: Box<dyn Fn() -> usize> = Box::new(move || told.get());
        let lock = CnaLock::with(node_of_caller, local_max);
        Self { caller, lock, nodes: Vec::new(), holder: None, released: Vec::new() }
    }

    fn come(&mut self, numa_node: usize) {
        self.caller.set(numa_node);
        let node = Rc::new(CnaNode::default());
        if self.lock.enter(&node) {
            assert_eq!(self.holder, None);
            self.holder = Some(self.nodes.len());
        }
        self.nodes.push(node);
    }

    fn release(&mut self) {
        let holder = self.holder.take().unwrap();
        // SAFETY: it holds the lock; nodes stay.
        unsafe { self.lock.release(&self.nodes[holder]) };
        self.released.push(holder);
        let is_granted = |at: &usize| !self.nodes[*at].granted.load(Acquire).is_null();
        let granted: Vec<_> = (0..self.nodes.len())
            .filter(|at| !self.released.contains(at) && is_granted(at))
            .collect();
        assert!(granted.len() <= 1, "{granted:?} all hold it");
        self.holder = granted.first().copied();
        let is_forgotten = self.holder.is_none() && self.released.len() < self.nodes.len();
        assert!(!is_forgotten, "somebody waits and nobody holds it");
    }

    fn release_all(&mut self) -> &[usize] {
        while self.holder.is_some() {
            self.release();
        }
        &self.released
    }
}

fn order(local_max: u32, numa_nodes: &[usize]) -> Vec<usize> {
    let mut world = World::new(local_max);
    numa_nodes.iter().for_each(|node| world.come(*node));
    world.release_all().to_vec()
}

#[test]
fn the_holders_node_goes_first() {
    assert_eq!(order(100, &[0, 1, 0, 1, 0, 1]), [0, 2, 4, 1, 3, 5]);
    assert_eq!(order(100, &[0, 1, 2, 1, 2, 0]), [0, 5, 1, 3, 2, 4]);
}

#[test]
fn after_the_bound_the_others_have_their_turn() {
    assert_eq!(order(1, &[0, 1, 0, 1, 0, 1]), [0, 2, 1, 3, 5, 4]);
    assert_eq!(order(0, &[0, 1, 0, 1, 0]), [0, 1, 2, 3, 4], "an MCS lock");
}

/// New ones of the holder's node come for ever; who waits elsewhere gets the lock all the same.
#[test]
fn whoever_waits_is_overtaken_no_more_often_than_the_bound_says() {
    let mut world = World::new(3);
    world.come(0);
    world.come(1);
    for _ in 0..100 {
        world.come(0);
        world.release();
    }
    let place = world.released.iter().position(|at| *at == 1).unwrap();
    // After the first holder come three of node 0.
    assert_eq!(place, 4);
}

proptest! {
    #![proptest_config(tries(512))]

    /// Some come, some release, in any order: everybody gets it once, those of a node in their order, and
    /// nobody is overtaken more often than is said.
    #[test]
    fn everybody_gets_it_once_and_in_bounded_time(
        local_max in 0_u32..5,
        steps in prop::collection::vec(prop::option::of(0_usize..3), 0..120),
    ) {
        let mut world = World::new(local_max);
        let (mut numa_nodes, mut nr_before) = (Vec::new(), Vec::new());
        for step in steps {
            if let Some(numa_node) = step {
                nr_before.push(numa_nodes.len() - world.released.len());
                numa_nodes.push(numa_node);
                world.come(numa_node);
            } else if world.holder.is_some() {
                world.release();
            }
        }
        let released = world.release_all();
        prop_assert_eq!(released.len(), numa_nodes.len());
        for (place, &who) in released.iter().enumerate() {
            let overtook = released[..place].iter().filter(|earlier| **earlier > who);
            let same_node = overtook.clone().any(|other| numa_nodes[*other] == numa_nodes[who]);
            prop_assert!(!same_node, "{:?}", released);
            // The holder is one of those who were before it.
            let bound = nr_before[who] * local_max as usize;
            prop_assert!(overtook.count() <= bound, "{} of {:?}", who, released);
        }
    }
}
