//! How much host memory the model takes, as its documentation says.

mod common;

use common::*;
use quartier_memmodel::geometry::Preset;

#[test]
fn a_cpu_takes_what_the_documentation_says() {
    for (preset, nr_bytes) in [(Preset::Tsar, 17 * KIB), (Preset::Server, 370 * KIB)] {
        let (_system, cpus) = machine(preset.geometry().scaled_to(1), 2, 1);
        let taken = cpus[0].nr_bytes() as u64;
        let name = preset.name();
        assert!((nr_bytes * 9 / 10..=nr_bytes).contains(&taken), "{name}: {taken} bytes");
    }
}

#[test]
fn a_directory_is_bounded_by_the_caches() {
    let (system, mut cpus) = machine(small_home(), 2, 2);
    let mut sweep = |nr_lines: u64| {
        for cpu in &mut cpus {
            (0..nr_lines).for_each(|line| load(cpu, line * LINE));
        }
        system.nr_bytes()
    };
    let once = sweep(4096);
    assert_eq!(sweep(8 * 4096), once, "8 times the lines take no more");
}
