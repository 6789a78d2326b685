//! The decision tree as text. In a large one neighbours of the same shape share a line, unless all
//! are asked for.

use std::fmt::Write;

use anstyle::Style;
use quartier_decide::dqdt::ClusterId;

use super::super::names::Names;
use super::{Folded, summary, title};

/// With more clusters than this, those that are alike share a line.
const CLUSTERS_IN_FULL_MAX: usize = 64;

const DIM: Style = Style::new().dimmed();

const TERMS: &str = "\
Level 0: a leaf of at most four CPUs; each higher level groups at most four lower clusters.
Home: the node that distances to the cluster count from.
Updated by: the CPU that renews its U (usage) and M (free memory). Its T (threads) needs no such
CPU: whoever places a thread counts it.
";

struct Row {
    label: String,
    level: u8,
    keepers: Folded,
}

/// The whole text. `all`: every cluster has its line.
pub fn print(names: &Names<'_>, all: bool) -> String {
    let all = all || names.tree.clusters().len() <= CLUSTERS_IN_FULL_MAX;
    let mut rows = Vec::new();
    push_cluster(&mut rows, names, ClusterId::ROOT, all, ("", ""));
    let mut text = format!("{}: decision tree of {}\n", title(names), summary(names));
    push_table(&mut text, &rows);
    text.push('\n');
    if !all {
        text += "Clusters that are alike share a line; --all prints each.\n";
    }
    text + TERMS
}

/// A cluster with all below it. `branch` stands before its own line, `indent` before the others'.
fn push_cluster(
    rows: &mut Vec<Row>,
    names: &Names<'_>,
    id: ClusterId,
    all: bool,
    (branch, indent): (&str, &str),
) {
    rows.push(row(names, &[id], branch));
    let groups = names.alike_children(id, all);
    for (at, group) in groups.iter().enumerate() {
        let (first, more) = (group[0], &group[1..]);
        let is_last = at + 1 == groups.len();
        let [last_branch, last_below] =
            if is_last { ["└─ ", "   "] } else { ["├─ ", "│  "] };
        let [branch, below] =
            if more.is_empty() { [last_branch, last_below] } else { ["├─ ", "│  "] };
        let lines = (format!("{indent}{branch}"), format!("{indent}{below}"));
        push_cluster(rows, names, first, all, (&lines.0, &lines.1));
        if !more.is_empty() {
            rows.push(row(names, more, &format!("{indent}{last_branch}")));
        }
    }
}

fn row(names: &Names<'_>, ids: &[ClusterId], branch: &str) -> Row {
    let keepers = Folded::new(names, ids);
    let more = if ids.len() > 1 { format!("{} more alike: ", ids.len()) } else { String::new() };
    let label = format!("{branch}{more}{}", keepers.members);
    Row { label, level: names.tree.cluster(ids[0]).level(), keepers }
}

fn push_table(text: &mut String, rows: &[Row]) {
    let width = |cell: fn(&Row) -> &str| {
        rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0)
    };
    let label = width(|row| &row.label);
    let homes = width(|row| &row.keepers.homes).max("home".len());
    let _ = writeln!(text, "{DIM}{:label$}  level  {:homes$}  updated by{DIM:#}", "", "home");
    for Row { label: cell, level, keepers } in rows {
        let Folded { homes: home, updaters, .. } = keepers;
        let _ = writeln!(text, "{cell:label$}  {level:>5}  {home:homes$}  {updaters}");
    }
}
