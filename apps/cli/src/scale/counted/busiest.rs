//! Of what CPUs do beside each other, what the one that has most to do does beyond the mean: the others have nothing to do meanwhile.

/// A function and its file.
pub type Code<'a> = (Option<&'a str>, Option<&'a str>);

/// What ran.
#[derive(Debug)]
pub struct Ran<'a> {
    /// From the outermost caller to the code itself.
    pub path: Vec<Code<'a>>,
    /// How long on which CPU beside others, seconds.
    pub cpus: Vec<(u16, f64)>,
}

impl Ran<'_> {
    fn on(&self, cpu: u16) -> f64 {
        self.cpus.iter().filter(|(on, _)| *on == cpu).map(|(_, seconds)| seconds).sum()
    }

    /// On a CPU, beyond what the mean of so many has of it; below nothing if it has less.
    fn beyond_mean(&self, cpu: u16, nr_cpus: f64) -> f64 {
        let all: f64 = self.cpus.iter().map(|(_, seconds)| seconds).sum();
        self.on(cpu) - all / nr_cpus
    }
}

/// Shares idle time out among what ran, by what the busiest CPU has of each beyond the mean: never more than that explains. What
/// one caller has too much of in one place and too little of in another is not uneven, so callers come before what they call.
pub fn idle_beside(all: &[Ran<'_>], busiest: u16, nr_cpus: u32, idle_s: f64) -> Vec<f64> {
    let nr_cpus = f64::from(nr_cpus.max(1));
    let beyond: Vec<f64> =
        all.iter().map(|ran| nr_cpus * ran.beyond_mean(busiest, nr_cpus)).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].path.cmp(&all[*b].path));
    let mut sharing = Sharing { all, beyond: &beyond, idle_s: vec![0.0; all.len()] };
    sharing.share(&order, 0, idle_s);
    sharing.idle_s
}

struct Sharing<'a> {
    all: &'a [Ran<'a>],
    beyond: &'a [f64],
    idle_s: Vec<f64>,
}

impl Sharing<'_> {
    /// Among those in `order` that have the same callers up to a depth.
    fn share(&mut self, order: &[usize], depth: usize, idle_s: f64) {
        let code = |at: &usize| self.all[*at].path.get(depth);
        let groups = order.chunk_by(|a, b| code(a) == code(b));
        let beyond = |group: &[usize]| group.iter().map(|at| self.beyond[*at]).sum::<f64>();
        let groups: Vec<(&[usize], f64)> = groups
            .map(|group| (group, beyond(group)))
            .filter(|(_, beyond)| *beyond > 0.0)
            .collect();
        let found: f64 = groups.iter().map(|(_, beyond)| beyond).sum();
        let part = if found > idle_s { idle_s / found } else { 1.0 };
        for (group, beyond) in groups {
            match group {
                [at] => self.idle_s[*at] = part * beyond,
                _ if self.all[group[0]].path.len() > depth => {
                    self.share(group, depth + 1, part * beyond);
                }
                // The same path several times.
                _ => group.iter().for_each(|at| {
                    self.idle_s[*at] = part * beyond / group.len() as f64;
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran<'a>(path: &[&'a str], cpus: &[f64]) -> Ran<'a> {
        let path = path.iter().map(|function| (Some(*function), Some("a"))).collect();
        Ran { path, cpus: (0..).zip(cpus.iter().copied()).collect() }
    }

    #[test]
    fn a_part_that_one_cpu_does_has_what_the_others_idle() {
        let all =
            [ran(&["main", "read"], &[30.0]), ran(&["main", "work"], &[10.0, 10.0, 10.0, 10.0])];
        // Until the first has read, three have nothing to do.
        assert_eq!(idle_beside(&all, 0, 4, 90.0), [90.0, 0.0]);
    }

    #[test]
    fn what_its_caller_has_too_little_of_elsewhere_is_not_uneven() {
        let all = [
            ran(&["main", "work", "even"], &[8.0, 2.0]),
            ran(&["main", "work", "odd"], &[2.0, 8.0]),
            ran(&["main", "write"], &[4.0]),
        ];
        assert_eq!(idle_beside(&all, 0, 2, 4.0), [0.0, 0.0, 4.0]);
        // Where it has more in all, that is by the places that have.
        let all = [
            ran(&["main", "work", "even"], &[8.0, 2.0]),
            ran(&["main", "work", "odd"], &[4.0, 8.0]),
        ];
        assert_eq!(idle_beside(&all, 0, 2, 2.0), [2.0, 0.0]);
    }

    #[test]
    fn no_more_is_shared_out_than_there_is_nor_than_is_explained() {
        let all = [ran(&["main"], &[6.0]), ran(&["main", "work"], &[3.0])];
        assert_eq!(idle_beside(&all, 0, 2, 4.5), [3.0, 1.5]);
        assert_eq!(idle_beside(&all, 0, 2, 100.0), [6.0, 3.0]);
        assert_eq!(idle_beside(&all, 1, 2, 100.0), [0.0, 0.0]);
        assert_eq!(idle_beside(&[], 0, 0, 1.0), [0.0; 0]);
        let twice = [ran(&["main"], &[6.0]), ran(&["main"], &[2.0])];
        assert_eq!(idle_beside(&twice, 0, 2, 8.0), [4.0, 4.0]);
    }
}
