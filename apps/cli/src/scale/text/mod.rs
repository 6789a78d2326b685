//! The report on a terminal.

mod off_cpus;

use std::fmt::Write;

use quartier_decide::verdict::{
    Counted, Culprit, Part, Point, Rest, Run, Scalability, Spread, Trend,
};

use super::report::Report;

/// Functions of a stack that are shown.
const CONTEXT_SHOWN: usize = 6;

/// All of it.
pub fn print(report: &Report) -> String {
    let mut text = String::new();
    for sentence in &report.verdict.sentences {
        let _ = writeln!(text, "{sentence}");
    }
    text.push('\n');
    table(&mut text, report);
    off_cpus::table(&mut text, report);
    for culprit in &report.verdict.culprits {
        self::culprit(&mut text, culprit);
    }
    for place in &report.verdict.undetermined {
        self::culprit(&mut text, place);
    }
    rest(&mut text, report.verdict.rest.as_ref());
    law(&mut text, report.scalability.as_ref(), report.study.points.len());
    for note in report.verdict.notes.iter().chain(&report.complaints) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

const COLUMNS: [&str; 10] =
    ["CPUs", "runs", "units/s", "spread", "user", "kernel", "idle", "taken", "waits", "faults"];
/// Of runs in guests.
const COLUMNS_COUNTED: [&str; 10] = [
    "CPUs",
    "runs",
    "units/s",
    "spread",
    "instructions",
    "stalls",
    "unused",
    "lines",
    "remote",
    "busiest",
];

fn table(text: &mut String, report: &Report) {
    let is_counted = report.study.is_modelled;
    let columns = if is_counted { COLUMNS_COUNTED } else { COLUMNS };
    let mut rows: Vec<Vec<String>> = vec![columns.map(str::to_owned).to_vec()];
    rows.extend(report.study.points.iter().map(if is_counted { row_counted } else { row }));
    aligned(text, &rows);
    let unit = &report.study.unit;
    let _ = match is_counted {
        false => writeln!(
            text,
            "user, kernel, idle: CPU time for each {unit}; taken: by others on this machine, of the CPUs' time"
        ),
        true => writeln!(
            text,
            "instructions, stalls, unused: modelled CPU time for each {unit}; lines that CPUs took from each other, and \
             memory commands that left their node, for each {unit}; busiest: of a node's memory and of a link the one \
             that is most used"
        ),
    };
}

/// Rows of as many cells each, each column as wide as its widest.
pub fn aligned(text: &mut String, rows: &[Vec<String>]) {
    let nr_columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..nr_columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// How many CPUs, of how many runs, how fast, and within what.
fn beginning(point: &Point) -> Vec<String> {
    let rates = || point.runs.iter().map(Run::throughput);
    let rate = median(rates().collect());
    let spread = rate.map(|rate| {
        let (least, greatest) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
        format!("{:+.0}/{:+.0} %", 100.0 * (least / rate - 1.0), 100.0 * (greatest / rate - 1.0))
    });
    vec![
        point.nr_cpus.to_string(),
        point.runs.len().to_string(),
        rate.map_or_else(unknown, amount),
        spread.unwrap_or_else(unknown),
    ]
}

fn row_counted(point: &Point) -> Vec<String> {
    let middle = |of: fn(&Counted) -> f64, is_per_unit: bool| {
        let of_run = |run: &Run| {
            let value = of(run.counted.as_ref()?);
            Some(if is_per_unit { value / run.units } else { value })
        };
        median(point.runs.iter().filter_map(of_run).collect())
    };
    let time = |seconds: Option<f64>| seconds.map_or_else(unknown, duration);
    let number = |number: Option<f64>| number.map_or_else(unknown, amount);
    let unused = |run: &Run| Some(run.profile.as_ref()?.idle_s / run.units);
    let mut row = beginning(point);
    row.extend([
        time(middle(|counted| counted.instructions_s, true)),
        time(middle(|counted| counted.stalls_s, true)),
        time(median(point.runs.iter().filter_map(unused).collect())),
        number(middle(|counted| counted.nr_taken as f64, true)),
        number(middle(|counted| counted.nr_remote as f64, true)),
        middle(|counted| counted.busiest_percent, false)
            .map_or_else(unknown, |percent| format!("{percent:.0} %")),
    ]);
    row
}

fn row(point: &Point) -> Vec<String> {
    let nr = point.nr_cpus;
    let middle =
        |of: &dyn Fn(&Run) -> Option<f64>| median(point.runs.iter().filter_map(of).collect());
    let taken = |run: &Run| Some(100.0 * run.stolen_s()? / (run.wall_s * f64::from(nr)));
    let time = |seconds: Option<f64>| seconds.map_or_else(unknown, duration);
    let mut row = beginning(point);
    row.extend([
        time(middle(&|run| Some(run.user_s? / run.units))),
        time(middle(&|run| Some(run.kernel_s? / run.units))),
        time(middle(&|run| Some(run.idle_s(nr)? / run.units))),
        middle(&taken).map_or_else(unknown, |taken| format!("{taken:.1} %")),
        middle(&|run| Some(run.nr_waits? as f64)).map_or_else(unknown, amount),
        middle(&|run| Some(run.nr_faults? as f64)).map_or_else(unknown, amount),
    ]);
    row
}

fn culprit(text: &mut String, culprit: &Culprit) {
    let class = culprit.class.map_or("cause not seen", |class| class.name());
    let object = culprit.object.as_ref().map_or_else(String::new, |object| format!(", `{object}`"));
    let line = culprit.line.as_ref().map_or_else(String::new, |line| format!(" ({line})"));
    let _ = writeln!(
        text,
        "\n{class}: {}{line}{object}\n  {:.0} % of the lost scaling (±{:.0}): {} more (±{}) for each unit\n  \
         grows with the CPUs: {}; {} certain (p {:.1e})",
        culprit.function,
        culprit.share_percent,
        culprit.share_error_percent,
        duration(culprit.per_unit_s.by()),
        duration(culprit.per_unit_s.error),
        levels(&culprit.trend),
        certainty(culprit.confidence_percent),
        culprit.trend.p,
    );
    contexts(text, culprit);
    if let Some(class) = culprit.class {
        let _ = writeln!(text, "  cure: {}", class.cure());
    }
}

/// Where it grew, or else where it costs most.
fn contexts(text: &mut String, culprit: &Culprit) {
    let grown = culprit.contexts.iter().map(|of| (&of.stack, Some(of.share_percent)));
    let mut told: Vec<_> = grown.collect();
    match &mut told[..] {
        [] => told.push((&culprit.context, None)),
        [(_, share_percent)] => *share_percent = None,
        _ => {}
    }
    for (stack, share_percent) in told {
        let skipped = stack.len().saturating_sub(CONTEXT_SHOWN);
        let more = if skipped > 0 { "… → " } else { "" };
        let share = share_percent.map_or_else(String::new, |of| format!(" ({of:.0} %)"));
        let _ = writeln!(text, "  {more}{}{share}", stack[skipped..].join(" → "));
    }
}

fn rest(text: &mut String, rest: Option<&Rest>) {
    let Some(Rest { share_percent, parts, others_percent }) = rest else { return };
    if parts.is_empty() {
        return;
    }
    let why = if *share_percent < 0.0 { ", as other places cost less on more CPUs" } else { "" };
    let _ = writeln!(
        text,
        "\nThe rest is {share_percent:.0} % of the lost scaling{why}; these are not certain to grow, or have less than a tenth of it:"
    );
    for Part { what, share_percent, share_error_percent, per_unit_s } in parts {
        let more = duration(per_unit_s.by());
        let _ = writeln!(
            text,
            "  {share_percent:3.0} % (±{share_error_percent:.0}): {what}, {more} more"
        );
    }
    let _ = writeln!(text, "  {others_percent:3.0} %: all else");
}

/// What a unit costs at each CPU count.
pub fn levels(trend: &Trend) -> String {
    let level = trend.levels.iter().map(|of| format!("{} on {}", duration(of.mean), of.nr_cpus));
    level.collect::<Vec<_>>().join(", ")
}

/// In words, and never all of it.
pub fn certainty(percent: f64) -> String {
    if percent > 99.9 { "more than 99.9 %".to_owned() } else { format!("{percent:.1} %") }
}

fn law(text: &mut String, law: Option<&Scalability>, nr_points: usize) {
    text.push('\n');
    let Some(law) = law else {
        let _ = writeln!(
            text,
            "Universal Scalability Law: not fitted, its three numbers need four CPU counts and there are {nr_points}."
        );
        return;
    };
    let of = |spread: &Spread| {
        format!("{:.4} ({:.4} to {:.4})", spread.middle, spread.least, spread.greatest)
    };
    let best = law
        .best_cpus
        .map_or_else(String::new, |best| format!("; most throughput at {best:.0} CPUs"));
    let _ = writeln!(
        text,
        "Universal Scalability Law: contention {}, coherency {}{best} (95 %, resampled, seed {})",
        of(&law.sigma),
        of(&law.kappa),
        law.seed
    );
}

fn unknown() -> String {
    "–".to_owned()
}

/// The median; absent of nothing.
/// Between the two in the middle, where there are such.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[half]),
        _ => Some(f64::midpoint(*values.get(half.checked_sub(1)?)?, values[half])),
    }
}

/// Seconds, in a unit that suits them.
pub fn duration(seconds: f64) -> String {
    for (unit, name) in [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")] {
        if seconds.abs() >= unit {
            return format!("{} {name}", amount(seconds / unit));
        }
    }
    if seconds == 0.0 { "0".to_owned() } else { format!("{} ns", amount(seconds / 1e-9)) }
}

/// Three figures.
pub fn amount(value: f64) -> String {
    match value.abs() {
        large if large >= 1e9 => format!("{:.2} G", value / 1e9),
        large if large >= 1e6 => format!("{:.2} M", value / 1e6),
        large if large >= 1e4 => format!("{:.1} k", value / 1e3),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
