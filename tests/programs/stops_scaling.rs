//! What is to be found of each reason for which `stops_scaling.c` does not scale, and in guests `waits_for_memory.c`: for the tests,
//! which sweep each once, and for `cargo xtask scale-planted`, which does so many times.
#![allow(dead_code)] // Each who uses it uses its part.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What else a machine that others use too may add, percent of what is lost: threads that one lock makes wait do not end at
/// the same time.
pub const OTHERS_PERCENT_MAX: f64 = 25.0;

/// What is measured on a machine that others use too is measured anew for so long, until it tells.
const TRIED_FOR: Duration = Duration::from_secs(60);
/// After so many it is this machine that makes a plant cost nothing.
const COSTLESS_MAX: usize = 2;

/// What is to be found.
#[derive(Debug, Deserialize)]
pub struct Planted {
    pub reason: String,
    pub units: u64,
    /// `None`: nothing is lost.
    pub class: Option<String>,
    /// One of these, or a part of its name.
    functions: Vec<String>,
    /// One of these; none: it has no name.
    objects: Vec<String>,
    /// Options of `quartier lab scale` for a guest in which it shows; `None`: it shows on two CPUs of this machine.
    guest: Option<Vec<String>>,
}

/// A culprit of a report.
#[derive(Debug, Serialize, Deserialize)]
pub struct Named {
    pub class: Option<String>,
    pub function: String,
    pub object: Option<String>,
    pub share_percent: f64,
    /// How far that may be off; 0 in old records, which have none.
    #[serde(default)]
    pub share_error_percent: f64,
}

impl Named {
    /// Whether its part is known well enough to judge who tells it: on a machine whose host takes CPUs away, or has them share a core for a
    /// while, runs differ so much that little is said.
    pub fn is_precise(&self) -> bool {
        self.share_error_percent <= OTHERS_PERCENT_MAX
    }

    /// Its part, if it is off as far as it may be.
    pub fn least_percent(&self) -> f64 {
        (self.share_percent - self.share_error_percent).max(0.0)
    }
}

/// Sweeps of one program, until one says what it should.
pub struct Tries {
    began: Instant,
    nr_costless: usize,
    /// Verdicts that are not right, though they claim nothing that is certain.
    wrong: Vec<Value>,
}

impl Tries {
    pub fn begin() -> Self {
        Self { began: Instant::now(), nr_costless: 0, wrong: Vec::new() }
    }

    /// Whether it is worth one more.
    pub fn go_on(&self) -> bool {
        self.began.elapsed() < TRIED_FOR && self.nr_costless < COSTLESS_MAX
    }

    /// Whether a report's first culprit is who it should be and next to nothing is certainly laid upon others.
    ///
    /// # Panics
    /// Where another one is named, and certainly enough, or nothing is said to be lost though it is.
    pub fn is_right(&mut self, report: &Value, is: impl Fn(&Named) -> bool) -> bool {
        let verdict = &report["verdict"];
        let culprits: Vec<Named> = serde_json::from_value(verdict["culprits"].clone()).unwrap();
        let others = culprits.iter().filter(|named| !is(named)).map(Named::least_percent);
        let is_right =
            culprits.first().is_some_and(&is) && others.sum::<f64>() <= OTHERS_PERCENT_MAX;
        if is_right {
            return true;
        }
        let is_certain = culprits.first().is_some_and(Named::is_precise);
        assert!(!is_certain, "another is named: {culprits:#?}");
        match verdict["outcome"].as_str() {
            Some("loses") => self.wrong.push(verdict.clone()),
            Some("scales") => {
                assert!(costs_nothing(report), "it does not: {verdict:#}");
                self.nr_costless += 1;
            }
            // That noise forbids a name is an answer.
            _ => {}
        }
        false
    }

    /// None of them was right: then it is this machine that lets nothing be told.
    ///
    /// # Panics
    /// Where something was said to be lost, more than once: once is within what a verdict with 95 % promises.
    pub fn end(self) {
        assert!(self.wrong.len() < 2, "never the right one: {:#?}", self.wrong);
        println!("skipped: too much else happens on this machine, or its CPUs share a core");
    }
}

/// By the kernel's account, in which no profile has a part: CPUs of a virtual machine may be one core's, and lines between them cost
/// nothing.
fn costs_nothing(report: &Value) -> bool {
    const MORE: f64 = 1.1;
    let cpu_s_per_unit = |point: &Value| -> f64 {
        let runs = point["runs"].as_array().unwrap();
        let sum = |name: &str| -> f64 { runs.iter().map(|run| run[name].as_f64().unwrap()).sum() };
        (sum("user_s") + sum("kernel_s")) / sum("units")
    };
    let points = report["study"]["points"].as_array().unwrap();
    cpu_s_per_unit(&points[1]) < MORE * cpu_s_per_unit(&points[0])
}

impl Planted {
    /// All of them.
    pub fn all() -> Vec<Self> {
        serde_json::from_str(include_str!("stops_scaling.json")).expect("a test reads it")
    }

    /// What is to be found of a reason.
    pub fn of(reason: &str) -> Self {
        let mut all = Self::all().into_iter();
        all.find(|planted| planted.reason == reason).expect("a reason that is planted")
    }

    /// Which of the programs does it.
    pub fn program(&self) -> &'static str {
        if self.guest.is_some() { "waits_for_memory" } else { "stops_scaling" }
    }

    /// The command that sweeps it, without how often and where the report goes: `quartier` is followed by these, and they by `--` and the
    /// program's own words. `None`: on this machine's CPUs, as the caller likes. `programs`: the folder that this file is in.
    pub fn in_guest(&self, programs: &Path) -> Option<Vec<String>> {
        let machine = programs.join("waits_for_memory.toml");
        let begin =
            ["lab", "scale", "--snapshots", "--phase=parallel", "--geometry"].map(str::to_owned);
        let options = self.guest.as_ref()?.iter().cloned();
        Some(begin.into_iter().chain([machine.display().to_string()]).chain(options).collect())
    }

    pub fn is(&self, named: &Named) -> bool {
        let is_object = match &named.object {
            Some(object) => self.objects.contains(object),
            None => self.objects.is_empty(),
        };
        named.class == self.class
            && is_object
            && self.functions.iter().any(|part| named.function.contains(part))
    }

    /// How much is laid upon others, percent of what is lost.
    pub fn others_percent(&self, culprits: &[Named]) -> f64 {
        culprits.iter().filter(|named| !self.is(named)).map(|named| named.share_percent).sum()
    }
}
