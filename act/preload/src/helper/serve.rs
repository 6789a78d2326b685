//! The helper's loop: messages of the kernel, requests of the program, the program's end.

use std::sync::atomic::Ordering;

use quartier_session::{Counter, Rung};
use syscalls::{Sysno, syscall};

use super::Orders;
use super::changes::Removed;
use super::fences::Fences;
use super::history::History;
use super::letterbox::{BOX, Request};
use super::look::{self, Statm};
use super::mates;
use super::moves::{MESSAGES_MAX, REGIONS_PER_MESSAGE};
use super::pull::Served;
use super::regions::Regions;
use super::room::Room;
use super::rounds::{Rounds, Seen};
use super::station::Station;
use crate::device::Guard;
use crate::mappings::Mappings;
use crate::pagemap::Pagemap;
use crate::runtime::{self, Runtime};
use crate::sys::{self, PAGE, SysResult};
use crate::uffd::{MESSAGE_BYTES, Message, Uffd};

/// Touches that may wait while the program changes its mappings. More are woken to try again.
const WAITING_MAX: usize = 4096;

/// The helper at work.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) orders: Orders,
    pub(super) rung: Rung,
    pub(super) uffd: Uffd,
    pub(super) pagemap: Pagemap,
    pub(super) mappings: Mappings,
    pub(super) regions: Regions,
    pub(super) bell: Uffd,
    pub(super) program_pid: i32,
    pub(super) program_pidfd: i32,
    pub(super) station: Station,
    pub(super) history: History,
    pub(super) fences: Fences,
    /// Time spent on touches that moved something.
    pub(super) moving_nanos: u64,
    rounds: Rounds,
    statm: Statm,
    pub(super) removed: Removed,
    /// Since when pages are being taken out into a shadow, which is registered as long.
    pub(super) taking_since: Option<u64>,
    /// Changes of the program's mappings read so far.
    pub(super) nr_events: u64,
    /// Whether the program moved something past us: from then on nothing is ours.
    pub(super) has_moved: bool,
    pub(super) has_let_go: bool,
    /// As of the last marking.
    pub(super) room: Room,
    /// Threads that help with long copies.
    pub(super) nr_mates: usize,
    guard: Guard,
    waiting: Waiting,
}

/// Touches not yet served: a fixed queue.
#[derive(Debug)]
struct Waiting {
    touches: [(usize, i32); WAITING_MAX],
    len: usize,
}

impl Server {
    pub(super) fn new(
        orders: Orders,
        rung: Rung,
        (uffd, bell): (Uffd, Uffd),
        (program_pid, program_pidfd): (i32, i32),
    ) -> SysResult<Self> {
        Ok(Self {
            orders,
            rung,
            uffd,
            pagemap: Pagemap::open()?,
            mappings: Mappings::open()?,
            regions: Regions::new()?,
            bell,
            program_pid,
            program_pidfd,
            station: Station::default(),
            history: History::new(orders.block_bytes)?,
            fences: Fences::new(),
            moving_nanos: 0,
            rounds: Rounds::new(orders.remark_ms_first, orders.remark_ms_max),
            statm: Statm::open()?,
            removed: Removed::default(),
            taking_since: None,
            nr_events: 0,
            has_moved: false,
            has_let_go: false,
            room: Room::default(),
            nr_mates: if rung == Rung::Move { mates::start(mates::wanted()) } else { 0 },
            // On the other rung the helper holds nothing.
            guard: if rung == Rung::Move {
                Guard::ask(uffd, program_pid as u32)
            } else {
                Guard::none()
            },
            waiting: Waiting { touches: [(0, 0); WAITING_MAX], len: 0 },
        })
    }

    /// Serves until the program is gone, or nothing is marked for a while.
    pub(super) fn run(&mut self) {
        self.serve();
        if !sys::has_ended(self.program_pidfd) {
            // Nothing of the program may be left with us, whatever made us go.
            self.give_back(0, usize::MAX);
        }
    }

    /// Tells the launcher that nothing is held any more.
    pub(super) fn say_goodbye(&self) {
        self.guard.goodbye();
    }

