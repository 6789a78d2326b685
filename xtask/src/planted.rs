//! How often `quartier scale` is right about a program whose culprit is known (`tests/programs/stops_scaling.c`), and `quartier lab
//! scale` (`waits_for_memory.c` there): every reason many times, a line of JSON each, and a table of what was named.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stops_scaling::{Named, OTHERS_PERCENT_MAX, Planted};
use crate::{release_build, said_by};

const PROGRAMS: &str = "tests/programs";
const COUNTED: &str = "planted.jsonl";
const TABLE: &str = "planted.txt";

/// Options of `cargo xtask scale-planted`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sweeps of each reason
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Reasons [default: all]
    #[arg(long, value_name = "REASON", value_delimiter = ',')]
    only: Vec<String>,
    /// CPU counts, on this machine
    #[arg(long, default_value = "1,2")]
    cpus: String,
    /// Runs at each CPU count of a sweep
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Runs at each CPU count of a sweep in guests, which others on this machine do not disturb
    #[arg(long, default_value_t = 3)]
    repeat_in_guests: u32,
    /// Only make the table anew, of what was counted before
    #[arg(long)]
    again: bool,
    /// Where results go; those of other reasons stay
    #[arg(long, default_value = "docs/results/scale")]
    out: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// What a sweep said.
#[derive(Debug, Serialize, Deserialize)]
struct Sweep {
    reason: String,
    answer: Answer,
    culprits: Vec<Named>,
    /// The first sentence.
    said: String,
    /// What others on the machine took of the CPUs' time at the most CPUs, percent.
    stolen_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// The planted one, and next to nothing else; of a program that scales, nobody.
    Right,
    /// Nobody, although there was one.
    Nothing,
    Wrong,
}

/// What a sweep that named these is worth.
fn answer(planted: &Planted, culprits: &[Named]) -> Answer {
    let Some(first) = culprits.first() else {
        return if planted.class.is_none() { Answer::Right } else { Answer::Nothing };
    };
    let is_alone = planted.others_percent(culprits) <= OTHERS_PERCENT_MAX;
    if planted.is(first) && is_alone { Answer::Right } else { Answer::Wrong }
}

