//! Children: each checks what it inherited against the model.

use std::ffi::{CString, c_char};
use std::ops::Range;

use crate::arena::{Arena, State};
use crate::log::Op;
use crate::model::PER_PAGE;
use crate::sys::{self, PAGE};
use crate::worker::Worker;
use crate::world::World;

unsafe extern "C" {
    #[link_name = "_Fork"]
    fn c_bottom_fork() -> libc::pid_t;
}

/// `fork`, while the other workers go on.
pub fn fork(worker: &mut Worker) {
    // SAFETY: the child keeps to what a child of a threaded program may do.
    fork_by(worker, Op::Fork, || unsafe { libc::fork() });
}

/// `_Fork`, which runs no handlers.
pub fn bottom_fork(worker: &mut Worker) {
    // SAFETY: as above.
    fork_by(worker, Op::BottomFork, || unsafe { c_bottom_fork() });
}

/// A fork past the C library.
pub fn unseen_fork(worker: &mut Worker) {
    if worker.world.unseen_forks {
        // SAFETY: as above.
        fork_by(worker, Op::ForkUnseen, || unsafe { sys::unseen_fork() });
    }
}

/// Forks; the child checks the worker's own part and what nobody else writes.
fn fork_by(worker: &mut Worker, op: Op, fork: impl FnOnce() -> libc::pid_t) {
    worker.log(op, &worker.span);
    let writes = worker.rng.once_in(2);
    match fork() {
        0 => {
            let zones = &worker.world.arena.zones;
            verify(worker.world, worker.index, worker.span.clone(), writes);
            for zone in [&zones.locked, &zones.shared] {
                let own = |page: &usize| (page - zone.start) % worker.world.workers == worker.index;
                let each = zone.len() / worker.world.workers * worker.world.workers;
                for page in (zone.start..zone.start + each).filter(own) {
                    verify(worker.world, worker.index, page..page + 1, false);
                }
            }
            verify(worker.world, worker.index, zones.constant.clone(), false);
            sys::exit_now(0)
        }
        -1 => worker.fail("fork: errno", sys::errno().into()),
        child => reap(worker, child, "a child that checks its memory: status"),
    }
}

/// In a phase in which nobody changes contents: the child checks everything. `unseen` past the C
/// library.
pub fn fork_under(world: &'static World, unseen: bool) {
    let index = world.workers;
    let all = world.arena.zones.modelled();
    world.log.begin(index, if unseen { Op::ForkUnseen } else { Op::ForkUnder }, &all);
    // SAFETY: the child keeps to what a child of a threaded program may do.
    let child = unsafe { if unseen { sys::unseen_fork() } else { libc::fork() } };
    finish_fork(world, child);
}

/// The same by `syscall(SYS_fork)`, after which the runtime marks no more; gives the child's status.
pub fn raw_fork(world: &'static World) -> i32 {
    world.log.begin(world.workers, Op::RawFork, &world.arena.zones.modelled());
    // SAFETY: as above.
    checked_by(world, unsafe { libc::syscall(libc::SYS_fork) } as libc::pid_t)
}

fn finish_fork(world: &'static World, child: libc::pid_t) {
    match checked_by(world, child) {
        0 => {}
        status => world.log.fail(world.workers, "a child that checks all: status", status.into()),
    }
}

fn checked_by(world: &'static World, child: libc::pid_t) -> i32 {
    match child {
        0 => {
            verify(world, world.workers, world.arena.zones.modelled(), true);
            sys::exit_now(0)
        }
        -1 => world.log.fail(world.workers, "fork: errno", sys::errno().into()),
        child => sys::wait_for(child),
    }
}

/// Checks pages in a child, also behind closed protection; then writes some, which must not show in
/// the parent.
fn verify(world: &World, index: usize, pages: Range<usize>, writes: bool) {
    let arena = &world.arena;
    for page in pages {
        match arena.state(page) {
            State::Hole => continue,
            State::Closed => {
                let _ = arena.protect(page..page + 1, libc::PROT_READ);
            }
            _ => {}
        }
        verify_page(world, index, page);
        if writes
            && page % 7 == 0
            && arena.state(page) == State::Writable
            && is_private(arena, page)
        {
            arena.write_again(page * PER_PAGE, 0x5EED);
        }
    }
}

