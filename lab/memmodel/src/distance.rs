//! Hops between nodes and the links on the way.

use crate::geometry::Topology;

/// A [`Topology`] of a known number of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    kind: Kind,
    nr_nodes: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Mesh { columns: usize },
    Sockets { nodes_per_socket: usize, hops_within: u16, hops_between: u16 },
    Matrix { hops: Vec<Vec<u16>> },
}

/// Links that leave a node of a mesh: right, left, down, up.
const MESH_LINKS: usize = 4;

impl Distances {
    pub(crate) fn new(topology: &Topology, nr_nodes: usize) -> Self {
        let kind = match topology {
            Topology::Mesh { columns: Some(columns) } => Kind::Mesh { columns: *columns as usize },
            Topology::Mesh { columns: None } => {
                let square = (1..).find(|side| side * side >= nr_nodes);
                Kind::Mesh { columns: square.unwrap_or(nr_nodes) }
            }
            &Topology::Sockets { nodes_per_socket, hops_within, hops_between } => {
                let nodes_per_socket = nodes_per_socket as usize;
                Kind::Sockets { nodes_per_socket, hops_within, hops_between }
            }
            Topology::Matrix { hops } => Kind::Matrix { hops: hops.clone() },
        };
        Self { kind, nr_nodes }
    }

    /// Hops from a node to another; 0 to itself.
    pub(crate) fn hops(&self, from: u16, to: u16) -> u16 {
        let (from, to) = (usize::from(from), usize::from(to));
        match &self.kind {
            Kind::Mesh { columns } => {
                let across = (from % columns).abs_diff(to % columns);
                (across + (from / columns).abs_diff(to / columns)) as u16
            }
            _ if from == to => 0,
            Kind::Sockets { nodes_per_socket, hops_within, hops_between } => {
                let is_same = from / nodes_per_socket == to / nodes_per_socket;
                if is_same { *hops_within } else { *hops_between }
            }
            Kind::Matrix { hops } => hops[from][to],
        }
    }

    /// How many links there can be; [`each_link`](Self::each_link) gives numbers below.
    pub(crate) fn nr_links(&self) -> usize {
        match &self.kind {
            Kind::Mesh { columns } => self.nr_nodes.div_ceil(*columns) * columns * MESH_LINKS,
            Kind::Sockets { nodes_per_socket, .. } => {
                let nr_sockets = self.nr_nodes.div_ceil(*nodes_per_socket);
                nr_sockets * nr_sockets
            }
            Kind::Matrix { .. } => self.nr_nodes * self.nr_nodes,
        }
    }

    /// Calls `f` with each link on the way, in its direction.
    pub(crate) fn each_link(&self, from: u16, to: u16, mut f: impl FnMut(usize)) {
        let (from, to) = (usize::from(from), usize::from(to));
        match &self.kind {
            Kind::Mesh { columns } => {
                let (mut x, mut y) = (from % columns, from / columns);
                let (to_x, to_y) = (to % columns, to / columns);
                while x != to_x {
                    let (link, next) = if x < to_x { (0, x + 1) } else { (1, x - 1) };
                    f((y * columns + x) * MESH_LINKS + link);
                    x = next;
                }
                while y != to_y {
                    let (link, next) = if y < to_y { (2, y + 1) } else { (3, y - 1) };
                    f((y * columns + x) * MESH_LINKS + link);
                    y = next;
                }
            }
            Kind::Sockets { nodes_per_socket, .. } => {
                let (from, to) = (from / nodes_per_socket, to / nodes_per_socket);
                if from != to {
                    f(from * self.nr_nodes.div_ceil(*nodes_per_socket) + to);
                }
            }
            Kind::Matrix { .. } => {
                if from != to {
                    f(from * self.nr_nodes + to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_walked_along_the_row_and_then_the_column() {
        let mesh = Distances::new(&Topology::Mesh { columns: None }, 16);
        assert_eq!((mesh.hops(0, 15), mesh.hops(5, 5), mesh.hops(3, 4)), (6, 0, 4));
        let mut links = Vec::new();
        mesh.each_link(1, 11, |link| links.push((link / 4, link % 4)));
        assert_eq!(links, [(1, 0), (2, 0), (3, 2), (7, 2)]);
        links.clear();
        mesh.each_link(11, 1, |link| links.push((link / 4, link % 4)));
        assert_eq!(links, [(11, 1), (10, 1), (9, 3), (5, 3)]);
    }

    #[test]
    fn every_way_has_as_many_links_as_hops_in_a_mesh_with_a_short_last_row() {
        let mesh = Distances::new(&Topology::Mesh { columns: Some(4) }, 10);
        for (from, to) in (0..10).flat_map(|from| (0..10).map(move |to| (from, to))) {
            let mut nr_links = 0;
            mesh.each_link(from, to, |link| {
                assert!(link < mesh.nr_links());
                nr_links += 1;
            });
            assert_eq!(nr_links, mesh.hops(from, to), "{from} to {to}");
        }
    }

    #[test]
    fn nodes_of_one_socket_use_no_link() {
        let topology = Topology::Sockets { nodes_per_socket: 2, hops_within: 1, hops_between: 3 };
        let sockets = Distances::new(&topology, 8);
        assert_eq!((sockets.hops(0, 1), sockets.hops(0, 2), sockets.hops(7, 7)), (1, 3, 0));
        let links = |from, to| {
            let mut links = Vec::new();
            sockets.each_link(from, to, |link| links.push(link));
            links
        };
        assert_eq!((links(0, 1), links(1, 7), links(6, 2)), (vec![], vec![3], vec![13]));
    }
}
