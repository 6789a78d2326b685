//! What the tree knows.

use std::ffi::c_int;

use quartier_decide::dqdt::{Tree, Usage};

use crate::handle::Handle;
use crate::place::{cpu, node};

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_threads_on_cpu(tree: *const Handle, os_id: c_int) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        ask(
            tree,
            |tree| cpu(tree, os_id),
            |handle, cpu| Some(i64::from(handle.shared().estimates().nr_threads_on(cpu))),
        )
    }
}

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_threads_on_node(tree: *const Handle, os_id: c_int) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        ask(
            tree,
            |tree| node(tree, os_id),
            |handle, node| {
                let cluster = handle.shared().tree().cluster_of_node(node);
                Some(i64::from(handle.shared().estimates().nr_threads(cluster)))
            },
        )
    }
}

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_usage_of_cpu(tree: *const Handle, os_id: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let percent = unsafe {
        ask(
            tree,
            |tree| cpu(tree, os_id),
            |handle, cpu| percent(handle.shared().estimates().usage_on(cpu)),
        )
    };
    percent as c_int
}

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_usage_of_node(tree: *const Handle, os_id: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let percent = unsafe {
        ask(
            tree,
            |tree| node(tree, os_id),
            |handle, node| {
                let cluster = handle.shared().tree().cluster_of_node(node);
                percent(handle.shared().estimates().usage(cluster))
            },
        )
    };
    percent as c_int
}

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_free_pages_of_node(tree: *const Handle, os_id: c_int) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        ask(
            tree,
            |tree| node(tree, os_id),
            |handle, node| {
                let memory = handle.shared().estimates().free_memory_of(node)?;
                Some(i64::try_from(memory.pages).unwrap_or(i64::MAX))
            },
        )
    }
}

fn percent(usage: Option<Usage>) -> Option<i64> {
    Some(i64::from(usage?.percent()))
}

/// What is asked of what `find` finds: `-EINVAL` if there is no such thing, `-ENODATA` if nobody knows.
unsafe fn ask<T>(
    tree: *const Handle,
    find: impl FnOnce(&Tree) -> Option<T>,
    answer: impl FnOnce(&Handle, T) -> Option<i64>,
) -> i64 {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { tree.as_ref() }) else { return i64::from(-libc::EINVAL) };
    let Some(found) = find(handle.shared().tree()) else { return i64::from(-libc::EINVAL) };
    answer(handle, found).unwrap_or(i64::from(-libc::ENODATA))
}
