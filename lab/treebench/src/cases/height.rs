//! Decisions against the height of the tree.

use crate::cases::decision::sample_decide;
use crate::cases::rival::{self, Kind};
use crate::cases::{Case, Part};
use crate::shape::{HEIGHT_MAX, Load, Shape};

/// What is plotted, and what it is called there. The third load has no idle CPU.
const TREE: [(Load, &str); 3] = [
    (Load::Percent(0), "tree, idle CPU nearby"),
    (Load::AllButLast, "tree, idle CPU far away"),
    (Load::Percent(100), "tree, no idle CPU"),
];

const RIVALS: [(Kind, &str); 2] =
    [(Kind::Packed, "scan, idle CPU far away"), (Kind::Walk, "hwloc walk, idle CPU far away")];

pub(super) fn cases() -> Vec<Case> {
    (1..=HEIGHT_MAX).flat_map(of_height).collect()
}

fn of_height(height: u32) -> Vec<Case> {
    let shape = Shape::of_height(height);
    let name = |line: &str| format!("height {height}, {shape}: {line}");
    let tree = TREE.map(|(load, line)| {
        let case = Case::new(Part::Height, name(line), move |bench| {
            Ok(sample_decide(bench, &*bench.worlds.world(shape, load)?))
        });
        Case { point: Some((line, height)), ..case }
    });
    let far = tree[1].name.clone();
    let rivals = RIVALS.map(|(kind, line)| {
        let case = rival::case(Part::Height, name(line), kind, shape, Load::AllButLast);
        Case { point: Some((line, height)), compared_to: Some(far.clone()), ..case }
    });
    tree.into_iter().chain(rivals).collect()
}
