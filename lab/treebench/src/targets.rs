//! The targets, and what became of them.

use serde::{Deserialize, Serialize};

use crate::beside::PERIOD;
use crate::cases::{Decider, REFRESH, decision_name, update_name};
use crate::report::Line;
use crate::shape::{Load, Shape};
use crate::stats::{Percentiles, Spread};

const P50_NS: f64 = 200.0;
const P99_NS: f64 = 1000.0;
const UPDATE_NS: f64 = 100.0;
/// Of all CPUs' time. The thesis has 0.05 % of 1024.
const REFRESH_PERCENT: f64 = 0.005;

type Pick = fn(&Percentiles<Spread>) -> Spread;

/// A target and what was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// In words.
    pub name: String,
    /// At most.
    pub bound: f64,
    /// `ns` or `%`.
    pub unit: String,
    /// What was measured.
    pub measured: Spread,
    /// Whether the median keeps the bound.
    pub met: bool,
}

/// The targets of what was measured.
pub fn targets(lines: &[Line]) -> Vec<Target> {
    let mut targets = Vec::new();
    for decider in Decider::ALL {
        let picks: [(_, _, Pick); 2] =
            [("p50", P50_NS, |each| each.p50_ns), ("p99", P99_NS, |each| each.p99_ns)];
        for (percentile, bound, pick) in picks {
            for load in Load::ALL {
                let line = find(lines, &decision_name(decider, load, true));
                let Some(each) = line.and_then(|line| line.each.as_ref()) else { continue };
                let name = format!("{} {percentile}, {load}, beside updates", decider.name());
                targets.push(target(name, bound, "ns", pick(each)));
            }
        }
    }
    for through_ledger in [true, false] {
        let name = update_name(through_ledger);
        if let Some(measured) = mean(lines, &name) {
            targets.push(target(format!("one change of T: {name}"), UPDATE_NS, "ns", measured));
        }
    }
    if let Some(cluster_ns) = mean(lines, REFRESH) {
        let name = format!("a refresh every {} ms, of all CPUs' time", PERIOD.as_millis());
        targets.push(target(name, REFRESH_PERCENT, "%", cluster_ns.map(refresh_percent)));
    }
    targets
}

fn target(name: String, bound: f64, unit: &str, measured: Spread) -> Target {
    Target { name, bound, unit: unit.to_owned(), measured, met: measured.median <= bound }
}

fn find<'a>(lines: &'a [Line], name: &str) -> Option<&'a Line> {
    lines.iter().find(|line| line.name == name)
}

fn mean(lines: &[Line], name: &str) -> Option<Spread> {
    find(lines, name)?.mean_ns
}

/// A refresh of every cluster at each period, as a share of the time of all CPUs.
fn refresh_percent(cluster_ns: f64) -> f64 {
    let nr_clusters = (4 * Shape::TARGET.nr_nodes() - 1) / 3;
    let all_cpus_ns = PERIOD.as_nanos() as f64 * f64::from(Shape::TARGET.nr_cpus());
    100.0 * cluster_ns * f64::from(nr_clusters) / all_cpus_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_refresh_is_of_all_cpus() {
        // 1365 clusters in 1 ms, of 4096 times 2 ms.
        let percent = refresh_percent(1e6 / 1365.0);
        assert!((percent - 100.0 / 8192.0).abs() < 1e-9, "{percent}");
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert!(targets(&[]).is_empty());
    }
}
