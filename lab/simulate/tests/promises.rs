//! What the tree promises, at every decision of every load.

mod common;

use common::{run, scripted, stage};
use quartier_decide::dqdt::{Allowed, ClusterId};
use quartier_decide::policy::visits_max;
use quartier_simulate::choosers::{ChooserName, Kind};
use quartier_simulate::loads::Load;
use quartier_simulate::period::Period;

const MACHINES: [&str; 5] = ["8x8", "uniform:32", "mesh:36", "sockets:32", "uneven:32"];
const PERIOD: Period = Period::from_ms(10);

#[test]
fn nothing_is_left_counted() {
    for machine in ["8x8", "uneven:32"] {
        let stage = stage(machine);
        for load in Load::ALL {
            let trace = load.trace(stage.tree().nr_cpus(), 1000, 3);
            for name in ChooserName::ALL {
                let outcome = run(&stage, &trace, name, Some(PERIOD));
                assert_eq!(outcome.nr_left, 0, "{machine}, {load}, {name}");
                assert_eq!(outcome.placed.len(), trace.lives.len());
            }
        }
    }
}

/// With fewer threads than CPUs a new thread and a forked process have a CPU alone.
#[test]
fn no_cpu_is_shared_while_threads_are_fewer_than_cpus() {
    for machine in MACHINES {
        let stage = stage(machine);
        let allowed = Allowed::all(stage.tree());
        for load in Load::ALL {
            let trace = load.trace(stage.tree().nr_cpus(), 2000, 3);
            let mut tree = ChooserName::Dqdt.chooser(&allowed, stage.free_pages_min(), 1);
            let mut nr_alone = 0;
            let mut watch = scripted(|request, truth, estimates| {
                let choice = tree.choose(request, truth, estimates);
                assert!(choice.reads <= visits_max(stage.tree()), "{machine}, {load}");
                let nr_threads = estimates.nr_threads(ClusterId::ROOT) as usize;
                // A program may share one: where no idle CPU's node has memory, the second attempt goes
                // by U of the last refresh.
                let is_promised = request.kind != Kind::Exec;
                if is_promised && nr_threads < stage.tree().nr_cpus() {
                    let there = estimates.nr_threads_on(choice.cpu);
                    assert_eq!(there, 0, "{machine}, {load}, {request:?}");
                    nr_alone += 1;
                }
                choice.cpu
            });
            let _ = stage.run(&trace, &mut watch, Some(PERIOD));
            assert!(nr_alone > 20, "{machine}, {load}: {nr_alone}");
        }
    }
}
