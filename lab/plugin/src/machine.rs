//! The guest as the instrument knows it: what is the same for all CPUs, and what each has for itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use quartier_count::{
    Allocation, Doing, Ending, FORMAT, Mark, Moment, Noted, NotedByPhase, Slices, Taken,
    instructions,
};
use quartier_marker::{Facts, WORDS};
use quartier_memmodel::{Access, Layout, Owner, System, Walk};

use crate::allocations::{Allocations, Site, words_of_stack};
use crate::arguments::Arguments;
use crate::calls::Calls;
use crate::check;
use crate::code::{Code, Places};
use crate::ffi::{Cpus, GuestClock, Ram, Register, Registers, Scores};
use crate::handovers::{Taking, Takings};
use crate::looks::{Looking, Lookings, Until};
use crate::report;
use crate::stalls::{Stalling, Stallings};
use crate::steps::{Mask, Steps, What};
use crate::tasks::{Tasks, Turn};
use crate::walk::{Memory, Tables};

/// In control register 4: five levels of tables.
const FIVE_LEVELS: u64 = 1 << 12;

/// The first slices of a run are as long, in instructions of the program.
const SLICE_INSTRUCTIONS: u64 = 1 << 20;

/// Whether a slice is due is looked at once in so many blocks of a CPU.
const BLOCKS_PER_LOOK: u32 = 1 << 14;

/// Of lines that CPUs took from each other so many are told, by place,
const PLACES_MAX: usize = 1 << 14;
/// and of what they waited for and executed so many, of which each CPU has its part: of a program with many paths each is seldom
/// taken, and together they are most of it.
const RARE_MAX: usize = 1 << 18;
/// A CPU's part, at most.
const RARE_OF_CPU_MAX: usize = 1 << 16;

/// No cache has shorter lines, bytes.
const LINE_MIN: usize = 16;

/// Where counting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The guest boots.
    Before,
    /// Between the markers.
    Counting,
    /// The result is written, or there is none.
    After,
}

/// The guest.
#[derive(Debug)]
pub struct Machine {
    pub arguments: Arguments,
    pub cpus: Cpus<Cpu>,
    pub tasks: Tasks,
    pub scores: Scores,
    ram: Ram,
    system: Arc<System>,
    phase: AtomicU8,
    began: Instant,
    is_written: AtomicBool,
    /// Which CPU runs, where all run in one thread.
    current: AtomicUsize,
    /// CPUs by the place of their own data in the kernel.
    areas: Mutex<Vec<(u64, usize)>>,
    /// Counts at moments.
    marks: Mutex<Vec<Mark>>,
    /// Counts over time.
    slices: Mutex<Slices>,
    refusal: OnceLock<String>,
    checked: check::Found,
    /// Whether the program has a second thread.
    is_parallel: AtomicBool,
    /// Who took what and waited for what, on each CPU; each is locked by its own CPU, and once by who writes the result.
    seen: Vec<Mutex<Seen>>,
    /// Who called whom in those of the program's tasks that have no CPU.
    calls: Mutex<HashMap<u64, Calls>>,
    /// Who asked for the memory that programs have,
    allocations: Mutex<Allocations>,
    /// if they tell it.
    are_told: AtomicBool,
    /// How far CPUs are, where they keep in step.
    steps: Option<Steps>,
    /// The guest's, if that is to pass as they get on.
    clock: Option<GuestClock>,
}

/// What a CPU has for itself.
#[derive(Debug)]
pub struct Cpu {
    pub registers: Registers,
    pub model: quartier_memmodel::Cpu,
    pub places: Places,
    root: u64,
    levels: u32,
    /// Control registers may have changed since they were read.
    is_stale: bool,
    /// Of the instructions that translated code counted, those that the model knows of.
    nr_retired: u64,
    /// Blocks until it is looked whether a slice is due.
    blocks_left: u32,
    /// Which translations are checked.
    pub turns: check::Turns,
    /// Whose task runs.
    runs: Runs,
    /// And who called whom in it.
    pub calls: Calls,
    /// When it is looked at.
    until: Until,
}

