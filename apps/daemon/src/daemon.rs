//! observe → decide → act, period after period.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use quartier_act::scheduler::{Group, Order, Scheduler, nothing_done};
use quartier_decide::reporter::log::{LOG_FORMAT, Line};
use quartier_decide::reporter::told::Told;
use quartier_decide::reporter::view::CpuSpent;
use quartier_decide::reporter::{Reporter, State};
use quartier_model::{
    Counting, Machine, Nanos, Outcome, Pages, Plan, Refusal, Snapshot, Standing, Step, Task,
    ThreadSeen, Why, WorkingSets,
};
use quartier_observe::damon::stop_left_behind;
use quartier_observe::own_process_cpu_time;
use quartier_observe::tasks::{Monitor, movable_of};
use quartier_shared::system_directory;

use crate::board::{Board, Held};
use crate::config::Config;
use crate::counted::Counted;
use crate::descriptors;
use crate::history::History;
use crate::live::Live;
use crate::log::Log;
use crate::pace::{Pacer, SLICE};
use crate::{say, supervisor, view};

/// Events that are told; of older ones the decision log tells.
const EVENTS_MAX: usize = 512;

/// A machine that is looked after.
pub struct Daemon {
    config: Config,
    monitor: Monitor,
    reporter: Reporter,
    /// `None`: nothing is done, only said.
    scheduler: Option<RefCell<Scheduler>>,
    log: Option<Log>,
    told: Told,
    history: History,
    /// Nothing is changed without a Scheduler, in the machine's tree neither.
    counted: Counted,
    board: Board,
    /// As they were said last.
    counting: Counting,
    working_sets: WorkingSets,
    is_unread: bool,
    pacer: Pacer,
    began: Instant,
}

impl Daemon {
    pub fn new(
        config: Config,
        machine: Machine,
        scheduler: Option<Scheduler>,
        log: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let root = std::path::Path::new("/");
        let descriptors_max = descriptors::left_of(config.monitor.descriptors_max);
        let mut monitor =
            Monitor::new(root, machine.clone(), config.tasks.clone(), descriptors_max);
        // Of one that was killed; without a journal another one may still be there.
        if scheduler.is_some() && stop_left_behind(root) {
            say::sentence("stopped DAMON, which an earlier quartierd had left running");
        }
        configure(&mut monitor, &config)?;
        let counted = Counted::below(system_directory(), &machine);
        let reporter = Reporter::new(machine, config.settings(), State::default());
        let mut daemon = Self {
            config,
            monitor,
            reporter,
            scheduler: scheduler.map(RefCell::new),
            log: None,
            told: Told::keeping(EVENTS_MAX),
            history: History::default(),
            counted,
            board: Board::new(),
            counting: Counting::default(),
            working_sets: WorkingSets::default(),
            is_unread: false,
            pacer: Pacer::new(),
            began: Instant::now(),
        };
        daemon.board.set_period(daemon.config.period());
        daemon.log = log.map(|path| Log::begin(&path, &daemon.line_to_begin())).transpose()?;
        Ok(daemon)
    }

    fn line_to_begin(&self) -> Line {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Line::Begin {
            format: LOG_FORMAT,
            unix_seconds: now.as_secs(),
            machine: self.reporter.machine().clone(),
            settings: self.config.settings(),
            state: self.reporter.state().clone(),
        }
    }

    /// Where others look.
    pub fn board(&self) -> &Board {
        &self.board
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Another configuration from now on.
    pub fn set(&mut self, config: Config) -> anyhow::Result<()> {
        self.monitor.set_rules(config.tasks.clone());
        configure(&mut self.monitor, &config)?;
        self.reporter.set(config.settings());
        // Whoever may not be held any more is let go; of all others it is decided anew.
        if config.tasks != self.config.tasks
            && let Some(scheduler) = &self.scheduler
        {
            let left = scheduler.borrow_mut().let_go()?;
            if left > 0 {
                say::sentence(&format!("{left} threads or control groups could not be let go"));
            }
        }
        self.config = config;
        self.board.set_period(self.config.period());
        self.begin_log_anew();
        Ok(())
    }

    fn begin_log_anew(&mut self) {
        let begin = self.line_to_begin();
        let begun = self.log.take().map(|log| Log::begin(log.path(), &begin));
        self.log = begun.and_then(go_on_without);
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos().try_into().unwrap_or(u64::MAX))
    }

