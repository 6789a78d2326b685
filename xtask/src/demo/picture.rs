//! The demonstration's picture: where the part of each thread ended up.
//!
//! One panel for each placement, one bar for each thread. The square before a bar has the colour of
//! the thread's node, the bar those of its pages: a bar of its square's colour is in place.

use std::fmt::Write;

use super::guest::Outcome;
use super::table::percent;
use super::{NR_NODES, Variant};

/// Told apart by people with any colour vision (Okabe and Ito).
const COLOURS: [&str; NR_NODES] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"];
const WIDTH: usize = 760;
const MARGIN: usize = 20;
const BAR_X: usize = 160;
const BAR_WIDTH: usize = WIDTH - BAR_X - MARGIN;
const BAR_HEIGHT: usize = 12;
const BAR_STEP: usize = 16;
const PANEL_HEAD: usize = 30;

/// Draws all placements.
pub fn draw(outcomes: &[(Variant, Outcome)]) -> String {
    let head = 70;
    let panel = |outcome: &Outcome| PANEL_HEAD + BAR_STEP * outcome.parts.len() + 14;
    let height = head + outcomes.iter().map(|(_, outcome)| panel(outcome)).sum::<usize>() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, MARGIN, 26, "font-size=\"16\"", "Where the matrix ended up");
    for (node, colour) in COLOURS.iter().enumerate() {
        let x = MARGIN + node * 80;
        square(&mut svg, x, 40, colour);
        text(&mut svg, x + 18, 50, "", &format!("node {node}"));
    }
    text(&mut svg, MARGIN + 340, 50, "", "square: the thread's node; bar: its pages");
    let mut y = head;
    for (variant, outcome) in outcomes {
        let right = percent(outcome.pages_right(), outcome.pages());
        let title = format!("{}: {right} in place after the last product", variant.title);
        text(&mut svg, MARGIN, y + 20, "font-size=\"14\"", &title);
        for (thread, (part, node)) in outcome.parts.iter().zip(&outcome.thread_nodes).enumerate() {
            let top = y + PANEL_HEAD + thread * BAR_STEP;
            text(&mut svg, MARGIN, top + 10, "", &format!("thread {thread} on node {node}"));
            square(&mut svg, BAR_X - 20, top, COLOURS[*node]);
            bar(&mut svg, top, part);
        }
        y += panel(outcome);
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, top: usize, part: &[u64]) {
    let whole = part.iter().sum::<u64>().max(1) as f64;
    let mut x = BAR_X as f64;
    for (pages, colour) in part.iter().zip(COLOURS) {
        let width = *pages as f64 / whole * BAR_WIDTH as f64;
        if *pages > 0 {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{BAR_HEIGHT}\" \
                 fill=\"{colour}\"><title>{pages} pages</title></rect>"
            );
        }
        x += width;
    }
}

fn square(svg: &mut String, x: usize, y: usize, colour: &str) {
    let side = BAR_HEIGHT;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{colour}\" \
         stroke=\"#222\"/>"
    );
}

/// Our own words only: nothing in them needs escaping but an apostrophe, which does not here.
fn text(svg: &mut String, x: usize, y: usize, attributes: &str, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {attributes}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::VARIANTS;

    #[test]
    fn the_picture_is_xml_with_a_bar_for_every_node_that_has_pages() {
        let outcome = Outcome {
            eigenvalue: "1".to_owned(),
            thread_nodes: vec![0, 1, 2, 3],
            node_changes: 0,
            right_after: vec![7],
            parts: vec![vec![4, 0, 0, 0], vec![1, 1, 1, 1], vec![0; 4], vec![0, 0, 2, 2]],
            notes: Vec::new(),
        };
        let svg = draw(&VARIANTS.map(|variant| (variant, outcome.clone())));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let bars = document.descendants().filter(|node| node.has_tag_name("title")).count();
        assert_eq!(bars, VARIANTS.len() * (1 + 4 + 2));
        let inside = document.descendants().filter(|node| node.has_tag_name("rect")).all(|rect| {
            let number = |name| rect.attribute(name).unwrap_or("0").parse::<f64>().unwrap();
            number("x") + number("width") <= WIDTH as f64
        });
        assert!(inside, "{svg}");
        for variant in VARIANTS {
            assert!(svg.contains(variant.title), "{svg}");
        }
    }
}
