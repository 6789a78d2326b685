//! The helper's loop: messages of the kernel, requests of the program, the program's end.

use std::sync::atomic::Ordering;

use quartier_session::{Counter, Rung};
use syscalls::{Errno, Sysno, syscall};

use super::pull::Served;
use super::regions::Regions;
use super::{
    CONTROL, Orders, REQUEST_GIVE_BACK, REQUEST_MARK_ALL, REQUEST_MARK_RANGE, REQUEST_NONE,
};
use crate::device::Guard;
use crate::maps;
use crate::pagemap::Pagemap;
use crate::sys::{self, PAGE, SysResult};
use crate::text::Writer;
use crate::uffd::{self, MESSAGE_BYTES, Message, Uffd};

/// Messages read at a time.
const BATCH: usize = 64;

/// Touches that may wait while the program changes its mappings. More are woken to try again.
const WAITING_MAX: usize = 4096;

/// How often the helper looks whether the program has executed another one.
const TICK_MS: i32 = 200;

/// Ticks without a marked range after which the helper goes home.
const IDLE_TICKS: u32 = 5;

/// The helper at work.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) orders: Orders,
    pub(super) rung: Rung,
    pub(super) uffd: Uffd,
    pub(super) pagemap: Pagemap,
    pub(super) regions: Regions,
    pub(super) bell: Uffd,
    pub(super) program_pid: i32,
    pub(super) program_pidfd: i32,
    pub(super) preferred: Option<u32>,
    pub(super) removed: Removed,
    /// Since when pages are being taken out into a shadow, which is registered as long.
    pub(super) taking_since: Option<u64>,
    /// Changes of the program's mappings read so far.
    pub(super) nr_events: u64,
    guard: Guard,
    waiting: Waiting,
}

/// Ranges whose data the program has just dropped. The kernel tells us *before* it drops the pages,
/// so for a moment they are still there: taken out then, they would come back later as they were.
#[derive(Debug, Default)]
pub(super) struct Removed {
    ranges: [(usize, usize, u64); REMOVED_MAX],
    next: usize,
}

/// How often a range is tried again while the program is changing its mappings.
pub(super) const CHANGE_TRIES: usize = 10_000;

/// How often a registration is ended anew because the program changed its mappings meanwhile. After
/// that it stays: touches there are slow, but right.
const UNREGISTER_TRIES: usize = 16;

/// Removals remembered. More at one time than a program has threads that drop data cannot be.
const REMOVED_MAX: usize = 32;

/// How long a removal is remembered: far longer than the kernel takes for it.
const REMOVAL_NANOS: u64 = 1_000_000_000;

impl Removed {
    fn note(&mut self, start: usize, end: usize) {
        self.ranges[self.next] = (start, end, sys::now_nanos());
        self.next = (self.next + 1) % REMOVED_MAX;
    }

