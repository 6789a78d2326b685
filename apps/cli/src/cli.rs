//! The command line: the one definition that parsing, help, man pages and completions come from.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    degrade, explain, explain_decision, gather, lab, replay, run, scale, serve, top, topo, tree,
    undo,
};

/// Exit status of every refusal: bad input, something missing, something not permitted.
pub const STATUS_REFUSED: u8 = 2;

/// Keep every thread in the same neighbourhood as its memory.
#[derive(Debug, Parser)]
#[command(name = "quartier", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program with its threads placed and its pages pulled to the threads that use them
    Run(run::Args),
    /// Say what stops a program from scaling: run it on ever more CPUs, and find what grows
    Scale(scale::Args),
    /// Run a copy of a server on each node, and give each connection to the node that received it
    Serve(Box<serve::Args>),
    /// Decide who slows down under overload in a JVM: put the agent into it, take it out, ask it why
    Degrade(degrade::Args),
    /// A real Linux on a machine with N nodes, under QEMU
    Lab(lab::Args),
    /// Draw a machine: nodes, CPUs, caches, memory and distances
    Topo(topo::Args),
    /// The decision tree that programs share: make it and keep it fresh, or look at it
    Tree(tree::Args),
    /// Save this machine's topology, to draw or replay it elsewhere
    Gather(gather::Args),
    /// Replay a decision on a given state, and say why it fell so
    ExplainDecision(Box<explain_decision::Args>),
    /// Watch what quartierd sees and does: nodes, tasks, moves
    Top(top::Args),
    /// Say what quartierd knows of a process: where it is, its factors, what was decided and what came of it
    Explain(explain::Args),
    /// Take back what a quartierd did that could not do so itself
    Undo(undo::Args),
    /// Decide once more over what quartierd saw, and compare
    Replay(replay::Args),
}

impl Cli {
    /// Runs the command and gives its exit status.
    ///
    /// # Errors
    /// When something was refused: bad input, something missing, something not permitted.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => args.run(),
            Command::Scale(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Degrade(args) => args.run(),
            Command::Lab(args) => args.run(),
            Command::Topo(args) => args.run(),
            Command::Tree(args) => args.run(),
            Command::Gather(args) => args.run(),
            Command::ExplainDecision(args) => args.run(),
            Command::Top(args) => args.run(),
            Command::Explain(args) => args.run(),
            Command::Undo(args) => args.run(),
            Command::Replay(args) => args.run(),
        }
    }
}
