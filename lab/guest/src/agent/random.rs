//! Random numbers of a guest that is as another one was when that had booted.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Context, Result};

/// Makes the kernel's generator begin anew from what it has and this (Linux `RNDRESEEDCRNG`): it would do so by itself too, but seconds
/// later.
pub fn begin_anew(seed: &[u8]) -> Result<()> {
    if seed.is_empty() {
        return Ok(());
    }
    let path = Path::new("/dev/urandom");
    let mut device = File::options().write(true).open(path).path("open", path)?;
    device.write_all(seed).path("write", path)?;
    let reseeded = quartier_kernel::sys::reseed(device.as_raw_fd());
    reseeded
        .map(drop)
        .map_err(|errno| std::io::Error::from_raw_os_error(errno.into_raw()))
        .doing("have the guest's random numbers begin anew")
}