/// What was seen of a CPU: first while the program has one thread, then while it has several.
type Seen = [SeenInPhase; 2];

#[derive(Debug)]
struct SeenInPhase {
    /// What it took from others,
    takings: Takings,
    /// and the same by place alone.
    moves: Stallings,
    /// What it waited for.
    stallings: Stallings,
    /// What it executed.
    lookings: Lookings,
}

impl SeenInPhase {
    /// Nothing yet, of one of so many CPUs.
    fn new(nr_cpus: usize) -> Self {
        let nr_max = (RARE_MAX / nr_cpus.max(1)).min(RARE_OF_CPU_MAX);
        Self {
            takings: Takings::default(),
            moves: Stallings::new(nr_max),
            stallings: Stallings::new(nr_max),
            lookings: Lookings::new(nr_max),
        }
    }
}

/// Whose task a CPU runs.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    task: u64,
    process: u32,
    thread: u32,
    is_measured: bool,
}

impl Machine {
    /// A guest of at most `nr_cpus` CPUs.
    pub fn new(arguments: Arguments, nr_cpus: usize) -> Result<Self, String> {
        let given = arguments.node_of_cpu.len();
        if given != nr_cpus {
            return Err(format!("cpus=… has {given} CPUs and QEMU {nr_cpus}"));
        }
        let of_cpus = arguments.node_of_cpu.iter().map(|node| usize::from(*node) + 1).max();
        let layout = Layout {
            nr_nodes: arguments.layout.nr_nodes().max(of_cpus.unwrap_or(0)),
            node_of_cpu: arguments.node_of_cpu.clone(),
            memory: arguments.layout.memory(),
        };
        // What is modelled has as many CPUs to a node as the guest.
        let on_node = |node: &u16| layout.node_of_cpu.iter().filter(|of| *of == node).count();
        let fullest = layout.node_of_cpu.iter().map(on_node).max().unwrap_or(1);
        let geometry = arguments.geometry.clone().scaled_to(fullest as u32);
        let system = System::new_sampled(geometry, layout, arguments.sets_one_in);
        Ok(Self {
            cpus: Cpus::new(nr_cpus),
            tasks: Tasks::default(),
            scores: Scores::new(),
            ram: Ram::map(arguments.layout.clone())?,
            system: system.map_err(|error| error.to_string())?,
            phase: AtomicU8::new(Phase::Before as u8),
            began: Instant::now(),
            is_written: AtomicBool::new(false),
            current: AtomicUsize::new(0),
            areas: Mutex::default(),
            marks: Mutex::default(),
            slices: Mutex::new(Slices::new(SLICE_INSTRUCTIONS)),
            refusal: OnceLock::new(),
            checked: check::Found::default(),
            is_parallel: AtomicBool::new(false),
            seen: match arguments.tells_handovers {
                true => {
                    let seen = || [SeenInPhase::new(nr_cpus), SeenInPhase::new(nr_cpus)];
                    (0..nr_cpus).map(|_| Mutex::new(seen())).collect()
                }
                false => Vec::new(),
            },
            calls: Mutex::default(),
            allocations: Mutex::default(),
            are_told: AtomicBool::new(false),
            clock: GuestClock::find(),
            // In one thread, whoever waits holds up those that it waits for.
            steps: (arguments.tells_handovers && !arguments.single).then(|| Steps::new(nr_cpus)),
            arguments,
        })
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Before,
            1 => Phase::Counting,
            _ => Phase::After,
        }
    }

    /// Goes on to `phase`; whether this is the first to do so.
    pub fn advance(&self, phase: Phase) -> bool {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8
    }

    /// A CPU's own part, once its registers can be read.
    pub fn cpu(&self, index: usize, registers: Registers) -> Result<Cpu, String> {
        let model = self.system.cpu(index).ok_or("QEMU has more CPUs than it said")?;
        Ok(Cpu {
            registers,
            model,
            places: Places::default(),
            root: 0,
            levels: 4,
            is_stale: true,
            nr_retired: 0,
            blocks_left: BLOCKS_PER_LOOK,
            turns: check::Turns::default(),
            runs: Runs::default(),
            calls: Calls::default(),
            until: Until::default(),
        })
    }

    /// The CPU that a callback is for. Where all CPUs run in one thread, QEMU 10 says the CPU that the
    /// code was translated on, whoever runs it.
    #[inline]
    pub fn index(&self, said: usize) -> usize {
        if self.arguments.single { self.current.load(Ordering::Relaxed) } else { said }
    }

    /// Finds out which CPU runs a block that begins, by the place of its own data in the kernel.
    pub fn identify(&self, registers: &mut Registers, facts: &Facts) {
        let is_kernels = |address: &u64| address >> 63 != 0;
        let area = Some(registers.read(Register::Area))
            .filter(is_kernels)
            .unwrap_or_else(|| registers.read(Register::AreaAside));
        let mut areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match areas.iter().find(|known| known.0 == area) {
            Some(known) => known.1,
            None => {
                let place = area.wrapping_add(facts.cpu_number);
                let word = registers.memory(place & !7, 1).map_or(0, |words| words[0]);
                let number = (word >> ((place & 4) * 8)) as u32 as usize;
                areas.push((area, number));
                number
            }
        };
        self.current.store(index, Ordering::Relaxed);
    }

    /// The marker that begins counting: learns of the kernel and of whom to count. Gives whether the
    /// memory that the arguments describe is the guest's.
    pub fn begin(&self, registers: &mut Registers) -> Result<(), String> {
        let [words, count] = Register::ARGUMENTS.map(|argument| registers.read(argument));
        let read = registers.memory(words, WORDS).filter(|_| count == WORDS as u64);
        let read = read.ok_or("the marker came without its words")?;
        let facts = Facts::from_words(&read).ok_or("the marker's words are of another version")?;
        let (root, levels) = read_root(registers);
        let mut tables = Tables { memory: &self.ram, root, levels };
        let ours = |vaddr: u64| {
            let page = tables.walk(vaddr)?;
            self.ram.word(page.page | vaddr & !(u64::MAX << page.size.shift()))
        };
        let places = (0..WORDS as u64).map(|index| words + index * 8);
        if !places.map(ours).eq(read.iter().copied().map(Some)) {
            return Err("the guest's memory is not where the arguments say".to_owned());
        }
        let area = registers.read(Register::AreaAside);
        let task = registers.memory(area.wrapping_add(facts.current_task), 1);
        let task = task.ok_or("the running task cannot be found")?[0];
        self.tasks.begin(facts, task, &self.ram)?;
        if self.arguments.single {
            self.identify(registers, &facts);
        }
        Ok(())
    }

    /// Whether translated code counts its instructions itself, and calls only for what is modelled.
    /// Where all CPUs run in one thread, QEMU does not tell them apart in translated code.
    pub fn is_sampled(&self) -> bool {
        self.arguments.sets_one_in > 1 && !self.arguments.single
    }

    /// Whether a block of code has to be heard of each time that it is executed: a line of it is
    /// modelled, or it is on two pages.
    pub fn models(&self, code: &Code) -> bool {
        let (begin, end) = (code.vaddr(), code.vaddr() + u64::from(code.bytes().max(1)) - 1);
        let mut pieces = (begin..=end).step_by(LINE_MIN).chain([end]);
        !code.is_on_one_page() || pieces.any(|address| self.system.models(address))
    }

    /// `task` runs on CPU `index` from now on.
    pub fn switched(&self, (index, cpu): (usize, &mut Cpu), task: u64) {
        let is_measured = self.tasks.is_measured(task, &self.ram);
        cpu.model.attribute(Some(if is_measured { Owner::Program } else { Owner::Rest }));
        if !self.arguments.tells_handovers {
            return;
        }
        let (process, thread) = self.tasks.numbers(task, &self.ram);
        let left = std::mem::replace(&mut cpu.runs, Runs { task, process, thread, is_measured });
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let of_next = calls.remove(&task).unwrap_or_default();
        let of_last = std::mem::replace(&mut cpu.calls, of_next);
        if left.is_measured {
            calls.insert(left.task, of_last);
        }
        drop(calls);
        if let Some(steps) = &self.steps {
            let what = match (is_measured, thread) {
                (true, _) => What::Measured,
                (false, 0) => What::Nothing,
                _ if left.is_measured && self.tasks.is_held_up(left.task, &self.ram) => {
                    What::InsteadOfMeasured
                }
                _ => What::Other,
            };
            let left = (left.task != task).then_some(left.task);
            steps.runs(index, (what, task), left, cpu.model.modelled_cycles());
            self.pass_time(steps, index);
        }
    }

    /// CPU `index` wakes `task`, if that sleeps in one of these states.
    pub fn wakes(&self, index: usize, task: u64, states: u32) {
        if let Some(steps) = &self.steps
            && self.tasks.is_measured(task, &self.ram)
            && self.tasks.sleeps(task, states, &self.ram)
        {
            steps.wakes(index, task);
        }
    }

    /// CPU `index` is about to see what became of its access of `address`: where that is of a line that others take, it waits
    /// for them before it goes on.
    #[inline]
    pub fn keep_in_step(&self, (index, cpu): (usize, &mut Cpu), address: u64) {
        let Some(steps) = &self.steps else { return };
        if cpu.runs.is_measured
            && let Some(cpus) = steps.sharing(index, address)
        {
            wait_for_others(steps, cpus, (index, cpu));
        }
    }

    /// Whether CPUs wait for each other where they share.
    pub fn keeps_in_step(&self) -> bool {
        self.steps.is_some()
    }

    /// CPU `index` waits for another in a loop. One that is behind gets on first; and the one that it waits for may have had no turn on
    /// this machine yet: it would be waited for as long as that takes, some thousand times as long as a machine's CPU needs to answer.
    pub fn pauses(&self, (index, cpu): (usize, &mut Cpu)) {
        let Some(steps) = &self.steps else { return };
        if cpu.runs.is_measured {
            wait_for_others(steps, Mask::ALL, (index, cpu));
        }
        std::thread::yield_now();
    }

    /// CPU `index` runs a block: others may be waiting for it to get on, and it for those that are far behind.
    #[inline]
    pub fn tell_step(&self, (index, cpu): (usize, &mut Cpu)) {
        let Some(steps) = &self.steps else { return };
        if !cpu.runs.is_measured {
            if steps.spent_besides(index, || cpu.model.modelled_cycles()) {
                self.pass_time(steps, index);
            }
            return;
        }
        steps.spent(index, cpu.model.modelled_cycles());
        if steps.looks(index) {
            self.pass_time(steps, index);
            steps.wait_for_all(index, std::thread::yield_now);
        }
    }

    /// The guest's clock goes on as its work does; CPU `index` has got on, or runs something else.
    fn pass_time(&self, steps: &Steps, index: usize) {
        if let Some(clock) = &self.clock {
            let has_work = || steps.is_working() && self.phase() == Phase::Counting;
            let is_working = has_work();
            let cycles = steps.time(index);
            let ns =
                u128::from(cycles) * 1_000 / u128::from(self.system.geometry().cost.frequency_mhz);
            clock.works(ns as u64, is_working);
            // Another CPU may have said that it has nothing to do, before this one said that that one has.
            if is_working && !has_work() {
                clock.rests();
            }
        }
    }

    /// The guest's clock goes on by itself from now on.
    pub fn ends_work(&self) {
        if let Some(clock) = &self.clock {
            clock.rests();
        }
    }

    /// The instruction `code` has accessed `address` on CPU `index`, which had stalled for so long before: if that took a line
    /// from another CPU, or had to ask a node, it is noted.
    pub fn note_place(
        &self,
        (index, cpu): (usize, &mut Cpu),
        code: &Code,
        (address, access): (u64, Access),
        stalled_millicycles: u64,
    ) {
        let (handover, asked) = (cpu.model.take_handover(), cpu.model.take_asked());
        let stall = cpu.model.modelled_stall_millicycles().saturating_sub(stalled_millicycles);
        if handover.is_none() && asked.is_none() {
            return self.look_at_stall((index, cpu), code, stall);
        }
        let Runs { process, thread, is_measured, .. } = cpu.runs;
        if let Some(steps) = self.steps.as_ref().filter(|_| is_measured && handover.is_some()) {
            steps.share(index, address);
        }
        let by_process = process;
        let process = if address >> 63 == 0 { process } else { 0 };
        let Some(seen) = self.seen.get(index) else { return };
        // Before the lock: whoever writes the result takes them in this order too.
        let site = if is_measured { self.site((process, cpu.root), address) } else { 0 };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut seen[self.phase_of_program()];
        if !is_measured {
            if handover.is_some() {
                seen.takings.note_others();
            }
            return;
        }
        let instruction = cpu.places.known(code).unwrap_or(0);
        let callers = cpu.calls.callers(code.vaddr() >> 63 != 0);
        let is_remote = asked.is_some_and(|node| node != cpu.model.node());
        let stalling =
            Stalling { process, by_process, address, site, instruction, is_remote, callers };
        if handover.is_some() {
            let taking =
                Taking { process, by_process, thread, address, site, instruction, access, callers };
            seen.takings.note(taking, stall);
            seen.moves.note(Stalling { is_remote: false, ..stalling }, stall);
        } else {
            seen.stallings.note(stalling, stall);
        }
    }

    /// How long a CPU has stalled so far, for [`Self::look_at_block`]; `None`: nobody looks at what it runs.
    #[inline]
    pub fn stalled_where_looked_at(&self, cpu: &Cpu) -> Option<u64> {
        let is_looked_at = self.arguments.tells_handovers && cpu.runs.is_measured;
        is_looked_at.then(|| cpu.model.modelled_stall_millicycles())
    }

    /// CPU `index` has fetched the block `code` and executes it; it had stalled for so long before.
    pub fn look_at_block(
        &self,
        (index, cpu): (usize, &mut Cpu),
        code: &Code,
        stalled_millicycles: u64,
    ) {
        let due = cpu.until.executes(u64::from(code.nr_instructions()));
        self.look((index, cpu), code, Doing::Executes, due);
        let stall = cpu.model.modelled_stall_millicycles().saturating_sub(stalled_millicycles);
        self.look_at_stall((index, cpu), code, stall);
    }

    /// CPU `index` has stalled in `code`, for what is near.
    fn look_at_stall(&self, (index, cpu): (usize, &mut Cpu), code: &Code, millicycles: u64) {
        if cpu.runs.is_measured {
            let due = cpu.until.stalls(millicycles);
            self.look((index, cpu), code, Doing::Stalls, due);
        }
    }

    fn look(&self, (index, cpu): (usize, &mut Cpu), code: &Code, doing: Doing, due: u64) {
        let Some(seen) = self.seen.get(index).filter(|_| due > 0) else { return };
        let by_process = cpu.runs.process;
        let is_kernels = code.vaddr() >> 63 != 0;
        let process = if is_kernels { 0 } else { by_process };
        let instruction = cpu.places.known(code).unwrap_or(0);
        let callers = cpu.calls.callers(is_kernels);
        let is_alone = self.steps.as_ref().is_some_and(|steps| steps.is_alone(index));
        let looking = Looking { doing, is_alone, process, by_process, instruction, callers };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut seen[self.phase_of_program()];
        seen.lookings.note(looking, due);
    }

    /// Of [`Seen`].
    fn phase_of_program(&self) -> usize {
        usize::from(self.is_parallel.load(Ordering::Relaxed))
    }

    /// Which call gave the memory at an address of a process's.
    fn site(&self, process: (u32, u64), address: u64) -> Site {
        let is_told = process.0 != 0 && self.are_told.load(Ordering::Relaxed);
        if is_told { self.allocations().find(process, address) } else { 0 }
    }

    fn allocations(&self) -> MutexGuard<'_, Allocations> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program that a CPU runs says that it was given memory.
    pub fn allocated(&self, registers: &mut Registers) {
        let said = Register::ALLOCATED.map(|register| registers.read(register));
        let [start, bytes, returns_to, stack, process] = said;
        let root = registers.read(Register::Root);
        let words = Some(words_of_stack(stack)).filter(|nr| *nr > 0);
        let stack = words.and_then(|nr| registers.memory(stack, nr)).unwrap_or_default();
        let by = Allocation { returns_to, stack };
        self.allocations().note((process as u32, root), (start, bytes), by);
        self.are_told.store(true, Ordering::Relaxed);
    }

    fn noted(&self) -> NotedByPhase {
        let allocations = self.allocations();
        let [serial, parallel] = [0, 1].map(|phase| {
            let mut noted = Noted::default();
            for (cpu, seen) in self.seen.iter().enumerate() {
                let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                let seen = &seen[phase];
                noted.handovers.add(seen.takings.handovers(cpu as u16, &allocations));
                noted.moves.add(seen.moves.stalls(&allocations));
                noted.stalls.add(seen.stallings.stalls(&allocations));
                let alone = self.steps.as_ref().map_or(0, |steps| steps.alone(cpu, phase));
                noted.looks.add(seen.lookings.looks(cpu as u16, alone));
            }
            noted.handovers.keep_most(PLACES_MAX);
            noted.moves.sort();
            noted.stalls.sort();
            noted.looks.sort();
            noted
        });
        NotedByPhase { serial, parallel, nr_allocations: allocations.nr_told }
    }

    /// `task` begins.
    pub fn created(&self, task: u64) {
        // Of the one that had this place before, who was switched away from after its end.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        self.turn(self.tasks.begins(task, &self.ram));
    }

    /// `task` has ended.
    pub fn ended(&self, task: u64) {
        if let Some(steps) = &self.steps {
            steps.ended(task);
        }
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        let (process, thread) = self.tasks.numbers(task, &self.ram);
        // The first thread's end is the kernel's word for the process's.
        if process == thread {
            self.allocations().ended(process);
        }
        self.turn(self.tasks.ends(task, &self.ram));
    }

    /// The first begin of a parallel phase and the last end of one are kept; an end is not the last
    /// if there is another begin.
    fn turn(&self, turn: Option<Turn>) {
        let Some(turn) = turn else { return };
        self.is_parallel.store(turn == Turn::Parallel, Ordering::Relaxed);
        if let Some(steps) = &self.steps {
            steps.parallel(turn == Turn::Parallel);
        }
        let has_begun = {
            let mut marks = self.marks();
            marks.retain(|mark| mark.at != Moment::LastThreadEnded);
            marks.iter().any(|mark| mark.at == Moment::FirstThread)
        };
        match turn {
            Turn::Parallel if !has_begun => self.mark(Moment::FirstThread),
            Turn::Parallel => {}
            Turn::Serial => self.mark(Moment::LastThreadEnded),
        }
    }

    /// Keeps what was counted so far.
    pub fn mark(&self, at: Moment) {
        let snapshot = self.system.snapshot();
        let guest_seconds = Some(self.began.elapsed().as_secs_f64());
        self.marks().push(Mark {
            at,
            instructions: instructions(&snapshot),
            guest_seconds,
            snapshot,
        });
    }

    fn marks(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block runs; now and then a slice is due.
    #[inline]
    pub fn tick(&self, cpu: &mut Cpu) {
        cpu.blocks_left -= 1;
        if cpu.blocks_left == 0 {
            cpu.blocks_left = BLOCKS_PER_LOOK;
            self.slice();
        }
    }

    #[cold]
    fn slice(&self) {
        // Whoever comes while another CPU is at it need not wait: nothing is due then.
        let Ok(mut slices) = self.slices.try_lock() else { return };
        let executed = self.system.instructions(Owner::Program);
        if executed >= slices.due_at() {
            slices.note(executed, &self.system.snapshot().program);
        }
    }

    /// The tables of a CPU, to walk; `None` in its first instructions, before they are known.
    #[inline]
    pub fn tables(&self, cpu: &Cpu) -> Option<Tables<'_, Ram>> {
        let tables = Tables { memory: &self.ram, root: cpu.root, levels: cpu.levels };
        (!cpu.is_stale).then_some(tables)
    }

    /// Compares the translation of the access that the model has just seen with QEMU's own.
    pub fn check(&self, cpu: &Cpu, vaddr: u64, theirs: impl FnOnce() -> Option<u64>) {
        let Some(ours) = cpu.model.translation(vaddr) else { return };
        let Some(theirs) = theirs() else { return };
        self.checked.note(ours != theirs);
    }

    /// Why nothing is counted.
    pub fn refuse(&self, why: String) {
        let _ = self.refusal.set(why);
        self.advance(Phase::After);
    }

    /// Writes the result, once.
    pub fn write(&self, ending: Ending) -> Result<(), String> {
        if self.is_written.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let has_begun = matches!(ending, Ending::Marker | Ending::Guest);
        if has_begun {
            self.mark(Moment::End);
        }
        let marks = std::mem::take(&mut *self.marks());
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(end) = marks.last().filter(|_| has_begun) {
            slices.note(end.instructions, &end.snapshot.program);
        }
        let refusal = self.refusal.get().cloned();
        let ending = if refusal.is_some() { Ending::Refused } else { ending };
        let slices = slices.into_vec();
        let checks = self.arguments.checks_translations;
        let translations = checks.then(|| self.checked.translations());
        let noted = self.arguments.tells_handovers.then(|| self.noted());
        let taken = Taken { format: FORMAT, ending, refusal, marks, slices, translations, noted };
        report::write(&taken, &self.arguments.out)
    }
}

