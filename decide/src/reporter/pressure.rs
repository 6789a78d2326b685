//! How much tasks cost each other on the memory of a node.
//!
//! A node's *pressure* is the CPUs' worth of waiting for memory that tasks bring to its memory, divided by the CPUs
//! that a node has in the mean: Σ running × intensity × share of pages there ÷ CPUs per node. Its fair share is
//! the mean of all nodes with memory. What is above the fair share, and above what a node bears, is what a task
//! pays for being where others are: the *contention degradation factor*.
//!
//! A node is taken to bear that each of its CPUs waits for its memory half of the time. So tasks that run
//! beside their memory are only scattered where misses are counted and say that it is more; what nobody has
//! measured moves no pages.

use quartier_model::{Machine, Node, NodeId, Snapshot};

use super::terms::{Shares, Terms, ThreadTerms};

/// What a node bears.
const BEARABLE: f64 = 0.5;

/// By node.
#[derive(Clone, Debug)]
pub struct Pressure {
    of: Vec<f64>,
    /// With memory.
    nr_nodes: usize,
    cpus_per_node: f64,
}

impl Pressure {
    /// None yet.
    pub fn none(machine: &Machine, snapshot: &Snapshot) -> Self {
        let nodes = machine.nodes();
        let has_memory = |node: &&Node| node.memory.is_none_or(|memory| memory.0 > 0);
        let nr_nodes = nodes.iter().filter(has_memory).count().max(1);
        let cpus_per_node = (snapshot.cpus.len() as f64 / nr_nodes as f64).max(1.0);
        Self { of: vec![0.0; nodes.len()], nr_nodes, cpus_per_node }
    }

    /// Adds what a process brings where its pages are.
    pub fn add(&mut self, process: &Terms<'_>) {
        for thread in &process.threads {
            let Some(pages) = process.pages_of(thread) else { continue };
            let brings = self.of_running(process, thread.running);
            for (node, share) in pages {
                self.add_to(*node, brings * share);
            }
        }
    }

    /// What a process brings that runs on so many CPUs' worth.
    fn of_running(&self, process: &Terms<'_>, running: f64) -> f64 {
        running * process.intensity.value() / self.cpus_per_node
    }

    fn add_to(&mut self, node: NodeId, pressure: f64) {
        if let Some(of) = self.of.get_mut(node.index()) {
            *of += pressure;
        }
    }

    /// Adds what a process will bring to a node where it finds no reason to wait for a CPU.
    pub fn add_at(&mut self, node: NodeId, process: &Terms<'_>) {
        self.add_to(node, self.demand_of(process));
    }

    /// The same of one of its threads, whose pages will lie so.
    pub fn add_part(&mut self, pages: &Shares, process: &Terms<'_>, thread: &ThreadTerms<'_>) {
        let brings = self.of_running(process, thread.demand());
        pages.iter().for_each(|(node, share)| self.add_to(*node, brings * share));
    }

    /// What it brings if it can run as it would.
    pub fn demand_of(&self, process: &Terms<'_>) -> f64 {
        self.of_running(process, process.threads.iter().map(ThreadTerms::demand).sum())
    }

    pub fn on(&self, node: NodeId) -> f64 {
        self.of.get(node.index()).copied().unwrap_or(0.0)
    }

    /// The mean of nodes with memory.
    pub fn fair(&self) -> f64 {
        self.of.iter().sum::<f64>() / self.nr_nodes as f64
    }

    /// The most that a node has too much.
    pub fn excess_max(&self) -> f64 {
        let bearable = self.fair().max(BEARABLE);
        self.of.iter().map(|of| (of - bearable).max(0.0)).fold(0.0, f64::max)
    }

    /// What others cost whoever has pages so: Σ share × what the node has too much.
    pub fn contention(&self, pages: &Shares) -> f64 {
        let bearable = self.fair().max(BEARABLE);
        pages.iter().map(|(node, share)| share * (self.on(*node) - bearable).max(0.0)).sum()
    }

    /// Whether a process brings more to a node than it should take beside the others.
    pub fn is_too_much(&self, node: NodeId, process: &Terms<'_>, fair: f64) -> bool {
        let others = self.on(node);
        others > 0.0 && others + self.demand_of(process) > (1.25 * fair).max(BEARABLE)
    }
}
