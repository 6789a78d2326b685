//! A comparison for a terminal.

use std::fmt::Write;

use super::table::Table;
use super::{BOLD, COLUMNS, heading, paragraph};
use crate::compare::{Comparison, Figures, Policy, PolicyResult, Spread, Sweep};
use crate::numbers::{between, mib, milliseconds, of, or_none, percent, significant, times};
use crate::recording::CountMode;
use crate::words;

/// Numbers of CPUs in one table: a column takes ten letters, after the policy's name.
const SWEEP_COLUMNS: usize = (COLUMNS - 24) / 10;

/// Policies side by side.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    head(&mut out, comparison);
    let q: [(&str, Figure); 3] = [
        ("Q, MiB", |figures| Some(figures.q_mib)),
        ("÷ first touch", |figures| figures.q_to_first_touch),
        ("÷ by hand", |figures| figures.q_to_hand),
    ];
    heading(&mut out, "Moved between nodes", ": Q, least to greatest of all runs");
    figures(&mut out, comparison, &q, significant, true);
    parts(&mut out, comparison);
    let time: [(&str, Figure); 3] = [
        ("modelled", |figures| figures.modelled_phase_ms),
        ("÷ first touch", |figures| figures.modelled_time_to_first_touch),
        ("÷ by hand", |figures| figures.modelled_time_to_hand),
    ];
    let title = format!("Modelled time of the {}", comparison.phase.name());
    heading(&mut out, &title, " (not measured)");
    figures(&mut out, comparison, &time, milliseconds, false);
    if let Some(swept) = &comparison.sweep {
        sweep(&mut out, swept);
    }
    tail(&mut out, comparison);
    out
}

type Figure = fn(&Figures) -> Option<Spread>;

fn head(out: &mut String, comparison: &Comparison) {
    let room = COLUMNS - "quartier lab compare: ".len();
    let command = words::shortened(&comparison.command_line(), room);
    let _ = writeln!(out, "quartier lab compare: {BOLD}{command}{BOLD:#}");
    paragraph(
        out,
        "",
        &format!(
            "{}, Linux {}; {}; {}",
            words::machine(&comparison.machine),
            words::clean(&comparison.kernel),
            comparison.phase.name(),
            words::mode_short(comparison.mode),
        ),
    );
    out.push('\n');
    let verdict = &comparison.verdict;
    paragraph(out, "", &verdict.headline);
    for sentence in &verdict.sentences {
        paragraph(out, "", &words::clean(sentence));
    }
    if let Some(by_hand) = comparison.of(Policy::Hand).filter(|hand| !hand.tried.is_empty()) {
        paragraph(out, "", &words::clean(&tried(by_hand, comparison.mode)));
    }
}

/// The placements by hand that were tried.
fn tried(by_hand: &PolicyResult, mode: CountMode) -> String {
    let each = by_hand.tried.iter().map(|trial| match &trial.failed {
        Some(why) => format!("{} (failed: {why})", trial.detail),
        None => format!(
            "{} ({} modelled, Q {})",
            trial.detail,
            or_none(trial.modelled_phase_ms, milliseconds),
            or_none(trial.q_mib, mib),
        ),
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let least = by_hand.moves_least(mode).map_or(String::new(), |least| format!(" {least}"));
    format!("Tried by hand, once each: {each}.{least}")
}

fn figures(
    out: &mut String,
    comparison: &Comparison,
    of: &[(&str, Figure); 3],
    format: fn(f64) -> String,
    with_shares: bool,
) {
    let names = of.map(|(name, _)| format!(">{name}"));
    let mut columns =
        vec!["<policy", ">runs", &names[0], ">least – greatest", &names[1], &names[2]];
    if with_shares {
        columns.extend([">leave", ">hops"]);
    }
    let mut table = Table::new(&columns);
    for result in &comparison.policies {
        table.row(row(result, of, format, with_shares));
    }
    table.print(out);
}

fn row(
    result: &PolicyResult,
    of: &[(&str, Figure); 3],
    format: fn(f64) -> String,
    with_shares: bool,
) -> Vec<String> {
    let dash = || "–".to_owned();
    let figure = |figure: Figure| result.figures.as_ref().and_then(figure);
    let middle = |value: Option<Spread>, format: fn(f64) -> String| {
        value.map_or_else(dash, |value| format(value.middle))
    };
    let spread = match figure(of[0].1) {
        Some(value) if result.runs.len() > 1 => {
            between(&format(value.least), &format(value.greatest))
        }
        _ => dash(),
    };
    let mut cells = vec![
        result.policy.name().to_owned(),
        result.runs.len().to_string(),
        middle(figure(of[0].1), format),
        spread,
        middle(figure(of[1].1), times),
        middle(figure(of[2].1), times),
    ];
    if with_shares {
        cells.push(middle(figure(|figures| figures.remote_percent), percent));
        cells.push(middle(figure(|figures| figures.mean_hops), significant));
    }
    cells
}

/// Whose accesses moved it.
fn parts(out: &mut String, comparison: &Comparison) {
    heading(out, "Whose accesses moved it", ", MiB, the middle of all runs");
    let parts: [Figure; 4] = [
        |figures| Some(figures.q_user_mib),
        |figures| Some(figures.q_kernel_mib),
        |figures| Some(figures.q_walk_mib),
        |figures| Some(figures.q_rest_mib),
    ];
    let mut table = Table::new(&["<policy", ">user", ">kernel", ">walk", ">rest"]);
    for result in &comparison.policies {
        let middle = |part: &Figure| {
            let part = result.figures.as_ref().and_then(part);
            or_none(part.map(|part| part.middle), significant)
        };
        let name = result.policy.name().to_owned();
        table.row(std::iter::once(name).chain(parts.iter().map(middle)).collect());
    }
    table.print(out);
    paragraph(out, "  ", words::REST);
}

fn sweep(out: &mut String, sweep: &Sweep) {
    let base = format!(
        ", against {} on {}",
        sweep.base_policy.name(),
        of(u64::from(sweep.base_cpus), "CPU")
    );
    heading(out, "Modelled speed-up", &base);
    let mut cpus: Vec<_> = sweep.points().map(|point| point.nr_cpus).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for (at, cpus) in cpus.chunks(SWEEP_COLUMNS).enumerate() {
        if at > 0 {
            out.push('\n');
        }
        speedups(out, sweep, cpus);
    }
    for sentence in sweep.absent_in_words() {
        paragraph(out, "  ", &words::clean(&format!("not counted: {sentence}")));
    }
}

/// Speed-ups on some numbers of CPUs.
fn speedups(out: &mut String, sweep: &Sweep, cpus: &[u32]) {
    let names: Vec<_> =
        cpus.iter().map(|cpus| format!(">{}", of(u64::from(*cpus), "CPU"))).collect();
    let mut columns = vec!["<policy"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    for curve in &sweep.curves {
        let mut cells = vec![curve.policy.name().to_owned()];
        cells.extend(cpus.iter().map(|&nr_cpus| {
            let point = curve.points.iter().find(|point| point.nr_cpus == nr_cpus);
            let speedup = point.and_then(|point| point.modelled_speedup);
            speedup.map_or_else(|| "–".to_owned(), |speedup| times(speedup.middle))
        }));
        table.row(cells);
    }
    table.print(out);
}

fn tail(out: &mut String, comparison: &Comparison) {
    out.push('\n');
    paragraph(out, "", &words::mode(comparison.mode));
    paragraph(out, "", &words::modelled_with(&comparison.geometry));
    for note in &comparison.notes {
        paragraph(out, "  ", &format!("note: {}", words::clean(note)));
    }
}
