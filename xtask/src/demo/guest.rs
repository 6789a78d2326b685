//! One placement, run in a guest of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::{Args, NR_NODES, NR_THREADS, Variant};

const SCRIPT: &str = include_str!("power.py");
const PYTHON: &str = "/usr/bin/python3";
/// The build whose threads begin with the first product. Debian's other build starts its threads
/// when it is loaded, before there is any data to mark.
const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-openmp";
const TIME_LIMIT_SECS: &str = "600";

/// What the program saw at its end.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// The result, in full.
    pub eigenvalue: String,
    /// The node on which each thread ran last.
    pub thread_nodes: Vec<usize>,
    /// How often a thread was on another node than a round before.
    pub node_changes: u64,
    /// After each product, the pages on the node on which the thread ran whose part they are in.
    pub right_after: Vec<u64>,
    /// For the part of each thread, pages per node.
    pub parts: Vec<Vec<u64>>,
    /// What `quartier run` said that it could not do.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Pages per node, over all parts.
    pub fn pages_per_node(&self) -> Vec<u64> {
        let sum = |node: usize| self.parts.iter().map(|part| part[node]).sum();
        (0..NR_NODES).map(sum).collect()
    }

    /// Of these, the pages in the right place after the last product.
    pub fn pages_right(&self) -> u64 {
        self.right_after.last().copied().unwrap_or(0)
    }

    /// All pages.
    pub fn pages(&self) -> u64 {
        self.parts.iter().flatten().sum()
    }

    fn from_json(text: &str) -> anyhow::Result<Self> {
        let outcome: Self = serde_json::from_str(text.trim())
            .with_context(|| format!("the program printed no result: {text:?}"))?;
        ensure!(
            outcome.parts.len() == NR_THREADS && outcome.thread_nodes.len() == NR_THREADS,
            "the program ran in {} threads, not {NR_THREADS}: is this OpenBLAS its OpenMP build?",
            outcome.thread_nodes.len()
        );
        let known = |node: &usize| *node < NR_NODES;
        ensure!(
            outcome.parts.iter().all(|part| part.len() == NR_NODES)
                && outcome.thread_nodes.iter().all(known)
                && outcome.pages() > 0,
            "the program counted on other nodes than there are: {text}"
        );
        let right = outcome.parts.iter().zip(&outcome.thread_nodes).map(|(part, node)| part[*node]);
        ensure!(
            outcome.right_after.last() == Some(&right.sum()),
            "the program's counts do not fit each other: {text}"
        );
        Ok(outcome)
    }
}

/// The part of `quartier run`'s report that is told here.
#[derive(Debug, Deserialize)]
struct RunReport {
    total: Total,
}

#[derive(Debug, Deserialize)]
struct Total {
    notes: Vec<Note>,
}

#[derive(Debug, Deserialize)]
struct Note {
    sentence: String,
}

/// Everything that all placements share.
#[derive(Debug)]
pub struct Lab {
    /// The kernel's version, as asked for.
    pub kernel: String,
    quartier: PathBuf,
    out: PathBuf,
    script: PathBuf,
    words: [String; 3],
}

impl Lab {
    /// Checks what is needed and fetches a kernel.
    pub fn find(args: &Args) -> anyhow::Result<Self> {
        let quartier = match &args.quartier {
            Some(path) => path.clone(),
            None => crate::release_build()?,
        };
        let quartier = quartier
            .canonicalize()
            .with_context(|| format!("{} is not there: run `make build`", quartier.display()))?;
        let numpy = Command::new(PYTHON).args(["-c", "import numpy"]).output();
        ensure!(
            numpy.is_ok_and(|output| output.status.success()) && Path::new(OPENBLAS).exists(),
            "the demonstration runs Debian's NumPy: apt-get install python3-numpy libopenblas0-openmp"
        );
        let out = args.out.canonicalize().context("the output folder")?;
        let script = out.join("power.py");
        std::fs::write(&script, SCRIPT).context("cannot write the program")?;
        let words = [args.size, args.rounds, NR_NODES].map(|number| number.to_string());
        Ok(Self { kernel: fetch(&quartier, &args.kernels)?, quartier, out, script, words })
    }

    /// Runs one placement to its end.
    pub fn run(&self, variant: &Variant) -> anyhow::Result<Outcome> {
        let balancing = if variant.numa_balancing { "enable" } else { "disable" };
        let report = self.out.join(format!("{}.run.json", variant.name));
        let output = Command::new(&self.quartier)
            .args(["lab", "run", "--kernel", &self.kernel, "--timeout", TIME_LIMIT_SECS])
            .args(["--nodes", &NR_NODES.to_string(), "--cpus-per-node", "2", "--mem", "4G"])
            .arg(format!("--kernel-arg=numa_balancing={balancing}"))
            .arg(format!("--rw={}", self.out.display()))
            .args(["--", "/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1"])
            .arg(format!("OMP_NUM_THREADS={NR_THREADS}"))
            .arg(format!("LD_LIBRARY_PATH={OPENBLAS}"))
            .arg(&self.quartier)
            .args(["run", "--quiet", "--policy", variant.policy, "--report"])
            .arg(&report)
            .args(["--", PYTHON])
            .arg(&self.script)
            .args(&self.words)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run quartier")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("{}: the guest's program ended with {}: {text}", variant.title, output.status);
        }
        let mut outcome = Outcome::from_json(&text).context(variant.title)?;
        std::fs::write(self.out.join(format!("{}.json", variant.name)), text.as_bytes())
            .context("cannot keep the result")?;
        let report = std::fs::read_to_string(&report).context("quartier run wrote no report")?;
        let report: RunReport = serde_json::from_str(&report).context("the report of the run")?;
        outcome.notes = report.total.notes.into_iter().map(|note| note.sentence).collect();
        Ok(outcome)
    }
}

/// Fetches the first of these kernels that can be had.
fn fetch(quartier: &Path, kernels: &[String]) -> anyhow::Result<String> {
    for kernel in kernels {
        let status = Command::new(quartier)
            .args(["lab", "fetch", "--kernel", kernel])
            .stdout(Stdio::null())
            .status()
            .context("cannot run quartier")?;
        if status.success() {
            return Ok(kernel.clone());
        }
        eprintln!("demo: no kernel {kernel} here");
    }
    bail!("no kernel to boot; `quartier lab doctor` says what is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(parts: usize, nodes: &str, right: u64) -> String {
        let parts = vec!["[1, 2, 3, 4]"; parts].join(", ");
        format!(
            r#"{{"eigenvalue": "2.5", "thread_nodes": {nodes}, "node_changes": 0,
                "right_after": [8, {right}], "parts": [{parts}]}}"#
        )
    }

    #[test]
    fn pages_are_right_on_their_threads_node() {
        let outcome = Outcome::from_json(&json(8, "[0, 1, 2, 3, 0, 1, 2, 3]", 20)).unwrap();
        assert_eq!(outcome.pages_per_node(), [8, 16, 24, 32]);
        assert_eq!((outcome.pages_right(), outcome.pages()), (20, 80));
    }

    #[test]
    fn a_result_of_another_machine_is_refused() {
        for text in [
            json(2, "[0, 1]", 3),
            json(8, "[0, 1, 2, 3, 4, 5, 6, 7]", 10),
            json(8, "[0, 1]", 3),
            json(8, "[0, 1, 2, 3, 0, 1, 2, 3]", 21),
            "Segmentation fault".to_owned(),
        ] {
            assert!(Outcome::from_json(&text).is_err(), "{text}");
        }
    }
}
