//! A CPU: its TLBs and private caches, and the path of an access through them.

mod account;
mod miss;

use std::sync::Arc;

use crate::address::Walk;
use crate::cost::{Clock, millicycles};
use crate::geometry::WritePolicy;
use crate::kinds::{Access, Event, Kind, Mode, Owner};
use crate::meter::{Meter, NR_PLANES, UNCOUNTED};
use crate::system::{Near, Sets, System};
use crate::tags::{Level, Recent, State};
use crate::tlb::{Page, Tlb};

/// Address spaces are told apart by this.
pub type Asid = u64;

/// A CPU of a [`System`], fed by one thread at a time.
///
/// A new CPU is in address space 0, and counts nothing until [`attribute`](Self::attribute) says on
/// whose account.
#[derive(Debug)]
pub struct Cpu {
    system: Arc<System>,
    meter: Arc<Meter>,
    index: u16,
    node: u16,
    /// On whose account counts go: an owner's plane, or the uncounted one.
    plane: usize,
    sample: Sample,
    /// Accesses that were left out and not counted yet.
    nr_left_out: u64,
    space: Asid,
    line_shift: u32,
    writes_back: bool,
    sets: Sets,
    near: Near,
    dtlb: Tlb,
    itlb: Tlb,
    second_tlb: Option<Tlb>,
    l1i: Level,
    l1d: Level,
    l2: Option<Level>,
    recent_code: Recent,
    recent_data: Recent,
    clock: Clock,
    handover: Option<Handover>,
    /// The node that the last access of data asked for a line.
    asked: Option<u16>,
}

/// A line that was another CPU's: it had written it since, or had a copy that a write makes void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The line's first byte in physical memory.
    pub line: u64,
    /// Whose it was: of several one.
    pub from: u16,
}

/// What the access that is under way stands for, where sets are sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// So many accesses in all that depends on what else is in its set: none in a set that is left out.
    pub(crate) of_set: u32,
    /// And so many in all else.
    pub(crate) weight: u32,
    /// It is modelled in every set, so that it stands for itself where its set does not matter.
    pub(crate) is_everywhere: bool,
}

/// Which first level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Instruction,
    Data,
}

impl Cpu {
    pub(crate) fn new(system: &Arc<System>, index: usize) -> Self {
        let geometry = system.geometry();
        let tags = &system.private[index];
        let node = system.layout.node_of_cpu[index];
        Self {
            meter: Arc::clone(&system.meters[index]),
            index: index as u16,
            node,
            plane: UNCOUNTED,
            sample: Sample::default(),
            nr_left_out: 0,
            space: 0,
            line_shift: geometry.line_shift(),
            writes_back: geometry.l1d.write == WritePolicy::Back,
            sets: system.sets,
            near: Near::new(system.sets, geometry.line_shift()),
            itlb: Tlb::new(&geometry.itlb),
            dtlb: Tlb::new(&geometry.dtlb),
            second_tlb: geometry.second_tlb.map(Tlb::unified),
            l1i: Level::new(tags.l1i.clone()),
            l1d: Level::new(tags.l1d.clone()),
            l2: tags.l2.as_ref().map(|l2| Level::new(l2.clone())),
            recent_code: Recent::new(),
            recent_data: Recent::new(),
            clock: Clock::new(system),
            handover: None,
            asked: None,
            system: Arc::clone(system),
        }
    }

    /// On whose account counts go from now on; `None` counts nothing. Caches are kept warm either way.
    #[inline]
    pub fn attribute(&mut self, owner: Option<Owner>) {
        let nr_left_out = std::mem::take(&mut self.nr_left_out);
        self.meter.count(self.plane, Event::DataAccesses, nr_left_out);
        self.plane = owner.map_or(UNCOUNTED, |owner| owner as usize);
    }

    /// One instruction is fetched and retired, from the line of its first byte.
    #[inline]
    pub fn fetch(&mut self, vaddr: u64, mode: Mode, walker: &mut impl Walk) {
        self.fetch_block(vaddr, 1, 1, mode, walker);
    }

    /// A block of as many bytes and instructions is fetched and retired, each line once.
    #[inline]
    pub fn fetch_block(
        &mut self,
        vaddr: u64,
        bytes: u32,
        nr_instructions: u32,
        mode: Mode,
        walker: &mut impl Walk,
    ) {
        self.retire(nr_instructions);
        if is_within_line(vaddr, bytes, self.line_shift) {
            return self.fetch_line(vaddr, mode, walker);
        }
        for vaddr in lines(vaddr, bytes, self.line_shift) {
            self.fetch_line(vaddr, mode, walker);
        }
    }

    /// Instructions are retired that were fetched otherwise.
    #[inline]
    pub fn retire(&mut self, nr_instructions: u32) {
        self.meter.count(self.plane, Event::Instructions, u64::from(nr_instructions));
    }

