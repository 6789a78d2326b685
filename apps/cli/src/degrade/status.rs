//! `quartier degrade status`: what the agent in a JVM last wrote down.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::Value;

use super::Process;
use crate::topo::source::print;

const EXAMPLES: &str = "\
Examples:
  quartier degrade status 4711
      Classes of requests: how many a second, how many run and wait, latencies of the last ten seconds
  quartier degrade status 4711 --json | jq '.classes[] | {name, p95_ms, target_ms}'

Exit status: 0; 2 if it was refused, or no agent is active there.";

/// Options of `quartier degrade status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    process: Process,
    /// As JSON, as the agent's page has it in view.json
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = self.process.agent()?.status()?;
        print(&match self.json {
            true => serde_json::to_string_pretty(&status)? + "\n",
            false => text(&status),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is not known is a question mark.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "?".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(number) if number.fract() != 0.0 => format!("{number:.1}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

const HEAD: [&str; 10] =
    ["answered/s", "shed/s", "running", "waiting", "here", "p50", "p95", "p99", "target", "class"];

fn row(words: &[String]) -> String {
    let (class, numbers) = words.split_last().expect("a row has a class");
    let mut row = String::new();
    for (word, head) in numbers.iter().zip(HEAD) {
        let _ = write!(row, "{word:>width$} ", width = head.len().max(7));
    }
    format!("{row} {class}\n")
}

/// For people.
fn text(status: &Value) -> String {
    let mut text = format!(
        "process {}: policy {}, mode {}, {} permits, slices of {} ms; {}\n",
        word(&status["pid"]),
        word(&status["policy"]),
        word(&status["mode"]),
        word(&status["permits"]),
        word(&status["slice_ms"]),
        status["config"]
            .as_str()
            .map_or_else(|| "no file".to_owned(), |file| format!("as {file} says")),
    );
    if let Some(page) = status["page"].as_str() {
        let _ = writeln!(text, "page {page}");
    }
    let aim = &status["aim"];
    if aim.is_object() {
        let load = match aim["load_class"].as_str() {
            Some(class) => format!(" while {} of {class} are here", word(&aim["load"])),
            None => String::new(),
        };
        let reach = match aim["out_of_reach"].as_bool() {
            Some(true) => ": out of reach, whatever the others pay",
            _ => "",
        };
        let held = if status["mode"] == "on" { "is held" } else { "would be held" };
        let _ = writeln!(
            text,
            "{} {held} to {} ms at p95{load}{reach}",
            word(&aim["class"]),
            word(&aim["target_ms"])
        );
    }
    text += "latencies in ms, of the last ten seconds:\n";
    text += &row(&HEAD.map(str::to_owned));
    for class in status["classes"].as_array().into_iter().flatten() {
        let fields = [
            "answered_per_s",
            "rejected_per_s",
            "running",
            "waiting",
            "present",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "target_ms",
            "name",
        ];
        let words = fields.map(|field| match (&class[field], field) {
            (Value::Null, "target_ms") => "-".to_owned(),
            (value, _) => word(value),
        });
        text += &row(&words);
    }
    let classes = status["classes"].as_array().map_or(&[][..], Vec::as_slice);
    let holds_nobody =
        status["policy"] == "protect" && classes.iter().all(|class| class["free"] == true);
    if holds_nobody {
        text += "nobody is held back, as long as the target is met without that\n";
    }
    for class in classes {
        let name = word(&class["name"]);
        if class["free"] == true && !holds_nobody {
            let _ = writeln!(
                text,
                "nothing but {name} is here: it runs without permits until something else comes"
            );
        }
        if status["mode"] == "dry-run" {
            let (waits, sent) = (word(&class["would_wait"]), word(&class["would_reject"]));
            let _ = writeln!(text, "of {name}, {waits} would have waited, {sent} been sent away");
        }
    }
    for name in status["unmatched"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "no request has fitted the rule of {}: the JVM's standard error says what came instead",
            word(name)
        );
    }
    for (field, what) in [
        ("faults", "faults of the agent's own; the requests ran on"),
        ("opened", "times its controller was late, and everybody ran"),
    ] {
        if status[field].as_u64().is_some_and(|nr| nr > 0) {
            let _ = writeln!(text, "{} {what}", word(&status[field]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_no_number() {
        let status = serde_json::json!({
            "pid": 7, "policy": "curve", "mode": "on", "permits": 2, "slice_ms": 2, "config": null, "page": null,
            "aim": {"class": "light", "load_class": "heavy", "load": 12.25, "target_ms": 90,
                "out_of_reach": true},
            "faults": 0, "opened": 3,
            "classes": [{"name": "light", "answered_per_s": 12.34, "rejected_per_s": 0, "running": 1, "waiting": 2,
                "present": 3, "p50_ms": null, "p95_ms": 88.04, "p99_ms": 90, "target_ms": null, "free": true},
                {"name": "heavy", "free": false}],
        });
        let text = text(&status);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "process 7: policy curve, mode on, 2 permits, slices of 2 ms; no file"
        );
        assert_eq!(
            lines[1],
            "light is held to 90 ms at p95 while 12.2 of heavy are here: out of reach, whatever the others pay"
        );
        let words: Vec<_> = lines[4].split_whitespace().collect();
        assert_eq!(words, ["12.3", "0", "1", "2", "3", "?", "88.0", "90", "-", "light"]);
        assert_eq!(
            lines[6],
            "nothing but light is here: it runs without permits until something else comes"
        );
        assert_eq!(lines[7], "3 times its controller was late, and everybody ran");
        assert_eq!(lines.len(), 8, "{text}");
    }

    #[test]
    fn where_nobody_has_to_be_held_it_is_said_once() {
        let status = serde_json::json!({
            "pid": 7, "policy": "protect", "mode": "on",
            "classes": [{"name": "light", "free": true}, {"name": "other", "free": true}],
        });
        let text = text(&status);
        assert!(
            text.contains("nobody is held back, as long as the target is met without that\n"),
            "{text}"
        );
        assert!(!text.contains("nothing but"), "{text}");
    }

    #[test]
    fn what_is_only_rehearsed_holds_nobody() {
        let status = serde_json::json!({
            "pid": 7, "policy": "protect", "mode": "dry-run", "permits": 2, "slice_ms": 2, "config": "a.toml",
            "aim": {"class": "light", "target_ms": 90},
            "unmatched": ["heavy"],
            "classes": [{"name": "light", "would_wait": 5, "would_reject": 1, "free": false}],
        });
        let text = text(&status);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "light would be held to 90 ms at p95");
        assert_eq!(lines[5], "of light, 5 would have waited, 1 been sent away");
        assert!(lines[6].starts_with("no request has fitted the rule of heavy"), "{text}");
    }
}
