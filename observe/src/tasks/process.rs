//! A process that is looked at again and again, and its threads.

mod big;
mod sample;

use std::collections::{BTreeMap, VecDeque};

use quartier_model::{
    Bytes, CpuList, Machine, Nanos, NodeId, NodeOsId, PerNode, ProcessSeen, Refusal, Standing,
    Task, TaskId, ThreadSeen,
};

use super::files::Files;
use super::pages::{Mappings, Random};
use super::rules::{Asked, Rules};
use super::standing::{self, Cpuset, Cpusets, Status};
use super::stat::{Class, Stat};
use super::thread::{Asleep, Busy, Found, PERIODS};
use super::touches::Touching;
use super::working_sets::Usage;
use super::{
    Kernel, LOOK_AT_BUSY, LOOK_AT_IDLE, LOOK_AT_STANDING, LOOK_THROUGH_IDLE, NANOS_PER_TICK,
};
use sample::Sample;

/// Of each so many threads more a process is looked at less often.
const MANY_THREADS: u64 = 256;

/// A process.
#[derive(Debug)]
pub struct Process {
    pub id: TaskId,
    name: String,
    parent: u32,
    /// Its threads that run or wait, and those that do neither, by their number.
    busy: BTreeMap<u32, Busy>,
    asleep: BTreeMap<u32, Asleep>,
    /// Its CPU time when it was looked at last.
    cpu: Nanos,
    /// What those of its threads ran since then that are busy.
    explained: Nanos,
    /// When it is looked at next, while none of its threads is busy.
    next_look: Nanos,
    /// When all of its threads are looked at next.
    next_scan: Nanos,
    /// Its threads were looked at once, so it is not known yet which of them run.
    is_new: bool,
    standing: Option<Standings>,
    pub sample: Sample,
    pub touching: Touching,
    pub usage: Usage,
}

/// Whether it may be placed, and where.
#[derive(Debug)]
struct Standings {
    /// `None`: by other rules than hold now.
    looked: Option<Nanos>,
    of_process: Standing,
    pin: Option<NodeOsId>,
    cgroup: Option<String>,
    may_narrow: bool,
    /// Ours, if we narrowed one, not counted.
    cpuset: Cpuset,
    resident: Option<Bytes>,
    /// Of threads for which it is not the same as of the process.
    of_threads: BTreeMap<u32, Standing>,
}

/// It is the kernel's.
#[derive(Clone, Copy, Debug)]
pub struct KernelThread;

/// What everybody shares who looks at a process.
pub struct Look<'a> {
    pub files: &'a mut Files,
    pub machine: &'a Machine,
    pub rules: &'a Rules,
    pub kernel: &'a dyn Kernel,
    pub cpusets: &'a mut Cpusets,
    pub online: &'a CpuList,
    pub at: Nanos,
    /// The period is one of these in a row,
    pub turn: usize,
    /// of which so many are a window, that long.
    pub window: Nanos,
    /// So many more files may be kept open,
    pub may_open: usize,
    /// but so many of them are for those that count.
    pub for_counters: usize,
}

impl Process {
    /// One that has begun; `None`: it is gone.
    pub fn new(files: &mut Files, pid: u32) -> Option<Result<Self, KernelThread>> {
        let text = files.read(&format!("proc/{pid}/stat")).ok()??;
        let stat = Stat::parse(text)?;
        if stat.is_kernel_thread {
            return Some(Err(KernelThread));
        }
        Some(Ok(Self {
            id: TaskId { id: pid, start_ticks: stat.start_ticks },
            name: String::from_utf8_lossy(stat.name).into_owned(),
            parent: stat.parent,
            busy: BTreeMap::new(),
            asleep: BTreeMap::new(),
            cpu: Nanos(0),
            explained: Nanos(0),
            next_look: Nanos(0),
            next_scan: Nanos(0),
            is_new: true,
            standing: None,
            sample: Sample::default(),
            touching: Touching::default(),
            usage: Usage::default(),
        }))
    }

    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// What it has of its own, as it was asked last.
    pub fn resident(&self) -> Option<Bytes> {
        self.standing.as_ref()?.resident
    }

    /// Descriptors of it that are kept open.
    pub fn nr_open(&self) -> usize {
        let of_threads: usize = self.busy.values().map(Busy::nr_open).sum();
        of_threads + self.touching.nr_open()
    }

