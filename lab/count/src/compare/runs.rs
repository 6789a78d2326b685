//! Runs as they were counted, one after the other, put in order: by policy and CPUs, and of several
//! ways to set a policy the best.

use serde::{Deserialize, Serialize};

use super::{
    AS_IT_IS, CompareError, Comparison, Policy, PolicyResult, PolicyRuns, Relation, Spread,
    SweepRuns,
};
use crate::numbers::{mib, of};
use crate::recording::CountMode;
use crate::report::Report;

/// One run.
#[derive(Clone, Debug)]
pub struct CountedRun {
    /// The policy.
    pub policy: Policy,
    /// How it was set, as a reader would set it.
    pub detail: Option<String>,
    /// CPUs that the program had.
    pub nr_cpus: u32,
    /// What was counted, or why nothing was.
    pub outcome: Result<Report, String>,
}

/// One of several ways to set a policy, tried once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The way: `numactl --membind=0`.
    pub detail: String,
    /// Q of thesis 5.3.4, MiB; absent if it failed.
    pub q_mib: Option<f64>,
    /// Modelled time of the phase, milliseconds; absent if it failed.
    pub modelled_phase_ms: Option<f64>,
    /// Why nothing was counted.
    pub failed: Option<String>,
}

impl CountedRun {
    /// The run with the shortest modelled time, of several ways to set one policy; absent if all failed.
    #[must_use]
    pub fn best<'a>(runs: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        let counted =
            runs.into_iter().filter_map(|run| Some((cost(run.outcome.as_ref().ok()?), run)));
        let best = counted
            .min_by(|((one, q), _), ((other, r), _)| one.total_cmp(other).then(q.total_cmp(r)));
        best.map(|(_, run)| run)
    }
}

/// What a placement is judged by: modelled time, then Q.
fn cost(report: &Report) -> (f64, f64) {
    (report.modelled.phase_ms.unwrap_or(f64::INFINITY), report.program.q_mib)
}

impl Comparison {
    /// Compares runs of one command on a machine of so many CPUs. Those with all CPUs are compared by
    /// policy; if there are others, all are a sweep.
    ///
    /// # Errors
    /// As [`Comparison::new`].
    pub fn of_runs(
        command: Vec<String>,
        nr_cpus: u32,
        runs: Vec<CountedRun>,
    ) -> Result<Self, CompareError> {
        let (mut policies, mut sweep) = (Vec::new(), Vec::new());
        let is_sweep = runs.iter().any(|run| run.nr_cpus != nr_cpus);
        let mut points: Vec<_> = runs.iter().map(|run| (run.policy, run.nr_cpus)).collect();
        points.sort_unstable();
        points.dedup();
        for (policy, cpus) in points {
            let is_here = |run: &&CountedRun| (run.policy, run.nr_cpus) == (policy, cpus);
            let ways = Ways::new(runs.iter().filter(is_here));
            if is_sweep {
                sweep.push(ways.sweep_runs(policy, cpus));
            }
            if cpus == nr_cpus {
                policies.push(ways.policy_runs(policy));
            }
        }
        Self::new(command, policies, sweep)
    }
}

impl PolicyResult {
    /// Whether this way of those that were tried is the best.
    #[must_use]
    pub fn is_best(&self, trial: &Trial) -> bool {
        trial.failed.is_none() && trial.detail == self.detail_or_none()
    }

    /// The best is the fastest, by modelled time. Where another way that was tried moves less than that,
    /// beyond the margin and the error of sampling, a sentence that says so.
    #[must_use]
    pub fn moves_least(&self, mode: CountMode) -> Option<String> {
        let best = self.tried.iter().find(|trial| self.is_best(trial))?;
        let counted = self.tried.iter().filter_map(|trial| Some((trial.q_mib?, trial)));
        let (q_mib, least) = counted.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let q = |trial: &Trial| Some(Spread::of([trial.q_mib])?.widened(mode.error_percent()));
        let is_less = q(least)?.relation(&q(best)?) == Relation::Less;
        let is_slower = least.modelled_phase_ms? > best.modelled_phase_ms?;
        let (detail, q) = (&least.detail, mib(q_mib));
        (is_less && is_slower).then(|| {
            format!("Of these, {detail} moves least (Q {q}), but its modelled time is longer.")
        })
    }
}

