//! What an operation of each way takes, above threads that do nothing, and whether the counter is as good as is wished.

use std::collections::BTreeMap;
use std::fmt::Write;

use quartier_count::numbers::grouped;
use serde::Serialize;

use super::{Counts, NOTHING, PARTS, Run};

/// At so many CPUs a sloppy counter is to change owners so many times less often than an atomic one.
const WISH_CPUS: u32 = 32;
const WISH_FEWER_MIN: f64 = 10.0;
const WISH_PART: &str = "counter";
const WISH_WAYS: [&str; 2] = ["sloppy", "sloppy-without-rseq"];

/// All that was counted.
#[derive(Debug, Serialize)]
pub struct Results {
    parts: Vec<Part>,
    wishes: Vec<Wish>,
}

/// A part on a machine.
#[derive(Debug, Serialize)]
struct Part {
    nr_cpus: u32,
    nr_nodes: u32,
    part: String,
    does: String,
    nr_operations: u64,
    /// What threads take that do nothing; absent if that failed.
    nothing: Option<Counts>,
    /// By so much that differs between the parts of this machine, in owner changes of an operation; absent of one part alone.
    noise: Option<f64>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    way: String,
    name: String,
    each: Costs,
    times_first: Costs,
    /// The noise, of its owner changes; absent where it has none.
    noise_percent: Option<f64>,
    problem: Option<String>,
}

/// Of an operation, or times those of the first way's; absent where something was not counted, or the first has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Costs {
    owner_changes: Option<f64>,
    remote_commands: Option<f64>,
    modelled_cycles: Option<f64>,
}

/// Whether a way of the counter is as good as is wished.
#[derive(Debug, PartialEq, Serialize)]
struct Wish {
    nr_cpus: u32,
    way: String,
    name: String,
    first: String,
    /// How many times fewer owner changes than the first way; absent if it has none above threads that do nothing.
    fewer: Option<f64>,
    /// The same if the threads' beginnings and ends took more of one and less of the other, by all that is known to differ;
    /// absent where nothing is known, and at the upper end where there is none.
    fewer_min: Option<f64>,
    fewer_max: Option<f64>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Met,
    Missed,
    /// The wish lies between the least and the most that it may be.
    NotTold,
}

impl Results {
    /// Runs of one part and machine stand in the order in which they were counted.
    pub fn of(runs: &[Run]) -> Self {
        let mut by_part = BTreeMap::<(u32, usize), Vec<&Run>>::new();
        for run in runs {
            let place = PARTS.iter().position(|(part, _)| *part == run.task.part);
            let place = place.unwrap_or(PARTS.len());
            by_part.entry((run.task.nr_cpus, place)).or_default().push(run);
        }
        let spread = spread_of_nothing(runs);
        let spread = |nr_cpus: &u32| spread.get(nr_cpus).copied().flatten();
        let parts = by_part.iter().filter_map(|((cpus, _), runs)| Part::of(runs, spread(cpus)));
        let parts: Vec<_> = parts.collect();
        let wishes = parts.iter().flat_map(Part::wishes).collect();
        Self { parts, wishes }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut nr_cpus_before = None;
        for part in &self.parts {
            if nr_cpus_before.replace(part.nr_cpus) != Some(part.nr_cpus) {
                let Part { nr_cpus, nr_nodes, .. } = part;
                let _ = writeln!(out, "{nr_cpus} CPUs of {nr_nodes} nodes\n");
            }
            part.table(&mut out);
        }
        out += EXPLANATION;
        for wish in &self.wishes {
            wish.sentence(&mut out);
        }
        if self.wishes.is_empty() {
            let _ = writeln!(out, "The counter was not counted on {WISH_CPUS} CPUs.");
        }
        out
    }
}

