//! What a program would do without the tree, under the same loads.

use std::hint::black_box;

use crate::cases::decision::{Decider, decision_name};
use crate::cases::{Bench, Case, Outcome, Part};
use crate::rivals::{Packed, Padded, Rival, Scan, Walk};
use crate::shape::{Load, Shape};

/// The rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Counters side by side.
    Packed,
    /// Counters of a cache line each.
    Padded,
    /// hwloc's tree.
    Walk,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Packed, Self::Padded, Self::Walk];

    fn name(self) -> &'static str {
        match self {
            Self::Packed => "scan, packed counters",
            Self::Padded => "scan, a line each",
            Self::Walk => "hwloc walk",
        }
    }

    /// With the counters of a load; or why it cannot be.
    fn make(
        self,
        bench: &Bench,
        shape: Shape,
        load: Load,
    ) -> anyhow::Result<Result<Box<dyn Rival>, String>> {
        let nr_threads = &bench.worlds.world(shape, load)?.nr_threads;
        Ok(match self {
            Self::Packed => Ok(Box::new(Scan::<Packed>::new(shape, nr_threads))),
            Self::Padded => Ok(Box::new(Scan::<Padded>::new(shape, nr_threads))),
            Self::Walk => {
                let hwloc = bench.hwloc.clone();
                let topology = hwloc.and_then(|hwloc| hwloc.topology(&shape.hwloc_spec()));
                let topology = topology.map_err(|absent| absent.to_string());
                topology.map(|topology| Box::new(Walk::new(topology, nr_threads)) as Box<dyn Rival>)
            }
        })
    }
}

pub(super) fn cases() -> Vec<Case> {
    let of_load = |load| {
        let to = decision_name(Decider::Decide, load, false);
        Kind::ALL.map(|kind| {
            let name = format!("{}, {load}", kind.name());
            let case = case(Part::Rival, name, kind, Shape::TARGET, load);
            Case { compared_to: Some(to.clone()), ..case }
        })
    };
    Load::ALL.into_iter().flat_map(of_load).collect()
}

/// One rival, made when it first runs.
pub(super) fn case(part: Part, name: String, kind: Kind, shape: Shape, load: Load) -> Case {
    let mut made = None;
    let run = Box::new(move |bench: &Bench| {
        let rival = match &mut made {
            Some(rival) => rival,
            None => made.insert(kind.make(bench, shape, load)?),
        };
        let rival = match rival {
            Ok(rival) => black_box(rival),
            Err(absent) => return Ok(Outcome::Unknown(absent.clone())),
        };
        let world = bench.worlds.world(shape, load)?;
        let choose = |nr| rival.choose(world.creator(nr));
        Ok(Outcome::Measured(bench.clock.sample(bench.effort, choose, |_| ())))
    });
    Case { part, name, compared_to: None, point: None, run }
}
