//! A comparison as a page.

use super::page::{Cell, Page, data, escape, maybe};
use super::{footer, notes, parameters};
use crate::compare::{Comparison, Figures, Outcome, PolicyResult, Spread, Sweep, Trial};
use crate::numbers::{between, mib, milliseconds, of, percent, significant, times};
use crate::{svg, words};

/// A comparison as one HTML file.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let mut page = Page::new();
    head(&mut page, comparison);
    page.raw("<main>");
    verdict(&mut page, comparison);
    policies(&mut page, comparison);
    asked(&mut page, comparison);
    if let Some(swept) = &comparison.sweep {
        sweep(&mut page, comparison, swept);
    }
    how(&mut page, comparison);
    page.raw("</main>");
    footer(&mut page);
    page.finish(&format!("{} – quartier lab compare", comparison.command_line()), comparison)
}

fn head(page: &mut Page, comparison: &Comparison) {
    page.raw("<header>");
    page.words("p", "eyebrow", "quartier lab compare");
    page.raw(&format!("<h1><code>{}</code></h1>", escape(&comparison.command_line())));
    let facts = format!(
        "{} · Linux {} · {} · {}",
        words::machine(&comparison.machine),
        comparison.kernel,
        comparison.phase.name(),
        words::mode_short(comparison.mode),
    );
    page.words("p", "facts", &facts);
    page.raw("</header>");
}

fn verdict(page: &mut Page, comparison: &Comparison) {
    let verdict = &comparison.verdict;
    let class = match verdict.outcome {
        Outcome::Helps => "chip helps",
        Outcome::Hurts => "chip hurts",
        Outcome::DoesNotHelp | Outcome::Mixed | Outcome::Unknown => "chip",
    };
    page.raw("<section>");
    page.words("p", "headline", &verdict.headline);
    page.raw(&format!(
        "<p><span class=\"{class}\">quartier run: {}</span></p>",
        escape(verdict.outcome.name())
    ));
    for sentence in &verdict.sentences {
        page.words("p", "", sentence);
    }
    page.raw("</section>");
}

fn policies(page: &mut Page, comparison: &Comparison) {
    page.raw("<section>");
    page.words("h2", "", "Policies side by side");
    if let Some(drawing) = svg::bars(comparison) {
        page.figure(
            &drawing,
            "A bar is the middle of all runs, a whisker the least and the greatest; the dashed line is \
             first touch, and × how much of that. Time is modelled.",
        );
    }
    let q: [(&str, &str, Figure); 3] = [
        ("Q", "q_mib", |figures| Some(figures.q_mib)),
        ("÷ first touch", "q_to_first_touch", |figures| figures.q_to_first_touch),
        ("÷ by hand", "q_to_hand", |figures| figures.q_to_hand),
    ];
    table(page, comparison, "Moved between nodes", &q, mib, true);
    parts(page, comparison);
    let time: [(&str, &str, Figure); 3] = [
        ("modelled time", "modelled_phase_ms", |figures| figures.modelled_phase_ms),
        ("÷ first touch", "modelled_time_to_first_touch", |figures| {
            figures.modelled_time_to_first_touch
        }),
        ("÷ by hand", "modelled_time_to_hand", |figures| figures.modelled_time_to_hand),
    ];
    let caption = format!("Modelled time of the {}, not measured", comparison.phase.name());
    table(page, comparison, &caption, &time, milliseconds, false);
    set_by(page, comparison);
    tried(page, comparison);
    page.raw("</section>");
}

type Figure = fn(&Figures) -> Option<Spread>;

fn table(
    page: &mut Page,
    comparison: &Comparison,
    caption: &str,
    of: &[(&str, &str, Figure); 3],
    format: fn(f64) -> String,
    with_shares: bool,
) {
    let mut columns = vec!["<policy", "runs", of[0].0, "least – greatest", of[1].0, of[2].0];
    if with_shares {
        columns.extend(["leave", "mean hops"]);
    }
    let rows: Vec<_> = comparison
        .policies
        .iter()
        .enumerate()
        .map(|(at, result)| (row_class(result), row(at, result, of, format, with_shares)))
        .collect();
    page.table(caption, &columns, &rows);
}

