//! `quartier serve status`: what a running `serve` last wrote down.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use quartier_model::Bytes;
use serde::{Deserialize, Serialize};

use super::instance::Which;
use super::places::Per;
use super::spills::Because;
use super::{instance, metrics};

/// Raised when a reader of the old form would go wrong.
pub const STATUS_FORMAT: u32 = 1;

/// Of all copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`STATUS_FORMAT`].
    pub format: u32,
    /// What it is called.
    pub name: String,
    /// The process that runs the copies.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When this was written.
    pub unix_ms: u64,
    /// Why the kernel's own hashing chooses the copy; `None`: our program does.
    pub why_not_steered: Option<String>,
    /// Where the copies listen.
    pub addresses: Vec<String>,
    /// What receives connections together, and has copies.
    #[serde(default)]
    pub per: Per,
    /// In order of their numbers.
    pub copies: Vec<CopyStatus>,
    /// New connections, by who received them: rows in order of domains, columns of copies.
    pub domains: Vec<DomainStatus>,
    /// Connections that our program left to the kernel's hashing.
    pub left_to_kernel: Option<u64>,
    /// What was asked for and is not done, with the reason.
    pub notes: Vec<String>,
    /// Of the folder that each copy has for itself; `None`: that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootStatus>,
    /// Of the decision tree that programs share; `None`: whoever wrote this knew none.
    #[serde(default)]
    pub tree: Option<TreeStatus>,
}

/// Of the decision tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeStatus {
    /// Where the one is that is used; `None`: none is.
    pub directory: Option<String>,
    /// Why none is used.
    pub why_not: Option<String>,
    /// How long ago U was renewed; `None`: never.
    pub usage_age_ms: Option<u64>,
    /// Whether U is renewed in time, and so taken for how busy CPUs are; else that is looked at.
    pub takes_usage: bool,
    /// Whether quartierd counts threads there too: then those of the copies that are busy by themselves are left to it.
    pub beside_quartierd: bool,
}

/// Of `--copy-root`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootStatus {
    /// How often all copies were given a new tree, the first time too.
    pub number: u64,
    /// Of each copy.
    pub files: u64,
    /// Of each copy, in whole pages.
    pub bytes: u64,
    /// Sockets, pipes and devices: they have no copies.
    pub special: u64,
    /// Why what changed has not reached the copies; `None`: it has.
    pub not_in_step: Option<String>,
}

/// Of one copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Its number.
    pub copy: usize,
    /// Its node, by the kernel's number.
    pub node: u32,
    /// Its CPUs.
    pub cpus: String,
    /// Its first process.
    pub pid: Option<u32>,
    /// `serves`, or why it gets no connections.
    pub state: String,
    /// How often it was started again after it had ended.
    pub restarts: u64,
    /// Its load: the part of the time its CPUs are busy, and what waits.
    pub load: Option<f64>,
    /// The part of its own domain's connections that goes elsewhere.
    pub spilled_part: f64,
    /// Why.
    pub spills_because: Option<String>,
    /// Connections that wait to be accepted.
    pub waiting: Option<u32>,
    /// Connections that are open.
    pub open: Option<u32>,
    /// Connections that it was given.
    pub given: Option<u64>,
    /// Of these, from its own domain.
    pub given_local: Option<u64>,
    /// Connections that had waited at another copy.
    pub moved_here: Option<u64>,
    /// T: threads that the decision tree counts on the CPUs that the copy may use.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Of these, its own.
    #[serde(default)]
    pub own_threads: Option<usize>,
    /// U: how busy these CPUs are by the tree, as it was renewed last.
    #[serde(default)]
    pub usage_percent: Option<f64>,
    /// How long its threads ran so far, all together.
    #[serde(default)]
    pub ran_s: Option<f64>,
    /// How long they waited for a CPU while others had it. Both together, by the time that passes, is how many of them are active.
    #[serde(default)]
    pub waited_s: Option<f64>,
}

