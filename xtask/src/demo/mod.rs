//! The demonstration: a program of Debian's that fills its data in one thread and computes in eight,
//! on a machine of four nodes, under four placements.
//!
//! NumPy multiplies a matrix with a vector over and over; OpenBLAS (its OpenMP build, whose threads
//! begin with the first product) divides the rows evenly among the threads. So it is known which
//! thread reads which rows, and the kernel says where the rows and the threads are.

mod guest;
mod picture;
mod table;

use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, ensure};

use guest::Outcome;

/// Nodes and CPUs of each: what two host cores carry well.
const NR_NODES: usize = 4;
const NR_THREADS: usize = 8;

/// Options of `cargo xtask demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rows and columns of the matrix
    #[arg(long, default_value_t = 4096)]
    size: usize,
    /// How often it is multiplied
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Kernels to try, best first
    #[arg(long, value_delimiter = ',', default_value = "7.3,6.12")]
    kernels: Vec<String>,
    /// Where the reports and the picture go
    #[arg(long, default_value = "demo-out")]
    out: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// One way to place memory.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What the table calls it.
    pub title: &'static str,
    /// The name of its files.
    pub name: &'static str,
    /// The policy of `quartier run`.
    pub policy: &'static str,
    /// Whether the kernel moves pages to threads and threads to pages by itself.
    pub numa_balancing: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant {
        title: "first touch",
        name: "first-touch",
        policy: "first-touch",
        numa_balancing: false,
    },
    Variant {
        title: "interleave",
        name: "interleave",
        policy: "interleave",
        numa_balancing: false,
    },
    Variant {
        title: "kernel's NUMA balancing",
        name: "numa-balancing",
        policy: "none",
        numa_balancing: true,
    },
    Variant {
        title: "Quartier (next touch)",
        name: "next-touch",
        policy: "next-touch",
        numa_balancing: false,
    },
];

/// Runs the four placements; prints the table and writes the picture.
pub fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let lab = guest::Lab::find(args)?;
    println!(
        "NumPy: a {0} x {0} matrix times a vector, {1} times, in {NR_THREADS} threads on \
         {NR_NODES} nodes x 2 CPUs (Linux {2}, QEMU).\n",
        args.size, args.rounds, lab.kernel
    );
    let mut outcomes = Vec::new();
    for (at, variant) in VARIANTS.into_iter().enumerate() {
        eprintln!("demo: {} of {}: {}", at + 1, VARIANTS.len(), variant.title);
        outcomes.push((variant, lab.run(&variant)?));
    }
    same_result(&outcomes)?;
    let drawing = args.out.join("demo.svg");
    fs::write(&drawing, picture::draw(&outcomes))
        .with_context(|| format!("cannot write {}", drawing.display()))?;
    table::print(&outcomes, &mut io::stdout().lock())?;
    println!("\nPicture: {}; reports: {}/*.json", drawing.display(), args.out.display());
    Ok(())
}

/// Moving memory must not change what is computed, to the last bit.
fn same_result(outcomes: &[(Variant, Outcome)]) -> anyhow::Result<()> {
    let (_, first) = &outcomes[0];
    for (variant, outcome) in outcomes {
        ensure!(
            outcome.eigenvalue == first.eigenvalue,
            "{}: the result is {}, not {}",
            variant.title,
            outcome.eigenvalue,
            first.eigenvalue
        );
    }
    Ok(())
}
