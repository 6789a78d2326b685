//! `quartier lab`: a real Linux on a machine with N nodes, under QEMU; and decisions without one.

mod compare;
mod count;
mod counting;
mod doctor;
mod fetch;
mod guest;
mod hidden;
mod one_run;
mod outputs;
mod run;
mod scale;
mod simulate;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;

/// Options of `quartier lab`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Boot a kernel on a machine with N nodes and run a program of this machine in it
    ///
    /// The command sees this machine's files at the same paths, and runs in the same directory, as the
    /// same user, with the same environment and standard streams. What it writes is forgotten, except
    /// below a --rw folder. The exit status is the command's (128 + n if signal n ended it); 125 if the
    /// guest hung or died, 124 after --timeout, 2 if something asked for cannot be.
    ///
    /// Ctrl-C goes to the command; a second one ends the guest at once. With a terminal, so does
    /// pressing Ctrl-] three times.
    ///
    /// Times in a guest say nothing about a real machine: count, do not time.
    Run(Box<run::Args>),
    /// Run a program so and count every memory command that leaves its node
    ///
    /// A model of caches, TLBs and links is fed with every access of the guest's CPUs. It tells commands
    /// by kind (RD, INST, DTLB, ITLB, WR, LL/SC), local and remote, who asks whom, Q (thesis 5.3.4), and
    /// what time they would take, modelled. The program takes 2.5 to 18 times the CPU time that it takes in a
    /// guest without, which boots as ever. The report is printed on standard error (with --from, on standard
    /// output); the exit status is as of `lab run`.
    Count(Box<count::Args>),
    /// Count a program under several policies, and say what each brings
    ///
    /// First touch, interleave, the kernel's NUMA balancing, `numad`, the best placement by hand,
    /// `quartier run`, and that with NUMA balancing on: commands that leave their node, Q (thesis 5.3.4) and
    /// modelled time, with their spread over the runs. Each run is a guest of its own. The program's output is
    /// not shown. What fails under one policy is absent there, with the reason; if all fail, the exit status
    /// is 1.
    Compare(Box<compare::Args>),
    /// Count a program on more and more CPUs of guests, and name the lines of memory that stop it from scaling
    ///
    /// What `quartier scale` does on this machine's CPUs, for machines with more of them: each run is a guest of its own,
    /// where every access of memory is counted. Times are modelled; which lines CPUs take from each other, how often for
    /// each unit of work, what lies there and whose code it is are counted.
    Scale(Box<scale::Args>),
    /// Check everything the lab needs, and say how to get what is missing
    Doctor(doctor::Args),
    /// Fetch kernels and QEMU ahead, for use without a network
    Fetch(fetch::FetchArgs),
    /// List the kernels in the cache
    Kernels(fetch::KernelsArgs),
    /// Decide for made-up machines of 1024 nodes, in simulated time
    ///
    /// Programs start, fork, create threads and end; the decision tree chooses their CPUs, and so do an
    /// oracle that knows all, the better of two random CPUs, round-robin and chance. Of each it tells
    /// how balanced the machine was and how far threads are from their creators. No kernel runs.
    Simulate(simulate::Args),
    #[command(flatten)]
    Hidden(hidden::Command),
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let result = match self.command {
            Command::Run(args) => args.run(),
            Command::Count(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Scale(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Fetch(args) => args.run(),
            Command::Kernels(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Hidden(command) => command.run(),
        };
        // The lab's own failures have statuses of their own, apart from a refusal's.
        match result {
            Err(error) => match error.downcast_ref::<quartier_lab::Error>() {
                Some(lab_error) => {
                    crate::say::sentence(&lab_error.to_string());
                    Ok(ExitCode::from(lab_error.exit_status()))
                }
                None => Err(error),
            },
            done => done,
        }
    }
}

/// Says on standard error what takes long.
fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "quartier: {text}");
}
