//! A decision may run inside another program's `pthread_create`: it must not allocate.

use quartier_decide::dqdt::{Allowed, Estimates, Tree};
use quartier_decide::policy::{Thread, decide_and_count};
use quartier_model::{CpuId, SyntheticSpec};

#[test]
fn a_decision_allocates_nothing() {
    let tree = Tree::build(&SyntheticSpec::uniform(64, 8).machine().unwrap());
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let every_third = Allowed::new(&tree, (0..512).step_by(3).map(CpuId));
    let allocations = allocation_counter::measure(|| {
        for creator in 0..600 {
            let request = Thread::new(Some(CpuId(creator)), &every_third);
            let decision = decide_and_count(&estimates, &request).unwrap();
            if creator % 2 == 0 {
                estimates.remove_thread(decision.cpu).unwrap();
            }
        }
    });
    assert_eq!(allocations.count_total, 0);
}