    /// Those that run or wait, by their number.
    pub fn busy_threads(&mut self) -> impl Iterator<Item = (u32, &mut Busy)> {
        self.busy.iter_mut().map(|(tid, busy)| (*tid, busy))
    }

    /// Looks at those threads that need it; says whether the process still is the same one.
    pub fn look(&mut self, look: &mut Look<'_>) -> bool {
        if self.is_busy() {
            self.look_at_busy(look);
        }
        if look.at < self.next_look {
            return true;
        }
        let clock = look.kernel.cpu_time(self.id.id);
        if let Some(cpu) = clock {
            self.explain(look, cpu);
            if look.at < self.next_scan && !self.is_new && self.is_explained(cpu) {
                self.ran_until(cpu, look.at);
                return true;
            }
        }
        let text = match look.files.read(&format!("proc/{}/stat", self.id.id)) {
            Ok(Some(text)) => text,
            Ok(None) => return false,
            Err(_) => return true,
        };
        // Half of a file may have been read: then it is read the next time.
        let Some(stat) = Stat::parse(text) else { return true };
        if stat.start_ticks != self.id.start_ticks {
            return false;
        }
        // It may have become another program.
        if self.name.as_bytes() != stat.name {
            self.name = String::from_utf8_lossy(stat.name).into_owned();
        }
        let (ticks, nr_threads) = (stat.cpu_ticks, stat.nr_threads);
        let cpu = clock.unwrap_or(Nanos(ticks.saturating_mul(NANOS_PER_TICK)));
        if clock.is_none() {
            self.explain(look, cpu);
        }
        if self.is_new || !self.is_explained(cpu) || look.at >= self.next_scan {
            self.is_new = self.busy.is_empty() && self.asleep.is_empty();
            self.scan(look, nr_threads);
            // One that has thousands of threads is looked through less often, and not when all others are: who wakes
            // shows in its CPU time.
            let longer = LOOK_AT_IDLE.0 * u64::from(nr_threads / 64);
            let often = LOOK_AT_IDLE + Nanos(longer + longer / 16 * u64::from(self.id.id % 16));
            self.next_scan =
                look.at + if self.is_busy() { often } else { LOOK_THROUGH_IDLE.max(often) };
        }
        self.ran_until(cpu, look.at);
        true
    }

    /// Whether what it ran since it was looked at last is what its known threads did. Another process that has its
    /// number has another clock.
    fn is_explained(&self, cpu: Nanos) -> bool {
        // Two ways of counting may differ by two ticks.
        cpu >= self.cpu && ((cpu - self.cpu) - self.explained).0 <= 2 * NANOS_PER_TICK
    }

    /// It has been looked at.
    fn ran_until(&mut self, cpu: Nanos, at: Nanos) {
        (self.cpu, self.explained) = (cpu, Nanos(0));
        // The kernel adds up the clocks of all of its threads.
        let nr_threads = self.busy.len() + self.asleep.len();
        let often = Nanos(LOOK_AT_BUSY.0 * (1 + nr_threads as u64 / MANY_THREADS));
        self.next_look = match (self.is_new, self.is_busy()) {
            (true, _) => at,
            (false, true) => at + often.min(LOOK_AT_IDLE),
            (false, false) => at + LOOK_AT_IDLE,
        };
    }

    /// If its known threads do not account for what it ran, those that were skipped may.
    fn explain(&mut self, look: &mut Look<'_>, cpu: Nanos) {
        if !self.is_explained(cpu) {
            self.look_at(look, Busy::catch_up);
        }
    }

    fn look_at_busy(&mut self, look: &mut Look<'_>) {
        let (turn, window) = (look.turn % PERIODS, look.window);
        self.look_at(look, |thread, files, pid, may_open| {
            if thread.is_slight(window) && thread.id.id as usize % PERIODS != turn {
                return thread.skip();
            }
            thread.look(files, pid, may_open)
        });
    }

    fn look_at(
        &mut self,
        look: &mut Look<'_>,
        how: impl Fn(&mut Busy, &mut Files, u32, &mut usize) -> Found,
    ) {
        let pid = self.id.id;
        let mut explained = Nanos(0);
        let asleep = &mut self.asleep;
        self.busy.retain(|tid, thread| {
            let before = thread.ran();
            let found = how(thread, look.files, pid, &mut look.may_open);
            explained = explained + (thread.ran() - before);
            if found == Found::Idle {
                asleep.insert(*tid, thread.asleep());
            }
            found == Found::Busy
        });
        self.explained = self.explained + explained;
    }

