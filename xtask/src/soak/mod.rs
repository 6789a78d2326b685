//! What a `quartierd` that moves tasks has after an hour of tasks that begin and end: memory, descriptors, journal and log, in a
//! guest with four nodes.

use std::ffi::OsString;
use std::fmt::Write;

use anyhow::ensure;
use serde::Deserialize;

use crate::script::{Guest, Script};

/// What runs in the guest.
const SOAK: &str = include_str!("soak.py");

/// Options of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// How long
    #[arg(long, default_value_t = 3600)]
    seconds: u32,
    /// Lines that are printed
    #[arg(long, default_value_t = 20)]
    parts: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Look(Look),
    End(End),
}

/// What quartierd has.
#[derive(Debug, Deserialize)]
struct Look {
    seconds: f64,
    processes_begun: u32,
    cpu_seconds: f64,
    resident_bytes: u64,
    descriptors: u64,
    journal_bytes: u64,
    log_bytes: u64,
    moved_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct End {
    status: i32,
    /// Threads that are still held.
    left_behind: u32,
}

/// Prints a line for each part of the time.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let script = Script::new("soak.py", SOAK)?;
    let guest = Guest {
        kernel: &args.kernel,
        cpus_per_node: 2,
        mib_per_node: 1024,
        timeout_s: args.seconds + 600,
    };
    let numbers = [args.seconds, (args.seconds / args.parts).max(1)];
    let words = numbers.map(|number| OsString::from(number.to_string())).into_iter();
    let words: Vec<_> = words.chain(script.quartierd()?).collect();
    let said = script.run(guest, &words)?;
    let lines: Result<Vec<Line>, _> =
        said.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str).collect();
    let lines = lines?;
    println!("{}\n{}", guest.name(), table(&lines));
    let is_clean = |line: &Line| matches!(line, Line::End(End { status: 0, left_behind: 0 }));
    ensure!(lines.iter().any(is_clean), "quartierd left something behind: {:?}", lines.last());
    Ok(())
}

fn table(lines: &[Line]) -> String {
    let mut out =
        "until, s  begun  CPU, s  resident, MiB  descriptors  journal, KiB  log, MiB  moved, MiB\n"
            .to_owned();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for line in lines {
        let Line::Look(look) = line else { continue };
        let _ = writeln!(
            out,
            "{:>8.0}  {:>5}  {:>6.1}  {:>13.1}  {:>11}  {:>12.1}  {:>8.1}  {:>10.0}",
            look.seconds,
            look.processes_begun,
            look.cpu_seconds,
            mib(look.resident_bytes),
            look.descriptors,
            look.journal_bytes as f64 / 1024.0,
            mib(look.log_bytes),
            mib(look.moved_bytes),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_says_is_a_line_of_the_table() {
        let said = r#"{"look":{"seconds":60.2,"processes_begun":12,"cpu_seconds":1.5,"resident_bytes":8388608,"descriptors":20,"journal_bytes":2048,"log_bytes":1048576,"moved_bytes":16777216}}"#;
        let look: Line = serde_json::from_str(said).unwrap();
        let end: Line = serde_json::from_str(r#"{"end":{"status":0,"left_behind":0}}"#).unwrap();
        let table = table(&[look, end]);
        let words: Vec<_> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["60", "12", "1.5", "8.0", "20", "2.0", "1.0", "16"]);
        assert_eq!(table.lines().count(), 2);
    }
}