fn row_class(result: &PolicyResult) -> &'static str {
    match result.policy {
        _ if result.figures.is_none() => "absent",
        policy if policy.is_ours() => "ours",
        _ => "",
    }
}

fn row(
    at: usize,
    result: &PolicyResult,
    of: &[(&str, &str, Figure); 3],
    format: fn(f64) -> String,
    with_shares: bool,
) -> Vec<Cell> {
    let figure = |figure: Figure| result.figures.as_ref().and_then(figure);
    let middle = |name: &str, of: Figure, format: fn(f64) -> String| {
        let at = format!("/policies/{at}/figures/{name}/middle");
        Cell::number(maybe(&at, figure(of).map(|spread| spread.middle), format))
    };
    let spread = match figure(of[0].2) {
        Some(spread) if result.runs.len() > 1 => {
            between(&format(spread.least), &format(spread.greatest))
        }
        _ => "–".to_owned(),
    };
    let mut cells = vec![
        Cell::words(result.policy.name()),
        Cell::number(result.runs.len().to_string()),
        middle(of[0].1, of[0].2, format),
        Cell::number(escape(&spread)),
        middle(of[1].1, of[1].2, times),
        middle(of[2].1, of[2].2, times),
    ];
    if with_shares {
        cells.push(middle("remote_percent", |figures| figures.remote_percent, percent));
        cells.push(middle("mean_hops", |figures| figures.mean_hops, significant));
    }
    cells
}

/// Whose accesses moved it.
fn parts(page: &mut Page, comparison: &Comparison) {
    let parts: [(&str, Figure); 4] = [
        ("q_user_mib", |figures| Some(figures.q_user_mib)),
        ("q_kernel_mib", |figures| Some(figures.q_kernel_mib)),
        ("q_walk_mib", |figures| Some(figures.q_walk_mib)),
        ("q_rest_mib", |figures| Some(figures.q_rest_mib)),
    ];
    let row = |(at, result): (usize, &PolicyResult)| {
        let middle = |(name, of): &(&str, Figure)| {
            let at = format!("/policies/{at}/figures/{name}/middle");
            let part = result.figures.as_ref().and_then(of);
            Cell::number(maybe(&at, part.map(|part| part.middle), mib))
        };
        let name = Cell::words(result.policy.name());
        (row_class(result), std::iter::once(name).chain(parts.iter().map(middle)).collect())
    };
    let rows: Vec<_> = comparison.policies.iter().enumerate().map(row).collect();
    let caption = "Whose accesses moved it, the middle of all runs";
    page.table(caption, &["<policy", "user", "kernel", "walk", "rest"], &rows);
    page.words("p", "more", words::REST);
}

/// How each policy was set, where somebody said so.
fn set_by(page: &mut Page, comparison: &Comparison) {
    let set = |result: &PolicyResult| Some((result.policy, result.detail.clone()?));
    let set: Vec<_> = comparison.policies.iter().filter_map(set).collect();
    if set.is_empty() {
        return;
    }
    let rows: Vec<_> = set
        .iter()
        .map(|(policy, detail)| ("", vec![Cell::words(policy.name()), Cell::wide(detail)]))
        .collect();
    page.table("How policies were set", &["<policy", "<by"], &rows);
}

