//! Which groups are neighbours: nearest first, at most four together.
//!
//! The thesis groups by coordinates in a mesh. Linux gives distances only, so: join whatever the
//! smallest distance connects (the nodes of a socket, say) before looking further away, and cut
//! what is larger than four into compact parts (`compact.rs`). On a mesh with distances by hops that
//! gives the thesis's 2 × 2 blocks.

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

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, a: usize, b: usize) -> u32 {
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
}

#[cfg(test)]
impl Distances {
    /// Nodes row by row, ten per hop, as a mesh's firmware would tell it.
    pub(super) fn mesh(width: usize) -> Self {
        Self::new(width * width, |a, b| {
            let hops = (a / width).abs_diff(b / width) + (a % width).abs_diff(b % width);
            (10 + hops * 10) as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_one_neighbourhood() {
        assert_eq!(Distances::mesh(4).neighbourhoods().len(), 1);
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
    fn ever_growing_distances_make_no_chain() {
        let chain = Distances::new(16, |a, b| 10 + 12 * a.max(b) as u8);
        assert!(chain.neighbourhoods().len() <= 8);
    }
}
