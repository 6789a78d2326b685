//! The `quartier` command: the place where observe, decide and act meet.
#![forbid(unsafe_code)]

mod cli;
mod gather;
mod lab;
mod run;
mod topo;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("quartier: {error:#}");
            ExitCode::from(cli::STATUS_REFUSED)
        }
    }
}