    /// The lowest remembered range that overlaps `[start, end)`.
    pub(super) fn overlapping(
        &self,
        start: usize,
        end: usize,
        taking_since: Option<u64>,
    ) -> Option<(usize, usize)> {
        let now = sys::now_nanos();
        let fresh = |at: u64| {
            now.saturating_sub(at) < REMOVAL_NANOS || taking_since.is_some_and(|since| at >= since)
        };
        self.ranges
            .iter()
            .filter(|(first, last, at)| *first < end && start < *last && fresh(*at))
            .map(|(first, last, _)| (*first, *last))
            .min()
    }
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
            regions: Regions::new()?,
            bell,
            program_pid,
            program_pidfd,
            preferred: None,
            removed: Removed::default(),
            taking_since: None,
            nr_events: 0,
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
        self.guard.goodbye();
    }

    fn serve(&mut self) {
        let mut idle_ticks = 0;
        loop {
            let [program, bell, messages] = self.wait();
            if program {
                return;
            }
            if messages {
                self.read_messages();
            }
            self.serve_waiting();
            if bell {
                self.answer();
            }
            if !(messages || bell) {
                if self.program_left() {
                    return;
                }
                idle_ticks = if self.regions.len() == 0 { idle_ticks + 1 } else { 0 };
                if idle_ticks > IDLE_TICKS && self.close_shop() {
                    return;
                }
            }
        }
    }

    /// Waits for the program's end, the doorbell or a message; all `false` after a tick.
    fn wait(&mut self) -> [bool; 3] {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [poll(self.program_pidfd), poll(self.bell.0), poll(self.uffd.0)];
        // Touches that wait for events must be tried again soon.
        let timeout = if self.waiting.len > 0 { 1 } else { TICK_MS };
        // SAFETY: three entries, as said.
        let _ = unsafe { syscall!(Sysno::poll, fds.as_mut_ptr(), fds.len(), timeout) };
        fds.map(|fd| fd.revents != 0)
    }

    /// Whether the program has replaced itself (`exec`): then its old memory is only ours.
    fn program_left(&self) -> bool {
        sys::same_memory(self.program_pid, sys::pid()) == Some(false)
    }

    /// Closes the letter box, unless a request is in it.
    fn close_shop(&mut self) -> bool {
        CONTROL.state.store(super::STATE_NONE, Ordering::SeqCst);
        if CONTROL.request.load(Ordering::SeqCst) != REQUEST_NONE {
            CONTROL.state.store(super::STATE_READY, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Reads what the kernel has to say. Events are handled at once, because the program goes on as
    /// soon as they are read; touches queue up behind them.
    pub(super) fn read_messages(&mut self) {
        let mut buffer = [0u8; BATCH * MESSAGE_BYTES];
        while let Ok(count) = sys::read(self.uffd.0, &mut buffer) {
            for bytes in buffer[..count].chunks_exact(MESSAGE_BYTES) {
                let mut message = [0; MESSAGE_BYTES];
                message.copy_from_slice(bytes);
                self.take(Message::parse(&message));
            }
            if count < buffer.len() {
                return;
            }
        }
    }

    fn take(&mut self, message: Message) {
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
            Message::Remap { from, to, len } => self.regions.moved(from, to, len),
            Message::Remove { start, end } => self.forget_data(start, end),
            Message::Unmap { start, end } => self.forget_range(start, end),
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
        let (start, end) =
            (CONTROL.start.load(Ordering::Relaxed), CONTROL.end.load(Ordering::Relaxed));
        match CONTROL.request.load(Ordering::SeqCst) {
            REQUEST_MARK_ALL | REQUEST_MARK_RANGE => self.mark(start, end),
            REQUEST_GIVE_BACK => self.give_back(start, end),
            _ => return,
        }
        CONTROL.request.store(REQUEST_NONE, Ordering::SeqCst);
        sys::futex_wake(&CONTROL.request);
    }

    /// Lets the thread that rings go on, and takes the doorbell page away again once it has.
    fn arm_doorbell(&mut self) {
        let mut message = [0u8; MESSAGE_BYTES];
        let _ = sys::read(self.bell.0, &mut message);
        let doorbell = CONTROL.doorbell.load(Ordering::Relaxed);
        // SAFETY: the doorbell page is ours and holds nothing.
        let _ = unsafe { self.bell.zero(doorbell, PAGE) };
        while CONTROL.ringing.load(Ordering::SeqCst) != 0 && !sys::has_ended(self.program_pidfd) {
            sys::futex_wait(&CONTROL.ringing, 1, 10);
        }
        // SAFETY: as above; the bell has no events, so this does not wait for us.
        let _ = unsafe { sys::madvise(doorbell, PAGE, libc::MADV_DONTNEED) };
    }

    /// Puts the data of all regions that overlap a range back, and ends their marking.
    pub(super) fn give_back(&mut self, start: usize, end: usize) {
        loop {
            let at = self.regions.first_after(start);
            let Some(region) = self.regions.all().get(at).filter(|region| region.start < end)
            else {
                return;
            };
            self.orders.slot.add(Counter::BlocksGivenBack, region.nr_pending as u64);
            self.finish(at);
        }
    }

    /// Ends a region: whatever is left of it goes back to its place.
    pub(super) fn finish(&mut self, at: usize) {
        let start = self.regions.all()[at].start;
        if self.rung == Rung::Move && !self.empty_shadow(start) {
            return;
        }
        let Some(at) = self.regions.find(start) else { return };
        let region = self.regions.remove(at);
        self.unregister(region.start, region.end);
        region.free(self.uffd);
    }

    /// Ends the registration of a range whose data is back, but for what lies in a region: the program
    /// may have moved another marked range there. If it is about to, which we learn only when we read
    /// it, the registration is put back at once: nobody may touch the new place before we have read.
    pub(super) fn unregister(&mut self, start: usize, end: usize) {
        for _ in 0..UNREGISTER_TRIES {
            self.read_changes();
            self.for_each_gap(start, end, Self::unregister_gap);
            if self.rung != Rung::Move || !self.uffd.mappings_changing() {
                return;
            }
            self.for_each_gap(start, end, Self::register_gap);
        }
    }

    /// Reads what the program changes, until it has gone on.
    fn read_changes(&mut self) {
        for _ in 0..CHANGE_TRIES {
            if self.rung != Rung::Move || !self.uffd.mappings_changing() {
                return;
            }
            self.read_messages();
            sys::sleep_micros(20);
        }
    }

    /// The parts of a range where no region lies.
    fn for_each_gap(
        &mut self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(&Self, usize, usize),
    ) {
        let mut from = start;
        while from < end {
            let at = self.regions.first_after(from);
            let region = self.regions.all().get(at).map(|region| (region.start, region.end));
            let (next, after) =
                region.map_or((end, end), |(first, last)| (first.clamp(from, end), last));
            if from < next {
                visit(self, from, next);
            }
            from = after.max(next);
        }
    }

    fn register_gap(&self, start: usize, end: usize) {
        let _ = maps::for_each(|mapping| {
            let (first, last) = (mapping.start.max(start), mapping.end.min(end));
            if first < last && mapping.private_data {
                let _ = self.uffd.register(first, last - first, uffd::MODE_MISSING);
            }
            mapping.start < end
        });
    }

    /// Mapping by mapping where the program has put something else into the range meanwhile.
    fn unregister_gap(&self, start: usize, end: usize) {
        // SAFETY: no region lies here, so nothing that was taken out belongs here.
        if unsafe { self.uffd.unregister(start, end - start) }.is_ok() {
            return;
        }
        let _ = maps::for_each(|mapping| {
            let (first, last) = (mapping.start.max(start), mapping.end.min(end));
            if first < last {
                // SAFETY: as above.
                let _ = unsafe { self.uffd.unregister(first, last - first) };
            }
            mapping.start < end
        });
    }

    /// Moves back what is left in a region's shadow. `false` when the region is gone.
    fn empty_shadow(&mut self, start: usize) -> bool {
        loop {
            let Some(at) = self.regions.find(start) else { return false };
            let region = self.regions.all()[at];
            let mut runs = [crate::pagemap::Run::default(); 64];
            let (first, last) = (region.shadow_of(region.start), region.shadow_of(region.end));
            match self.pagemap.scan(first, last, &mut runs) {
                Ok((0, walked)) if walked >= last => return true,
                Ok((0, _)) | Err(_) => return true,
                Ok((count, _)) => {
                    for run in &runs[..count] {
                        let (first, last) = (run.start().max(first), run.end().min(last));
                        if self.move_back(&region, first, last) == Err(Errno::EAGAIN) {
                            self.read_messages();
                            break;
                        }
                        // What could not go back has no place left in the program.
                        self.drop_shadow(first, last - first);
                    }
                }
            }
        }
    }

    /// The program drops data (`MADV_DONTNEED`, `MADV_FREE`): from now on it reads as zero.
    fn forget_data(&mut self, start: usize, end: usize) {
        if self.rung != Rung::Move {
            return;
        }
        self.removed.note(start, end);
        let mut at = self.regions.first_after(start);
        while let Some(region) = self.regions.all().get(at).copied() {
            if region.start >= end {
                break;
            }
            let (first, last) = (start.max(region.start), end.min(region.end));
            self.drop_shadow(region.shadow_of(first), last - first);
            at += 1;
        }
    }

    /// The program unmapped a range.
    fn forget_range(&mut self, start: usize, end: usize) {
        self.forget_data(start, end);
        self.regions.cut(start);
        self.regions.cut(end);
        loop {
            let at = self.regions.first_after(start);
            match self.regions.all().get(at) {
                Some(region) if region.start >= start && region.end <= end => {
                    self.regions.remove(at).free(self.uffd);
                }
                _ => return,
            }
        }
    }

    /// A child was forked past the C library: it gets a copy of all that it would miss.
    fn serve_child(&mut self, child: Uffd) {
        for at in 0..self.regions.len() {
            let region = self.regions.all()[at];
            let mut runs = [crate::pagemap::Run::default(); 64];
            let mut from = region.shadow_of(region.start);
            let last = region.shadow_of(region.end);
            while from < last {
                let Ok((count, walked)) = self.pagemap.scan(from, last, &mut runs) else { break };
                for run in &runs[..count] {
                    self.copy_to_child(
                        child,
                        region.shadow_delta,
                        run.start().max(from),
                        run.end().min(last),
                    );
                }
                if walked <= from {
                    break;
                }
                from = walked;
            }
        }
        sys::close(child.0);
    }

    fn copy_to_child(&mut self, child: Uffd, shadow_delta: usize, first: usize, last: usize) {
        let mut at = first;
        let mut whole = true;
        while at < last {
            let len = if whole { last - at } else { PAGE };
            // SAFETY: the shadow holds what the child believes is at that address.
            let (done, result) = unsafe { child.copy(at.wrapping_sub(shadow_delta), at, len) };
            at += done;
            match result {
                Ok(_) => {}
                Err(Errno::EAGAIN) if done > 0 => {}
                Err(Errno::EAGAIN) => self.read_child(child),
                Err(Errno::ESRCH) => return,
                // Several mappings, or a page that is there: page by page.
                Err(_) if whole => whole = false,
                Err(_) => at += PAGE,
            }
        }
    }

    /// The child changes its own mappings before it has all its data. Its own children are served
    /// too; what it unmaps it does not miss.
    fn read_child(&mut self, child: Uffd) {
        let mut message = [0u8; MESSAGE_BYTES];
        while sys::read(child.0, &mut message) == Ok(MESSAGE_BYTES) {
            if let Message::Fork { uffd } = Message::parse(&message) {
                self.serve_child(Uffd(uffd));
            }
        }
    }

    /// Where the kernel allocates what the helper copies.
    pub(super) fn prefer(&mut self, node: Option<u32>) {
        if self.preferred != node && sys::prefer_node(node).is_ok() {
            self.preferred = node;
        }
    }
}

/// The CPU that a thread of this process last ran on, by `/proc/PID/task/TID/stat` (field 39).
pub(super) fn last_cpu_of(tid: i32) -> Option<u32> {
    let mut path = [0u8; 64];
    let fd = sys::open(stat_path(&mut path, tid)?, libc::O_RDONLY).ok()?;
    let mut stat = [0u8; 1024];
    let count = sys::pread(fd, &mut stat, 0);
    sys::close(fd);
    cpu_of_stat(&stat[..count.ok()?])
}

fn stat_path(buffer: &mut [u8; 64], tid: i32) -> Option<&std::ffi::CStr> {
    let mut writer = Writer::new(buffer);
    writer.put(b"/proc/")?;
    writer.put_number(CONTROL.program.load(Ordering::Relaxed))?;
    writer.put(b"/task/")?;
    writer.put_number(u32::try_from(tid).ok()?)?;
    writer.put(b"/stat\0")?;
    writer.finish()
}

/// Field 39 counted from the last `)`, since a thread's name may hold anything.
fn cpu_of_stat(stat: &[u8]) -> Option<u32> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let field =
        stat[close + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(36)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_read_from_any_stat_line() {
        let mut line = String::from("12 (a) b (c)) S");
        for field in 4..=52 {
            line.push_str(&format!(" {}", if field == 39 { 5 } else { 1000 + field }));
        }
        assert_eq!(cpu_of_stat(line.as_bytes()), Some(5));
        for bad in ["", ")", "1 (x) S 2", "no parenthesis at all"] {
            assert_eq!(cpu_of_stat(bad.as_bytes()), None);
        }
    }
}