    /// Data is accessed; what crosses the end of a line or page is an access to each.
    #[inline]
    pub fn data(
        &mut self,
        vaddr: u64,
        bytes: u32,
        access: Access,
        mode: Mode,
        walker: &mut impl Walk,
    ) {
        if is_within_line(vaddr, bytes, self.line_shift) {
            return self.data_line(vaddr, access, mode, walker);
        }
        for vaddr in lines(vaddr, bytes, self.line_shift) {
            self.data_line(vaddr, access, mode, walker);
        }
    }

    /// What the last access of data took from another CPU, if anything, once.
    #[inline]
    pub fn take_handover(&mut self) -> Option<Handover> {
        self.handover.take()
    }

    /// The node that the last access of data asked for a line or for the right to write it, if it asked any, once: its caches did
    /// not serve it, nor the last level on its own side, where there is one.
    #[inline]
    pub fn take_asked(&mut self) -> Option<u16> {
        self.asked.take()
    }

    /// The node that it is on.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// The cycles that accesses of this CPU have stalled it for so far, counted or not, in thousandths. An
    /// access's own are the difference.
    #[must_use]
    pub fn modelled_stall_millicycles(&self) -> u64 {
        (0..NR_PLANES).map(|plane| self.meter.event(plane, Event::ModelledStallMillicycles)).sum()
    }

    /// Modelled cycles of this CPU so far, counted or not: of instructions and stalls.
    #[must_use]
    pub fn modelled_cycles(&self) -> u64 {
        let instructions: u64 =
            (0..NR_PLANES).map(|plane| self.meter.event(plane, Event::Instructions)).sum();
        let per_instruction = millicycles(self.system.geometry.cost.cycles_per_instruction);
        (instructions * per_instruction + self.modelled_stall_millicycles()) / 1000
    }

    /// The physical address of data, if its page is in the first TLB: there it is after an access.
    #[must_use]
    pub fn translation(&self, vaddr: u64) -> Option<u64> {
        self.dtlb.peek(vaddr, self.space)
    }

    /// Forgets every translation, of all address spaces.
    pub fn flush_all(&mut self) {
        self.each_tlb(|tlb| tlb.flush(|_, _| false));
    }

    /// Forgets the translation of an address in the current address space, and a global one.
    pub fn flush_page(&mut self, vaddr: u64) {
        let space = self.space;
        self.each_tlb(|tlb| tlb.flush_page(vaddr, space));
    }

    /// Goes to another address space. `keep`: what is known of spaces stays, to be valid when they
    /// come back (PCID); otherwise only global translations stay.
    pub fn switch_space(&mut self, asid: Asid, keep: bool) {
        self.space = asid;
        self.each_tlb(Tlb::change_space);
        if !keep {
            self.each_tlb(|tlb| tlb.flush(|_, is_global| is_global));
        }
    }

    /// Bytes of host memory that this CPU takes: caches, TLBs and tallies, without its counters.
    #[must_use]
    pub fn nr_bytes(&self) -> usize {
        let second = self.second_tlb.as_ref().map_or(0, Tlb::nr_bytes);
        let l2 = self.l2.as_ref().map_or(0, Level::nr_bytes);
        let first = self.l1i.nr_bytes() + self.l1d.nr_bytes();
        let recent = 2 * Recent::NR_BYTES;
        let tlbs = self.itlb.nr_bytes() + self.dtlb.nr_bytes() + second;
        tlbs + l2 + first + recent + self.clock.nr_bytes()
    }

    fn each_tlb(&mut self, mut f: impl FnMut(&mut Tlb)) {
        self.recent_code.forget();
        self.recent_data.forget();
        f(&mut self.itlb);
        f(&mut self.dtlb);
        if let Some(second) = &mut self.second_tlb {
            f(second);
        }
    }

    /// Whether an access of data, of up to 16 bytes, changes nothing that is modelled: its set is left out,
    /// and its page was the last used of its TLB's. To be asked first, as it is most of
    /// a sampled run's cost.
    #[inline]
    #[must_use]
    pub fn leaves_out(&mut self, vaddr: u64, access: Access) -> bool {
        let is_left_out = !self.near.has(vaddr)
            && self.dtlb.is_latest(vaddr)
            && !self.is_everywhere(vaddr, access);
        self.nr_left_out += u64::from(is_left_out);
        is_left_out
    }

    /// Whether an access is modelled in every set: it is of a line of the kernel that CPUs take from each
    /// other, of which a sample would have too many or none; or it is one of the kernel's that goes
    /// to its home whatever the set.
    #[inline]
    fn is_everywhere(&self, vaddr: u64, access: Access) -> bool {
        let is_kernels = vaddr >> 63 != 0;
        let is_written = access != Access::Load;
        is_kernels
            && self.sets.one_in > 1
            && (self.system.contended.note(vaddr >> self.line_shift, self.index, is_written)
                || is_written && !self.writes_back)
    }

    /// Counts an access of data, and those that were left out before it.
    #[inline]
    fn count_data(&mut self) {
        let nr = 1 + std::mem::take(&mut self.nr_left_out);
        self.meter.count(self.plane, Event::DataAccesses, nr);
    }

