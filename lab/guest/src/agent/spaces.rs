//! Where the processes that are counted have what, and what the kernel calls its own: for whoever names addresses afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::setpriority_process;

use super::{Host, group};
use crate::error::{Context, Result};
use crate::frame::{DATA_BYTES_MAX, Frame};

/// A process that lives shorter than this may be missed; a counted guest is slow, so few do. At first it is looked more often.
const LOOK: Duration = Duration::from_millis(20);
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Ahead of all that is looked at: where each CPU has work, whoever waits for its turn comes when that is over.
const NICE: i32 = -20;
const KERNEL_NAMES: &str = "/proc/kallsyms";

/// Looks at the group's processes until it is told to end.
#[derive(Debug)]
pub struct Watch {
    end: Sender<()>,
    watcher: JoinHandle<BTreeMap<u32, Vec<u8>>>,
}

impl Watch {
    pub fn begin() -> Self {
        let (end, ended) = channel();
        let watcher = thread::spawn(move || {
            let mut spaces = BTreeMap::new();
            // On Linux a priority is of one thread; without it more is missed, and no more than that.
            let _ = setpriority_process(None, NICE);
            let mut wait = FIRST_LOOK;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                look(&mut spaces);
                wait = (2 * wait).min(LOOK);
            }
            spaces
        });
        Self { end, watcher }
    }

    /// Tells the host what was seen.
    pub fn end(self, host: &Host) -> Result<()> {
        let telling = "tell the host where processes had what";
        let _ = self.end.send(());
        for (process, maps) in self.watcher.join().unwrap_or_default() {
            host.send(&Frame::Space(process, maps)).doing(telling)?;
        }
        for part in kernel_names()?.chunks(DATA_BYTES_MAX) {
            host.send(&Frame::KernelNames(part.to_vec())).doing(telling)?;
        }
        Ok(())
    }
}

/// The latest of each that has any: one that ends has none left.
fn look(spaces: &mut BTreeMap<u32, Vec<u8>>) {
    for process in group::members() {
        let process = process.as_raw_nonzero().get().unsigned_abs();
        if let Ok(maps) = fs::read(format!("/proc/{process}/maps"))
            && !maps.is_empty()
        {
            spaces.insert(process, maps);
        }
    }
}

/// As the kernel lists them, what is code or data that is there for good: that of modules and programs in the kernel has a
/// third word.
fn kernel_names() -> Result<Vec<u8>> {
    let path = std::path::Path::new(KERNEL_NAMES);
    let file = fs::File::open(path).path("open", path)?;
    let mut kept = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.path("read", path)?;
        if line.iter().filter(|byte| byte.is_ascii_whitespace()).count() == 2 {
            kept.extend_from_slice(&line);
            kept.push(b'\n');
        }
    }
    Ok(kept)
}
