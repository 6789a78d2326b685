//! `libquartier_preload.so`: the preload runtime joined with the decision tree. Nothing but the
//! joint is here.
//!
//! The unsafe code below is what makes a shared object's initialiser and finaliser.

use std::sync::atomic::{AtomicPtr, Ordering};

use quartier_decide::dqdt::Threads;
use quartier_decide::dqdt::{Allowed, Estimates, Tree};
use quartier_decide::policy::{Thread, decide_and_count};
use quartier_model::{CpuId, CpuList, CpuOsId, Machine, NodeId, NodeOsId};
use quartier_preload::{Arena, Decide, Place};
use quartier_session::{CpuBits, Session};

/// Everything that the runtime allocates lies in its own segment.
#[global_allocator]
static ARENA: Arena = Arena;

extern "C" fn on_load() {
    quartier_preload::start(|session| Some(Box::new(TreeDecider::new(session)?)));
}

extern "C" fn on_exit() {
    quartier_preload::end();
}

// SAFETY: the loader calls each entry of these sections once, with no arguments that we use.
#[unsafe(link_section = ".init_array")]
#[used]
static ON_LOAD: extern "C" fn() = on_load;
// SAFETY: as above.
#[unsafe(link_section = ".fini_array")]
#[used]
static ON_EXIT: extern "C" fn() = on_exit;

/// The decision tree over the counters that all processes of the run share.
#[derive(Debug)]
struct TreeDecider {
    machine: Machine,
    tree: Tree,
    session: &'static Session,
    /// The mask of the last request, which seldom changes. Without a lock: a child of a fork would
    /// find it taken by a thread that it does not have.
    allowed: AtomicPtr<(CpuBits, Allowed)>,
}

impl TreeDecider {
    fn new(session: &'static Session) -> Option<Self> {
        let machine: Machine = serde_json::from_slice(session.machine_json()).ok()?;
        let tree = Tree::build(&machine);
        (session.tree_slots().len() >= tree.nr_slots() * 16).then_some(Self {
            machine,
            tree,
            session,
            allowed: AtomicPtr::default(),
        })
    }

    fn estimates(&self) -> Option<Estimates<'_>> {
        let slots = self.session.tree_slots();
        // SAFETY: `new` checked the length; all zero bits are no threads, and the offset is aligned.
        let threads = unsafe {
            std::slice::from_raw_parts(slots.as_ptr().cast::<Threads>(), self.tree.nr_slots())
        };
        Estimates::new(&self.tree, threads).ok()
    }

    fn cpu(&self, os_id: u32) -> Option<CpuId> {
        self.tree.cpu_by_os_id(CpuOsId(os_id))
    }

    fn place_of(&self, cpu: CpuId) -> Option<Place> {
        let cpu = self.machine.cpus().get(cpu.index())?;
        let node = cpu.node?;
        let node_os_id = self.machine.nodes().get(node.index())?.os_id.0;
        Some(Place { cpu_os_id: cpu.os_id.0, node_index: node.0, node_os_id })
    }

    fn allowed(&self, bits: &CpuBits) -> &'static Allowed {
        let last = self.allowed.load(Ordering::Acquire);
        // SAFETY: null, or stored below and never freed.
        if let Some((known, allowed)) = unsafe { last.as_ref() }
            && known == bits
        {
            return allowed;
        }
        let cpus: CpuList = bits.iter().collect();
        // Leaked on purpose: masks are few, and a decision must not free under a reader.
        let made = Box::leak(Box::new((*bits, Allowed::from_os_ids(&self.tree, &cpus))));
        self.allowed.store(made, Ordering::Release);
        // SAFETY: leaked above.
        unsafe { &(*self.allowed.load(Ordering::Acquire)).1 }
    }
}

impl Decide for TreeDecider {
    fn place(&self, creator: u32, allowed: &CpuBits) -> Option<Place> {
        let request = Thread::new(self.cpu(creator), self.allowed(allowed));
        let decision = decide_and_count(&self.estimates()?, &request)?;
        self.place_of(decision.cpu)
    }

    fn count(&self, cpu: u32) -> bool {
        let estimates = self.estimates();
        estimates.zip(self.cpu(cpu)).is_some_and(|(estimates, cpu)| estimates.add_thread(cpu))
    }

    fn uncount(&self, cpu: u32) {
        if let Some((estimates, cpu)) = self.estimates().zip(self.cpu(cpu)) {
            // Already at zero only if somebody cleared the counters: then there is nothing to take.
            let _ = estimates.remove_thread(cpu);
        }
    }

    fn locate(&self, cpu: u32) -> Option<Place> {
        self.place_of(self.cpu(cpu)?)
    }

    fn node_cpus(&self, node_index: u32) -> CpuBits {
        if node_index as usize >= self.machine.nodes().len() {
            return CpuBits::EMPTY;
        }
        self.machine.node_cpu_list(NodeId(node_index)).iter().collect()
    }

    fn nodes_by_distance(&self, cpu: u32) -> Vec<u32> {
        let home = self.locate(cpu).map_or(NodeId(0), |place| NodeId(place.node_index));
        let has_memory = |node: &NodeId| {
            self.machine.nodes()[node.index()].memory.is_none_or(|memory| memory.0 > 0)
        };
        let mut nodes: Vec<_> = self.machine.node_ids().filter(has_memory).collect();
        nodes.sort_by_key(|node| (self.machine.distance(home, *node), node.0));
        nodes.iter().map(|node| self.machine.nodes()[node.index()].os_id.0).collect()
    }

    fn node_index(&self, node_os_id: u32) -> Option<u32> {
        self.machine.node_by_os_id(NodeOsId(node_os_id)).map(|node| node.0)
    }
}