    fn serve(&mut self) {
        let mut looked = sys::now_nanos();
        let mut at_work = looked;
        let patience_nanos = u64::from(self.orders.idle_ms) * 1_000_000;
        loop {
            let [program, bell, messages] = self.wait();
            if program {
                return;
            }
            if messages {
                self.read_messages();
            }
            self.settle();
            if self.has_moved {
                self.let_go();
            }
            self.serve_waiting();
            let now = sys::now_nanos();
            let tick = now.saturating_sub(looked) >= self.tick_nanos();
            // Whoever waits for an answer must not depend on a ring alone.
            if bell || tick && BOX.request().is_some() {
                self.answer();
            }
            if messages || bell || self.regions.len() > 0 || self.may_mark_again() {
                at_work = now;
            } else if now.saturating_sub(at_work) >= patience_nanos {
                self.lift_fences(0, usize::MAX);
                if BOX.close() {
                    return;
                }
            }
            if tick {
                looked = now;
                if self.program_left() {
                    return;
                }
                self.yield_to_tracer();
                self.put_up_fences();
                self.mark_if_due(now);
            }
        }
    }

    fn tick_nanos(&self) -> u64 {
        let round = self.rounds.ask_within_nanos().filter(|_| self.may_mark_again());
        let tick = u64::from(self.orders.tick_ms) * 1_000_000;
        tick.min(round.unwrap_or(tick))
    }

    /// A debugger reads a stopped program in a way that cannot wait for us (`PTRACE_PEEKDATA` gets
    /// `EIO`), so everything is given back to a program that is traced.
    fn yield_to_tracer(&mut self) {
        if self.regions.len() > 0 && look::is_traced() {
            self.give_back(0, usize::MAX);
        }
    }

    /// Whether there may be a round of marking: see `rounds`.
    fn may_mark_again(&self) -> bool {
        self.rounds.are_wanted() && runtime::get().is_some_and(Runtime::may_mark_again)
    }

    fn mark_if_due(&mut self, now_nanos: u64) {
        if !self.may_mark_again() || !self.rounds.may_be_due(now_nanos, self.statm.resident_pages())
        {
            return;
        }
        let seen = self.seen();
        if self.rounds.is_affordable(seen)
            && !BOX.is_held()
            && !look::is_traced()
            && look::knows_all_threads()
            && self.rounds.is_due(seen)
        {
            self.mark(0, usize::MAX);
        }
    }

    fn seen(&self) -> Seen {
        Seen {
            now_nanos: sys::now_nanos(),
            program_cpu_nanos: sys::cpu_nanos_of(self.program_pid).unwrap_or(0),
            helper_cpu_nanos: sys::cpu_nanos_of(sys::pid())
                .unwrap_or(0)
                .saturating_sub(self.moving_nanos),
        }
    }

    /// Waits for the program's end, the doorbell or a message; all `false` when there is nothing for
    /// a tick, or for as long as the helper stays without work.
    fn wait(&mut self) -> [bool; 3] {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [poll(self.program_pidfd), poll(self.bell.0), poll(self.uffd.0)];
        // Touches that wait for events must be tried again soon, and what has moved be put in its place.
        let timeout = if self.waiting.len > 0 || !self.regions.are_settled() {
            1
        } else {
            (self.tick_nanos() / 1_000_000).clamp(1, u64::from(self.orders.idle_ms).max(1)) as i32
        };
        // SAFETY: three entries, as said.
        let _ = unsafe { syscall!(Sysno::poll, fds.as_mut_ptr(), fds.len(), timeout) };
        fds.map(|fd| fd.revents != 0)
    }

    /// Whether the program has replaced itself (`exec`): then its old memory is only ours. The first
    /// thread alone does not tell: it may have ended before the others.
    fn program_left(&self) -> bool {
        sys::same_memory(self.program_pid, sys::pid()) == Some(false)
            && !look::any_thread(|tid| sys::same_memory(tid, sys::pid()) != Some(false))
    }

    /// Reads what the kernel has to say. Events are handled at once, because the program goes on as
    /// soon as they are read; touches queue up behind them.
    pub(super) fn read_messages(&mut self) {
        while let Some(message) = self.next_message() {
            self.take(message);
        }
    }

    /// One message, because whoever changed the mappings goes on when his is read: see `first_move`.
    pub(super) fn next_message(&mut self) -> Option<Message> {
        let mut message = [0u8; MESSAGE_BYTES];
        if !self.room_for_messages() {
            return None;
        }
        let bytes = sys::read(self.uffd.0, &mut message).ok()?;
        (bytes == MESSAGE_BYTES).then(|| Message::parse(&message))
    }

