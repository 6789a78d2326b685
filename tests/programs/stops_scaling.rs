//! What is to be found of each reason for which `stops_scaling.c` does not scale, and in guests `waits_for_memory.c`: for the tests,
//! which sweep each once, and for `cargo xtask scale-planted`, which does so many times.
#![allow(dead_code)] // Each who uses it uses its part.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// What else a machine that others use too may add, percent of what is lost: threads that one lock makes wait do not end at
/// the same time.
pub const OTHERS_PERCENT_MAX: f64 = 25.0;

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
}

impl Planted {
    /// All of them.
    pub fn all() -> Vec<Self> {
        serde_json::from_str(include_str!("stops_scaling.json")).expect("a test reads it")
    }

    /// Which of the programs does it.
    pub fn program(&self) -> &'static str {
        if self.guest.is_some() { "waits_for_memory" } else { "stops_scaling" }
    }

    /// The command that sweeps it, without how often and where the report goes: `quartier` is followed by these, and they by `--` and the
    /// program's own words. `None`: on this machine's CPUs, as the caller likes. `programs`: the folder that this file is in.
    pub fn in_guest(&self, programs: &Path) -> Option<Vec<String>> {
        let machine = programs.join("waits_for_memory.toml");
        let begin = ["lab", "scale", "--phase=parallel", "--geometry"].map(str::to_owned);
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