/// Of CPUs that receive together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainStatus {
    /// The node, by the kernel's number.
    pub node: u32,
    /// Its CPUs.
    pub cpus: String,
    /// New connections that were received here, by the copy that they were given to.
    pub given_to: Vec<u64>,
    /// Of those, what went to copies of other domains, by the reason; `None`: nobody counts.
    #[serde(default)]
    pub given_away: Option<BTreeMap<Because, u64>>,
}

impl Status {
    /// The part of all new connections that is served in the domain that received them.
    #[must_use]
    pub fn local_share(&self) -> Option<f64> {
        let local: u64 = self.copies.iter().map(|copy| copy.given_local).sum::<Option<u64>>()?;
        let given: u64 = self.copies.iter().map(|copy| copy.given).sum::<Option<u64>>()?;
        let all = given + self.left_to_kernel?;
        (all > 0).then(|| local as f64 / all as f64)
    }
}

const EXAMPLES: &str = "\
Examples:
  quartier serve status
      Connections and load of each copy, and why anything is not done
  quartier serve status --json | jq '.copies[].given'
  quartier serve status --name wiki --metrics
      Of the one with this name, for a collector of metrics

Exit status: 0; 2 if no `quartier serve` runs, or several do and none is named.";

/// Options of `quartier serve status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// As OpenMetrics text, as in the file `metrics` beside the status
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let directory = find(&instance::base(), self.which.name.as_deref())?;
        let status = read(&directory)?;
        let text = match (self.json, self.metrics) {
            (true, _) => serde_json::to_string_pretty(&status)? + "\n",
            (_, true) => metrics::text(&status),
            _ => text(&status),
        };
        use std::io::Write as _;
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    }
}

/// The directory of the one that is asked for, or the only one that runs.
fn find(base: &Path, name: Option<&str>) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut running: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| instance::is_running(path)).collect();
    running.sort();
    let name_of =
        |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<_> = running.iter().map(name_of).collect();
    let remedy = "start one with `quartier serve -- CMD`, as the same user";
    match name {
        Some(name) => match running.iter().find(|path| name_of(path) == name) {
            Some(path) => Ok(path.clone()),
            None if names.is_empty() => bail!("no `quartier serve` runs here: {remedy}"),
            None => {
                bail!("no `quartier serve` named {name} runs here; there is {}", names.join(", "))
            }
        },
        None => match running.as_slice() {
            [path] => Ok(path.clone()),
            [] => bail!("no `quartier serve` runs here: {remedy}"),
            _ => bail!("several run here: say which with --name: {}", names.join(", ")),
        },
    }
}

/// What it last wrote.
fn read(directory: &Path) -> anyhow::Result<Status> {
    let path = directory.join("status.json");
    let text = fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}: it has only just been started, so try again", path.display())
    })?;
    let status: Status = serde_json::from_str(&text)
        .with_context(|| format!("{} is of another version of quartier", path.display()))?;
    if status.format != STATUS_FORMAT {
        bail!(
            "{} has format {}, and this quartier reads {STATUS_FORMAT}: restart the one that serves",
            path.display(),
            status.format
        );
    }
    Ok(status)
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

impl RootStatus {
    /// For people, in lines.
    fn text(&self) -> String {
        let changed = match self.number.saturating_sub(1) {
            0 => "nothing has changed since the start".to_owned(),
            1 => "what changed has come to them once".to_owned(),
            times => format!("what changed has come to them {times} times"),
        };
        let Self { files, bytes, special, .. } = self;
        let mut text =
            format!("each copy has {files} files for itself, {}; {changed}\n", Bytes(*bytes));
        if *special > 0 {
            let _ = writeln!(text, "{special} sockets, pipes and devices have no copies");
        }
        if let Some(why) = &self.not_in_step {
            let _ = writeln!(text, "what changed does not reach the copies: {why}");
        }
        text
    }
}