/// By CPUs: the most owner changes of threads that do nothing less the fewest, of all parts; absent of one part alone.
fn spread_of_nothing(runs: &[Run]) -> BTreeMap<u32, Option<u64>> {
    let mut counted = BTreeMap::<u32, Vec<u64>>::new();
    for run in runs.iter().filter(|run| run.task.way == NOTHING) {
        let owner_changes = run.counts().map(|counts| counts.owner_changes);
        counted.entry(run.task.nr_cpus).or_default().extend(owner_changes);
    }
    let spread = |counted: &[u64]| {
        let (least, most) = (counted.iter().min()?, counted.iter().max()?);
        (counted.len() > 1).then(|| most - least)
    };
    counted.into_iter().map(|(nr_cpus, counted)| (nr_cpus, spread(&counted))).collect()
}

impl Part {
    fn of(runs: &[&Run], spread: Option<u64>) -> Option<Self> {
        let (nothing, ways): (Vec<&Run>, Vec<&Run>) =
            runs.iter().copied().partition(|run| run.task.way == NOTHING);
        let task = &ways.first()?.task;
        let nothing = nothing.first().and_then(|run| run.counts()).cloned();
        let noise = spread.map(|spread| spread as f64 / task.nr_operations as f64);
        let costs = |run: &Run| Costs::of(run, nothing.as_ref());
        let first = costs(ways.first()?);
        let rows = ways.iter().map(|run| Row::of(run, costs(run), &first, noise)).collect();
        Some(Self {
            nr_cpus: task.nr_cpus,
            nr_nodes: task.nr_nodes,
            part: task.part.clone(),
            does: task.does.clone(),
            nr_operations: task.nr_operations,
            nothing,
            noise,
            rows,
        })
    }

    fn table(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "{:<35}  {:>13} {:>7}  {:>15} {:>7}  {:>15} {:>7}  {:>8}",
            self.does,
            "owner changes",
            "times",
            "remote commands",
            "times",
            "modelled cycles",
            "times",
            "noise"
        );
        for row in &self.rows {
            row.line(out);
        }
        self.below(out);
        out.push('\n');
    }

    /// What the table's numbers are of.
    fn below(&self, out: &mut String) {
        let nr_operations = grouped(self.nr_operations);
        let Some(nothing) = &self.nothing else {
            let _ = writeln!(
                out,
                "  {nr_operations} operations; threads that do nothing were not counted"
            );
            return;
        };
        let each = nothing.owner_changes as f64 / self.nr_operations as f64;
        let _ = writeln!(
            out,
            "  {nr_operations} operations; threads that do nothing: {} owner changes, {} ± {} an operation; Linux {}, QEMU {}",
            grouped(nothing.owner_changes),
            number(Some(each), 3),
            number(self.noise, 3),
            nothing.kernel,
            nothing.qemu,
        );
    }

    fn wishes(&self) -> Vec<Wish> {
        if self.nr_cpus != WISH_CPUS || self.part != WISH_PART {
            return Vec::new();
        }
        let Some(first) = self.rows.first() else { return Vec::new() };
        let wished = self.rows.iter().filter(|row| WISH_WAYS.contains(&row.way.as_str()));
        wished.filter_map(|row| Wish::of(self, first, row)).collect()
    }
}

impl Row {
    fn of(run: &Run, each: Costs, first: &Costs, noise: Option<f64>) -> Self {
        let changes = each.owner_changes.filter(|changes| *changes > 0.0);
        Self {
            way: run.task.way.clone(),
            name: run.task.name.clone(),
            each,
            times_first: each.times(first),
            noise_percent: changes.zip(noise).map(|(changes, noise)| 100.0 * noise / changes),
            problem: run.problem().map(str::to_owned),
        }
    }

    fn line(&self, out: &mut String) {
        let Self { name, each, times_first, .. } = self;
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "  {name:<33}  failed: {problem}");
            return;
        }
        let noise = self.noise_percent.map_or_else(|| "–".to_owned(), percent);
        let _ = writeln!(
            out,
            "  {name:<33}  {:>13} {:>7}  {:>15} {:>7}  {:>15} {:>7}  {noise:>8}",
            number(each.owner_changes, 3),
            number(times_first.owner_changes, 2),
            number(each.remote_commands, 3),
            number(times_first.remote_commands, 2),
            number(each.modelled_cycles, 0),
            number(times_first.modelled_cycles, 2),
        );
    }
}

