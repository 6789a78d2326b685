//! Which rung this machine offers, asked of the kernel itself.

use std::fs::File;
use std::os::fd::AsRawFd;

use quartier_kernel::sys;
use quartier_kernel::uffd::Uffd;
use quartier_session::{Reason, Rung};

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungProbe {
    /// The highest rung that works here.
    pub rung: Rung,
    /// Why it is not a higher one than none.
    pub reason: Option<Reason>,
}

/// Asks the kernel. Opens and closes one userfaultfd; changes nothing.
#[must_use]
pub fn probe() -> RungProbe {
    let none = |reason| RungProbe { rung: Rung::None, reason: Some(reason) };
    let uffd = Uffd::by_syscall().or_else(|error| {
        let device = File::options().read(true).write(true).open("/dev/userfaultfd");
        device.map_or(Err(error), |device| Uffd::by_device(device.as_raw_fd()))
    });
    let Ok(uffd) = uffd else { return none(Reason::NotPermitted) };
    let abilities = uffd.abilities();
    sys::close(uffd.0);
    match abilities {
        Ok(can) if can.rwp => RungProbe { rung: Rung::Rwp, reason: None },
        Ok(can) if can.moves => RungProbe { rung: Rung::Move, reason: None },
        _ => none(Reason::KernelTooOld),
    }
}