    /// Looks at all threads, new ones too.
    fn scan(&mut self, look: &mut Look<'_>, nr_threads: u32) {
        let pid = self.id.id;
        let mut tids = vec![pid];
        // A thread that is alone has its process's number.
        if nr_threads != 1 {
            look.files.numbers(&format!("proc/{pid}/task"), &mut tids);
        }
        self.busy.retain(|tid, _| tids.binary_search(tid).is_ok());
        self.asleep.retain(|tid, _| tids.binary_search(tid).is_ok());
        for tid in tids {
            match self.asleep.get_mut(&tid) {
                Some(thread) => {
                    if thread.look(look.files, pid) == Found::Busy {
                        self.busy.insert(tid, Busy::woken(*thread));
                        self.asleep.remove(&tid);
                    }
                }
                None if self.busy.contains_key(&tid) => {}
                None => self.begin(look, tid),
            }
        }
    }

    fn begin(&mut self, look: &mut Look<'_>, tid: u32) {
        let folder = format!("proc/{}/task/{tid}", self.id.id);
        let Ok(Some(text)) = look.files.read(&format!("{folder}/stat")) else { return };
        let Some(stat) = Stat::parse(text) else { return };
        let id = TaskId { id: tid, start_ticks: stat.start_ticks };
        let Ok(Some(text)) = look.files.read(&format!("{folder}/schedstat")) else { return };
        if let Some(times) = super::stat::times(text) {
            self.asleep.insert(tid, Asleep::new(id, times));
        }
    }

    /// Sees where its busy threads are: all new ones, and of the others one in so many. Gives how many it has.
    pub fn locate(&mut self, look: &mut Look<'_>, turn: usize, turns: usize) -> usize {
        let spare = look.may_open.saturating_sub(look.for_counters);
        let mut may_open = spare;
        for busy in self.busy.values_mut() {
            if !busy.is_new() && busy.id.id as usize % turns != turn {
                continue;
            }
            let stat = busy.read_stat(look.files, self.id.id, &mut may_open);
            let Some(stat) = stat else { continue };
            busy.has_faulted(look.at, stat.faults);
            let Some(cpu) = look.machine.cpu_by_os_id(stat.cpu) else { continue };
            busy.was_on(cpu, look.machine.cpus()[cpu.index()].node);
            busy.class = stat.class;
        }
        look.may_open -= spare - may_open;
        self.busy.len()
    }

    /// There are other rules: by those of before nobody may be placed any more.
    pub fn forget_standing(&mut self) {
        if let Some(standing) = &mut self.standing {
            standing.looked = None;
            standing.of_process = Standing::Unknown;
            standing.of_threads.clear();
        }
    }

    /// Whether it may be placed is asked again now and then.
    pub fn ask_standing(&mut self, look: &mut Look<'_>) {
        let is_old = |standing: &Standings| {
            standing.looked.is_none_or(|looked| look.at >= looked + LOOK_AT_STANDING)
        };
        if !self.is_busy() || !self.standing.as_ref().is_none_or(is_old) {
            return;
        }
        let folder = format!("proc/{}", self.id.id);
        let status = look.files.read(&format!("{folder}/status")).ok().flatten();
        let Some(status) = status.map(Status::parse) else { return };
        let cgroup = look.files.read(&format!("{folder}/cgroup")).ok().flatten();
        let cgroup = cgroup.and_then(standing::cgroup);
        let environment = look
            .rules
            .ask_for_environment()
            .then(|| Some(look.files.read(&format!("{folder}/environ")).ok()??.to_vec()));
        let environment = environment.flatten();
        let asked = Asked {
            name: &self.name,
            uid: status.uid,
            cgroup: cgroup.as_deref(),
            environment: environment.as_deref(),
        };
        let cpuset = cgroup.as_ref().map(|cgroup| look.cpusets.of(look.files, cgroup));
        let cpuset = cpuset.unwrap_or_default();
        let may_narrow = look.rules.may_narrow(asked);
        let of_process = match look.rules.standing(asked) {
            _ if look.kernel.is_watcher(self.id.id) => Standing::Watcher,
            _ if self.is_under_run() => Standing::UnderRun,
            Standing::Free => standing::policy_standing(look.files, &folder),
            left => left,
        };
        let of_threads = self.ask_threads(look, &cpuset, of_process);
        let pin = look.rules.pin_of(asked);
        let narrowed = cgroup.as_deref().filter(|cgroup| look.kernel.is_narrowed(cgroup));
        let cpuset = match narrowed.and_then(|cgroup| cgroup.rsplit_once('/')) {
            Some((above, _)) => Cpuset { cpus: look.cpusets.of(look.files, above).cpus, ..cpuset },
            None => cpuset,
        };
        self.standing = Some(Standings {
            looked: Some(look.at),
            of_process,
            pin,
            cgroup,
            may_narrow,
            cpuset,
            resident: status.resident,
            of_threads,
        });
    }

