//! What was started and what was made for it goes with us, however we end: a signal that ends us drops nothing, so a shell looks
//! after it that sees us end.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Reads which process groups begin and end until we have ended; ends those that are left, and removes the folder.
const LOOK_AFTER: &str = r#"trap '' HUP INT TERM
groups=
while read -r what group; do
    others=
    for each in $groups; do [ "$each" = "$group" ] || others="$others $each"; done
    groups=$others
    [ "$what" != begins ] || groups="$groups $group"
done
for group in $groups; do kill -TERM -"$group"; done
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    left=
    for group in $groups; do kill -0 -"$group" && left=1; done
    [ -n "$left" ] || break
    sleep 0.5
done
for group in $groups; do kill -KILL -"$group"; done
[ -n "$1" ] || exit 0
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1"
    [ -e "$1" ] || exit 0
    sleep 0.5
done"#;

/// The shell.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
    folder: Option<PathBuf>,
    running: Mutex<Running>,
}

/// What was started and has not ended.
#[derive(Debug, Default)]
struct Running {
    groups: Vec<u32>,
    /// Nothing is started any more.
    is_over: bool,
}

impl Guard {
    /// It may be told of a folder that is still to be made, so that there is no moment in between.
    pub fn new(folder: Option<&Path>) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", LOOK_AFTER, "guard"])
            .arg(folder.unwrap_or(Path::new("")))
            // What ends all of ours does not end this one.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell, folder: folder.map(Path::to_owned), running: Mutex::default() })
    }

    /// Starts what is to end with us: a process group of its own.
    pub fn start(
        &self,
        command: &mut Command,
        start: impl FnOnce(&mut Command) -> io::Result<Child>,
    ) -> io::Result<Child> {
        let mut running = self.running();
        if running.is_over {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "all is to end"));
        }
        let child = start(command.process_group(0))?;
        running.groups.push(child.id());
        self.tell("begins", child.id());
        Ok(child)
    }

    /// What was started has ended, and been waited for.
    pub fn ended(&self, group: u32) {
        self.running().groups.retain(|running| *running != group);
        self.tell("ended", group);
    }

    /// Asks all that runs to end, and starts nothing any more.
    pub fn end_all(&self) {
        let mut running = self.running();
        running.is_over = true;
        for group in running.groups.iter().filter_map(|group| Pid::from_raw(*group as i32)) {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is nothing to look after.
    pub fn dismiss(mut self) {
        self.folder = None;
        let _ = self.shell.kill();
    }

    fn tell(&self, what: &str, group: u32) {
        if let Some(mut shell) = self.shell.stdin.as_ref() {
            // Whoever ended the shell has that to look after.
            let _ = writeln!(shell, "{what} {group}");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        if let Some(folder) = &self.folder {
            // It has gone, unless somebody ended the shell.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
