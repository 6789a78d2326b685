//! Throughput against cores, with what the study's slides say beside it.

use svg::Document;
use svg::node::element::{Circle, Line, Polyline, Rectangle, Text, Title};

use crate::Curve;
use crate::machine::CORES_MAX;
use crate::scenario::Kernel;

const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 300.0;
const BETWEEN: f64 = 90.0;

/// Colours that also differ in brightness.
const COLOURS: [&str; 4] = ["#d55e00", "#e69f00", "#0072b2", "#009e73"];

/// Exim's messages a second (cores, rate), as the slides' profiles say them. Of sloppy counters they have a curve
/// and no number.
fn study(kernel: Kernel) -> &'static [(usize, f64)] {
    match kernel {
        Kernel::Stock => &[(40, 10_000.0), (48, 4_000.0)],
        Kernel::PerCoreTables => &[(32, 10_041.0), (48, 11_705.0)],
        Kernel::QueueLock | Kernel::SloppyCounters => &[],
    }
}

/// A panel's place and scale.
struct Panel {
    left: f64,
    top_value: f64,
}

impl Panel {
    fn x(&self, nr_cores: usize) -> f64 {
        self.left + WIDTH * nr_cores as f64 / CORES_MAX as f64
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - value / self.top_value)
    }

    fn axes(&self, mut document: Document, title: &str, unit: &str) -> Document {
        for quarter in 0..=4 {
            let value = self.top_value * f64::from(quarter) / 4.0;
            let at = self.y(value);
            let grid = Line::new().set("x1", self.left).set("x2", self.left + WIDTH);
            document = document
                .add(grid.set("y1", at).set("y2", at).set("stroke", "#ccc"))
                .add(text(self.left - 6.0, at + 4.0, "end", &format!("{value:.0}")));
        }
        for nr_cores in std::iter::once(1).chain((8..=CORES_MAX).step_by(8)) {
            let label =
                text(self.x(nr_cores), TOP + HEIGHT + 18.0, "middle", &nr_cores.to_string());
            document = document.add(label);
        }
        document
            .add(text(self.left, TOP - 26.0, "start", title).set("font-size", 15))
            .add(text(self.left, TOP - 10.0, "start", unit))
            .add(text(self.left + WIDTH / 2.0, TOP + HEIGHT + 36.0, "middle", "cores"))
    }

    fn curve(&self, document: Document, points: &[(usize, f64)], colour: &str) -> Document {
        if points.is_empty() {
            return document;
        }
        let place = |(nr_cores, value): &(usize, f64)| (self.x(*nr_cores), self.y(*value));
        let path = points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}"));
        let stroke = Polyline::new()
            .set("points", path.collect::<Vec<_>>().join(" "))
            .set("fill", "none")
            .set("stroke", colour)
            .set("stroke-width", 2);
        points.iter().map(place).fold(document.add(stroke), |document, (x, y)| {
            document.add(Circle::new().set("cx", x).set("cy", y).set("r", 3).set("fill", colour))
        })
    }
}

/// Draws all curves, and the study's.
pub fn draw(curves: &[Curve]) -> String {
    let (width, height) = (LEFT + 2.0 * WIDTH + BETWEEN + 20.0, TOP + HEIGHT + 130.0);
    let points = |curve: &Curve| {
        curve.points.iter().map(|point| (point.nr_cores, point.throughput)).collect::<Vec<_>>()
    };
    let most = curves.iter().flat_map(points).map(|(_, value)| value).fold(1.0, f64::max);
    let ours = Panel { left: LEFT, top_value: round_up(most) };
    let theirs = Panel { left: LEFT + WIDTH + BETWEEN, top_value: 14_000.0 };
    let title = "A ticket lock around a table, and its cures, on modelled cores";
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Title::new(title))
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"));
    document =
        ours.axes(document, "Modelled: eight sockets of six cores", "rounds in a million cycles");
    document = theirs.axes(
        document,
        "The study: Exim on 48 cores",
        "messages a second, where the slides say them",
    );
    for (at, (curve, colour)) in curves.iter().zip(COLOURS).enumerate() {
        document = ours.curve(document, &points(curve), colour);
        document = theirs.curve(document, study(curve.kernel), colour);
        let y = TOP + HEIGHT + 58.0 + 18.0 * at as f64;
        let key =
            Rectangle::new().set("x", LEFT).set("y", y - 9.0).set("width", 12).set("height", 9);
        document = document.add(key.set("fill", colour)).add(text(
            LEFT + 18.0,
            y,
            "start",
            curve.kernel.name(),
        ));
    }
    document.to_string() + "\n"
}

/// The next number that quarters of are round.
fn round_up(value: f64) -> f64 {
    let step = 10_f64.powf(value.log10().floor()) * 0.4;
    (value / step).ceil() * step
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("text-anchor", anchor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Point;

    #[test]
    fn every_curve_is_drawn_and_named() {
        let point =
            |nr_cores| Point { nr_cores, throughput: 7.0, hand_over_cycles: None, nr_taken: 0.0 };
        let curve = |kernel| Curve { kernel, points: vec![point(1), point(48)] };
        let drawn = draw(&Kernel::ALL.map(curve));
        for kernel in Kernel::ALL {
            assert!(drawn.contains(kernel.name()), "{drawn}");
        }
        // Two points of each, and the four that the study says.
        assert_eq!(drawn.matches("<circle").count(), Kernel::ALL.len() * 2 + 4);
        assert!(!drawn.contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([7.0, 39.0, 2700.0].map(|value| round_up(value).round()), [7.0, 40.0, 2800.0]);
    }
}