    /// Of busy threads for which it is not the same as of the process.
    fn ask_threads(
        &self,
        look: &mut Look<'_>,
        cpuset: &Cpuset,
        of_process: Standing,
    ) -> BTreeMap<u32, Standing> {
        if of_process == Standing::UnderRun {
            look.kernel.leaves(self.id);
            return BTreeMap::new();
        }
        let standing = |thread: &Busy| {
            let tid = thread.id.id;
            let affinity = look.kernel.affinity(tid)?;
            let is_set = standing::is_affinity_set(&affinity, cpuset.cpus.as_ref(), look.online);
            let whole = cpuset.cpus.as_ref().unwrap_or(look.online);
            if !look.kernel.owns(&self.task(thread.id), &affinity, whole) && is_set {
                return Some(Standing::AffinitySet);
            }
            // Its first thread's policy is what was asked of the process.
            if tid == self.id.id {
                return Some(of_process);
            }
            let folder = format!("proc/{}/task/{tid}", self.id.id);
            Some(standing::policy_standing(look.files, &folder))
        };
        let standing =
            |(tid, thread): (&u32, _)| (*tid, standing(thread).unwrap_or(Standing::Unknown));
        self.busy.iter().map(standing).collect()
    }

    fn task(&self, thread: TaskId) -> Task {
        Task { thread, process: self.id, parent: self.parent }
    }

    /// All of its threads, sleeping ones too, as they were when they were looked through last.
    pub fn tasks(&self) -> Vec<Task> {
        let asleep = self.asleep.values().map(|thread| thread.id);
        let mut all: Vec<_> = self.busy.values().map(|thread| thread.id).chain(asleep).collect();
        all.sort_unstable();
        all.into_iter().map(|thread| self.task(thread)).collect()
    }

    /// The CPUs that its cpuset leaves to it; `None`: all, or it is not known yet.
    pub fn whole(&self) -> Option<&CpuList> {
        self.standing.as_ref()?.cpuset.cpus.as_ref()
    }

    /// Its control group, and whether that may hold it by its cpuset; `None`: it is not known.
    pub fn group(&self) -> Option<(&str, bool)> {
        let standing = self.standing.as_ref()?;
        Some((standing.cgroup.as_deref()?, standing.may_narrow))
    }

    /// The ranges of its memory that may be moved. To know them the kernel walks all of its pages, under a
    /// lock that the program may need: not if they are more than `resident_max`.
    pub fn movable(
        &self,
        files: &mut Files,
        resident_max: Bytes,
    ) -> Result<Vec<(u64, u64)>, Refusal> {
        if self.resident().is_none_or(|resident| resident > resident_max) {
            return Err(Refusal::PolicyUnknown);
        }
        movable(files, self.id.id)
    }

    /// Asks where some of its pages lie; `None`: nobody may know.
    pub fn take_sample(&mut self, look: &mut Look<'_>, random: &mut Random) {
        const PAGES: u64 = 128;
        const HITS_MIN: usize = 32;
        const TRIES: usize = 8;
        self.sample.taken = Some(look.at);
        let Some(mappings) = &self.sample.mappings else { return };
        let mut found = PerNode::new();
        let (mut addresses, mut nodes, mut hits) = (Vec::new(), Vec::new(), 0);
        for _ in 0..TRIES {
            mappings.pick(PAGES, random, &mut addresses);
            if look.kernel.nodes_of(self.id.id, &addresses, &mut nodes).is_err() {
                self.sample.found = None;
                return;
            }
            for node in nodes.iter().flatten() {
                if let Some(node) = look.machine.node_by_os_id(*node) {
                    *found.entry(node).or_default() += 1;
                    hits += 1;
                }
            }
            if hits >= HITS_MIN || addresses.is_empty() {
                break;
            }
        }
        self.sample.put(found);
    }

    /// When its list of mappings was read last; `None`: never.
    pub fn mapped(&self) -> Option<Nanos> {
        self.sample.mappings.as_ref().map(|_| self.sample.mapped)
    }

