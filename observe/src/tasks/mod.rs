//! The Monitor (UNAS, algorithm 1): what every task of a machine does, period after period.
//!
//! What it costs is bounded. Threads that run or wait are looked at in every period, through files that stay open, and those
//! that do so for less than a hundredth of the time in one of five; processes that do neither, every five seconds, by a clock
//! that costs a twentieth of a file, and their threads only when the process has used CPU time that no known thread explains.
//! Lists of mappings are read, pages asked for, and touches looked at, only as far as a small part of the time goes.

mod around;
mod budget;
mod counting;
mod files;
mod pages;
mod perf;
mod process;
mod rules;
mod standing;
pub(crate) mod stat;
mod thread;
mod touches;
mod whose;
mod working_sets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use quartier_model::{
    Bytes, Counting, CpuList, Machine, Nanos, NodeId, NodeOsId, Refusal, Snapshot, Standing, Task,
    TaskId, Unseen,
};

use crate::events::{Events, LiveEvents, NoEvents};
use crate::{Host, Result, own_cpu_time};
use around::Around;
use budget::Budgets;
use counting::Counter;
use files::Files;
use pages::Random;
use process::{KernelThread, Look, Process};
pub use rules::{Pin, Rules, Who};
use standing::Cpusets;
use stat::{Class, Stat};
use thread::PERIODS;
pub use whose::{Whose, cpus_left_to, parent, whose};
use working_sets::Watching;

const SECOND: u64 = 1_000_000_000;
/// A tick of the kernel's interfaces (`USER_HZ`, 100 on every architecture that Debian has).
const NANOS_PER_TICK: u64 = SECOND / 100;
/// Which processes there are, and what CPUs and nodes do, is asked this often.
const LOOK_AROUND: Nanos = Nanos(SECOND);
/// The CPU time of a process that runs, and of one that does not.
const LOOK_AT_BUSY: Nanos = Nanos(SECOND);
const LOOK_AT_IDLE: Nanos = Nanos(5 * SECOND);
/// All threads of a process that does not run: one that uses CPU time is looked through sooner.
const LOOK_THROUGH_IDLE: Nanos = Nanos(60 * SECOND);
/// Affinities, policies, cpusets and rules.
const LOOK_AT_STANDING: Nanos = Nanos(5 * SECOND);
/// A list of mappings is used for so long.
const MAPPINGS_LAST: Nanos = Nanos(10 * SECOND);
/// A thread's CPU is asked for in one of so many periods,
const TURNS: usize = 5;
/// or of more, where that would be more threads in one period.
const LOCATED_MAX: usize = 100;
/// What part of one CPU looking at pages takes: lists of mappings, where pages lie, and who touches them.
/// Of a Monitor that nobody has told otherwise.
pub const PAGES_PART: f64 = 0.005;

/// It is not permitted to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

/// What the kernel says through system calls rather than files, and what we did to tasks ourselves.
pub trait Kernel {
    /// The CPUs that a thread may run on; `None` when it has ended.
    fn affinity(&self, tid: u32) -> Option<CpuList>;

    /// The time on a CPU of all of a process's threads since it began, those that ended as well; `None`: it has ended, or
    /// that is to be read from a file.
    fn cpu_time(&self, pid: u32) -> Option<Nanos>;

    /// The node of each of a process's pages; `None` for one that is not resident.
    ///
    /// # Errors
    /// When it is not permitted, or the process has ended.
    fn nodes_of(
        &self,
        pid: u32,
        addresses: &[u64],
        nodes: &mut Vec<Option<NodeOsId>>,
    ) -> std::result::Result<(), Denied>;

    /// The node that we hold a thread on.
    fn held_on(&self, task: &Task) -> Option<NodeId>;

    /// Whether an affinity that a thread has is what we set, for it or for whoever made it. `whole` is what its cpuset
    /// leaves to it.
    fn owns(&self, task: &Task, affinity: &CpuList, whole: &CpuList) -> bool;

    /// A process is not ours to hold any more, for somebody else places it.
    fn leaves(&self, process: TaskId);

    /// Whether the cpuset of a control group is what we left to it.
    fn is_narrowed(&self, cgroup: &str) -> bool;

    /// Whether a process is whoever watches.
    fn is_watcher(&self, pid: u32) -> bool;
}

