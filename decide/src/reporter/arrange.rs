//! Where each process would go: those that are well placed stay, the others are given nodes one after the
//! other, those first that have most memory in one place, so that it is threads that travel rather than
//! pages. Whoever finds no place at home waits until all have that do.
//!
//! A node takes a process if it has room for its pages and does not get more than its fair share of pressure.
//! Among those, one where fewest threads would have to wait, then one with the most powerful CPUs, then one where
//! fewest pages would have to move, then one with least pressure;
//! of equally good ones the decision tree chooses, from the process's memory outwards.

use std::cmp::Reverse;

use quartier_model::{BLOCK, Bytes, CpuId, Machine, NodeId, ProcessSeen, Snapshot, TaskId, Why};

use super::plan::Sight;
use super::power::Power;
use super::pressure::Pressure;
use super::terms::{Terms, ThreadTerms, share_on};
use super::users::{self, Goal};
use crate::dqdt::{Allowed, Estimates, Threads, Tree};
use crate::policy::group::{self, Group};

/// On every node so much stays free, whatever moves there.
const FREE_MIN: Bytes = Bytes::from_mib(64);

/// Of a CPU's time: what runs less than this takes no place from a thread that always runs.
const PART_MIN: f64 = 0.5;

/// What a process is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub home: Home,
    /// The part of what it could run that it will, beside the others there.
    pub runs: f64,
}

/// Where a process's threads go.
#[derive(Clone, Debug, PartialEq)]
pub enum Home {
    /// All on one node, and its pages with them.
    One(NodeId),
    /// Each on a node of its own, and blocks of memory to who uses them.
    Each { homes: Vec<(TaskId, NodeId)>, blocks: Vec<Goal> },
}

/// Of a node for a process, the worst first.
type Costs = (u64, u64, u64, u64);

/// A machine that is being filled.
pub struct Arrangement<'a> {
    machine: &'a Machine,
    tree: &'a Tree,
    snapshot: &'a Snapshot,
    power: &'a Power,
    /// T, of those that have a place.
    threads: Box<[Threads]>,
    /// By node: what threads that run now and then make beyond the threads counted, less than one of them.
    parts: Vec<f64>,
    /// What is left on each node; `None`: unknown.
    room: Vec<Option<u64>>,
    /// Of those that have a place.
    pub pressure: Pressure,
    /// What each node's pressure should be, were all processes placed.
    fair: f64,
}

impl<'a> Arrangement<'a> {
    /// An empty machine. `fair` is the pressure of all processes together, shared out evenly.
    pub fn new(sight: &Sight<'a>, tree: &'a Tree, fair: f64) -> Self {
        let Sight { machine, snapshot, power, .. } = *sight;
        // Half of the page cache that nobody uses: what needs it may need it again.
        let room = |node: NodeId| {
            let seen = snapshot.nodes.get(node.index())?;
            Some((seen.free? + Bytes(seen.reclaimable.unwrap_or_default().0 / 2) - FREE_MIN).0)
        };
        let room = machine.node_ids().map(room).collect();
        let pressure = Pressure::none(machine, snapshot);
        let parts = vec![0.0; machine.nodes().len()];
        let threads = tree.new_threads();
        Self { machine, tree, snapshot, power, threads, parts, room, pressure, fair }
    }

    /// Counts a process where it is. Threads that run now and then count together: four that run for a
    /// quarter of it leave as much room as one that always does.
    pub fn keep(&mut self, process: &Terms<'_>) {
        for thread in process.active() {
            let Some(cpu) = thread.cpu else { continue };
            let node = self.machine.cpus().get(cpu.index()).and_then(|cpu| cpu.node);
            let Some(part) = node.and_then(|node| self.parts.get_mut(node.index())) else {
                continue;
            };
            // One that is held has a place, also while its pages move and it runs less.
            let is_held = thread.seen.held_on.is_some();
            *part += if is_held { 1.0 } else { thread.demand().min(1.0) };
            if *part >= 1.0 {
                *part -= 1.0;
                self.estimates().add_thread(cpu);
            }
        }
        self.pressure.add(process);
    }

