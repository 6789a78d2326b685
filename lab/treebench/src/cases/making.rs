//! Making a tree, and having one that somebody else made.

use std::path::Path;

use quartier_decide::dqdt::Tree;
use quartier_shared::{Create, SharedTree};
use tempfile::TempDir;

use crate::cases::{Bench, Case, Part};
use crate::shape::{HEIGHT_MAX, Shape};
use crate::stats::Sample;

/// Where shared trees are, if it is there.
const SHARED_MEMORY: &str = "/dev/shm";

pub(super) fn cases() -> Vec<Case> {
    (1..=HEIGHT_MAX).map(Shape::of_height).flat_map(of_shape).collect()
}

fn of_shape(shape: Shape) -> Vec<Case> {
    let case = |what: &str, run: fn(&Bench, Shape) -> anyhow::Result<Sample>| {
        Case::new(Part::Making, format!("{what}, {shape}"), move |bench| run(bench, shape))
    };
    let build = case("Tree::build", build);
    let opening = |case| Case { compared_to: Some(build.name.clone()), ..case };
    let others = [case("Tree::encode", encode), case("Tree::decode", decode)];
    let others = others.into_iter().chain([case("SharedTree::open", open)]).map(opening);
    let others: Vec<_> = others.collect();
    std::iter::once(build).chain(others).collect()
}

fn build(bench: &Bench, shape: Shape) -> anyhow::Result<Sample> {
    let machine = shape.machine();
    Ok(bench.clock.mean(bench.effort, 1, |_| Tree::build(&machine)))
}

fn encode(bench: &Bench, shape: Shape) -> anyhow::Result<Sample> {
    let tree = bench.worlds.tree(shape);
    Ok(bench.clock.mean(bench.effort, 1, |_| tree.encode()))
}

fn decode(bench: &Bench, shape: Shape) -> anyhow::Result<Sample> {
    let bytes = bench.worlds.tree(shape).encode();
    Ok(bench.clock.mean(bench.effort, 1, |_| Tree::decode(&bytes)))
}

fn open(bench: &Bench, shape: Shape) -> anyhow::Result<Sample> {
    let shared_memory = Path::new(SHARED_MEMORY);
    let folder = match shared_memory.is_dir() {
        true => TempDir::new_in(shared_memory),
        false => TempDir::new(),
    }?;
    SharedTree::create(folder.path(), &bench.worlds.tree(shape), &Create::default())?;
    // Whether it opens at all, before the time of a refusal is measured.
    SharedTree::open(folder.path())?;
    Ok(bench.clock.mean(bench.effort, 1, |_| SharedTree::open(folder.path())))
}
