//! The nodes most asked under each policy, as thesis figure 5.12 shows them: one scale for all.

use super::WIDTH;
use super::asked::bar;
use super::canvas::{About, Canvas, Drawing};
use super::kind_legend;
use super::scale::{Plot, Scale};
use crate::compare::{Comparison, PolicyResult};
use crate::numbers::count;
use crate::report::Asked;
use crate::words::geometry;

/// The thesis shows six nodes: the others are like the last.
const NODES_MAX: usize = 6;
const COLUMNS: usize = 3;
const TOP: f64 = 36.0;
const LEFT: f64 = 56.0;
const ROW: f64 = 21.0;
const BAR: f64 = 14.0;
const PANEL: f64 = 176.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 54.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 54.0;

pub(super) fn draw(comparison: &Comparison) -> Option<Drawing> {
    let panels: Vec<(&PolicyResult, Vec<Asked>)> = comparison
        .policies
        .iter()
        .filter(|result| !result.asked.is_empty())
        .map(|result| (result, top_nodes(&result.asked)))
        .collect();
    let received = panels.iter().flat_map(|(_, asked)| asked).map(|asked| asked.remote.total());
    let most = received.max().filter(|&most| most > 0)?;
    let nr_nodes = panels.iter().map(|(_, asked)| asked.len()).max()?;
    let scale = Scale::of_counts(most);
    let height = ROW * nr_nodes as f64;
    let mut canvas = Canvas::new();
    canvas.legend(LEFT, 14.0, &kind_legend());
    for (at, (result, asked)) in panels.iter().enumerate() {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let left = LEFT + (LEFT + PANEL + NUMBER) * column as f64;
        let top = TOP + HEAD + (HEAD + FOOT + height) * row as f64;
        panel(&mut canvas, Plot { left, top, width: PANEL, height }, &scale, (result, asked));
    }
    let rows = panels.len().div_ceil(COLUMNS);
    let about = About {
        name: "nodes-most-asked",
        title: "The nodes most asked, by policy".to_owned(),
        subtitle: format!(
            "commands from other nodes, by kind; the run with the middle Q; {}",
            comparison.phase.name()
        ),
        description: description(&panels),
    };
    let drawing = canvas.finish(about, WIDTH, TOP + (HEAD + FOOT + height) * rows as f64 - 12.0);
    // Counts follow from the caches only: no time is in them.
    Some(drawing.with_parameters(format!("Modelled on {}.", geometry(&comparison.geometry))))
}

fn top_nodes(asked: &[Asked]) -> Vec<Asked> {
    let mut sorted = Asked::most_first(asked);
    sorted.truncate(NODES_MAX);
    sorted
}

fn panel(
    canvas: &mut Canvas,
    plot: Plot,
    scale: &Scale,
    (result, asked): (&PolicyResult, &[Asked]),
) {
    canvas.text(plot.left, plot.top - 10.0, "panel", result.policy.name());
    plot.draw_x_axis(canvas, scale, "commands");
    for (at, asked) in asked.iter().enumerate() {
        let middle = plot.top + ROW * (at as f64 + 0.5);
        let name = format!("node {}", asked.node);
        canvas.text(plot.left - 8.0, middle + 4.0, "end", &name);
        let about = (name.as_str(), "asked from other nodes", &asked.remote);
        let end = bar(canvas, plot, scale, middle - BAR / 2.0, BAR, about);
        canvas.text(end + 6.0, middle + 4.0, "", &count(asked.remote.total()));
    }
}

fn description(panels: &[(&PolicyResult, Vec<Asked>)]) -> String {
    let of = |(result, asked): &(&PolicyResult, Vec<Asked>)| {
        let nodes = asked
            .iter()
            .map(|asked| format!("node {} {}", asked.node, count(asked.remote.total())));
        format!("{}: {}", result.policy.name(), nodes.collect::<Vec<_>>().join(", "))
    };
    let listed = panels.iter().map(of).collect::<Vec<_>>().join("; ");
    format!("Commands received from other nodes. {listed}.")
}
