//! A made-up machine with made-up tasks, for tests: plans are carried out in it.

use std::collections::BTreeMap;

use quartier_model::{
    BLOCK, BlockSeen, Bytes, CpuId, CpuList, KernelSeen, Machine, Nanos, NodeId, NodeSeen, Outcome,
    Pages, PerNode, Plan, ProcessSeen, Snapshot, Standing, Step, SyntheticSpec, TaskId, ThreadSeen,
    Touches, Unseen, Users,
};

use super::{Reporter, Settings, State};

pub const SECOND: u64 = 1_000_000_000;

/// A thread that always could run.
#[derive(Clone, Debug)]
pub struct Thread {
    pub cpu: u32,
    pub held_on: Option<NodeId>,
    /// Of the time.
    pub ran_percent: u64,
    pub waited_percent: u64,
    pub touched: Option<PerNode>,
    pub standing: Option<Standing>,
}

/// A block of memory that was touched.
#[derive(Clone, Debug)]
pub struct Block {
    pub on: NodeId,
    /// Threads by their index, with how often each touched it.
    pub by: Vec<(usize, u64)>,
}

/// What is known of who uses which page.
#[derive(Clone, Debug)]
pub enum Sight {
    Nobody,
    Unseen(Unseen),
    /// Blocks of [`BLOCK`] each, by their index.
    Blocks(Vec<Block>),
}

#[derive(Clone, Debug)]
pub struct Process {
    pub mib_on: BTreeMap<u32, u64>,
    pub threads: Vec<Thread>,
    pub standing: Standing,
    pub age: Nanos,
    pub pin: Option<NodeId>,
    pub cpus: Option<CpuList>,
    pub instructions_per_second: Option<u64>,
    pub misses_per_second: Option<u64>,
    /// Whether its memory moves when it is asked to.
    pub moves: bool,
    /// So much of it does not.
    pub stays_mib: u64,
    pub before: Option<BTreeMap<u32, u64>>,
    pub users: Sight,
    pub lost: u64,
}

pub struct World {
    pub machine: Machine,
    pub processes: Vec<Process>,
    pub free_mib: u64,
    /// Percent of the time.
    pub waits_for_memory: Option<u64>,
    pub at: Nanos,
    pub moved: Bytes,
}

/// A thread that runs all the time.
pub fn runs_on(cpu: u32) -> Thread {
    Thread {
        cpu,
        held_on: None,
        ran_percent: 100,
        waited_percent: 0,
        touched: None,
        standing: None,
    }
}

/// A process of such threads, an hour old.
pub fn process(mib_on: &[(u32, u64)], cpus: &[u32]) -> Process {
    Process {
        mib_on: mib_on.iter().copied().collect(),
        threads: cpus.iter().map(|cpu| runs_on(*cpu)).collect(),
        standing: Standing::Free,
        age: Nanos(3600 * SECOND),
        pin: None,
        cpus: None,
        instructions_per_second: None,
        misses_per_second: None,
        moves: true,
        stays_mib: 0,
        before: None,
        users: Sight::Nobody,
        lost: 0,
    }
}

/// One of such threads, whose memory was seen block by block.
pub fn seen_process(cpus: &[u32], blocks: Vec<Block>) -> Process {
    let mut mib_on = BTreeMap::new();
    for block in &blocks {
        *mib_on.entry(block.on.0).or_default() += BLOCK.0 >> 20;
    }
    Process { mib_on, users: Sight::Blocks(blocks), ..process(&[], cpus) }
}

pub fn id(at: usize) -> TaskId {
    TaskId { id: 100 * (at as u32 + 1), start_ticks: 1 }
}

pub fn thread_id(at: usize, thread: usize) -> TaskId {
    TaskId { id: id(at).id + thread as u32, start_ticks: 1 }
}

