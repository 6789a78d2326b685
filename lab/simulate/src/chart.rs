//! The results as a drawing: a square for each machine and load, imbalance against distance to the
//! creator. What is near the lower left corner is good at both.

use svg::Document;
use svg::node::element::{Circle, Group, Line, Polygon, Polyline, Rectangle, Text, Title};

use crate::choosers::ChooserName;
use crate::report::{Report, Run};

const LEFT: f64 = 70.0;
const TOP: f64 = 104.0;
const SIDE: f64 = 190.0;
const GAP: f64 = 46.0;
const BOTTOM: f64 = 56.0;
/// Width of a letter, of its size.
const LETTER: f64 = 0.6;
const INK: &str = "#2b2a28";
const FAINT: &str = "#d8d3c8";

/// Which part of the values a square shows.
#[derive(Clone, Copy)]
struct Scale {
    distance_max: f64,
    imbalance_max: f64,
}

/// One square's place and scale.
#[derive(Clone, Copy)]
struct Square {
    left: f64,
    top: f64,
    scale: Scale,
}

/// Draws a report.
#[must_use]
pub fn draw(report: &Report) -> String {
    let loads = report.loads();
    let width = (LEFT + (SIDE + GAP) * loads.len() as f64).max(720.0);
    let height = TOP + (SIDE + GAP) * report.machines.len() as f64 + BOTTOM - GAP;
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("font-family", "'DejaVu Sans', Verdana, sans-serif")
        .set("font-size", 11)
        .add(Title::new("Balance and distance of placement decisions"))
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"))
        .add(
            text(LEFT, 24.0, "start", "Imbalance and distance to the creator").set("font-size", 16),
        )
        .add(text(LEFT, 42.0, "start", &subtitle(report)))
        .add(legend());
    for (row, machine) in report.machines.iter().enumerate() {
        for (column, &load) in loads.iter().enumerate() {
            let square = Square {
                left: LEFT + (SIDE + GAP) * column as f64,
                top: TOP + (SIDE + GAP) * row as f64,
                scale: scale(report, &machine.name),
            };
            let runs = report.of(&machine.name, load);
            document = document.add(square.draw(&format!("{}, {load}", machine.name), &runs));
        }
    }
    let middle = LEFT + width / 2.0 - GAP;
    let below = "mean distance from a thread to its creator, SLIT (10: same node)";
    document
        .add(text(middle, height - 12.0, "middle", below))
        .add(
            text(0.0, 0.0, "middle", "imbalance, %")
                .set("transform", format!("translate(18 {}) rotate(-90)", (TOP + height) / 2.0)),
        )
        .to_string()
}

fn subtitle(report: &Report) -> String {
    format!(
        "lower left is better; {} events a run, seed {}; the tree at several periods of U and M",
        report.nr_events, report.seed
    )
}

/// One imbalance for all squares, so that they compare; distances differ too much between machines.
fn scale(report: &Report, machine: &str) -> Scale {
    let imbalance = report.runs.iter().map(|run| run.measures.imbalance_percent);
    let of_machine = report.runs.iter().filter(|run| run.machine == machine);
    let distance = of_machine.filter_map(|run| run.measures.thread_distance);
    Scale {
        imbalance_max: round_up(1.05 * imbalance.fold(1.0, f64::max)),
        distance_max: round_up(distance.fold(11.0, f64::max)),
    }
}

/// To the next number that divides well into two.
fn round_up(value: f64) -> f64 {
    let step = if value > 40.0 { 20.0 } else { 4.0 };
    (value / step).ceil() * step
}

impl Square {
    fn draw(&self, name: &str, runs: &[&Run]) -> Group {
        let frame = Rectangle::new()
            .set("x", self.left)
            .set("y", self.top)
            .set("width", SIDE)
            .set("height", SIDE)
            .set("fill", "none")
            .set("stroke", FAINT);
        let title = text(self.left, self.top - 7.0, "start", name).set("font-weight", "bold");
        let mut group = self.axes().add(frame).add(title);
        let tree = runs.iter().filter(|run| run.chooser == ChooserName::Dqdt);
        let points: Vec<_> = tree.filter_map(|run| self.place(run)).collect();
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        group = group.add(
            Polyline::new()
                .set("points", path.join(" "))
                .set("fill", "none")
                .set("stroke", colour(ChooserName::Dqdt)),
        );
        // The last to be drawn lie on top: the tree, and under it the oracle.
        for run in runs.iter().rev() {
            if let Some((x, y)) = self.place(run) {
                group = group.add(mark(run.chooser, x, y).add(Title::new(hint(run))));
            }
        }
        group.add(self.period_names(runs))
    }

