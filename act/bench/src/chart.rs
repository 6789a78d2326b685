//! The result as a bar chart.

use svg::Document;
use svg::node::element::{Line as Stroke, Rectangle, Text, Title};

use crate::report::{Line, Report};

const LEFT: f64 = 250.0;
const WIDTH: f64 = 560.0;
const ROW: f64 = 20.0;
const TOP: f64 = 64.0;
const MARKS: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];

/// Draws mark + touch of every case over a first touch, on a logarithmic axis.
pub fn draw(report: &Report) -> String {
    let bottom = TOP + ROW * report.lines.len() as f64;
    let (width, height) = (LEFT + WIDTH + 60.0, bottom + 40.0);
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Title::new("Cost of marking and touching a page"))
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"))
        .add(
            text(LEFT, 22.0, "start", "Marking and touching a page, times a first touch")
                .set("font-size", 15),
        )
        .add(text(
            LEFT,
            42.0,
            "start",
            "median, line from smallest to largest; logarithmic; shorter is better",
        ));
    for mark in MARKS {
        let x = place(mark);
        let colour = if mark == 1.0 { "#444" } else { "#ccc" };
        document = document.add(stroke((x, TOP - 6.0), (x, bottom), colour)).add(text(
            x,
            bottom + 18.0,
            "middle",
            &format!("{mark}"),
        ));
    }
    for (row, line) in report.lines.iter().enumerate() {
        document = bar(document, line, TOP + ROW * row as f64);
    }
    document.to_string()
}

fn bar(document: Document, line: &Line, y: f64) -> Document {
    let ratio = line.to_first_touch;
    let middle = y + ROW / 2.0;
    let threads = if line.threads == 1 { "" } else { "s" };
    let name = format!("{}, {} thread{threads}", line.name, line.threads);
    let end = place(ratio.median);
    document
        .add(text(LEFT - 8.0, middle + 4.0, "end", &name))
        .add(
            Rectangle::new()
                .set("x", LEFT)
                .set("y", y + 3.0)
                .set("width", end - LEFT)
                .set("height", ROW - 6.0)
                .set("fill", colour(&line.name)),
        )
        .add(stroke((place(ratio.min), middle), (place(ratio.max), middle), "black"))
        .add(text(place(ratio.max) + 5.0, middle + 4.0, "start", &format!("{:.2}", ratio.median)))
}

/// Colours that also differ in brightness.
fn colour(name: &str) -> &'static str {
    match name.split([' ', '-', '+']).next() {
        Some("first") => "#999999",
        Some("mprotect") => "#e69f00",
        _ => "#56b4e9",
    }
}

/// Where a ratio lies on the axis; what is beyond it lies at its end.
fn place(ratio: f64) -> f64 {
    let (first, last) = (MARKS[0].ln(), (MARKS[MARKS.len() - 1] * 3.0).ln());
    let share = (ratio.max(MARKS[0]).ln() - first) / (last - first);
    LEFT + WIDTH * share.clamp(0.0, 1.0)
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
        assert_eq!(place(0.0), LEFT);
        assert_eq!(place(f64::NAN), LEFT);
        assert_eq!(place(1e9), LEFT + WIDTH);
        assert!(place(0.3) < place(1.0) && place(1.0) < place(10.0));
    }
}
