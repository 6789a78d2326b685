//! Reports for a terminal of 100 columns. What is left out stands in the JSON.

mod compare;
mod executed;
mod lines;
mod stalls;
mod table;

use std::fmt::Write;

use anstyle::Style;
use quartier_memmodel::{Class, Kind};

use crate::numbers::{count, milliseconds, of, or_none, percent, share, significant};
use crate::report::{Asked, ClassCommands, PerUnit, Report};
use crate::words;

pub use compare::comparison;
use table::Table;

/// Columns of the narrowest terminal that everything fits.
pub const COLUMNS: usize = 100;

/// Nodes listed one by one; the others share a line.
const NODES_LISTED: usize = 8;
/// With more nodes than this the matrix is left to the page and the JSON.
const MATRIX_NODES_MAX: usize = 8;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// A report.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut out = String::new();
    head(&mut out, report);
    if let Some(each) = &report.per_unit {
        per_unit(&mut out, each);
    }
    if !report.program.is_empty() {
        kinds(&mut out, report);
        nodes(&mut out, report);
        matrix(&mut out, report);
    }
    levels(&mut out, report);
    modelled(&mut out, report);
    if let Some(found) = &report.lines {
        lines::lines(&mut out, found, report.phase);
    }
    if let Some(found) = &report.stalls {
        stalls::stalls(&mut out, found, report.phase);
    }
    if let Some(found) = &report.executed {
        executed::executed(&mut out, found, report.phase);
    }
    tail(&mut out, report);
    out
}

/// Those that are the same put together, the dearest first.
fn merged<T: Clone>(
    places: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    add: impl Fn(&mut T, &T),
    cost: impl Fn(&T) -> u64,
) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for place in places {
        match all.iter_mut().find(|known| is_same(known, place)) {
            Some(known) => add(known, place),
            None => all.push(place.clone()),
        }
    }
    all.sort_by_key(|place| std::cmp::Reverse(cost(place)));
    all
}

/// A heading over a table.
fn heading(out: &mut String, title: &str, unit: &str) {
    let _ = writeln!(out, "\n{BOLD}{title}{BOLD:#}{DIM}{unit}{DIM:#}");
}

/// What stays on the line of the number before it.
const UNITS: [&str; 13] =
    ["k", "M", "G", "T", "P", "E", "%", "%,", "%.", "MiB", "ms", "ms,", "cycles"];

/// A sentence, broken at words.
fn paragraph(out: &mut String, indent: &str, text: &str) {
    let room = COLUMNS.saturating_sub(indent.chars().count());
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if UNITS.contains(&word) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                *last = format!("{last} {word}");
            }
            _ => words.push(words::shortened(word, room)),
        }
    }
    let mut line = String::new();
    for word in words {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(out, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{indent}{line}");
    }
}

fn head(out: &mut String, report: &Report) {
    let room = COLUMNS - "quartier lab count: ".len();
    let command = words::shortened(&report.command_line(), room);
    let _ = writeln!(out, "quartier lab count: {BOLD}{command}{BOLD:#}");
    paragraph(
        out,
        "",
        &format!(
            "{}, Linux {}; {}, {} instructions; {}",
            words::machine(&report.machine),
            words::clean(&report.kernel),
            report.phase.name(),
            count(report.instructions),
            words::mode_short(report.mode),
        ),
    );
    out.push('\n');
    let _ = writeln!(out, "{BOLD}{}{BOLD:#}", words::headline(report));
    let program = &report.program;
    if let Some(hops) = program.mean_hops.filter(|_| program.commands.remote > 0) {
        let busiest = words::busiest(program).unwrap_or_default();
        let energy = significant(program.energy_mib_hops);
        let energy = format!("energy: {energy} MiB × hops");
        let text = format!("{busiest} Mean distance {} hops; {energy}.", significant(hops));
        paragraph(out, "", &text);
    }
}

fn per_unit(out: &mut String, each: &PerUnit) {
    let number = significant;
    let mut text = format!(
        "For each of {} units of work: {} instructions, {} commands that leave their node and {} that stay",
        number(each.units),
        number(each.instructions),
        number(each.remote),
        number(each.local),
    );
    if let Some(taken) = each.lines_taken {
        text += &format!(", {} lines taken from other CPUs", number(taken));
    }
    if let Some(ms) = each.modelled_ms {
        text += &format!("; {} ms of modelled time", number(ms));
    }
    paragraph(out, "", &(text + "."));
}

fn kinds(out: &mut String, report: &Report) {
    heading(out, "Commands", ", and of those that leave their node: whose");
    let mut table =
        Table::new(&["<kind", ">local", ">remote", ">leave", ">user", ">kernel", ">walk", "<"]);
    let row = |name: &str, local: u64, remote: u64, classes: &[ClassCommands], what: &str| {
        let mut cells = vec![name.to_owned(), count(local), count(remote)];
        cells.push(or_none(share(remote, local.saturating_add(remote)), percent));
        cells.extend(Class::ALL.map(|class| {
            let of_class = classes.iter().find(|commands| commands.class == class);
            count(of_class.map_or(0, |commands| commands.remote))
        }));
        cells.push(what.to_owned());
        cells
    };
    for of_kind in &report.program.kinds {
        let what = words::kind(of_kind.kind);
        table.row(row(of_kind.kind.name(), of_kind.local, of_kind.remote, &of_kind.classes, what));
    }
    let all = report.program.commands;
    table.row(row("all", all.local, all.remote, &report.program.classes, ""));
    table.print(out);
}

