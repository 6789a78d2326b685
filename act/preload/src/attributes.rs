//! Attributes of a thread that is about to be made: the program's, with an affinity of ours.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use quartier_session::CpuBits;

use crate::sys::PAGE;

pub type Attr = libc::pthread_attr_t;

/// Attributes equal to the program's, with an affinity.
pub struct PlacedAttr(MaybeUninit<Attr>);

impl PlacedAttr {
    /// Copies them. `None` when the C library has no room.
    ///
    /// # Safety
    /// `from` is null or initialised attributes.
    pub unsafe fn new(from: *const Attr, cpu: u32) -> Option<Self> {
        let mut attr = Self(MaybeUninit::uninit());
        // SAFETY: initialises the attributes, which `drop` destroys.
        if unsafe { libc::pthread_attr_init(attr.as_ptr()) } != 0 {
            std::mem::forget(attr);
            return None;
        }
        // SAFETY: both are initialised attributes.
        if !from.is_null() && !unsafe { copy_attr(from, attr.as_ptr()) } {
            return None;
        }
        let bits: CpuBits = [cpu].into_iter().collect();
        // SAFETY: the mask has the length given.
        let set = unsafe {
            pthread_attr_setaffinity_np(
                attr.as_ptr(),
                CpuBits::byte_len(),
                bits.words.as_ptr().cast(),
            )
        };
        (set == 0).then_some(attr)
    }

    /// For the C library.
    pub fn as_ptr(&mut self) -> *mut Attr {
        self.0.as_mut_ptr()
    }
}

impl Drop for PlacedAttr {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`.
        unsafe { libc::pthread_attr_destroy(self.as_ptr()) };
    }
}

unsafe extern "C" {
    fn pthread_attr_setaffinity_np(
        attr: *mut Attr,
        size: usize,
        set: *const libc::cpu_set_t,
    ) -> c_int;
    fn pthread_attr_getaffinity_np(
        attr: *const Attr,
        size: usize,
        set: *mut libc::cpu_set_t,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attr: *const Attr, detached: *mut c_int) -> c_int;
    fn pthread_attr_getscope(attr: *const Attr, scope: *mut c_int) -> c_int;
    fn pthread_attr_setscope(attr: *mut Attr, scope: c_int) -> c_int;
    fn pthread_attr_getsigmask_np(attr: *const Attr, set: *mut libc::sigset_t) -> c_int;
    fn pthread_attr_setsigmask_np(attr: *mut Attr, set: *const libc::sigset_t) -> c_int;
    pub fn pthread_attr_getstack(
        attr: *const Attr,
        stack: *mut *mut c_void,
        size: *mut usize,
    ) -> c_int;
    fn pthread_attr_setstack(attr: *mut Attr, stack: *mut c_void, size: usize) -> c_int;
}

/// Copies every attribute that has a getter. A byte copy would share glibc's hidden part.
unsafe fn copy_attr(from: *const Attr, to: *mut Attr) -> bool {
    let (mut detached, mut inherit, mut policy, mut scope) = (0, 0, 0, 0);
    let (mut guard, mut stack_size, mut stack) = (0, 0, std::ptr::null_mut());
    // SAFETY: all-zero is a valid sched_param and sigset_t.
    let (mut parameter, mut mask): (libc::sched_param, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: `from` and `to` are initialised attributes; every getter writes the variable given.
    unsafe {
        let mut ok = pthread_attr_getdetachstate(from, &raw mut detached) == 0
            && libc::pthread_attr_setdetachstate(to, detached) == 0
            && libc::pthread_attr_getguardsize(from, &raw mut guard) == 0
            && libc::pthread_attr_setguardsize(to, guard) == 0
            && libc::pthread_attr_getinheritsched(from, &raw mut inherit) == 0
            && libc::pthread_attr_setinheritsched(to, inherit) == 0
            && libc::pthread_attr_getschedpolicy(from, &raw mut policy) == 0
            && libc::pthread_attr_setschedpolicy(to, policy) == 0
            && libc::pthread_attr_getschedparam(from, &raw mut parameter) == 0
            && libc::pthread_attr_setschedparam(to, &raw const parameter) == 0
            && pthread_attr_getscope(from, &raw mut scope) == 0
            && pthread_attr_setscope(to, scope) == 0;
        if pthread_attr_getsigmask_np(from, &raw mut mask) == 0 {
            ok &= pthread_attr_setsigmask_np(to, &raw const mask) == 0;
        }
        // A stack of the program's own has an address; a size alone does not.
        let own_stack = pthread_attr_getstack(from, &raw mut stack, &raw mut stack_size) == 0
            && !stack.is_null()
            && (stack as usize).wrapping_add(stack_size) != 0;
        if own_stack && stack as usize > PAGE && (stack as usize) < 1 << 47 {
            ok &= pthread_attr_setstack(to, stack, stack_size) == 0;
        } else if libc::pthread_attr_getstacksize(from, &raw mut stack_size) == 0 {
            ok &= libc::pthread_attr_setstacksize(to, stack_size) == 0;
        }
        ok
    }
}

/// Whether the program gave the attributes an affinity (glibc fills the mask with ones if not).
///
/// # Safety
/// `attr` is null or initialised attributes.
pub unsafe fn has_affinity(attr: *const Attr) -> bool {
    if attr.is_null() {
        return false;
    }
    let mut bits = CpuBits::EMPTY;
    // SAFETY: initialised attributes by the caller's contract; the mask has the length given.
    let got = unsafe {
        pthread_attr_getaffinity_np(attr, CpuBits::byte_len(), bits.words.as_mut_ptr().cast())
    };
    got != 0 || bits.words.iter().any(|word| *word != u64::MAX)
}