/// The ranges of a process's memory that may be moved, however much it is.
///
/// # Errors
/// When it has ended, or may not be asked.
pub fn movable_of(root: &Path, pid: u32) -> std::result::Result<Vec<(u64, u64)>, Refusal> {
    process::movable(&mut Files::below(root), pid)
}

/// That process, not another that has its number.
fn find_mut(processes: &mut BTreeMap<u32, Process>, process: TaskId) -> Option<&mut Process> {
    processes.get_mut(&process.id).filter(|found| found.id == process)
}

/// Watches the tasks of one machine.
#[derive(Debug)]
pub struct Monitor {
    host: Host,
    files: Files,
    machine: Machine,
    rules: Rules,
    processes: BTreeMap<u32, Process>,
    around: Around,
    census: Census,
    /// When it looked, the newest last.
    looked: VecDeque<Nanos>,
    turn: usize,
    /// Threads that ran or waited, when it looked last.
    nr_busy: usize,
    pages: LooksAtPages,
    watching: Watching,
    events: Box<dyn Events>,
    counter: Counter,
    /// Whether the kernel makes touches visible.
    balancing: std::result::Result<(), Unseen>,
    cpusets: Cpusets,
    /// Files that may be kept open, and how many more than there were at the last look.
    descriptors_max: usize,
    may_open: usize,
}

/// What looking at pages may take, and which are looked at.
#[derive(Debug)]
struct LooksAtPages {
    budgets: Budgets,
    random: Random,
}

/// Which tasks there were.
#[derive(Debug, Default)]
struct Census {
    /// When all are looked through, whoever was made.
    next: Nanos,
    /// Tasks that had been made since the machine was started.
    forks: Option<u64>,
    /// The kernel's threads.
    of_kernel: BTreeSet<u32>,
}

impl Monitor {
    /// Of the machine below a root, which is `/` but in tests.
    #[must_use]
    pub fn new(root: &Path, machine: Machine, rules: Rules, descriptors_max: usize) -> Self {
        let is_live = root == Path::new("/");
        Self {
            host: if is_live { Host::live() } else { Host::at(root, "monitored") },
            files: Files::below(root),
            machine,
            rules,
            processes: BTreeMap::new(),
            around: Around::default(),
            census: Census::default(),
            looked: VecDeque::new(),
            turn: 0,
            nr_busy: 0,
            pages: LooksAtPages { budgets: Budgets::new(PAGES_PART), random: Random(0) },
            watching: Watching::default(),
            events: if is_live { Box::new(LiveEvents) } else { Box::new(NoEvents) },
            counter: Counter::default(),
            balancing: Err(Unseen::NotWatched),
            cpusets: Cpusets::default(),
            descriptors_max,
            may_open: descriptors_max,
        }
    }

    /// The same, with threads counted and sampled elsewhere.
    #[must_use]
    pub fn with_events(self, events: Box<dyn Events>) -> Self {
        Self { events, ..self }
    }

    /// Whether threads' instructions and cache misses are counted.
    #[must_use]
    pub fn counting(&self) -> Counting {
        self.counter.state
    }

    /// What of the machine could not be read when it was looked at last, and is unknown until it can.
    #[must_use]
    pub fn unread(&self) -> Option<&str> {
        self.around.unread.as_deref()
    }

