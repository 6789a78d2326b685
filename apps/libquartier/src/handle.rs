//! Opening and closing.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quartier_decide::dqdt::{Process, Tree};
use quartier_observe::Host;
use quartier_shared::{SharedError, SharedTree, UserTree, directory_of_user, system_directory};

/// `struct quartier_tree`.
#[derive(Debug)]
pub struct Handle {
    opened: Opened,
    /// This process in the ledger; `None` when it cannot count.
    pub(crate) me: Option<Process>,
}

#[derive(Debug)]
enum Opened {
    Users(UserTree),
    Shared(SharedTree),
    Own(SharedTree),
}

impl Handle {
    fn new(opened: Opened) -> Self {
        let mut handle = Self { opened, me: None };
        handle.me = handle.shared().enter();
        handle
    }

    pub(crate) fn shared(&self) -> &SharedTree {
        match &self.opened {
            Opened::Users(users) => users.shared(),
            Opened::Shared(shared) | Opened::Own(shared) => shared,
        }
    }

    fn open(directory: Option<&Path>) -> Result<(Self, Option<String>), String> {
        if let Some(directory) = directory {
            let shared = SharedTree::open(directory).map_err(|error| error.to_string())?;
            return Ok((Self::new(Opened::Shared(shared)), None));
        }
        let machine = Host::live().machine().map_err(|error| error.to_string())?;
        let tree = Tree::build(&machine);
        let machines = SharedTree::open(&system_directory()).ok();
        if let Some(shared) = machines.filter(|shared| shared.ledger().is_some()) {
            return Ok((Self::new(Opened::Shared(shared)), None));
        }
        match UserTree::join(&directory_of_user(), &tree) {
            Ok(users) => Ok((Self::new(Opened::Users(users)), None)),
            Err(error) => {
                let own = SharedTree::private(&tree).map_err(|own: SharedError| own.to_string())?;
                Ok((Self::new(Opened::Own(own)), Some(error.to_string())))
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let (Some(me), Some(ledger)) = (self.me, self.shared().ledger()) {
            ledger.leave(me);
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
    let (handle, reason) = match Handle::open(directory) {
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
    handle.map_or(-libc::EINVAL, |handle| c_int::from(!matches!(handle.opened, Opened::Own(_))))
}