fn nodes(out: &mut String, report: &Report) {
    if report.machine.nr_nodes() == 1 || report.program.commands.remote == 0 {
        return;
    }
    heading(out, "Nodes most asked", ", commands from elsewhere by kind, and from their own CPUs");
    let kinds = Kind::ALL.map(|kind| format!(">{}", kind.name()));
    let mut columns = vec![">node", ">CPUs", ">elsewhere", ">of all"];
    columns.extend(kinds.iter().map(String::as_str));
    columns.push(">own CPUs");
    let mut table = Table::new(&columns);
    let all = report.program.commands.remote;
    let row = |name: String, cpus: String, asked: &Asked| {
        let remote = asked.remote.total();
        let mut cells = vec![name, cpus, count(remote), or_none(share(remote, all), percent)];
        cells.extend(asked.remote.as_array().map(count));
        cells.push(count(asked.local.total()));
        cells
    };
    let asked = report.program.most_asked();
    // One line for one node would save nothing.
    let listed = if asked.len() > NODES_LISTED + 1 { NODES_LISTED } else { asked.len() };
    let (listed, others) = asked.split_at(listed);
    let cpus = |asked: &Asked| {
        let cpus = report.machine.cpus_per_node.get(usize::from(asked.node));
        cpus.map_or(0, |&cpus| u64::from(cpus))
    };
    for asked in listed {
        table.row(row(asked.node.to_string(), cpus(asked).to_string(), asked));
    }
    if !others.is_empty() {
        let sum = others.iter().fold(Asked::default(), |sum, asked| Asked {
            local: sum.local.plus(&asked.local),
            remote: sum.remote.plus(&asked.remote),
            ..sum
        });
        let nr_cpus: u64 = others.iter().map(cpus).sum();
        table.row(row(format!("{} others", others.len()), nr_cpus.to_string(), &sum));
    }
    table.print(out);
}

fn matrix(out: &mut String, report: &Report) {
    let matrix = &report.program.matrix;
    if matrix.len() < 2 || report.program.commands.remote == 0 {
        return;
    }
    if matrix.len() > MATRIX_NODES_MAX {
        let _ = writeln!(
            out,
            "\n{DIM}Who asks whom, {0} × {0}: see the page or the JSON.{DIM:#}",
            matrix.len()
        );
        return;
    }
    heading(out, "Who asks whom", ", commands from a node's CPUs (row) to a node");
    let nodes: Vec<_> = (0..matrix.len()).map(|node| format!(">node {node}")).collect();
    let mut columns = vec!["<from"];
    columns.extend(nodes.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    for (from, row) in matrix.iter().enumerate() {
        let cells = row.iter().map(|&nr| count(nr));
        table.row(std::iter::once(format!("node {from}")).chain(cells).collect());
    }
    table.print(out);
}

fn levels(out: &mut String, report: &Report) {
    heading(out, "Caches and TLBs", "");
    let mut table = Table::new(&["<", ">looked up", ">found", ">rate"]);
    for level in &report.levels {
        let rate = or_none(level.hit_percent, percent);
        table.row(vec![
            level.name.name().to_owned(),
            count(level.lookups),
            count(level.hits),
            rate,
        ]);
    }
    table.print(out);
    paragraph(out, "  ", &words::service(&report.service));
}

fn modelled(out: &mut String, report: &Report) {
    heading(out, "Modelled time", " (not measured)");
    let modelled = &report.modelled;
    let Some(slowest) = modelled.slowest() else {
        let _ = writeln!(out, "  none: no CPU executed any of the program");
        return;
    };
    paragraph(
        out,
        "  ",
        &format!(
            "the modelled {} takes {} ({} cycles) on CPU {} of node {}, which has most; {} worked, {} \
             cycles each on average; {} of all are stalls",
            report.phase.name(),
            or_none(modelled.phase_ms, milliseconds),
            count(modelled.phase_cycles),
            slowest.cpu,
            slowest.node,
            of(modelled.nr_busy() as u64, "CPU"),
            or_none(modelled.mean_busy_cycles(), crate::numbers::scaled),
            or_none(stalls_percent(report), percent),
        ),
    );
    if let (Some(seconds), Some(times)) = (report.guest_seconds, report.slowdown()) {
        let line = format!("the guest took {seconds:.1} s for that, {times:.0} times as long");
        paragraph(out, "  ", &line);
    }
    let peak = modelled.peak_utilisation;
    paragraph(
        out,
        "  ",
        &format!(
            "busiest modelled moment since the guest began: last level {}, memory {}, link {}",
            percent(100.0 * peak.last_level),
            percent(100.0 * peak.memory),
            percent(100.0 * peak.link),
        ),
    );
    paragraph(out, "  ", &words::modelled_with(&report.geometry));
}

/// Stalls of all modelled cycles, percent.
fn stalls_percent(report: &Report) -> Option<f64> {
    let sum = |of: fn(&crate::CpuTime) -> u64| {
        report.modelled.cpus.iter().fold(0_u64, |sum, cpu| sum.saturating_add(of(cpu)))
    };
    share(sum(|cpu| cpu.stall_cycles), sum(|cpu| cpu.modelled_cycles))
}

fn tail(out: &mut String, report: &Report) {
    out.push('\n');
    paragraph(out, "", &words::rest(&report.rest));
    paragraph(out, "", &words::mode(report.mode));
    for note in &report.notes {
        paragraph(out, "  ", &format!("note: {}", words::clean(note)));
    }
}
