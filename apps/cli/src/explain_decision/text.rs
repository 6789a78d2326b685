//! A decision's account as text.

use std::fmt::Write;

use anstyle::Style;

use super::account::{Attempt, Counts, LoadSeen, PartName, PartSeen, StepDown, StepUp};
use super::options::Decision;
use super::report::{Outcome, Report, Share, ShouldBalance};
use crate::topo::view::count;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

const LETTERS: &str = "\
T: threads, N: CPUs (in attempt 1: cores), U: usage in percent (unknown counts as 100),
M: free base pages, D: distance from the requester's node (10: the node itself), A: at random.
Clusters are sorted by T per CPU (T / N), since they need not be of one size.
";
const LETTERS_OF_MEMORY: &str = "\
M: free base pages, D: distance from the requester's node (10: the node itself).
";

/// The whole text.
pub fn print(report: &Report) -> String {
    let mut text = String::new();
    let [machine, state] = &report.about;
    let decision = report.decision.word();
    let _ = writeln!(text, "{BOLD}{decision}{BOLD:#}: {}", report.request);
    let _ = writeln!(text, "Machine: {machine}");
    let _ = writeln!(text, "State: {state}");
    if let Some(start) = &report.start {
        let _ = writeln!(text, "Start: {}, {}", start.cluster, start.because);
    }
    if let Some(should) = &report.should_balance {
        push_should_balance(&mut text, should);
    }
    for (at, attempt) in report.attempts.iter().enumerate() {
        push_attempt(&mut text, report, attempt, report.attempts.get(at + 1));
    }
    push_shares(&mut text, &report.shares);
    text.push('\n');
    match (&report.outcome, &report.reason) {
        (Some(outcome), _) => push_outcome(&mut text, report, outcome),
        (None, reason) => {
            let reason = reason.as_deref().unwrap_or("none will do");
            let _ = writeln!(text, "{BOLD}Nothing decided{BOLD:#}: {reason}.");
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    let letters = match report.decision {
        Decision::Group => return text,
        Decision::Memory => LETTERS_OF_MEMORY,
        _ => LETTERS,
    };
    let _ = write!(text, "{DIM}{letters}{DIM:#}");
    text
}

fn push_should_balance(text: &mut String, should: &ShouldBalance) {
    let verdict = match (should.holds, should.soon) {
        (true, true) => "it should look for one, and soon: U < 100 two levels up",
        (true, false) => "it should look for one",
        (false, _) => "it should not look for one; what it would find:",
    };
    let _ = writeln!(text, "\n{BOLD}CPU {}{BOLD:#}: {verdict}", should.cpu);
    for part in &should.parts {
        let value = part.value.map_or("unknown".to_owned(), |value| value.to_string());
        let holds = if part.holds { "holds" } else { "does not hold" };
        let _ = writeln!(text, "  {:<20}  {value:>7}  {holds}", part.condition);
    }
}

fn push_attempt(text: &mut String, report: &Report, attempt: &Attempt, next: Option<&Attempt>) {
    let aim = match (report.decision, attempt.attempt) {
        (Decision::Memory, _) => "\nUp from there, and down into what has enough\n".to_owned(),
        (Decision::Balance, 2) => "\nAttempt 2: a near CPU with U < 100\n".to_owned(),
        (_, 1) => "\nAttempt 1: an idle core\n".to_owned(),
        (_, 2) => "\nAttempt 2: a CPU that is not fully used\n".to_owned(),
        (_, nr) => format!("\nAttempt {nr}: the least loaded CPU\n"),
    };
    *text += &aim;
    push_way_up(text, attempt);
    if attempt.way_down.is_empty() {
        if attempt.way_up.last().is_some_and(|step| step.holds) {
            *text += "  no way down: too few clusters may still be read\n";
        }
        return;
    }
    *text += if report.decision == Decision::Memory { "" } else { "  down\n" };
    for (at, step) in attempt.way_down.iter().enumerate() {
        push_step_down(text, attempt.attempt, step);
        if step.failed || step.parts.iter().all(|part| part.rank.is_none()) {
            let sequel = sequel(step, attempt.way_down.get(at + 1), next, report.visits_max);
            let _ = writeln!(text, "      nothing here will do: {sequel}");
        }
    }
}

fn push_way_up(text: &mut String, attempt: &Attempt) {
    let Some(first) = attempt.way_up.first() else { return };
    let _ = writeln!(text, "  up, until {}", first.condition);
    let rows = attempt.way_up.iter().enumerate().map(|(at, step)| {
        let is_last = at + 1 == attempt.way_up.len();
        [
            step.cluster.to_string(),
            load_text(&step.load, attempt.attempt, step.condition, false),
            what_followed(step, is_last).to_owned(),
        ]
    });
    push_table(text, "    ", &rows.collect::<Vec<_>>());
}

fn what_followed(step: &StepUp, is_last: bool) -> &'static str {
    match (step.holds, is_last) {
        (true, _) => "holds: down from here",
        (false, false) => "does not hold: up",
        (false, true) => "does not hold, and this is the top: no way down",
    }
}

fn push_step_down(text: &mut String, attempt: u8, step: &StepDown) {
    let asks = asks(step);
    let by = step.order.map_or(String::new(), |order| format!(", by {order}"));
    let load = load_text(&step.load, attempt, &asks, false);
    let _ = writeln!(text, "    in {} with {load}{by}", step.cluster);
    let mut parts: Vec<&PartSeen> = step.parts.iter().collect();
    // The rejected ones have no rank, and go last.
    parts.sort_by_key(|part| part.rank.unwrap_or(u8::MAX));
    let rows = parts.iter().map(|part| {
        let (mark, why) = match (part.rank, &part.rejected_by) {
            (Some(rank), _) => (format!("{rank}."), String::new()),
            (None, condition) => {
                let condition = condition.as_deref().unwrap_or("eligible");
                ("rejected".to_owned(), format!("not: {condition}"))
            }
        };
        let name = match &part.name {
            PartName::Cluster(name) => name.to_string(),
            PartName::Cpu(cpu) => format!("CPU {cpu}"),
        };
        let distance = part.distance.map_or(String::new(), |distance| format!(", D {distance}"));
        let is_cpu = matches!(part.name, PartName::Cpu(_));
        let load = load_text(&part.load, attempt, &asks, is_cpu);
        [mark, name, load + &distance, why]
    });
    push_table(text, "      ", &rows.collect::<Vec<_>>());
}

/// The letters that the conditions and the order of a step have.
fn asks(step: &StepDown) -> String {
    let conditions = step.parts.iter().filter_map(|part| part.rejected_by.as_deref());
    conditions.chain(step.order).collect::<Vec<_>>().join(" ")
}

fn load_text(load: &LoadSeen, attempt: u8, asks: &str, is_cpu: bool) -> String {
    let mut parts = Vec::new();
    if let Some(Counts { threads, threads_of_core, cpus, cores }) = &load.counts {
        parts.push(match threads_of_core {
            Some(of_core) if of_core != threads => format!("T {threads} ({of_core} on its core)"),
            _ => format!("T {threads}"),
        });
        let (n, unit) = if attempt == 1 { (cores, " cores") } else { (cpus, " CPUs") };
        if !is_cpu {
            parts.push(format!("N {n}{}", if cpus == cores { "" } else { unit }));
        }
    }
    match load.usage_percent {
        Some(percent) => parts.push(format!("U {percent}")),
        None if asks.contains('U') => parts.push("U unknown".to_owned()),
        None => {}
    }
    match load.free_pages {
        Some(pages) => parts.push(format!("M {pages}")),
        None if asks.contains("M ") || load.counts.is_none() => parts.push("M unknown".to_owned()),
        None => {}
    }
    parts.join(", ")
}

/// What was done after nothing in a cluster was eligible.
fn sequel(
    failed: &StepDown,
    next_step: Option<&StepDown>,
    next: Option<&Attempt>,
    visits_max: Option<u32>,
) -> String {
    if let Some(step) = next_step {
        // Parents have smaller ids. Only a search for memory goes up in between.
        let way = if step.cluster.id < failed.cluster.id { "up" } else { "back" };
        return format!("{way}, to {}", step.cluster);
    }
    match next {
        Some(next) if next.way_up.is_empty() => {
            let same = next.way_down.first().is_some_and(|step| step.cluster == failed.cluster);
            let here = if same { "from here" } else { "from the root" };
            format!("attempt {} goes on {here}", next.attempt)
        }
        Some(next) => format!("attempt {} begins", next.attempt),
        None => {
            let visits_max = count(visits_max.unwrap_or(0) as usize, "cluster");
            format!("nothing is left to try within the bound of {visits_max}")
        }
    }
}

fn push_shares(text: &mut String, shares: &[Share]) {
    if shares.is_empty() {
        return;
    }
    *text += "\nShares, from the smallest cluster that takes all\n";
    let rows = shares.iter().map(|share| {
        let indent = "  ".repeat(share.depth);
        let cpus = share.cpus.iter().map(|each| match each.threads {
            1 => format!("CPU {}", each.cpu),
            more => format!("CPU {} ({more})", each.cpu),
        });
        let cpus = cpus.collect::<Vec<_>>().join(", ");
        [format!("{indent}{}", share.cluster), count(share.threads as usize, "thread"), cpus]
    });
    push_table(text, "  ", &rows.collect::<Vec<_>>());
}

fn push_outcome(text: &mut String, report: &Report, outcome: &Outcome) {
    let place = match (outcome.cpu, outcome.node) {
        (Some(cpu), Some(node)) => format!("CPU {cpu} on node {node}"),
        (Some(cpu), None) => format!("CPU {cpu} of no known node"),
        (None, Some(node)) => format!("node {node}"),
        (None, None) => "as above".to_owned(),
    };
    let distance = outcome.distance.map_or(String::new(), |d| format!(", at distance {d}"));
    let attempt = outcome.attempt.map_or(String::new(), |nr| format!(", in attempt {nr}"));
    let visited = count(outcome.visited as usize, "cluster");
    let of = match report.visits_max {
        Some(max) => format!(" of at most {max}"),
        None => " (the way up, and each that threads go into)".to_owned(),
    };
    let _ =
        writeln!(text, "{BOLD}Decided{BOLD:#}: {place}{distance}{attempt}; {visited} visited{of}.");
}

/// Columns as wide as their widest cell.
fn push_table<const N: usize>(text: &mut String, indent: &str, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{indent}{}", line.trim_end());
    }
}
