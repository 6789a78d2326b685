//! The kernel's own accesses for the program: system calls whose buffers lie in marked memory.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::arena::State;
use crate::log::Op;
use crate::model::{self, GRANULE, PER_PAGE, WORDS};
use crate::sys::{PAGE, errno};
use crate::worker::Worker;

macro_rules! transfers {
    ($($name:ident: $kind:ident $op:ident $way:ident,)+) => {
        $(pub fn $name(worker: &mut Worker) {
            $kind(worker, Op::$op, $way);
        })+
    };
}
transfers! {
    pipe_out: out PipeOut by_pipe_out,
    pipe_in: inward PipeIn by_pipe_in,
    file_out: out FileOut by_file_out,
    file_in: inward FileIn by_file_in,
    vector_out: out VectorOut by_vector_out,
    vector_in: inward VectorIn by_vector_in,
    peek_self: out PeekSelf by_peek_self,
    poke_self: inward PokeSelf by_poke_self,
    random: small Random by_random,
    stat: small Stat by_stat,
    futex_word: small FutexWord by_futex_word,
}

/// An address range with the worker's descriptors: what a transfer needs.
#[derive(Clone, Copy)]
struct Way {
    address: usize,
    bytes: usize,
    scratch: usize,
    pipe: [i32; 2],
    file: i32,
}

impl Way {
    fn new(worker: &Worker, granules: &Range<usize>) -> Self {
        Self {
            address: worker.world.arena.granule_address(granules.start),
            bytes: granules.len() * GRANULE,
            scratch: worker.scratch.as_ptr() as usize,
            pipe: worker.pipe,
            file: worker.file,
        }
    }
}

/// Repeats a transfer until all bytes are through; interruptions are nothing special.
fn fully(bytes: usize, mut transfer: impl FnMut(usize, usize) -> isize) -> Result<(), i32> {
    let mut at = 0;
    while at < bytes {
        match transfer(at, bytes - at) {
            0 => return Err(-1),
            count if count > 0 => at += count as usize,
            _ if errno() == libc::EINTR => {}
            _ => return Err(errno()),
        }
    }
    Ok(())
}

/// Memory under test → kernel → scratch, where it is checked.
fn out(worker: &mut Worker, op: Op, transfer: fn(Way) -> Result<(), i32>) {
    let pages = worker.readable(17);
    worker.log(op, &pages);
    if pages.is_empty() {
        return;
    }
    let granules = worker.granules(&pages);
    if let Err(error) = transfer(Way::new(worker, &granules)) {
        worker.fail("a system call that reads memory", error.into());
    }
    for (number, granule) in granules.enumerate() {
        let words = &worker.scratch[number * WORDS..(number + 1) * WORDS];
        let read = |index: usize| words[index].load(Ordering::Relaxed);
        if let Err(wrong) = model::check(worker.world.arena.tags.get(granule), granule, read) {
            let arena = &worker.world.arena;
            worker.world.log.differ(worker.index, arena, granule, wrong, "read by the kernel");
        }
    }
}

/// Scratch → kernel → memory under test.
fn inward(worker: &mut Worker, op: Op, transfer: fn(Way) -> Result<(), i32>) {
    let pages = worker.writable(17);
    worker.log(op, &pages);
    if pages.is_empty() {
        return;
    }
    let granules = worker.granules(&pages);
    let tag = worker.tag();
    for (number, granule) in granules.clone().enumerate() {
        let first = granule % PER_PAGE * WORDS;
        for index in 0..WORDS {
            worker.scratch[number * WORDS + index]
                .store(model::word(tag, first + index), Ordering::Relaxed);
        }
    }
    if let Err(error) = transfer(Way::new(worker, &granules)) {
        worker.fail("a system call that writes memory", error.into());
    }
    granules.clone().for_each(|granule| worker.world.arena.tags.set(granule, tag));
    worker.check(granules.end - 1, "written by the kernel");
}

fn send(fd: i32, from: usize, bytes: usize) -> isize {
    // SAFETY: the range is readable by the model; the kernel checks it again.
    unsafe { libc::write(fd, from as *const c_void, bytes) }
}

fn receive(fd: i32, to: usize, bytes: usize) -> isize {
    // SAFETY: the range is writable by the model; the kernel checks it again.
    unsafe { libc::read(fd, to as *mut c_void, bytes) }
}

fn by_pipe_out(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| send(way.pipe[1], way.address + at, len))?;
    fully(way.bytes, |at, len| receive(way.pipe[0], way.scratch + at, len))
}

fn by_pipe_in(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| send(way.pipe[1], way.scratch + at, len))?;
    fully(way.bytes, |at, len| receive(way.pipe[0], way.address + at, len))
}

fn put(file: i32, from: usize, bytes: usize, at: usize) -> isize {
    // SAFETY: as in `send`.
    unsafe { libc::pwrite(file, from as *const c_void, bytes, at as libc::off_t) }
}

fn get(file: i32, to: usize, bytes: usize, at: usize) -> isize {
    // SAFETY: as in `receive`.
    unsafe { libc::pread(file, to as *mut c_void, bytes, at as libc::off_t) }
}

fn by_file_out(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| put(way.file, way.address + at, len, at))?;
    fully(way.bytes, |at, len| get(way.file, way.scratch + at, len, at))
}

fn by_file_in(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| put(way.file, way.scratch + at, len, at))?;
    fully(way.bytes, |at, len| get(way.file, way.address + at, len, at))
}

