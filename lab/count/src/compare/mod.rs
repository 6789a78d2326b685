//! One program under several policies: how much moves between nodes under each, and how long the
//! modelled phase takes.

mod causes;
mod figures;
mod runs;
mod spread;
mod sweep;
mod verdict;

use quartier_memmodel::geometry::Geometry;
use serde::{Deserialize, Serialize};

pub use figures::{Figures, RunFigures};
pub use runs::{CountedRun, Trial};
pub use spread::{MARGIN_PERCENT, Relation, Spread};
pub use sweep::{AbsentPoint, Sweep, SweepCurve, SweepPoint, SweepRuns};
pub use verdict::{Outcome, Verdict};

use crate::recording::{CountMode, FORMAT, Machine};
use crate::report::{Asked, Phase, Report};

/// [`Trial::detail`] and [`PolicyResult::detail`] of no placement at all: the program as it is, under first
/// touch. Where it is the fastest of what was tried by hand, no placement by hand is said to be faster.
pub const AS_IT_IS: &str = "as it is";

const NOT_RUN: &str = "it was not run";

/// Who decides where memory and threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Memory stays where it was first touched: Linux without NUMA balancing.
    FirstTouch,
    /// Pages go round the nodes.
    Interleave,
    /// The kernel's automatic NUMA balancing.
    NumaBalancing,
    /// The daemon of that name.
    Numad,
    /// The best placement by hand.
    Hand,
    /// `quartier run`.
    Quartier,
    /// `quartier run`, with the kernel's NUMA balancing on as most distributions have it.
    QuartierBalanced,
}

/// A program under several policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Format of the comparison, as the recording's.
    pub format: u32,
    /// The command that was measured, without what sets the policy.
    pub command: Vec<String>,
    /// Which part of its runs.
    pub phase: Phase,
    /// The guest's nodes.
    pub machine: Machine,
    /// Release of the guest's kernel.
    pub kernel: String,
    /// Version of QEMU.
    pub qemu: String,
    /// How it was counted.
    pub mode: CountMode,
    /// What the numbers say.
    pub verdict: Verdict,
    /// Each policy, in the order of [`Policy`].
    pub policies: Vec<PolicyResult>,
    /// Speed-up over CPUs; absent unless asked for.
    pub sweep: Option<Sweep>,
    /// The machine that was modelled, with the cost parameters.
    pub geometry: Geometry,
    /// What a reader has to know: one sentence each.
    pub notes: Vec<String>,
}

/// What was counted under a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyResult {
    /// The policy.
    pub policy: Policy,
    /// How it was set: `numactl --interleave=all`.
    pub detail: Option<String>,
    /// Each run.
    pub runs: Vec<RunFigures>,
    /// Why there is none.
    pub absent: Option<String>,
    /// All the ways to set it that were tried, of which `detail` is the best; empty if there was one.
    pub tried: Vec<Trial>,
    /// The numbers over all runs; absent without any.
    pub figures: Option<Figures>,
    /// What each node was asked for, of the run with the middle Q; empty without any.
    pub asked: Vec<Asked>,
}

/// Runs under a policy, as they are handed in.
#[derive(Clone, Debug)]
pub struct PolicyRuns {
    /// The policy.
    pub policy: Policy,
    /// How it was set, as a reader would set it.
    pub detail: Option<String>,
    /// The runs, or why there is none.
    pub runs: Result<Vec<Report>, String>,
    /// All the ways to set it that were tried, if there were several.
    pub tried: Vec<Trial>,
    /// What became of runs that are missing here.
    pub failed: Option<String>,
}

/// Why reports cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompareError {
    /// Nothing was counted under any policy.
    #[error("there is nothing to compare: {0}")]
    Nothing(String),
    /// A policy stands there twice.
    #[error("{0} stands there twice: give each policy once, with all its runs")]
    Twice(&'static str),
    /// Runs of different things.
    #[error("the runs differ in their {0}, so their numbers do not compare: count them all alike")]
    Differ(&'static str),
}

impl Policy {
    /// All of them, in the order of every table.
    pub const ALL: [Self; 7] = [
        Self::FirstTouch,
        Self::Interleave,
        Self::NumaBalancing,
        Self::Numad,
        Self::Hand,
        Self::Quartier,
        Self::QuartierBalanced,
    ];

    /// In tables and sentences.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first touch",
            Self::Interleave => "interleave",
            Self::NumaBalancing => "kernel NUMA balancing",
            Self::Numad => "numad",
            Self::Hand => "best by hand",
            Self::Quartier => "quartier run",
            Self::QuartierBalanced => "quartier + balancing",
        }
    }

    /// Whether it is Quartier that places.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Quartier | Self::QuartierBalanced)
    }
}

impl Comparison {
    /// Compares runs of one command, which `command` is without what sets the policy.
    ///
    /// # Errors
    /// There is no run at all, or runs are of different machines, phases or ways to count.
    pub fn new(
        command: Vec<String>,
        policies: Vec<PolicyRuns>,
        sweep: Vec<SweepRuns>,
    ) -> Result<Self, CompareError> {
        let mut policies = policies;
        policies.sort_by_key(|runs| runs.policy);
        if let Some(two) = policies.windows(2).find(|two| two[0].policy == two[1].policy) {
            return Err(CompareError::Twice(two[0].policy.name()));
        }
        let reports: Vec<_> =
            policies.iter().filter_map(|runs| runs.runs.as_ref().ok()).flatten().collect();
        let nothing = || CompareError::Nothing(why_nothing(&policies));
        let model: Report = (*reports.first().ok_or_else(nothing)?).clone();
        let swept = sweep.iter().filter_map(|point| point.runs.as_ref().ok()).flatten();
        let all: Vec<_> = reports.iter().copied().chain(swept).collect();
        check_alike(&model, &all)?;
        let mode = all.iter().map(|report| report.mode).fold(model.mode, CountMode::less_certain);
        let notes = notes(&policies, &sweep);
        let mut results: Vec<_> = policies.into_iter().map(PolicyResult::new).collect();
        add_ratios(&mut results);
        let sweep = Sweep::new(&sweep);
        Ok(Self {
            format: FORMAT,
            command,
            phase: model.phase,
            machine: model.machine,
            kernel: model.kernel,
            qemu: model.qemu,
            mode,
            verdict: Verdict::new(&results, mode),
            policies: results,
            sweep,
            geometry: model.geometry,
            notes,
        })
    }