    /// Counts a process on the node where most of its memory is, if that takes it and nobody would have to
    /// wait, and no more powerful one has CPUs for it. `None`: it has to be [placed](Self::place), after all whose homes take them.
    pub fn place_at_home(&mut self, process: &Terms<'_>) -> Option<Given> {
        let home = process.home().filter(|_| process.seen.pin.is_none())?;
        let nr_threads = process.to_place().count();
        let cpus = self.cpus_of(process.seen, home);
        let takes = self.may_take(process, home)
            && self.has_room(process, home)
            && self.waiting(home, &cpus, nr_threads) < PART_MIN
            && !self.pressure.is_too_much(home, process, self.fair)
            && !self.is_stronger_free(process, home, nr_threads);
        takes.then(|| self.take(process, home, &cpus, nr_threads))?
    }

    /// Whether a node that is more powerful than its home has a CPU for each thread of a process.
    fn is_stronger_free(&self, process: &Terms<'_>, home: NodeId, nr_threads: usize) -> bool {
        let than = self.power.on(home);
        let stronger = self.machine.node_ids().filter(|node| self.power.is_stronger(*node, than));
        let mut takes = stronger.filter(|node| {
            let cpus = self.cpus_of(process.seen, *node);
            self.may_take(process, *node) && self.waiting(*node, &cpus, nr_threads) < PART_MIN
        });
        takes.next().is_some()
    }

    /// Finds nodes for a process and counts it there.
    pub fn place(&mut self, process: &Terms<'_>) -> Result<Given, Why> {
        let nr_threads = process.to_place().count();
        if let Some(pin) = process.seen.pin {
            let cpus = self.cpus_of(process.seen, pin);
            return self.take(process, pin, &cpus, nr_threads).ok_or(Why::NoRoom);
        }
        let nodes: Vec<_> =
            self.machine.node_ids().filter(|node| self.may_take(process, *node)).collect();
        let Some(biggest) = nodes.iter().map(|node| self.nr_cpus(process.seen, *node)).max() else {
            return Err(Why::NoRoom);
        };
        let with_room: Vec<_> =
            nodes.iter().copied().filter(|node| self.has_room(process, *node)).collect();
        match (nr_threads > biggest, with_room.is_empty()) {
            (false, false) => self.place_on_one(process, &with_room, nr_threads).ok_or(Why::NoRoom),
            (false, true) if nr_threads == 1 => Err(Why::NoRoom),
            _ => self.split(process),
        }
    }

