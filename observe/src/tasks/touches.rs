//! Which thread of a process touches which of its pages: page faults with their addresses, sampled per thread for
//! a while, and where those pages lie.
//!
//! With the kernel's NUMA balancing on, a thread faults on memory that is there already now and then. But first
//! touches fault too, and say who filled memory rather than who uses it. They are told apart by two signs: the
//! memory is in no mapping that was there when mappings were read last, or the process grew while it faulted.

use std::collections::{BTreeMap, VecDeque};

use quartier_model::{
    BLOCK, BlockSeen, Machine, Nanos, NodeId, NodeOsId, PerNode, Touches, Unseen, Users,
};

use super::files::Files;
use super::pages::{Mappings, PAGE};
use super::{Kernel, LOOK_AROUND, SECOND};
use crate::events::{Events, Fault, Faults, Refused};

/// It is worth looking at for so long after it was seen to be.
pub const WANTED: Nanos = Nanos(5 * SECOND);
/// So long a process is looked at, at most, if it touches much meanwhile,
const LOOK_FOR: Nanos = Nanos(20 * SECOND);
/// or else for as long as the kernel takes to go over all of its memory when it is slowest (60 s): a look that ends
/// earlier may miss the same part each time.
const LOOK_LONG: Nanos = Nanos(65 * SECOND);
/// It is not looked at again before so long.
const REST: Nanos = Nanos(40 * SECOND);
/// Touches of all of its threads that are much: 500 a second.
const MUCH: u64 = 10_000;
/// What was seen longer ago says nothing about now.
const TOUCHES_LAST: Nanos = Nanos(300 * SECOND);
/// Blocks kept of a process, as touched by each of its threads, and of one of them: at least, if it has very many,
/// and at most.
const TOUCHES_MAX: usize = 4096;
const OF_THREAD_MIN: usize = 16;
const OF_THREAD_MAX: usize = 64;
/// Touches of a thread that say what it uses.
const ENOUGH: u64 = 64;
/// Blocks that are told of a process.
const BLOCKS_MAX: usize = 512;

/// What is seen of one process's touches.
#[derive(Debug, Default)]
pub struct Touching {
    /// It is to be looked at until then.
    wanted_until: Nanos,
    /// Of threads by their number, while they are looked at.
    open: BTreeMap<u32, Box<dyn Faults>>,
    /// The block that was touched latest last, by thread.
    seen: BTreeMap<u32, VecDeque<Touched>>,
    /// By thread, too.
    lost: BTreeMap<u32, u64>,
    /// Blocks kept of a thread.
    kept_max: usize,
    /// Touches since it began, lost ones, too.
    came: u64,
    began: Option<Nanos>,
    ended: Option<Nanos>,
    /// When it was asked where the pages lie.
    asked: Nanos,
    /// Resident pages of its own when it was looked at last.
    own_pages: Option<u64>,
    unseen: Option<Unseen>,
}

/// What a thread touched of a block. The kernel goes over memory in the order of addresses, so the latest touches
/// alone would be of one block.
#[derive(Clone, Copy, Debug)]
struct Touched {
    /// As of the latest.
    at: Nanos,
    page: u64,
    on: Option<NodeId>,
    times: u64,
}

impl Touched {
    fn block(&self) -> u64 {
        self.page / (BLOCK.0 / PAGE)
    }
}

/// What is needed to look at one process.
pub struct Ask<'a> {
    pub files: &'a mut Files,
    pub machine: &'a Machine,
    pub kernel: &'a dyn Kernel,
    pub events: &'a dyn Events,
    pub at: Nanos,
    pub pid: u32,
    pub mappings: Option<&'a Mappings>,
    /// Threads that run or wait.
    pub threads: &'a [u32],
    /// Descriptors that may be opened.
    pub left: usize,
}

/// Whether the kernel makes touches visible at all; `text` is `proc/sys/kernel/numa_balancing`, if there is one.
pub fn balancing(text: Option<&[u8]>) -> Result<(), Unseen> {
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    let mode: u32 = text.and_then(|text| text.trim().parse().ok()).ok_or(Unseen::Unsupported)?;
    // The second bit is about tiers of memory only.
    if mode & 1 == 1 { Ok(()) } else { Err(Unseen::BalancingOff) }
}

impl Touching {
    /// It has more threads than fit on a node.
    pub fn want(&mut self, at: Nanos) {
        self.wanted_until = at + WANTED;
    }

    pub fn is_wanted(&self, at: Nanos) -> bool {
        at < self.wanted_until
    }

