//! From the events of a decision to its account.

use quartier_decide::dqdt::ClusterId;
use quartier_decide::policy::{Event, Load, Part};
use quartier_model::{CpuId, NodeId};

use super::account::{
    Attempt, ClusterName, Counts, LoadSeen, PartName, PartSeen, StepDown, StepUp,
};
use super::scene::Scene;

/// Turns the events of a decision into attempts.
pub struct Teller<'a> {
    pub scene: Scene<'a>,
    /// Where distances count from.
    pub from: Option<NodeId>,
    /// Whether only M counts.
    pub is_about_memory: bool,
}

impl Teller<'_> {
    /// All that happened.
    pub fn tell(&self, events: &[Event]) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        let mut read = None;
        for event in events {
            match *event {
                Event::Visited { cluster, load } => read = Some(self.step_down(cluster, &load)),
                Event::Passed { cluster, load, attempt, condition } => {
                    let step = self.step_up(cluster, &load, condition, false);
                    block_for_way_up(&mut attempts, attempt).way_up.push(step);
                }
                Event::Stopped { cluster, load, attempt, condition } => {
                    let step = self.step_up(cluster, &load, condition, true);
                    block_for_way_up(&mut attempts, attempt).way_up.push(step);
                }
                Event::Rejected { part, load, attempt, condition } => {
                    let mut seen = self.part(part, &load);
                    seen.rejected_by = Some(self.condition(part, &load, condition));
                    if let Some(step) = step_for(&mut attempts, attempt, &mut read) {
                        step.parts.push(seen);
                    }
                }
                Event::Eligible { part, load, rank, attempt, order } => {
                    let seen = PartSeen { rank: Some(rank), ..self.part(part, &load) };
                    if let Some(step) = step_for(&mut attempts, attempt, &mut read) {
                        step.parts.push(seen);
                        step.order = Some(order);
                    }
                }
                Event::Failed { attempt, .. } => {
                    if let Some(step) = step_for(&mut attempts, attempt, &mut read) {
                        step.failed = true;
                    }
                }
            }
        }
        step_for(&mut attempts, 1, &mut read);
        attempts
    }

    /// A cluster's name.
    pub fn name(&self, id: ClusterId) -> ClusterName {
        let names = &self.scene.names;
        ClusterName { id: id.0, name: names.name(id), level: names.tree.cluster(id).level() }
    }

    fn step_up(
        &self,
        cluster: ClusterId,
        load: &Load,
        condition: &'static str,
        holds: bool,
    ) -> StepUp {
        StepUp { cluster: self.name(cluster), load: self.load(load), condition, holds }
    }

    fn step_down(&self, cluster: ClusterId, load: &Load) -> StepDown {
        self.step_down_at(cluster, self.load(load))
    }

    /// A cluster on the way down of which nothing is told yet.
    pub fn step_down_at(&self, cluster: ClusterId, load: LoadSeen) -> StepDown {
        StepDown {
            cluster: self.name(cluster),
            load,
            parts: Vec::new(),
            order: None,
            failed: false,
        }
    }

    fn part(&self, part: Part, load: &Load) -> PartSeen {
        let mut load = self.load(load);
        let (name, distance) = match part {
            Part::Cluster(id) => (PartName::Cluster(self.name(id)), self.distance(id)),
            Part::Cpu(cpu) => {
                if let Some(counts) = &mut load.counts {
                    counts.threads_of_core = self.threads_of_core(cpu);
                }
                (PartName::Cpu(self.scene.names.cpu(cpu)), None)
            }
        };
        PartSeen { name, load, distance, rank: None, rejected_by: None }
    }

    /// From the requester's node to a cluster's home, where both are known.
    pub fn distance(&self, id: ClusterId) -> Option<u8> {
        let tree = self.scene.names.tree;
        let is_known = self.from.is_some() && tree.cluster(id).home().is_some();
        is_known.then(|| tree.distance(self.from, id).0)
    }

    fn load(&self, load: &Load) -> LoadSeen {
        let counts = Counts {
            threads: load.nr_threads,
            threads_of_core: None,
            cpus: load.nr_cpus,
            cores: load.nr_cores,
        };
        LoadSeen {
            counts: (!self.is_about_memory).then_some(counts),
            usage_percent: load.usage_percent,
            free_pages: load.free_pages(),
        }
    }

    /// T of a CPU's core in its leaf, which is how far a decision sees.
    fn threads_of_core(&self, cpu: CpuId) -> Option<u32> {
        let Scene { names, estimates } = &self.scene;
        let of = |cpu: CpuId| &names.machine.cpus()[cpu.index()];
        let is_sibling = |&other: &CpuId| {
            of(other).core.is_some()
                && (of(other).package, of(other).core) == (of(cpu).package, of(cpu).core)
        };
        let leaf = names.tree.leaf_of(cpu)?;
        let core: Vec<_> = names.tree.cluster_cpus(leaf).filter(is_sibling).collect();
        let threads = core.iter().map(|&cpu| estimates.nr_threads_on(cpu));
        (core.len() > 1).then(|| threads.sum())
    }

    /// What did not hold. Where nothing is allowed because there is nothing, it says that.
    fn condition(&self, part: Part, load: &Load, condition: &'static str) -> String {
        let is_empty = |id: ClusterId| self.scene.names.tree.cluster(id).nr_cpus() == 0;
        match part {
            Part::Cluster(id) if !self.is_about_memory && load.nr_cpus == 0 && is_empty(id) => {
                "N > 0 (it has no CPUs)".to_owned()
            }
            _ => condition.to_owned(),
        }
    }
}

/// The attempt that a step of a way up belongs to: a way up is the beginning of one.
fn block_for_way_up(attempts: &mut Vec<Attempt>, attempt: u8) -> &mut Attempt {
    let goes_on = |last: &Attempt| last.attempt == attempt && last.way_down.is_empty();
    if !attempts.last().is_some_and(goes_on) {
        attempts.push(Attempt { attempt, ..Attempt::default() });
    }
    let last = attempts.len() - 1;
    &mut attempts[last]
}

/// The cluster whose parts are told next: the one that was just read, else the last one.
fn step_for<'a>(
    attempts: &'a mut Vec<Attempt>,
    attempt: u8,
    read: &mut Option<StepDown>,
) -> Option<&'a mut StepDown> {
    if let Some(step) = read.take() {
        if attempts.last().is_none_or(|last| last.attempt != attempt) {
            attempts.push(Attempt { attempt, ..Attempt::default() });
        }
        attempts.last_mut()?.way_down.push(step);
    }
    attempts.last_mut()?.way_down.last_mut()
}