/// Cuts a range into pieces of odd sizes.
fn pieces(start: usize, bytes: usize) -> ([libc::iovec; 8], usize) {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut vectors, mut count, mut at) = ([nothing; 8], 0, 0);
    while at < bytes {
        let len = if count == 7 { bytes - at } else { (bytes / 5 + 13).min(bytes - at) };
        vectors[count] = libc::iovec { iov_base: (start + at) as *mut c_void, iov_len: len };
        at += len;
        count += 1;
    }
    (vectors, count)
}

fn by_vector_out(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| {
        let (vectors, count) = pieces(way.address + at, len);
        // SAFETY: as in `send`, for each piece.
        unsafe { libc::writev(way.pipe[1], vectors.as_ptr(), count as i32) }
    })?;
    fully(way.bytes, |at, len| receive(way.pipe[0], way.scratch + at, len))
}

fn by_vector_in(way: Way) -> Result<(), i32> {
    fully(way.bytes, |at, len| send(way.pipe[1], way.scratch + at, len))?;
    fully(way.bytes, |at, len| {
        let (vectors, count) = pieces(way.address + at, len);
        // SAFETY: as in `receive`, for each piece.
        unsafe { libc::readv(way.pipe[0], vectors.as_ptr(), count as i32) }
    })
}

/// `process_vm_readv` or `process_vm_writev` on this process itself.
fn vm_self(local: usize, remote: usize, bytes: usize, write: bool) -> Result<(), i32> {
    fully(bytes, |at, len| {
        let vector =
            |start: usize| libc::iovec { iov_base: (start + at) as *mut c_void, iov_len: len };
        let (local, remote) = (vector(local), vector(remote));
        // SAFETY: both ranges are the tester's; the kernel checks them again.
        unsafe {
            let call = if write { libc::process_vm_writev } else { libc::process_vm_readv };
            call(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        }
    })
}

fn by_peek_self(way: Way) -> Result<(), i32> {
    vm_self(way.scratch, way.address, way.bytes, false)
}

fn by_poke_self(way: Way) -> Result<(), i32> {
    vm_self(way.scratch, way.address, way.bytes, true)
}

/// A call on one granule, which is written anew afterwards.
fn small(worker: &mut Worker, op: Op, call: fn(usize, i32) -> Result<(), i32>) {
    let pages = worker.writable(1);
    worker.log(op, &pages);
    for page in pages {
        let granule = page * PER_PAGE + worker.rng.below(PER_PAGE);
        if let Err(error) = call(worker.world.arena.granule_address(granule), worker.file) {
            worker.fail("a small system call into marked memory", error.into());
        }
        let tag = worker.tag();
        worker.world.arena.fill(granule, tag);
    }
}

fn by_random(address: usize, _file: i32) -> Result<(), i32> {
    fully(GRANULE, |at, len| {
        // SAFETY: a granule of the worker's own.
        unsafe { libc::getrandom((address + at) as *mut c_void, len, 0) }
    })
}

fn by_stat(address: usize, file: i32) -> Result<(), i32> {
    // SAFETY: a `stat` fits in a granule, which is the worker's own and aligned.
    unsafe {
        let stat = address as *mut libc::stat;
        if libc::fstat(file, stat) != 0 {
            return Err(errno());
        }
        if (*stat).st_mode & libc::S_IFMT == libc::S_IFREG { Ok(()) } else { Err(-2) }
    }
}

/// A futex wait whose word, read by the kernel, has another value; then a wake.
fn by_futex_word(address: usize, _file: i32) -> Result<(), i32> {
    let word = address as *mut u32;
    // SAFETY: a granule of the worker's own; the wait returns at once because the value differs.
    unsafe {
        let other = !word.read_volatile();
        let none = std::ptr::null::<libc::timespec>();
        let waited = libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, other, none);
        if waited != -1 || errno() != libc::EAGAIN {
            return Err(errno());
        }
        let woken = libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1);
        if woken == 0 { Ok(()) } else { Err(errno()) }
    }
}

/// Zeroes by `/dev/zero`.
pub fn zero_device(worker: &mut Worker) {
    let pages = worker.writable(17);
    worker.log(Op::ZeroDevice, &pages);
    if pages.is_empty() {
        return;
    }
    let granules = worker.granules(&pages);
    let way = Way::new(worker, &granules);
    // SAFETY: opens a device by a C string.
    let device = unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if device < 0 {
        return;
    }
    let result = fully(way.bytes, |at, len| receive(device, way.address + at, len));
    // SAFETY: opened above.
    unsafe { libc::close(device) };
    if let Err(error) = result {
        worker.fail("read of /dev/zero", error.into());
    }
    granules.for_each(|granule| worker.world.arena.tags.set(granule, model::ZERO));
}

/// What the program may not touch, the kernel may not touch for it either.
pub fn bad_address(worker: &mut Worker) {
    let pages = worker.pick_where(1, |state| matches!(state, State::Closed | State::Hole));
    worker.log(Op::BadAddress, &pages);
    if pages.is_empty() {
        return;
    }
    let address = worker.world.arena.address(pages.start);
    // In a pipe of its own: the kernel leaves an empty buffer in it, and so less room for the next.
    let mut pipe = [0; 2];
    // SAFETY: two descriptors, closed below.
    if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let result = by_pipe_out(Way { address, bytes: PAGE, pipe, ..Way::new(worker, &(0..1)) });
    // SAFETY: opened above.
    let _ = unsafe { (libc::close(pipe[0]), libc::close(pipe[1])) };
    match result {
        Err(libc::EFAULT) => {}
        other => worker.fail("write from a closed page: errno", other.err().unwrap_or(0).into()),
    }
}
