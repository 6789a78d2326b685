//! The summary that `quartier run` ends with.

use std::fmt::Write;

use quartier_act::{ProcessReport, Report};
use quartier_model::Bytes;

const PAGE_BYTES: u64 = 4096;

/// Processes listed one by one; the rest is in the total and in the JSON report.
const PROCESSES_LISTED: usize = 8;

/// The account of a run, for a person.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let total = &report.total;
    let processes = report.processes.len();
    let _ = writeln!(
        out,
        "quartier: {} {}, {} threads created, {} placed, in {}; policy {}{}",
        processes,
        if processes == 1 { "process" } else { "processes" },
        total.threads_created,
        total.threads_placed,
        report.elapsed_ns,
        report.policy,
        if report.policy == "next-touch" {
            format!(", rung {}", total.rung)
        } else {
            String::new()
        },
    );
    nodes(&mut out, total);
    if total.thread_moves > 0 {
        let moves = total.thread_moves;
        let times = if moves == 1 { "once" } else { &format!("{moves} times") };
        let _ = writeln!(
            out,
            "  {times} a thread that waited for a CPU was moved to a node with an idle one"
        );
    }
    blocks(&mut out, total);
    if processes > 1 {
        each(&mut out, &report.processes);
    }
    for note in &total.notes {
        let _ = writeln!(out, "  note: {}", note.sentence);
    }
    out
}

fn nodes(out: &mut String, total: &ProcessReport) {
    let resident: u64 = total.nodes.iter().filter_map(|node| node.resident_pages).sum();
    let _ = writeln!(out, "  {:>6} {:>8} {:>10} {:>6}", "node", "threads", "resident", "share");
    for node in &total.nodes {
        let (size, share) = match node.resident_pages {
            Some(pages) => (
                Bytes(pages * PAGE_BYTES).to_string(),
                format!("{:.0} %", 100.0 * pages as f64 / resident.max(1) as f64),
            ),
            None => ("unknown".to_owned(), String::new()),
        };
        let _ = writeln!(out, "  {:>6} {:>8} {size:>10} {share:>6}", node.node, node.threads);
    }
}

fn blocks(out: &mut String, total: &ProcessReport) {
    if total.blocks_marked == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "  {} blocks marked ({}) in {}; {} moved ({}), {} kept, {} given back; {} touches served in {}",
        total.blocks_marked,
        Bytes(total.pages_marked * PAGE_BYTES),
        total.mark_ns,
        total.blocks_moved,
        Bytes(total.pages_moved * PAGE_BYTES),
        total.blocks_kept,
        total.blocks_given_back,
        total.touches,
        total.serve_ns,
    );
    if total.pages_busy > 0 {
        let _ = writeln!(out, "  {} pages could not be taken", total.pages_busy);
    }
}

fn each(out: &mut String, processes: &[ProcessReport]) {
    let _ = writeln!(
        out,
        "  {:>8} {:<16} {:>8} {:>10} {:>10}",
        "pid", "name", "threads", "resident", "moved"
    );
    for process in processes.iter().take(PROCESSES_LISTED) {
        let pages: u64 = process.nodes.iter().filter_map(|node| node.resident_pages).sum();
        let resident = if process.resident_known {
            Bytes(pages * PAGE_BYTES).to_string()
        } else {
            "unknown".to_owned()
        };
        let _ = writeln!(
            out,
            "  {:>8} {:<16} {:>8} {resident:>10} {:>10}",
            process.pid.unwrap_or(0),
            process.name.as_deref().unwrap_or("?"),
            process.threads_created + 1,
            Bytes(process.pages_moved * PAGE_BYTES).to_string(),
        );
    }
    if processes.len() > PROCESSES_LISTED {
        let _ = writeln!(
            out,
            "  … and {} more (all of them with --report FILE)",
            processes.len() - PROCESSES_LISTED
        );
    }
}
