//! `libquartier_preload.so`: the preload runtime joined with the decision tree. Nothing but the
//! joint is here.
//!
//! The unsafe code below is what makes a shared object's initialiser and finaliser.

mod counting;

use std::fs::File;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use quartier_decide::dqdt::{Allowed, Tree};
use quartier_decide::policy::{Strategy, Thread};
use quartier_model::{CpuId, CpuList, CpuOsId, Machine, NodeId, NodeOsId};
use quartier_preload::{Arena, Count, Decide, Place, from_launcher};
use quartier_session::{self as session, CpuBits, DeskRequest, FirstThread, Session};
use quartier_shared::SharedTree;

use counting::Counting;

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

/// The decision tree that all processes of the run share, and those of other runs that opened it.
#[derive(Debug)]
struct TreeDecider {
    machine: Machine,
    shared: SharedTree,
    counting: Counting,
    session: &'static Session,
    /// The mask of the last request, which seldom changes. Without a lock: a child of a fork would
    /// find it taken by a thread that it does not have.
    allowed: AtomicPtr<(CpuBits, Allowed)>,
}

impl TreeDecider {
    fn new(session: &'static Session) -> Option<Self> {
        let machine: Machine = serde_json::from_slice(session.machine_json()).ok()?;
        let shared = open_tree(session)?;
        let (counting, allowed) = (Counting::new(session), AtomicPtr::default());
        Some(Self { machine, shared, counting, session, allowed })
    }

    fn tree(&self) -> &Tree {
        self.shared.tree()
    }

    fn cpu(&self, os_id: u32) -> Option<CpuId> {
        self.tree().cpu_by_os_id(CpuOsId(os_id))
    }

    fn place_of(&self, cpu: CpuId, count: Option<Count>) -> Option<Place> {
        let cpu = self.machine.cpus().get(cpu.index())?;
        let node = cpu.node?;
        let node_os_id = self.machine.nodes().get(node.index())?.os_id.0;
        let cpu_os_id = cpu.os_id.0;
        Some(Place { cpu_os_id, node_index: node.0, node_os_id, count, has_idle_core: true })
    }

    fn allowed(&self, bits: &CpuBits) -> &'static Allowed {
        let last = self.allowed.load(Ordering::Acquire);
        // SAFETY: null, or stored below and never freed.
        if let Some((known, allowed)) = unsafe { last.as_ref() }
            && known == bits
        {
            return allowed;
        }
        let cpus: CpuList = bits.without(&self.session.config().isolated).iter().collect();
        // Leaked on purpose: masks are few, and a decision must not free under a reader.
        let made = Box::leak(Box::new((*bits, Allowed::from_os_ids(self.tree(), &cpus))));
        self.allowed.store(made, Ordering::Release);
        // SAFETY: leaked above.
        unsafe { &(*self.allowed.load(Ordering::Acquire)).1 }
    }
}

impl TreeDecider {
    /// The launcher chose the program's node, and counts its first thread until the program does.
    fn take_over_first_thread(&self) {
        let is_program = self.session.slot(0).pid() == std::process::id();
        let first_thread = &self.session.header().first_thread;
        if is_program
            && let Some(known) = FirstThread::unpack(first_thread.swap(0, Ordering::AcqRel))
        {
            self.counting.release_for(&self.shared, known);
        }
    }
}

/// By the launcher's descriptors; a process that has become another user may not open them, and asks.
fn open_tree(session: &Session) -> Option<SharedTree> {
    let launcher = session.header().launcher;
    let path = |fd: i32| format!("/proc/{}/fd/{fd}", launcher.pid);
    let (tree, threads) = (path(launcher.tree_fd), path(launcher.threads_fd));
    SharedTree::open_files(Path::new(&tree), Path::new(&threads)).ok().or_else(|| {
        let ask = |request| {
            let descriptor = from_launcher(request)?;
            // SAFETY: just received, and nobody else's.
            Some(unsafe { File::from_raw_fd(descriptor) })
        };
        let (tree, threads) = (ask(DeskRequest::Tree)?, ask(DeskRequest::Threads)?);
        SharedTree::of_descriptors(tree, threads).ok()
    })
}

impl Decide for TreeDecider {
    fn place(&self, creator: u32, allowed: &CpuBits) -> Option<Place> {
        let strategy = match self.session.config().strategy() {
            session::Strategy::Thesis => Strategy::Thesis,
            session::Strategy::Packed => Strategy::Packed,
            session::Strategy::Spread => Strategy::Spread,
        };
        let request = Thread::new(self.cpu(creator), self.allowed(allowed));
        let request = Thread { strategy, ..request };
        let (decision, count) = self.counting.place(&self.shared, &request)?;
        let place = self.place_of(decision.cpu, count)?;
        Some(Place { has_idle_core: decision.attempt == 1, ..place })
    }

    fn count(&self, cpu: u32) -> Option<Count> {
        let count = self.counting.count(&self.shared, self.cpu(cpu)?);
        // From now on this process counts its first thread itself.
        self.take_over_first_thread();
        count
    }

    fn uncount(&self, count: Count) {
        self.counting.uncount(&self.shared, count);
    }

    fn forked(&self) {
        self.counting.forget();
    }

    fn leave(&self) {
        self.counting.leave(&self.shared);
    }

    fn locate(&self, cpu: u32) -> Option<Place> {
        self.place_of(self.cpu(cpu)?, None)
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