    /// Whether there is nothing to look at, and nothing to forget.
    pub fn is_at_rest(&self, at: Nanos) -> bool {
        self.open.is_empty() && self.seen.is_empty() && !self.is_wanted(at)
    }

    pub fn nr_open(&self) -> usize {
        self.open.len()
    }

    /// For whose turn it is: those that are looked at already, then those that were not for longest.
    pub fn turn(&self) -> (bool, Option<Nanos>) {
        (self.open.is_empty(), self.ended)
    }

    /// It is not looked at now, and why; `None`: it need not be.
    pub fn stop(&mut self, at: Nanos, why: Option<Unseen>) {
        if !self.open.is_empty() {
            self.open.clear();
            self.ended = Some(at);
        }
        self.unseen = why;
        self.forget(at);
    }

    fn forget(&mut self, at: Nanos) {
        self.seen.retain(|_, touches| {
            while touches.front().is_some_and(|touched| touched.at + TOUCHES_LAST < at) {
                touches.pop_front();
            }
            !touches.is_empty()
        });
        if self.seen.is_empty() {
            self.lost.clear();
        }
    }

    /// Looks, and begins or ends looking.
    pub fn look(&mut self, ask: &mut Ask<'_>) {
        self.forget(ask.at);
        if self.open.is_empty() {
            if self.ended.is_none_or(|ended| ask.at >= ended + REST) {
                self.own_pages = own_pages(ask);
                self.began = Some(ask.at);
                self.came = 0;
                // What comes now says more than what came before.
                self.seen
                    .values_mut()
                    .flatten()
                    .for_each(|touched| touched.times = touched.times.div_ceil(2));
                self.open(ask);
            }
        } else {
            self.take(ask);
            let look_for = if self.came >= MUCH { LOOK_FOR } else { LOOK_LONG };
            let is_over = self.began.is_none_or(|began| ask.at >= began + look_for);
            if is_over || self.is_enough(ask.threads) {
                self.stop(ask.at, None);
            } else {
                self.open(ask);
            }
        }
        self.locate(ask);
    }

    /// Opens what is not yet of threads that run. If that is refused, nothing stays open.
    fn open(&mut self, ask: &mut Ask<'_>) {
        self.open.retain(|tid, _| ask.threads.contains(tid));
        let new: Vec<u32> =
            ask.threads.iter().copied().filter(|tid| !self.open.contains_key(tid)).collect();
        if 2 * (ask.left + self.open.len()) < ask.threads.len() {
            return self.refuse(ask.at, Unseen::NoDescriptors);
        }
        self.unseen = None;
        for tid in new.into_iter().take(ask.left) {
            match ask.events.faults(tid) {
                Ok(faults) => {
                    self.open.insert(tid, faults);
                }
                Err(Refused::Ended) => {}
                Err(Refused::NotPermitted) => return self.refuse(ask.at, Unseen::NotPermitted),
                Err(Refused::Unsupported) => return self.refuse(ask.at, Unseen::Unsupported),
                Err(Refused::NoDescriptors) => return self.refuse(ask.at, Unseen::NoDescriptors),
            }
        }
    }

    fn refuse(&mut self, at: Nanos, why: Unseen) {
        self.open.clear();
        self.ended = Some(at);
        self.unseen = Some(why);
    }

    /// Takes what there is, unless it may be first touches: then none of it counts, lost ones neither.
    fn take(&mut self, ask: &mut Ask<'_>) {
        let before = std::mem::replace(&mut self.own_pages, own_pages(ask));
        let mut faults: Vec<Fault> = Vec::new();
        let mut lost: Vec<(u32, u64)> = Vec::new();
        for (tid, open) in &mut self.open {
            lost.push((*tid, open.take(&mut |fault| faults.push(fault))));
        }
        let nr = faults.len() as u64 + lost.iter().map(|(_, lost)| lost).sum::<u64>();
        self.came = self.came.saturating_add(nr);
        // What the kernel counts may be late by some pages: so little growth is only then no matter if there is much
        // else.
        let is_growing = before
            .zip(self.own_pages)
            .is_none_or(|(before, now)| now > before && 4 * (now - before) >= nr);
        let Some(mappings) = ask.mappings.filter(|_| !is_growing) else { return };
        for (tid, lost) in lost {
            let all = self.lost.entry(tid).or_default();
            *all = all.saturating_add(lost);
        }
        self.kept_max =
            (TOUCHES_MAX / ask.threads.len().max(1)).clamp(OF_THREAD_MIN, OF_THREAD_MAX);
        for Fault { pid, tid, address } in faults {
            if pid != ask.pid || !mappings.contains(address) {
                continue;
            }
            let touches = self.seen.entry(tid).or_default();
            let mut new = Touched { at: ask.at, page: address / PAGE, on: None, times: 1 };
            if let Some(at) = touches.iter().rposition(|touched| touched.block() == new.block())
                && let Some(before) = touches.remove(at)
            {
                new.times += before.times;
                // Where another page of the block lies is asked anew.
                new.on = before.on.filter(|_| new.page == before.page);
            }
            touches.push_back(new);
            while touches.len() > self.kept_max {
                touches.pop_front();
            }
        }
    }

