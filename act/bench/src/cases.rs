//! What is compared, and how one case is run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::{Serialize, de::DeserializeOwned};

use crate::child::{Other, Sample};

/// Block sizes compared.
pub const BLOCKS: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];

/// The size at which the targets are stated.
pub const TARGET_BLOCK: usize = 64 << 10;

/// The block size of `quartier run`, whose pulls grow.
pub const GROWING_BLOCK: usize = 16 << 10;

/// The largest size to which pulls grow.
pub const LARGEST_BLOCK: usize = 2 << 20;

/// How pages come to the thread that touches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// They are new.
    FirstTouch,
    /// `mprotect`, SIGSEGV, `move_pages`.
    Classic {
        /// Bytes moved at a touch.
        block: usize,
    },
    /// Quartier.
    NextTouch {
        /// The least moved at a touch.
        block: usize,
        /// Up to which a sweep grows.
        block_max: usize,
        /// Whether pages are copied though they are local.
        copy: bool,
    },
}

/// A method with a number of touching threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// How.
    pub method: Method,
    /// By how many threads.
    pub threads: usize,
}

impl Case {
    /// Every case, in the order in which one round runs them.
    pub fn all(threads: &[usize]) -> Vec<Self> {
        let fixed = |block, copy| Method::NextTouch { block, block_max: block, copy };
        let growing =
            |copy| Method::NextTouch { block: GROWING_BLOCK, block_max: LARGEST_BLOCK, copy };
        let mut methods = vec![Method::FirstTouch];
        for block in BLOCKS {
            methods.extend([Method::Classic { block }, fixed(block, true)]);
        }
        methods.extend([growing(true), fixed(TARGET_BLOCK, false), growing(false)]);
        let of_method = |method| threads.iter().map(move |&threads| Self { method, threads });
        methods.into_iter().flat_map(of_method).collect()
    }

    /// Its name in the table.
    pub fn name(self) -> String {
        match self.method {
            Method::FirstTouch => "first touch".to_owned(),
            Method::Classic { block } => format!("mprotect+move_pages {}", size(block)),
            Method::NextTouch { block, block_max, copy } => {
                let kept = if copy { "" } else { ", local" };
                match block == block_max {
                    true => format!("next-touch {}{kept}", size(block)),
                    false => format!("next-touch {}..{}{kept}", size(block), size(block_max)),
                }
            }
        }
    }
}

/// A power of two with its unit.
pub fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 { format!("{}M", bytes >> 20) } else { format!("{}K", bytes >> 10) }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This one.
    pub own: PathBuf,
    /// `quartier`.
    pub quartier: PathBuf,
    /// For reports of runs.
    pub scratch: PathBuf,
}

/// What the runtime's report adds to a sample, summed over the run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counted {
    /// Time spent on serving touches, per page.
    pub serve_ns: f64,
    /// Touches served, per page.
    pub touches: f64,
    /// Share of pages that were moved (copied), in percent.
    pub moved_percent: f64,
}

impl Programs {
    /// Runs a case once.
    pub fn run(&self, case: Case, mib: usize) -> anyhow::Result<(Sample, Option<Counted>)> {
        let shape = [format!("--mib={mib}"), format!("--threads={}", case.threads)];
        let (command, report) = match case.method {
            Method::FirstTouch => (self.plain("first-touch"), None),
            Method::Classic { block } => {
                let mut command = self.plain("classic");
                command.arg(format!("--block={block}"));
                (command, None)
            }
            Method::NextTouch { block, block_max, copy } => {
                let report = self.scratch.join("report.json");
                let mut options = vec![
                    format!("--block={}", size(block)),
                    format!("--block-max={}", size(block_max)),
                    format!("--report={}", report.display()),
                ];
                options.extend(copy.then(|| "--always-copy".to_owned()));
                (self.under_quartier(&options, "marked"), Some(report))
            }
        };
        let sample = result_of(command, &shape)?;
        let counted = report.map(|path| counted(&path)).transpose()?;
        Ok((sample, counted))
    }

    /// Runs a program that is not about pages.
    pub fn other(&self, child: &str, quartier: bool, args: &[String]) -> anyhow::Result<Other> {
        let command = if quartier { self.under_quartier(&[], child) } else { self.plain(child) };
        result_of(command, args)
    }

    fn plain(&self, child: &str) -> Command {
        let mut command = Command::new(&self.own);
        command.args(["child", child]);
        command
    }

    fn under_quartier(&self, options: &[String], child: &str) -> Command {
        let mut command = Command::new(&self.quartier);
        command.args(["run", "--quiet", "--force"]).args(options).arg("--");
        command.arg(&self.own).args(["child", child]);
        command
    }
}

fn result_of<T: DeserializeOwned>(mut command: Command, args: &[String]) -> anyhow::Result<T> {
    command.args(args).stderr(Stdio::inherit());
    let output =
        command.output().with_context(|| format!("cannot start {command:?}; build it first"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?} did not print a result"))
}

fn counted(report: &std::path::Path) -> anyhow::Result<Counted> {
    let text = std::fs::read(report).context("the run left no report")?;
    let report: serde_json::Value =
        serde_json::from_slice(&text).context("the run's report is no JSON")?;
    let total = |name: &str| report["total"][name].as_f64().unwrap_or(f64::NAN);
    let pages = total("pages_marked");
    Ok(Counted {
        serve_ns: total("serve_ns") / pages,
        touches: total("touches") / pages,
        moved_percent: 100.0 * total("pages_moved") / pages,
    })
}