    #[inline]
    fn fetch_line(&mut self, vaddr: u64, mode: Mode, walker: &mut impl Walk) {
        if !self.sets.are_modelled(vaddr >> self.line_shift) && self.itlb.is_latest(vaddr) {
            return;
        }
        let vline = vaddr >> self.line_shift;
        if self.itlb.uses(vaddr, self.space)
            && self.l1i.touch_recent(&self.recent_code, vline, false)
        {
            return self.meter.count(self.plane, Event::Fetches, u64::from(self.sets.one_in));
        }
        let paddr = match self.itlb.translate(vaddr, self.space) {
            Some(paddr) => paddr,
            None => match self.miss_tlb(vaddr, First::Instruction, walker) {
                Some(paddr) => paddr,
                None => return,
            },
        };
        let line = paddr >> self.line_shift;
        if !self.sets.are_modelled(line) {
            return;
        }
        self.sample = self.sets.sample(line, false);
        self.count(Event::Fetches, 1);
        match self.l1i.touch(line) {
            Some((_, state)) => self.l1i.note(&mut self.recent_code, vline, line, state),
            None => self.miss(First::Instruction, line, Kind::Instruction, mode.class()),
        }
    }

    #[inline]
    fn data_line(&mut self, vaddr: u64, access: Access, mode: Mode, walker: &mut impl Walk) {
        let vline = vaddr >> self.line_shift;
        let is_modelled = self.sets.are_modelled(vline);
        let is_everywhere = self.is_everywhere(vaddr, access);
        if !is_modelled && !is_everywhere && self.dtlb.is_latest(vaddr) {
            return self.count_data();
        }
        if self.dtlb.uses(vaddr, self.space)
            && self.l1d.touch_recent(&self.recent_data, vline, access != Access::Load)
        {
            return self.count_data();
        }
        let paddr = match self.dtlb.translate(vaddr, self.space) {
            Some(paddr) => paddr,
            None => match self.miss_tlb(vaddr, First::Data, walker) {
                Some(paddr) => paddr,
                None => return,
            },
        };
        let line = paddr >> self.line_shift;
        self.count_data();
        if !is_modelled && !is_everywhere {
            return;
        }
        self.sample = self.sets.sample(line, is_everywhere);
        let hit = self.l1d.touch(line);
        match (access, hit) {
            (Access::Load, Some((_, state))) | (_, Some((_, state @ State::Modified))) => {
                self.l1d.note(&mut self.recent_data, vline, line, state);
            }
            (Access::Load, None) => self.miss(First::Data, line, Kind::Read, mode.class()),
            (Access::Store, _) => self.write(line, hit, Kind::Write, mode.class()),
            (Access::Atomic, _) => self.write(line, hit, Kind::Atomic, mode.class()),
        }
    }

    #[cold]
    fn miss_tlb(&mut self, vaddr: u64, side: First, walker: &mut impl Walk) -> Option<u64> {
        let (miss, walk, kind) = match side {
            First::Instruction => (Event::ItlbMisses, Event::ItlbWalks, Kind::InstructionTlb),
            First::Data => (Event::DtlbMisses, Event::DtlbWalks, Kind::DataTlb),
        };
        self.meter.count(self.plane, miss, 1);
        let space = self.space;
        if let Some(page) = self.second_tlb.as_mut().and_then(|tlb| tlb.find(vaddr, space)) {
            self.meter.count(self.plane, Event::SecondTlbHits, 1);
            let cycles = self.system.geometry.cost.second_tlb_cycles;
            self.stall(u64::from(cycles) * 1000);
            self.first_tlb(side).put(vaddr, space, page);
            return Some(page.translate(vaddr));
        }
        self.meter.count(self.plane, walk, 1);
        let Some(translation) = walker.walk(vaddr) else {
            self.meter.count(self.plane, Event::Untranslated, 1);
            return None;
        };
        for &entry in translation.reads() {
            self.read_table(entry, kind);
        }
        let page = Page::of(&translation, vaddr);
        if let Some(second) = &mut self.second_tlb {
            second.put(vaddr, space, page);
        }
        self.first_tlb(side).put(vaddr, space, page);
        Some(page.translate(vaddr))
    }

    fn first_tlb(&mut self, side: First) -> &mut Tlb {
        match side {
            First::Instruction => &mut self.itlb,
            First::Data => &mut self.dtlb,
        }
    }
}

#[inline]
fn is_within_line(vaddr: u64, bytes: u32, line_shift: u32) -> bool {
    let within = vaddr & ((1 << line_shift) - 1);
    within + u64::from(bytes) <= 1 << line_shift
}

/// The first byte of an access in each line that it touches.
fn lines(vaddr: u64, bytes: u32, line_shift: u32) -> impl Iterator<Item = u64> {
    let mut next = Some((vaddr, u64::from(bytes.max(1))));
    std::iter::from_fn(move || {
        let (at, left) = next?;
        let in_line = (1 << line_shift) - (at & ((1 << line_shift) - 1));
        next = (left > in_line).then(|| (at.wrapping_add(in_line), left - in_line));
        Some(at)
    })
}