fn is_private(arena: &Arena, page: usize) -> bool {
    !arena.zones.shared.contains(&page)
}

fn verify_page(world: &World, index: usize, page: usize) {
    for granule in page * PER_PAGE..(page + 1) * PER_PAGE {
        let first = world.arena.check(granule);
        if let Err(wrong) = first.or_else(|_| world.arena.check(granule)) {
            world.log.differ(index, &world.arena, granule, wrong, "in a child");
        }
    }
}

fn reap(worker: &Worker, child: libc::pid_t, what: &str) {
    match sys::wait_for(child) {
        0 => {}
        status => worker.fail(what, status.into()),
    }
}

/// `fork` and `execve` of `/bin/true`.
pub fn fork_exec(worker: &mut Worker) {
    worker.log(Op::ForkExec, &(0..0));
    let argv = [c"true".as_ptr(), std::ptr::null()];
    // SAFETY: the child only executes; path and arguments are C strings.
    let child = unsafe {
        match libc::fork() {
            0 => {
                libc::execve(c"/bin/true".as_ptr(), argv.as_ptr(), argv[1..].as_ptr().cast());
                sys::exit_now(127)
            }
            child => child,
        }
    };
    reap(worker, child, "fork and exec of true: status");
}

/// `posix_spawn` of `/bin/true`, with this process's environment (so with the runtime in it).
pub fn spawn(worker: &mut Worker) {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    worker.log(Op::Spawn, &(0..0));
    let argv = [c"true".as_ptr().cast_mut(), std::ptr::null_mut()];
    let mut child = 0;
    // SAFETY: path and arguments are C strings; nobody writes the environment.
    let status = unsafe {
        libc::posix_spawn(
            &raw mut child,
            c"/bin/true".as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr(),
            environ,
        )
    };
    if status != 0 {
        worker.fail("posix_spawn", status.into());
    }
    reap(worker, child, "a spawned true: status");
}

/// `vfork` and `execve` of `test`, whose arguments the kernel reads from marked memory: it ends with
/// 0 if two strings that lie in different pages are the same.
pub fn vfork_exec(worker: &mut Worker) {
    let pages = worker.writable(300);
    worker.log(Op::VforkExec, &pages);
    if pages.len() < 4 {
        return;
    }
    let text = CString::new(format!("word-{:x}", worker.rng.next())).unwrap_or_default();
    let first = place(worker, pages.start, PAGE - 20, &text);
    let second = place(worker, pages.end - 1, 40, &text);
    let array = worker.world.arena.address(pages.start + 1) as *mut *const c_char;
    let argv = [c"test".as_ptr(), first, c"=".as_ptr(), second, std::ptr::null()];
    worker.world.arena.mark(worker.world.arena.address(pages.start), pages.len() * PAGE);
    // SAFETY: the array lies in a page of the worker's own; the strings end before their pages do
    // (the first goes on in the second page, before the array's end is written over).
    let child = unsafe {
        array.add(64).copy_from_nonoverlapping(argv.as_ptr(), argv.len());
        worker.world.arena.mark(worker.world.arena.address(pages.start), pages.len() * PAGE);
        sys::vfork_exec(c"/usr/bin/test", array.add(64), argv[4..].as_ptr())
    };
    if child < 0 {
        worker.fail("vfork: errno", (-child).into());
    }
    reap(worker, child, "test of two equal strings in marked memory: status");
    for page in [pages.start, pages.start + 1, pages.end - 1] {
        let tag = worker.tag();
        (page * PER_PAGE..(page + 1) * PER_PAGE)
            .for_each(|granule| worker.world.arena.fill(granule, tag));
    }
}

fn place(worker: &Worker, page: usize, offset: usize, text: &CString) -> *const c_char {
    let at = (worker.world.arena.address(page) + offset) as *mut c_char;
    let bytes = text.as_bytes_with_nul();
    // SAFETY: at most 22 bytes, in two pages of the worker's own.
    unsafe { at.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    at
}
