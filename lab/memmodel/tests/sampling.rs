//! Sampled sets against all of them, fed with the same accesses.

mod common;

use std::sync::Arc;

use common::*;
use quartier_memmodel::geometry::Preset;
use quartier_memmodel::{
    Access, Cpu, Kind, Layout, Mode, Owner, Snapshot, System, SystemError, Translation,
};

/// Where the kernel has all memory.
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

const CPUS: usize = 4;

/// A machine of one CPU a node.
fn sampled(preset: Preset, one_in: u32) -> (Arc<System>, Vec<Cpu>) {
    let layout = Layout::uniform(CPUS as u16, 1, NODE);
    let system = System::new_sampled(preset.geometry().scaled_to(1), layout, one_in).unwrap();
    let mut cpus: Vec<_> = (0..CPUS).map(|cpu| system.cpu(cpu).unwrap()).collect();
    cpus.iter_mut().for_each(|cpu| cpu.attribute(Some(Owner::Program)));
    (system, cpus)
}

/// Virtual is physical, in pages of 4 KiB whose table entries are at the end of node 3.
fn walk(vaddr: u64) -> Option<Translation> {
    let paddr = if vaddr >= DIRECT_MAP { vaddr - DIRECT_MAP } else { vaddr };
    flat_small(paddr).map(|found| found.reading(3 * NODE + 48 * MIB + (paddr >> 12 << 3)))
}

/// Where the next access goes, of 2^64 places.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 16
    }
}

/// Each CPU on an array of another node, a common one, and code; so many steps.
fn user_work(cpus: &mut [Cpu], steps: u64, random: &mut Random) {
    for step in 0..steps {
        for (node, cpu) in cpus.iter_mut().enumerate() {
            let next = (node as u64 + 1) % CPUS as u64 * NODE;
            let mut access = |at, access| cpu.data(at, 8, access, Mode::User, &mut walk);
            access(next + step * 8 % (8 * MIB), Access::Load);
            access(next + 32 * MIB + random.next() % (4 * MIB), Access::Store);
            access(random.next() % MIB, Access::Load);
            let code = 16 * MIB + random.next() % 1024 * LINE;
            cpu.fetch_block(code, 24, 6, Mode::User, &mut walk);
        }
    }
}

/// Every CPU writes three lines of the kernel that all others write.
fn kernel_work(cpus: &mut [Cpu], steps: u64) {
    for step in 0..steps {
        for cpu in cpus.iter_mut() {
            let mut access = |line: u64, access| {
                cpu.data(DIRECT_MAP + 20 * MIB + line * LINE, 8, access, Mode::Kernel, &mut walk);
            };
            access(5, Access::Atomic);
            access(5 + step % 2 * 70, Access::Store);
            access(33, Access::Load);
        }
    }
}

fn both(preset: Preset, one_in: u32, work: impl Fn(&mut [Cpu])) -> [Snapshot; 2] {
    [1, one_in].map(|one_in| {
        let (system, mut cpus) = sampled(preset, one_in);
        work(&mut cpus);
        assert_eq!(system.audit(), Vec::<String>::new());
        system.snapshot()
    })
}

fn error_of_q([all, some]: &[Snapshot; 2]) -> f64 {
    let q = |snapshot: &Snapshot| snapshot.program.q_mib(&snapshot.geometry);
    (q(some) / q(all) - 1.0).abs()
}

#[test]
fn modelled_sets_are_as_if_none_were_left_out() {
    for preset in Preset::ALL {
        let [all, some] = both(preset, 8, |cpus| user_work(cpus, 20_000, &mut Random(1)));
        let (of_all, of_some) =
            (&all.program.remote_bytes_by_set, &some.program.remote_bytes_by_set);
        let modelled: Vec<_> = (0..64).filter(|&set| of_some[set] != 0).collect();
        assert_eq!(modelled.len(), 8);
        for set in modelled {
            assert_eq!(of_some[set], of_all[set], "{}: set {set}", preset.name());
        }
    }
}

#[test]
fn accesses_translations_and_instructions_are_counted_in_all_sets() {
    for preset in Preset::ALL {
        let [all, some] = both(preset, 16, |cpus| user_work(cpus, 20_000, &mut Random(2)));
        let exact = |snapshot: &Snapshot| {
            let totals = snapshot.program.totals();
            let misses = [totals.dtlb_misses, totals.itlb_misses, totals.second_tlb_hits];
            let walks = [totals.dtlb_walks, totals.itlb_walks, totals.table_reads];
            (totals.instructions, totals.data_accesses, misses, walks)
        };
        assert_eq!(exact(&some), exact(&all), "{}", preset.name());
    }
}

