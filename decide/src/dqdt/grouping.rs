//! Which groups are neighbours: nearest first, at most four together.
//!
//! The thesis groups by coordinates in a mesh. Linux gives distances only, so: join whatever the
//! smallest distance connects (the nodes of a socket, say) before looking further away, and cut
//! what is larger than four into compact parts. On a mesh with distances by hops that gives the
//! thesis's 2 × 2 blocks.

use crate::dqdt::tree::FANOUT_MAX;

/// Of so many nearest groups the best companions are sought; 12 hold two rings of a mesh.
const COMPANIONS_MAX: usize = 12;

/// Mean distances between groups, in 1/256 of a SLIT unit so that means of means keep their order.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    len: usize,
    scaled: Vec<u32>,
}

impl Distances {
    /// `distance` gives the SLIT distance from one to another of `len` groups.
    pub(super) fn new(len: usize, distance: impl Fn(usize, usize) -> u8) -> Self {
        // A SLIT may be asymmetric; neighbours have to be near in both directions.
        let both = |a, b| u32::from(distance(a, b).max(distance(b, a))) * 256;
        let scaled = (0..len * len).map(|at| both(at / len, at % len)).collect();
        Self { len, scaled }
    }

    fn get(&self, a: usize, b: usize) -> u32 {
        self.scaled[a * self.len + b]
    }

    /// The distances between unions of groups.
    pub(super) fn merged(&self, groups: &[Vec<usize>]) -> Self {
        let mean = |a: &[usize], b: &[usize]| {
            let sum: u64 =
                a.iter().flat_map(|&a| b.iter().map(move |&b| u64::from(self.get(a, b)))).sum();
            (sum / (a.len() * b.len()) as u64) as u32
        };
        let len = groups.len();
        let scaled = (0..len * len).map(|at| mean(&groups[at / len], &groups[at % len])).collect();
        Self { len, scaled }
    }

    /// Splits 0..len into neighbourhoods: what the smallest distances connect, looking further
    /// until they are at most half as many as before (else odd distances would make a chain of
    /// pairs as deep as the machine is large). Each neighbourhood and their list are in ascending
    /// order.
    pub(super) fn neighbourhoods(&self) -> Vec<Vec<usize>> {
        let pairs = (0..self.len).flat_map(|a| (0..a).map(move |b| (a, b)));
        let mut edges: Vec<_> = pairs.map(|(a, b)| (self.get(a, b), a, b)).collect();
        edges.sort_unstable();
        let mut labels: Vec<usize> = (0..self.len).collect();
        let mut nr_left = self.len;
        let mut edges = edges.into_iter().peekable();
        while let Some((distance, a, b)) = edges.next() {
            let (from, to) = (labels[a].max(labels[b]), labels[a].min(labels[b]));
            if from != to {
                labels.iter_mut().filter(|label| **label == from).for_each(|label| *label = to);
                nr_left -= 1;
            }
            // All pairs at one distance are alike: never stop between them.
            let last_at_distance = edges.peek().is_none_or(|next| next.0 > distance);
            if nr_left == 1 || (last_at_distance && nr_left <= self.len.div_ceil(2)) {
                break;
            }
        }
        let mut parts = vec![Vec::new(); self.len];
        for (at, label) in labels.into_iter().enumerate() {
            parts[label].push(at);
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Cuts a neighbourhood into compact parts of at most four and of nearly equal size.
    pub(super) fn compact_parts(&self, neighbourhood: &[usize]) -> Vec<Vec<usize>> {
        let mut left = neighbourhood.to_vec();
        let nr_parts = left.len().div_ceil(FANOUT_MAX);
        let mut parts = Vec::with_capacity(nr_parts);
        for part in 0..nr_parts {
            let size = left.len().div_ceil(nr_parts - part);
            let group = self.compact_group(&left, size);
            left.retain(|at| !group.contains(at));
            parts.push(group);
        }
        parts
    }

    /// The first of `left` with those companions that make the smallest sum of distances; of equal
    /// sums the first in order.
    fn compact_group(&self, left: &[usize], size: usize) -> Vec<usize> {
        let seed = left[0];
        let mut near = left[1..].to_vec();
        near.sort_by_key(|&at| (self.get(seed, at), at));
        near.truncate(COMPANIONS_MAX.max(size));
        near.sort_unstable();
        let mut best: Option<(u32, Vec<usize>)> = None;
        let mut group = vec![seed];
        self.extend_group(&mut group, &near, size, 0, &mut best);
        best.map_or_else(|| vec![seed], |(_, group)| group)
    }

    fn extend_group(
        &self,
        group: &mut Vec<usize>,
        near: &[usize],
        size: usize,
        sum: u32,
        best: &mut Option<(u32, Vec<usize>)>,
    ) {
        if group.len() == size {
            if best.as_ref().is_none_or(|(least, _)| sum < *least) {
                *best = Some((sum, group.clone()));
            }
            return;
        }
        for (at, &companion) in near.iter().enumerate() {
            let added: u32 = group.iter().map(|&member| self.get(member, companion)).sum();
            group.push(companion);
            self.extend_group(group, &near[at + 1..], size, sum + added, best);
            group.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes row by row, ten per hop, as a mesh's firmware would tell it.
    fn mesh(width: usize) -> Distances {
        Distances::new(width * width, |a, b| {
            let hops = (a / width).abs_diff(b / width) + (a % width).abs_diff(b % width);
            (10 + hops * 10) as u8
        })
    }

    #[test]
    fn a_mesh_is_cut_into_the_blocks_of_the_thesis() {
        let mesh = mesh(4);
        let neighbourhoods = mesh.neighbourhoods();
        assert_eq!(neighbourhoods.len(), 1);
        let blocks = mesh.compact_parts(&neighbourhoods[0]);
        assert_eq!(blocks, [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]);
    }

    #[test]
    fn nodes_of_a_socket_come_together_before_sockets_do() {
        let sockets = Distances::new(6, |a, b| {
            if a == b {
                10
            } else if a % 2 == b % 2 {
                12
            } else {
                32
            }
        });
        assert_eq!(sockets.neighbourhoods(), [[0, 2, 4], [1, 3, 5]]);
    }

    #[test]
    fn equal_distances_give_parts_of_nearly_equal_size() {
        let equal = Distances::new(9, |_, _| 20);
        let all = equal.neighbourhoods();
        assert_eq!(equal.compact_parts(&all[0]), [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
    }

    #[test]
    fn ever_growing_distances_make_no_chain() {
        let chain = Distances::new(16, |a, b| 10 + 12 * a.max(b) as u8);
        assert!(chain.neighbourhoods().len() <= 8);
    }
}
