//! Runs in guests, of whatever: a line of JSON each as soon as it is counted, and a table of all.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const TABLE: &str = "table.txt";
const RESULTS: &str = "table.json";

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome<C> {
    Counted(C),
    /// In a sentence, why not.
    Failed(String),
}

impl<C> Outcome<C> {
    pub fn counts(&self) -> Option<&C> {
        match self {
            Self::Counted(counts) => Some(counts),
            Self::Failed(_) => None,
        }
    }

    /// Why it failed, if it did.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Counted(_) => None,
            Self::Failed(why) => Some(why),
        }
    }
}

/// What a program of this name or the command said of what went wrong; a report may stand around it.
pub fn reason(program: &str, said: &str, status: &str) -> String {
    let is_reason = |line: &&str| {
        [program, "quartier"]
            .iter()
            .any(|who| line.strip_prefix(who).is_some_and(|rest| rest.starts_with(": ")))
    };
    let last = said.lines().rfind(is_reason);
    last.map_or_else(|| format!("it ended with {status}"), |line| format!("{line} ({status})"))
}

/// All that were counted; of no file, none.
pub fn read<R: DeserializeOwned>(counted: &Path) -> anyhow::Result<Vec<R>> {
    let text = if counted.exists() { fs::read_to_string(counted)? } else { String::new() };
    let line = |line| serde_json::from_str(line).with_context(|| format!("no run: {line}"));
    text.lines().map(line).collect()
}

/// Does one task after the other, and adds each to those that are kept as soon as it is done; `progress` is for who waits.
pub fn count<'a, T, R: Serialize + 'a>(
    name: &str,
    counted: &Path,
    kept: impl Iterator<Item = &'a R>,
    tasks: Vec<T>,
    run: impl Fn(T) -> R,
    progress: impl Fn(&R) -> String,
) -> anyhow::Result<()> {
    let lines: Result<Vec<_>, _> = kept.map(|run| serde_json::to_string(run)).collect();
    let kept: String = lines?.into_iter().map(|line| line + "\n").collect();
    fs::write(counted, kept).with_context(|| format!("cannot write {}", counted.display()))?;
    let nr_tasks = tasks.len();
    for (at, task) in tasks.into_iter().enumerate() {
        let done = run(task);
        eprintln!("{name}: {} of {nr_tasks}: {}", at + 1, progress(&done));
        let mut file = OpenOptions::new().append(true).open(counted)?;
        writeln!(file, "{}", serde_json::to_string(&done)?)?;
    }
    Ok(())
}

/// Prints the table, and writes it and what it is made of.
pub fn tell(out: &Path, text: &str, results: &impl Serialize) -> anyhow::Result<()> {
    print!("{text}");
    fs::write(out.join(TABLE), text)?;
    fs::write(out.join(RESULTS), serde_json::to_string_pretty(results)? + "\n")?;
    Ok(())
}