    fn estimates(&self) -> Estimates<'_> {
        Estimates::new(self.tree, &self.threads).expect("the list was made for this tree")
    }

    /// One node for all.
    fn place_on_one(
        &mut self,
        process: &Terms<'_>,
        nodes: &[NodeId],
        nr_threads: usize,
    ) -> Option<Given> {
        let fair = self.fair;
        let calm: Vec<_> = nodes
            .iter()
            .copied()
            .filter(|node| !self.pressure.is_too_much(*node, process, fair))
            .collect();
        let nodes = if calm.is_empty() { nodes } else { &calm };
        let costs = |node: &NodeId| (self.costs(process, *node, nr_threads), *node);
        let costs: Vec<_> = nodes.iter().map(costs).collect();
        let least = costs.iter().map(|(costs, _)| *costs).min()?;
        let cpus = self.cpus_on(process.seen, |node| costs.contains(&(least, node)));
        let near = self.near(process);
        let mut cpu = [CpuId(0)];
        let one = Group { near, allowed: &Allowed::new(self.tree, cpus.iter().copied()) };
        group::decide(&self.estimates(), &one, &mut cpu)?;
        let node = self.tree.node_of(cpu[0])?;
        let cpus = self.cpus_of(process.seen, node);
        self.take(process, node, &cpus, nr_threads)
    }

    /// How many halves of a thread would have to wait there, how much weaker its CPUs are than others, how many
    /// sixteenths of its pages would have to move, and the pressure of those that have a place there, in quarters: a node that
    /// is near and fills up is left again, with all its pages.
    fn costs(&self, process: &Terms<'_>, node: NodeId, nr_threads: usize) -> Costs {
        let waiting = self.waiting(node, &self.cpus_of(process.seen, node), nr_threads);
        let here = process.pages.as_ref().map_or(0.0, |pages| share_on(pages, node));
        let sixteenths = ((1.0 - here) * 16.0).round() as u64;
        let quarters = (self.pressure.on(node) * 4.0).round() as u64;
        ((waiting / PART_MIN) as u64, self.power.eighths_longer(node), sixteenths, quarters)
    }

    /// How many threads would have to wait on these CPUs of a node if so many more were there.
    fn waiting(&self, node: NodeId, cpus: &[CpuId], nr_threads: usize) -> f64 {
        let estimates = self.estimates();
        let there: u32 = cpus.iter().map(|cpu| estimates.nr_threads_on(*cpu)).sum();
        let runs = f64::from(there) + self.parts[node.index()] + nr_threads as f64;
        (runs - cpus.len() as f64).max(0.0)
    }

    /// Counts so many threads on these CPUs of a node, and the pages.
    fn take(
        &mut self,
        process: &Terms<'_>,
        node: NodeId,
        cpus: &[CpuId],
        nr_threads: usize,
    ) -> Option<Given> {
        let waiting = self.waiting(node, cpus, nr_threads);
        self.count_threads(process, cpus, nr_threads)?;
        self.pressure.add_at(node, process);
        let moves = process.bytes_off(node);
        if let Some(Some(room)) = self.room.get_mut(node.index()) {
            *room = room.saturating_sub(moves.0);
        }
        // Those that wait do so in turn with all the others.
        let runs = cpus.len() as f64 / (cpus.len() as f64 + waiting);
        Some(Given { home: Home::One(node), runs })
    }

    /// As many CPUs of the given ones as there are threads, as the tree chooses them.
    fn count_threads(&self, process: &Terms<'_>, cpus: &[CpuId], nr: usize) -> Option<Vec<CpuId>> {
        let allowed = Allowed::new(self.tree, cpus.iter().copied());
        let mut chosen = vec![CpuId(0); nr];
        let estimates = self.estimates();
        let group = Group { near: self.near(process), allowed: &allowed };
        group::decide(&estimates, &group, &mut chosen)?;
        chosen.iter().for_each(|cpu| {
            estimates.add_thread(*cpu);
        });
        Some(chosen)
    }

    /// Leaves a CPU to what runs now and then on a node, where that makes half of one and more, as far as there are idle
    /// CPUs beyond those for so many threads: who has to share one does so with who runs least.
    fn spare(&self, cpus: &[CpuId], nr_threads: usize) -> Vec<CpuId> {
        let estimates = self.estimates();
        let is_idle = |cpu: &&CpuId| estimates.nr_threads_on(**cpu) == 0;
        let nr_idle = cpus.iter().filter(is_idle).count();
        let part = |node: &NodeId| self.parts[node.index()];
        let mut nodes: Vec<_> =
            self.machine.node_ids().filter(|node| part(node) >= PART_MIN).collect();
        nodes.sort_by(|a, b| part(b).total_cmp(&part(a)));
        let of_node = |node: NodeId| {
            let there = |cpu: &&CpuId| self.machine.cpus()[cpu.index()].node == Some(node);
            cpus.iter().filter(there).find(is_idle).copied()
        };
        let spared: Vec<_> = nodes
            .into_iter()
            .take(nr_idle.saturating_sub(nr_threads))
            .filter_map(of_node)
            .collect();
        spared.iter().for_each(|cpu| {
            estimates.add_thread(*cpu);
        });
        spared
    }

    /// Nodes for each thread: as few and as near to its memory as the tree finds, and each thread on that
    /// of them where most of the pages lie that it uses. What threads of one node use goes there as well.
    fn split(&mut self, process: &Terms<'_>) -> Result<Given, Why> {
        users::are_known(process).map_err(Why::UsersUnknown)?;
        let threads: Vec<_> = process.to_place().collect();
        let cpus = self.cpus_on(process.seen, |node| self.may_take(process, node));
        let spared = self.spare(&cpus, threads.len());
        let chosen = self.count_threads(process, &cpus, threads.len());
        for cpu in spared {
            // It was counted a moment ago.
            let _ = self.estimates().remove_thread(cpu);
        }
        let chosen = chosen.ok_or(Why::NoRoom)?;
        let mut nodes: Vec<_> = chosen.iter().filter_map(|cpu| self.tree.node_of(*cpu)).collect();
        let mut homes = assign(&threads, &mut nodes);
        homes.sort();
        let blocks = self.with_room(users::goals(process, &homes));
        for thread in threads {
            if let Some(pages) = users::pages_then(process, thread, &blocks) {
                self.pressure.add_part(&pages, process, thread);
            }
        }
        let runs = (cpus.len() as f64 / homes.len() as f64).min(1.0);
        Ok(Given { home: Home::Each { homes, blocks }, runs })
    }

    /// Those blocks for which their nodes have room, which they take.
    fn with_room(&mut self, mut blocks: Vec<Goal>) -> Vec<Goal> {
        blocks.retain(|(_, node)| match &mut self.room[node.index()] {
            Some(room) if *room >= BLOCK.0 => {
                *room -= BLOCK.0;
                true
            }
            _ => false,
        });
        blocks
    }

    /// Where the tree's search for a process begins.
    fn near(&self, process: &Terms<'_>) -> Option<CpuId> {
        let first_cpu = |node: NodeId| self.machine.node_cpus(node).first().copied();
        let of_memory = process.home().and_then(first_cpu);
        of_memory.or_else(|| process.to_place().find_map(|thread| thread.cpu))
    }

    fn may_take(&self, process: &Terms<'_>, node: NodeId) -> bool {
        let mems = process.seen.mems.as_ref();
        mems.is_none_or(|mems| mems.contains(&node)) && self.nr_cpus(process.seen, node) > 0
    }

    fn has_room(&self, process: &Terms<'_>, node: NodeId) -> bool {
        let moves = process.bytes_off(node);
        moves == Bytes(0) || self.room[node.index()].is_some_and(|room| moves.0 <= room)
    }

    fn nr_cpus(&self, process: &ProcessSeen, node: NodeId) -> usize {
        self.cpus_of(process, node).len()
    }

    /// The CPUs of some nodes that a process may run on.
    fn cpus_on(&self, process: &ProcessSeen, takes: impl Fn(NodeId) -> bool) -> Vec<CpuId> {
        let nodes = self.machine.node_ids().filter(|node| takes(*node));
        nodes.flat_map(|node| self.cpus_of(process, node)).collect()
    }

    /// The CPUs of a node that a process may run on.
    fn cpus_of(&self, process: &ProcessSeen, node: NodeId) -> Vec<CpuId> {
        let may_use =
            |cpu: &CpuId| self.snapshot.may_use(process, self.machine.cpus()[cpu.index()].os_id);
        self.machine.node_cpus(node).iter().copied().filter(may_use).collect()
    }
}

