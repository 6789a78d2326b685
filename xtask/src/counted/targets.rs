//! What Quartier is to reach on a program, by how the program uses its data, and what was counted.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use quartier_count::Policy;
use quartier_count::compare::{Comparison, Figures, Spread};

use super::programs::{Data, Program};

/// A bound on how many times as much moves between nodes as under another policy.
struct Target {
    base: Policy,
    /// At most so many times.
    limit: f64,
    words: &'static str,
}

const NEAR_HAND: Target =
    Target { base: Policy::Hand, limit: 1.1, words: "at most 1.1 times by hand" };
const FAR_FROM_FIRST_TOUCH: Target =
    Target { base: Policy::FirstTouch, limit: 1.0 / 8.0, words: "an eighth of first touch" };
const NO_WORSE: Target =
    Target { base: Policy::FirstTouch, limit: 1.03, words: "at most 3 % more than first touch" };

impl Data {
    fn targets(self) -> &'static [Target] {
        match self {
            Self::PrivateParts => &[NEAR_HAND, FAR_FROM_FIRST_TOUCH],
            Self::ReadByAll => &[NO_WORSE],
            Self::Otherwise => &[],
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::PrivateParts => "filled by one thread, then a part each",
            Self::ReadByAll => "read by all",
            Self::Otherwise => "used otherwise",
        }
    }
}

/// A table of all programs, of what is in the folder of results.
pub fn table(programs: &[Program], results: &Path) -> anyhow::Result<String> {
    let mut out = "# Targets, and what was counted\n\n\
                   Q of `quartier run`, divided by that of another policy: least to greatest of all runs.\n\n\
                   | program | its data | target | counted | |\n|---|---|---|---:|---|\n"
        .to_owned();
    for program in programs {
        let file = results.join(program.name).with_extension("json");
        let comparison = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice::<Comparison>(&text).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display()))?,
        };
        let comparison =
            comparison.with_context(|| format!("{} is no comparison", file.display()))?;
        rows(&mut out, program, comparison.as_ref());
    }
    Ok(out)
}

fn rows(out: &mut String, program: &Program, comparison: Option<&Comparison>) {
    let (name, data) = (program.name, program.data.words());
    if program.data.targets().is_empty() {
        let _ = writeln!(out, "| {name} | {data} | none | | |");
    }
    for target in program.data.targets() {
        let quartier = comparison.and_then(|comparison| comparison.of(Policy::Quartier));
        let figures = quartier.and_then(|result| result.figures.as_ref());
        let ratio = figures.and_then(|figures| of(figures, target.base));
        let (counted, outcome) = match ratio {
            None => ("not counted".to_owned(), ""),
            Some(ratio) => (
                format!("{:.3} to {:.3}", ratio.least, ratio.greatest),
                outcome(&ratio, target.limit),
            ),
        };
        let _ = writeln!(out, "| {name} | {data} | {} | {counted} | {outcome} |", target.words);
    }
}

fn of(figures: &Figures, base: Policy) -> Option<Spread> {
    match base {
        Policy::Hand => figures.q_to_hand,
        _ => figures.q_to_first_touch,
    }
}

fn outcome(ratio: &Spread, limit: f64) -> &'static str {
    match () {
        () if ratio.greatest <= limit => "met",
        () if ratio.least <= limit => "met in some runs",
        () => "missed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_by_all_runs_or_said_not_to_be() {
        let ratio = |least, greatest| Spread { least, middle: (least + greatest) / 2.0, greatest };
        for (ratio, expected) in [
            (ratio(0.9, 1.1), "met"),
            (ratio(0.9, 1.2), "met in some runs"),
            (ratio(1.11, 1.2), "missed"),
        ] {
            assert_eq!(outcome(&ratio, NEAR_HAND.limit), expected);
        }
    }
}
