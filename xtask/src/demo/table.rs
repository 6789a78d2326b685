//! The demonstration's table, and what it does not say.

use std::io::{self, Write};

use super::guest::Outcome;
use super::{NR_NODES, Variant};

/// After which products the table says how many pages are in place, beside the last.
const LOOKS: [usize; 2] = [1, 10];

const CAVEATS: &str = "\
In place: on the node on which the thread ran last that reads it. Where pages and threads are, the
kernel says; which thread reads which rows is not observed but follows from OpenBLAS: thread i of n
reads the i-th of n equal parts. Who really touches what is counted by
`quartier lab compare`. Times in a guest are not times of a real machine, so none are shown.";

/// Prints the table.
pub fn print(outcomes: &[(Variant, Outcome)], out: &mut impl Write) -> io::Result<()> {
    let last = outcomes.iter().map(|(_, outcome)| outcome.right_after.len()).max().unwrap_or(0);
    writeln!(
        out,
        "{:25}{:^32}{:>27}{:>14}",
        "", "pages of the matrix", "in place after product", "threads that"
    )?;
    write!(out, "{:25}", "placement")?;
    for node in 0..NR_NODES {
        write!(out, "{:>8}", format!("node {node}"))?;
    }
    for look in looks(last) {
        write!(out, "{look:>9}")?;
    }
    writeln!(out, "{:>14}", "changed node")?;
    for (variant, outcome) in outcomes {
        write!(out, "{:25}", variant.title)?;
        for pages in outcome.pages_per_node() {
            write!(out, "{pages:>8}")?;
        }
        for look in looks(last) {
            let right = outcome.right_after.get(look - 1).copied();
            let shown = right.map_or_else(String::new, |right| percent(right, outcome.pages()));
            write!(out, "{shown:>9}")?;
        }
        writeln!(out, "{:>14}", outcome.node_changes)?;
    }
    for (variant, outcome) in outcomes {
        for note in &outcome.notes {
            writeln!(out, "{}: {note}", variant.title)?;
        }
    }
    writeln!(out, "\n{CAVEATS}")
}

fn looks(last: usize) -> impl Iterator<Item = usize> {
    LOOKS.into_iter().filter(move |look| *look < last).chain((last > 0).then_some(last))
}

/// `98.7 %`; never rounded up to all.
pub fn percent(part: u64, whole: u64) -> String {
    let tenths = (part * 1000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::VARIANTS;

    #[test]
    fn percentages_are_cut_not_rounded() {
        assert_eq!(percent(1, 4), "25.0 %");
        assert_eq!(percent(9_999, 10_000), "99.9 %");
        assert_eq!((percent(7, 7), percent(0, 0)), ("100.0 %".to_owned(), "0.0 %".to_owned()));
    }

    #[test]
    fn every_placement_has_its_line_and_its_notes() {
        let outcome = |note: &str| Outcome {
            eigenvalue: "1".to_owned(),
            thread_nodes: vec![0, 0, 1, 1, 2, 2, 3, 3],
            node_changes: 5,
            right_after: vec![20; 40],
            parts: vec![vec![10, 0, 0, 0]; 8],
            notes: vec![note.to_owned()],
        };
        let outcomes: Vec<_> =
            VARIANTS.into_iter().map(|variant| (variant, outcome(variant.policy))).collect();
        let mut text = Vec::new();
        print(&outcomes, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = format!("{:25}{:>8}{:>8}{:>8}{:>8}", "first touch", 80, 0, 0, 0);
        let line = line + &format!("{:>9}", "25.0 %").repeat(3) + &format!("{:>14}", 5);
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("  node 3        1       10       40"), "{text}");
        assert!(text.contains("Quartier (next touch): next-touch\n"), "{text}");
        assert!(text.contains("is counted by"), "{text}");
    }
}
