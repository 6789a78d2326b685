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

    /// Whether it is time to begin anew, this being its last line. What comes of a plan's steps is in the same file, most
    /// often.
    pub fn is_full(&self, last: &Line) -> bool {
        let is_awaited = matches!(last, Line::Decided { plan, .. } if !plan.steps.is_empty());
        self.len >= BYTES_MAX && !is_awaited
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

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_model::{Kind, Nanos, Pages, Plan, Snapshot, Step, TaskId};

    fn decided(nr_steps: usize) -> Line {
        let step = Step {
            process: TaskId { id: 1, start_ticks: 1 },
            kind: Kind::Gather,
            threads: Vec::new(),
            others: None,
            pages: Pages::Stay,
            gain: 0.0,
            cost: Nanos(0),
        };
        let plan = Plan { steps: vec![step; nr_steps], ..Plan::default() };
        Line::Decided { snapshot: Snapshot::default(), plan }
    }

    #[test]
    fn it_does_not_grow_for_ever_also_if_nothing_is_to_be_done() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::begin(&folder.path().join("log"), &decided(0)).unwrap();
        assert!(!log.is_full(&decided(0)));
        log.len = BYTES_MAX;
        assert!(log.is_full(&decided(0)) && !log.is_full(&decided(1)));
    }
}
