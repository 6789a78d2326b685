//! A machine as text: a line per node, or per run of nodes that are alike where there are many.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use quartier_model::{Bytes, Cpu, CpuList};

use super::view::{NodeView, View, count, cpu_list, provenance, remote_range};

/// With more nodes than this, nodes that are alike share a line, and distances are summed up.
const NODES_IN_FULL_MAX: usize = 16;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ODD: Style = AnsiColor::Yellow.on_default();

const NR_COLUMNS: usize = 5;

struct Row {
    cells: [String; NR_COLUMNS],
    /// Lacks CPUs or memory.
    is_odd: bool,
}

/// The whole text. `all`: nothing is left out.
pub fn print(view: &View<'_>, all: bool) -> String {
    let in_full = all || view.nodes.len() <= NODES_IN_FULL_MAX;
    let mut text = format!("{BOLD}{}{BOLD:#}: {}\n\n", view.title(), view.summary());
    let rows = if in_full {
        view.nodes.iter().flat_map(rows_of_node).collect()
    } else {
        runs_of_alike(&view.nodes).map(row_of_run).collect::<Vec<_>>()
    };
    let was_folded = rows.len() < view.nodes.len();
    push_table(&mut text, &rows);
    push_rest(&mut text, view);
    push_distances(&mut text, view, in_full);
    if was_folded {
        let _ = writeln!(
            text,
            "{DIM}Nodes that are alike share a line; --all prints each, and all distances.{DIM:#}"
        );
    }
    text
}

fn rows_of_node(node: &NodeView<'_>) -> Vec<Row> {
    let cpus = cpu_list(node.cpus());
    let (cpu_text, cache_text) = match node.caches.as_slice() {
        [] => ("no CPUs".to_owned(), String::new()),
        [cache] => (format!("CPUs {cpus}"), cache.text()),
        caches => (format!("CPUs {cpus}"), count(caches.len(), "cache")),
    };
    let label = format!("node {}", node.os_id);
    let cells = [label, node.memory_text(), cpu_text, cache_text, node.package_text()];
    let is_odd = cpus.is_empty() || node.memory == Some(Bytes(0));
    let mut rows = vec![Row { cells, is_odd }];
    if node.caches.len() > 1 {
        rows.extend(node.caches.iter().map(|cache| {
            let what = if cache.llc.is_none() { "no known cache".into() } else { cache.text() };
            let cpus = format!("     {}", cpu_list(cache.cpus.iter().copied()));
            let cells = [String::new(), String::new(), cpus, what, String::new()];
            Row { cells, is_odd: false }
        }));
    }
    rows
}

/// Runs of neighbours that differ only in their numbers and a little in their memory.
fn runs_of_alike<'a, 'b>(nodes: &'a [NodeView<'b>]) -> impl Iterator<Item = &'a [NodeView<'b>]> {
    nodes.chunk_by(|a, b| {
        let shape = |node: &NodeView<'_>| -> Vec<_> {
            node.caches.iter().map(|cache| (cache.text(), cache.cpus.len())).collect()
        };
        let memory = |node: &NodeView<'_>| node.memory.map(|memory| memory == Bytes(0));
        shape(a) == shape(b) && memory(a) == memory(b)
    })
}

fn row_of_run(run: &[NodeView<'_>]) -> Row {
    if let [node] = run {
        return rows_of_node(node).remove(0);
    }
    let numbers: CpuList = run.iter().map(|node| node.os_id).collect();
    let cpus = cpu_list(run.iter().flat_map(NodeView::cpus));
    let memory = match (run.iter().map(|n| n.memory).min(), run.iter().map(|n| n.memory).max()) {
        (Some(Some(least)), Some(Some(most))) if least != most => format!("{least}–{most} each"),
        _ if run[0].memory.is_some_and(|memory| memory > Bytes(0)) => {
            format!("{} each", run[0].memory_text())
        }
        _ => run[0].memory_text(),
    };
    let cpu_text = match run[0].cpus().count() {
        0 => "no CPUs".to_owned(),
        each => format!("{each} each: {cpus}"),
    };
    let cache_text = match run[0].caches.as_slice() {
        [] => String::new(),
        [cache] if cache.llc.is_none() => String::new(),
        [cache] => format!("{} each", cache.text()),
        caches => format!("{} each", count(caches.len(), "cache")),
    };
    let packages: CpuList =
        run.iter().flat_map(|node| node.packages.iter().map(|package| package.0)).collect();
    let package_text =
        if packages.is_empty() { String::new() } else { format!("packages {packages}") };
    Row {
        is_odd: cpus.is_empty() || run[0].memory == Some(Bytes(0)),
        cells: [format!("nodes {numbers}"), memory, cpu_text, cache_text, package_text],
    }
}

fn push_table(text: &mut String, rows: &[Row]) {
    let width =
        |column: usize| rows.iter().map(|row| row.cells[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; NR_COLUMNS] = std::array::from_fn(width);
    for row in rows {
        let style = if row.is_odd { ODD } else { Style::new() };
        let [label, memory, rest @ ..] = &row.cells;
        let mut line = format!("{label:<0$}  {memory:>1$}", widths[0], widths[1]);
        for (cell, width) in rest.iter().zip(&widths[2..]).filter(|(_, width)| **width > 0) {
            let _ = write!(line, "  {cell:<width$}");
        }
        let _ = writeln!(text, "{style}{}{style:#}", line.trim_end());
    }
}

/// Offline CPUs, and CPUs of no known node.
fn push_rest(text: &mut String, view: &View<'_>) {
    let list = |filter: fn(&&Cpu) -> bool| cpu_list(view.machine.cpus().iter().filter(filter));
    let offline = list(|cpu| !cpu.online);
    let homeless = list(|cpu| cpu.online && cpu.node.is_none());
    for (what, cpus) in [("offline", offline), ("of no known node", homeless)] {
        if !cpus.is_empty() {
            let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
            let _ = writeln!(text, "{ODD}{what}: {noun} {cpus}{ODD:#}");
        }
    }
}

fn push_distances(text: &mut String, view: &View<'_>, in_full: bool) {
    let distances = view.machine.distances();
    let Some((least, greatest)) = remote_range(distances) else { return };
    let _ = write!(text, "\n{BOLD}Distances{BOLD:#} ({})", provenance(distances));
    if !in_full {
        let range =
            if least == greatest { least.to_string() } else { format!("{least} to {greatest}") };
        let _ = writeln!(text, ": 10 within a node, {range} between nodes");
        return;
    }
    text.push('\n');
    let ids: Vec<_> = view.nodes.iter().map(|node| node.os_id.to_string()).collect();
    let width = ids.iter().map(String::len).max().unwrap_or(0).max(3);
    let _ = write!(text, "{DIM}{:width$} →", "");
    for id in &ids {
        let _ = write!(text, " {id:>width$}");
    }
    let _ = writeln!(text, "{DIM:#}");
    for (at, (id, row)) in ids.iter().zip(&distances.rows).enumerate() {
        let _ = write!(text, "{DIM}{id:>width$}{DIM:#}  ");
        for (to, distance) in row.iter().enumerate() {
            let style = if to == at { DIM } else { Style::new() };
            let _ = write!(text, " {style}{:>width$}{style:#}", distance.0);
        }
        text.push('\n');
    }
}
