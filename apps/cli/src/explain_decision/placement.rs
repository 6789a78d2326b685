//! Decisions about CPUs: of a thread, a fork, a program, a thread to be moved.

use quartier_decide::dqdt::{Allowed, ClusterId};
use quartier_decide::policy::{
    Balance, CpuState, Decision as Found, Event, Exec, FORK_LEVELS, Fork, Placement,
    ShouldBalance as Verdict, Thread, default_free_pages_min, explain, visits_max_within,
};
use quartier_model::{Bytes, CpuId};

use super::group;
use super::options::{Decision, RequestOptions};
use super::report::{ConditionPart, Outcome, Report, ShouldBalance, Start};
use super::scene::{Lookup, Scene};
use super::teller::Teller;
use crate::strategy::StrategyOption;
use crate::topo::names::cpus_text;

/// What the thesis's threshold for memory is counted in.
const PAGE: Bytes = Bytes(4096);

/// Fills the report.
pub fn replay(
    report: &mut Report,
    options: &RequestOptions,
    scene: &Scene<'_>,
    lookup: &Lookup<'_>,
    from: Option<CpuId>,
) -> anyhow::Result<()> {
    let (allowed, offline) = lookup.allowed(options.allowed.as_ref())?;
    if !offline.is_empty() {
        report.notes.push(format!("offline, so not allowed: {}", cpus_text(&offline)));
    }
    report.visits_max = Some(visits_max_within(scene.names.tree, &allowed));
    let replay = Replay { scene, allowed: &allowed, from, options };
    let may_go = match &options.allowed {
        Some(list) => format!("allowed: {}", cpus_text(list)),
        None => "every CPU allowed".to_owned(),
    };
    match report.decision {
        Decision::Fork => replay.fork(report),
        Decision::Exec => replay.exec(report),
        Decision::Balance => replay.balance(report),
        Decision::Group => group::replay(&replay, report),
        Decision::Thread | Decision::Memory => replay.thread(report),
    }
    report.request += &format!("; {may_go}");
    if report.outcome.is_none() && allowed.is_empty() {
        report.reason = Some("no allowed CPU is online".to_owned());
    }
    Ok(())
}

/// What every decision about CPUs goes by.
pub struct Replay<'a> {
    pub scene: &'a Scene<'a>,
    pub allowed: &'a Allowed,
    pub from: Option<CpuId>,
    pub options: &'a RequestOptions,
}

