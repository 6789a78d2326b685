//! Who asks whom: a square for each pair of nodes, the darker the more commands go there. What stays on
//! its node has no colour: it would outshine all else.

use super::canvas::{About, Canvas, Drawing};
use crate::numbers::{count, grouped};
use crate::report::Report;

/// Steps of the scale above nothing.
const STEPS: u64 = 8;
const LEFT: f64 = 70.0;
const TOP: f64 = 44.0;
/// The map's side if squares had any size.
const SIDE: f64 = 512.0;
const CELL_MIN: f64 = 8.0;
const CELL_MAX: f64 = 72.0;
/// Squares from this size on have their number in them.
const CELL_NUMBERED: f64 = 46.0;
/// Names of nodes need this much.
const NAME: f64 = 20.0;

struct Map<'a> {
    matrix: &'a [Vec<u64>],
    cell: f64,
    /// The most that any node asks of another.
    most: u64,
}

pub(super) fn draw(report: &Report) -> Option<Drawing> {
    let matrix = &report.program.matrix;
    if matrix.len() < 2 || report.program.is_empty() {
        return None;
    }
    let cell = (SIDE / matrix.len() as f64).clamp(CELL_MIN, CELL_MAX);
    let map = Map { matrix, cell, most: most(matrix).map_or(0, |(nr, ..)| nr) };
    let mut canvas = Canvas::new();
    map.draw_names(&mut canvas);
    map.draw_cells(&mut canvas);
    let side = cell * matrix.len() as f64;
    let scale_left = LEFT + side + 44.0;
    map.draw_scale(&mut canvas, scale_left);
    let about = About {
        name: "who-asks-whom",
        title: "Who asks whom".to_owned(),
        subtitle: format!("commands from the CPUs of a node to a node; {}", report.phase.name()),
        description: description(matrix),
    };
    Some(canvas.finish(about, scale_left + 230.0, (TOP + side + 12.0).max(TOP + 260.0)))
}

/// The most commands between two nodes, and which.
fn most(matrix: &[Vec<u64>]) -> Option<(u64, usize, usize)> {
    let cells = matrix
        .iter()
        .enumerate()
        .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, &nr)| (nr, from, to)));
    cells
        .filter(|(_, from, to)| from != to)
        .max_by_key(|&(nr, from, to)| (nr, std::cmp::Reverse((from, to))))
}

impl Map<'_> {
    fn draw_names(&self, canvas: &mut Canvas) {
        let side = self.cell * self.matrix.len() as f64;
        let every = (NAME / self.cell).ceil().max(1.0) as usize;
        // Round numbers, where not all are written.
        let every = [1, 2, 4, 8, 16, 32].into_iter().find(|&nr| nr >= every).unwrap_or(64);
        for node in (0..self.matrix.len()).step_by(every) {
            let at = self.cell * (node as f64 + 0.5);
            canvas.text(LEFT + at, TOP - 8.0, "mid", &node.to_string());
            canvas.text(LEFT - 8.0, TOP + at + 4.0, "end", &node.to_string());
        }
        canvas.text(LEFT + side / 2.0, TOP - 28.0, "mid muted", "to node");
        canvas.upward_text(LEFT - 44.0, TOP + side / 2.0, "mid muted", "from CPUs of node");
    }

    fn draw_cells(&self, canvas: &mut Canvas) {
        let gap = if self.cell > 20.0 { 2.0 } else { 0.5 };
        for (from, row) in self.matrix.iter().enumerate() {
            for (to, &nr) in row.iter().enumerate() {
                let at = (LEFT + self.cell * to as f64, TOP + self.cell * from as f64);
                let step = self.step(nr);
                let hint = if from == to {
                    format!("node {from} to itself: {}", grouped(nr))
                } else {
                    format!("node {from} to node {to}: {}", grouped(nr))
                };
                let class = if from == to { "own".to_owned() } else { format!("h{step}") };
                canvas.rect(at, (self.cell - gap, self.cell - gap), &class, Some(&hint));
                if self.cell >= CELL_NUMBERED {
                    let class =
                        if from == to { "mid muted".to_owned() } else { format!("mid on{step}") };
                    let middle = (self.cell - gap) / 2.0;
                    canvas.text(at.0 + middle, at.1 + middle + 4.0, &class, &count(nr));
                }
            }
        }
    }

    /// The step of the scale that a number of commands is on; 0 for none.
    fn step(&self, nr: u64) -> u64 {
        if nr == 0 || self.most == 0 {
            return 0;
        }
        let step = (u128::from(nr) * u128::from(STEPS)).div_ceil(u128::from(self.most));
        (step as u64).clamp(1, STEPS)
    }

    fn draw_scale(&self, canvas: &mut Canvas, left: f64) {
        let height = 20.0;
        canvas.text(left, TOP - 8.0, "panel", "commands");
        // Where nobody asks anybody there are no steps.
        let steps = if self.most == 0 { 0 } else { STEPS };
        for step in (0..=steps).rev() {
            let y = TOP + height * (steps - step) as f64;
            canvas.rect((left, y), (26.0, height - 2.0), &format!("h{step}"), None);
            let upper = u128::from(self.most) * u128::from(step) / u128::from(STEPS);
            let text = match step {
                0 => "none".to_owned(),
                STEPS => format!("up to {}, the most", count(self.most)),
                _ => format!("up to {}", count(upper as u64)),
            };
            canvas.text(left + 36.0, y + 13.0, "", &text);
        }
        let y = TOP + height * (steps + 1) as f64 + 12.0;
        canvas.rect((left, y), (25.0, height - 3.0), "own", None);
        canvas.text(left + 36.0, y + 13.0, "", "stays on its node");
    }
}

fn description(matrix: &[Vec<u64>]) -> String {
    match most(matrix) {
        Some((nr, from, to)) if nr > 0 => format!(
            "A map of {0} by {0} nodes. Most commands between two nodes go from node {from} to node \
             {to}: {1}.",
            matrix.len(),
            count(nr)
        ),
        _ => format!("A map of {0} by {0} nodes. None asks another.", matrix.len()),
    }
}
