//! The nodes most asked (thesis figure 5.12): bars stacked by kind, what came from other nodes beside
//! what came from the node's own CPUs. Each has its own axis: the one is a fraction of the other.

use quartier_memmodel::Kind;

use super::canvas::{About, Canvas, Drawing};
use super::scale::{Plot, Scale};
use super::{WIDTH, kind_class, kind_legend};
use crate::numbers::{count, grouped, or_none, percent, share};
use crate::report::{Asked, KindCounts, Report};
use crate::words;

/// Bars of nodes; the mean of the others is one more.
const NODES_MAX: usize = 11;
const ROW: f64 = 27.0;
const BAR: f64 = 18.0;
const TOP: f64 = 56.0;
const LEFT: f64 = 92.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 58.0;

/// A bar: a node, or the mean of many.
struct Row {
    name: String,
    asked: Asked,
}

pub(super) fn draw(report: &Report) -> Option<Drawing> {
    let program = &report.program;
    if program.commands.remote == 0 {
        return None;
    }
    let rows = rows(program.most_asked());
    let height = ROW * rows.len() as f64;
    let left = Plot { left: LEFT, top: TOP, width: 420.0, height };
    let right = Plot { left: left.right() + NUMBER + 30.0, top: TOP, width: 200.0, height };
    let mut canvas = Canvas::new();
    canvas.legend(LEFT, 14.0, &kind_legend());
    side(&mut canvas, left, &rows, "asked from other nodes", |asked| &asked.remote);
    side(&mut canvas, right, &rows, "asked by their own CPUs", |asked| &asked.local);
    for (at, row) in rows.iter().enumerate() {
        canvas.text(LEFT - 10.0, middle(left, at) + 4.0, "end", &row.name);
    }
    let about = About {
        name: "nodes-most-asked",
        title: "The nodes most asked".to_owned(),
        subtitle: format!("commands that each node receives, by kind; {}", report.phase.name()),
        description: description(report),
    };
    Some(canvas.finish(about, WIDTH, left.bottom() + 40.0))
}

fn rows(asked: Vec<Asked>) -> Vec<Row> {
    let of_node = |asked: &Asked| Row { name: format!("node {}", asked.node), asked: *asked };
    if asked.len() <= NODES_MAX + 1 {
        return asked.iter().map(of_node).collect();
    }
    let (most, others) = asked.split_at(NODES_MAX);
    let sum = others.iter().fold(Asked::default(), |sum, asked| Asked {
        local: sum.local.plus(&asked.local),
        remote: sum.remote.plus(&asked.remote),
        ..sum
    });
    let mean = |sum: &KindCounts| {
        KindCounts::from_array(sum.as_array().map(|nr| nr / others.len() as u64))
    };
    let mean = Asked { local: mean(&sum.local), remote: mean(&sum.remote), ..sum };
    let mut rows: Vec<_> = most.iter().map(of_node).collect();
    rows.push(Row { name: format!("mean of {}", others.len()), asked: mean });
    rows
}

fn middle(plot: Plot, row: usize) -> f64 {
    plot.top + ROW * (row as f64 + 0.5)
}

fn side(canvas: &mut Canvas, plot: Plot, rows: &[Row], what: &str, of: fn(&Asked) -> &KindCounts) {
    let most = rows.iter().map(|row| of(&row.asked).total()).max().unwrap_or(0);
    let scale = Scale::of_counts(most);
    canvas.text(plot.left, plot.top - 12.0, "panel", what);
    plot.draw_x_axis(canvas, &scale, "commands");
    for (at, row) in rows.iter().enumerate() {
        let y = middle(plot, at);
        let counts = of(&row.asked);
        let end = bar(canvas, plot, &scale, y - BAR / 2.0, BAR, (&row.name, what, counts));
        canvas.text(end + 6.0, y + 4.0, "", &count(counts.total()));
    }
}

/// A bar stacked by kind; where it ends.
pub(super) fn bar(
    canvas: &mut Canvas,
    plot: Plot,
    scale: &Scale,
    top: f64,
    thickness: f64,
    (name, what, counts): (&str, &str, &KindCounts),
) -> f64 {
    let total = counts.total();
    let mut before = 0_u64;
    for kind in Kind::ALL {
        let nr = counts.as_array()[kind as usize];
        if nr == 0 {
            continue;
        }
        let from = plot.x(scale.part(before as f64));
        before = before.saturating_add(nr);
        let to = plot.x(scale.part(before as f64));
        let hint = format!(
            "{name}, {what}: {} {} ({})",
            grouped(nr),
            kind.name(),
            or_none(share(nr, total), percent),
        );
        // A hair between two kinds, where there is room for it.
        let gap = if to - from > 3.0 { 1.0 } else { 0.0 };
        canvas.rect((from, top), (to - from - gap, thickness), kind_class(kind), Some(&hint));
    }
    plot.x(scale.part(before as f64))
}

fn description(report: &Report) -> String {
    let asked = report.program.most_asked();
    let listed = asked.iter().take(NODES_MAX).map(|asked| {
        format!(
            "node {}: {} from other nodes, {} from its own CPUs",
            asked.node,
            count(asked.remote.total()),
            count(asked.local.total())
        )
    });
    let listed: Vec<_> = listed.collect();
    let busiest = words::busiest(&report.program).unwrap_or_default();
    format!("{busiest} Commands received: {}.", listed.join("; "))
}
