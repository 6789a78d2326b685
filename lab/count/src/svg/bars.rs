//! Policies side by side: Q, the share of commands that leave, the modelled time. A bar is the middle of
//! all runs, a whisker the least and the greatest; what first touch has is drawn through all.

use super::WIDTH;
use super::canvas::{About, Canvas, Drawing, text_width};
use super::scale::{Plot, Scale};
use crate::compare::{Comparison, Figures, Policy, PolicyResult, Spread};
use crate::numbers::{between, mib, milliseconds, or_none, percent, significant, times};
use crate::words::modelled_with;

const LEFT: f64 = 158.0;
const TOP: f64 = 30.0;
const ROW: f64 = 34.0;
const BAR: f64 = 18.0;
const PANEL: f64 = 150.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 88.0;

/// What a panel shows of each policy.
struct Measure {
    name: &'static str,
    unit: &'static str,
    of: fn(&Figures) -> Option<Spread>,
    ratio: fn(&Figures) -> Option<Spread>,
    /// A number and its unit.
    full: fn(f64) -> String,
    /// What fits behind a bar.
    short: fn(f64) -> String,
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "moved between nodes, Q",
        unit: "MiB",
        of: |figures| Some(figures.q_mib),
        ratio: |figures| figures.q_to_first_touch,
        full: mib,
        short: significant,
    },
    Measure {
        name: "commands that leave",
        unit: "% of all commands",
        of: |figures| figures.remote_percent,
        ratio: |_| None,
        full: percent,
        short: percent,
    },
    Measure {
        name: "modelled time",
        unit: "ms, modelled",
        of: |figures| figures.modelled_phase_ms,
        ratio: |figures| figures.modelled_time_to_first_touch,
        full: milliseconds,
        short: significant,
    },
];

pub(super) fn draw(comparison: &Comparison) -> Option<Drawing> {
    let results = &comparison.policies;
    let height = ROW * results.len() as f64;
    let mut canvas = Canvas::new();
    for (at, result) in results.iter().enumerate() {
        let class = if result.policy.is_ours() { "end strong" } else { "end" };
        let y = TOP + ROW * (at as f64 + 0.5) + 4.0;
        canvas.text(LEFT - 10.0, y, class, result.policy.name());
    }
    for (at, measure) in MEASURES.iter().enumerate() {
        let left = LEFT + (PANEL + NUMBER) * at as f64;
        panel(&mut canvas, Plot { left, top: TOP, width: PANEL, height }, results, measure);
    }
    let about = About {
        name: "policies",
        title: "Policies side by side".to_owned(),
        subtitle: format!(
            "{}; bars: middle of all runs; whiskers: least to greatest; ×: of first touch",
            comparison.phase.name()
        ),
        description: description(results),
    };
    let drawing = canvas.finish(about, WIDTH, TOP + height + 40.0);
    Some(drawing.with_parameters(modelled_with(&comparison.geometry)))
}

fn panel(canvas: &mut Canvas, plot: Plot, results: &[PolicyResult], measure: &Measure) {
    let of = |result: &PolicyResult| result.figures.as_ref().and_then(measure.of);
    let most = results.iter().filter_map(of).map(|spread| spread.greatest).fold(0.0, f64::max);
    let scale = Scale::up_to(most);
    canvas.text(plot.left, plot.top - 12.0, "panel", measure.name);
    plot.draw_x_axis(canvas, &scale, measure.unit);
    let first = results.iter().find(|result| result.policy == Policy::FirstTouch).and_then(of);
    if let Some(first) = first {
        let x = plot.x(scale.part(first.middle));
        canvas.line((x, plot.top), (x, plot.bottom()), "mark dashed");
    }
    for (at, result) in results.iter().enumerate() {
        let middle = plot.top + ROW * (at as f64 + 0.5);
        match of(result) {
            Some(spread) => bar(canvas, plot, &scale, (middle, first), (result, measure, spread)),
            None => canvas.text(plot.left + 8.0, middle + 4.0, "muted", "not counted"),
        }
    }
}

fn bar(
    canvas: &mut Canvas,
    plot: Plot,
    scale: &Scale,
    (middle, first): (f64, Option<Spread>),
    (result, measure, spread): (&PolicyResult, &Measure, Spread),
) {
    let x = |value: f64| plot.x(scale.part(value));
    let range = between(&(measure.full)(spread.least), &(measure.full)(spread.greatest));
    let hint = format!(
        "{}, {}: {} ({range}, {} runs)",
        result.policy.name(),
        measure.name,
        (measure.full)(spread.middle),
        result.runs.len()
    );
    let class = if result.policy.is_ours() { "ours" } else { "other" };
    let top = middle - BAR / 2.0;
    canvas.rect((plot.left, top), (x(spread.middle) - plot.left, BAR), class, Some(&hint));
    if spread.greatest > spread.least {
        let (least, greatest) = (x(spread.least), x(spread.greatest));
        canvas.line((least, middle), (greatest, middle), "whisker");
        for end in [least, greatest] {
            canvas.line((end, middle - 4.0), (end, middle + 4.0), "whisker");
        }
    }
    let ratio = result.figures.as_ref().and_then(measure.ratio);
    let ratio = ratio.filter(|_| result.policy != Policy::FirstTouch);
    let number = (measure.short)(spread.middle);
    let mut at = x(spread.greatest) + 7.0;
    // Not across the line of first touch.
    if let Some(line) = first.map(|first| x(first.middle))
        && (at - 3.0..at + text_width(&number, 11.5) + 3.0).contains(&line)
    {
        at = line + 7.0;
    }
    match ratio {
        Some(ratio) => {
            canvas.text(at, middle - 1.0, "", &number);
            canvas.text(at, middle + 11.0, "small muted", &times(ratio.middle));
        }
        None => canvas.text(at, middle + 4.0, "", &number),
    }
}

fn description(results: &[PolicyResult]) -> String {
    let of = |result: &PolicyResult| match &result.figures {
        Some(figures) => format!(
            "{}: Q {}, modelled time {}",
            result.policy.name(),
            mib(figures.q_mib.middle),
            or_none(figures.modelled_phase_ms.map(|time| time.middle), milliseconds)
        ),
        None => format!("{}: not counted", result.policy.name()),
    };
    results.iter().map(of).collect::<Vec<_>>().join("; ") + "."
}