/// Gives each thread one of the nodes, those first that lose most if they do not get the one they want; to whom
/// all are alike, the one where it is held. The others get what is left, in order.
fn assign(threads: &[&ThreadTerms<'_>], nodes: &mut Vec<NodeId>) -> Vec<(TaskId, NodeId)> {
    nodes.sort();
    let wish = |thread: &ThreadTerms<'_>, node: NodeId| {
        let share = thread.pages.as_ref().map_or(0.0, |pages| share_on(pages, node));
        (share * thread.demand() * 1e6) as u64
    };
    let mut wishes: Vec<_> = (0..threads.len())
        .flat_map(|at| {
            let mut distinct = nodes.clone();
            distinct.dedup();
            distinct.into_iter().map(move |node| (at, node))
        })
        .map(|(at, node)| {
            let is_elsewhere = threads[at].seen.held_on != Some(node);
            (Reverse(wish(threads[at], node)), is_elsewhere, at, node)
        })
        .collect();
    wishes.sort();
    let mut homes = vec![None; threads.len()];
    for (_, _, at, node) in wishes {
        if homes[at].is_none()
            && let Some(free) = nodes.iter().position(|other| *other == node)
        {
            nodes.remove(free);
            homes[at] = Some(node);
        }
    }
    threads.iter().zip(homes).filter_map(|(thread, node)| Some((thread.seen.id, node?))).collect()
}