impl TreeStatus {
    /// For people, in a line.
    fn text(&self) -> String {
        let Some(directory) = &self.directory else {
            return self.why_not.clone().unwrap_or_else(|| "no decision tree is used".to_owned());
        };
        let usage = match (self.usage_age_ms, self.takes_usage) {
            (Some(age), true) => format!("U was renewed {age} ms ago"),
            (Some(age), false) => format!(
                "U was renewed {:.1} s ago, too seldom to steer by: how busy CPUs are is looked at",
                age as f64 / 1000.0
            ),
            (None, _) => "nobody renews U: how busy CPUs are is looked at".to_owned(),
        };
        let beside = if self.beside_quartierd { "; quartierd counts there too" } else { "" };
        format!("decision tree {directory}: {usage}{beside}")
    }
}

/// For people.
fn text(status: &Status) -> String {
    let mut text = format!(
        "{} (process {}) on {}\n",
        status.name,
        status.pid,
        if status.addresses.is_empty() {
            "no port".to_owned()
        } else {
            status.addresses.join(", ")
        }
    );
    let local = status.local_share();
    let _ = match (&status.why_not_steered, local) {
        (Some(why), _) => writeln!(text, "connections are not steered: {why}"),
        (None, Some(local)) => writeln!(
            text,
            "{:.1} % of connections served on the {} that received them",
            100.0 * local,
            status.per.word()
        ),
        (None, None) => writeln!(text, "no connection yet"),
    };
    if let Some(tree) = &status.tree {
        let _ = writeln!(text, "{}", tree.text());
    }
    let head = [
        "copy",
        "node",
        "cpus",
        "pid",
        "load",
        "T",
        "own",
        "U",
        "ran s",
        "held up s",
        "waits",
        "open",
        "given",
        "local",
        "moved",
    ];
    const WIDTHS: [usize; 15] = [4, 4, 8, 8, 5, 4, 3, 5, 9, 9, 5, 6, 9, 9, 6];
    let row = |words: [String; 15]| {
        let padded = words.iter().zip(WIDTHS).map(|(word, width)| format!("{word:>width$}"));
        padded.collect::<Vec<_>>().join(" ")
    };
    let _ = writeln!(text, "{}  state", row(head.map(str::to_owned)));
    for copy in &status.copies {
        let words = [
            copy.copy.to_string(),
            copy.node.to_string(),
            copy.cpus.clone(),
            copy.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            or_unknown(copy.load.map(|load| format!("{load:.2}"))),
            or_unknown(copy.threads),
            or_unknown(copy.own_threads),
            or_unknown(copy.usage_percent.map(|usage| format!("{usage:.0} %"))),
            or_unknown(copy.ran_s.map(|ran| format!("{ran:.1}"))),
            or_unknown(copy.waited_s.map(|waited| format!("{waited:.1}"))),
            or_unknown(copy.waiting),
            or_unknown(copy.open),
            or_unknown(copy.given),
            or_unknown(copy.given_local),
            or_unknown(copy.moved_here),
        ];
        let because = copy.spills_because.as_ref().map(|why| format!(", {why}"));
        let restarts = match copy.restarts {
            0 => String::new(),
            1 => ", restarted once".to_owned(),
            times => format!(", restarted {times} times"),
        };
        let _ = writeln!(
            text,
            "{}  {}{}{restarts}",
            row(words),
            copy.state,
            because.unwrap_or_default()
        );
    }
    for domain in &status.domains {
        for (because, nr) in domain.given_away.iter().flatten() {
            let DomainStatus { node, cpus, .. } = domain;
            let _ = writeln!(
                text,
                "node {node} (CPUs {cpus}): {nr} connections went elsewhere ({})",
                because.word()
            );
        }
    }
    if let Some(root) = &status.root {
        text += &root.text();
    }
    for note in &status.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