    /// A period: looks, decides, and begins what is to be done.
    pub fn look(&mut self) -> anyhow::Result<()> {
        let looked = self.look_and_decide();
        self.say_what_is_known();
        looked
    }

    fn look_and_decide(&mut self) -> anyhow::Result<()> {
        let at = self.now();
        let live = Live { scheduler: self.scheduler.as_ref(), error: RefCell::new(None) };
        let mut lap = Lap::begin();
        let snapshot = self.monitor.look(at, &live)?;
        lap.ends(&mut self.told.counts.cpu.observe);
        if let Some(error) = live.error.take() {
            return Err(error.into());
        }
        if let Some(scheduler) = &self.scheduler {
            scheduler.borrow_mut().sweep(at)?;
            let said = self.counted.renew(self.reporter.machine(), &snapshot);
            said.iter().for_each(|sentence| say::sentence(sentence));
        }
        lap.ends(&mut self.told.counts.cpu.act);
        self.told.counts.looks += 1;
        self.history.note(&self.reporter, &snapshot);
        let triggers = self.reporter.triggers(&snapshot);
        lap.ends(&mut self.told.counts.cpu.decide);
        if self.board.is_wanted() {
            let applies = self.scheduler.is_some();
            let (told, monitor, history) = (&self.told, &self.monitor, &self.history);
            let view = view::of(&self.reporter, told, applies, monitor, history, &snapshot);
            self.board.put(view, snapshot, self.monitor.watched().collect(), self.held());
        }
        if triggers.is_empty() {
            return Ok(());
        }
        // What is decided is decided from where tasks are now.
        let mut lap = Lap::begin();
        let snapshot = self.monitor.look_closer(at, &live);
        lap.ends(&mut self.told.counts.cpu.observe);
        let plan = self.reporter.plan(triggers, &snapshot);
        lap.ends(&mut self.told.counts.cpu.decide);
        say_plan(&snapshot, &plan);
        self.told.plan(&snapshot, &plan);
        let decided = Line::Decided { snapshot, plan };
        self.write(&decided);
        let Line::Decided { snapshot, plan } = &decided else { return Ok(()) };
        let begun = plan.steps.iter().try_for_each(|step| self.begin(at, snapshot, step));
        lap.ends(&mut self.told.counts.cpu.act);
        begun
    }

    fn held(&self) -> Held {
        let mut of = Held::new();
        let scheduler = self.scheduler.as_ref().map(RefCell::borrow);
        for (_, held) in scheduler.iter().flat_map(|scheduler| scheduler.holds().of(None)) {
            let os_id = self.reporter.machine().nodes()[held.node.index()].os_id;
            of.entry(held.process.id).or_default().insert(os_id);
        }
        of
    }

    fn say_what_is_known(&mut self) {
        if self.monitor.counting() != self.counting {
            self.counting = self.monitor.counting();
            say::sentence(&self.counting.to_string());
        }
        if self.monitor.working_sets() != self.working_sets {
            self.working_sets = self.monitor.working_sets();
            say::sentence(&self.working_sets.to_string());
        }
        // What is quoted of a file may be another at each look.
        if self.monitor.unread().is_some() != self.is_unread {
            self.is_unread = !self.is_unread;
            say::sentence(&match self.monitor.unread() {
                Some(what) => format!("{what}; what it would say is unknown until it can be read"),
                None => "all of the machine can be read again".to_owned(),
            });
        }
    }

