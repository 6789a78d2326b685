//! Reads the command line and runs it; everything else is in the library beside this file.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use quartier_cli::{Cli, STATUS_REFUSED};

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("quartier: {error:#}");
            ExitCode::from(STATUS_REFUSED)
        }
    }
}
