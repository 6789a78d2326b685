//! `quartier degrade why`: where the time of requests goes, by class: the tables of a study that took two kernels apart to
//! get them, for any JVM that runs.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::scheduler::{self, while_traced};
use super::{ANSWER_WITHIN, Process, seen_inside};
use crate::numbers::number;
use crate::say;
use crate::topo::source::print;

const EXAMPLES: &str = "\
Examples:
  quartier degrade why 4711
      Where the time of requests went in the next ten seconds
  quartier degrade why 4711 --seconds 60 --config classes.toml
      Of a JVM without the agent: requests in the classes of this file; nothing is done to them
  quartier degrade why 4711 --json | jq '.classes[] | {name, cpu_ms, run_queue_ms, lock_ms}'

CPU and run queue (ready, and another ran) are the kernel's own count; lock, I/O and wait (asleep, or for another
thread) the JVM's; yield is how long the agent held the request. Other: blocked, and nobody says by what.
Exit status: 0; 2 if it was refused, with the reason.";

/// Options of `quartier degrade why`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    process: Process,
    /// How long to look
    #[arg(
        long, value_name = "N", default_value_t = 10, allow_negative_numbers = true, value_parser = number(1..=3600u32)
    )]
    seconds: u32,
    /// Classes of requests, if no agent is active there, in TOML, as the JVM sees the file [default: all are one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let agent = self.process.agent()?;
        let config = self.config.as_deref().map(|file| seen_inside(&agent, file)).transpose()?;
        let asked = match config {
            Some(file) => format!("{} {file}", self.seconds),
            None => self.seconds.to_string(),
        };
        if !self.json {
            say::sentence(&format!("looking for {} s", self.seconds));
        }
        let within = Duration::from_secs(self.seconds.into()) + ANSWER_WITHIN;
        let (told, traced) = while_traced(&agent, |is_traced| {
            let command = if is_traced { "why-traced" } else { "why" };
            agent.ask(&format!("{command} {asked}"), within)
        });
        let mut answer: Value =
            serde_json::from_str(&told?).context("the agent's answer is not understood")?;
        scheduler::add(&mut answer, traced);
        print(&match self.json {
            true => serde_json::to_string_pretty(&answer)? + "\n",
            false => text(&answer),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Fields of a class, and what stands above them.
const PARTS: [(&str, &str); 9] = [
    ("total_ms", "total"),
    ("cpu_ms", "CPU"),
    ("run_queue_ms", "run queue"),
    ("lock_ms", "lock"),
    ("io_ms", "I/O"),
    ("wait_ms", "wait"),
    ("yield_ms", "yield"),
    ("other_ms", "other"),
    ("requests", "requests"),
];
const SLICES: [(&str, &str); 3] =
    [("slice_ms", "length"), ("slices", "a request"), ("cpu_wait_ms", "wait for each")];
const LOCKS: [(&str, &str); 2] = [("lock_waits", "a request"), ("lock_wait_ms", "length")];
const WIDTH: usize = 13;

fn number_of(class: &Value, field: &str) -> String {
    match class[field].as_f64() {
        // The mean of none.
        None if field == "lock_wait_ms" => "-".to_owned(),
        None => "unknown".to_owned(),
        Some(whole) if field == "requests" => format!("{whole:.0}"),
        Some(part) if part >= 99.95 => format!("{part:.0}"),
        Some(part) if part >= 9.995 => format!("{part:.1}"),
        Some(part) => format!("{part:.2}"),
    }
}

fn table(text: &mut String, classes: &[Value], columns: &[(&str, &str)]) {
    for (_, head) in columns {
        let _ = write!(text, "{head:>width$} ", width = WIDTH.min(head.len().max(8)));
    }
    text.push_str(" class\n");
    for class in classes {
        for (field, head) in columns {
            let _ = write!(
                text,
                "{:>width$} ",
                number_of(class, field),
                width = WIDTH.min(head.len().max(8))
            );
        }
        let _ = writeln!(text, " {}", class["name"].as_str().unwrap_or("?"));
    }
}

/// For people.
fn text(answer: &Value) -> String {
    let classes = answer["classes"].as_array().map_or(&[][..], Vec::as_slice);
    if classes.is_empty() {
        return "no request ended meanwhile: look for longer, or while there are some\n".to_owned();
    }
    let mut text = "where a request's time went, ms on average:\n".to_owned();
    table(&mut text, classes, &PARTS);
    text.push_str("\ntime slices, ms on average:\n");
    table(&mut text, classes, &SLICES);
    text.push_str("\nwaits for locks, ms on average:\n");
    table(&mut text, classes, &LOCKS);
    if let Some(ms) = answer["before_entry_ms"].as_f64() {
        let _ = writeln!(
            text,
            "\nbefore the server's entry a request waits about {ms:.3} ms for a CPU, by what threads have waited of late"
        );
    }
    scheduler::write(&mut text, answer);
    if classes.iter().any(|class| class["cpu_ms"].is_null()) {
        text.push_str("unknown: the kernel does not say it of these threads (virtual threads, or no /proc/PID/task/TID/schedstat)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let answer = serde_json::json!({"classes": [
            {"name": "light", "requests": 120, "total_ms": 137.04, "cpu_ms": 3.714, "run_queue_ms": 10.04, "lock_ms": 0,
                "io_ms": 1.19, "wait_ms": 0.0, "yield_ms": 121.9, "other_ms": 0.2, "slice_ms": 1.25, "slices": 3.0,
                "cpu_wait_ms": 3.3, "lock_waits": 1.5, "lock_wait_ms": 0.25},
            {"name": "virtual", "requests": 7, "total_ms": 1.0, "cpu_ms": null, "run_queue_ms": null, "lock_ms": 0,
                "io_ms": 0, "wait_ms": 0.5, "yield_ms": 0.25, "other_ms": null, "slice_ms": null, "slices": null,
                "cpu_wait_ms": null, "lock_waits": 0.0, "lock_wait_ms": null},
        ], "before_entry_ms": 0.25, "scheduler": null, "scheduler_unknown": "nobody has mounted it"});
        let text = text(&answer);
        let words: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words[2],
            ["137", "3.71", "10.0", "0.00", "1.19", "0.00", "122", "0.20", "120", "light"]
        );
        assert_eq!(
            words[3],
            [
                "1.00", "unknown", "unknown", "0.00", "0.00", "0.50", "0.25", "unknown", "7",
                "virtual"
            ]
        );
        assert_eq!(words[7], ["1.25", "3.00", "3.30", "light"]);
        assert!(
            text.contains("wait once they are woken: unknown (nobody has mounted it)"),
            "{text}"
        );
        assert_eq!(
            (&words[12][..], &words[13][..]),
            (&["1.50", "0.25", "light"][..], &["0.00", "-", "virtual"][..])
        );
        assert!(
            text.contains("before the server's entry a request waits about 0.250 ms"),
            "{text}"
        );
        assert!(text.lines().last().unwrap().starts_with("unknown:"), "{text}");
        assert!(super::text(&serde_json::json!({"classes": []})).contains("no request ended"));
    }
}
