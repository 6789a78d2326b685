//! Every run of a comparison, kept as it ends: a line in one file, and what was counted in another, which
//! `quartier lab count --from` reads too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use quartier_count::{CountedRun, Phase, Policy, Recording, Report};
use serde::{Deserialize, Serialize};

/// Format of the file of lines.
const FORMAT: u32 = 1;
const LINES: &str = "runs.jsonl";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    format: u32,
    /// The command, without what sets a policy.
    pub command: Vec<String>,
    /// CPUs of the guest.
    pub nr_cpus: u32,
}

/// The others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    policy: Policy,
    detail: Option<String>,
    nr_cpus: u32,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// A file of the same folder.
    Recording(PathBuf),
    /// Why there is none.
    Failed(String),
}

/// A folder that runs are added to.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    lines: File,
    nr_lines: usize,
}

impl Journal {
    /// Begins a comparison, in a folder that has none.
    pub fn begin(folder: &Path, command: Vec<String>, nr_cpus: u32) -> anyhow::Result<Self> {
        let shown = folder.display();
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
        let lines = File::options().append(true).create_new(true).open(folder.join(LINES));
        let lines = lines.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => anyhow!(
                "--recordings {shown} has runs of a comparison already: give another folder, or look at \
                 them with --from {shown}"
            ),
            _ => anyhow::Error::new(error).context(format!("cannot write to the folder {shown}")),
        })?;
        let mut journal = Self { folder: folder.to_owned(), lines, nr_lines: 0 };
        journal.write(&Head { format: FORMAT, command, nr_cpus })?;
        Ok(journal)
    }

    /// Adds a run, or why it could not be counted.
    pub fn add(
        &mut self,
        (policy, detail, nr_cpus): (Policy, Option<String>, u32),
        outcome: Result<&Recording, &str>,
    ) -> anyhow::Result<()> {
        let outcome = match outcome {
            Err(why) => Outcome::Failed(why.to_owned()),
            Ok(recording) => {
                let name = recording_of(self.nr_lines);
                let path = self.folder.join(&name);
                fs::write(&path, recording.to_json())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Outcome::Recording(name)
            }
        };
        self.write(&Line { policy, detail, nr_cpus, outcome })
    }

    /// Adds what was counted as an earlier run, by its place among them, for another policy too.
    pub fn add_again(
        &mut self,
        (policy, detail, nr_cpus): (Policy, Option<String>, u32),
        run: usize,
    ) -> anyhow::Result<()> {
        let outcome = Outcome::Recording(recording_of(run + 1));
        self.write(&Line { policy, detail, nr_cpus, outcome })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// At once and in one piece: whoever is interrupted has whole lines.
    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let doing = || format!("cannot write {}", self.folder.join(LINES).display());
        let mut text = serde_json::to_vec(line).with_context(doing)?;
        text.push(b'\n');
        self.lines.write_all(&text).with_context(doing)?;
        self.nr_lines += 1;
        Ok(())
    }
}

/// The file of the run of a line, the first of which is no run.
fn recording_of(line: usize) -> PathBuf {
    PathBuf::from(format!("run-{line:03}.json"))
}

/// What a folder has of a phase: the comparison, and its runs in the order in which they were counted.
pub fn read(folder: &Path, phase: Phase) -> anyhow::Result<(Head, Vec<CountedRun>)> {
    let path = folder.join(LINES);
    let shown = path.display();
    let text = fs::read_to_string(&path).with_context(|| {
        format!("--from {}: cannot read {shown}, which --recordings writes", folder.display())
    })?;
    // What follows the last end of a line was being written when the disk was full.
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let damaged = |error: serde_json::Error| anyhow!("{shown} is damaged ({error}): count again");
    let head = lines.next().ok_or_else(|| anyhow!("{shown} is empty: count again"))?;
    let head: Head = serde_json::from_str(head).map_err(damaged)?;
    if head.format != FORMAT {
        bail!(
            "{shown} has format {}, and this quartier reads format {FORMAT}: read it with the quartier \
             that wrote it, or count again",
            head.format
        );
    }
    let read = |line| serde_json::from_str::<Line>(line).map_err(damaged)?.read(folder, phase);
    Ok((head, lines.map(read).collect::<anyhow::Result<_>>()?))
}

impl Line {
    fn read(self, folder: &Path, phase: Phase) -> anyhow::Result<CountedRun> {
        let Self { policy, detail, nr_cpus, outcome } = self;
        let outcome = match outcome {
            Outcome::Failed(why) => Err(why),
            Outcome::Recording(name) => {
                let path = folder.join(name);
                let bytes =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let recording =
                    Recording::parse(&bytes).with_context(|| path.display().to_string())?;
                Report::new(&recording, phase).map_err(|error| error.to_string())
            }
        };
        Ok(CountedRun { policy, detail, nr_cpus, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(folder: &Path) -> anyhow::Result<Journal> {
        Journal::begin(folder, vec!["p".to_owned()], 8)
    }

    #[test]
    fn what_was_kept_is_read_also_without_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("new/folder");
        let mut journal = begin(&folder).unwrap();
        journal.add((Policy::Numad, None, 4), Err("numad is not installed")).unwrap();
        journal.add((Policy::Hand, Some("taskset".to_owned()), 8), Err("it broke")).unwrap();
        journal.lines.write_all(b"{\"policy\":\"qua").unwrap();
        let (head, runs) = read(&folder, Phase::Whole).unwrap();
        assert_eq!((head.command, head.nr_cpus, runs.len()), (vec!["p".to_owned()], 8, 2));
        assert_eq!((runs[0].policy, runs[0].nr_cpus), (Policy::Numad, 4));
        assert_eq!(runs[1].detail.as_deref(), Some("taskset"));
        assert_eq!(runs[1].outcome.as_ref().unwrap_err(), "it broke");
    }

    #[test]
    fn runs_of_two_comparisons_are_never_in_one_folder() {
        let dir = tempfile::tempdir().unwrap();
        begin(dir.path()).unwrap();
        let refused = begin(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another folder"), "{refused}");
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = || format!("{:#}", read(dir.path(), Phase::Whole).unwrap_err());
        assert!(refused().contains("--recordings"), "{}", refused());
        let head = "{\"format\":1,\"command\":[\"p\"],\"nr_cpus\":8}\n";
        let no_file =
            "{\"policy\":\"hand\",\"detail\":null,\"nr_cpus\":8,\"recording\":\"no.json\"}\n";
        for (text, part) in [
            (String::new(), "is empty"),
            ("{}\n".to_owned(), "is damaged"),
            (head.replace('1', "7"), "has format 7"),
            (format!("{head}[]\n"), "is damaged"),
            (format!("{head}{no_file}"), "cannot read"),
        ] {
            fs::write(dir.path().join(LINES), &text).unwrap();
            let refused = refused();
            assert!(refused.contains(part) && !refused.contains('\n'), "{text}: {refused}");
        }
    }
}