    fn begin(&mut self, at: Nanos, snapshot: &Snapshot, step: &Step) -> anyhow::Result<()> {
        let refused =
            |refusal| Outcome { refusal: Some(refusal), ..nothing_done(step.process, at) };
        if self.scheduler.is_none() {
            self.hear(vec![refused(Refusal::DryRun)]);
            return Ok(());
        }
        if !step.kind.is_release() && self.monitor.is_under_run(step.process) {
            self.hear(vec![refused(Refusal::UnderRun)]);
            return Ok(());
        }
        let tasks = self.monitor.tasks_of(step.process);
        let standings = self.standings(snapshot, step, &tasks);
        if step.pages != Pages::Stay && standings.contains(&Standing::MemoryPolicySet) {
            self.hear(vec![refused(Refusal::PolicySet)]);
            return Ok(());
        }
        let known = tasks.len();
        let is_free = |(_, standing): &(Task, Standing)| *standing == Standing::Free;
        let tasks: Vec<_> =
            tasks.into_iter().zip(standings).filter(is_free).map(|(task, _)| task).collect();
        let whole = self.monitor.whole_of(step.process).clone();
        let pages = match &step.pages {
            Pages::Stay => Ok(Vec::new()),
            _ => self.monitor.movable(step.process, self.config.resident_max()),
        };
        let group = self.monitor.group_of(step.process).map(|(path, may_narrow)| Group {
            path,
            may_narrow,
            may_hold_all: tasks.len() == known,
        });
        let order = Order { step, tasks: &tasks, whole: &whole, group, pages };
        let begin = |scheduler: &RefCell<Scheduler>| scheduler.borrow_mut().begin(at, order);
        self.scheduler.as_ref().map_or(Ok(()), begin)?;
        Ok(())
    }

    /// Whether somebody placed threads of a process, also those that sleep; nobody is asked where they only get back what they had.
    fn standings(&mut self, snapshot: &Snapshot, step: &Step, tasks: &[Task]) -> Vec<Standing> {
        let seen = snapshot.processes.iter().find(|seen| seen.id == step.process);
        let of = |task: &Task| {
            let is_task = |thread: &&ThreadSeen| thread.id == task.thread;
            match seen.and_then(|seen| Some(seen.standing_of(seen.threads.iter().find(is_task)?))) {
                Some(standing) => standing,
                None if step.kind.is_release() => Standing::Free,
                None => self.monitor.standing_of_sleeping(task),
            }
        };
        tasks.iter().map(of).collect()
    }

    /// Moves pages for a while; says whether there are more.
    pub fn move_pages(&mut self) -> anyhow::Result<bool> {
        let Some(scheduler) = &self.scheduler else { return Ok(false) };
        if !scheduler.borrow().is_moving() {
            return Ok(false);
        }
        let at = self.now();
        let pace = self.pacer.next(at, &self.config);
        let mut lap = Lap::begin();
        let done = scheduler.borrow_mut().go_on(at, pace);
        self.pacer.ended(self.now());
        lap.ends(&mut self.told.counts.cpu.act);
        let done = done?;
        let is_moving = scheduler.borrow().is_moving();
        if !is_moving {
            self.pacer = Pacer::new();
        }
        self.hear(done);
        Ok(is_moving)
    }

    /// How long to wait for the next slice, or for the next look.
    pub fn pause(&self, is_moving: bool, until_look: Duration) -> Duration {
        if is_moving { SLICE.min(until_look) } else { until_look }
    }

