//! How much of a copy's connections goes elsewhere: a proportional and integral law on its load.

use super::CopySeen;

/// A copy may be so much more loaded than the mean of the others (of 1: all of its CPUs).
const MARGIN: f64 = 0.1;

/// Others that are less loaded count as if they were so much: while there are CPUs to spare, a connection is served at
/// once wherever it is, and with the least effort at home.
const OTHERS_MIN: f64 = 0.6;

/// So many waiting for each CPU weigh as much as all CPUs being busy.
const WAITING_PER_CPU: f64 = 16.0;

/// More waiting than for this changes nothing more.
const WAITING_LOAD_MAX: f64 = 2.0;

/// Loads are smoothed over this time, in seconds.
const SMOOTHED_S: f64 = 0.5;

/// Threads that others have begun count as so much load at most: all CPUs.
const BEGUN_MAX: f64 = 1.0;

/// Spilled at once, of an error of 1.
const PROPORTIONAL: f64 = 0.5;

/// Spilled more in the time that a connection lives, of an error of 1.
const INTEGRAL: f64 = 0.5;

/// How long connections live is reckoned to be at least this, in seconds, and this where it is unknown.
const LIFE_S_MIN: f64 = 1.0;
const LIFE_S_UNKNOWN: f64 = 10.0;
const LIFE_S_MAX: f64 = 300.0;

/// Arrivals are counted over this time, in seconds, to know how long connections live.
const RATE_S: f64 = 5.0;

/// One copy's part of the loop.
#[derive(Clone, Debug)]
pub struct Law {
    /// How busy its CPUs are, and what waits for them, both smoothed.
    busy: Option<f64>,
    waiting: Option<f64>,
    /// Threads of others for each of its CPUs, smoothed alike,
    others: Option<f64>,
    /// and how many more there are by now, which are not in `busy` yet.
    begun: f64,
    error: f64,
    integral: f64,
    /// Arrivals a second.
    rate: Option<f64>,
    life_s: f64,
}

impl Law {
    pub fn new() -> Self {
        Self {
            busy: None,
            waiting: None,
            others: None,
            begun: 0.0,
            error: 0.0,
            integral: 0.0,
            rate: None,
            life_s: LIFE_S_UNKNOWN,
        }
    }

    /// It serves no more: what it was is of no use when it comes back.
    pub fn forget(&mut self) {
        *self = Self::new();
    }

    /// Takes in what was seen.
    pub fn see(&mut self, seconds: f64, seen: &CopySeen, cpus: usize) {
        let periods = seconds / SMOOTHED_S;
        let waiting = seen.waiting.map(|waiting| {
            (f64::from(waiting) / (WAITING_PER_CPU * cpus.max(1) as f64)).min(WAITING_LOAD_MAX)
        });
        self.waiting = waiting.map(|now| smoothed(self.waiting, now, periods));
        // What the tree says is smoothed already.
        let looked_at = seen.busy.map(|now| smoothed(self.busy, now, periods));
        self.busy = seen.usage.or(looked_at);
        self.begun = match (seen.others, self.others) {
            (Some(now), Some(before)) => (now - before).clamp(0.0, BEGUN_MAX),
            // Those that were there before us are in what is busy.
            _ => 0.0,
        };
        self.others = seen.others.map(|now| smoothed(self.others, now, periods));
        if let Some(arrived) = seen.arrived.filter(|_| seconds > 0.0) {
            let now = arrived as f64 / seconds;
            self.rate = Some(smoothed(self.rate, now, seconds / RATE_S));
        }
        // Little's law.
        self.life_s = match (seen.open, self.rate) {
            (Some(open), Some(rate)) if rate > 0.0 => {
                (f64::from(open) / rate).clamp(LIFE_S_MIN, LIFE_S_MAX)
            }
            _ => LIFE_S_UNKNOWN,
        };
    }

    /// Compares with the means of the others: of their loads, and of these with what has just begun there.
    pub fn correct(&mut self, seconds: f64, others: Option<f64>, others_now: Option<f64>) {
        let (Some(load), Some(others), Some(others_now)) = (self.load(), others, others_now) else {
            // Nobody to compare with, so nobody to spill to.
            (self.error, self.integral) = (0.0, 0.0);
            return;
        };
        let error = |load: f64, others: f64| load - others.max(OTHERS_MIN) - MARGIN;
        self.error = error(load + self.begun, others_now);
        // What has just begun may sleep, or be over soon: that is acted on and not remembered.
        let step = INTEGRAL / self.life_s * error(load, others) * seconds;
        self.integral = (self.integral + step).clamp(0.0, 1.0);
    }

    /// Known, and smoothed.
    pub fn load(&self) -> Option<f64> {
        match (self.busy, self.waiting) {
            (None, None) => None,
            // One of the two alone is a load too; none is none.
            (busy, waiting) => Some(busy.unwrap_or(0.0) + waiting.unwrap_or(0.0)),
        }
    }

    /// With threads that others have begun since.
    pub fn load_now(&self) -> Option<f64> {
        Some(self.load()? + self.begun)
    }

    /// From 0 to 1.
    pub fn spilled(&self) -> f64 {
        (PROPORTIONAL * self.error + self.integral).clamp(0.0, 1.0)
    }

    /// How much of what others spill it may get, beside others; `mean`: of all loads, with what has just begun.
    pub fn room(&self, mean: Option<f64>) -> f64 {
        match (self.load_now(), mean) {
            (Some(load), Some(mean)) => (mean.max(OTHERS_MIN) + MARGIN - load).max(0.0),
            _ => 0.0,
        }
    }
}

fn smoothed(before: Option<f64>, now: f64, periods: f64) -> f64 {
    let before = before.unwrap_or(now);
    before + (now - before) * (1.0 - (-periods).exp())
}
