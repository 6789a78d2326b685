//! Which copy of a server gets the connections that a node receives: a closed loop.
//!
//! Every look brings what is seen of each copy and gives, for every domain (a node, or a last-level
//! cache), the part of its connections that each copy is to get. A domain's own copies get them all,
//! but for what the loop spills: `law` says how much of it, `health` who gets none.
//!
//! ```text
//! load      L = busy + waiting / (16 × CPUs), the second at most 2; smoothed over half a second
//! error     e = L − mean L of the others (but at least 0.6) − 0.1
//! spilled   s = ½ e + ∫ kᵢ e dt, from 0 to 1
//! ```
//! `busy` is U of the decision tree while somebody renews that in time (`fresh`), else what was looked at. Threads of others that T
//! has more than over the last half second are not in it yet: they are added, but for the integral.
//!
//! What is spilled goes to those below the mean, the more the further below, and to one at twice the
//! distance a quarter as much. `docs/serve.md` derives the constants; `tests/steering.rs` simulates them.

mod fresh;
mod health;
mod law;
mod places;
mod receiving;

pub use fresh::Freshness;
pub use health::Why;
pub use places::places;
pub use receiving::{Queues, Setting, receiving};

use health::Health;
use law::Law;

/// Which copies there are, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The domain of each copy.
    pub homes: Vec<usize>,
    /// The CPUs of each copy.
    pub cpus: Vec<usize>,
    /// Distances between domains, 10 being local; two caches of a node are at 10 too.
    pub distances: Vec<Vec<f64>>,
}

/// Whether a copy can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It listens.
    Listens,
    /// Its processes are stopped (`SIGSTOP`).
    Stopped,
    /// It has ended, or does not listen yet, or is being restarted.
    Gone,
}

/// What was seen of a copy since the last look. Absent is not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopySeen {
    /// Whether it can serve.
    pub state: State,
    /// Connections that wait to be accepted.
    pub waiting: Option<u32>,
    /// Connections that are open.
    pub open: Option<u32>,
    /// Connections that were given to it.
    pub arrived: Option<u64>,
    /// CPU time that its processes used, in seconds.
    pub worked_s: Option<f64>,
    /// The part of the time that its CPUs were busy, with whatever.
    pub busy: Option<f64>,
    /// The same by U of the decision tree, which is smoothed; `None`: unknown there, or too old ([`Freshness`]).
    pub usage: Option<f64>,
    /// Threads of other programs that T of the decision tree has on its CPUs, for each of these.
    pub others: Option<f64>,
}

/// How a copy stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Its load, where known.
    pub load: Option<f64>,
    /// The part of what its own domain would give it that goes elsewhere because it is more loaded.
    pub spilled: f64,
    /// 1, and less while it comes back; 0 while it is out.
    pub ramp: f64,
    /// Why it is out.
    pub out: Option<Why>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// For each domain, the part of its connections for each copy. All zero: nobody can serve.
    pub shares: Vec<Vec<f64>>,
    /// For each copy.
    pub verdicts: Vec<Verdict>,
}

/// The loop.
#[derive(Clone, Debug)]
pub struct Steering {
    shape: Shape,
    copies: Vec<(Health, Law)>,
}

impl Steering {
    /// For copies that have just been started.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let copies = shape.homes.iter().map(|_| (Health::new(), Law::new())).collect();
        Self { shape, copies }
    }

    /// Decides anew, `seconds` after the last time.
    ///
    /// # Panics
    /// If not every copy was seen.
    pub fn look(&mut self, seconds: f64, seen: &[CopySeen]) -> Decision {
        assert_eq!(seen.len(), self.copies.len());
        for (at, seen) in seen.iter().enumerate() {
            let (health, law) = &mut self.copies[at];
            health.look(seconds, seen);
            if health.serves() {
                law.see(seconds, seen, self.shape.cpus[at]);
            } else {
                law.forget();
            }
        }
        let loads: Vec<_> = self.copies.iter().map(|(_, law)| law.load()).collect();
        let loads_now: Vec<_> = self.copies.iter().map(|(_, law)| law.load_now()).collect();
        for (at, (health, law)) in self.copies.iter_mut().enumerate() {
            if health.serves() {
                law.correct(seconds, mean_of_others(&loads, at), mean_of_others(&loads_now, at));
            }
        }
        let mean = mean_of_others(&loads_now, usize::MAX);
        let domains = 0..self.shape.distances.len();
        Decision {
            shares: domains.map(|domain| self.row(domain, mean)).collect(),
            verdicts: self.copies.iter().map(verdict).collect(),
        }
    }

    /// What a domain gives to each copy.
    fn row(&self, domain: usize, mean: Option<f64>) -> Vec<f64> {
        let copies = || self.copies.iter().zip(&self.shape.homes);
        let is_home = |(health, _): &(Health, Law), home| home == domain && health.serves();
        let nr_home = copies().filter(|(copy, home)| is_home(copy, **home)).count();
        let kept = |(copy, home): (&(Health, Law), &usize)| {
            let kept = copy.0.ramp() * (1.0 - copy.1.spilled());
            if is_home(copy, *home) { kept / nr_home as f64 } else { 0.0 }
        };
        let mut row: Vec<f64> = copies().map(kept).collect();
        let rest = 1.0 - row.iter().sum::<f64>();
        let near = |home: usize| (10.0 / self.shape.distances[domain][home]).powi(2);
        let room = |(copy, home): (&(Health, Law), &usize)| {
            let (health, law) = copy;
            // Who comes back is idle, and gets few at first all the same.
            let takes = if health.ramp() < 1.0 { 0.0 } else { 1.0 - law.spilled() };
            takes * law.room(mean) * near(*home)
        };
        let mut rooms: Vec<f64> = copies().map(room).collect();
        if rooms.iter().sum::<f64>() <= 0.0 {
            // Nobody has room: the nearest, whoever serves.
            rooms = copies().map(|(copy, home)| copy.0.ramp() * near(*home)).collect();
        }
        let sum: f64 = rooms.iter().sum();
        if sum > 0.0 {
            for (share, room) in row.iter_mut().zip(&rooms) {
                *share += rest * room / sum;
            }
        }
        row
    }
}

fn verdict((health, law): &(Health, Law)) -> Verdict {
    Verdict { load: law.load(), spilled: law.spilled(), ramp: health.ramp(), out: health.why_out() }
}

/// The mean of all known loads but one's.
fn mean_of_others(loads: &[Option<f64>], one: usize) -> Option<f64> {
    let others = loads.iter().enumerate().filter(|(at, _)| *at != one);
    let known: Vec<f64> = others.filter_map(|(_, load)| *load).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}
