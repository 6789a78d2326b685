//! A process that uses a tree, whosever it is.

use quartier_decide::dqdt::{Placed, Process, Tree};
use quartier_decide::policy::{Placement, decide};

use crate::user::{UserTree, directory_of_user, system_directory};
use crate::{SharedError, SharedTree};

/// A tree that a process has found.
#[derive(Debug)]
pub enum Found {
    /// One that somebody else made.
    Shared(SharedTree),
    /// The user's own.
    Users(UserTree),
    /// This process's, and of those that inherit its files.
    Private(SharedTree),
}

impl Found {
    /// The machine's tree if this process may place threads by it, else the user's.
    ///
    /// # Errors
    /// As [`UserTree::join`].
    pub fn for_user(tree: &Tree) -> Result<Self, SharedError> {
        match SharedTree::open_for(&system_directory(), tree) {
            Ok(shared) if shared.ledger().is_some() => Ok(Self::Shared(shared)),
            _ => UserTree::join(&directory_of_user(), tree).map(Self::Users),
        }
    }

    /// The tree.
    #[must_use]
    pub fn shared(&self) -> &SharedTree {
        match self {
            Self::Users(users) => users.shared(),
            Self::Shared(shared) | Self::Private(shared) => shared,
        }
    }
}

/// This process in a tree's ledger, until the value is dropped; then nothing of it stays counted.
#[derive(Debug)]
pub struct Member {
    found: Found,
    process: Option<Process>,
}

impl Member {
    /// Enters this process, if it may place threads.
    #[must_use]
    pub fn enter(found: Found) -> Self {
        let process = found.shared().enter();
        Self { found, process }
    }

    /// Whose tree it is.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The tree.
    #[must_use]
    pub fn shared(&self) -> &SharedTree {
        self.found.shared()
    }

    /// This process as the ledger knows it; `None` when it cannot count.
    #[must_use]
    pub fn process(&self) -> Option<Process> {
        self.process
    }

    /// Takes off what processes left that were killed.
    pub fn sweep(&self) {
        if let Some(process) = self.process {
            let _ = self.shared().sweep(process);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let (Some(process), Some(ledger)) = (self.process, self.shared().ledger()) {
            ledger.leave(process);
        }
    }
}

impl SharedTree {
    /// Chooses a CPU, and counts the thread there if there is a process that may: who may only read
    /// decides like everybody else. `None` when no CPU will do.
    ///
    /// # Panics
    /// If the request's set of allowed CPUs was made for another tree.
    #[must_use]
    pub fn place(&self, process: Option<Process>, request: &impl Placement) -> Option<Placed> {
        match (process, self.ledger()) {
            (Some(process), Some(ledger)) => ledger.place(process, request),
            _ => {
                let decision = decide(&self.estimates(), request)?;
                Some(Placed { decision, record: None })
            }
        }
    }
}
