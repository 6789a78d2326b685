//! The guest's clock, where it has one of its own: `lab/plugin/clock/`, which QEMU got before it began.

/// Passes as the guest's work does.
#[derive(Clone, Copy, Debug)]
pub struct GuestClock(Works);

type Works = unsafe extern "C" fn(u64, bool);

impl GuestClock {
    /// The one of this process.
    pub fn find() -> Option<Self> {
        // SAFETY: a name that ends; what has it is a function of this type, which is never unloaded.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"quartier_clock_works".as_ptr());
            (!found.is_null()).then(|| Self(std::mem::transmute::<*mut _, Works>(found)))
        }
    }

    /// There is no work.
    pub fn rests(self) {
        self.works(0, false);
    }

    /// So many modelled nanoseconds of work have passed in all, and whether there is more.
    pub fn works(self, worked_ns: u64, is_working: bool) {
        // SAFETY: it may be called at any time, from any thread.
        unsafe { (self.0)(worked_ns, is_working) }
    }
}
