//! A machine with its tree and a load, as a program sees it: through a shared tree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::Context;
use quartier_decide::dqdt::{Allowed, FreeMemory, Process, Tree, Usage};
use quartier_decide::policy::Thread;
use quartier_model::{CpuId, NodeId};
use quartier_shared::SharedTree;

use crate::clock::NR_WARM;
use crate::shape::{Load, Shape};

/// So many creators are drawn in advance. A power of two, and no more than are warmed up with.
const NR_CREATORS: usize = NR_WARM;

/// A machine under load.
#[derive(Debug)]
pub struct World {
    /// The tree and its estimates.
    pub shared: SharedTree,
    /// This process in the ledger.
    pub process: Process,
    /// T of each CPU.
    pub nr_threads: Vec<u32>,
    allowed: Allowed,
    creators: Vec<CpuId>,
}

impl World {
    /// A machine with these CPUs taken, and U and M as they then are.
    ///
    /// # Errors
    /// When the kernel refuses the memory or this process cannot be identified.
    pub fn new(shape: Shape, tree: &Tree, load: Load) -> anyhow::Result<Self> {
        let shared = SharedTree::private(tree)?;
        let process = shared.enter().context("/proc cannot be read, so nothing can be counted")?;
        let mut nr_threads = vec![0; shape.nr_cpus() as usize];
        for cpu in load.taken(shape) {
            let ledger = shared.ledger().context("a private tree is writable")?;
            ledger.count(process, cpu).context("the ledger is full")?;
            nr_threads[cpu.index()] += 1;
        }
        let mut random = fastrand::Rng::with_seed(1);
        // Far from the last CPU, where that is the one to be found.
        let last = if load == Load::AllButLast { shape.nr_cpus() / 4 } else { shape.nr_cpus() };
        let creators = (0..NR_CREATORS).map(|_| CpuId(random.u32(0..last))).collect();
        let allowed = Allowed::all(tree);
        let world = Self { shared, process, nr_threads, allowed, creators };
        world.refresh();
        Ok(world)
    }

    /// One of the creators that were drawn.
    pub fn creator(&self, nr: usize) -> CpuId {
        self.creators[nr % NR_CREATORS]
    }

    /// A request for a thread of that creator.
    pub fn request(&self, nr: usize) -> Thread<'_> {
        Thread::new(Some(self.creator(nr)), &self.allowed)
    }

    /// U of a CPU: busy if it is taken.
    pub fn usage(&self, cpu: CpuId) -> Option<Usage> {
        let nr_threads = self.nr_threads.get(cpu.index())?;
        Some(if *nr_threads > 0 { Usage::FULL } else { Usage::IDLE })
    }

    /// M of a node: some.
    pub fn free_memory(node: NodeId) -> Option<FreeMemory> {
        Some(FreeMemory { pages: 100_000 + u64::from(node.0), blocks: [100; 10] })
    }

    /// One tick of the refresher.
    pub fn refresh(&self) {
        let refresher = self.shared.refresher().expect("a private tree is writable");
        refresher.tick(|cpu| self.usage(cpu), Self::free_memory);
    }
}

/// Worlds that were made already: several cases use one.
#[derive(Debug, Default)]
pub struct Worlds {
    trees: RefCell<BTreeMap<Shape, Rc<Tree>>>,
    worlds: RefCell<BTreeMap<(Shape, Load), Rc<World>>>,
}

impl Worlds {
    /// The tree of a machine.
    pub fn tree(&self, shape: Shape) -> Rc<Tree> {
        let mut trees = self.trees.borrow_mut();
        Rc::clone(trees.entry(shape).or_insert_with(|| Rc::new(Tree::build(&shape.machine()))))
    }

    /// The machine under a load.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn world(&self, shape: Shape, load: Load) -> anyhow::Result<Rc<World>> {
        if let Some(world) = self.worlds.borrow().get(&(shape, load)) {
            return Ok(Rc::clone(world));
        }
        let world = Rc::new(World::new(shape, &self.tree(shape), load)?);
        self.worlds.borrow_mut().insert((shape, load), Rc::clone(&world));
        Ok(world)
    }
}
