//! Who does the work: the C library, or the allocator that a program has in its place.
//!
//! What is allocated here is freed without us, so it has to come from whoever frees. If that is the C library, its functions
//! are called by names of its own, which nobody else has; they need not be looked up.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

type Of1 = unsafe extern "C" fn(usize) -> *mut c_void;
type Of2 = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Resize = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Aligned = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

unsafe extern "C" {
    fn free(block: *mut c_void);
    fn __libc_free(block: *mut c_void);
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(nr: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
}

/// Read as if they might change: a compiler takes it that functions with two names are two functions.
static PROGRAM_FREES: unsafe extern "C" fn(*mut c_void) = free;
static LIBRARY_FREES: unsafe extern "C" fn(*mut c_void) = __libc_free;

/// Whether the C library frees what the program frees.
fn is_c_librarys() -> bool {
    // SAFETY: a static.
    let program = unsafe { (&raw const PROGRAM_FREES).read_volatile() };
    // SAFETY: as above.
    let library = unsafe { (&raw const LIBRARY_FREES).read_volatile() };
    std::ptr::eq(program as *const (), library as *const ())
}

/// # Safety
/// The contract of `malloc(3)`.
pub unsafe fn malloc(bytes: usize) -> *mut c_void {
    if is_c_librarys() {
        // SAFETY: the caller's contract.
        return unsafe { __libc_malloc(bytes) };
    }
    let Some(found) = Others::get().and_then(|others| others.found(0)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: it was found by the name of a function of this type; the caller's contract.
    unsafe { std::mem::transmute::<*mut c_void, Of1>(found)(bytes) }
}

/// # Safety
/// The contract of `calloc(3)`.
pub unsafe fn calloc(nr: usize, bytes: usize) -> *mut c_void {
    if is_c_librarys() {
        // SAFETY: the caller's contract.
        return unsafe { __libc_calloc(nr, bytes) };
    }
    // SAFETY: the caller's contract.
    unsafe { of_others(1, nr, bytes) }
}

/// # Safety
/// The contract of `realloc(3)`.
pub unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if is_c_librarys() {
        // SAFETY: the caller's contract.
        return unsafe { __libc_realloc(block, bytes) };
    }
    let Some(found) = Others::get().and_then(|others| others.found(2)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: it was found by the name of a function of this type; the caller's contract.
    unsafe { std::mem::transmute::<*mut c_void, Resize>(found)(block, bytes) }
}

/// Newer C libraries refuse alignments that are no powers of two; here they are rounded up, as older ones do.
///
/// # Safety
/// The contract of `aligned_alloc(3)`.
pub unsafe fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if is_c_librarys() {
        // SAFETY: the caller's contract.
        return unsafe { __libc_memalign(alignment, bytes) };
    }
    // SAFETY: the caller's contract.
    unsafe { of_others(3, alignment, bytes) }
}

/// # Safety
/// The contract of `memalign(3)`.
pub unsafe fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    if is_c_librarys() {
        // SAFETY: the caller's contract.
        return unsafe { __libc_memalign(alignment, bytes) };
    }
    // SAFETY: the caller's contract.
    unsafe { of_others(4, alignment, bytes) }
}

/// # Safety
/// The contract of `posix_memalign(3)`.
pub unsafe fn posix_memalign(made: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    if !is_c_librarys() {
        let Some(found) = Others::get().and_then(|others| others.found(5)) else {
            return libc::ENOMEM;
        };
        // SAFETY: it was found by the name of a function of this type; the caller's contract.
        return unsafe {
            std::mem::transmute::<*mut c_void, Aligned>(found)(made, alignment, bytes)
        };
    }
    if !alignment.is_power_of_two() || alignment < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's contract.
    let block = unsafe { __libc_memalign(alignment, bytes) };
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's pointer.
    unsafe { *made = block };
    0
}

/// # Safety
/// The contract of the function with that place in [`NAMES`], which has these two arguments.
unsafe fn of_others(place: usize, first: usize, second: usize) -> *mut c_void {
    let Some(found) = Others::get().and_then(|others| others.found(place)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: it was found by the name of a function of this type; the caller's contract.
    unsafe { std::mem::transmute::<*mut c_void, Of2>(found)(first, second) }
}

const NAMES: [&CStr; 6] =
    [c"malloc", c"calloc", c"realloc", c"aligned_alloc", c"memalign", c"posix_memalign"];

/// What the program would call without us, if that is not the C library's.
struct Others([AtomicPtr<c_void>; NAMES.len()]);

static OTHERS: Others = Others([const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()]);
/// 0: nobody has looked. A process allocates before it has a second thread.
static STATE: AtomicU8 = AtomicU8::new(0);
const LOOKS: u8 = 1;
const FOUND: u8 = 2;

impl Others {
    /// `None`: they are being looked up. An older C library allocates when it does so, and does without if it gets nothing.
    fn get() -> Option<&'static Self> {
        match STATE.load(Ordering::Acquire) {
            FOUND => return Some(&OTHERS),
            LOOKS => return None,
            _ => STATE.store(LOOKS, Ordering::Relaxed),
        }
        for (place, name) in OTHERS.0.iter().zip(NAMES) {
            // SAFETY: a name; of what it finds nothing is read.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            place.store(found, Ordering::Relaxed);
        }
        STATE.store(FOUND, Ordering::Release);
        Some(&OTHERS)
    }

    fn found(&self, place: usize) -> Option<*mut c_void> {
        Some(self.0[place].load(Ordering::Relaxed)).filter(|found| !found.is_null())
    }
}