/// All runs of a policy on a number of CPUs.
struct Ways<'a>(Vec<Way<'a>>);

struct Way<'a> {
    /// Not empty.
    runs: Vec<&'a CountedRun>,
}

impl<'a> Ways<'a> {
    /// Runs in the order in which they were counted.
    fn new(runs: impl Iterator<Item = &'a CountedRun>) -> Self {
        let mut ways: Vec<Way<'_>> = Vec::new();
        for run in runs {
            match ways.iter_mut().find(|way| way.runs[0].detail == run.detail) {
                Some(way) => way.runs.push(run),
                None => ways.push(Way { runs: vec![run] }),
            }
        }
        Self(ways)
    }

    /// The best by its first run: only of the best there are more.
    fn best(&self) -> Option<&Way<'a>> {
        let detail = &CountedRun::best(self.0.iter().map(|way| way.runs[0]))?.detail;
        self.0.iter().find(|way| way.runs[0].detail == *detail)
    }

    /// Why there is no best.
    fn failure(&self) -> String {
        let mut reasons: Vec<(String, &str)> = Vec::new();
        for way in &self.0 {
            let reason = way.runs[0].outcome.as_ref().err().map_or("", String::as_str);
            if reasons.iter().all(|(_, known)| *known != reason) {
                reasons.push((way.detail(), reason));
            }
        }
        match reasons.as_slice() {
            [(_, reason)] => (*reason).to_owned(),
            reasons => {
                let each = reasons.iter().map(|(detail, reason)| format!("{detail}: {reason}"));
                each.collect::<Vec<_>>().join("; ")
            }
        }
    }

    fn policy_runs(&self, policy: Policy) -> PolicyRuns {
        let best = self.best();
        let is_choice = self.0.len() > 1;
        PolicyRuns {
            policy,
            detail: best.and_then(|way| way.runs[0].detail.clone()),
            runs: best.map(Way::reports).ok_or_else(|| self.failure()),
            tried: self.0.iter().filter(|_| is_choice).map(Way::trial).collect(),
            failed: best.map(Way::failures).unwrap_or_default(),
        }
    }

    fn sweep_runs(&self, policy: Policy, nr_cpus: u32) -> SweepRuns {
        let best = self.best();
        SweepRuns {
            policy,
            nr_cpus,
            detail: best.and_then(|way| way.runs[0].detail.clone()),
            runs: best.map(Way::reports).ok_or_else(|| self.failure()),
            failed: best.map(Way::failures).unwrap_or_default(),
        }
    }
}

impl Way<'_> {
    fn detail(&self) -> String {
        self.runs[0].detail.clone().unwrap_or_else(|| AS_IT_IS.to_owned())
    }

    fn reports(&self) -> Vec<Report> {
        self.runs.iter().filter_map(|run| run.outcome.clone().ok()).collect()
    }

    /// Runs that failed although the first did not, told in one sentence.
    fn failures(&self) -> Option<String> {
        let mut failed = self.runs.iter().filter_map(|run| run.outcome.as_ref().err());
        let first = failed.next()?;
        let nr = 1 + failed.count() as u64;
        Some(format!("{} failed beside those counted: {first}", of(nr, "run")))
    }

    fn trial(&self) -> Trial {
        let first = self.runs[0].outcome.as_ref();
        Trial {
            detail: self.detail(),
            q_mib: first.ok().map(|report| report.program.q_mib),
            modelled_phase_ms: first.ok().and_then(|report| report.modelled.phase_ms),
            failed: first.err().cloned(),
        }
    }
}
