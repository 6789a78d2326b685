//! What a program would do without the tree.

mod hwloc;
mod scan;
mod walk;

use quartier_model::CpuId;

pub use hwloc::{Absent, Hwloc};
pub use scan::{Packed, Padded, Scan};
pub use walk::Walk;

/// Another way to choose a CPU for a new thread.
pub trait Rival {
    /// The least loaded CPU, and of these the nearest to the creator.
    fn choose(&self, creator: CpuId) -> CpuId;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Load, Shape};
    use crate::world::Worlds;
    use quartier_decide::policy::decide;

    /// Every CPU is found idle by all or by none.
    #[test]
    fn the_tree_and_its_rivals_agree_whether_a_cpu_is_idle() {
        let worlds = Worlds::default();
        let shape = Shape::of_height(3);
        let hwloc = Hwloc::open().ok();
        for load in Load::ALL.into_iter().chain([Load::AllButLast]) {
            let world = worlds.world(shape, load).unwrap();
            let mut rivals: Vec<Box<dyn Rival>> = vec![
                Box::new(Scan::<Packed>::new(shape, &world.nr_threads)),
                Box::new(Scan::<Padded>::new(shape, &world.nr_threads)),
            ];
            let topology = hwloc.as_ref().map(|hwloc| hwloc.topology(&shape.hwloc_spec()).unwrap());
            rivals.extend(topology.map(|topology| {
                Box::new(Walk::new(topology, &world.nr_threads)) as Box<dyn Rival>
            }));
            let is_any_idle = world.nr_threads.contains(&0);
            for nr in 0..200 {
                let decision = decide(&world.shared.estimates(), &world.request(nr)).unwrap();
                let mut chosen = vec![decision.cpu];
                chosen.extend(rivals.iter().map(|rival| rival.choose(world.creator(nr))));
                for cpu in chosen {
                    assert_eq!(world.nr_threads[cpu.index()] == 0, is_any_idle, "{load}: {cpu:?}");
                }
            }
        }
    }

    /// A scan and a walk both find the nearest of the idle ones.
    #[test]
    fn rivals_are_as_near_as_each_other() {
        let shape = Shape::of_height(3);
        let Ok(hwloc) = Hwloc::open() else { return };
        let node = |cpu: CpuId| cpu.0 / shape.cpus_per_node;
        for load in Load::ALL {
            let world = Worlds::default().world(shape, load).unwrap();
            let scan = Scan::<Packed>::new(shape, &world.nr_threads);
            let topology = hwloc.topology(&shape.hwloc_spec()).unwrap();
            let walk = Walk::new(topology, &world.nr_threads);
            for nr in 0..200 {
                let creator = world.creator(nr);
                let distance =
                    |rival: &dyn Rival| shape.distance(node(creator), node(rival.choose(creator)));
                assert_eq!(distance(&scan), distance(&walk), "{load}: {creator:?}");
            }
        }
    }
}
