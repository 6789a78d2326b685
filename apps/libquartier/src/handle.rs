//! Opening and closing.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quartier_decide::dqdt::Tree;
use quartier_observe::Host;
use quartier_shared::{Found, Member, SharedError, SharedTree};

/// `struct quartier_tree`.
pub type Handle = Member;

/// Opens a tree; beside it, why nothing is shared where a process has its own.
fn open(directory: Option<&Path>) -> Result<(Handle, Option<String>), String> {
    let told = |error: SharedError| error.to_string();
    if let Some(directory) = directory {
        let shared = SharedTree::open(directory).map_err(told)?;
        return Ok((Member::enter(Found::Shared(shared)), None));
    }
    let machine = Host::live().machine().map_err(|error| error.to_string())?;
    let tree = Tree::build(&machine);
    match Found::for_user(&tree) {
        Ok(found) => Ok((Member::enter(found), None)),
        Err(error) => {
            let own = SharedTree::private(&tree).map_err(told)?;
            Ok((Member::enter(Found::Private(own)), Some(error.to_string())))
        }
    }
}

/// # Safety
/// `directory` is null or a C string; `why` is null or has room for `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_tree_open(
    directory: *const c_char,
    why: *mut c_char,
    why_bytes: usize,
) -> *mut Handle {
    // SAFETY: the caller's promise.
    let directory = (!directory.is_null()).then(|| unsafe { CStr::from_ptr(directory) });
    let directory = directory.map(|text| Path::new(OsStr::from_bytes(text.to_bytes())));
    let (handle, reason) = match open(directory) {
        Ok((handle, reason)) => (Box::into_raw(Box::new(handle)), reason),
        Err(reason) => (std::ptr::null_mut(), Some(reason)),
    };
    // SAFETY: the caller's promise.
    unsafe { tell(why, why_bytes, &reason.unwrap_or_default()) };
    handle
}

/// As much of a text as there is room for, ended as C wants it.
unsafe fn tell(to: *mut c_char, room: usize, text: &str) {
    if to.is_null() || room == 0 {
        return;
    }
    let len = text.len().min(room - 1);
    // SAFETY: the caller's promise of room; a `char` is a byte.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        *to.add(len) = 0;
    }
}

/// # Safety
/// `tree` is null, or was opened and not closed, and no other thread uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_tree_close(tree: *mut Handle) {
    if !tree.is_null() {
        // SAFETY: made by `quartier_tree_open`, and the caller's promise.
        drop(unsafe { Box::from_raw(tree) });
    }
}

/// # Safety
/// `tree` is null, or was opened and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quartier_tree_is_shared(tree: *const Handle) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { tree.as_ref() };
    handle.map_or(-libc::EINVAL, |handle| c_int::from(!matches!(handle.found(), Found::Private(_))))
}
