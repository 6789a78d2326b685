//! What a sweep is reported as.

use std::ffi::OsString;

use quartier_decide::verdict::{STUDY_FORMAT, Scalability, Study, Verdict, scalability};
use serde::{Deserialize, Serialize};

use super::sweep::Swept;

/// A report, as it is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub format: u32,
    pub command: Vec<String>,
    pub verdict: Verdict,
    /// The Universal Scalability Law; absent: there are too few points.
    pub scalability: Option<Scalability>,
    /// What could not be done, with the remedy.
    pub complaints: Vec<String>,
    /// What all of it follows from.
    pub study: Study,
}

impl Report {
    /// Judges what was measured.
    pub fn new(swept: Swept, command: &[OsString], seed: u64) -> Self {
        let Swept { study, complaints } = swept;
        let rates = |point: &quartier_decide::verdict::Point| {
            (point.nr_cpus, point.runs.iter().map(|run| run.throughput()).collect::<Vec<_>>())
        };
        let rates: Vec<_> = study.points.iter().map(rates).collect();
        Self {
            format: STUDY_FORMAT,
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            verdict: Verdict::of(&study),
            scalability: scalability(&rates, seed),
            complaints,
            study,
        }
    }
}
