//! The run over time: how many commands per thousand instructions leave their node, and stay.
//!
//! Time is counted in instructions of the program: seconds in a guest mean nothing.

use quartier_memmodel::Kind;

use super::canvas::{About, Canvas, Drawing, text_width};
use super::scale::{Plot, Scale};
use super::{WIDTH, kind_class, kind_legend};
use crate::numbers::{count, significant};
use crate::recording::Moment;
use crate::report::Report;
use crate::slices::Slice;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 84.0;
const HEIGHT_REMOTE: f64 = 150.0;
const HEIGHT_LOCAL: f64 = 110.0;
const BETWEEN: f64 = 42.0;

/// A slice as it is drawn.
struct Step {
    from: u64,
    to: u64,
    /// Commands per 1000 instructions, by kind.
    local: [f64; 6],
    remote: [f64; 6],
}

/// From instructions to pixels.
struct Time {
    scale: Scale,
    plot: Plot,
}

pub(super) fn draw(report: &Report) -> Option<Drawing> {
    let steps = steps(&report.slices);
    let end = steps.last()?.to;
    let width = WIDTH - LEFT - RIGHT;
    let above = Plot { left: LEFT, top: TOP, width, height: HEIGHT_REMOTE };
    let below = Plot { left: LEFT, top: above.bottom() + BETWEEN, width, height: HEIGHT_LOCAL };
    let time = Time { scale: Scale::of_counts_to(end), plot: above };
    let mut canvas = Canvas::new();
    canvas.legend(LEFT, 14.0, &kind_legend());
    panel(&mut canvas, above, &time, &steps, "leave their node", |step| &step.remote);
    panel(&mut canvas, below, &time, &steps, "stay on their node", |step| &step.local);
    time.draw_axis(&mut canvas, below);
    time.draw_moments(&mut canvas, report, (above, below), end);
    let middle = f64::midpoint(above.top, below.bottom());
    canvas.upward_text(12.0, middle, "mid muted", "commands per 1,000 instructions");
    let about = About {
        name: "over-time",
        title: "Commands over time".to_owned(),
        subtitle: "per 1,000 instructions of the program; the whole run".to_owned(),
        description: description(&steps),
    };
    Some(canvas.finish(about, WIDTH, below.bottom() + 44.0))
}

fn steps(slices: &[Slice]) -> Vec<Step> {
    let mut from = 0;
    let mut steps = Vec::new();
    for slice in slices {
        let to = slice.instructions;
        let thousands = to.saturating_sub(from) as f64 / 1000.0;
        if thousands > 0.0 {
            let per = |counts: [u64; 6]| counts.map(|nr| nr as f64 / thousands);
            steps.push(Step { from, to, local: per(slice.local), remote: per(slice.remote) });
        }
        from = to;
    }
    steps
}

fn total(rates: &[f64; 6]) -> f64 {
    rates.iter().sum()
}

fn panel(
    canvas: &mut Canvas,
    plot: Plot,
    time: &Time,
    steps: &[Step],
    name: &str,
    of: fn(&Step) -> &[f64; 6],
) {
    let most = steps.iter().map(|step| total(of(step))).fold(0.0, f64::max);
    let scale = Scale::up_to(most);
    canvas.text(plot.left, plot.top - 10.0, "panel", name);
    plot.draw_y_axis(canvas, &scale);
    if most == 0.0 {
        canvas.text(plot.x(0.5), plot.y(0.5), "mid muted", "none");
        return;
    }
    for kind in Kind::ALL {
        let below = |step: &Step| of(step)[..kind as usize].iter().sum::<f64>();
        let above = |step: &Step| below(step) + of(step)[kind as usize];
        if steps.iter().all(|step| of(step)[kind as usize] == 0.0) {
            continue;
        }
        let mut points = Vec::new();
        for step in steps {
            let y = plot.y(scale.part(above(step)));
            points.extend([(time.x(step.from), y), (time.x(step.to), y)]);
        }
        for step in steps.iter().rev() {
            let y = plot.y(scale.part(below(step)));
            points.extend([(time.x(step.to), y), (time.x(step.from), y)]);
        }
        let most = steps.iter().map(|step| of(step)[kind as usize]).fold(0.0, f64::max);
        let hint = format!(
            "{} that {name}: at most {} per 1,000 instructions",
            kind.name(),
            significant(most)
        );
        canvas.path(&points, true, kind_class(kind), Some(&hint));
    }
}

impl Time {
    fn x(&self, instructions: u64) -> f64 {
        self.plot.x(self.scale.part(instructions as f64))
    }

    fn draw_axis(&self, canvas: &mut Canvas, below: Plot) {
        for (value, text) in self.scale.ticks() {
            let x = self.plot.x(self.scale.part(value));
            canvas.line((x, below.bottom()), (x, below.bottom() + 5.0), "axis");
            canvas.text(x, below.bottom() + 18.0, "mid muted", &text);
        }
        let middle = below.left + below.width / 2.0;
        canvas.text(middle, below.bottom() + 36.0, "mid muted", "instructions of the program");
    }

    /// Lines where threads begin and end, and a shade over what the report is not about.
    fn draw_moments(
        &self,
        canvas: &mut Canvas,
        report: &Report,
        (above, below): (Plot, Plot),
        end: u64,
    ) {
        if let Some((from, to)) = report.span() {
            for (from, to) in [(0, from), (to, end)] {
                let (left, right) = (self.x(from), self.x(to));
                for plot in [above, below] {
                    if right - left > 1.0 {
                        let size = (right - left, plot.height);
                        canvas.rect((left, plot.top), size, "shade", Some("not in this report"));
                    }
                }
            }
        }
        for moment in &report.moments {
            let name = match moment.at {
                Moment::FirstThread => "second thread begins",
                Moment::LastThreadEnded => "last thread has ended",
                Moment::Start | Moment::End => continue,
            };
            let x = self.x(moment.instructions);
            // Not through the panels' names.
            let parts = [
                (above.top - 40.0, above.top - 24.0),
                (above.top, above.bottom()),
                (below.top, below.bottom()),
            ];
            for (from, to) in parts {
                canvas.line((x, from), (x, to), "mark dashed");
            }
            // Before the line if the name has no room behind it; the two then never meet.
            if moment.at == Moment::FirstThread {
                let x = x.min(above.right() - 2.0 * text_width(name, 11.5) - 24.0);
                canvas.text(x + 6.0, above.top - 30.0, "muted", name);
            } else {
                let x = x.max(above.left + 2.0 * text_width(name, 11.5) + 24.0);
                canvas.text(x - 6.0, above.top - 30.0, "end muted", name);
            }
        }
    }
}

fn description(steps: &[Step]) -> String {
    let most = steps.iter().max_by(|a, b| total(&a.remote).total_cmp(&total(&b.remote)));
    match most {
        Some(step) if total(&step.remote) > 0.0 => format!(
            "Most commands leave their node around instruction {}: {} per 1,000 instructions.",
            count(step.to),
            significant(total(&step.remote))
        ),
        _ => "No command leaves its node at any time.".to_owned(),
    }
}
