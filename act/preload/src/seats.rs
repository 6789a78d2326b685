//! Seats of this process's threads: while we have one taken, nobody else of ours changes that thread's
//! affinity (see `quartier_session::Seat`).

use std::ffi::c_int;

use quartier_session::{Seat, Sitting, Taken};

use crate::runtime::{self, Runtime};
use crate::threads::Thread;
use crate::{Count, Place, sys};

/// So often a seat is tried again that somebody has taken: for one second or two.
const TRIES: u32 = 10_000;
const BETWEEN_TRIES_MICROS: u32 = 100;
/// Once in so many tries it is asked whether whoever took it still is there.
const TRIES_PER_LOOK: u32 = 100;

/// Seats a thread; the seat is taken. `None`: there is none left, or this process has no slot of its own.
pub fn sit(runtime: &Runtime, thread: &Thread, place: Place) -> Option<Taken<'static>> {
    if !runtime.is_here() {
        return None;
    }
    let process = runtime.slot_index();
    let sitting = Sitting { tid: thread.tid(), process, node_os_id: None };
    let session = runtime.session;
    let sit = || session.sit(&sitting, own_tid());
    let (seat, taken) = sit().or_else(|| {
        free_seats_of_the_dead(runtime);
        sit()
    })?;
    taken.set_record(place.count.map(|Count(count)| count));
    thread.set_placed(place.cpu_os_id, seat);
    Some(taken)
}

/// Seats of processes that were killed. The launcher frees them too, where it looks at threads.
fn free_seats_of_the_dead(runtime: &Runtime) {
    let own_namespace = runtime.slot().pid_namespace();
    for (index, slot) in runtime.session.processes() {
        let pid = slot.pid() as i32;
        if slot.pid_namespace() == own_namespace && !sys::thread_exists(pid, pid) {
            runtime.session.free_seats_of(index, own_tid());
        }
    }
}

/// Takes the seat of a thread that is ours to place; `None` if it is not. Waits until the launcher, or
/// another thread, is done with its affinity.
pub fn take(thread: &Thread) -> Option<Taken<'static>> {
    wait_for(thread, Seat::take)
}

/// A thread ends: its seat is free. Gives how it was counted.
pub fn stand_up(thread: &Thread) -> Option<Count> {
    give_up(thread, wait_for(thread, Seat::take_at_end)?)
}

/// A thread does not need its seat any more. Gives how it was counted.
pub fn give_up(thread: &Thread, taken: Taken<'_>) -> Option<Count> {
    let count = taken.set_record(None).map(Count);
    thread.set_unplaced();
    taken.give_up();
    count
}

fn wait_for(
    thread: &Thread,
    take: fn(&'static Seat, u32) -> Option<Taken<'static>>,
) -> Option<Taken<'static>> {
    let seat = thread.seat()?;
    for tries in 0..TRIES {
        let taken = take(seat, own_tid());
        if taken.is_some() || !seat.is_taken() {
            return taken;
        }
        let looks = tries % TRIES_PER_LOOK == 0;
        // While it makes a child it does not change its affinity, whatever it will do then.
        if thread.is_widened() || looks && !will_be_put_back(seat) {
            break;
        }
        sys::sleep_micros(BETWEEN_TRIES_MICROS);
    }
    seat.take_over(own_tid())
}

/// Not if we have taken it ourselves (and are in a handler of a signal), nor if whoever did is gone.
fn will_be_put_back(seat: &Seat) -> bool {
    seat.taker().is_none_or(|taker| taker != own_tid() && sys::any_thread_exists(taker as i32))
}

pub fn own_tid() -> u32 {
    sys::tid() as u32
}

/// The program sets the affinity of one of its threads: from then on that is the program's to place. `find` finds the
/// thread, `set` sets it and gives 0, or why not.
pub fn program_sets(find: impl Fn() -> Option<&'static Thread>, set: impl Fn() -> c_int) -> c_int {
    let taken = find().and_then(take);
    let mut status = set();
    let (0, Some(runtime)) = (status, runtime::get()) else { return status };
    if let Some(thread) = find() {
        thread.set_by_program();
        runtime.slot().set_user_affinity();
        let taken = taken.or_else(|| {
            // Placed meanwhile, and what was set may have been replaced.
            let late = take(thread)?;
            status = set();
            Some(late)
        });
        if let Some(taken) = taken {
            taken.leave();
        }
    }
    status
}

/// It is about to, and we do not see when it has.
pub fn program_will_set(thread: Option<&'static Thread>) {
    program_sets(|| thread, || 0);
}
