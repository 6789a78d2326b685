//! Files that a command writes when its work is done.
//!
//! Such a file is opened before the work, so that one that cannot be written is refused at once. What
//! lies there already stays until the new text is: if the work is refused or interrupted, the old text
//! is the only one there is. A file that the opening made, and that was never written, is taken away.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

/// A file that is written at the end.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    /// The opening made it, and it is still empty.
    is_new: bool,
}

impl Output {
    /// Opens a file, or makes one.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path).map(|f| (f, true))
            }
            opened => opened.map(|file| (file, false)),
        };
        let (file, is_new) = opened.map_err(|error| refused(path, error))?;
        Ok(Self { path: path.to_owned(), file, is_new })
    }

    /// Makes a file, and opens none that is there.
    pub fn create_new(path: &Path) -> anyhow::Result<Self> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), file, is_new: true }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{} exists already: give another name, or --force to replace it",
                path.display()
            ),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Puts the text there, and nothing else.
    pub fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.replace(text).with_context(|| cannot_write(&self.path))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        self.is_new = false;
        let opened = self.file.metadata()?;
        if !opened.is_file() {
            return self.file.write_all(text.as_bytes());
        }
        // The work may have removed or replaced it (`make clean`): the text goes where it was asked for.
        if !fs::metadata(&self.path).is_ok_and(|now| is_same(&now, &opened)) {
            self.file = create(&self.path)?;
        }
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let is_ours = |now: Metadata| {
            now.len() == 0 && self.file.metadata().is_ok_and(|opened| is_same(&now, &opened))
        };
        if self.is_new && fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn refused(path: &Path, error: io::Error) -> anyhow::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.exists()) {
        Some(folder) => {
            let folder = folder.display();
            anyhow!(
                "{}: there is no folder {folder}; make it or write elsewhere",
                cannot_write(path)
            )
        }
        None => anyhow::Error::new(error).context(cannot_write(path)),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_there_stays_until_the_new_text_is() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        fs::write(&old, "what was there, and is longer").unwrap();
        drop((Output::open(&old).unwrap(), Output::open(&new).unwrap()));
        assert_eq!(read(&old), "what was there, and is longer");
        assert!(!new.exists(), "an empty file was left");
        for path in [&old, &new] {
            Output::open(path).unwrap().write("text").unwrap();
            assert_eq!(read(path), "text");
        }
        assert!(Output::create_new(&old).unwrap_err().to_string().contains("--force"));
        assert_eq!(read(&old), "text");
        drop(Output::create_new(&dir.path().join("newer")).unwrap());
        assert!(!dir.path().join("newer").exists());
    }

    #[test]
    fn a_file_that_was_replaced_meanwhile_is_written_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        for replace in [
            |path: &Path| fs::remove_file(path),
            |path: &Path| {
                fs::remove_file(path)?;
                fs::write(path, "a longer text of the program's own")
            },
        ] {
            let output = Output::open(&path).unwrap();
            replace(&path).unwrap();
            output.write("report").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "report");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        for (path, why) in
            [("/nonexistent/x", "there is no folder /nonexistent"), ("/proc/self", "")]
        {
            let error = Output::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write {path}")), "{error}");
            assert!(error.contains(why), "{error}");
        }
        assert!(Output::open(Path::new("/dev/full")).unwrap().write("text").is_err());
    }
}
