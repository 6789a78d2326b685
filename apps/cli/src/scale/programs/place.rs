//! A folder for a program, in memory where there is room, that is gone once we are.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::scale::guard::Guard;
use crate::scale::random_seed;

/// So that no disk is measured.
const IN_MEMORY: &str = "/dev/shm";
/// What the largest needs, with room to spare.
const ROOM_BYTES: u64 = 1 << 30;
/// What guests have of their own, and a folder for what is temporary that is in none of these.
const OF_GUESTS: [&str; 3] = ["/dev", "/proc", "/sys"];
const ON_DISK: &str = "/var/tmp";

/// The folder, and who removes it.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    guard: Guard,
}

impl Place {
    /// # Errors
    /// One sentence, with the remedy.
    pub fn new() -> anyhow::Result<Self> {
        Self::below(&folder())
    }

    /// One that guests of the lab see at the same path.
    ///
    /// # Errors
    /// One sentence, with the remedy.
    pub fn for_guests() -> anyhow::Result<Self> {
        Self::below(&seen_by_guests(std::env::temp_dir()))
    }

    fn below(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(format!("quartier-{:016x}", random_seed()?));
        let guard = Guard::new(Some(&path)).context("sh could not be started")?;
        if let Err(error) = DirBuilder::new().mode(0o700).create(&path) {
            // What has this name may be somebody's.
            guard.dismiss();
            return Err(error).with_context(|| {
                format!(
                    "{} cannot be made: set TMPDIR to a folder that can be written",
                    path.display()
                )
            });
        }
        Ok(Self { path, guard })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// Where there is room.
fn folder() -> PathBuf {
    let in_memory = Path::new(IN_MEMORY);
    let has_room =
        rustix::fs::statvfs(in_memory).is_ok_and(|fs| fs.f_bavail * fs.f_frsize >= ROOM_BYTES);
    let may_write = rustix::fs::access(in_memory, rustix::fs::Access::WRITE_OK).is_ok();
    if has_room && may_write {
        return in_memory.to_owned();
    }
    crate::say::sentence(&format!(
        "{IN_MEMORY} has no GiB free, so files are on a disk, which may be what is measured"
    ));
    std::env::temp_dir()
}

/// The folder for what is temporary, or another where guests do not see that.
fn seen_by_guests(temporary: PathBuf) -> PathBuf {
    let whole = temporary.canonicalize().unwrap_or(temporary);
    let is_hidden = OF_GUESTS.iter().any(|own| whole.starts_with(own));
    if is_hidden { ON_DISK.into() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_with_whoever_had_it() {
        for place in [Place::new(), Place::for_guests()] {
            let place = place.unwrap();
            let folder = place.path().to_owned();
            std::fs::create_dir(folder.join("within")).unwrap();
            drop(place);
            assert!(!folder.exists());
        }
    }

    #[test]
    fn guests_see_no_folder_of_what_is_their_own() {
        assert_eq!(seen_by_guests("/dev".into()), Path::new("/var/tmp"));
        assert_eq!(seen_by_guests("/".into()), Path::new("/"));
        let relative = seen_by_guests(".".into());
        assert!(relative.is_absolute(), "{}", relative.display());
    }
}