    fn axes(&self) -> Group {
        let mut group = Group::new();
        for part in [0.0, 0.5, 1.0] {
            let (x, y) = (self.left + SIDE * part, self.top + SIDE * (1.0 - part));
            let distance = 10.0 + (self.scale.distance_max - 10.0) * part;
            let imbalance = self.scale.imbalance_max * part;
            group = group
                .add(stroke((x, self.top), (x, self.top + SIDE)))
                .add(stroke((self.left, y), (self.left + SIDE, y)))
                .add(text(x, self.top + SIDE + 14.0, "middle", &format!("{distance}")))
                .add(text(self.left - 5.0, y + 4.0, "end", &format!("{imbalance}")));
        }
        group
    }

    fn place(&self, run: &Run) -> Option<(f64, f64)> {
        let x = (run.measures.thread_distance? - 10.0) / (self.scale.distance_max - 10.0);
        let y = run.measures.imbalance_percent / self.scale.imbalance_max;
        Some((self.left + SIDE * x, self.top + SIDE * (1.0 - y)))
    }

    /// The shortest and the longest period, where they lie apart.
    fn period_names(&self, runs: &[&Run]) -> Group {
        let with_period = runs.iter().filter(|run| run.period_ns.is_some());
        let places: Vec<_> = with_period.filter_map(|run| Some((run, self.place(run)?))).collect();
        let mut group = Group::new();
        if let [(first, from), .., (last, to)] = places.as_slice()
            && (from.0 - to.0).hypot(from.1 - to.1) > 16.0
        {
            for (run, (x, y)) in [(first, from), (last, to)] {
                let name = run.period_ns.map(|period| period.to_string()).unwrap_or_default();
                group = group.add(text(x + 8.0, y - 6.0, "start", &name));
            }
        }
        group
    }
}

fn legend() -> Group {
    let mut group = Group::new();
    let mut x = LEFT;
    for name in ChooserName::ALL {
        let words = text(x + 10.0, 68.0, "start", name.name());
        group = group.add(mark(name, x, 64.0)).add(words);
        x += 32.0 + name.name().len() as f64 * 11.0 * LETTER;
    }
    group
}

fn hint(run: &Run) -> String {
    let period = run.period_ns.map(|period| format!(" at {period}")).unwrap_or_default();
    format!(
        "{}{period}: imbalance {:.2} %, distance {:.1}",
        run.chooser,
        run.measures.imbalance_percent,
        run.measures.thread_distance.unwrap_or(f64::NAN)
    )
}

/// Shapes differ as well as colours: not everybody sees these.
fn mark(name: ChooserName, x: f64, y: f64) -> Group {
    let group = Group::new().set("stroke", INK).set("fill", colour(name));
    let polygon = |corners: &[(f64, f64)]| {
        let corners = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy));
        Polygon::new().set("points", corners.collect::<Vec<_>>().join(" "))
    };
    match name {
        ChooserName::Dqdt => group.add(Circle::new().set("cx", x).set("cy", y).set("r", 5)),
        ChooserName::Oracle => {
            group.add(polygon(&[(0.0, -7.5), (7.5, 0.0), (0.0, 7.5), (-7.5, 0.0)]))
        }
        ChooserName::TwoChoicesNear => group.add(polygon(&[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)])),
        ChooserName::TwoChoices => group.add(polygon(&[(0.0, 5.5), (5.0, -4.0), (-5.0, -4.0)])),
        ChooserName::RoundRobin => {
            group.add(polygon(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]))
        }
        ChooserName::Random => {
            group.add(polygon(&[(-5.0, -2.5), (5.0, -2.5), (5.0, 2.5), (-5.0, 2.5)]))
        }
    }
}

/// Colours that also differ in brightness.
fn colour(name: ChooserName) -> &'static str {
    match name {
        ChooserName::Dqdt => "#1f6fb5",
        ChooserName::Oracle => "#f4d03f",
        ChooserName::TwoChoicesNear => "#e67e22",
        ChooserName::TwoChoices => "#f0b27a",
        ChooserName::RoundRobin => "#9b9b9b",
        ChooserName::Random => "#dddddd",
    }
}

fn stroke(from: (f64, f64), to: (f64, f64)) -> Line {
    Line::new()
        .set("x1", from.0)
        .set("y1", from.1)
        .set("x2", to.0)
        .set("y2", to.1)
        .set("stroke", FAINT)
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("text-anchor", anchor).set("fill", INK)
}
