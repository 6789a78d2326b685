//! Machines of several shapes, up to 1024 nodes of four CPUs (on average).

use std::fmt;
use std::str::FromStr;

use quartier_model::{Bytes, Distance, Machine, NODES_MAX, SyntheticError, SyntheticSpec};
use thiserror::Error;

/// How nodes lie to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every node is as far from every other.
    Uniform,
    /// A square of nodes; distances by hops.
    Mesh,
    /// Sockets of four nodes, with two distances: inside a socket and between sockets.
    Sockets,
    /// A ring of sockets that is longer in one direction than in the other, of nodes that differ in
    /// CPUs and memory; some have none.
    Uneven,
}

/// A machine to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineSpec {
    /// One of the shapes with so many nodes.
    Shape(Shape, usize),
    /// As `quartier topo --synthetic` takes it.
    Synthetic(SyntheticSpec),
}

/// Why a text is no machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum MachineError {
    #[error(
        "`{0}` is no machine: write uniform, mesh, sockets or uneven, with fewer nodes as mesh:64, \
         or NODESxCPUS"
    )]
    Unknown(String),
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
}

const CPUS_PER_NODE: u32 = 4;
const SLIT_PER_HOP: usize = 3;
const NODES_PER_SOCKET: usize = 4;
const SLIT_IN_SOCKET: u8 = 12;
const SLIT_BETWEEN_SOCKETS: u8 = 32;

/// CPUs and GiB of the nodes of one socket of [`Shape::Uneven`]. The third has memory only, the fourth
/// and the seventh CPUs only.
const UNEVEN: [(u32, u64); 8] = [(4, 1), (8, 2), (0, 4), (2, 0), (4, 1), (1, 1), (6, 0), (7, 2)];
const SLIT_IN_UNEVEN_SOCKET: usize = 12;
const SLIT_OUT_OF_UNEVEN_SOCKET: usize = 20;

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Mesh, Self::Sockets, Self::Uneven];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Mesh => "mesh",
            Self::Sockets => "sockets",
            Self::Uneven => "uneven",
        }
    }

    fn spec(self, nr_nodes: usize) -> SyntheticSpec {
        let rows = |distance: &dyn Fn(usize, usize) -> usize| -> Vec<Vec<Distance>> {
            let cell = |from: usize, to: usize| {
                let distance = if from == to { 10 } else { distance(from, to) };
                Distance(distance.min(usize::from(Distance::UNREACHABLE.0) - 1) as u8)
            };
            (0..nr_nodes).map(|from| (0..nr_nodes).map(|to| cell(from, to)).collect()).collect()
        };
        let even = SyntheticSpec::uniform(nr_nodes, CPUS_PER_NODE);
        match self {
            Self::Uniform => even,
            Self::Mesh => {
                let width = nr_nodes.isqrt().max(1);
                SyntheticSpec { distances: rows(&|from, to| mesh(width, from, to)), ..even }
            }
            Self::Sockets => SyntheticSpec { distances: rows(&sockets), ..even },
            Self::Uneven => {
                let nodes = || (0..nr_nodes).map(|node| UNEVEN[node % UNEVEN.len()]);
                SyntheticSpec {
                    cpus: nodes().map(|(cpus, _)| cpus).collect(),
                    memory: nodes().map(|(_, gib)| Bytes(gib << 30)).collect(),
                    distances: rows(&|from, to| uneven(nr_nodes, from, to)),
                }
            }
        }
    }
}

fn mesh(width: usize, from: usize, to: usize) -> usize {
    let hops = (from / width).abs_diff(to / width) + (from % width).abs_diff(to % width);
    10 + SLIT_PER_HOP * hops
}

fn sockets(from: usize, to: usize) -> usize {
    let is_same = from / NODES_PER_SOCKET == to / NODES_PER_SOCKET;
    usize::from(if is_same { SLIT_IN_SOCKET } else { SLIT_BETWEEN_SOCKETS })
}