    fn is_enough(&self, threads: &[u32]) -> bool {
        let has_enough = |tid| self.seen.get(tid).is_some_and(|seen| seen.len() >= self.kept_max);
        threads.iter().all(has_enough)
    }

    fn times(&self, tid: u32) -> u64 {
        self.seen.get(&tid).map_or(0, |seen| seen.iter().map(|touched| touched.times).sum())
    }

    /// Asks where the pages lie that were touched: they may have moved.
    fn locate(&mut self, ask: &Ask<'_>) {
        if self.seen.is_empty() || ask.at < self.asked + LOOK_AROUND {
            return;
        }
        self.asked = ask.at;
        let pages = self.seen.values().flatten().map(|touched| touched.page);
        let mut pages: Vec<u64> = pages.collect();
        pages.sort_unstable();
        pages.dedup();
        let addresses: Vec<u64> = pages.iter().map(|page| page * PAGE).collect();
        let mut nodes: Vec<Option<NodeOsId>> = Vec::new();
        if ask.kernel.nodes_of(ask.pid, &addresses, &mut nodes).is_err() {
            nodes.clear();
        }
        let node_of = |page| {
            let at = pages.binary_search(page).ok()?;
            ask.machine.node_by_os_id((*nodes.get(at)?)?)
        };
        for touched in self.seen.values_mut().flatten() {
            touched.on = node_of(&touched.page);
        }
    }

    /// How often a thread touched what lies on which node, each block being where its latest page is; `None`: unknown.
    pub fn touched_by(&self, tid: u32) -> Option<PerNode> {
        let mut nodes = PerNode::new();
        for touched in self.seen.get(&tid)? {
            if let Some(node) = touched.on {
                *nodes.entry(node).or_default() += touched.times;
            }
        }
        (!nodes.is_empty()).then_some(nodes)
    }

    /// Who uses what; `None`: that was not asked.
    pub fn users(&self, at: Nanos) -> Option<Users> {
        if !self.is_wanted(at) && self.seen.is_empty() {
            return None;
        }
        Some(match self.unseen {
            Some(unseen) if self.seen.is_empty() => Users::Unknown(unseen),
            _ => Users::Seen(Touches { blocks: self.blocks(), lost: self.lost() }),
        })
    }

    /// What was lost of threads of which little was seen: of memory in small pages a thread's touches come by the
    /// hundred at once, and some of them tell as much.
    fn lost(&self) -> u64 {
        self.lost.iter().filter(|(tid, _)| self.times(**tid) < ENOUGH).map(|(_, lost)| lost).sum()
    }

    fn blocks(&self) -> Vec<BlockSeen> {
        let mut blocks = BTreeMap::<u64, (Nanos, BlockSeen)>::new();
        let touches = self.seen.iter();
        for (tid, of) in touches.flat_map(|(tid, of)| of.iter().map(move |of| (tid, of))) {
            let index = of.block();
            let new = || (of.at, BlockSeen { index, on: of.on, by: BTreeMap::new() });
            let (latest, block) = blocks.entry(index).or_insert_with(new);
            block.by.insert(*tid, of.times);
            if of.at > *latest {
                (*latest, block.on) = (of.at, of.on);
            }
        }
        let mut blocks: Vec<_> = blocks.into_values().map(|(_, block)| block).collect();
        if blocks.len() > BLOCKS_MAX {
            blocks.sort_by_key(|block| std::cmp::Reverse(block.by.values().sum::<u64>()));
            blocks.truncate(BLOCKS_MAX);
            blocks.sort_by_key(|block| block.index);
        }
        blocks
    }
}

/// Resident pages that are no file's and nobody else's: field 2 of proc(5) `statm` without field 3.
fn own_pages(ask: &mut Ask<'_>) -> Option<u64> {
    let text = ask.files.read(&format!("proc/{}/statm", ask.pid)).ok()??;
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace().skip(1);
    let (resident, shared): (u64, u64) =
        (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    resident.checked_sub(shared)
}

#[cfg(test)]
mod tests;
