//! `--copy-root`: a folder on each copy's node, in memory, kept in step with the original.
//!
//! A copy sees the folder by a link. What changes makes a new tree beside the one that is there, in which all that has not
//! changed is the same files; when each copy has its own the links are changed, each at once. Whoever went through a link before
//! finds all of the tree of then, for some minutes. A tree is written by a thread that is bound as its copy is, so its pages are
//! where the copy runs (tmpfs: of the memory policy of whoever writes).

mod changes;
mod listing;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quartier_steer::Binding;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::status::RootStatus;
use crate::say;
use changes::Changes;
use listing::Listing;
use tree::{Patience, Tree, Unmade};

/// Whoever went through a link finds its tree for so long (PHP keeps where links led to for two minutes).
const KEPT: Duration = Duration::from_secs(180);
/// A folder that changes while it is copied is copied again so often before files are taken as they come.
const TRIES: usize = 5;
/// After this, that it is copied is said.
const SAID_AFTER: Duration = Duration::from_secs(2);
/// After so many there is an end of it.
const TRIES_MAX: usize = 50;
/// What could not be done is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// Also where the kernel tells of changes it is looked for them so often.
const LOOK_AFTER: Duration = Duration::from_secs(60);

/// What is copied.
#[derive(Clone, Debug)]
pub struct Original {
    /// As it was given: where it leads may change.
    pub path: PathBuf,
    /// Below it, what stays one for all.
    pub kept: Vec<PathBuf>,
}

impl Original {
    /// # Errors
    /// When something is no path below the folder.
    pub fn new(path: &Path, kept: &[PathBuf]) -> anyhow::Result<Self> {
        for one in kept {
            let is_below = one.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_below || one.as_os_str().is_empty() || !path.join(one).exists() {
                bail!(
                    "--keep-one {}: name something below {}, as it is called from there",
                    one.display(),
                    path.display()
                );
            }
        }
        let path = std::path::absolute(path).context("there is no current folder")?;
        // `a/./b` and `a//b` are `a/b`.
        let kept = kept.iter().map(|one| one.components().collect()).collect();
        Ok(Self { path, kept })
    }
}

/// The folders of all copies, while a `serve` runs.
#[derive(Debug)]
pub struct Roots {
    state: Arc<State>,
    keeper: Option<JoinHandle<()>>,
    folder: PathBuf,
    /// From the unit's directory to the folder, for whoever comes after a `serve` that was killed.
    pointer: PathBuf,
}

#[derive(Debug, Default)]
struct State {
    is_over: Arc<AtomicBool>,
    status: Mutex<RootStatus>,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn status(&self) -> MutexGuard<'_, RootStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A folder for those of all copies, in memory where that is. What a `serve` that was killed has left is removed.
///
/// # Errors
/// When nothing can be made.
fn make_folder(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let pointer = directory.join("roots");
    let uid = rustix::process::geteuid().as_raw();
    if let Ok(left) = fs::read_link(&pointer) {
        let is_ours = fs::symlink_metadata(&left).is_ok_and(|it| it.is_dir() && it.uid() == uid);
        let is_named_so =
            left.file_name().is_some_and(|it| it.to_string_lossy().starts_with(PREFIX));
        if is_ours && is_named_so {
            tree::remove(&left);
        }
        let _ = fs::remove_file(&pointer);
    }
    let in_memory = Path::new("/dev/shm");
    let at = if in_memory.is_dir() { in_memory } else { directory };
    let mut builder = tempfile::Builder::new();
    let folder = builder.prefix(&format!("{PREFIX}{name}-")).tempdir_in(at);
    let folder =
        folder.with_context(|| format!("cannot make a folder in {}", at.display()))?.keep();
    // Others go through it to what is theirs.
    fs::set_permissions(&folder, Permissions::from_mode(0o711))?;
    symlink(&folder, &pointer).with_context(|| format!("cannot make {}", pointer.display()))?;
    Ok(folder)
}

const PREFIX: &str = "quartier-serve-";

impl Roots {
    /// Makes each copy's folder, and keeps them in step from then on.
    ///
    /// # Errors
    /// When the original cannot be read, or there is no room.
    pub fn begin(
        original: Original,
        (directory, name): (&Path, &str),
        bindings: Vec<Binding>,
    ) -> anyhow::Result<Self> {
        let folder = make_folder(directory, name)?;
        let pointer = directory.join("roots");
        let state = Arc::new(State::default());
        let mut roots =
            Self { state: Arc::clone(&state), keeper: None, folder: folder.clone(), pointer };
        // Who is told to stop while this takes its time removes what was made.
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&state.is_over))
                .context("cannot watch signals")?;
        }
        let copies = bindings.into_iter().enumerate().map(|(copy, binding)| OfCopy {
            binding,
            folder: folder.join(copy.to_string()),
            trees: VecDeque::new(),
        });
        let mut keeper = Keeper {
            original,
            from: PathBuf::new(),
            copies: copies.collect(),
            number: 0,
            changes: Changes::new(),
            looked: Instant::now(),
            state,
        };
        keeper.first()?;
        if !keeper.changes.is_told() {
            say::sentence(
                "--copy-root: the kernel does not tell of all changes, so it is looked for them every 5 s; \
                 raise fs.inotify.max_user_watches",
            );
        }
        let keeps = std::thread::Builder::new().name("roots".to_owned());
        roots.keeper = Some(keeps.spawn(move || keeper.keep()).context("cannot start a thread")?);
        Ok(roots)
    }

    /// Where a copy finds its folder, all the time.
    pub fn of_copy(&self, copy: usize) -> PathBuf {
        self.folder.join(copy.to_string()).join("root")
    }

    pub fn status(&self) -> RootStatus {
        self.state.status().clone()
    }
}

