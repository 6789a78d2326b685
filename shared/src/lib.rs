//! The decision tree in memory that processes share: a directory with two files in a tmpfs.
//!
//! | file | has | written by |
//! |---|---|---|
//! | `tree` | the topology, U and M | one refresher |
//! | `threads` | T, and whose thread each count is | everybody who places threads |
//!
//! They are two so that the administrator can permit one and not the other: who may only read
//! decides like everybody else, and cannot damage anything. Whoever may write `threads` can make
//! others decide badly, and by cutting the file off can end them (SIGBUS); so give it to those you
//! would let do that.
//!
//! A process that has opened a [`SharedTree`] decides with no system call, no lock and no daemon.
//! The topology is checked and copied at that moment, so that nothing which happens to the file
//! later can lead an index astray; what stays shared are numbers, and any number is survived.
//!
//! The layout is fixed ([`layout`]) and versioned. A writer that is killed leaves files that work:
//! they get their names when they are complete, U and M are words that are valid each for itself,
//! and T is put right by [`SharedTree::sweep`].

mod create;
pub mod layout;
mod mapping;
mod member;
mod open;
mod owner;
mod place;
mod user;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use quartier_decide::dqdt::{
    EMA_TICKS, Estimates, Ledger, Process, ProcessEntry, Record, Refresher, Resources, Swept,
    Threads, Tree,
};
use thiserror::Error;

pub use create::Create;
pub use member::{Found, Member};
pub use owner::{life, own_identity};
pub use user::{UserTree, directory_of_user, system_directory};

use layout::{ThreadsHeader, TreeHeader};
use mapping::Mapping;

/// Why a shared tree could not be made or used. Each tells what to do; a caller that can do without
/// builds its own tree ([`SharedTree::private`]) and says this.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum SharedError {
    #[error("cannot {operation} {path}: {error}")]
    Os { operation: &'static str, path: String, error: std::io::Error },
    #[error(
        "there is no decision tree at {path}; `quartier tree serve --directory {path}` makes one, and \
         `quartier run` makes the user's own while it runs"
    )]
    None { path: String },
    #[error("{path} is no decision tree: {what}; remove it, or ask who made it")]
    Foreign { path: String, what: String },
    #[error(
        "{path} has layout version {found}, this program knows {}; use programs of one release",
        layout::VERSION
    )]
    Version { path: String, found: u32 },
    #[error("{path} is damaged: {what}; make it anew")]
    Damaged { path: String, what: String },
    #[error("{path} was made before this machine was started; make it anew")]
    OtherBoot { path: String },
    #[error("{path} is not to be trusted: {what}; only its owner should be able to write there")]
    Untrusted { path: String, what: &'static str },
    #[error("{path} describes another machine: CPUs or nodes have changed; make it anew")]
    OtherMachine { path: String },
}

impl SharedError {
    fn none(directory: &Path) -> Self {
        Self::None { path: directory.display().to_string() }
    }

    fn is_not_found(&self) -> bool {
        matches!(self, Self::Os { error, .. } if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether nobody loses anything when a new tree takes the place of what is there: nothing, or a
    /// tree of this release that is of no use any more.
    #[must_use]
    pub fn may_be_replaced(&self) -> bool {
        match self {
            Self::None { .. }
            | Self::Damaged { .. }
            | Self::OtherBoot { .. }
            | Self::OtherMachine { .. } => true,
            Self::Os { .. }
            | Self::Foreign { .. }
            | Self::Version { .. }
            | Self::Untrusted { .. } => false,
        }
    }
}

/// A decision tree and its estimates, mapped.
#[derive(Debug)]
pub struct SharedTree {
    tree: Tree,
    resources: Mapping,
    threads: Mapping,
    lists: Lists,
}

/// Where lists lie, as it was when they were checked: whoever may write the files may change what the
/// headers say later.
#[derive(Clone, Copy, Debug)]
struct Lists {
    resources_offset: u64,
    threads_offset: u64,
    /// Of U and M, and of T.
    nr_slots: u64,
    processes_offset: u64,
    nr_processes: u64,
    records_offset: u64,
    nr_records: u64,
}

impl SharedTree {
    /// The tree: this process's own copy.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The estimates, as everybody sees them.
    #[must_use]
    pub fn estimates(&self) -> Estimates<'_> {
        let estimates = Estimates::new(&self.tree, self.threads());
        let estimates = estimates.and_then(|all| all.with_resources(self.resources()));
        estimates.expect("opening checked that there is a slot for every cluster")
    }

    /// T with its records, to place threads through. `None` when this process may only read.
    #[must_use]
    pub fn ledger(&self) -> Option<Ledger<'_>> {
        if !self.threads.is_writable() {
            return None;
        }
        let header = self.threads_header();
        let Lists { processes_offset, nr_processes, records_offset, nr_records, .. } = self.lists;
        // SAFETY: opening checked that both lie inside the file, aligned; atomics may be shared, and any
        // bits are a value of theirs.
        let (processes, records) = unsafe {
            (
                self.threads.list::<ProcessEntry>(processes_offset, nr_processes),
                self.threads.list::<Record>(records_offset, nr_records),
            )
        };
        Some(Ledger::new(self.estimates(), &header.sweeper, processes, records))
    }