impl World {
    pub fn new(nodes: usize, cpus_per_node: u32, processes: Vec<Process>) -> Self {
        let machine = SyntheticSpec::uniform(nodes, cpus_per_node).machine().unwrap();
        Self {
            machine,
            processes,
            free_mib: 8192,
            waits_for_memory: None,
            at: Nanos(0),
            moved: Bytes(0),
        }
    }

    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.machine.clone(), Settings::default(), State::default())
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut cpus_busy = vec![Some(Nanos(0)); self.machine.cpus().len()];
        for thread in self.processes.iter().flat_map(|process| &process.threads) {
            let busy = cpus_busy[thread.cpu as usize].as_mut().unwrap();
            *busy = Nanos((busy.0 + thread.ran_percent * SECOND / 100).min(SECOND));
        }
        let free = Some(Bytes::from_mib(self.free_mib));
        let node = NodeSeen { free, ..NodeSeen::default() };
        Snapshot {
            at: self.at,
            window: Nanos(SECOND),
            cpus: self.machine.cpus().iter().map(|cpu| cpu.os_id.0).collect(),
            cpus_busy,
            nodes: vec![node; self.machine.nodes().len()],
            kernel: self.waits_for_memory.map(|percent| KernelSeen {
                over: Nanos(SECOND),
                waited_for_memory: Some(Nanos(percent * SECOND / 100)),
                ..KernelSeen::default()
            }),
            processes: (0..self.processes.len()).map(|at| self.seen(at)).collect(),
        }
    }

    fn seen(&self, at: usize) -> ProcessSeen {
        let process = &self.processes[at];
        let mib: u64 = process.mib_on.values().sum();
        let sampled = |(node, mib): (&u32, &u64)| (NodeId(*node), *mib);
        ProcessSeen {
            id: id(at),
            name: format!("p{at}"),
            age: process.age,
            standing: process.standing,
            counts_itself: false,
            pin: process.pin,
            cpus: process.cpus.clone(),
            mems: None,
            resident: Some(Bytes::from_mib(mib)),
            working_set: None,
            accessed_per_mille: None,
            sample: Some(process.mib_on.iter().map(sampled).collect()),
            sampled_at: Some(self.at),
            users: self.users(at),
            threads: (0..process.threads.len())
                .map(|thread| self.thread_seen(at, thread))
                .collect(),
        }
    }

    fn users(&self, at: usize) -> Option<Users> {
        let Process { users, lost, .. } = &self.processes[at];
        let blocks = match users {
            Sight::Nobody => return None,
            Sight::Unseen(unseen) => return Some(Users::Unknown(*unseen)),
            Sight::Blocks(blocks) => blocks,
        };
        let seen = |(index, block): (u64, &Block)| BlockSeen {
            index,
            on: Some(block.on),
            by: block.by.iter().map(|(thread, nr)| (thread_id(at, *thread).id, *nr)).collect(),
        };
        let blocks = (0..).zip(blocks).filter(|(_, block)| !block.by.is_empty()).map(seen);
        Some(Users::Seen(Touches { blocks: blocks.collect(), lost: *lost }))
    }

    /// As the Monitor would say it: of the blocks, or as it was given.
    fn touched(&self, at: usize, index: usize) -> Option<PerNode> {
        let process = &self.processes[at];
        let Sight::Blocks(blocks) = &process.users else {
            return process.threads[index].touched.clone();
        };
        let mut touched = PerNode::new();
        for block in blocks {
            for (_, nr) in block.by.iter().filter(|(thread, _)| *thread == index) {
                *touched.entry(block.on).or_default() += nr;
            }
        }
        (!touched.is_empty()).then_some(touched)
    }

    fn thread_seen(&self, at: usize, index: usize) -> ThreadSeen {
        let process = &self.processes[at];
        let thread = &process.threads[index];
        let node = self.machine.cpus()[thread.cpu as usize].node.unwrap();
        ThreadSeen {
            id: thread_id(at, index),
            ran: Nanos(thread.ran_percent * SECOND / 100),
            waited: Nanos(thread.waited_percent * SECOND / 100),
            cpu: Some(CpuId(thread.cpu)),
            found_on: PerNode::from([(node, 5)]),
            held_on: thread.held_on,
            standing: thread.standing,
            touched: self.touched(at, index),
            llc_misses: process.misses_per_second,
            instructions: process.instructions_per_second,
            cycles: None,
            remote_reads: None,
            faults: None,
        }
    }

    /// A second passes; what the Reporter wants is done.
    pub fn step(&mut self, reporter: &mut Reporter) -> Plan {
        self.at = Nanos(self.at.0 + SECOND);
        let snapshot = self.snapshot();
        let triggers = reporter.triggers(&snapshot);
        if triggers.is_empty() {
            return Plan::default();
        }
        let plan = reporter.plan(triggers, &snapshot);
        for step in &plan.steps {
            reporter.outcome(&self.carry_out(step));
        }
        self.share_cpus();
        plan
    }

    /// So many seconds; all steps that were made.
    pub fn steps(&mut self, reporter: &mut Reporter, seconds: usize) -> Vec<Step> {
        (0..seconds).flat_map(|_| self.step(reporter).steps).collect()
    }

    pub fn carry_out(&mut self, step: &Step) -> Outcome {
        let at = step.process.id as usize / 100 - 1;
        let process = &mut self.processes[at];
        for (thread, node) in &step.threads {
            process.threads[thread.id as usize % 100].held_on = *node;
        }
        let before = process.mib_on.clone();
        match step.pages {
            Pages::Stay => {}
            Pages::Back => process.mib_on = process.before.take().expect("it was moved before"),
            _ if !process.moves => {}
            Pages::To { node, .. } => {
                let all: u64 = before.values().sum();
                let home = *before.iter().max_by_key(|(_, mib)| **mib).expect("it has memory").0;
                process.mib_on = [(home, process.stays_mib)].into();
                *process.mib_on.entry(node.0).or_default() += all - process.stays_mib;
            }
            Pages::ToUsers { ref blocks, .. } => {
                let Sight::Blocks(seen) = &mut process.users else { panic!("nobody saw them") };
                for (index, node) in blocks {
                    let block = &mut seen[*index as usize];
                    let mib = BLOCK.0 >> 20;
                    *process.mib_on.get_mut(&block.on.0).unwrap() -= mib;
                    *process.mib_on.entry(node.0).or_default() += mib;
                    block.on = *node;
                }
            }
        }
        let here = |node: &u32| process.mib_on.get(node).copied().unwrap_or(0);
        let gone = before.iter().map(|(node, mib)| mib.saturating_sub(here(node))).sum();
        process.before.get_or_insert(before);
        let moved = Bytes::from_mib(gone);
        self.moved = self.moved + moved;
        let is_asked = matches!(step.pages, Pages::To { .. });
        let stayed = Bytes::from_mib(if is_asked { process.stays_mib } else { 0 });
        Outcome {
            at: self.at,
            process: step.process,
            threads_held: step.threads.len() as u32,
            threads_left: 0,
            moved,
            stayed,
            refusal: None,
            by_cpuset: None,
        }
    }

    /// As a kernel would: whoever is held goes to the CPU of the node with fewest; then whoever shares a CPU and is
    /// not held goes to an idle one.
    pub fn share_cpus(&mut self) {
        let mut load = vec![0u64; self.machine.cpus().len()];
        for is_held in [true, false] {
            for thread in self.processes.iter_mut().flat_map(|process| &mut process.threads) {
                if thread.held_on.is_some() != is_held {
                    continue;
                }
                let may = |cpu: &CpuId| {
                    let node = self.machine.cpus()[cpu.index()].node;
                    thread.held_on.is_none() || thread.held_on == node
                };
                let stays = |cpu: &CpuId| u32::from(cpu.0 != thread.cpu);
                let cpus = self.machine.cpu_ids().filter(may);
                let best = cpus.min_by_key(|cpu| (load[cpu.index()], stays(cpu))).unwrap();
                thread.cpu = best.0;
                load[best.index()] += 1;
            }
        }
        for thread in self.processes.iter_mut().flat_map(|process| &mut process.threads) {
            let sharers = load[thread.cpu as usize];
            thread.ran_percent = 100 / sharers;
            thread.waited_percent = 100 - 100 / sharers;
        }
    }

    pub fn node_of(&self, process: usize, thread: usize) -> NodeId {
        let cpu = self.processes[process].threads[thread].cpu;
        self.machine.cpus()[cpu as usize].node.unwrap()
    }

    /// The part of the pages that is on the nodes of its threads.
    pub fn local_share(&self, process: usize) -> f64 {
        let all = &self.processes[process];
        let local: u64 = all
            .threads
            .iter()
            .enumerate()
            .map(|(at, _)| all.mib_on.get(&self.node_of(process, at).0).copied().unwrap_or(0))
            .sum();
        local as f64 / all.mib_on.values().sum::<u64>() as f64 / all.threads.len() as f64
    }
}