    pub fn read_mappings(&mut self, look: &mut Look<'_>) {
        self.sample.mapped = look.at;
        self.sample.mappings = mappings(look.files, self.id.id);
        // Sooner than its standing is asked again.
        if self.is_under_run()
            && let Some(standing) = &mut self.standing
            && standing.of_process != Standing::Watcher
        {
            standing.of_process = Standing::UnderRun;
            standing.of_threads.clear();
            look.kernel.leaves(self.id);
        }
    }

    /// Whether `quartier run` places it, as far as its mappings are known.
    fn is_under_run(&self) -> bool {
        self.sample.mappings.as_ref().is_some_and(|mappings| mappings.is_under_run)
    }

    /// What is known of it. `None`: none of its threads ran or waited.
    pub fn seen(
        &self,
        machine: &Machine,
        kernel: &dyn Kernel,
        age: Nanos,
        looked: &VecDeque<Nanos>,
    ) -> Option<ProcessSeen> {
        let standing = self.standing.as_ref()?;
        let threads: Vec<_> = self
            .busy
            .values()
            .filter_map(|thread| self.thread_seen(thread, standing, kernel, looked))
            .collect();
        let nodes = |list: &CpuList| -> Vec<NodeId> {
            list.iter().filter_map(|os_id| machine.node_by_os_id(NodeOsId(os_id))).collect()
        };
        let at = looked.back().copied().unwrap_or_default();
        (!threads.is_empty()).then(|| ProcessSeen {
            id: self.id,
            name: self.name.clone(),
            age,
            standing: standing.of_process,
            counts_itself: self
                .sample
                .mappings
                .as_ref()
                .is_some_and(|mappings| mappings.counts_itself),
            pin: standing.pin.and_then(|os_id| machine.node_by_os_id(os_id)),
            cpus: standing.cpuset.cpus.clone(),
            mems: standing.cpuset.mems.as_ref().map(nodes),
            resident: standing.resident,
            working_set: self.usage.used(at).map(|used| used.bytes),
            accessed_per_mille: self.usage.used(at).and_then(|used| used.accessed_per_mille),
            sample: self.sample.found.clone(),
            sampled_at: self.sample.taken.filter(|_| self.sample.found.is_some()),
            users: self.touching.users(at),
            threads,
        })
    }

    fn thread_seen(
        &self,
        busy: &Busy,
        standing: &Standings,
        kernel: &dyn Kernel,
        looked: &VecDeque<Nanos>,
    ) -> Option<ThreadSeen> {
        let times = busy.in_window(looked)?;
        // One that nobody has asked about yet may be placed when somebody has.
        let asked = standing.of_threads.get(&busy.id.id).copied().unwrap_or(Standing::Unknown);
        let of_thread = if busy.class == Class::RealTime { Standing::RealTime } else { asked };
        let counts = busy.counted_in_window(looked);
        Some(ThreadSeen {
            id: busy.id,
            ran: times.ran,
            waited: times.waited,
            cpu: busy.cpu,
            found_on: busy.found_on(),
            held_on: kernel.held_on(&self.task(busy.id)),
            standing: (of_thread != Standing::Free).then_some(of_thread),
            touched: self.touching.touched_by(busy.id.id),
            llc_misses: counts.and_then(|counts| counts.llc_misses),
            instructions: counts.map(|counts| counts.instructions),
            cycles: counts.and_then(|counts| counts.cycles),
            remote_reads: counts.and_then(|counts| counts.remote_reads),
            faults: busy.faults,
        })
    }
}

/// What a process maps now; `None`: it has ended, or may not be asked.
pub fn mappings(files: &mut Files, pid: u32) -> Option<Mappings> {
    files.read(&format!("proc/{pid}/maps")).ok().flatten().map(Mappings::parse)
}

/// The ranges of a process's memory that may be moved.
pub fn movable(files: &mut Files, pid: u32) -> Result<Vec<(u64, u64)>, Refusal> {
    let mut read = |name| match files.read(&format!("proc/{pid}/{name}")) {
        Ok(Some(text)) => Ok(text.to_vec()),
        Ok(None) => Err(Refusal::Ended),
        Err(_) => Err(Refusal::PolicyUnknown),
    };
    let (mappings, policies) = (read("maps")?, read("numa_maps")?);
    Ok(Mappings::parse(&mappings).movable(&policies))
}
