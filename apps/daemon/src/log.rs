//! The decision log: JSON lines, in a file that is begun anew when it has grown; the one before stays beside it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use quartier_decide::reporter::log::Line;

/// A file is no larger than this, and there are two.
const BYTES_MAX: u64 = 32 << 20;

/// A log that is open.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    len: u64,
}

impl Log {
    /// Begins a log. What is in the file becomes the one before.
    pub fn begin(path: &Path, begin: &Line) -> anyhow::Result<Self> {
        if path.exists() {
            let before = before(path);
            std::fs::rename(path, &before)
                .with_context(|| format!("cannot rename the log to {}", before.display()))?;
        }
        let file = File::create(path)
            .with_context(|| format!("cannot write the decision log {}", path.display()))?;
        let mut log = Self { path: path.to_owned(), file: BufWriter::new(file), len: 0 };
        log.write(begin)?;
        Ok(log)
    }

    /// Whether it is time to begin anew.
    pub fn is_full(&self) -> bool {
        self.len >= BYTES_MAX
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&mut self, line: &Line) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.len += text.len() as u64;
        self.file
            .write_all(&text)
            .and_then(|()| self.file.flush())
            .with_context(|| format!("cannot write the decision log {}", self.path.display()))
    }
}

/// `decisions.jsonl` becomes `decisions.jsonl.1`.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