/// Sweeps everything that is asked for.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let expected = Planted::all();
    for asked in &args.only {
        let is_known = expected.iter().any(|planted| planted.reason == *asked);
        ensure!(is_known, "there is no reason {asked}");
    }
    fs::create_dir_all(&args.out)?;
    let counted = args.out.join(COUNTED);
    if !args.again {
        let is_asked =
            |reason: &str| args.only.is_empty() || args.only.iter().any(|it| it == reason);
        let mut sweeps = read(&counted)?;
        sweeps.retain(|sweep| !is_asked(&sweep.reason));
        let kept: Vec<_> = sweeps.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        fs::write(&counted, kept.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        for planted in expected.iter().filter(|planted| is_asked(&planted.reason)) {
            let program = compile(planted.program())?;
            for nr in 1..=args.runs {
                let sweep = sweep(args, planted, &program)?;
                eprintln!("{} {nr} of {}: {:?}", planted.reason, args.runs, sweep.answer);
                let mut file = OpenOptions::new().append(true).open(&counted)?;
                writeln!(file, "{}", serde_json::to_string(&sweep)?)?;
            }
        }
    }
    let table = table(&expected, &read(&counted)?);
    print!("{table}");
    fs::write(args.out.join(TABLE), table)?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<Sweep>> {
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    let line = |line| serde_json::from_str(line).with_context(|| format!("no sweep: {line}"));
    text.lines().map(line).collect()
}

fn compile(program: &str) -> anyhow::Result<PathBuf> {
    let built = std::env::current_exe()?.with_file_name(program);
    let source = Path::new(PROGRAMS).join(program).with_extension("c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&built).arg(&source).stdin(Stdio::null());
    let status = compiler.status().context("cannot run cc")?;
    ensure!(status.success(), "{} does not compile", source.display());
    Ok(built)
}

fn sweep(args: &Args, planted: &Planted, program: &Path) -> anyhow::Result<Sweep> {
    let quartier = args.quartier.clone().map_or_else(release_build, Ok)?;
    let mut command = Command::new("sh");
    // It is right to say that the runs do not tell.
    command.args(["-c", "\"$@\"; test $? -le 1", "sh"]).arg(quartier);
    match planted.in_guest(Path::new(PROGRAMS)) {
        Some(words) => {
            command.args(words).args(["--repeat", &args.repeat_in_guests.to_string()]);
        }
        None => {
            command.args(["scale", "--cpus", &args.cpus, "--repeat", &args.repeat.to_string()]);
        }
    }
    command.args(["--metric", "units: ([0-9]+)", "--json", "-", "--"]).arg(program);
    command.args([planted.reason.as_str(), "{cpus}", &planted.units.to_string()]);
    let report: Value = serde_json::from_str(&said_by(&mut command, "quartier scale")?)?;
    let complaints = report["complaints"].to_string();
    ensure!(!complaints.contains("nothing is named"), "nothing can be named here: {complaints}");
    let verdict = &report["verdict"];
    let culprits: Vec<Named> =
        serde_json::from_value(verdict["culprits"].clone()).context("no culprits in a report")?;
    let said = verdict["sentences"][0].as_str().unwrap_or_default().to_owned();
    let stolen_percent = stolen_percent(&report).context("no runs in a report")?;
    let answer = answer(planted, &culprits);
    Ok(Sweep { reason: planted.reason.clone(), answer, culprits, said, stolen_percent })
}

/// Of the runs on the most CPUs.
fn stolen_percent(report: &Value) -> Option<f64> {
    let point = report["study"]["points"].as_array()?.last()?;
    let runs = point["runs"].as_array().filter(|runs| !runs.is_empty())?;
    let sum = |of: fn(&Value) -> Option<f64>| -> Option<f64> { runs.iter().map(of).sum() };
    let stolen_s = sum(|run| run["profile"]["stolen_s"].as_f64())?;
    let wall_s = sum(|run| run["wall_s"].as_f64())?;
    Some(100.0 * stolen_s / (wall_s * point["nr_cpus"].as_f64()?))
}

fn table(expected: &[Planted], sweeps: &[Sweep]) -> String {
    let mut text = format!(
        "{:<12}  {:<16}  {:>5}  {:>7}  {:>5}  {:>12}\n",
        "planted", "class", "right", "nothing", "wrong", "others took"
    );
    for planted in expected {
        let of: Vec<_> = sweeps.iter().filter(|sweep| sweep.reason == planted.reason).collect();
        if of.is_empty() {
            continue;
        }
        let mut nr: BTreeMap<Answer, usize> = BTreeMap::new();
        // By what is expected now, whatever was when it was swept.
        for sweep in &of {
            *nr.entry(answer(planted, &sweep.culprits)).or_default() += 1;
        }
        let count = |answer| nr.get(&answer).copied().unwrap_or_default();
        let stolen: Vec<_> = of.iter().map(|sweep| sweep.stolen_percent).collect();
        let stolen = crate::range::words(&stolen, 0).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<12}  {:<16}  {:>5}  {:>7}  {:>5}  {:>10} %",
            planted.reason,
            planted.class.as_deref().unwrap_or("–"),
            count(Answer::Right),
            count(Answer::Nothing),
            count(Answer::Wrong),
            stolen,
        );
    }
    text + "\nRight: the planted one with its class, function and variable, and at most 25 % of what is lost is laid upon others; \
            of nothing, that nobody is named.\nNothing: nobody is named, and it is said why. Others took: of the CPUs' time, on the most CPUs.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(class: &str, function: &str, object: Option<&str>, share_percent: f64) -> Named {
        Named {
            class: Some(class.to_owned()),
            function: function.to_owned(),
            object: object.map(str::to_owned),
            share_percent,
            share_error_percent: 0.0,
        }
    }

    #[test]
    fn an_answer_is_right_with_class_function_and_variable() {
        let expected = Planted::all();
        let of = |reason: &str| expected.iter().find(|planted| planted.reason == reason).unwrap();
        let counter = |share| named("bouncing-line", "count_unit", Some("global_count"), share);
        assert_eq!(answer(of("counter"), &[counter(100.0)]), Answer::Right);
        assert_eq!(answer(of("counter"), &[]), Answer::Nothing);
        let other = |share| named("lock", "x", None, share);
        assert_eq!(answer(of("counter"), &[counter(80.0), other(20.0)]), Answer::Right);
        assert_eq!(answer(of("counter"), &[counter(60.0), other(40.0)]), Answer::Wrong);
        assert_eq!(answer(of("counter"), &[other(60.0), counter(20.0)]), Answer::Wrong);
        let elsewhere = named("bouncing-line", "count_unit", None, 100.0);
        assert_eq!(answer(of("counter"), &[elsewhere]), Answer::Wrong);
        let unmaps = named("kernel-path", "munmap() of use_pages", None, 90.0);
        assert_eq!(answer(of("mapping"), &[unmaps]), Answer::Right);
        assert_eq!(answer(of("nothing"), &[]), Answer::Right);
        assert_eq!(answer(of("nothing"), &[other(50.0)]), Answer::Wrong);
    }

    #[test]
    fn a_table_counts_what_is_there() {
        let expected = Planted::all();
        let sweep = |culprits| Sweep {
            reason: "mutex".to_owned(),
            answer: Answer::Wrong,
            culprits,
            said: String::new(),
            stolen_percent: 3.0,
        };
        let found = named("lock", "add_to_total", Some("total_mutex"), 90.0);
        let told = table(&expected, &[sweep(vec![found]), sweep(Vec::new())]);
        let line = told.lines().nth(1).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["mutex", "lock", "1", "1", "0", "3", "%"], "{told}");
        assert_eq!(
            told.lines().filter(|line| line.ends_with('%')).count(),
            1,
            "others were not swept"
        );
    }
}
