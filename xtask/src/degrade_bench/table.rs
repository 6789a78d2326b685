//! What was counted as tables, and what was to be reached beside what was.

use std::fmt::Write;

use super::{Experiment, Held, Value, baseline, decider};
use crate::range;

/// Light p95 beside the most heavy requests over that beside none.
const PROTECTED_MAX: f64 = 1.5;
/// Useful work over that of the same server without us.
const USEFUL_MIN: f64 = 0.95;
/// Answers over those of the server without us, where there is no overload.
const CALM_MIN: f64 = 0.97;
/// In the open loop: with so many fortieths of the most heavy requests half of the CPUs' time is asked for.
const CALM_HEAVY_MAX: u32 = 10;
/// And the p99.
const CALM_P99_MAX: f64 = 1.05;
/// From the line that is configured.
const OFF_CURVE_MAX: f64 = 0.1;

/// All tables, and the targets.
pub fn of(experiment: &Experiment) -> String {
    let begin = &experiment.begin;
    let (light_cost, heavy_cost) = experiment.costs(0);
    let mut out = format!(
        "{} CPUs{}, Java {}. A light request takes {:.2} ms of CPU, a heavy one {:.2}. {}. From the least to the greatest of {} runs each.\n",
        begin.cpus,
        begin.cpu.as_ref().map_or_else(String::new, |model| format!(" ({model})")),
        begin.java,
        1e3 * light_cost,
        1e3 * heavy_cost,
        match begin.clients_first {
            true => "Clients run before the servers, as those of another machine",
            false => "Clients wait for the servers' CPUs",
        },
        experiment.rounds(),
    );
    for variant in experiment.variants() {
        let of = |value: fn(&Held) -> f64| {
            range::words(&experiment.held(variant).map(value).collect::<Vec<_>>(), 1)
        };
        if let (Some(alone), Some(first), Some(last)) =
            (of(|held| held.alone_p95_ms), of(|held| held.at(0)), of(|held| held.at(40)))
        {
            let _ = writeln!(
                out,
                "{variant}: the light service's p95 without heavy requests was {alone} ms as rounds began; then it was held to {first} ms, \
                 and to {last} beside 40."
            );
        }
    }
    for pace in ["closed", "open"] {
        if experiment.runs.iter().any(|run| run.pace == pace) {
            loop_of(&mut out, experiment, pace);
        }
    }
    out += "\nUseful: CPU seconds of answered requests of both classes, each as the unmodified server takes it, over those of the \
            same server unmodified in the same round.\nOf what clients left: the same for each second of CPU that the load generator did not take.\nServer and client CPU: in CPUs; the load generator runs on the same ones.\n\n";
    targets(&mut out, experiment);
    out
}

fn loop_of(out: &mut String, experiment: &Experiment, pace: &str) {
    let of = |value: Value| value;
    let per_second = of(|run| Some(run.answered as f64 / run.seconds));
    let refused = of(|run| Some(run.refused as f64 / run.seconds));
    let failed = of(|run| Some(run.failed as f64));
    let server = of(|run| Some(run.server_cpu_s / run.seconds));
    let client = of(|run| Some(run.client_cpu_s / run.seconds));
    // Title, class, what of it, digits.
    let parts: [(&str, &str, Value, usize); 13] = [
        ("light p50, ms", "light", |run| run.p50_ms, 0),
        ("light p95, ms", "light", |run| run.p95_ms, 0),
        ("light p99, ms", "light", |run| run.p99_ms, 0),
        ("light answered each second", "light", per_second, 0),
        ("heavy p50, ms", "heavy", |run| run.p50_ms, 0),
        ("heavy p95, ms", "heavy", |run| run.p95_ms, 0),
        ("heavy p99, ms", "heavy", |run| run.p99_ms, 0),
        ("heavy answered each second", "heavy", per_second, 0),
        ("heavy refused each second", "heavy", refused, 0),
        ("light failed or never sent", "light", failed, 0),
        ("heavy failed or never sent", "heavy", failed, 0),
        ("server CPU", "light", server, 2),
        ("client CPU", "light", client, 2),
    ];
    for (title, class, value, digits) in parts {
        let _ = writeln!(out, "\n{pace} loop: {title}");
        rows(out, experiment, |variant, heavy| {
            let numbers: Option<Vec<_>> =
                experiment.runs(pace, variant, class, heavy).map(value).collect();
            range::words(&numbers?, digits)
        });
    }
    for (title, useful) in USEFUL {
        let _ = writeln!(out, "\n{pace} loop: {title}, over unmodified");
        rows(out, experiment, |variant, heavy| {
            range::words(&useful_ratios(experiment, useful, pace, variant, heavy), 2)
        });
    }
}

fn rows(out: &mut String, experiment: &Experiment, cell: impl Fn(&str, u32) -> Option<String>) {
    let heavy = experiment.heavy();
    let _ = write!(out, "{:<14}", "heavy");
    heavy.iter().for_each(|nr| _ = write!(out, "  {nr:>12}"));
    out.push('\n');
    for variant in experiment.variants() {
        let _ = write!(out, "{variant:<14}");
        for nr in &heavy {
            let cell = cell(variant, *nr).unwrap_or_else(|| "–".to_owned());
            let _ = write!(out, "  {cell:>12}");
        }
        out.push('\n');
    }
}

