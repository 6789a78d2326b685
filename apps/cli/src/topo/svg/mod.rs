//! A machine as a drawing: nodes as cards with their caches and CPUs, packages as frames around
//! them, and the distances as a heat map.
//!
//! The SVG is written directly: rectangles and text with classes are all it has, so a crate for it
//! would replace one small file.

mod canvas;
mod cards;
mod distances;
mod layout;
mod tree;

use super::view::View;
use canvas::Canvas;
pub use tree::draw as draw_tree;

const MARGIN: f64 = 24.0;
const HEADER_HEIGHT: f64 = 58.0;
const GAP: f64 = 28.0;

/// Distances go beside the nodes if both fit into this width.
const WIDTH_BESIDE_MAX: f64 = 1280.0;

/// No drawing is narrower: the legend would get high.
const WIDTH_MIN: f64 = 460.0;

/// The drawing's text.
pub fn draw(view: &View<'_>) -> String {
    let mut canvas = Canvas::new();
    canvas.text(MARGIN, MARGIN + 18.0, "title", &view.title());
    canvas.text(MARGIN, MARGIN + 40.0, "summary", &view.summary());
    let top = MARGIN + HEADER_HEIGHT;
    let nodes = cards::draw(&mut canvas, view, MARGIN, top);
    let matrix = distances::size(view);
    let is_beside = nodes.width + GAP + matrix.width <= WIDTH_BESIDE_MAX;
    let (drawn_width, bottom) = if matrix.width == 0.0 {
        (nodes.width, top + nodes.height)
    } else if is_beside {
        distances::draw(&mut canvas, view, MARGIN + nodes.width + GAP, top);
        (nodes.width + GAP + matrix.width, top + nodes.height.max(matrix.height))
    } else {
        distances::draw(&mut canvas, view, MARGIN, top + nodes.height + GAP);
        (nodes.width.max(matrix.width), top + nodes.height + GAP + matrix.height)
    };
    let title_width = canvas::text_width(&view.title(), 21.0);
    let summary_width = canvas::text_width(&view.summary(), 13.0);
    let width = drawn_width.max(title_width).max(summary_width).max(WIDTH_MIN);
    let legend = cards::draw_legend(&mut canvas, view, (MARGIN, bottom + GAP), width);
    canvas.finish(width + 2.0 * MARGIN, bottom + GAP + legend.height + MARGIN)
}