    fn hear(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            self.monitor.was_moved(outcome.process);
            self.reporter.outcome(&outcome);
            say_outcome(&outcome);
            self.told.outcome(&outcome);
            self.write(&Line::Outcome(outcome));
        }
    }

    /// That nothing can be logged any more is no reason not to look after the machine.
    fn write(&mut self, line: &Line) {
        let Some(mut log) = self.log.take() else { return };
        let written = log.write(line);
        self.log = go_on_without(written.map(|()| log));
        if self.log.as_ref().is_some_and(|log| log.is_full(line)) {
            self.begin_log_anew();
        }
    }

    /// Takes everything back.
    pub fn stop(self) -> anyhow::Result<()> {
        let CpuSpent { observe, decide, act } = self.told.counts.cpu;
        let seconds = |spent: Nanos| Duration::from_nanos(spent.0).as_secs_f64();
        say::sentence(&format!(
            "used {:.1} s of CPU time to look, {:.1} s to decide, {:.1} s to act",
            seconds(observe),
            seconds(decide),
            seconds(act)
        ));
        let Some(scheduler) = self.scheduler else { return Ok(()) };
        let undone = scheduler.into_inner().undo(
            |process| movable_of(std::path::Path::new("/"), process.id),
            |left| {
                say::sentence(&format!("moving the pages of {left} processes back"));
                supervisor::stopping();
            },
        )?;
        say::sentence(&format!("let {} threads go", undone.threads - undone.refused.len()));
        if undone.groups > 0 {
            let widened = undone.groups - undone.groups_refused.len();
            say::sentence(&format!("gave {widened} control groups their CPUs back"));
        }
        for (group, why) in &undone.groups_refused {
            say::sentence(&format!("the cpuset of {group} stays narrow: {why}"));
        }
        undone.outcomes.iter().for_each(say_outcome);
        Ok(())
    }
}

fn go_on_without(log: anyhow::Result<Log>) -> Option<Log> {
    let complain = |error| say::sentence(&format!("{error:#}; decisions are not logged any more"));
    log.map_err(complain).ok()
}

/// CPU time of this process, whose other threads do little, since it was looked at last.
struct Lap(Duration);

impl Lap {
    fn begin() -> Self {
        Self(own_process_cpu_time())
    }

    fn ends(&mut self, spent: &mut Nanos) {
        let now = own_process_cpu_time();
        spent.0 += u64::try_from(now.saturating_sub(self.0).as_nanos()).unwrap_or(u64::MAX);
        self.0 = now;
    }
}

/// What a Monitor is told beside its rules, at the start and later.
fn configure(monitor: &mut Monitor, config: &Config) -> anyhow::Result<()> {
    monitor.set_pages_part(config.pages_part());
    monitor
        .watch_working_sets(config.monitor.damon)
        .context("cannot start a thread that watches working sets")
}

fn say_plan(snapshot: &Snapshot, plan: &Plan) {
    let name = |process| {
        let seen = snapshot.processes.iter().find(|seen| seen.id == process);
        seen.map_or("?", |seen| seen.name.as_str())
    };
    for step in &plan.steps {
        let Step { process, kind, threads, pages, gain, cost, .. } = step;
        let nodes: BTreeSet<_> = threads.iter().filter_map(|(_, node)| *node).collect();
        say::line(&format!(
            "{kind:?} {} ({}): {} threads to {:?}, pages {}; gains {gain:.2} CPUs, costs {cost}",
            process,
            name(*process),
            threads.len(),
            nodes,
            PagesLine(pages),
        ));
    }
    for left in &plan.left {
        if let Why::UsersUnknown(_) = left.why {
            say::line(&format!("left {} ({}): {}", left.process, name(left.process), left.why));
        }
    }
}

/// What happens to pages, without each block by itself.
struct PagesLine<'a>(&'a Pages);

impl std::fmt::Display for PagesLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Pages::ToUsers { bytes, blocks } => {
                write!(f, "to who uses them, {} blocks, at most {bytes}", blocks.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

fn say_outcome(outcome: &Outcome) {
    say::line(&format!(
        "outcome {}: {} threads held{}, {} left, {} moved, {} stayed{}",
        outcome.process,
        outcome.threads_held,
        outcome.by_cpuset.as_ref().map_or(String::new(), |by| format!(" {by}")),
        outcome.threads_left,
        outcome.moved,
        outcome.stayed,
        outcome.refusal.map_or(String::new(), |refusal| format!(", {refusal:?}")),
    ));
}
