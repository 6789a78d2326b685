//! What is below a folder, and as of when.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// One file, by which it is known whether it is still the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub len: u64,
    pub mode: u32,
    pub owner: (u32, u32),
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    changed: (i64, i64),
    which: (u64, u64),
}

impl Stamp {
    pub fn of(data: &Metadata) -> Self {
        Self {
            len: data.len(),
            mode: data.mode() & 0o7777,
            owner: (data.uid(), data.gid()),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
            which: (data.dev(), data.ino()),
        }
    }

    /// Whatever became of it since.
    pub fn is_of_the_same_file_as(&self, other: &Self) -> bool {
        self.which == other.which
    }
}

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Folder {
        mode: u32,
        owner: (u32, u32),
    },
    File(Stamp),
    /// To where it leads in a copy.
    Link(PathBuf),
}

/// All that is below a folder, by its path from there: a folder before what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: BTreeMap<PathBuf, Entry>,
    /// Sockets, pipes and devices: they have no copies.
    pub nr_special: usize,
}

impl Listing {
    /// Goes through a folder. `kept` leads to the original; `enters` is told of each folder before what is in it is looked at.
    pub fn of(root: &Path, kept: &[PathBuf], mut enters: impl FnMut(&Path)) -> io::Result<Self> {
        let mut listing = Self::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let is_root = folder.as_os_str().is_empty();
            let full = if is_root { root.to_owned() } else { root.join(&folder) };
            enters(&full);
            let found = match fs::read_dir(&full) {
                Ok(found) => found,
                Err(error) if is_gone(&error) && !is_root => continue,
                Err(error) => return Err(named(&full, &error)),
            };
            for item in found {
                let path = folder.join(item.map_err(|error| named(&full, &error))?.file_name());
                let Some(entry) = entry(root, &path, kept)? else { continue };
                match entry {
                    None => listing.nr_special += 1,
                    Some(entry) => {
                        if matches!(entry, Entry::Folder { .. }) {
                            folders.push(path.clone());
                        }
                        listing.entries.insert(path, entry);
                    }
                }
            }
        }
        Ok(listing)
    }

    /// Of all files, in whole pages.
    pub fn bytes(&self) -> u64 {
        const PAGE: u64 = 4096;
        let of = |entry: &Entry| match entry {
            Entry::File(stamp) => stamp.len.div_ceil(PAGE) * PAGE,
            Entry::Folder { .. } | Entry::Link(_) => PAGE,
        };
        self.entries.values().map(of).sum()
    }

    pub fn nr_files(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry, Entry::File(_))).count()
    }
}

/// `None`: it is gone already. `Some(None)`: it has no copy.
#[allow(clippy::option_option)] // Two questions, asked one after the other.
fn entry(root: &Path, path: &Path, kept: &[PathBuf]) -> io::Result<Option<Option<Entry>>> {
    let full = root.join(path);
    if kept.iter().any(|kept| kept == path) {
        return Ok(Some(Some(Entry::Link(full))));
    }
    let seen = fs::symlink_metadata(&full).and_then(|data| {
        Ok(match data.file_type() {
            kind if kind.is_dir() => {
                let stamp = Stamp::of(&data);
                Some(Entry::Folder { mode: stamp.mode, owner: stamp.owner })
            }
            kind if kind.is_file() => Some(Entry::File(Stamp::of(&data))),
            kind if kind.is_symlink() => {
                Some(Entry::Link(leads_to(root, path, &fs::read_link(&full)?)))
            }
            _ => None,
        })
    });
    match seen {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(named(&full, &error)),
    }
}

/// A link that stays below the root leads to the same place of a copy, any other to where it led.
fn leads_to(root: &Path, path: &Path, target: &Path) -> PathBuf {
    let mut depth = path.components().count() - 1;
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir => {
                let from = path.parent().unwrap_or(Path::new(""));
                return root.join(from).join(target);
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    target.to_owned()
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// With the path that it is about.
pub fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leaves_the_folder_leads_to_where_it_led() {
        for (path, target, expected) in [
            ("a", "b", "b"),
            ("x/a", "../b", "../b"),
            ("x/a", "../../b", "/srv/w/x/../../b"),
            ("a", "../b", "/srv/w/../b"),
            ("a", "x/../../w/b", "/srv/w/x/../../w/b"),
            ("a", "/etc/x", "/etc/x"),
        ] {
            let led = leads_to(Path::new("/srv/w"), Path::new(path), Path::new(target));
            assert_eq!(led, Path::new(expected), "{path} -> {target}");
        }
    }

    #[test]
    fn what_changes_is_seen_and_what_is_kept_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("data/x")).unwrap();
        fs::write(root.join("a/b/f"), "1").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("s")).unwrap();
        let kept = [PathBuf::from("data")];
        let mut entered = Vec::new();
        let mut list = || Listing::of(root, &kept, |path| entered.push(path.to_owned())).unwrap();
        let first = list();
        assert_eq!(list(), first);
        assert_eq!((first.entries.len(), first.nr_files(), first.nr_special), (4, 1, 1));
        assert_eq!(first.entries[Path::new("data")], Entry::Link(root.join("data")));
        fs::write(root.join("a/b/f"), "2").unwrap();
        let second = list();
        assert_ne!(second, first);
        assert!(!entered.contains(&root.join("data")), "{entered:?}");
        let none = Listing::of(&root.join("no"), &[], |_| ()).unwrap_err().to_string();
        assert!(none.contains("/no: No such file"), "{none}");
    }
}
