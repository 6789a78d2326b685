//! A differential flame graph: width is what a unit costs on the most CPUs, colour what that is more or less than on
//! the fewest. Idle CPUs lie on the code that they are charged to.

use std::collections::BTreeMap;
use std::fmt::Write;

use quartier_decide::verdict::Point;

use super::super::report::Report;
use super::super::text::duration;
use super::page::Page;
use crate::markup::escape;

const WIDTH: f64 = 1000.0;
const ROW: f64 = 17.0;
const ROWS_MAX: usize = 40;
/// Narrower ones cannot be seen, and make the page large.
const WIDTH_MIN: f64 = 0.8;
const LETTER: f64 = 6.3;

#[derive(Default)]
struct Node {
    before_s: f64,
    after_s: f64,
    below: BTreeMap<String, Node>,
}

/// Adds the graph.
pub fn difference(page: &mut Page, report: &Report, from: &Point, to: &Point) {
    let mut root = Node::default();
    add(&mut root, report, from, |node| &mut node.before_s);
    add(&mut root, report, to, |node| &mut node.after_s);
    if root.after_s <= 0.0 {
        return;
    }
    page.words("h2", "Where a unit’s CPU time goes, and where it grew");
    let rows = root.depth().min(ROWS_MAX);
    let height = rows as f64 * ROW;
    let mut svg = format!(
        "<svg class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Differential flame graph\">"
    );
    let all_s = root.after_s;
    root.draw(&mut svg, "all", 0.0, 0, all_s, height);
    page.raw(&(svg + "</svg>"));
    page.words(
        "p",
        &format!(
            "Width: CPU time for each {} on {} CPUs, {} in all. Red: more than on {}, blue: less, as much as the \
             colour is strong.",
            report.study.unit,
            to.nr_cpus,
            duration(all_s),
            from.nr_cpus
        ),
    );
}

fn add(root: &mut Node, report: &Report, point: &Point, of: fn(&mut Node) -> &mut f64) {
    for run in &point.runs {
        let weight = 1.0 / run.units / point.runs.len() as f64;
        for cost in run.profile.iter().flat_map(|profile| &profile.costs) {
            let path: Vec<_> =
                report.study.stack(cost).map(|frame| frame.function.clone()).collect();
            root.put(path.iter().map(String::as_str), cost.ran_s * weight, of);
            let idle = path.iter().map(String::as_str).chain(["idle CPUs"]);
            root.put(idle, cost.idle_s * weight, of);
        }
    }
}

impl Node {
    fn put<'a>(
        &mut self,
        path: impl Iterator<Item = &'a str>,
        seconds: f64,
        of: fn(&mut Node) -> &mut f64,
    ) {
        if seconds <= 0.0 {
            return;
        }
        *of(self) += seconds;
        let mut node = self;
        for name in path {
            node = node.below.entry(name.to_owned()).or_default();
            *of(node) += seconds;
        }
    }

    fn depth(&self) -> usize {
        1 + self.below.values().map(Self::depth).max().unwrap_or_default()
    }

    fn draw(&self, svg: &mut String, name: &str, x: f64, row: usize, all_s: f64, height: f64) {
        let width = WIDTH * self.after_s / all_s;
        if width < WIDTH_MIN || row >= ROWS_MAX {
            return;
        }
        let grown = (self.after_s - self.before_s) / all_s;
        let y = height - (row + 1) as f64 * ROW;
        let said = format!("{name}: {} → {}", duration(self.before_s), duration(self.after_s));
        let _ = write!(
            svg,
            "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
            escape(&said),
            colour(grown)
        );
        let letters = ((width - 6.0) / LETTER) as usize;
        if letters >= 3 {
            let shown: String = name.chars().take(letters).collect();
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 3.0,
                y + 12.5,
                escape(&shown)
            );
        }
        svg.push_str("</g>");
        let mut x = x;
        for (name, node) in &self.below {
            node.draw(svg, name, x, row + 1, all_s, height);
            x += WIDTH * node.after_s / all_s;
        }
    }
}

/// From blue by grey to red; a quarter of all is as strong as it gets.
fn colour(grown: f64) -> String {
    let strength = (grown.abs() * 4.0).min(1.0);
    let mix = |full: f64| (226.0 + (full - 226.0) * strength).round() as u8;
    let (red, green, blue) = if grown > 0.0 { (235.0, 87.0, 60.0) } else { (90.0, 140.0, 230.0) };
    format!("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue))
}
