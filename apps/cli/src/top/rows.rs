//! Nodes, tasks and moves as cells; the screen and the plain table show the same.

use quartier_decide::reporter::view::{Event, NodeView, ProcessView, View};
use quartier_model::{Bytes, Intensity, NodeId, NodeOsId};
use quartier_observe::printable;
use ratatui::text::Span;

use crate::explain::words::{self, UNKNOWN, Words, fixed};

/// Between two columns.
const GAP: usize = 2;

/// A column of a table.
pub struct Column<T> {
    pub head: &'static str,
    /// Numbers stand to the right.
    pub is_number: bool,
    /// Where there is not room for all, those with the highest go first.
    rank: u8,
    cell: fn(Words<'_>, &T) -> String,
}

const fn column<T>(
    head: &'static str,
    is_number: bool,
    rank: u8,
    cell: fn(Words<'_>, &T) -> String,
) -> Column<T> {
    Column { head, is_number, rank, cell }
}

/// What the letters mean is said by the help.
pub const NODES: [Column<NodeView>; 9] = [
    column("NODE", true, 0, |_, node| node.os_id.0.to_string()),
    column("CPUS", true, 6, |_, node| node.cpus.to_string()),
    column("M FREE", true, 1, |_, node| bytes(node.free)),
    column("OF", true, 5, |_, node| bytes(node.memory)),
    column("T", true, 2, |_, node| node.seen.threads.to_string()),
    column("U", true, 3, |_, node| percent(node.busy)),
    column("RUN", true, 7, |_, node| fixed(Some(node.seen.running_cpus))),
    column("WAIT", true, 8, |_, node| fixed(Some(node.seen.waiting_cpus))),
    column("PRESSURE", true, 4, |_, node| fixed(Some(node.seen.pressure))),
];

pub const TASKS: [Column<ProcessView>; 14] = [
    column("PID", true, 0, |_, process| process.placed.factors.process.to_string()),
    column("NAME", false, 1, |_, process| printable(&process.name)),
    column("THR", true, 7, |_, process| process.threads.to_string()),
    column("HELD", true, 8, |_, process| process.held.to_string()),
    column("RUN", true, 3, |_, process| fixed(Some(process.placed.factors.running))),
    column("WAIT", true, 9, |_, process| fixed(Some(process.placed.factors.waiting))),
    column("MEM", true, 6, |_, process| bytes(process.resident)),
    column(LOCAL, true, 2, |_, process| percent(process.placed.local)),
    column("REMOTE", true, 10, |_, process| fixed(process.placed.factors.remoteness)),
    column("INTENS", true, 11, |_, process| fixed(words::intensity(process).map(Intensity::value))),
    column("CONT", true, 12, |_, process| fixed(process.placed.factors.contention)),
    column("SPEED", true, 5, |_, process| {
        let speedup = process.decided.as_ref().and_then(|decided| decided.speedup);
        speedup.map_or_else(|| "-".to_owned(), |speedup| format!("{speedup:.2}"))
    }),
    column("RUNS ON", false, 13, |words, process| nodes(words, &process.placed.ran_on)),
    column("DECIDED LAST", false, 4, |words, process| words.decided(process)),
];

/// How much of its running is beside its memory.
pub const LOCAL: &str = "LOCAL";

pub const MOVES: [Column<Event>; 4] = [
    column("AGO", true, 3, |words, event| words::time(words.at - event.at)),
    column("PID", true, 1, |_, event| event.process.to_string()),
    column("NAME", false, 2, |_, event| printable(&event.name)),
    column("MOVE", false, 0, |words, event| words.happened(&event.what)),
];

fn bytes(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| bytes.to_string())
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| UNKNOWN.to_owned(), words::percent)
}

/// The numbers of nodes alone, those with most first.
fn nodes(words: Words<'_>, shares: &[(NodeId, f64)]) -> String {
    let mut shares = shares.to_vec();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names = shares.iter().map(|(node, _)| words.node(*node).replacen("node ", "", 1));
    names.collect::<Vec<_>>().join(",")
}

/// The kernel's numbers of a view's nodes.
pub fn numbers(view: &View) -> Vec<NodeOsId> {
    view.nodes.iter().map(|node| node.os_id).collect()
}

/// A part of a table that fits.
pub struct Fitted {
    /// Which columns.
    pub columns: Vec<usize>,
    pub widths: Vec<usize>,
    /// Of rows, cells of those columns.
    pub cells: Vec<Vec<String>>,
}

/// As many columns as fit into a width, of the best rank; the first of all in any case.
pub fn fit<T>(columns: &[Column<T>], words: Words<'_>, rows: &[&T], width: usize) -> Fitted {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| (column.cell)(words, row)).collect())
        .collect();
    let width_of = |at: usize| {
        let of_cells = cells.iter().map(|row| Span::raw(row[at].as_str()).width());
        of_cells.max().unwrap_or(0).max(columns[at].head.len())
    };
    let widths: Vec<_> = (0..columns.len()).map(width_of).collect();
    let mut by_rank: Vec<_> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&at| columns[at].rank);
    let (mut chosen, mut used) = (Vec::new(), 0);
    for at in by_rank {
        // The last one is text that may be cut.
        let is_cut = at + 1 == columns.len() && !columns[at].is_number;
        let wanted = if is_cut { widths[at].min(12) } else { widths[at] };
        let more = wanted + if chosen.is_empty() { 0 } else { GAP };
        if chosen.is_empty() || used + more <= width {
            chosen.push(at);
            used += more;
        }
    }
    chosen.sort_unstable();
    let of_chosen = |row: &Vec<String>| chosen.iter().map(|&at| row[at].clone()).collect();
    Fitted {
        widths: chosen.iter().map(|&at| widths[at]).collect(),
        cells: cells.iter().map(of_chosen).collect(),
        columns: chosen,
    }
}

impl Fitted {
    /// The heads, as wide as their columns.
    pub fn heads<T>(&self, columns: &[Column<T>]) -> String {
        let heads = self.columns.iter().map(|&at| columns[at].head.to_owned()).collect::<Vec<_>>();
        self.padded(columns, &heads).concat()
    }

    /// Cells of a row with what is between them, each as wide as its column.
    pub fn padded<T>(&self, columns: &[Column<T>], cells: &[String]) -> Vec<String> {
        let pad = |(nr, (at, cell)): (usize, (&usize, &String))| {
            let left = self.widths[nr].saturating_sub(Span::raw(cell.as_str()).width());
            let gap = if nr == 0 { 0 } else { GAP };
            let is_last = nr + 1 == self.columns.len();
            match columns[*at].is_number {
                true => format!("{:1$}{cell}", "", left + gap),
                false if is_last => format!("{:gap$}{cell}", ""),
                false => format!("{:gap$}{cell}{:left$}", "", ""),
            }
        };
        self.columns.iter().zip(cells).enumerate().map(pad).collect()
    }
}