    /// Who renews U and M. `None` when this process may only read. One at a time: see
    /// [`try_become_refresher`](Self::try_become_refresher).
    #[must_use]
    pub fn refresher(&self) -> Option<Refresher<'_>> {
        if !self.resources.is_writable() {
            return None;
        }
        Refresher::new(self.estimates(), self.resources(), EMA_TICKS).ok()
    }

    /// Whether this process is the only refresher from now on, until it ends. The kernel takes the
    /// right back from one that was killed.
    #[must_use]
    pub fn try_become_refresher(&self) -> bool {
        self.resources.is_writable() && self.resources.try_lock()
    }

    /// To be called after each refresh.
    pub fn set_refreshed_now(&self) {
        if self.resources.is_writable() {
            self.tree_header().set_refreshed(owner::boot_time());
        }
    }

    /// How long ago U and M were renewed; `None` when they never were.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let then = self.tree_header().refreshed()?;
        Some(owner::boot_time().saturating_sub(then))
    }

    /// M above which a cluster has room for a new program, as whoever made the tree set it.
    #[must_use]
    pub fn free_pages_min(&self) -> Option<u64> {
        self.tree_header().free_pages_min.checked_sub(1)
    }

    /// Permissions of `threads`: who may place threads; `None` where they cannot be read.
    #[must_use]
    pub fn threads_mode(&self) -> Option<u32> {
        let metadata = self.threads.file().metadata().ok()?;
        Some(metadata.permissions().mode() & 0o777)
    }

    /// Whether whoever opens the tree of a directory now gets this one: it has not been made anew.
    #[must_use]
    pub fn is_in(&self, directory: &Path) -> bool {
        let own = self.threads.file().metadata();
        let now = std::fs::metadata(directory.join(open::THREADS_FILE));
        matches!((own, now), (Ok(own), Ok(now)) if (own.ino(), own.dev()) == (now.ino(), now.dev()))
    }

    /// Whether its files have all the memory that they need, whatever others fill.
    #[must_use]
    pub fn is_allocated(&self) -> bool {
        const BLOCK_BYTES: u64 = 512;
        let is_whole = |mapping: &Mapping| {
            let metadata = mapping.file().metadata();
            metadata.is_ok_and(|metadata| metadata.blocks() * BLOCK_BYTES >= mapping.len() as u64)
        };
        is_whole(&self.resources) && is_whole(&self.threads)
    }

    /// Enters this process into the ledger. `None` when it may only read, or the ledger is full even
    /// after dead processes were taken out.
    #[must_use]
    pub fn enter(&self) -> Option<Process> {
        let ledger = self.ledger()?;
        let me = own_identity()?;
        ledger.enter(&me)
    }

    /// Takes the threads of dead processes off. `None` when somebody else does just that.
    pub fn sweep(&self, me: Process) -> Option<Swept> {
        let own = own_identity()?;
        self.ledger()?.sweep(me, |owner| life(owner, &own))
    }

    fn tree_header(&self) -> &TreeHeader {
        // SAFETY: opening checked the length; what changes in it are atomics.
        unsafe { self.resources.header() }
    }

    fn threads_header(&self) -> &ThreadsHeader {
        // SAFETY: as above.
        unsafe { self.threads.header() }
    }

    fn threads(&self) -> &[Threads] {
        // SAFETY: opening checked that the list lies inside the file, aligned to its groups; atomics
        // may be shared, and any bits are a value of theirs.
        unsafe { self.threads.list(self.lists.threads_offset, self.lists.nr_slots) }
    }

    fn resources(&self) -> &[Resources] {
        // SAFETY: as above.
        unsafe { self.resources.list(self.lists.resources_offset, self.lists.nr_slots) }
    }
}
