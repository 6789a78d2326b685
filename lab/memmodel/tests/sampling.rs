//! Sampling in time: what is skipped, warmed up and measured, and the error that is stated.

mod common;

use common::*;
use quartier_memmodel::geometry::Preset;
use quartier_memmodel::{Cpu, Layout, Mode, Owner, Phase, System, SystemError, Windows};

#[test]
fn what_is_skipped_is_dropped_and_what_is_warmed_up_is_not_counted() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    let cpu = &mut cpus[0];
    cpu.sample(Phase::Skipped);
    cpu.fetch_block(NODE, 4, 60, Mode::User, &mut flat);
    load(cpu, NODE);
    cpu.sample(Phase::WarmUp);
    cpu.retire(30);
    load(cpu, NODE + 64);
    cpu.sample(Phase::Measured);
    cpu.retire(10);
    load(cpu, NODE + 64);
    load(cpu, NODE);
    let counts = program(&system);
    let totals = counts.totals();
    assert_eq!((totals.instructions, totals.sampled_instructions), (100, 10));
    assert_eq!((totals.fetches, totals.data_accesses, totals.memory_reads), (0, 2, 1));
    assert_eq!(counts.scale(), Some(10.0));
}

/// A program whose misses come and go: 1 to 16 new lines per hundred instructions.
fn work(cpu: &mut Cpu, step: u64) {
    cpu.retire(100);
    let nr_lines = 1 + step / 40 % 16;
    (0..nr_lines).for_each(|line| load(cpu, NODE + (step * 16 + line) * LINE % NODE));
}

const STEPS: u64 = 150_000;

fn sampled(period: u64, measured: u64) -> (std::sync::Arc<System>, Windows) {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    let mut windows = Windows::default();
    let mut before = system.snapshot();
    for step in 0..STEPS {
        let phase = if step % period < measured { Phase::Measured } else { Phase::Skipped };
        cpus[0].sample(phase);
        work(&mut cpus[0], step);
        if step % period == measured {
            let after = system.snapshot();
            windows.add(&after.since(&before).unwrap());
            before = after;
        }
    }
    (system, windows)
}

#[test]
fn one_window_in_ten_estimates_q_within_two_percent_and_within_the_error_it_states() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    (0..STEPS).for_each(|step| work(&mut cpus[0], step));
    let q = program(&system).q_mib(system.geometry());
    // A period that is no multiple of the program's own.
    let (_, windows) = sampled(97, 9);
    let estimate = windows.estimate(STEPS * 100).unwrap();
    let error = (estimate.q_mib / q - 1.0).abs();
    assert!(error <= 0.02, "{estimate:?} for {q}");
    assert!(error <= 3.0 * estimate.standard_error, "{estimate:?} for {q}");
    assert!(estimate.standard_error < 0.02, "{estimate:?}");
    assert_eq!(estimate.nr_windows as u64, STEPS.div_ceil(97));
}

#[test]
fn fewer_windows_state_a_larger_error() {
    let error = |period, measured| {
        sampled(period, measured).1.estimate(STEPS * 100).unwrap().standard_error
    };
    let (few, many) = (error(9700, 9), error(97, 9));
    assert!(few > 5.0 * many, "{few} and {many}");
}

#[test]
fn without_two_windows_there_is_no_error_to_state() {
    assert_eq!(Windows::default().estimate(100), None);
    let (system, mut cpus) = machine(small_home(), 2, 1);
    let before = system.snapshot();
    work(&mut cpus[0], 0);
    let mut windows = Windows::default();
    windows.add(&system.snapshot().since(&before).unwrap());
    assert_eq!(windows.estimate(100), None);
}

/// Four CPUs on an array each and a common one, from pages of 4 KiB; Q scaled.
fn q_of_sets(preset: Preset, one_in: u32) -> f64 {
    let layout = Layout::uniform(4, 1, NODE);
    let system = System::new_sampled(preset.geometry().scaled_to(1), layout, one_in).unwrap();
    let mut cpus: Vec<_> = (0..4).map(|cpu| system.cpu(cpu).unwrap()).collect();
    cpus.iter_mut().for_each(|cpu| cpu.attribute(Some(Owner::Program)));
    let mut random = 1_u64;
    for step in 0..20_000_u64 {
        for (node, cpu) in cpus.iter_mut().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let next = (node as u64 + 1) % 4 * NODE;
            let mut access = |at, access| cpu.data(at, 8, access, Mode::User, &mut walk);
            access(next + step * 8 % (8 * MIB), quartier_memmodel::Access::Load);
            access(next + 32 * MIB + (random >> 42), quartier_memmodel::Access::Store);
            access((random >> 20) % MIB, quartier_memmodel::Access::Load);
            cpu.retire(6);
        }
    }
    assert_eq!(system.audit(), Vec::<String>::new());
    system.snapshot().q_mib_scaled(Owner::Program).unwrap()
}

fn walk(vaddr: u64) -> Option<quartier_memmodel::Translation> {
    flat_small(vaddr).map(|found| found.reading(3 * NODE + 48 * MIB + (vaddr >> 12 << 3)))
}

#[test]
fn one_set_in_four_estimates_q_within_two_percent() {
    for preset in Preset::ALL {
        let (all, some) = (q_of_sets(preset, 1), q_of_sets(preset, 4));
        assert!((some / all - 1.0).abs() <= 0.02, "{}: {some} for {all} MiB", preset.name());
    }
}

#[test]
fn more_sets_than_the_smallest_cache_has_cannot_be_left_out() {
    let refuse = |one_in| System::new_sampled(small_home(), Layout::uniform(1, 1, NODE), one_in);
    for one_in in [0, 3, 8] {
        let error = refuse(one_in).expect_err("there are four sets");
        assert!(matches!(error, SystemError::Sets { nr_sets: 4, .. }), "{error}");
    }
    assert!(refuse(4).is_ok());
}
