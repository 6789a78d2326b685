//! The made-up machines and their loads.

use std::fmt;

use quartier_model::{CpuId, Distance, Machine, SyntheticSpec};

/// CPUs of a leaf, and members of every group.
const FANOUT: u32 = 4;

/// The highest tree that is measured: 1024 nodes of two leaves each.
pub const HEIGHT_MAX: u32 = 6;

/// A machine whose nodes lie in groups of four, these in groups of four, and so on. Each group further
/// up is a step further away, so the tree, hwloc's groups and the distances say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Steps from a node to the whole.
    nr_steps: u32,
    /// Of each node.
    pub cpus_per_node: u32,
}

impl Shape {
    /// The machine that the targets are about: 1024 nodes of four CPUs.
    pub const TARGET: Self = Self::of_height(5);

    /// The machine whose tree has this height.
    pub const fn of_height(height: u32) -> Self {
        // A machine has at most 1024 nodes: the sixth level is inside them.
        match height {
            HEIGHT_MAX => Self { nr_steps: HEIGHT_MAX - 1, cpus_per_node: 2 * FANOUT },
            _ => Self { nr_steps: height, cpus_per_node: FANOUT },
        }
    }

    /// Nodes.
    pub fn nr_nodes(self) -> u32 {
        FANOUT.pow(self.nr_steps)
    }

    /// CPUs.
    pub fn nr_cpus(self) -> u32 {
        self.nr_nodes() * self.cpus_per_node
    }

    /// SLIT distance between two nodes.
    pub fn distance(self, from: u32, to: u32) -> u8 {
        let (mut from, mut to, mut nr_steps) = (from, to, 0);
        while from != to {
            (from, to, nr_steps) = (from / FANOUT, to / FANOUT, nr_steps + 1);
        }
        Distance::LOCAL.0 + 10 * nr_steps
    }

    /// The machine.
    pub fn machine(self) -> Machine {
        let nodes = || 0..self.nr_nodes();
        let row = |from| nodes().map(|to| Distance(self.distance(from, to))).collect();
        let uniform = SyntheticSpec::uniform(self.nr_nodes() as usize, self.cpus_per_node);
        let spec = SyntheticSpec { distances: nodes().map(row).collect(), ..uniform };
        spec.machine().expect("no more nodes and CPUs than a machine may have")
    }

    /// The same for hwloc: groups, nodes, CPUs.
    pub fn hwloc_spec(self) -> String {
        let groups = "group:4 ".repeat(self.nr_steps as usize - 1);
        format!("{groups}numa:4 pu:{}", self.cpus_per_node)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.nr_nodes(), self.cpus_per_node)
    }
}

/// Which CPUs have a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// So many of a hundred, at random places.
    Percent(u32),
    /// All but one, at a random place.
    AllButOne,
    /// All but the last one of the machine.
    AllButLast,
}

impl Load {
    /// Those under which decisions are measured.
    pub const ALL: [Self; 5] = [
        Self::Percent(0),
        Self::Percent(50),
        Self::Percent(90),
        Self::AllButOne,
        Self::Percent(100),
    ];

    /// The CPUs. The same every time.
    pub fn taken(self, shape: Shape) -> Vec<CpuId> {
        let nr_cpus = shape.nr_cpus();
        let mut cpus: Vec<_> = (0..nr_cpus).map(CpuId).collect();
        if self != Self::AllButLast {
            fastrand::Rng::with_seed(u64::from(nr_cpus)).shuffle(&mut cpus);
        }
        cpus.truncate(match self {
            Self::Percent(percent) => nr_cpus * percent / 100,
            Self::AllButOne | Self::AllButLast => nr_cpus - 1,
        } as usize);
        cpus
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent} % taken"),
            Self::AllButOne => f.write_str("one CPU idle"),
            Self::AllButLast => f.write_str("last CPU idle"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_decide::dqdt::Tree;

    #[test]
    fn the_tree_of_a_height_has_that_height() {
        for height in 1..=HEIGHT_MAX {
            let shape = Shape::of_height(height);
            let tree = Tree::build(&shape.machine());
            assert_eq!(u32::from(tree.height()), height, "{shape}");
            assert_eq!(tree.nr_cpus() as u32, shape.nr_cpus(), "{shape}");
        }
        assert_eq!(Shape::TARGET.to_string(), "1024x4");
    }

    #[test]
    fn distances_grow_with_each_group() {
        let shape = Shape::of_height(3);
        assert_eq!([0, 3, 4, 16].map(|to| shape.distance(0, to)), [10, 20, 30, 40]);
        assert_eq!(shape.distance(63, 0), 40);
    }

    #[test]
    fn a_load_takes_what_it_says() {
        let shape = Shape::of_height(2);
        let lens = Load::ALL.map(|load| load.taken(shape).len());
        assert_eq!(lens, [0, 32, 57, 63, 64]);
        assert!(!Load::AllButLast.taken(shape).contains(&CpuId(63)));
        assert_eq!(shape.hwloc_spec(), "group:4 numa:4 pu:4");
    }
}