/// Of a loop, a variant, so many heavy clients and a round.
type Useful = fn(&Experiment, &str, &str, u32, u32) -> Option<f64>;

const USEFUL: [(&str, Useful); 2] = [
    ("useful work", Experiment::useful),
    ("useful work of what clients left", Experiment::useful_of_left),
];

/// One for each round in which both were counted.
fn useful_ratios(
    experiment: &Experiment,
    useful: Useful,
    pace: &str,
    variant: &str,
    heavy: u32,
) -> Vec<f64> {
    let ratio = |round| {
        let ours = useful(experiment, pace, variant, heavy, round)?;
        Some(ours / useful(experiment, pace, baseline(variant), heavy, round)?)
    };
    (0..experiment.rounds()).filter_map(ratio).collect()
}

/// Of the closed loop, which is the seed's; where there is to be no overload, of the open one with few heavy requests.
fn targets(out: &mut String, experiment: &Experiment) {
    for variant in experiment.variants() {
        match decider(variant) {
            "protect" => protected(out, experiment, variant),
            "curve" => on_the_curve(out, experiment, variant),
            _ => {}
        }
    }
    for variant in experiment.variants() {
        if ["fair", "weighted", "priority", "protect", "curve"].contains(&decider(variant)) {
            calm(out, experiment, variant);
        }
    }
}

/// In the closed loop, one for each round.
pub fn light_p95(experiment: &Experiment, variant: &str, heavy: u32) -> Vec<f64> {
    experiment.runs("closed", variant, "light", heavy).filter_map(|run| run.p95_ms).collect()
}

fn protected(out: &mut String, experiment: &Experiment, variant: &str) {
    let heavy = experiment.heavy();
    let (Some(least), Some(most)) = (heavy.first(), heavy.last()) else { return };
    let p95 = |heavy: u32| light_p95(experiment, variant, heavy);
    let ratios: Vec<_> =
        p95(*most).iter().zip(&p95(*least)).map(|(most, alone)| most / alone).collect();
    let what = format!("{variant}: light p95 beside {most} heavy over beside {least}");
    say(out, &what, &ratios, &format!("at most {PROTECTED_MAX}"), |it| it <= PROTECTED_MAX);
    for (title, useful) in USEFUL {
        for heavy in &heavy {
            let useful = useful_ratios(experiment, useful, "closed", variant, *heavy);
            let what = format!("{variant}: {title} over unmodified beside {heavy} heavy");
            say(out, &what, &useful, &format!("at least {USEFUL_MIN}"), |it| it >= USEFUL_MIN);
        }
    }
}

fn on_the_curve(out: &mut String, experiment: &Experiment, variant: &str) {
    let line = |round| experiment.held(variant).find(|held| held.round == round);
    for heavy in experiment.heavy() {
        let runs = experiment.runs("closed", variant, "light", heavy);
        let off: Vec<_> =
            runs.filter_map(|run| Some(run.p95_ms? / line(run.round)?.at(heavy))).collect();
        let what = format!("{variant}: light p95 over the line beside {heavy} heavy");
        let bound = format!("within {OFF_CURVE_MAX} of 1");
        say(out, &what, &off, &bound, |it| (it - 1.0).abs() <= OFF_CURVE_MAX);
    }
}

fn calm(out: &mut String, experiment: &Experiment, variant: &str) {
    for heavy in experiment.heavy().into_iter().filter(|heavy| *heavy <= CALM_HEAVY_MAX) {
        let beside = format!("{variant}, not overloaded, beside {heavy} heavy");
        let what = format!("{beside}: answers over unmodified");
        let answers = calm_ratios(experiment, variant, |variant, round| {
            Some(experiment.answers("open", variant, heavy, round)? as f64)
        });
        say(out, &what, &answers, &format!("at least {CALM_MIN}"), |it| it >= CALM_MIN);
        let what = format!("{beside}: light p99 over unmodified");
        let p99 = calm_ratios(experiment, variant, |variant, round| {
            let mut runs = experiment.runs("open", variant, "light", heavy);
            runs.find(|run| run.round == round)?.p99_ms
        });
        say(out, &what, &p99, &format!("at most {CALM_P99_MAX}"), |it| it <= CALM_P99_MAX);
    }
}

/// Of requests that come by the clock, and no more than the server can serve; one for each round.
fn calm_ratios(
    experiment: &Experiment,
    variant: &str,
    of: impl Fn(&str, u32) -> Option<f64>,
) -> Vec<f64> {
    let ratio = |round| Some(of(variant, round)? / of(baseline(variant), round)?);
    (0..experiment.rounds()).filter_map(ratio).collect()
}

/// The median decides; in how many runs it held says how sure that is. Nothing is said of what was not counted.
fn say(out: &mut String, what: &str, numbers: &[f64], bound: &str, holds: fn(f64) -> bool) {
    let Some(median) = range::median(numbers) else { return };
    let verdict = if holds(median) { "met" } else { "missed" };
    let nr = numbers.iter().filter(|number| holds(**number)).count();
    let range = range::words(numbers, 2).unwrap_or_default();
    let of = numbers.len();
    let _ =
        writeln!(out, "{what}: {median:.2} ({range}; {bound}): {verdict}, in {nr} of {of} runs");
}
