//! Which decision tree is the one: that in which runs of this user count their threads, as long as it can be trusted for months.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use quartier_decide::dqdt::Tree;
use quartier_shared::{
    Found, Member, SharedError, SharedTree, UserTree, directory_of_user, system_directory,
};

/// Where trees are.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The machine's.
    pub machines: PathBuf,
    /// The user's own.
    pub users: PathBuf,
}

impl Default for Directories {
    fn default() -> Self {
        Self { machines: system_directory(), users: directory_of_user() }
    }
}

impl Directories {
    /// Enters the tree in which runs of this user count their threads: the machine's where he may, else his own.
    pub fn join(&self, tree: &Tree) -> anyhow::Result<Member> {
        let found = match SharedTree::open_for(&self.machines, tree) {
            Ok(shared) if shared.ledger().is_some() => Found::Shared(shared),
            _ => match UserTree::join(&self.users, tree) {
                Err(error @ SharedError::Os { .. }) => bail!(
                    "{error}; mend that, or have `quartier tree serve --threads-mode 660` make one for a group that this user is in"
                ),
                joined => Found::Users(joined?),
            },
        };
        self.check_trust(&found)?;
        let member = Member::enter(found);
        let directory = self.of(member.found()).display();
        ensure!(member.process().is_some(), "too many programs are in {directory} already");
        member.sweep();
        Ok(member)
    }

    /// What serves for months is not to be ended by whoever cuts a file off, or fills a tmpfs.
    fn check_trust(&self, found: &Found) -> anyhow::Result<()> {
        let directory = self.of(found).display();
        let shared = found.shared();
        let everybody = shared.threads_mode().is_none_or(|mode| mode & 0o002 != 0);
        ensure!(
            !everybody,
            "in {directory} everybody may cut off the file `threads`, which would end this; make it anew with `quartier tree serve \
             --threads-mode 660`, for a group"
        );
        ensure!(
            shared.is_allocated(),
            "{directory} was made by an older quartier, which did not take all memory that it needs: where the tmpfs is full that would \
             end this; make it anew"
        );
        Ok(())
    }

    /// Which of the two it was found in.
    pub fn of(&self, found: &Found) -> &Path {
        if matches!(found, Found::Shared(_)) { &self.machines } else { &self.users }
    }

    /// Whether runs that begin now would take this tree too.
    pub fn is_still(&self, found: &Found, tree: &Tree) -> bool {
        match found {
            Found::Shared(shared) => {
                shared.is_in(&self.machines) && self.check_trust(found).is_ok()
            }
            // The machine's may have come meanwhile.
            _ => {
                let machines = SharedTree::open_for(&self.machines, tree);
                !machines.is_ok_and(|machines| machines.ledger().is_some())
            }
        }
    }
}

/// Whether a quartierd counts in the tree of this directory: every thread that is active for half of the time or more.
pub fn is_quartierd_in(directory: &Path) -> bool {
    let threads = format!(" {}", directory.join("threads").display());
    let counts = |process: fs::DirEntry| {
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        name.trim_end() == "quartierd"
            && match fs::read_to_string(process.path().join("maps")) {
                Ok(maps) => maps.lines().any(|line| line.ends_with(&threads)),
                // One that watches only would count nothing, but most are there to act.
                Err(error) => error.kind() == ErrorKind::PermissionDenied,
            }
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().any(counts)
}
