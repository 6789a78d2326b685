//! Distances as a heat map: numbers while they fit, colours alone for more nodes, means of blocks
//! for very many.

use super::super::view::{View, provenance, remote_range};
use super::canvas::{Canvas, text_width};
use super::layout::Size;

/// Up to so many nodes cells have numbers.
const NODES_NUMBERED_MAX: usize = 32;
/// At most so many cells in a row: a browser draws no million of rectangles.
const CELLS_MAX: usize = 128;
/// About how wide a map without numbers is, in pixels.
const MAP_PX: f64 = 512.0;

const HEADING_HEIGHT: f64 = 34.0;
const AXIS: f64 = 30.0;

/// How much room the distances take; none where there is only one node.
pub fn size(view: &View<'_>) -> Size {
    let distances = view.machine.distances();
    let Some((least, greatest)) = remote_range(distances) else { return Size::default() };
    let lines = notes(view.nodes.len(), least, greatest, provenance(distances));
    let width = lines.iter().map(|line| text_width(line, 11.0)).fold(0.0, f64::max);
    let height = HEADING_HEIGHT + 15.0 * (lines.len() - 1) as f64;
    if !has_map(view.nodes.len(), least, greatest) {
        return Size { width, height };
    }
    let map = Map::new(view);
    let side = map.cell * map.rows.len() as f64;
    Size { width: width.max(AXIS + side), height: height + 22.0 + side }
}

/// Draws them.
pub fn draw(canvas: &mut Canvas, view: &View<'_>, left: f64, top: f64) {
    let distances = view.machine.distances();
    let Some((least, greatest)) = remote_range(distances) else { return };
    canvas.text(left, top + 13.0, "heading", "Distances");
    let mut bottom = top + HEADING_HEIGHT - 15.0;
    for line in notes(view.nodes.len(), least, greatest, provenance(distances)) {
        bottom += 15.0;
        canvas.text(left, bottom - 3.0, "note", &line);
    }
    if !has_map(view.nodes.len(), least, greatest) {
        return;
    }
    let map = Map::new(view);
    let colours = Scale { least: f64::from(least), greatest: f64::from(greatest) };
    let (x, y) = (left + AXIS, bottom + 22.0);
    for (at, label) in map.labels(view) {
        let middle = (at as f64 + 0.5) * map.cell;
        canvas.text(x + middle, y - 5.0, "axis", &label);
        canvas.text(x - 6.0, y + middle + 3.5, "axis left", &label);
    }
    map.draw(canvas, &colours, (x, y));
}

/// A large map of one colour says no more than its note.
fn has_map(nr_nodes: usize, least: u8, greatest: u8) -> bool {
    nr_nodes <= NODES_NUMBERED_MAX || least != greatest
}

fn notes(nr_nodes: usize, least: u8, greatest: u8, provenance: &str) -> Vec<String> {
    let range =
        if least == greatest { least.to_string() } else { format!("{least} to {greatest}") };
    let mut lines = vec![format!("10 within a node, {range} between nodes ({provenance})")];
    if nr_nodes > CELLS_MAX && least != greatest {
        let block = nr_nodes.div_ceil(CELLS_MAX);
        lines.push(format!("a cell is the mean of {block} × {block} pairs"));
    }
    lines
}

struct Map {
    /// Mean distances of blocks of nodes.
    rows: Vec<Vec<f64>>,
    cell: f64,
    /// Nodes per cell in each direction.
    block: usize,
    has_numbers: bool,
}

impl Map {
    fn new(view: &View<'_>) -> Self {
        let distances = &view.machine.distances().rows;
        let block = distances.len().div_ceil(CELLS_MAX);
        let mean = |rows: &[Vec<quartier_model::Distance>], from: usize| {
            let to = (from + block).min(distances.len());
            let sum: f64 = rows.iter().flat_map(|row| &row[from..to]).map(|d| f64::from(d.0)).sum();
            sum / (rows.len() * (to - from)) as f64
        };
        let rows: Vec<Vec<f64>> = distances
            .chunks(block)
            .map(|rows| (0..distances.len()).step_by(block).map(|from| mean(rows, from)).collect())
            .collect();
        let has_numbers = distances.len() <= NODES_NUMBERED_MAX;
        let cell = if has_numbers { 28.0 } else { (MAP_PX / rows.len() as f64).floor().max(3.0) };
        Self { rows, cell, block, has_numbers }
    }

    /// Cells that get a label at the axes.
    fn labels(&self, view: &View<'_>) -> Vec<(usize, String)> {
        let step = if self.has_numbers { 1 } else { self.rows.len().div_ceil(8) };
        (0..self.rows.len())
            .step_by(step)
            .map(|at| (at, view.nodes[at * self.block].os_id.to_string()))
            .collect()
    }

    fn draw(&self, canvas: &mut Canvas, colours: &Scale, (left, top): (f64, f64)) {
        let gap = if self.has_numbers { 1.0 } else { 0.0 };
        for (from, row) in self.rows.iter().enumerate() {
            for (to, &distance) in row.iter().enumerate() {
                let at = (left + to as f64 * self.cell, top + from as f64 * self.cell);
                let is_local = self.block == 1 && from == to;
                let colour = if is_local { "#e4e0d6".to_owned() } else { colours.colour(distance) };
                let side = self.cell - gap;
                canvas.filled_rect(at, (side, side), &colour, &format!("{distance:.0}"));
                if self.has_numbers {
                    let light = if !is_local && colours.is_dark(distance) { " light" } else { "" };
                    let middle = (at.0 + side / 2.0, at.1 + side / 2.0 + 3.5);
                    let class = format!("cell-text{light}");
                    canvas.text(middle.0, middle.1, &class, &format!("{distance:.0}"));
                }
            }
        }
    }
}

/// From a light yellow (near) over orange to a dark red (far).
struct Scale {
    least: f64,
    greatest: f64,
}

impl Scale {
    const STOPS: [[f64; 3]; 3] = [[253.0, 240.0, 205.0], [236.0, 151.0, 86.0], [158.0, 42.0, 43.0]];

    /// 0 for the nearest other node, 1 for the furthest. Blocks with their own node in them may
    /// be nearer still.
    fn place(&self, distance: f64) -> f64 {
        let range = (self.greatest - self.least).max(f64::EPSILON);
        ((distance - self.least) / range).clamp(0.0, 1.0)
    }

    fn colour(&self, distance: f64) -> String {
        let place = self.place(distance) * 2.0;
        let first = (place.floor() as usize).min(1);
        let part = place - first as f64;
        let [r, g, b] = std::array::from_fn(|channel| {
            let (from, to) = (Self::STOPS[first][channel], Self::STOPS[first + 1][channel]);
            (from + (to - from) * part).round() as u8
        });
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    fn is_dark(&self, distance: f64) -> bool {
        self.place(distance) > 0.7
    }
}
