//! One frame as a plain table, for pipes and files.

use std::fmt::Write;

use anstyle::Style;
use quartier_decide::reporter::view::View;
use quartier_observe::printable;

use super::rows::{Column, MOVES, NODES, TASKS, fit, numbers};
use super::state::Sort;
use crate::explain::words::{Words, time};

const BOLD: Style = Style::new().bold();
/// Events are many; `--json` has them all.
const MOVES_MAX: usize = 20;

/// All nodes, all tasks, and the latest moves, the latest first.
pub fn text(view: &View) -> String {
    let nodes = numbers(view);
    let words = Words { nodes: &nodes, at: view.at, settings: view.settings.as_ref() };
    let applies =
        if view.applies { "moves threads and pages" } else { "only says what it would do" };
    let mut text = format!(
        "{BOLD}quartierd {}{BOLD:#}: {applies}; {} ran or waited in the last {}\n\n",
        printable(&view.version),
        match view.processes.len() {
            1 => "1 process".to_owned(),
            nr => format!("{nr} processes"),
        },
        time(view.window),
    );
    push(&mut text, &NODES, words, &view.nodes.iter().collect::<Vec<_>>());
    text.push('\n');
    let mut tasks: Vec<_> = view.processes.iter().collect();
    tasks.sort_by(|a, b| Sort::Running.compare(a, b));
    push(&mut text, &TASKS, words, &tasks);
    let moves: Vec<_> = view.events.iter().rev().take(MOVES_MAX).collect();
    if !moves.is_empty() {
        text.push('\n');
        push(&mut text, &MOVES, words, &moves);
    }
    text
}

fn push<T>(text: &mut String, columns: &[Column<T>], words: Words<'_>, rows: &[&T]) {
    let table = fit(columns, words, rows, usize::MAX);
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}", table.heads(columns).trim_end());
    for cells in &table.cells {
        let _ = writeln!(text, "{}", table.padded(columns, cells).concat().trim_end());
    }
}
