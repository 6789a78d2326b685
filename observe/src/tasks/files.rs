//! Small files of /proc, read again and again into one buffer.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is read of a file at most. A task's files have a few KiB; its list of mappings may have megabytes.
const BYTES_MAX: usize = 4 << 20;

/// A reader of files below a root.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    buffer: Vec<u8>,
}

impl Files {
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), buffer: vec![0; 4096] }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Opens a file that is to be read often; `None` if it is not there, or may not be read.
    pub fn open(&self, path: &str) -> Option<File> {
        File::open(self.path(path)).ok()
    }

    /// What is in a file now; `None` if its task has ended.
    pub fn read_open(&mut self, file: &File) -> io::Result<Option<&[u8]>> {
        let mut filled = 0;
        loop {
            match file.read_at(&mut self.buffer[filled..], filled as u64) {
                Ok(0) => return Ok(Some(&self.buffer[..filled])),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            // A short file of /proc comes in one piece.
            if filled < self.buffer.len() && filled < 4096 {
                return Ok(Some(&self.buffer[..filled]));
            }
            if filled == self.buffer.len() {
                if filled >= BYTES_MAX {
                    return Err(io::Error::from(ErrorKind::FileTooLarge));
                }
                self.buffer.resize(2 * filled, 0);
            }
        }
    }

    /// The same of a file that is not kept open.
    pub fn read(&mut self, path: &str) -> io::Result<Option<&[u8]>> {
        match File::open(self.path(path)) {
            Ok(file) => self.read_open(&file),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The numbers that are names in a directory: processes, or a process's threads, rising; none if it is gone.
    pub fn numbers(&self, path: &str, into: &mut Vec<u32>) {
        into.clear();
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return };
        let number = |entry: io::Result<std::fs::DirEntry>| -> Option<u32> {
            entry.ok()?.file_name().to_str()?.parse().ok()
        };
        into.extend(entries.filter_map(number));
        into.sort_unstable();
    }
}

/// A task that ended, before its file was opened or after.
fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}