/// Of several placements by hand, each.
fn tried(page: &mut Page, comparison: &Comparison) {
    for (at, result) in comparison.policies.iter().enumerate() {
        let row = |(trial_at, trial): (usize, &Trial)| {
            let at = format!("/policies/{at}/tried/{trial_at}");
            let best = if result.is_best(trial) { "the best" } else { "" };
            let remark = trial.failed.as_deref().unwrap_or(best);
            let cells = vec![
                Cell::wide(&trial.detail),
                Cell::number(maybe(&format!("{at}/q_mib"), trial.q_mib, mib)),
                Cell::number(maybe(
                    &format!("{at}/modelled_phase_ms"),
                    trial.modelled_phase_ms,
                    milliseconds,
                )),
                Cell::wide(remark),
            ];
            (if trial.failed.is_some() { "absent" } else { "" }, cells)
        };
        let rows: Vec<_> = result.tried.iter().enumerate().map(row).collect();
        if !rows.is_empty() {
            page.table(
                "Tried by hand, once each",
                &["<placement", "Q", "modelled time", "<"],
                &rows,
            );
            if let Some(least) = result.moves_least(comparison.mode) {
                page.words("p", "more", &least);
            }
        }
    }
}

fn asked(page: &mut Page, comparison: &Comparison) {
    let Some(drawing) = svg::policies(comparison) else { return };
    page.raw("<section>");
    page.words("h2", "", "The nodes most asked");
    page.words(
        "p",
        "sub",
        "Commands from other nodes, with one scale for all policies: what one node is asked for under \
         first touch, and where it has gone.",
    );
    page.figure(&drawing, "");
    page.raw("</section>");
}

fn sweep(page: &mut Page, comparison: &Comparison, swept: &Sweep) {
    page.raw("<section>");
    page.words("h2", "", "Modelled speed-up");
    let base = format!(
        "Against {} on {}: {}, modelled. No time was measured.",
        swept.base_policy.name(),
        of(u64::from(swept.base_cpus), "CPU"),
        milliseconds(swept.base_modelled_phase_ms)
    );
    page.words("p", "sub", &base);
    if let Some(drawing) = svg::sweep(comparison) {
        page.figure(&drawing, "");
    }
    let mut rows = Vec::new();
    for (at, curve) in swept.curves.iter().enumerate() {
        for (point_at, point) in curve.points.iter().enumerate() {
            let at = format!("/sweep/curves/{at}/points/{point_at}");
            let (time, speedup) = (point.modelled_phase_ms, point.modelled_speedup);
            let middle = speedup.map(|speedup| speedup.middle);
            let spread = speedup.map_or_else(
                || "–".to_owned(),
                |speedup| between(&times(speedup.least), &times(speedup.greatest)),
            );
            let ms = milliseconds(time.middle);
            let cells = vec![
                Cell::words(curve.policy.name()),
                Cell::number(data(
                    &format!("{at}/nr_cpus"),
                    point.nr_cpus,
                    &point.nr_cpus.to_string(),
                )),
                Cell::number(data(&format!("{at}/modelled_phase_ms/middle"), time.middle, &ms)),
                Cell::number(maybe(&format!("{at}/modelled_speedup/middle"), middle, times)),
                Cell::number(escape(&spread)),
                Cell::wide(point.detail.as_deref().unwrap_or_default()),
            ];
            rows.push(("", cells));
        }
    }
    let columns =
        ["<policy", "CPUs", "modelled time", "modelled speed-up", "least – greatest", "<by"];
    page.table("", &columns, &rows);
    for sentence in swept.absent_in_words() {
        page.words("p", "sub", &format!("Not counted: {sentence}"));
    }
    page.raw("</section>");
}

fn how(page: &mut Page, comparison: &Comparison) {
    page.raw("<section class=\"how\">");
    page.words("h2", "", "How it was counted");
    page.words("p", "", &words::mode(comparison.mode));
    let guest = format!(
        "In guests of QEMU {} with Linux {}: {}.",
        comparison.qemu,
        comparison.kernel,
        words::machine(&comparison.machine)
    );
    page.words("p", "", &guest);
    parameters(page, &comparison.geometry);
    notes(page, &comparison.notes);
    page.raw("</section>");
}