/// A step forwards costs one, a step backwards two.
fn uneven(nr_nodes: usize, from: usize, to: usize) -> usize {
    let nr_sockets = nr_nodes.div_ceil(UNEVEN.len());
    let (from, to) = (from / UNEVEN.len(), to / UNEVEN.len());
    let forwards = (to + nr_sockets - from) % nr_sockets;
    match forwards {
        0 => SLIT_IN_UNEVEN_SOCKET,
        _ => SLIT_OUT_OF_UNEVEN_SOCKET + forwards.min(2 * (nr_sockets - forwards)),
    }
}

impl MachineSpec {
    /// Every shape with 1024 nodes.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Shape::ALL.map(|shape| Self::Shape(shape, NODES_MAX)).into()
    }

    /// Makes it.
    ///
    /// # Errors
    /// When there are no nodes or CPUs, or too many.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        let machine = match self {
            Self::Shape(_, nr_nodes) if *nr_nodes > NODES_MAX => {
                Err(SyntheticError::Nodes(*nr_nodes))
            }
            Self::Shape(shape, nr_nodes) => shape.spec(*nr_nodes).machine(),
            Self::Synthetic(spec) => spec.machine(),
        };
        Ok(machine?)
    }
}

impl FromStr for MachineSpec {
    type Err = MachineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || MachineError::Unknown(text.chars().take(80).collect());
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(Self::Synthetic(text.parse()?));
        }
        let (name, nr_nodes) = match text.split_once(':') {
            Some((name, nodes)) => (name, nodes.parse().map_err(|_| unknown())?),
            None => (text, NODES_MAX),
        };
        let shape = Shape::ALL.into_iter().find(|shape| shape.name() == name);
        Ok(Self::Shape(shape.ok_or_else(unknown)?, nr_nodes))
    }
}

impl fmt::Display for MachineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(shape, NODES_MAX) => f.write_str(shape.name()),
            Self::Shape(shape, nr_nodes) => write!(f, "{}:{nr_nodes}", shape.name()),
            Self::Synthetic(spec) => spec.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_model::NodeId;

    fn machine(text: &str) -> Machine {
        text.parse::<MachineSpec>().unwrap().machine().unwrap()
    }

    fn distance(machine: &Machine, from: u32, to: u32) -> u8 {
        machine.distance(NodeId(from), NodeId(to)).0
    }

    #[test]
    fn every_shape_has_about_four_cpus_a_node() {
        for shape in Shape::ALL {
            let machine = machine(&format!("{}:64", shape.name()));
            assert_eq!((machine.nodes().len(), machine.cpus().len()), (64, 256), "{shape:?}");
        }
    }

    #[test]
    fn distances_are_those_of_the_shape() {
        let mesh = machine("mesh:64");
        assert_eq!(
            [(0, 0), (0, 1), (0, 8), (0, 63)].map(|(a, b)| distance(&mesh, a, b)),
            [10, 13, 13, 52]
        );
        let sockets = machine("sockets:16");
        assert_eq!([(0, 3), (0, 4)].map(|(a, b)| distance(&sockets, a, b)), [12, 32]);
        let uneven = machine("uneven:64");
        assert_eq!(
            [(0, 7), (0, 8), (8, 0), (0, 40)].map(|(a, b)| distance(&uneven, a, b)),
            [12, 21, 22, 25]
        );
        assert!(uneven.node_cpus(NodeId(2)).is_empty());
        assert_eq!(uneven.nodes()[3].memory, Some(Bytes(0)));
    }

    #[test]
    fn names_survive_printing_and_others_are_refused() {
        for text in ["mesh", "uneven:8", "8x8", "2,0,4"] {
            assert_eq!(text.parse::<MachineSpec>().unwrap().to_string(), text);
        }
        for text in ["", "torus", "mesh:", "mesh:x", "4xx"] {
            assert!(text.parse::<MachineSpec>().is_err(), "{text}");
        }
        for text in ["mesh:0", "mesh:1025", "mesh:99999999999"] {
            assert!(text.parse::<MachineSpec>().unwrap().machine().is_err(), "{text}");
        }
    }
}
