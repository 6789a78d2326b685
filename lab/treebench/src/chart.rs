//! Cost against the height of the tree as a picture.

use svg::Document;
use svg::node::element::{Circle, Line as Stroke, Polyline, Rectangle, Text, Title};

use crate::report::Report;
use crate::shape::{HEIGHT_MAX, Shape};
use crate::stats::Spread;

const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 340.0;
const LEGEND: f64 = 230.0;

/// Ends of the axis of time.
const AXIS_NS: (f64, f64) = (10.0, 1_000_000.0);

/// Colours that also differ in brightness.
const COLOURS: [&str; 5] = ["#009e73", "#0072b2", "#000000", "#e69f00", "#d55e00"];

type Points = Vec<(u32, Spread)>;

/// Draws every case that has points, on a logarithmic axis.
pub fn draw(report: &Report) -> String {
    let (width, height) = (LEFT + WIDTH + LEGEND, TOP + HEIGHT + 60.0);
    let title = "Choosing a CPU, against the height of the decision tree";
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Title::new(title))
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"))
        .add(text(LEFT, 22.0, "start", title).set("font-size", 15))
        .add(text(
            LEFT,
            42.0,
            "start",
            "mean of a decision, bar from smallest to largest round; logarithmic; lower is better",
        ));
    document = axes(document);
    for (at, (name, points)) in plotted(report).into_iter().enumerate() {
        document = line(document, &name, &points, COLOURS[at % COLOURS.len()]);
    }
    document.to_string()
}

/// The lines of the plot, each with its points by height.
fn plotted(report: &Report) -> Vec<(String, Points)> {
    let mut plotted: Vec<(String, Points)> = Vec::new();
    for line in &report.lines {
        let (Some((name, height)), Some(mean_ns)) = (&line.point, line.mean_ns) else { continue };
        match plotted.iter_mut().find(|(other, _)| other == name) {
            Some((_, points)) => points.push((*height, mean_ns)),
            None => plotted.push((name.clone(), vec![(*height, mean_ns)])),
        }
    }
    plotted
}

fn axes(mut document: Document) -> Document {
    let bottom = TOP + HEIGHT;
    let mut mark_ns = AXIS_NS.0;
    while mark_ns <= AXIS_NS.1 {
        let label = match mark_ns {
            ns if ns >= 1000.0 => format!("{} us", ns / 1000.0),
            ns => format!("{ns} ns"),
        };
        let at = y(mark_ns);
        document = document.add(stroke((LEFT, at), (LEFT + WIDTH, at), "#ccc")).add(text(
            LEFT - 8.0,
            at + 4.0,
            "end",
            &label,
        ));
        mark_ns *= 10.0;
    }
    for height in 1..=HEIGHT_MAX {
        let at = x(height);
        document = document.add(text(at, bottom + 18.0, "middle", &height.to_string())).add(text(
            at,
            bottom + 34.0,
            "middle",
            &Shape::of_height(height).to_string(),
        ));
    }
    document.add(text(LEFT + WIDTH / 2.0, bottom + 52.0, "middle", "height; nodes x CPUs of each"))
}

fn line(mut document: Document, name: &str, points: &Points, colour: &str) -> Document {
    let path: Vec<_> = points
        .iter()
        .map(|(height, ns)| format!("{:.1},{:.1}", x(*height), y(ns.median)))
        .collect();
    document = document.add(
        Polyline::new()
            .set("points", path.join(" "))
            .set("fill", "none")
            .set("stroke", colour)
            .set("stroke-width", 2),
    );
    for (height, ns) in points {
        let at = x(*height);
        let dot = Circle::new().set("cx", at).set("cy", y(ns.median)).set("r", 3);
        document = document
            .add(stroke((at, y(ns.min)), (at, y(ns.max)), colour))
            .add(dot.set("fill", colour));
    }
    let Some((height, last)) = points.last() else { return document };
    let label = text(x(*height) + 10.0, y(last.median) + 4.0, "start", name);
    document.add(label.set("fill", colour))
}

fn x(height: u32) -> f64 {
    LEFT + WIDTH * (f64::from(height) - 0.5) / f64::from(HEIGHT_MAX)
}

/// Where a time lies; what is beyond the axis lies at its end.
fn y(ns: f64) -> f64 {
    let (first, last) = (AXIS_NS.0.ln(), AXIS_NS.1.ln());
    let share = (ns.max(AXIS_NS.0).ln() - first) / (last - first);
    TOP + HEIGHT * (1.0 - share.clamp(0.0, 1.0))
}

fn stroke(from: (f64, f64), to: (f64, f64), colour: &str) -> Stroke {
    Stroke::new()
        .set("x1", from.0)
        .set("y1", from.1)
        .set("x2", to.0)
        .set("y2", to.1)
        .set("stroke", colour)
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("text-anchor", anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_ends() {
        assert_eq!(y(0.0), TOP + HEIGHT);
        assert_eq!(y(f64::NAN), TOP + HEIGHT);
        assert_eq!(y(1e12), TOP);
        assert!(y(100.0) > y(1000.0) && x(1) < x(2));
    }
}