    /// Other rules from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.processes.values_mut().for_each(Process::forget_standing);
    }

    /// Looking at pages takes so much of one CPU from now on.
    pub fn set_pages_part(&mut self, part: f64) {
        self.pages.budgets.set(part);
    }

    /// How many processes are watched, the kernel's threads not among them.
    #[must_use]
    pub fn nr_processes(&self) -> usize {
        self.processes.len()
    }

    /// All processes that are watched, sleeping ones too.
    pub fn watched(&self) -> impl Iterator<Item = TaskId> {
        self.processes.values().map(|process| process.id)
    }

    /// All threads of a process, sleeping ones too; none if it has ended.
    #[must_use]
    pub fn tasks_of(&self, process: TaskId) -> Vec<Task> {
        self.find(process).map(Process::tasks).unwrap_or_default()
    }

    /// Whether somebody gave a thread a class or a memory policy. Of those that run a snapshot says it.
    pub fn standing_of_sleeping(&mut self, task: &Task) -> Standing {
        let folder = format!("proc/{}/task/{}", task.process.id, task.thread.id);
        let stat = self.files.read(&format!("{folder}/stat")).ok().flatten();
        match stat.and_then(Stat::parse).map(|stat| stat.class) {
            Some(Class::Fair) => standing::policy_standing(&self.files, &folder),
            Some(Class::RealTime) => Standing::RealTime,
            None => Standing::Unknown,
        }
    }

    /// Somebody moves a process, or its pages: where these are is asked again as soon as of a new one.
    pub fn was_moved(&mut self, process: TaskId) {
        if let Some(found) = find_mut(&mut self.processes, process) {
            found.sample.alike = 0;
        }
    }

    /// Whether `quartier run` places a process now.
    pub fn is_under_run(&mut self, process: TaskId) -> bool {
        process::mappings(&mut self.files, process.id).is_some_and(|mappings| mappings.is_under_run)
    }

    /// The CPUs that the cpuset of a process leaves to it.
    #[must_use]
    pub fn whole_of(&self, process: TaskId) -> &CpuList {
        self.find(process).and_then(Process::whole).unwrap_or(&self.around.online)
    }

    /// The control group of a process, and whether that may hold it by its cpuset; `None`: it is not known.
    #[must_use]
    pub fn group_of(&self, process: TaskId) -> Option<(&str, bool)> {
        self.find(process)?.group()
    }

    /// The ranges of its memory that may be moved, if it has no more than `resident_max`.
    ///
    /// # Errors
    /// When it has more, has ended, or may not be asked.
    pub fn movable(
        &mut self,
        process: TaskId,
        resident_max: Bytes,
    ) -> std::result::Result<Vec<(u64, u64)>, Refusal> {
        let found = self.processes.get(&process.id).filter(|found| found.id == process);
        found.ok_or(Refusal::Ended)?.movable(&mut self.files, resident_max)
    }

    fn find(&self, process: TaskId) -> Option<&Process> {
        self.processes.get(&process.id).filter(|found| found.id == process)
    }

    /// Looks once, `at` being the time since the Monitor began.
    ///
    /// # Errors
    /// When what the whole machine does cannot be read at the first look. What cannot be read later, or of a task, is unknown.
    pub fn look(&mut self, at: Nanos, kernel: &dyn Kernel) -> Result<Snapshot> {
        self.turn = self.turn.wrapping_add(1);
        let turns = TURNS.max(self.nr_busy.div_ceil(LOCATED_MAX));
        if at >= self.around.next {
            self.around.look(&self.host, &self.machine, at)?;
            self.take_census(at);
            let text = self.files.read("proc/sys/kernel/numa_balancing").ok().flatten();
            self.balancing = touches::balancing(text);
            self.cpusets.forget();
        }
        self.looked.push_back(at);
        if self.looked.len() > PERIODS + 1 {
            self.looked.pop_front();
        }
        let (turn, may_open) = (self.turn % turns, self.may_open);
        let (mut look, processes, _) = self.begin_look(at, kernel);
        look.may_open = may_open;
        let (mut nr_busy, mut nr_open) = (0, 0);
        processes.retain(|_, process| {
            let is_there = process.look(&mut look);
            if is_there && process.is_busy() {
                nr_busy += process.locate(&mut look, turn, turns);
                process.ask_standing(&mut look);
            }
            nr_open += process.nr_open();
            is_there
        });
        self.nr_busy = nr_busy;
        let mut may_open = self.descriptors_max.saturating_sub(nr_open);
        self.look_at_pages(at, kernel);
        self.look_at_touches(at, kernel, &mut may_open);
        self.look_at_working_sets(at);
        self.count(at, &mut may_open);
        self.may_open = may_open;
        Ok(self.snapshot(at, kernel))
    }

    /// Where every thread is now that runs or waits: `look` asks each of them in one of five periods or more, which is too
    /// seldom for a decision.
    #[must_use]
    pub fn look_closer(&mut self, at: Nanos, kernel: &dyn Kernel) -> Snapshot {
        let (mut look, processes, _) = self.begin_look(at, kernel);
        for process in processes.values_mut().filter(|process| process.is_busy()) {
            process.locate(&mut look, 0, 1);
        }
        self.snapshot(at, kernel)
    }

    fn begin_look<'a>(
        &'a mut self,
        at: Nanos,
        kernel: &'a dyn Kernel,
    ) -> (Look<'a>, &'a mut BTreeMap<u32, Process>, &'a mut LooksAtPages) {
        let look = Look {
            files: &mut self.files,
            machine: &self.machine,
            rules: &self.rules,
            kernel,
            cpusets: &mut self.cpusets,
            online: &self.around.online,
            at,
            turn: self.turn,
            window: thread::window(&self.looked),
            may_open: 0,
            for_counters: match self.counter.state {
                Counting::Unsupported => 0,
                _ => self.descriptors_max / 4 * 3,
            },
        };
        (look, &mut self.processes, &mut self.pages)
    }

    /// Finds new processes, if any were made. A number may become another task's, so kernel threads are asked again now and
    /// then.
    fn take_census(&mut self, at: Nanos) {
        let is_due = at >= self.census.next;
        if !is_due && self.around.forks.is_some() && self.around.forks == self.census.forks {
            return;
        }
        self.census.forks = self.around.forks;
        if is_due {
            self.census.next = at + LOOK_THROUGH_IDLE;
            self.census.of_kernel.clear();
        }
        let mut pids = Vec::new();
        self.files.numbers("proc", &mut pids);
        self.census.of_kernel.retain(|pid| pids.binary_search(pid).is_ok());
        for pid in pids {
            if self.processes.contains_key(&pid) || self.census.of_kernel.contains(&pid) {
                continue;
            }
            match Process::new(&mut self.files, pid) {
                Some(Ok(process)) => _ = self.processes.insert(pid, process),
                Some(Err(KernelThread)) => _ = self.census.of_kernel.insert(pid),
                // It may have been read by half.
                None => self.census.forks = None,
            }
        }
    }

    /// Mappings and samples, of those first that have waited longest, as far as the budgets go.
    fn look_at_pages(&mut self, at: Nanos, kernel: &dyn Kernel) {
        let (mut look, processes, LooksAtPages { budgets, random }) = self.begin_look(at, kernel);
        let Budgets { mappings, samples, .. } = budgets;
        mappings.fill(at);
        samples.fill(at);
        let mut busy: Vec<_> = processes.values_mut().filter(|process| process.is_busy()).collect();
        busy.sort_by_key(|process| process.mapped());
        for process in &mut busy {
            let is_old = process.mapped().is_none_or(|mapped| at >= mapped + MAPPINGS_LAST);
            if !is_old || mappings.is_spent() {
                break;
            }
            let began = own_cpu_time();
            process.read_mappings(&mut look);
            mappings.spend(own_cpu_time().saturating_sub(began));
        }
        busy.sort_by_key(|process| process.sample.next());
        for process in busy {
            if process.sample.next() > at || samples.is_spent() {
                break;
            }
            let began = own_cpu_time();
            process.take_sample(&mut look, random);
            samples.spend(own_cpu_time().saturating_sub(began));
        }
    }

    fn snapshot(&self, at: Nanos, kernel: &dyn Kernel) -> Snapshot {
        let uptime = self.around.uptime.map(|uptime| uptime + (at - self.around.asked));
        let age = |id: TaskId| {
            let began = Nanos(id.start_ticks.saturating_mul(NANOS_PER_TICK));
            uptime.map_or(Nanos(0), |uptime| uptime - began)
        };
        let seen =
            |process: &Process| process.seen(&self.machine, kernel, age(process.id), &self.looked);
        let window = at - self.looked.front().copied().unwrap_or(at);
        // Of the window of the tasks, whatever time has passed between two looks at the CPUs.
        let busy = |(busy, total): (u64, u64)| {
            Nanos((u128::from(window.0) * u128::from(busy) / u128::from(total.max(1))) as u64)
        };
        Snapshot {
            at,
            window,
            cpus: self.around.placeable.clone(),
            cpus_busy: self.around.cpus_busy.iter().map(|cpu| cpu.map(busy)).collect(),
            nodes: self.around.nodes.clone(),
            kernel: self.around.kernel,
            processes: self
                .processes
                .values()
                .filter(|seen| seen.is_busy())
                .filter_map(seen)
                .collect(),
        }
    }
}