    /// The result of a policy.
    #[must_use]
    pub fn of(&self, policy: Policy) -> Option<&PolicyResult> {
        self.policies.iter().find(|result| result.policy == policy)
    }

    /// The command as one line.
    #[must_use]
    pub fn command_line(&self) -> String {
        crate::words::command_line(&self.command)
    }
}

fn check_alike(model: &Report, reports: &[&Report]) -> Result<(), CompareError> {
    let differ = |what, differs: fn(&Report, &Report) -> bool| match reports
        .iter()
        .any(|report| differs(model, report))
    {
        true => Err(CompareError::Differ(what)),
        false => Ok(()),
    };
    differ("nodes", |a, b| a.machine != b.machine)?;
    differ("way of counting", |a, b| !a.mode.is_alike(b.mode))?;
    differ("kernel", |a, b| a.kernel != b.kernel)?;
    differ("phase", |a, b| a.phase != b.phase)?;
    differ("modelled machine", |a, b| a.geometry != b.geometry)
}

/// One sentence, with each reason once.
fn why_nothing(policies: &[PolicyRuns]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for runs in policies {
        let reason = runs.runs.as_ref().map_or_else(|why| why.trim_end_matches('.'), |_| NOT_RUN);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(runs.policy.name()),
            None => reasons.push((reason, vec![runs.policy.name()])),
        }
    }
    let each = reasons.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
    match reasons.len() {
        0 => "no policy was run; name one".to_owned(),
        _ => format!("no policy could be counted: {}", each.collect::<Vec<_>>().join("; ")),
    }
}

/// Notes of all runs, each once, with the policy it is about, unless it is about all.
fn notes(policies: &[PolicyRuns], sweep: &[SweepRuns]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let reports = || policies.iter().filter_map(|runs| runs.runs.as_ref().ok()).flatten();
    let is_about_all = |note: &String| {
        reports().count() > 1 && reports().all(|report| report.notes.contains(note))
    };
    for runs in policies {
        let of_reports = runs.runs.iter().flatten().flat_map(|report| &report.notes);
        for note in of_reports.chain(&runs.failed) {
            let note = match is_about_all(note) {
                true => note.clone(),
                false => format!("{}: {note}", runs.policy.name()),
            };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let of_sweep = sweep.iter().filter_map(|point| Some((point.name(), point.failed.as_ref()?)));
    notes.extend(of_sweep.map(|(name, why)| format!("{name}: {why}")));
    notes
}

fn add_ratios(results: &mut [PolicyResult]) {
    let of = |policy: Policy| {
        results.iter().find(|result| result.policy == policy).and_then(|result| result.figures)
    };
    let (first, hand) = (of(Policy::FirstTouch), of(Policy::Hand));
    for figures in results.iter_mut().filter_map(|result| result.figures.as_mut()) {
        figures.q_to_first_touch = first.and_then(|base| figures.q_mib.ratio(&base.q_mib));
        figures.q_to_hand = hand.and_then(|base| figures.q_mib.ratio(&base.q_mib));
        let time = figures.modelled_phase_ms;
        let to = |base: Option<Figures>| time?.ratio(&base?.modelled_phase_ms?);
        (figures.modelled_time_to_first_touch, figures.modelled_time_to_hand) =
            (to(first), to(hand));
    }
}

impl PolicyResult {
    fn new(given: PolicyRuns) -> Self {
        let PolicyRuns { policy, detail, runs, tried, failed: _ } = given;
        let (reports, absent) = match runs {
            Ok(reports) if reports.is_empty() => (reports, Some(NOT_RUN.to_owned())),
            Ok(reports) => (reports, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let runs: Vec<_> = reports.iter().map(RunFigures::new).collect();
        let mut by_q: Vec<_> = reports.iter().collect();
        by_q.sort_by(|a, b| a.program.q_mib.total_cmp(&b.program.q_mib));
        let asked = by_q.get(by_q.len() / 2).map(|report| report.program.asked.clone());
        let figures = Figures::new(&runs);
        Self { policy, detail, figures, runs, absent, tried, asked: asked.unwrap_or_default() }
    }

    /// How it was set; what was set in no way is [`AS_IT_IS`].
    pub(crate) fn detail_or_none(&self) -> &str {
        self.detail.as_deref().unwrap_or(AS_IT_IS)
    }

    /// Whether the best way to set it is no placement at all.
    pub(crate) fn is_best_as_it_is(&self) -> bool {
        self.detail.as_deref() == Some(AS_IT_IS)
    }

    /// Commands that leave their node in the run with the middle Q.
    #[must_use]
    pub fn remote(&self) -> u64 {
        self.asked.iter().fold(0, |sum, asked| sum.saturating_add(asked.remote.total()))
    }
}
