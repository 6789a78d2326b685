//! Cutting a neighbourhood of more than four into compact parts: first the part whose members are
//! nearest to each other, wherever it is, so that nobody takes a part of a close group to fill up
//! a loose one. Of equal ones (all of a ring or a mesh are) the outermost, so that no gaps are left
//! that only distant members could share.

use std::cmp::Reverse;

use crate::dqdt::grouping::Distances;
use crate::dqdt::tree::FANOUT_MAX;

/// Of so many nearest groups the best companions are sought; 12 hold two rings of a mesh.
const COMPANIONS_MAX: usize = 12;

impl Distances {
    /// Parts of at most four and of nearly equal size.
    pub(super) fn compact_parts(&self) -> Vec<Vec<usize>> {
        let nr_parts = self.len().div_ceil(FANOUT_MAX);
        let mut cut = Cut::new(self);
        (0..nr_parts).map(|part| cut.take(cut.left.len().div_ceil(nr_parts - part))).collect()
    }
}

struct Cut<'a> {
    distances: &'a Distances,
    left: Vec<usize>,
    /// How far each is from all that are left, together.
    outlying: Vec<u32>,
    /// The best part around each, while nothing that it was chosen among has been taken.
    parts: Vec<Option<Part>>,
    /// No two are nearer.
    nearest: u32,
}

/// Some members, and the sum of their distances.
#[derive(Clone)]
struct Part {
    sum: u32,
    members: Vec<usize>,
    /// What they were chosen among.
    near: Vec<usize>,
}

impl<'a> Cut<'a> {
    fn new(distances: &'a Distances) -> Self {
        let all = 0..distances.len();
        let others = |a: usize| all.clone().filter(move |&b| b != a).map(move |b| (a, b));
        let between = |(a, b)| distances.get(a, b);
        Self {
            distances,
            left: all.clone().collect(),
            outlying: all.clone().map(|a| others(a).map(between).sum()).collect(),
            parts: vec![None; distances.len()],
            nearest: all.clone().flat_map(|a| others(a).map(between)).min().unwrap_or(0),
        }
    }

    /// The most compact part of this size, in ascending order.
    fn take(&mut self, size: usize) -> Vec<usize> {
        let mut seeds = self.left.clone();
        seeds.sort_by_key(|&at| (Reverse(self.outlying[at]), at));
        let pairs = (size * (size - 1) / 2) as u32;
        let mut best: Option<(u32, usize)> = None;
        for seed in seeds {
            let sum = self.part_around(seed, size).sum;
            if best.is_none_or(|(least, _)| sum < least) {
                best = Some((sum, seed));
            }
            // Most machines are uniform, and large ones would take long.
            if sum == pairs * self.nearest {
                break;
            }
        }
        let part = best.and_then(|(_, seed)| self.parts[seed].take());
        let mut members = part.map(|part| part.members).unwrap_or_default();
        members.sort_unstable();
        self.remove(&members);
        members
    }

    fn remove(&mut self, taken: &[usize]) {
        self.left.retain(|at| !taken.contains(at));
        for &at in &self.left {
            let nearer: u32 = taken.iter().map(|&gone| self.distances.get(at, gone)).sum();
            self.outlying[at] -= nearer;
        }
        for part in &mut self.parts {
            part.take_if(|part| part.near.iter().any(|near| taken.contains(near)));
        }
    }

    /// The seed with those companions that make the smallest sum of distances; of equal sums the
    /// first in order.
    fn part_around(&mut self, seed: usize, size: usize) -> &Part {
        let known = self.parts[seed].take().filter(|part| part.members.len() == size);
        let part = known.unwrap_or_else(|| {
            let near = self.nearest_to(seed, size);
            let mut part = Part { sum: u32::MAX, members: vec![seed], near };
            extend(self.distances, &mut part, &mut vec![seed], size, (0, 0));
            part
        });
        self.parts[seed].insert(part)
    }

    fn nearest_to(&self, seed: usize, size: usize) -> Vec<usize> {
        let mut near: Vec<_> = self.left.iter().copied().filter(|&at| at != seed).collect();
        let nr_wanted = COMPANIONS_MAX.max(size);
        if near.len() > nr_wanted {
            near.select_nth_unstable_by_key(nr_wanted, |&at| (self.distances.get(seed, at), at));
            near.truncate(nr_wanted);
        }
        near.sort_unstable();
        near
    }
}

/// Tries every way to complete `members`, whose distances sum up to `sum`, with what is near from
/// `next` on.
fn extend(
    distances: &Distances,
    best: &mut Part,
    members: &mut Vec<usize>,
    size: usize,
    (sum, next): (u32, usize),
) {
    if members.len() == size {
        if sum < best.sum {
            (best.sum, best.members) = (sum, members.clone());
        }
        return;
    }
    for at in next..best.near.len() {
        let companion = best.near[at];
        let added: u32 = members.iter().map(|&member| distances.get(member, companion)).sum();
        members.push(companion);
        extend(distances, best, members, size, (sum + added, at + 1));
        members.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_cut_into_the_blocks_of_the_thesis() {
        let blocks = Distances::mesh(4).compact_parts();
        assert_eq!(blocks, [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]);
    }

    #[test]
    fn equal_distances_give_parts_of_nearly_equal_size() {
        let equal = Distances::new(9, |_, _| 20);
        assert_eq!(equal.compact_parts(), [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
    }
}