impl Costs {
    /// Above those of threads that do nothing.
    fn of(run: &Run, nothing: Option<&Counts>) -> Self {
        let (Some(counts), Some(nothing)) = (run.counts(), nothing) else { return Self::default() };
        let nr_operations = run.task.nr_operations as f64;
        let each =
            |of: fn(&Counts) -> u64| Some((of(counts) as f64 - of(nothing) as f64) / nr_operations);
        Self {
            owner_changes: each(|counts| counts.owner_changes),
            remote_commands: each(|counts| counts.remote_commands),
            modelled_cycles: each(|counts| counts.modelled_cycles),
        }
    }

    fn times(&self, first: &Self) -> Self {
        let times =
            |own: Option<f64>, first: Option<f64>| Some(own? / first.filter(|it| *it > 0.0)?);
        Self {
            owner_changes: times(self.owner_changes, first.owner_changes),
            remote_commands: times(self.remote_commands, first.remote_commands),
            modelled_cycles: times(self.modelled_cycles, first.modelled_cycles),
        }
    }
}

impl Wish {
    /// Nothing is said of what was not counted.
    fn of(part: &Part, first: &Row, row: &Row) -> Option<Self> {
        let (many, few) = (first.each.owner_changes?, row.each.owner_changes?);
        let ratio = |many: f64, few: f64| (few > 0.0).then(|| many / few);
        let fewer = ratio(many, few);
        // Less than nothing is the noise's doing.
        let fewer_min = part.noise.and_then(|noise| ratio(many - noise, few.max(0.0) + noise));
        let fewer_max = part.noise.and_then(|noise| ratio(many + noise, few - noise));
        let least = if part.noise.is_some() { fewer_min } else { fewer };
        let most = if part.noise.is_some() { fewer_max } else { fewer };
        let verdict = match (least, most) {
            (Some(least), _) if least >= WISH_FEWER_MIN => Verdict::Met,
            (_, Some(most)) if most < WISH_FEWER_MIN => Verdict::Missed,
            _ => Verdict::NotTold,
        };
        let (way, name, first) = (row.way.clone(), row.name.clone(), first.name.clone());
        let nr_cpus = part.nr_cpus;
        Some(Self { nr_cpus, way, name, first, fewer, fewer_min, fewer_max, verdict })
    }

    fn sentence(&self, out: &mut String) {
        let Self { nr_cpus, name, first, .. } = self;
        let fewer = match self.fewer {
            Some(fewer) => format!("{fewer:.1} times fewer owner changes than {first}"),
            None => "no owner changes above those of threads that do nothing".to_owned(),
        };
        let range = match (self.fewer_min, self.fewer_max) {
            (Some(least), Some(most)) => format!("{least:.1} to {most:.1} by the noise"),
            (Some(least), None) => format!("{least:.1} or more by the noise"),
            (None, _) => "the noise is not known".to_owned(),
        };
        let verdict = match self.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotTold => "not told",
        };
        let _ = writeln!(
            out,
            "{name}, {nr_cpus} CPUs: {fewer} ({range}; at least {WISH_FEWER_MIN:.0}): {verdict}"
        );
    }
}

const EXPLANATION: &str = "\
Of an operation, above threads that begin, take their turns and end; times: those of the first of each group.\n\
Owner changes: copies of lines that a CPU's write took from others, the kernel's in the program's name with them.\n\
Remote commands: all that left their node. Modelled cycles: of all CPUs, instructions and stalls; who sleeps takes none.\n\
Noise: by so much threads that do nothing differ from part to part, beside a way's owner changes.\n\
CPUs take turns after each operation, and under a lock, so that all others wait for it.\n\n";

/// Absent is not zero; and what is rounded to zero has no sign.
fn number(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let text = format!("{value:.digits$}");
    let is_zero = text.starts_with('-') && !text.contains(|c: char| ('1'..='9').contains(&c));
    if is_zero { text[1..].to_owned() } else { text }
}

fn percent(percent: f64) -> String {
    if percent > 100.0 { "> 100 %".to_owned() } else { format!("{percent:.1} %") }
}
