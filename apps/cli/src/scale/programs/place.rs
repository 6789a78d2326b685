//! A folder for a program, in memory where there is room, that is gone once we are, however we end.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::scale::random_seed;

/// So that no disk is measured.
const IN_MEMORY: &str = "/dev/shm";
/// What the largest needs, with room to spare.
const ROOM_BYTES: u64 = 1 << 30;
/// Reads which process groups begin and end until we have ended; ends those that are left, and removes the folder.
const REMOVE: &str = r#"trap '' HUP INT TERM
groups=
while read -r what group; do
    others=
    for each in $groups; do [ "$each" = "$group" ] || others="$others $each"; done
    groups=$others
    [ "$what" != begins ] || groups="$groups $group"
done
for group in $groups; do kill -KILL -"$group"; done
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1"
    [ -e "$1" ] || exit 0
    sleep 0.5
done"#;

/// The folder, and the shell that removes it: a signal that ends us drops nothing.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    remover: Child,
}

impl Place {
    /// # Errors
    /// One sentence, with the remedy.
    pub fn new() -> anyhow::Result<Self> {
        let path = folder().join(format!("quartier-{:016x}", random_seed()?));
        let mut remover = Command::new("sh")
            .args(["-c", REMOVE, "remover"])
            .arg(&path)
            // What ends all of ours does not end this one.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("sh could not be started")?;
        // Whoever ends us in between finds it there.
        if let Err(error) = DirBuilder::new().mode(0o700).create(&path) {
            let _ = remover.kill();
            let _ = remover.wait();
            return Err(error).with_context(|| {
                format!(
                    "{} cannot be made: set TMPDIR to a folder that can be written",
                    path.display()
                )
            });
        }
        Ok(Self { path, remover })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts what may use the folder: it ends with us.
    pub fn start(&self, command: &mut Command) -> std::io::Result<Child> {
        let child = command.process_group(0).spawn()?;
        self.tell("begins", child.id());
        Ok(child)
    }

    /// What was started has ended, and been waited for.
    pub fn ended(&self, group: u32) {
        self.tell("ended", group);
    }

    fn tell(&self, what: &str, group: u32) {
        if let Some(mut remover) = self.remover.stdin.as_ref() {
            // Whoever ended the shell has the folder to remove.
            let _ = writeln!(remover, "{what} {group}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        let _ = self.remover.wait();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_with_whoever_had_it() {
        let place = Place::new().unwrap();
        let folder = place.path().to_owned();
        std::fs::create_dir(folder.join("within")).unwrap();
        drop(place);
        assert!(!folder.exists());
    }
}
