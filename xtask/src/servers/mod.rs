//! Servers that nobody here wrote, under load while quartierd moves them: whether any request fails, and where their memory
//! is before and after, in guests.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use serde::Deserialize;

use crate::script::{self, Guest, Look, Script};

/// What runs in the guest.
const SERVERS: &str = include_str!("servers.py");

/// Where `xtask/deps.sh results` puts servers that are not installed.
const FOLDER: &str = "target/servers";

/// Options of `cargo xtask servers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Servers
    #[arg(value_enum, value_name = "SERVER", default_values = ["postgresql", "mariadb", "memcached", "apache"])]
    servers: Vec<Server>,
    /// Kernels
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', default_value = "6.1,7.3")]
    kernels: Vec<String>,
    /// CPUs of each of four nodes
    #[arg(long, value_name = "NR", default_value_t = 2)]
    cpus_per_node: u32,
    /// Runs of each, with nobody watching and with quartierd in turn
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// How long they are under load
    #[arg(long, default_value_t = 90)]
    seconds: u32,
    /// Where the table and all that was seen go
    #[arg(long, default_value = "docs/results/servers")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Server {
    Postgresql,
    Mariadb,
    Memcached,
    Apache,
}

/// What became of it.
#[derive(Clone, Debug, Deserialize)]
struct End {
    server: String,
    done: u64,
    failed: u64,
    moved_bytes: u64,
    daemon_cpu_seconds: f64,
    left_behind: u64,
    shared_bytes: Vec<u64>,
    status: i32,
}

/// One run.
#[derive(Debug)]
struct Run {
    machine: String,
    is_watched: bool,
    looks: Vec<Look>,
    end: End,
}

impl Run {
    fn of(machine: String, is_watched: bool, said: &str) -> anyhow::Result<Self> {
        let (looks, end) = script::read(said)?;
        Ok(Self { machine, is_watched, looks, end })
    }

    /// The first look that says anything, and the mean of the later half of them.
    fn local(&self) -> Option<(f64, f64)> {
        let known: Vec<f64> = self.looks.iter().filter_map(Look::local).collect();
        let later = &known[known.len() / 2..];
        Some((*known.first()?, later.iter().sum::<f64>() / later.len() as f64))
    }
}

/// Runs each with nobody watching, and with quartierd.
pub fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let script = Script::new("servers.py", SERVERS)?;
    let folder = std::env::current_dir()?.join(FOLDER);
    let quartierd = script.quartierd()?;
    let (mut runs, mut said) = (Vec::new(), String::new());
    for kernel in &args.kernels {
        let guest = Guest {
            kernel,
            cpus_per_node: args.cpus_per_node,
            mib_per_node: 1024,
            timeout_s: args.seconds + 900,
        };
        for server in &args.servers {
            let word = server.to_possible_value().context("it has no name")?;
            for nr in 0..2 * args.runs {
                let daemon = if nr % 2 == 0 { &[][..] } else { &quartierd };
                let name = format!("{}, {}", guest.name(), word.get_name());
                eprintln!("servers: {name}{}", if daemon.is_empty() { "" } else { ", quartierd" });
                let seconds = args.seconds.to_string();
                let words = [word.get_name().into(), seconds.into(), folder.clone().into()];
                let words: Vec<OsString> = words.into_iter().chain(daemon.to_vec()).collect();
                let text = script.run(guest, &words).context(name)?;
                said += &text;
                runs.push(Run::of(guest.name(), !daemon.is_empty(), &text)?);
            }
        }
    }
    keep(&args.out, &runs, &said)
}

fn keep(out: &Path, runs: &[Run], said: &str) -> anyhow::Result<()> {
    let table = table(runs);
    println!("{table}");
    fs::write(out.join("servers.txt"), table)?;
    fs::write(out.join("servers.jsonl"), said)?;
    Ok(())
}

/// A line for each run.
fn table(runs: &[Run]) -> String {
    const MIB: f64 = (1 << 20) as f64;
    let mut out = format!(
        "{:<10}  {:<11}  {:<9}  {:>8}  {:>6}  {:>16}  {:>10}  {:>13}  {:>11}  {:>9}  exit status\n",
        "machine",
        "server",
        "watched",
        "requests",
        "failed",
        "own memory local",
        "moved, MiB",
        "daemon, CPU s",
        "shared, MiB",
        "held then",
    );
    for run in runs {
        let local = run.local().map_or_else(
            || "–".to_owned(),
            |(first, later)| format!("{:.0} → {:.0} %", 100.0 * first, 100.0 * later),
        );
        let End { server, done, failed, left_behind, status, .. } = &run.end;
        let _ = writeln!(
            out,
            "{:<10}  {server:<11}  {:<9}  {done:>8}  {failed:>6}  {local:>16}  {:>10.0}  {:>13.1}  {:>11.0}  {left_behind:>9}  {status}",
            run.machine,
            if run.is_watched { "quartierd" } else { "by nobody" },
            run.end.moved_bytes as f64 / MIB,
            run.end.daemon_cpu_seconds,
            run.end.shared_bytes.iter().sum::<u64>() as f64 / MIB,
        );
    }
    out += "\nOwn memory: what is a process's own, on nodes where its threads ran, at first and in the later half of the load, in the\n\
            mean; shared memory stays. Moved: all pages that the kernel migrated. Held then: threads whose affinity is not what it was before.\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"
{"look": {"seconds": 0.1, "local_bytes": 0, "resident_bytes": 0}}
{"look": {"seconds": 2.1, "local_bytes": 1, "resident_bytes": 4}}
{"look": {"seconds": 4.1, "local_bytes": 3, "resident_bytes": 4}}
{"look": {"seconds": 6.1, "local_bytes": 4, "resident_bytes": 4}}
{"said": {"seconds": 1, "line": "watches"}}
{"end": {"server": "memcached", "done": 10, "failed": 0, "moved_bytes": 1048576, "daemon_cpu_seconds": 0.25, "left_behind": 0, "shared_bytes": [0, 0], "status": 0}}
"#;

    #[test]
    fn a_line_says_where_memory_was_and_what_failed() {
        let run = Run::of("4x2-7.3".into(), true, SAID).unwrap();
        let table = table(&[run]);
        let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "4x2-7.3 memcached quartierd 10 0 25 → 88 % 1 0.2 0 0 0";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn what_was_not_seen_is_not_zero() {
        let said = SAID.replace("\"resident_bytes\": 4", "\"resident_bytes\": 0");
        let run = Run::of("4x2-7.3".into(), false, &said).unwrap();
        assert!(table(&[run]).contains("–"));
    }

    #[test]
    fn what_is_cut_short_is_no_run() {
        let cut = SAID.replace("{\"end\"", "# {\"end\"");
        assert!(Run::of(String::new(), false, &cut).is_err());
    }
}
