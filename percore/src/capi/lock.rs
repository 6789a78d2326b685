//! Queue locks, one type for all.

use std::ffi::c_int;

use crate::lock::{CnaLock, CnaNode, McsLock, McsNode, QueueLock, TicketLock};

/// `struct quartier_lock`.
#[derive(Debug)]
enum Lock {
    Ticket(TicketLock),
    Mcs(McsLock),
    Cna(CnaLock<NodeOfCaller>),
}

type NodeOfCaller = Box<dyn Fn() -> usize + Send + Sync>;

/// `struct quartier_lock_node`: room for either.
#[repr(C)]
union Node {
    none: (),
    mcs: std::mem::ManuallyDrop<McsNode>,
    cna: std::mem::ManuallyDrop<CnaNode>,
    words: [usize; 4],
}

const _: () = assert!(size_of::<Node>() == size_of::<[usize; 4]>());
const _: () = assert!(align_of::<Node>() == align_of::<usize>());

const TICKET: c_int = 0;
const MCS: c_int = 1;
const CNA: c_int = 2;

/// # Safety
/// `node_of_caller` is null or may be called from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_lock_new(
    kind: c_int,
    node_of_caller: Option<unsafe extern "C" fn() -> usize>,
    local_max: u32,
) -> *mut Lock {
    let lock = match (kind, node_of_caller) {
        (TICKET, _) => Lock::Ticket(TicketLock::new()),
        (MCS, _) => Lock::Mcs(McsLock::new()),
        (CNA, None) => {
            let node = || crate::cpu::current_node().unwrap_or(0);
            Lock::Cna(CnaLock::with(Box::new(node), local_max))
        }
        (CNA, Some(node)) => {
            // SAFETY: the caller's promise.
            Lock::Cna(CnaLock::with(Box::new(move || unsafe { node() }), local_max))
        }
        _ => return std::ptr::null_mut(),
    };
    Box::into_raw(Box::new(lock))
}

/// # Safety
/// `lock` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_lock_free(lock: *mut Lock) {
    // SAFETY: the caller's promise.
    unsafe { super::free(lock) };
}

/// # Safety
/// `lock` was made and not freed; `node` is the caller's and stays until it was released.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_lock_acquire(lock: *const Lock, node: *mut Node) {
    // SAFETY: the caller's promise; a node of zeros is one of either kind that waits for nobody.
    unsafe {
        node.write(Node { words: [0; 4] });
        match &*lock {
            Lock::Ticket(lock) => lock.acquire(&(*node).none),
            Lock::Mcs(lock) => lock.acquire(&(*node).mcs),
            Lock::Cna(lock) => lock.acquire(&(*node).cna),
        }
    }
}

/// # Safety
/// As of `quartier_lock_acquire`, with the node that it was acquired with.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_lock_release(lock: *const Lock, node: *mut Node) {
    // SAFETY: the caller's promise.
    unsafe {
        match &*lock {
            Lock::Ticket(lock) => lock.release(&(*node).none),
            Lock::Mcs(lock) => lock.release(&(*node).mcs),
            Lock::Cna(lock) => lock.release(&(*node).cna),
        }
    }
}