    /// Waits until the table has room for what messages may bring. What is not read waits
    /// in the kernel, and the program with it, which is better than data that nobody can find.
    fn room_for_messages(&mut self) -> bool {
        while self.regions.make_room(MESSAGES_MAX * REGIONS_PER_MESSAGE).is_err() {
            if sys::has_ended(self.program_pidfd) {
                return false;
            }
            sys::sleep_micros(1000);
        }
        true
    }

    pub(super) fn take(&mut self, message: Message) {
        if !matches!(message, Message::Touch { .. }) {
            self.nr_events += 1;
        }
        match message {
            Message::Touch { address, tid } => {
                if self.waiting.len < WAITING_MAX {
                    self.waiting.touches[self.waiting.len] = (address, tid);
                    self.waiting.len += 1;
                } else {
                    self.uffd.wake(address, PAGE);
                }
            }
            Message::Fork { uffd } => self.serve_child(Uffd(uffd)),
            Message::Remap { from, to, len } if self.has_moved => self.moved(from, to, len),
            Message::Remap { from, to, len } => self.first_move(from, to, len),
            Message::Remove { start, end } => self.forget_data(start, end),
            Message::Unmap { start, end } => self.unmapped(start, end),
            Message::Unknown => {}
        }
    }

    fn serve_waiting(&mut self) {
        let count = self.waiting.len;
        let mut left = 0;
        for index in 0..count {
            let (address, tid) = self.waiting.touches[index];
            if self.serve_touch(address, tid) == Served::AfterEvents {
                self.waiting.touches[left] = (address, tid);
                left += 1;
            }
        }
        // Serving may have read more messages: they queue up behind those that are left.
        let len = self.waiting.len;
        self.waiting.touches.copy_within(count..len, left);
        self.waiting.len = left + len - count;
    }

    /// Arms the doorbell again, then answers the request. In this order: who rings has put the request
    /// in the letter box first, so none is missed, and nobody rings before the last one is answered.
    fn answer(&mut self) {
        self.arm_doorbell();
        let Some((request, start, end)) = BOX.request() else { return };
        match request {
            Request::MarkAll | Request::MarkRange => {
                let may_mark = may_mark_now();
                if may_mark {
                    self.forget_touches(start, end);
                    if request == Request::MarkRange {
                        self.history.areas.take_for_plain(start, end);
                    }
                    self.mark(start, end);
                }
                if request == Request::MarkAll {
                    self.rounds.begin(self.seen(), self.statm.resident_pages());
                }
                BOX.answer(may_mark);
            }
            Request::GiveBack => {
                self.give_back(start, end);
                BOX.answer(true);
            }
            Request::LiftFences => {
                self.lift_fences(start, end);
                BOX.answer(true);
            }
        }
    }

    /// Whoever touched `[start, end)` until now, others may from now on.
    fn forget_touches(&mut self, start: usize, end: usize) {
        self.history.forget(start, end);
        self.lift_fences(start, end);
    }

    /// Lets the thread that rings go on, and takes the doorbell page away again once it has.
    fn arm_doorbell(&mut self) {
        let mut message = [0u8; MESSAGE_BYTES];
        let _ = sys::read(self.bell.0, &mut message);
        let doorbell = BOX.doorbell.load(Ordering::Relaxed);
        // SAFETY: the doorbell page is ours and holds nothing.
        let _ = unsafe { self.bell.zero(doorbell, PAGE) };
        BOX.wait_for_ringer();
        // SAFETY: as above; the bell has no events, so this does not wait for us.
        let _ = unsafe { sys::madvise(doorbell, PAGE, libc::MADV_DONTNEED) };
    }

    /// Puts the data of all regions that overlap a range back, and ends their marking.
    pub(super) fn give_back(&mut self, start: usize, end: usize) {
        self.lift_fences(start, end);
        loop {
            while !self.settle_by_reading() {
                if sys::has_ended(self.program_pidfd) {
                    return;
                }
            }
            let Some(at) = self.regions.first_in(start, end) else { return };
            let nr_pending = self.regions.all()[at].recount(self.orders.block_bytes);
            self.orders.slot.add(Counter::BlocksGivenBack, nr_pending as u64);
            self.finish(at);
        }
    }
}

/// Whether anything may be marked, asked by the helper when it is about to. A thread that found no helper
/// ready to be asked for its data had held marking, or ended it, before this helper was ready.
fn may_mark_now() -> bool {
    !BOX.is_held() && runtime::get().is_some_and(Runtime::moves_pages)
}
