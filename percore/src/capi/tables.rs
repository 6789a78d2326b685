//! Per-CPU tables of pointers by number, and free lists of pointers.

use std::ffi::{c_int, c_void};
use std::num::NonZeroUsize;

use super::{Pointer, tell};
use crate::{FreeList, PerCpuTable, ShardedList};

type Table = PerCpuTable<u64, Pointer>;
type List = FreeList<Pointer>;
type Sharded = ShardedList<Pointer>;

#[unsafe(no_mangle)]
extern "C" fn quartier_table_new(slots_per_cpu: usize) -> *mut Table {
    let table = if slots_per_cpu == 0 { Table::new() } else { Table::with_slots(slots_per_cpu) };
    Box::into_raw(Box::new(table))
}

/// # Safety
/// `table` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_table_free(table: *mut Table) {
    // SAFETY: the caller's promise.
    unsafe { super::free(table) };
}

/// # Safety
/// `table` is null, or was made and not freed; `to` is null or may be written.
unsafe fn answer(
    table: *const Table,
    to: *mut *mut c_void,
    ask: impl FnOnce(&Table) -> Option<Pointer>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(table) = (unsafe { table.as_ref() }) else { return -libc::EINVAL };
    let Some(value) = ask(table) else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { tell(to, value.get()) };
    1
}

/// # Safety
/// `table` is null, or was made and not freed; `value` is null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_table_get(
    table: *const Table,
    key: u64,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { answer(table, value, |table| table.get(&key)) }
}

/// # Safety
/// `table` is null, or was made and not freed; `before` is null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_table_insert(
    table: *const Table,
    key: u64,
    value: *mut c_void,
    before: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { answer(table, before, |table| table.insert(key, Pointer(value))) }
}

/// # Safety
/// `table` is null, or was made and not freed; `before` is null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_table_remove(
    table: *const Table,
    key: u64,
    before: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { answer(table, before, |table| table.remove(&key)) }
}

#[unsafe(no_mangle)]
extern "C" fn quartier_free_list_new(own_max: usize, shared_max: usize) -> *mut List {
    Box::into_raw(Box::new(List::new(own_max, shared_max)))
}

/// # Safety
/// `list` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_free_list_free(list: *mut List) {
    // SAFETY: the caller's promise.
    unsafe { super::free(list) };
}

/// # Safety
/// `list` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_free_list_push(list: *const List, thing: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    kept(thing, unsafe { list.as_ref() }, List::push)
}

/// # Safety
/// `list` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_free_list_pop(list: *const List) -> *mut c_void {
    // SAFETY: the caller's promise.
    taken(unsafe { list.as_ref() }.and_then(List::pop))
}

/// # Safety
/// `list` is null, or was made and not freed; `each` may be called with its things and `context`.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_free_list_take_all(
    list: *const List,
    each: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    context: *mut c_void,
) -> usize {
    // SAFETY: the caller's promise.
    let all = unsafe { list.as_ref() }.map(List::take_all).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { give(&all, each, context) }
}

/// What keeping a thing came to.
fn kept<L>(
    thing: *mut c_void,
    list: Option<&L>,
    push: fn(&L, Pointer) -> Result<(), Pointer>,
) -> c_int {
    match list.filter(|_| !thing.is_null()) {
        Some(list) => push(list, Pointer(thing)).map_or(-libc::ENOSPC, |()| 0),
        None => -libc::EINVAL,
    }
}

fn taken(thing: Option<Pointer>) -> *mut c_void {
    thing.map_or(std::ptr::null_mut(), Pointer::get)
}

/// # Safety
/// `each` may be called with all of them and `context`.
unsafe fn give(
    all: &[Pointer],
    each: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    context: *mut c_void,
) -> usize {
    for thing in all {
        if let Some(each) = each {
            // SAFETY: the caller's promise.
            unsafe { each(thing.get(), context) };
        }
    }
    all.len()
}

#[unsafe(no_mangle)]
extern "C" fn quartier_sharded_list_new(nr_shards: usize, shard_max: usize) -> *mut Sharded {
    let nr_shards = NonZeroUsize::new(nr_shards).unwrap_or(NonZeroUsize::MIN);
    Box::into_raw(Box::new(Sharded::new(nr_shards, shard_max)))
}

/// # Safety
/// `list` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_sharded_list_free(list: *mut Sharded) {
    // SAFETY: the caller's promise.
    unsafe { super::free(list) };
}

/// # Safety
/// `list` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_sharded_list_push(list: *const Sharded, thing: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    kept(thing, unsafe { list.as_ref() }, Sharded::push)
}

/// # Safety
/// `list` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_sharded_list_pop(list: *const Sharded) -> *mut c_void {
    // SAFETY: the caller's promise.
    taken(unsafe { list.as_ref() }.and_then(Sharded::pop))
}

/// # Safety
/// `list` is null, or was made and not freed; `each` may be called with its things and `context`.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_sharded_list_take_all(
    list: *const Sharded,
    each: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    context: *mut c_void,
) -> usize {
    // SAFETY: the caller's promise.
    let all = unsafe { list.as_ref() }.map(Sharded::take_all).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { give(&all, each, context) }
}
