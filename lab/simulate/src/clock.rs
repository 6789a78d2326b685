//! Simulated time: events in order, and the refreshes of U and M between them.

use std::ops::Range;

use quartier_decide::dqdt::{ClusterId, EMA_TICKS, Estimates, Refresher, Tree};
use quartier_decide::policy::default_free_pages_min;
use quartier_model::{CpuId, Distance, Machine};

use crate::choosers::{Choice, Chooser, Kind, Request};
use crate::measures::{Account, Decided, Measures};
use crate::period::Period;
use crate::trace::{Creation, Event, ThreadIndex, Trace};
use crate::truth::{Held, PAGE, Truth};

/// A machine with its tree, for many runs.
#[derive(Clone, Debug)]
pub struct Stage {
    machine: Machine,
    tree: Tree,
    free_pages_min: Option<u64>,
}

/// What a run gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The measures.
    pub measures: Measures,
    /// Where each thread ran, by its index.
    pub placed: Vec<CpuId>,
    /// Threads that T still counts when all have ended.
    pub nr_left: u32,
}

impl Stage {
    /// Builds the tree. M above which a node has room for a new program is the thesis's.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        let tree = Tree::build(&machine);
        let free_pages_min = default_free_pages_min(&machine, PAGE);
        Self { machine, tree, free_pages_min }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its tree.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Free pages above which a node has room for a new program.
    #[must_use]
    pub fn free_pages_min(&self) -> Option<u64> {
        self.free_pages_min
    }

    /// Lets everything of a trace happen. U and M are renewed each `period`, and unknown before its
    /// first end; `None`: they stay unknown.
    #[must_use]
    pub fn run(&self, trace: &Trace, chooser: &mut dyn Chooser, period: Option<Period>) -> Outcome {
        let (threads, resources) = (self.tree.new_threads(), self.tree.new_resources());
        let made_for_it = "the lists are made for this tree";
        let estimates = Estimates::new(&self.tree, &threads).expect(made_for_it);
        let estimates = estimates.with_resources(&resources).expect(made_for_it);
        let refresher = Refresher::new(estimates, &resources, EMA_TICKS).expect(made_for_it);
        let run = Run {
            stage: self,
            trace,
            chooser,
            estimates,
            refresher,
            truth: Truth::new(&self.machine),
            account: Account::new(self.machine.cpus().len()),
            placed: vec![None; trace.lives.len()],
            held: vec![None; trace.lives.len()],
            now_ns: 0,
        };
        run.finish(period)
    }
}

struct Run<'a> {
    stage: &'a Stage,
    trace: &'a Trace,
    chooser: &'a mut dyn Chooser,
    estimates: Estimates<'a>,
    refresher: Refresher<'a>,
    truth: Truth<'a>,
    account: Account,
    /// By thread.
    placed: Vec<Option<CpuId>>,
    held: Vec<Option<Held>>,
    now_ns: u64,
}

impl Run<'_> {
    fn finish(mut self, period: Option<Period>) -> Outcome {
        let mut nr_ticks = 0;
        for &(at_ns, event) in &self.trace.events {
            if let Some(period) = period {
                while period.nanos() * (nr_ticks + 1) <= at_ns {
                    nr_ticks += 1;
                    self.tick(period.nanos() * nr_ticks, period);
                }
            }
            self.pass_until(at_ns);
            match event {
                Event::Start(thread) => self.start(thread),
                Event::Exit(thread) => self.exit(thread),
            }
        }
        let nr_left = self.estimates.nr_threads(ClusterId::ROOT);
        let placed = self.placed.into_iter().flatten().collect();
        Outcome { measures: self.account.measures(), placed, nr_left }
    }

    fn tick(&mut self, at_ns: u64, period: Period) {
        let usage = self.truth.end_period(at_ns, period.nanos());
        let truth = &self.truth;
        self.refresher.tick(|cpu| usage[cpu.index()], |node| Some(truth.free_memory(node)));
    }

    fn pass_until(&mut self, at_ns: u64) {
        let nanos = overlap(&(self.now_ns..at_ns), &self.trace.measured_ns);
        self.account.pass(nanos, self.truth.sums());
        self.now_ns = at_ns;
    }

    fn start(&mut self, thread: ThreadIndex) {
        let life = self.trace.lives[thread.index()];
        let creator = life.creation.creator().and_then(|creator| self.placed[creator.index()]);
        let kind = match life.creation {
            Creation::Exec => Kind::Exec,
            Creation::Fork(_) => Kind::Fork,
            Creation::Thread(_) => Kind::Thread,
        };
        let request = Request { kind, creator };
        let choice = self.chooser.choose(&request, &self.truth, &self.estimates);
        if self.trace.measured_ns.contains(&self.now_ns) {
            self.account.decide(&self.decided(choice, life.creation, creator));
        }
        let is_counted = self.estimates.add_thread(choice.cpu);
        debug_assert!(is_counted, "every CPU of a simulated machine takes threads");
        self.truth.add(self.now_ns, choice.cpu, life.demand_permille);
        self.placed[thread.index()] = Some(choice.cpu);
        let node = self.truth.cpu(choice.cpu).node;
        self.held[thread.index()] = self.truth.hold(node, life.nr_pages);
    }

    fn decided(&self, choice: Choice, creation: Creation, creator: Option<CpuId>) -> Decided {
        let cpu = self.truth.cpu(choice.cpu);
        let distance = creator.map_or(Distance::LOCAL, |creator| {
            self.stage.machine.distance(self.truth.cpu(creator).node, cpu.node)
        });
        let free_pages = self.truth.node(cpu.node).free_pages;
        Decided {
            choice,
            creation,
            distance,
            shares_needlessly: cpu.nr_threads > 0 && self.truth.has_idle_cpu(),
            is_short_of_memory: self.stage.free_pages_min.is_some_and(|min| free_pages <= min),
        }
    }

    fn exit(&mut self, thread: ThreadIndex) {
        let cpu = self.placed[thread.index()].expect("a thread starts before it ends");
        let demand_permille = self.trace.lives[thread.index()].demand_permille;
        self.truth.remove(self.now_ns, cpu, demand_permille);
        self.estimates.remove_thread(cpu).expect("it was counted when it started");
        if let Some(held) = self.held[thread.index()].take() {
            self.truth.release(held);
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}
