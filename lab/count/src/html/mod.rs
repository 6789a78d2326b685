//! Reports as pages: one file each, with its drawings and data in it, light and dark, to be shown to a
//! colleague or printed.

mod compare;
mod page;
mod report;

use page::{Cell, Page};
use quartier_memmodel::geometry::Geometry;

use crate::words;

pub use compare::comparison;
pub use report::report;

/// What modelled numbers follow from.
fn parameters(page: &mut Page, geometry: &Geometry) {
    page.words("h3", "", "What it is modelled with");
    page.words("p", "more", &format!("The machine is {}.", words::geometry(geometry)));
    let parameters = words::cost_parameters(&geometry.cost);
    page.raw("<div class=\"pair\">");
    for part in parameters.chunks(parameters.len().div_ceil(2)) {
        let rows: Vec<_> = part
            .iter()
            .map(|(name, value, unit)| {
                let cells =
                    vec![Cell::words(name), Cell::number(page::escape(value)), Cell::words(unit)];
                ("", cells)
            })
            .collect();
        page.table("", &["<parameter", "value", "<unit"], &rows);
    }
    page.raw("</div>");
}

/// Notes, if there are any.
fn notes(page: &mut Page, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    page.words("h3", "", "Notes");
    page.raw("<ul>");
    for note in notes {
        page.words("li", "", note);
    }
    page.raw("</ul>");
}

/// What the words mean.
fn footer(page: &mut Page) {
    page.raw("<footer><h3>What the words mean</h3><dl>");
    let mut term = |name: &str, meaning: &str| {
        page.words("dt", "", name);
        page.words("dd", "", meaning);
    };
    term(
        "command",
        "a request that leaves a CPU’s caches: for a line, a table entry, a store or an atomic operation",
    );
    for kind in quartier_memmodel::Kind::ALL {
        term(kind.name(), words::kind(kind));
    }
    term("Q", "what commands moved between nodes: a line each, or a word where no line moves");
    term("hop", "a step from node to node; a command within its node makes none");
    term("modelled", "computed from the counts with the parameters above; no time was measured");
    page.raw("</dl></footer>");
}
