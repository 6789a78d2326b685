//! Settings of the kernel that others see too: written down before they are changed, and taken back.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the journal.
const FORMAT: u32 = 1;

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    path: PathBuf,
    before: String,
    after: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    format: u32,
    changes: Vec<Change>,
}

/// What could not be set, or not be taken back.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum SettingError {
    #[error("{} cannot be set to {value}: {cause}", .path.display())]
    Set { path: PathBuf, value: String, cause: std::io::Error },
    #[error(
        "{} was set to {found} by somebody else since, so it stays; before it was {before}", .path.display()
    )]
    Others { path: PathBuf, found: String, before: String },
    #[error("the journal {} cannot be written, so nothing was set: {cause}", .path.display())]
    Journal { path: PathBuf, cause: std::io::Error },
    #[error("the journal {} cannot be read: {why}; what it says is to be set by hand", .path.display())]
    Unreadable { path: PathBuf, why: String },
}

/// Sets files below `root`. What they were is in the journal before the first of them is changed. Those that are as they should
/// be stay out of it. Gives how many were changed.
///
/// # Errors
/// When the journal cannot be written. What else cannot be set is told to `complain`.
pub fn apply(
    root: &Path,
    settings: &[(String, String)],
    journal: &Path,
    mut complain: impl FnMut(SettingError),
) -> Result<usize, SettingError> {
    let mut changes = Vec::new();
    for (path, value) in settings {
        let path = root.join(path);
        match fs::read_to_string(&path) {
            Ok(before) if is_same(&before, value) => {}
            Ok(before) => {
                let before = before.trim().to_owned();
                changes.push(Change { path, before, after: value.clone() });
            }
            Err(cause) => complain(SettingError::Set { path, value: value.clone(), cause }),
        }
    }
    let text = serde_json::to_string(&Journal { format: FORMAT, changes: changes.clone() });
    let written = text.map_err(std::io::Error::other).and_then(|text| {
        let new = journal.with_extension("new");
        let mut options = OpenOptions::new();
        // Who may write to it says what is set when it is undone.
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, journal)
    });
    written.map_err(|cause| SettingError::Journal { path: journal.to_owned(), cause })?;
    let mut nr_set = 0;
    for Change { path, after, .. } in changes {
        match fs::write(&path, &after) {
            Ok(()) => nr_set += 1,
            Err(cause) => complain(SettingError::Set { path, value: after, cause }),
        }
    }
    Ok(nr_set)
}

/// Takes back what a journal says, in reverse order, but for what somebody else has changed since; then the journal is gone. Gives how many
/// were taken back.
///
/// # Errors
/// When the journal is not one of ours.
pub fn undo(journal: &Path, mut complain: impl FnMut(SettingError)) -> Result<usize, SettingError> {
    let unreadable = |why: String| SettingError::Unreadable { path: journal.to_owned(), why };
    let text = match fs::read_to_string(journal) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let kept: Journal = serde_json::from_str(&text).map_err(|it| unreadable(it.to_string()))?;
    if kept.format != FORMAT {
        return Err(unreadable(format!("it has format {}, not {FORMAT}", kept.format)));
    }
    let mut nr_undone = 0;
    for Change { path, before, after } in kept.changes.into_iter().rev() {
        let found = match fs::read_to_string(&path) {
            Ok(found) => found,
            // The interface is gone, and its settings with it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(cause) => {
                complain(SettingError::Set { path, value: before, cause });
                continue;
            }
        };
        if is_same(&found, &before) {
            continue;
        }
        if !is_same(&found, &after) {
            complain(SettingError::Others { path, found: found.trim().to_owned(), before });
            continue;
        }
        match fs::write(&path, &before) {
            Ok(()) => nr_undone += 1,
            Err(cause) => complain(SettingError::Set { path, value: before, cause }),
        }
    }
    let _ = fs::remove_file(journal);
    Ok(nr_undone)
}

/// The kernel prints masks with as many zeros as it has CPUs.
fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let text = text.trim().replace(',', "");
        text.trim_start_matches('0').to_owned()
    };
    one.trim() == other.trim() || !one.contains('-') && plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("mask"), "00000000,00000000\n").unwrap();
        fs::write(root.path().join("list"), "0-7\n").unwrap();
        fs::write(root.path().join("same"), "0000,0000000f\n").unwrap();
        let journal = root.path().join("journal");
        (root, journal)
    }

    fn settings() -> Vec<(String, String)> {
        [("mask", "3"), ("list", "0-1"), ("same", "f"), ("gone", "1")]
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .to_vec()
    }

    fn text(root: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(root.path().join(name)).unwrap().trim().to_owned()
    }

    #[test]
    fn what_was_set_is_taken_back_and_nothing_else() {
        let (root, journal) = root();
        let mut complaints = Vec::new();
        let nr_set =
            apply(root.path(), &settings(), &journal, |it| complaints.push(it.to_string()));
        assert_eq!((nr_set.unwrap(), complaints.len()), (2, 1), "{complaints:?}");
        let mode = fs::metadata(&journal).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "who writes to it says what is set");
        assert!(complaints[0].contains("gone cannot be set to 1"), "{complaints:?}");
        assert_eq!((text(&root, "mask").as_str(), text(&root, "list").as_str()), ("3", "0-1"));
        let nr_undone = undo(&journal, |it| panic!("{it}")).unwrap();
        assert_eq!((nr_undone, journal.exists()), (2, false));
        assert_eq!(text(&root, "list"), "0-7");
        assert_eq!(text(&root, "same"), "0000,0000000f");
        assert_eq!(undo(&journal, |it| panic!("{it}")).unwrap(), 0, "no journal, nothing to undo");
    }

    #[test]
    fn what_somebody_else_has_set_since_stays() {
        let (root, journal) = root();
        apply(root.path(), &settings(), &journal, |_| ()).unwrap();
        fs::write(root.path().join("list"), "2-3\n").unwrap();
        let mut complaints = Vec::new();
        assert_eq!(undo(&journal, |it| complaints.push(it.to_string())).unwrap(), 1);
        assert!(complaints[0].contains("set to 2-3 by somebody else"), "{complaints:?}");
        assert_eq!(text(&root, "list"), "2-3");
    }

    #[test]
    fn a_journal_that_cannot_be_written_or_read_stops_it() {
        let (root, journal) = root();
        let nowhere = root.path().join("nowhere/journal");
        assert!(apply(root.path(), &settings(), &nowhere, |_| ()).is_err());
        assert_eq!(text(&root, "list"), "0-7");
        fs::write(&journal, "{}").unwrap();
        let refused = undo(&journal, |_| ()).unwrap_err().to_string();
        assert!(refused.contains("to be set by hand"), "{refused}");
    }
}