impl Drop for Roots {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        tree::remove(&self.folder);
        let _ = fs::remove_file(&self.pointer);
    }
}

/// The folder of one copy.
#[derive(Debug)]
struct OfCopy {
    binding: Binding,
    folder: PathBuf,
    /// The newest last, with when it came.
    trees: VecDeque<(Tree, Instant)>,
}

impl OfCopy {
    /// The next tree, where nobody sees it yet.
    fn make(
        &self,
        number: u64,
        from: &Path,
        listing: &Arc<Listing>,
        patience: Patience,
    ) -> Result<Tree, Unmade> {
        let before = self.trees.back().map(|(tree, _)| tree);
        let path = self.folder.join(number.to_string());
        let make = || Tree::make(path, from, listing, before, patience);
        quartier_steer::bound(&self.binding, make).map_err(Unmade::Failed)?
    }

    /// From now on the copy sees this one.
    fn show(&mut self, tree: Tree) -> io::Result<()> {
        let new = self.folder.join("new");
        let _ = fs::remove_file(&new);
        symlink(tree.path.file_name().unwrap_or_default(), &new)?;
        fs::rename(&new, self.folder.join("root"))?;
        self.trees.push_back((tree, Instant::now()));
        Ok(())
    }

    /// Removes what nobody should look at any more: a tree is the latest until the next one comes.
    fn forget(&mut self) {
        while let [_, (_, replaced), ..] = self.trees.make_contiguous()
            && replaced.elapsed() > KEPT
            && let Some((old, _)) = self.trees.pop_front()
        {
            tree::remove(&old.path);
        }
    }
}

/// Keeps all folders in step.
#[derive(Debug)]
struct Keeper {
    original: Original,
    /// Where that led when it was looked last.
    from: PathBuf,
    copies: Vec<OfCopy>,
    number: u64,
    changes: Changes,
    looked: Instant,
    state: Arc<State>,
}

impl Keeper {
    fn first(&mut self) -> anyhow::Result<()> {
        for copy in &self.copies {
            fs::create_dir(&copy.folder)
                .with_context(|| format!("cannot make {}", copy.folder.display()))?;
            fs::set_permissions(&copy.folder, Permissions::from_mode(0o711))?;
        }
        let began = Instant::now();
        let what = format!("--copy-root: cannot copy {}", self.original.path.display());
        let listing = self.look().with_context(|| what.clone())?;
        self.check_room(&listing)?;
        self.step(listing).with_context(|| what)?;
        if began.elapsed() > SAID_AFTER {
            say::sentence(&format!(
                "copied {} files to {} copies in {:.1} s",
                self.state.status().files,
                self.copies.len(),
                began.elapsed().as_secs_f64()
            ));
        }
        Ok(())
    }

    /// What is there now.
    fn look(&mut self) -> io::Result<Listing> {
        let path = &self.original.path;
        self.from = path.canonicalize().map_err(|error| listing::named(path, &error))?;
        self.looked = Instant::now();
        let changes = &mut self.changes;
        Listing::of(&self.from, &self.original.kept, |folder| changes.watch(folder))
    }