#[test]
fn one_set_in_eight_estimates_q_within_two_percent_and_within_the_error_it_states() {
    for preset in Preset::ALL {
        let work = |cpus: &mut [Cpu]| {
            user_work(cpus, 40_000, &mut Random(3));
            kernel_work(cpus, 2000);
        };
        let compared = both(preset, 8, work);
        let (error, name) = (error_of_q(&compared), preset.name());
        let stated = compared[1].q_standard_error(Owner::Program).unwrap();
        assert!(error <= 0.02, "{name}: off by {error}");
        assert!(stated <= 0.02 && error <= 3.0 * stated, "{name}: off by {error}, stated {stated}");
        let cycles = compared.map(|snapshot| snapshot.program.modelled_phase_cycles() as f64);
        assert!((cycles[1] / cycles[0] - 1.0).abs() <= 0.05, "{name}: {cycles:?} modelled cycles");
    }
}

/// A sample of sets would have each of these lines eight times, or not at all.
#[test]
fn lines_of_the_kernel_that_all_cpus_write_are_counted_as_they_are() {
    for preset in Preset::ALL {
        let [all, some] = both(preset, 8, |cpus| kernel_work(cpus, 5000));
        let of = |kind| [&all, &some].map(|of| of.program.commands(kind, None).remote as f64);
        for kind in [Kind::Write, Kind::Atomic] {
            let [all, some] = of(kind);
            assert!((some / all - 1.0).abs() <= 0.001, "{}: {some} of {all}", preset.name());
        }
    }
}

/// Asking first changes neither the order of translations nor what is counted.
#[test]
fn asking_first_whether_an_access_is_left_out_changes_no_count() {
    for preset in Preset::ALL {
        let run = |asks: bool| {
            let (system, mut cpus) = sampled(preset, 8);
            let mut random = Random(5);
            for step in 0..100_000_u64 {
                let pages = if step / 10_000 % 2 == 0 { 8 } else { 3000 };
                let at = random.next() % pages * 4096 + random.next() % 512 * 8;
                if !asks || !cpus[0].leaves_out(at, Access::Load) {
                    cpus[0].data(at, 8, Access::Load, Mode::User, &mut walk);
                }
            }
            cpus[0].attribute(None);
            system.snapshot().program
        };
        assert_eq!(run(true), run(false), "{}", preset.name());
    }
}

/// All that leaves is of one set: whoever models it, or does not, must say that little is known.
#[test]
fn sets_that_differ_state_a_large_error() {
    let [_, even] = both(Preset::Tsar, 8, |cpus| user_work(cpus, 20_000, &mut Random(4)));
    let stated = |offset: u64| {
        let (system, mut cpus) = sampled(Preset::Tsar, 8);
        for step in 0..4000 {
            let at = 2 * NODE + step % 512 * 4096 + offset * LINE;
            cpus[0].data(at, 8, Access::Load, Mode::User, &mut flat_small);
        }
        system.snapshot().q_standard_error(Owner::Program)
    };
    let known: Vec<_> = (0..8).filter_map(stated).collect();
    assert_eq!(known.len(), 1, "one of eight sets is modelled");
    assert!(known[0] > 0.5, "{known:?}");
    assert!(even.q_standard_error(Owner::Program).unwrap() < 0.05);
}

#[test]
fn a_run_that_is_not_sampled_has_no_error() {
    let (system, _cpus) = sampled(Preset::Tsar, 1);
    assert_eq!(system.snapshot().q_standard_error(Owner::Program), Some(0.0));
}

#[test]
fn a_sample_of_which_nobody_could_tell_the_error_is_refused() {
    let layout = || Layout::uniform(1, 1, NODE);
    for one_in in [0, 2, 3, 4, 8] {
        let error = System::new_sampled(small_home(), layout(), one_in).expect_err("of four sets");
        assert!(matches!(error, SystemError::Sets { nr_sets: 4, .. }), "{error}");
        assert!(error.to_string().ends_with("up to 1"), "{error}");
    }
    assert!(System::new_sampled(small_home(), layout(), 1).is_ok());
    for preset in Preset::ALL {
        assert!(System::new_sampled(preset.geometry(), layout(), 16).is_ok());
        let error = System::new_sampled(preset.geometry(), layout(), 32).expect_err("two sets");
        assert!(error.to_string().ends_with("up to 16"), "{error}");
    }
}
