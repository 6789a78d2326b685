//! Where the processes that are counted have what, and what the kernel calls its own: for whoever names addresses afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, setpriority_process};

use super::begun::{Beginnings, Begun};
use super::{Host, group};
use crate::error::{Context, Result};
use crate::frame::{DATA_BYTES_MAX, Frame, Start};

/// So often it is looked for what processes have loaded since they began.
const LOOK: Duration = Duration::from_millis(20);
/// By the host's clock no more seldom than so: else processes of a slow guest come and go unseen.
const LOOK_OF_HOST: Duration = Duration::from_millis(400);
/// But no sooner than after so many times as long as the last look took: on many CPUs it takes longer than that, ahead of all others.
const RESTS_PER_LOOK: u32 = 10;
/// Ahead of all that is looked at: where each CPU has work, whoever waits for its turn comes when a short process is over.
const NICE: i32 = -20;
const KERNEL_NAMES: &str = "/proc/kallsyms";

/// Where each process has what, as the kernel lists it.
type Spaces = BTreeMap<u32, Vec<u8>>;

/// Looks at the group's processes until it is told to end.
#[derive(Debug)]
pub struct Watch {
    end: OwnedFd,
    watcher: JoinHandle<Spaces>,
}

impl Watch {
    /// From before the first of them begins.
    pub fn begin(start: &Start) -> Result<Self> {
        let look = LOOK.min(start.look(LOOK_OF_HOST));
        let making = "make an event";
        let end = eventfd(0, EventfdFlags::CLOEXEC).doing(making)?;
        let ended = end.try_clone().doing(making)?;
        // Where the kernel tells nothing, it is looked now and then.
        let beginnings = Beginnings::listen().ok();
        let watcher = thread::spawn(move || {
            // On Linux a priority is of one thread; without it more is missed, and no more than that.
            let _ = setpriority_process(None, NICE);
            watch(&ended, beginnings.as_ref(), look)
        });
        Ok(Self { end, watcher })
    }

    /// Tells the host what was seen.
    pub fn end(self, host: &Host) -> Result<()> {
        let telling = "tell the host where processes had what";
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        for (process, maps) in self.watcher.join().unwrap_or_default() {
            host.send(&Frame::Space(process, maps)).doing(telling)?;
        }
        for part in kernel_names()?.chunks(DATA_BYTES_MAX) {
            host.send(&Frame::KernelNames(part.to_vec())).doing(telling)?;
        }
        Ok(())
    }
}

fn watch(ended: &OwnedFd, beginnings: Option<&Beginnings>, look: Duration) -> Spaces {
    let mut spaces = Spaces::new();
    let mut looked = Instant::now();
    let mut rest = look;
    let mut seen = BTreeSet::new();
    loop {
        let waited_for = [Some(ended.as_fd()), beginnings.map(AsFd::as_fd)];
        let mut waited_for: Vec<_> = waited_for
            .iter()
            .flatten()
            .map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN))
            .collect();
        let left: Timespec =
            rest.saturating_sub(looked.elapsed()).try_into().expect("a short time");
        let _ = poll(&mut waited_for, Some(&left));
        if !waited_for[0].revents().is_empty() {
            return spaces;
        }
        let begun = beginnings.map(Beginnings::begun).unwrap_or_default();
        let is_time = looked.elapsed() >= rest;
        let began = Instant::now();
        let has_programs = begun.iter().any(|begun| matches!(begun, Begun::Program(_)));
        let members = match is_time || has_programs {
            true => group::members().into_iter().map(number).collect(),
            false => BTreeSet::new(),
        };
        begin(&mut spaces, &begun, &members, &seen);
        if is_time {
            seen = members;
            seen.iter().for_each(|process| look_at(&mut spaces, *process));
            looked = Instant::now();
            rest = look.max(RESTS_PER_LOOK * (looked - began));
        }
    }
}

/// In the order in which they have begun: a copy has what the other has then, and may have ended before somebody looks; of a program that has,
/// nothing is known. Of who was seen since, more is known than what it began as.
fn begin(spaces: &mut Spaces, begun: &[Begun], members: &BTreeSet<u32>, seen: &BTreeSet<u32>) {
    for begun in begun {
        match begun {
            Begun::Copy { process, of } if !seen.contains(process) => {
                if let Some(space) = spaces.get(of).cloned() {
                    spaces.insert(*process, space);
                }
            }
            Begun::Copy { .. } => {}
            Begun::Program(process) => {
                spaces.remove(process);
                if members.contains(process) {
                    look_at(spaces, *process);
                }
            }
        }
    }
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

/// The latest of each that has any: one that ends has none left.
fn look_at(spaces: &mut Spaces, process: u32) {
    if let Ok(maps) = fs::read(format!("/proc/{process}/maps"))
        && !maps.is_empty()
    {
        spaces.insert(process, maps);
    }
}

/// As the kernel lists them, but for those of programs in the kernel, which come and go: others have their addresses later.
fn kernel_names() -> Result<Vec<u8>> {
    let path = std::path::Path::new(KERNEL_NAMES);
    let file = fs::File::open(path).path("open", path)?;
    let mut kept = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.path("read", path)?;
        if !line.ends_with(b"[bpf]") {
            kept.extend_from_slice(&line);
            kept.push(b'\n');
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_is_a_copy_until_it_begins_a_program() {
        let own = std::process::id();
        let mut spaces = Spaces::from([(1, b"sh".to_vec()), (5, b"cc1".to_vec())]);
        let begun = [
            Begun::Copy { process: 2, of: 1 },
            // It has ended before anybody looked.
            Begun::Program(2),
            Begun::Copy { process: 3, of: 2 },
            Begun::Copy { process: 4, of: 1 },
            Begun::Copy { process: 5, of: 1 },
            Begun::Copy { process: own, of: 4 },
            Begun::Program(own),
            Begun::Copy { process: 6, of: own },
        ];
        begin(&mut spaces, &begun, &[own].into(), &[5].into());
        assert_eq!((&spaces[&4], &spaces[&5]), (&b"sh".to_vec(), &b"cc1".to_vec()));
        assert!(!spaces.contains_key(&2) && !spaces.contains_key(&3));
        assert!(spaces[&own] == spaces[&6] && spaces[&own].len() > 100);
    }
}
