//! Told by the kernel when something changes below a folder (inotify(7)).

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Where nothing is told, it is looked so often.
const LOOK: Duration = Duration::from_secs(5);
/// Changes come together: it is waited until so long none came,
const QUIET: Duration = Duration::from_millis(200);
/// or so long since the first.
const QUIET_WITHIN: Duration = Duration::from_secs(2);

/// Changes of folders.
#[derive(Debug)]
pub struct Changes {
    /// `None`: not to be had.
    told: Option<OwnedFd>,
    /// Not all folders are watched: there are too many for this user.
    misses: bool,
}

impl Changes {
    pub fn new() -> Self {
        let told = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { misses: told.is_none(), told }
    }

    /// Of this folder, too; a second time nothing changes.
    pub fn watch(&mut self, folder: &Path) {
        let Some(told) = &self.told else { return };
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(told, folder, what) {
            // One that has gone is told of by the folder that it was in.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.misses = true,
        }
    }

    /// Whether it is known at once that something changes.
    pub fn is_told(&self) -> bool {
        !self.misses
    }

    /// Waits for changes, and until no more of them come; `false`: none came so long. `is_over` is asked now and then.
    pub fn wait(&self, is_over: impl Fn() -> bool) -> bool {
        let mut waited = Duration::ZERO;
        while !self.comes_within(QUIET) {
            waited += QUIET;
            if waited >= LOOK || is_over() {
                return false;
            }
        }
        let first = Instant::now();
        while self.comes_within(QUIET) && first.elapsed() < QUIET_WITHIN && !is_over() {
            // Who writes much is told of often.
            std::thread::sleep(QUIET / 4);
        }
        true
    }

    fn comes_within(&self, time: Duration) -> bool {
        let Some(told) = &self.told else {
            std::thread::sleep(time);
            return false;
        };
        let mut fds = [PollFd::new(told, PollFlags::IN)];
        let timeout = Timespec::try_from(time).ok();
        if !matches!(poll(&mut fds, timeout.as_ref()), Ok(1..)) {
            return false;
        }
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(told, &mut space);
        while reader.next().is_ok() {}
        true
    }
}
