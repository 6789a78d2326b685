//! A hit allocates nothing, and neither does a counted command once its row is there.

mod common;

use common::*;
use quartier_memmodel::Mode;

#[test]
fn hits_allocate_nothing() {
    for geometry in [small_home(), small_with_l2()] {
        let (_system, mut cpus) = machine(geometry, 2, 1);
        let cpu = &mut cpus[0];
        let mut pass = || {
            (0..8).for_each(|line| load(cpu, line * LINE));
            cpu.fetch_block(KIB, 64, 16, Mode::User, &mut flat);
        };
        pass();
        let info = allocation_counter::measure(|| (0..100).for_each(|_| pass()));
        assert_eq!(info.count_total, 0);
    }
}

#[test]
fn reads_that_leave_the_cpu_allocate_nothing_once_the_caches_are_full() {
    let (_system, mut cpus) = machine(small_home(), 2, 1);
    let mut sweep = || (0..1024).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    sweep();
    sweep();
    assert_eq!(allocation_counter::measure(sweep).count_total, 0);
}
