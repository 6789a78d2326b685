//! The measured programs. Each runs in a process of its own and prints one line of JSON.

mod classic;
mod helper;
mod marked;
mod nodes;
mod other;
mod region;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use region::{Region, warm_up};

/// After so long a measured program ends by SIGALRM: one that hangs is reported, not waited for.
const LIMIT_SECONDS: u32 = 600;

/// One measured program.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Child {
    /// Pages that nobody has touched
    FirstTouch(Shape),
    /// mprotect, and move_pages in a handler of SIGSEGV
    Classic {
        #[command(flatten)]
        shape: Shape,
        /// Bytes moved at a touch
        #[arg(long)]
        block: usize,
    },
    /// quartier_next_touch; must run under `quartier run`
    Marked(Shape),
    /// Creation of threads
    Threads {
        /// How many
        #[arg(long, default_value_t = 2000)]
        count: usize,
    },
    /// A process with marked memory that nobody touches; must run under `quartier run`
    Idle(Shape),
}

/// Size of the measurement.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Shape {
    /// Memory in MiB
    #[arg(long)]
    mib: usize,
    /// Threads that touch it, each its own part
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

impl Shape {
    fn bytes(self) -> usize {
        self.mib << 20
    }
}

/// What a program found; nanoseconds, per page where it is about pages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Marking.
    pub mark_ns: f64,
    /// The first touch after it.
    pub touch_ns: f64,
    /// A touch afterwards.
    pub again_ns: f64,
    /// The very first touch in this process, before the warm-up.
    pub cold_ns: f64,
    /// CPU time of both, with the helper's; null where the helper was not found.
    #[serde(deserialize_with = "nan_of_null")]
    pub cpu_ns: f64,
    /// How often the helper slept meanwhile, per page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helper_sleeps: Option<f64>,
    /// Whether a system call could read a caught page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_access: Option<bool>,
}

/// What the programs that are not about pages found.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Other {
    /// The first `pthread_create` of the process.
    pub first_create_ns: f64,
    /// A later `pthread_create` (median).
    pub create_ns: f64,
    /// The same with `pthread_join`.
    pub create_join_ns: f64,
    /// CPU time of an idle process in a second.
    pub idle_cpu_ns: f64,
    /// CPU time of its helper in that second.
    pub idle_helper_cpu_ns: Option<f64>,
}

impl Child {
    /// Runs it.
    pub fn run(&self) -> anyhow::Result<()> {
        // SAFETY: no memory is involved; without a handler the signal ends the process.
        unsafe { libc::alarm(LIMIT_SECONDS) };
        match self {
            Self::FirstTouch(shape) => print(&first_touch(*shape)?),
            Self::Classic { shape, block } => print(&classic::measure(*shape, *block)?),
            Self::Marked(shape) => print(&marked::measure(*shape)?),
            Self::Threads { count } => print(&other::threads(*count)?),
            Self::Idle(shape) => print(&marked::idle(*shape)?),
        }
    }
}

fn print(sample: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(sample).context("cannot write the result")?);
    Ok(())
}

fn first_touch(shape: Shape) -> anyhow::Result<Sample> {
    let cold_ns = warm_up(2 * shape.bytes())?;
    let region = Region::map(shape.bytes())?;
    let sweep = region.sweep(shape.threads, || Ok(()))?;
    Ok(Sample {
        touch_ns: sweep.touch_ns,
        cpu_ns: sweep.cpu_ns,
        again_ns: sweep.again_ns,
        cold_ns,
        ..Sample::default()
    })
}

/// JSON has no NaN: what is unknown is written as null.
fn nan_of_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
