//! What was seen, decided and done, in words; `explain` and `top` use the same.

use std::collections::BTreeMap;

use quartier_decide::reporter::Settings;
use quartier_decide::reporter::view::{Happened, ProcessView, What};
use quartier_model::{
    Intensity, Kind, Nanos, NodeId, NodeOsId, Outcome, Pages, Refusal, Step, Why,
};

use crate::topo::view::count;

pub const UNKNOWN: &str = "unknown";
/// From this part of local running on a task is near its memory.
pub const NEAR: f64 = 0.9;

/// Names things as those who look at them know them.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The kernel's numbers of the nodes.
    pub nodes: &'a [NodeOsId],
    /// The time of what is looked at.
    pub at: Nanos,
    pub settings: Option<&'a Settings>,
}

/// A part of 1 as a percentage.
pub fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// A number, or that it is unknown.
pub fn fixed(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.2}"))
}

/// How long something took or takes.
pub fn time(time: Nanos) -> String {
    let seconds = time.0 as f64 / 1e9;
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

impl Words<'_> {
    /// A node by the kernel's number.
    pub fn node(&self, node: NodeId) -> String {
        match self.nodes.get(node.index()) {
            Some(os_id) => format!("node {}", os_id.0),
            None => format!("node #{}", node.index()),
        }
    }

    pub fn shares(&self, shares: &[(NodeId, f64)]) -> String {
        let share =
            |(node, part): &(NodeId, f64)| format!("{} {}", self.node(*node), percent(*part));
        shares.iter().map(share).collect::<Vec<_>>().join(", ")
    }

    pub fn ago(&self, then: Nanos) -> String {
        format!("{} ago", time(self.at - then))
    }

    pub fn step(&self, step: &Step) -> String {
        let mut parts = Vec::new();
        let mut threads: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        step.threads.iter().for_each(|(_, node)| *threads.entry(*node).or_default() += 1);
        for (node, nr) in threads {
            let threads = count(nr, "thread");
            parts.push(match node {
                Some(node) => format!("{threads} to {}", self.node(node)),
                None => format!("{threads} let go"),
            });
        }
        parts.push(match &step.pages {
            Pages::Stay => "its pages stay".to_owned(),
            Pages::To { node, bytes } => format!("{} of pages to {}", bytes, self.node(*node)),
            Pages::ToUsers { bytes, blocks } => {
                let blocks = count(blocks.len(), "block");
                format!("{blocks} of 2 MiB to the threads that use them, at most {bytes}")
            }
            Pages::Back => "its pages back".to_owned(),
        });
        format!("{}: {}", kind(step.kind), parts.join(", "))
    }

    pub fn happened(&self, what: &Happened) -> String {
        match what {
            Happened::Decided(step) => format!("decided to {}", self.step(step)),
            Happened::Done(outcome) => outcome_text(outcome),
        }
    }

    /// What was decided last of a process, in a few words.
    pub fn decided(&self, process: &ProcessView) -> String {
        match process.decided.as_ref().map(|decided| &decided.what) {
            None => "not decided over yet".to_owned(),
            Some(What::Step(step)) => self.step(step),
            // A plan says so too of what it is not worth moving.
            Some(What::Left(Why::WellPlaced))
                if process.placed.local.is_none_or(|local| local < NEAR) =>
            {
                "placed as well as matters: it hardly suffers".to_owned()
            }
            Some(What::Left(why)) => self.why(*why),
        }
    }

    /// Why it is left where it is, with the time from now on and the bound that it fell short of.
    pub fn why(&self, why: Why) -> String {
        let until = |until: Nanos| time(until - self.at);
        match (why, self.settings) {
            (Why::GainsLittle { speedup }, Some(Settings { speedup_min, gain_min, .. })) => {
                format!(
                    "it would run {speedup:.2} times as fast: less than {speedup_min} times, or a gain below {gain_min} \
                 CPUs, is not worth a move"
                )
            }
            (Why::PaysTooLate { after }, Some(Settings { payback, .. })) => format!(
                "the move would pay for itself after {}: later than {}, or than it has lived so far",
                time(after),
                time(*payback)
            ),
            (Why::Rests { until: then }, _) => {
                format!("it was moved, and rests for another {}", until(then))
            }
            (Why::DidNotHelp { until: then }, _) => {
                format!("a move did not help it; it is not tried again for {}", until(then))
            }
            (why, _) => why.to_string(),
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gather => "gather",
        Kind::Split => "split",
        Kind::Scatter => "scatter",
        Kind::Pin => "pin",
        Kind::TakeBack => "take back",
        Kind::LetGo => "let go",
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut text = format!("{} held", count(outcome.threads_held as usize, "thread"));
    if let Some(by_cpuset) = &outcome.by_cpuset {
        text += &format!(" {by_cpuset}");
    }
    if outcome.threads_left > 0 {
        text += &format!(", {} not", outcome.threads_left);
    }
    text += &format!(", {} moved", outcome.moved);
    if outcome.stayed.0 > 0 {
        text += &format!(", {} could not be", outcome.stayed);
    }
    match outcome.refusal {
        // Nothing else is true of it.
        Some(Refusal::DryRun) => "not done: quartierd runs without --apply".to_owned(),
        Some(refusal) => text + ": " + refused(refusal),
        None => text,
    }
}

fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::DryRun => "quartierd runs without --apply",
        Refusal::Ended => "the process ended",
        Refusal::NotPermitted => "quartierd may not; it needs CAP_SYS_NICE",
        Refusal::NoRoom => "the node has no room left",
        Refusal::Cpuset => "its cpuset forbids it",
        Refusal::Unsupported => "the kernel cannot",
        Refusal::OtherRules => "its rules were changed meanwhile (quartierd.toml)",
        Refusal::PolicySet => {
            "somebody set the memory policy of a thread of it, whose pages they may be"
        }
        Refusal::UnderRun => "`quartier run` places it",
        Refusal::PolicyUnknown => {
            "whether somebody set a policy for parts of its memory is unknown"
        }
    }
}

/// The intensity; `None`: it would have to be assumed from the size of its memory, which is unknown too.
pub fn intensity(process: &ProcessView) -> Option<Intensity> {
    let intensity = process.placed.factors.intensity;
    let is_known = process.resident.is_some() || matches!(intensity, Intensity::Measured(_));
    is_known.then_some(intensity)
}

/// Where the intensity is known from.
pub fn source(intensity: Intensity) -> &'static str {
    match intensity {
        Intensity::Measured(_) => "measured, by misses of the last-level cache",
        Intensity::Assumed(_) => "assumed from the size of its memory; misses are not counted",
    }
}
