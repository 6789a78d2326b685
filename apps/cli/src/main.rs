//! Reads the command line and runs it; everything else is in the library beside this file.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use quartier_cli::{Cli, STATUS_REFUSED, one_sentence, say_sentence};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version go to standard output, as clap prints them.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return refuse(&one_sentence(&error, &words)),
    };
    cli.run().unwrap_or_else(|error| refuse(&format!("{error:#}")))
}

fn refuse(sentence: &str) -> ExitCode {
    say_sentence(sentence);
    ExitCode::from(STATUS_REFUSED)
}
