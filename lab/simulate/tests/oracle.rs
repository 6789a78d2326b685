//! How near the tree comes to the oracle, with U and M every 10 ms.

mod common;

use common::{run, stage};
use quartier_simulate::choosers::ChooserName;
use quartier_simulate::loads::Load;
use quartier_simulate::machines::Shape;
use quartier_simulate::measures::Measures;
use quartier_simulate::period::Period;

const NR_NODES: usize = 128;
const NR_EVENTS: u64 = 8000;

fn measures(shape: Shape, load: Load) -> [Measures; 3] {
    let stage = stage(&format!("{}:{NR_NODES}", shape.name()));
    let trace = load.trace(stage.tree().nr_cpus(), NR_EVENTS, 1);
    [ChooserName::Dqdt, ChooserName::Oracle, ChooserName::TwoChoicesNear]
        .map(|name| run(&stage, &trace, name, Some(Period::from_ms(10))).measures)
}

/// The strictest reading: imbalance itself is at most a tenth larger, and so is the deviation.
#[test]
fn a_steady_load_is_within_a_tenth_of_the_oracle_on_every_shape() {
    for shape in Shape::ALL {
        let [tree, oracle, two_choices] = measures(shape, Load::Steady);
        let limit = |value: f64| 1.1 * value;
        assert!(tree.imbalance_percent <= limit(oracle.imbalance_percent), "{shape:?}: {tree:?}");
        assert!(tree.threads_deviation <= limit(oracle.threads_deviation), "{shape:?}: {tree:?}");
        // The comparison means something: others are far from it.
        assert!(two_choices.imbalance_percent > 5.0, "{shape:?}: {two_choices:?}");
        let [tree, two_choices] = [tree, two_choices].map(|of| of.thread_distance.unwrap());
        assert!(tree < two_choices, "{shape:?}: {tree} {two_choices}");
    }
}

/// What threads get, also where they are more than CPUs and U is ten milliseconds old.
#[test]
fn threads_get_nine_tenths_of_the_cpu_time_that_the_oracle_gives_under_every_load() {
    for shape in Shape::ALL {
        for load in Load::ALL {
            let [tree, oracle, _] = measures(shape, load);
            let percent = tree.cpu_time_percent_of(&oracle);
            assert!(percent >= 90.0, "{shape:?}, {load}: {percent:.1} %");
        }
    }
}
