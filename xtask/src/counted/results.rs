//! `docs/results/`: the programs, counted one after the other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Place;
use super::programs::{self, PROGRAMS, Program};
use super::targets;

/// The drawings that are kept of each program.
const DRAWINGS: [&str; 2] = ["policies.svg", "nodes-most-asked.svg"];

/// Where every run is kept, in a program's folder.
const RECORDINGS: &str = "recordings";

/// Policies that act by the clock, with what they are compared with: they are counted a second time by the guest's own
/// clock, where a run of a minute lets them act.
const BY_THE_CLOCK: &str = "first-touch,numa-balancing,numad,quartier,quartier-balanced";

/// The table of targets.
const TARGETS: &str = "targets.md";

/// Options of `cargo xtask results`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs to count [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// How many times as long what acts by the clock waits: as much slower as a counted guest is, or a number
    #[arg(long, default_value = "auto")]
    slow_clocks: String,
    /// Leave what was counted by the guest's own clock as it is
    #[arg(long)]
    only_slowed: bool,
    /// Runs of each policy
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Where reports and drawings go
    #[arg(long, default_value = "docs/results")]
    out: PathBuf,
    /// Where programs get their input
    #[arg(long, default_value = "target/results")]
    work: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Counts the programs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let named = args.names.iter().map(|name| programs::named(name));
    let mut wanted = named.collect::<anyhow::Result<Vec<_>>>()?;
    if wanted.is_empty() {
        wanted.extend(PROGRAMS);
    }
    let place = Place::new(args.quartier.as_deref(), &args.work)?;
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let runs = args.runs.to_string();
    let common = ["--kernel", &args.kernel, "--runs", &runs];
    let slowed = ["--slow-clocks", &args.slow_clocks, "--recordings", RECORDINGS];
    let slowed = [&common[..], &slowed].concat();
    let unslowed = [&common[..], &["--policies", BY_THE_CLOCK]].concat();
    for program in &wanted {
        eprintln!("results: {}", program.name);
        let folder = place.prepare(program).context(program.name)?;
        discard(&folder.join(RECORDINGS)).context(program.name)?;
        let policies = program.policies.into_iter().flat_map(|policies| ["--policies", policies]);
        let slowed: Vec<_> = slowed.iter().copied().chain(policies).collect();
        place.compare(program, &folder, &slowed, "report").context(program.name)?;
        place.look_again(&folder, RECORDINGS, "whole").context(program.name)?;
        if program.is_counted_by_the_clock() && !args.only_slowed {
            place.compare(program, &folder, &unslowed, "by-the-clock").context(program.name)?;
        }
        keep(program, &folder, &args.out).context(program.name)?;
    }
    fs::write(args.out.join(TARGETS), targets::table(&PROGRAMS, &args.out)?)?;
    Ok(())
}

/// Those of an earlier time would be kept otherwise.
fn discard(recordings: &Path) -> anyhow::Result<()> {
    if recordings.exists() {
        fs::remove_dir_all(recordings).context("cannot remove old recordings")?;
    }
    Ok(())
}

/// Keeps the text, the numbers and the drawings; the page is as large as all of them.
fn keep(program: &Program, folder: &Path, out: &Path) -> anyhow::Result<()> {
    for (from, to) in kept(program) {
        fs::copy(folder.join(&from), out.join(to)).with_context(|| format!("no {from}"))?;
    }
    Ok(())
}

/// What is kept of a program: the file in its folder, and its name among the results.
fn kept(program: &Program) -> Vec<(String, String)> {
    let name = program.name;
    let reports = ["txt", "json"].map(|kind| (format!("report.{kind}"), format!("{name}.{kind}")));
    let by_the_clock = program.is_counted_by_the_clock().then_some("by-the-clock.txt");
    let texts = ["whole.txt"].into_iter().chain(by_the_clock);
    let texts = texts.map(|file| (file.to_owned(), format!("{name}-{file}")));
    let drawings =
        DRAWINGS.map(|file| (format!("report-drawings/{file}"), format!("{name}-{file}")));
    reports.into_iter().chain(texts).chain(drawings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results")
    }

    /// What the page says of each program: from its heading to the next.
    fn sections(page: &str) -> Vec<(&str, &str)> {
        let sections = page.split("\n## ").skip(1);
        sections.filter_map(|section| section.split_once('\n')).collect()
    }

    #[test]
    fn each_program_is_explained_beside_what_was_counted_of_it() {
        let page = fs::read_to_string(folder().join("README.md")).unwrap();
        let sections = sections(&page);
        let names: Vec<_> = sections.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, PROGRAMS.map(|program| program.name));
        for (program, (_, text)) in PROGRAMS.iter().zip(sections) {
            let name = program.name;
            assert!(text.contains(&format!("\n    {}\n", program.command)), "{name}: its command");
            assert!(text.contains("\n**"), "{name}: whether Quartier helps");
            for (_, file) in kept(program) {
                assert!(folder().join(&file).exists(), "{file} is not there");
                // Numbers are linked where people look, drawings where they want to.
                assert!(text.contains(&format!("]({file})")), "{name}: {file} is not linked");
            }
        }
    }

    #[test]
    fn the_table_of_targets_is_of_what_was_counted() {
        let table = fs::read_to_string(folder().join(TARGETS)).unwrap();
        assert_eq!(table, targets::table(&PROGRAMS, &folder()).unwrap());
    }
}
