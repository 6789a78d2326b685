//! Reports as drawings. Each stands alone as a file, and a page takes the same without its head.
//!
//! Colours are Okabe and Ito's, which people who see colours differently tell apart; shapes carry their
//! numbers as tooltips, and every drawing says in words what is on it.

mod asked;
mod bars;
mod canvas;
mod cpus;
mod matrix;
mod policies;
mod scale;
mod style;
mod sweep;
mod timeline;

use quartier_memmodel::Kind;

pub use canvas::Drawing;
pub(crate) use style::{BOTH as STYLE, DARK, LIGHT};

use crate::compare::Comparison;
use crate::report::Report;

/// Width of every drawing, pixels: a page's column.
const WIDTH: f64 = 880.0;

/// Every drawing of a report, in the order of the page. What has nothing to show is left out.
#[must_use]
pub fn report(report: &Report) -> Vec<Drawing> {
    [asked(report), matrix(report), timeline(report), cpus(report)].into_iter().flatten().collect()
}

/// Every drawing of a comparison.
#[must_use]
pub fn comparison(comparison: &Comparison) -> Vec<Drawing> {
    [bars(comparison), policies(comparison), sweep(comparison)].into_iter().flatten().collect()
}

/// The nodes most asked, by kind (thesis figure 5.12); absent without commands between nodes.
#[must_use]
pub fn asked(report: &Report) -> Option<Drawing> {
    asked::draw(report)
}

/// Who asks whom; absent with one node or without commands.
#[must_use]
pub fn matrix(report: &Report) -> Option<Drawing> {
    matrix::draw(report)
}

/// Commands over time; absent where the recording has no slices.
#[must_use]
pub fn timeline(report: &Report) -> Option<Drawing> {
    timeline::draw(report)
}

/// Modelled time of each CPU; absent if none executed any of the program.
#[must_use]
pub fn cpus(report: &Report) -> Option<Drawing> {
    cpus::draw(report)
}

/// Q, share and modelled time of each policy.
#[must_use]
pub fn bars(comparison: &Comparison) -> Option<Drawing> {
    bars::draw(comparison)
}

/// The nodes most asked under each policy (thesis figure 5.12); absent without commands between nodes.
#[must_use]
pub fn policies(comparison: &Comparison) -> Option<Drawing> {
    policies::draw(comparison)
}

/// Modelled speed-up over CPUs; absent unless asked for.
#[must_use]
pub fn sweep(comparison: &Comparison) -> Option<Drawing> {
    sweep::draw(comparison)
}

/// The class that a kind is coloured by.
fn kind_class(kind: Kind) -> &'static str {
    ["k0", "k1", "k2", "k3", "k4", "k5"][kind as usize]
}

/// Kinds for a legend.
fn kind_legend() -> Vec<(&'static str, String)> {
    Kind::ALL.map(|kind| (kind_class(kind), kind.name().to_owned())).to_vec()
}
