//! The functions that ours stand in for: the next ones in the program's search order.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a thread begins with.
pub type StartRoutine = extern "C" fn(*mut c_void) -> *mut c_void;

macro_rules! real {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)+) => {
        $(
            /// The program's own function of this name.
            ///
            /// # Panics
            /// Never in a program that links the C library: it has all of these.
            #[must_use]
            #[allow(non_snake_case)] // The C library's names.
            pub fn $name() -> unsafe extern "C" fn($($arg),*) -> $ret {
                static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ) { Ok(name) => name, Err(_) => panic!("no NUL inside") };
                let address = next(&FOUND, NAME);
                // SAFETY: the symbol of this name has this type in every libc that exports it.
                unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $ret>(address) }
            }
        )+
    };
}

fn next(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let address = look_up(found, name);
    assert!(!address.is_null(), "the C library has no such function");
    address
}

/// The next function of a name, looked up until there is one.
fn look_up(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a valid name; the result is checked by who uses it.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    found.store(address, Ordering::Release);
    address
}

type Attr = libc::pthread_attr_t;
/// `argv` and `envp`.
pub type Strings = *const *mut c_char;

real! {
    pthread_create(*mut libc::pthread_t, *const Attr, StartRoutine, *mut c_void) -> c_int;
    sched_setaffinity(libc::pid_t, usize, *const libc::cpu_set_t) -> c_int;
    sched_getaffinity(libc::pid_t, usize, *mut libc::cpu_set_t) -> c_int;
    pthread_setaffinity_np(libc::pthread_t, usize, *const libc::cpu_set_t) -> c_int;
    pthread_getaffinity_np(libc::pthread_t, usize, *mut libc::cpu_set_t) -> c_int;
    _Fork() -> libc::pid_t;
    posix_spawn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int;
    posix_spawnp(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int;
    system(*const c_char) -> c_int;
    popen(*const c_char, *const c_char) -> *mut libc::FILE;
    sigaction(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    signal(c_int, libc::sighandler_t) -> libc::sighandler_t;
    __sysv_signal(c_int, libc::sighandler_t) -> libc::sighandler_t;
    syscall(libc::c_long) -> libc::c_long;
    clone(extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int) -> c_int;
    realloc(*mut c_void, usize) -> *mut c_void;
}

/// Whether the program's blocks are the C library's own: not those of another allocator in its place.
#[must_use]
pub fn allocates_as_glibc() -> bool {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    realloc() as *mut c_void == look_up(&FOUND, c"__libc_realloc")
}