    /// At most half of what is free is ours to fill.
    fn check_room(&self, listing: &Listing) -> anyhow::Result<()> {
        let needed = listing.bytes().saturating_mul(self.copies.len() as u64);
        let at = self.copies.first().map(|copy| rustix::fs::statvfs(&copy.folder)).transpose()?;
        let free = at.map_or(0, |at| at.f_bavail.saturating_mul(at.f_frsize));
        if needed > free / 2 {
            bail!(
                "--copy-root: {} copies of {} would take {}, and half of what is free there is {}: serve a \
                 smaller folder, name what is big with --keep-one, or leave --copy-root out",
                self.copies.len(),
                self.original.path.display(),
                quartier_model::Bytes(needed),
                quartier_model::Bytes(free / 2)
            );
        }
        Ok(())
    }

    /// A tree for each copy, shown when all are there.
    fn step(&mut self, listing: Listing) -> io::Result<()> {
        let mut listing = Arc::new(listing);
        for attempt in 1.. {
            let patience = if attempt > TRIES { Patience::AsItComes } else { Patience::Whole };
            self.number += 1;
            match self.make_all(&listing, patience) {
                Ok(trees) => {
                    for (copy, tree) in self.copies.iter_mut().zip(trees) {
                        copy.show(tree)?;
                    }
                    break;
                }
                Err(Unmade::Changed) if attempt < TRIES_MAX => {
                    std::thread::sleep(Duration::from_millis(50));
                    listing = Arc::new(self.look()?);
                }
                Err(Unmade::Changed) => {
                    return Err(io::Error::other("it changes all the time while it is copied"));
                }
                Err(Unmade::Failed(error)) => return Err(error),
            }
        }
        let mut status = self.state.status();
        status.number += 1;
        status.files = listing.nr_files() as u64;
        status.bytes = listing.bytes();
        status.special = listing.nr_special as u64;
        Ok(())
    }

    fn make_all(&self, listing: &Arc<Listing>, patience: Patience) -> Result<Vec<Tree>, Unmade> {
        let mut trees: Vec<Tree> = Vec::new();
        for copy in &self.copies {
            let made = if self.state.is_over() {
                Err(Unmade::Failed(io::Error::new(ErrorKind::Interrupted, "told to stop")))
            } else {
                copy.make(self.number, &self.from, listing, patience)
            };
            match made {
                Ok(tree) => trees.push(tree),
                Err(error) => {
                    trees.iter().for_each(|tree| tree::remove(&tree.path));
                    return Err(error);
                }
            }
        }
        Ok(trees)
    }

    fn keep(mut self) {
        let state = Arc::clone(&self.state);
        let mut not_before = Instant::now();
        while !state.is_over() {
            let has_changed = self.changes.wait(|| state.is_over());
            let is_due = has_changed || self.is_time_to_look();
            if !state.is_over() && is_due && Instant::now() >= not_before {
                let followed = self.follow();
                if followed.is_err() {
                    not_before = Instant::now() + AGAIN;
                }
                self.tell(followed.err());
            }
            self.copies.iter_mut().for_each(OfCopy::forget);
        }
    }

    /// Though the kernel has told of nothing.
    fn is_time_to_look(&self) -> bool {
        let leads_elsewhere =
            || self.original.path.canonicalize().ok().as_ref() != Some(&self.from);
        !self.changes.is_told()
            || self.looked.elapsed() >= LOOK_AFTER
            || self.state.status().not_in_step.is_some()
            || leads_elsewhere()
    }

    /// If something has changed.
    fn follow(&mut self) -> io::Result<()> {
        let listing = self.look()?;
        let is_same =
            |copy: &OfCopy| copy.trees.back().is_some_and(|(tree, _)| *tree.listing == listing);
        if self.copies.iter().all(is_same) { Ok(()) } else { self.step(listing) }
    }

    /// What keeps copies from being in step is said once.
    fn tell(&self, error: Option<io::Error>) {
        let why = error.map(|error| error.to_string());
        let mut status = self.state.status();
        if let Some(why) = why.as_ref().filter(|why| status.not_in_step.as_ref() != Some(why)) {
            say::sentence(&format!("--copy-root: what changed does not reach the copies: {why}"));
        }
        status.not_in_step = why;
    }
}