impl Cpu {
    /// The model learns of the instructions that translated code has counted.
    #[inline]
    pub fn catch_up(&mut self, nr_instructions: u64) {
        let new = nr_instructions - self.nr_retired;
        self.nr_retired = nr_instructions;
        self.model.retire(new as u32);
    }

    /// A call of `code` has written to `slot` that it comes back behind itself.
    pub fn calls(&mut self, code: &Code, slot: u64) {
        if let Some(call) = self.places.known(code) {
            self.calls.calls(slot, call + u64::from(code.bytes()));
        }
    }

    /// Control registers may be about to change.
    pub fn stale(&mut self) {
        self.is_stale = true;
        self.places.forget();
    }

    /// Reads the control registers again if they may have changed; only where a block begins.
    #[inline]
    pub fn refresh(&mut self) {
        if self.is_stale {
            self.refresh_now();
        }
    }

    #[cold]
    fn refresh_now(&mut self) {
        self.is_stale = false;
        (self.root, self.levels) = read_root(&mut self.registers);
        // QEMU emulates no space numbers (PCID), so that translations do not survive the switch.
        self.model.switch_space(self.root, false);
    }
}

/// Until none of these CPUs that runs what is measured is far behind.
#[inline]
fn wait_for_others(steps: &Steps, cpus: Mask, (index, cpu): (usize, &Cpu)) {
    steps.spent(index, cpu.model.modelled_cycles());
    steps.wait(index, cpus, std::thread::yield_now);
}

fn read_root(registers: &mut Registers) -> (u64, u32) {
    let has_five = registers.read(Register::Features) & FIVE_LEVELS != 0;
    (registers.read(Register::Root), if has_five { 5 } else { 4 })
}
