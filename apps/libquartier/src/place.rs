//! Decisions.

use std::ffi::{c_int, c_void};

use quartier_decide::dqdt::{Allowed, Placed, RecordId, Tree};
use quartier_decide::policy::{Balance, Exec, Fork, Placement, Strategy, Thread, memory};
use quartier_model::{CpuId, CpuList, CpuOsId, NodeId, NodeOsId};

use crate::handle::Handle;

/// `struct quartier_place`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Place {
    cpu: i32,
    node: i32,
    attempt: i32,
    visited: u32,
    record: i64,
}

/// More CPUs than any kernel has.
const CPUS_MAX: usize = 1 << 16;

/// # Safety
/// `tree` was opened and not closed; `allowed` is null or `allowed_bytes` long; `place` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_place_thread(
    tree: *mut Handle,
    creator_cpu: c_int,
    strategy: c_int,
    allowed: *const c_void,
    allowed_bytes: usize,
    place: *mut Place,
) -> c_int {
    let strategy = match strategy {
        0 => Strategy::Thesis,
        1 => Strategy::Packed,
        2 => Strategy::Spread,
        _ => return -libc::EINVAL,
    };
    // SAFETY: the caller's promise.
    unsafe {
        place_with(tree, allowed, allowed_bytes, place, |handle, allowed| {
            let creator = cpu(handle.shared().tree(), creator_cpu);
            count(handle, &Thread { strategy, ..Thread::new(creator, allowed) })
        })
    }
}

/// # Safety
/// As [`quartier_place_thread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_place_fork(
    tree: *mut Handle,
    parent_cpu: c_int,
    allowed: *const c_void,
    allowed_bytes: usize,
    place: *mut Place,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        place_with(tree, allowed, allowed_bytes, place, |handle, allowed| {
            let parent = cpu(handle.shared().tree(), parent_cpu);
            count(handle, &Fork { parent, allowed })
        })
    }
}

/// # Safety
/// As [`quartier_place_thread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_place_exec(
    tree: *mut Handle,
    free_pages_min: u64,
    seed: u64,
    allowed: *const c_void,
    allowed_bytes: usize,
    place: *mut Place,
) -> c_int {
    let free_pages_min = Some(free_pages_min).filter(|min| *min > 0);
    // SAFETY: the caller's promise.
    unsafe {
        place_with(tree, allowed, allowed_bytes, place, |handle, allowed| {
            count(handle, &Exec { allowed, free_pages_min, seed })
        })
    }
}

/// # Safety
/// As [`quartier_place_thread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_place_balance(
    tree: *mut Handle,
    initiator_cpu: c_int,
    allowed: *const c_void,
    allowed_bytes: usize,
    place: *mut Place,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        place_with(tree, allowed, allowed_bytes, place, |handle, allowed| {
            let initiator = cpu(handle.shared().tree(), initiator_cpu)?;
            count(handle, &Balance { initiator, allowed })
        })
    }
}

/// # Safety
/// `tree` was opened and not closed; `place` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_place_pages(
    tree: *mut Handle,
    from_node: c_int,
    nr_pages: u64,
    block_order: c_int,
    place: *mut Place,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(handle), false) = (unsafe { tree.as_ref() }, place.is_null()) else {
        return -libc::EINVAL;
    };
    let tree = handle.shared().tree();
    let allowed = memory::AllowedNodes::all(tree);
    let request = memory::Request {
        from: node(tree, from_node),
        allowed: &allowed,
        nr_pages,
        block_order: usize::try_from(block_order).ok(),
    };
    let Some(decision) = memory::decide(&handle.shared().estimates(), &request) else {
        return -libc::ENODEV;
    };
    let node = tree.node_os_id(decision.node).0 as i32;
    let visited = decision.visited;
    // SAFETY: the caller's promise.
    unsafe { place.write(Place { cpu: -1, node, attempt: 0, visited, record: -1 }) };
    0
}

/// # Safety
/// `tree` was opened and not closed; `place` may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_release(tree: *mut Handle, place: *mut Place) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(handle), Some(place)) = (unsafe { tree.as_ref() }, unsafe { place.as_mut() }) else {
        return -libc::EINVAL;
    };
    let record = u32::try_from(place.record).ok().map(RecordId);
    place.record = -1;
    let released = record.zip(handle.process()).zip(handle.shared().ledger());
    let released = released.is_some_and(|((record, me), ledger)| ledger.release(me, record));
    if released { 0 } else { -libc::EINVAL }
}

/// What every decision about a CPU does with its arguments.
unsafe fn place_with(
    tree: *mut Handle,
    allowed: *const c_void,
    allowed_bytes: usize,
    place: *mut Place,
    choose: impl FnOnce(&Handle, &Allowed) -> Option<Place>,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(handle), false) = (unsafe { tree.as_ref() }, place.is_null()) else {
        return -libc::EINVAL;
    };
    // SAFETY: the caller's promise.
    let Some(cpus) = (unsafe { cpus_of(allowed, allowed_bytes) }) else { return -libc::EINVAL };
    let allowed = Allowed::from_os_ids(handle.shared().tree(), &cpus);
    match choose(handle, &allowed) {
        Some(chosen) => {
            // SAFETY: the caller's promise.
            unsafe { place.write(chosen) };
            0
        }
        None => -libc::ENODEV,
    }
}

/// Counted where this process may, else only chosen.
fn count(handle: &Handle, request: &impl Placement) -> Option<Place> {
    let shared = handle.shared();
    let Placed { decision, record } = shared.place(handle.process(), request)?;
    let tree = shared.tree();
    Some(Place {
        cpu: tree.cpu_os_id(decision.cpu).0 as i32,
        node: decision.node.map_or(-1, |node| tree.node_os_id(node).0 as i32),
        attempt: i32::from(decision.attempt),
        visited: decision.visited,
        record: record.map_or(-1, |RecordId(record)| i64::from(record)),
    })
}

/// The CPUs of a mask; the calling thread's own where there is none. `None`: it cannot be read.
unsafe fn cpus_of(mask: *const c_void, bytes: usize) -> Option<CpuList> {
    let mut own = [0u8; CPUS_MAX / 8];
    let mask = if mask.is_null() {
        // SAFETY: the kernel writes at most the length given.
        let len =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, own.len(), own.as_mut_ptr()) };
        &own[..usize::try_from(len).ok()?]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(mask.cast::<u8>(), bytes.min(own.len())) }
    };
    let is_set = |id: &u32| mask[*id as usize / 8] >> (id % 8) & 1 == 1;
    Some((0..mask.len() as u32 * 8).filter(is_set).collect())
}

pub(crate) fn cpu(tree: &Tree, os_id: c_int) -> Option<CpuId> {
    tree.cpu_by_os_id(CpuOsId(u32::try_from(os_id).ok()?))
}

pub(crate) fn node(tree: &Tree, os_id: c_int) -> Option<NodeId> {
    tree.node_by_os_id(NodeOsId(u32::try_from(os_id).ok()?))
}