impl Replay<'_> {
    fn thread(&self, report: &mut Report) {
        let RequestOptions { strategy, level_max, .. } = *self.options;
        let strategy = strategy.unwrap_or(StrategyOption::Thesis);
        report.request = format!("a thread created {}", self.by());
        if strategy != StrategyOption::Thesis {
            let word = if strategy == StrategyOption::Packed { "packed" } else { "spread" };
            report.request += &format!("; strategy {word}");
        }
        if let Some(level) = level_max {
            report.request += &format!("; up to level {level}");
        }
        let request = Thread {
            creator: self.from,
            allowed: self.allowed,
            level_max,
            strategy: strategy.policy(),
        };
        report.start = Some(match strategy {
            StrategyOption::Spread => {
                let top = request.top(self.scene.names.tree);
                self.start(Some(top), "this strategy has no way up")
            }
            _ => self.start_at_leaf("the creator's leaf"),
        });
        self.decide(report, &request);
        if level_max.is_some() && strategy == StrategyOption::Spread && self.from.is_none() {
            let note =
                "--level-max says nothing to spread without --from-cpu: it counts from there";
            report.notes.push(note.to_owned());
        }
        report.reason = report.reason.take().map(|reason| match level_max {
            Some(level) => format!("{reason} up to level {level}"),
            None => reason,
        });
    }

    fn fork(&self, report: &mut Report) {
        report.request = format!("a process forked {}", self.by());
        let tree = self.scene.names.tree;
        let leaf = self.from.and_then(|cpu| tree.leaf_of(cpu));
        let node = self.scene.node_of(self.from).map(|node| tree.cluster_of_node(node)).or(leaf);
        let above = node.and_then(|node| tree.path_to_root(node).nth(FORK_LEVELS));
        report.start = Some(match (node, above) {
            (None, _) => self.start(None, "the root, since the parent's CPU is not given"),
            (_, None) => self.start(None, "the root: less than two levels are above the node"),
            _ => self.start(above, "two levels above the parent's node"),
        });
        self.decide(report, &Fork { parent: self.from, allowed: self.allowed });
    }

    fn exec(&self, report: &mut Report) {
        let seed = self.options.seed.unwrap_or(0);
        let machine = self.scene.names.machine;
        let free_pages_min =
            self.options.free_pages_min.or_else(|| default_free_pages_min(machine, PAGE));
        let threshold = match free_pages_min {
            Some(pages) => format!("threshold {}", count_of(pages, "free page")),
            None => "no threshold: the memory of a node is unknown".to_owned(),
        };
        report.request = format!("a new program; {threshold}; seed {seed}");
        report.start = Some(self.start(None, "a program has no way up"));
        self.decide(report, &Exec { allowed: self.allowed, free_pages_min, seed });
    }

    fn balance(&self, report: &mut Report) {
        let Some(initiator) = self.from else { return };
        let from = self.scene.cpu_and_node(initiator);
        report.request = format!("a CPU that takes a thread from {from}");
        report.should_balance = Some(self.should_balance(initiator));
        report.start = Some(self.start_at_leaf("the leaf of the CPU that asks"));
        self.decide(report, &Balance { initiator, allowed: self.allowed });
        report.reason =
            report.reason.take().map(|reason| format!("{reason}: the thread stays where it is"));
    }

    fn should_balance(&self, cpu: CpuId) -> ShouldBalance {
        let estimates = &self.scene.estimates;
        let state = CpuState::of(estimates, cpu, self.options.ready.unwrap_or(1));
        let verdict = state.should_balance(estimates, cpu);
        let usage = state.usage.map(|usage| u32::from(usage.percent()));
        let of_root = estimates.usage(ClusterId::ROOT).map(|usage| u32::from(usage.percent()));
        let part = |condition, holds, value| ConditionPart { condition, holds, value };
        ShouldBalance {
            cpu: self.scene.names.cpu(cpu),
            holds: verdict != Verdict::No,
            soon: verdict == Verdict::Yes { soon: true },
            parts: vec![
                part("U = 100", usage == Some(100), usage),
                part("T > 1", state.nr_threads > 1, Some(state.nr_threads)),
                part("R > 0", state.nr_ready > 0, Some(state.nr_ready)),
                part("U of the root < 100", of_root.is_some_and(|usage| usage < 100), of_root),
            ],
        }
    }

    fn decide(&self, report: &mut Report, request: &impl Placement) {
        let mut events: Vec<Event> = Vec::new();
        let found = explain(&self.scene.estimates, request, &mut events);
        report.attempts = self.teller().tell(&events);
        match found {
            Some(found) => {
                self.note_leaves(report, &found);
                report.outcome = Some(self.outcome(&found));
            }
            None => report.reason = Some("no attempt found a CPU".to_owned()),
        }
    }

    fn outcome(&self, found: &Found) -> Outcome {
        let names = &self.scene.names;
        let from = self.scene.node_of(self.from);
        let distance = from.zip(found.node).map(|(from, to)| names.machine.distance(from, to).0);
        Outcome {
            cpu: Some(names.cpu(found.cpu)),
            node: found.node.map(|node| names.tree.node_os_id(node).0),
            distance,
            attempt: Some(found.attempt),
            visited: found.visited,
        }
    }

    /// A mask of few leaves is read leaf by leaf before anything else, and no event says so; it shows
    /// in what was counted.
    fn note_leaves(&self, report: &mut Report, found: &Found) {
        let tree = self.scene.names.tree;
        let is_allowed = |id: &ClusterId| self.allowed.nr_in(*id) > 0;
        let leaves = tree.cluster_ids().filter(|&id| tree.cluster(id).is_leaf());
        let nr_leaves = leaves.filter(is_allowed).count();
        let is_part = self.allowed.nr_in(ClusterId::ROOT) as usize != tree.nr_cpus();
        if is_part && found.visited as usize == nr_leaves {
            report.notes.push(format!(
                "few leaves are allowed: {} read first, and all above added up from them",
                if nr_leaves == 1 { "it was".to_owned() } else { format!("the {nr_leaves} were") }
            ));
        }
    }

    /// Turns clusters into names, and events into an account.
    pub fn teller(&self) -> Teller<'_> {
        Teller { scene: *self.scene, from: self.scene.node_of(self.from), is_about_memory: false }
    }

    fn by(&self) -> String {
        match self.from {
            Some(cpu) => format!("by {}", self.scene.cpu_and_node(cpu)),
            None => "by nobody in particular".to_owned(),
        }
    }

    /// The leaf of the CPU that asks, where it is known.
    pub fn start_at_leaf(&self, because: &'static str) -> Start {
        match self.from.and_then(|cpu| self.scene.names.tree.leaf_of(cpu)) {
            Some(leaf) => self.start(Some(leaf), because),
            None => self.start(None, "the root, since --from-cpu is not given"),
        }
    }

    fn start(&self, at: Option<ClusterId>, because: &'static str) -> Start {
        Start { cluster: self.teller().name(at.unwrap_or(ClusterId::ROOT)), because }
    }
}

/// `1 page`, `2 pages`.
pub fn count_of(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
