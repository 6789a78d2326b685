//! What a page takes of each server, and whether ours is as good as is wished.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::{Connections, Counts, NR_NODES, Run, Variant};
use crate::range;

/// What is wished of all cures together, above what Debian's Apache and PHP do, at so many CPUs.
const WISH_CPUS: u32 = 16;
const WISH_PAGES_MIN: f64 = 1.33;
const WISH_FEWER_MIN: f64 = 3.0;
const WISH_IMBALANCE_PERCENT_MAX: f64 = 10.0;
const STOCK: Variant = Variant::ApachePreforkModPhp;
const OURS: Variant = Variant::CopiesSteeredRoots;

/// Parts of the time: in shorter ones there are too few pages to tell.
const NR_PARTS: usize = 4;

/// So many of the kernel's functions are told of each server.
const NR_FUNCTIONS: usize = 5;

/// All that was counted.
#[derive(Debug, Serialize)]
pub struct Results {
    parts: Vec<Part>,
    wishes: Vec<Wish>,
}

/// All servers on a machine, loaded in one way.
#[derive(Debug, Serialize)]
struct Part {
    nr_cpus: u32,
    connections: Connections,
    rows: Vec<Row>,
}

/// All runs of one.
#[derive(Debug, Serialize)]
struct Row {
    variant: Variant,
    name: String,
    figures: Vec<Figures>,
    /// Of a page, by function of the kernel, most first; empty: nobody told.
    taken_by_kernel: Vec<(String, f64)>,
    /// Why runs failed that did.
    problems: Vec<String>,
}

/// Of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Of a page.
    pub remote_commands: f64,
    pub remote_by_kind: BTreeMap<String, f64>,
    /// Of the kernel's own accesses, of them.
    pub remote_of_kernel: f64,
    pub owner_changes: f64,
    pub modelled_megacycles: f64,
    pub instructions: f64,
    /// As long as the CPU takes that has most to do.
    pub pages_per_modelled_s: f64,
    /// By so much the node that does most is above the mean node: over the whole time, and in the mean of parts of it.
    pub imbalance_percent: f64,
    pub imbalance_of_parts_percent: Option<f64>,
    /// The same of CPUs, over the whole time.
    pub cpu_imbalance_percent: f64,
    /// Connections that went to the copy on the node that received them; absent where nobody counts.
    pub local_percent: Option<f64>,
}

/// Whether ours is as good as is wished, in one respect.
#[derive(Debug, PartialEq, Serialize)]
struct Wish {
    connections: Connections,
    what: &'static str,
    /// Of the middle runs, and at least and at most by any two.
    value: f64,
    least: f64,
    most: f64,
    bound: f64,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Met,
    Missed,
    /// By some runs it is met, by others not.
    NotTold,
}

impl Figures {
    /// `None`: nothing was served, or nothing executed.
    pub(super) fn of(counts: &Counts) -> Option<Self> {
        let pages = counts.pages as f64;
        let cycles: Vec<u64> = counts.cpus.iter().map(|(_, cycles)| *cycles).collect();
        let (most, all) = (*cycles.iter().max()?, cycles.iter().sum::<u64>() as f64);
        if counts.pages == 0 || most == 0 {
            return None;
        }
        let each = |nr: u64| nr as f64 / pages;
        let mut nodes = BTreeMap::<u16, u64>::new();
        for (node, cycles) in &counts.cpus {
            *nodes.entry(*node).or_default() += cycles;
        }
        let nodes: Vec<u64> = nodes.into_values().collect();
        let length = counts.windows.len().div_ceil(NR_PARTS).max(1);
        let parts = counts.windows.chunks(length).map(sum_by_node);
        let by_part: Vec<f64> = parts.filter_map(|part| imbalance_percent(&part)).collect();
        let remote = |(kind, nr): (&String, &u64)| (kind.clone(), each(*nr));
        Some(Self {
            remote_commands: each(counts.remote.values().sum()),
            remote_by_kind: counts.remote.iter().map(remote).collect(),
            remote_of_kernel: each(counts.remote_of_kernel),
            owner_changes: each(counts.owner_changes),
            modelled_megacycles: all / pages / 1e6,
            instructions: each(counts.instructions),
            pages_per_modelled_s: pages * f64::from(counts.frequency_mhz) * 1e6 / most as f64,
            imbalance_percent: imbalance_percent(&nodes)?,
            imbalance_of_parts_percent: mean(&by_part),
            cpu_imbalance_percent: imbalance_percent(&cycles)?,
            local_percent: counts
                .given
                .and_then(|(all, local)| (all > 0).then(|| 100.0 * local as f64 / all as f64)),
        })
    }
}

/// Of windows that follow each other.
fn sum_by_node(windows: &[Vec<u64>]) -> Vec<u64> {
    let mut sums = Vec::new();
    for window in windows {
        sums.resize(sums.len().max(window.len()), 0);
        for (sum, cycles) in sums.iter_mut().zip(window) {
            *sum += cycles;
        }
    }
    sums
}

/// By how much the most is above the mean; `None` of nothing.
fn imbalance_percent(cycles: &[u64]) -> Option<f64> {
    let mean = mean(&cycles.iter().map(|nr| *nr as f64).collect::<Vec<_>>())?;
    let most = cycles.iter().copied().max()? as f64;
    (mean > 0.0).then(|| 100.0 * (most / mean - 1.0))
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

impl Results {
    pub fn of(runs: &[Run]) -> Self {
        let mut by_part = BTreeMap::<_, Vec<&Run>>::new();
        for run in runs {
            let nr_cpus = NR_NODES * run.task.cpus_per_node;
            by_part.entry((nr_cpus, run.task.connections)).or_default().push(run);
        }
        let part = |((nr_cpus, connections), runs): (&(u32, Connections), &Vec<&Run>)| Part {
            nr_cpus: *nr_cpus,
            connections: *connections,
            rows: Variant::ALL.into_iter().filter_map(|variant| Row::of(variant, runs)).collect(),
        };
        let parts: Vec<Part> = by_part.iter().map(part).collect();
        let wishes = parts.iter().flat_map(Part::wishes).collect();
        Self { parts, wishes }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            part.table(&mut out);
        }
        out += EXPLANATION;
        for wish in &self.wishes {
            wish.sentence(&mut out);
        }
        if self.wishes.is_empty() {
            let _ = writeln!(out, "What is wished was not counted on {WISH_CPUS} CPUs.");
        }
        out
    }
}

impl Part {
    fn row(&self, variant: Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == variant)
    }

    fn table(&self, out: &mut String) {
        let Self { nr_cpus, connections, rows } = self;
        let _ = writeln!(
            out,
            "{nr_cpus} CPUs of {NR_NODES} nodes, {}; of a page:\n",
            connections.name()
        );
        let _ = writeln!(
            out,
            "  {:<33}  {:>4}  {:>15} {:>6}  {:>15}  {:>13}  {:>15} {:>6}  {:>13} {:>7}  {:>11}  {:>9}",
            "server",
            "runs",
            "remote commands",
            "times",
            "owner changes",
            "M cycles",
            "pages/modelled s",
            "times",
            "nodes uneven",
            "parts",
            "CPUs uneven",
            "at home"
        );
        let stock = self.row(STOCK);
        rows.iter().for_each(|row| row.line(stock, out));
        self.kinds(out);
        self.functions(out);
        out.push('\n');
    }

    fn kinds(&self, out: &mut String) {
        let kinds = ["RD", "INST", "DTLB", "ITLB", "WR", "LL/SC"];
        let _ = write!(out, "\n  {:<33}", "remote commands by kind");
        kinds.iter().for_each(|kind| {
            let _ = write!(out, "  {kind:>9}");
        });
        let _ = writeln!(out, "  {:>13}", "the kernel's");
        for row in self.rows.iter().filter(|row| !row.figures.is_empty()) {
            let _ = write!(out, "  {:<33}", row.name);
            for kind in kinds {
                let of = |figures: &Figures| figures.remote_by_kind.get(kind).copied();
                let number = row.median(of).map_or_else(|| "–".to_owned(), |nr| format!("{nr:.0}"));
                let _ = write!(out, "  {number:>9}");
            }
            let kernels = row.median(|it| Some(it.remote_of_kernel)).unwrap_or(0.0);
            let _ = writeln!(out, "  {kernels:>13.0}");
        }
    }

    fn functions(&self, out: &mut String) {
        let told: Vec<_> = self.rows.iter().filter(|row| !row.taken_by_kernel.is_empty()).collect();
        if told.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n  lines that the kernel took from other CPUs, most first");
        for row in told {
            let told = row.taken_by_kernel.iter().take(NR_FUNCTIONS);
            let told: Vec<_> = told.map(|(name, taken)| format!("{name} {taken:.0}")).collect();
            let _ = writeln!(out, "  {:<33}  {}", row.name, told.join(", "));
        }
    }

    fn wishes(&self) -> Vec<Wish> {
        let (Some(stock), Some(ours)) = (self.row(STOCK), self.row(OURS)) else {
            return Vec::new();
        };
        if self.nr_cpus != WISH_CPUS {
            return Vec::new();
        }
        let ratio = |what, of: fn(&Figures) -> Option<f64>, over: &Row, under: &Row, bound| {
            let (above, below) = (over.ends(of)?, under.ends(of)?);
            let (value, under) = (over.median(of)?, under.median(of)?);
            let (least, most) = (above.0 / below.1, above.1 / below.0);
            let verdict = Verdict::of(least >= bound, most >= bound);
            let connections = self.connections;
            Some(Wish { connections, what, value: value / under, least, most, bound, verdict })
        };
        let pages = ratio(
            "times the pages per modelled second",
            |it| Some(it.pages_per_modelled_s),
            ours,
            stock,
            WISH_PAGES_MIN,
        );
        let fewer = ratio(
            "times fewer remote commands of a page",
            |it| Some(it.remote_commands),
            stock,
            ours,
            WISH_FEWER_MIN,
        );
        let uneven = |what, of: fn(&Figures) -> Option<f64>| {
            let (value, (least, most)) = (ours.median(of)?, ours.ends(of)?);
            let bound = WISH_IMBALANCE_PERCENT_MAX;
            let verdict = Verdict::of(most <= bound, least <= bound);
            let connections = self.connections;
            Some(Wish { connections, what, value, least, most, bound, verdict })
        };
        let whole = uneven("percent above the mean node, over all the time", |it| {
            Some(it.imbalance_percent)
        });
        let parts = uneven("percent above the mean node, in a quarter of the time", |it| {
            it.imbalance_of_parts_percent
        });
        [pages, fewer, whole, parts].into_iter().flatten().collect()
    }
}

impl Row {
    fn of(variant: Variant, runs: &[&Run]) -> Option<Self> {
        let runs: Vec<&Run> =
            runs.iter().copied().filter(|run| run.task.variant == variant).collect();
        if runs.is_empty() {
            return None;
        }
        let undisturbed = runs.iter().filter(|run| !run.task.tells_lines);
        let figures = undisturbed.filter_map(|run| Figures::of(run.counts()?)).collect();
        // By function the sum of all runs: in one alone a function may be missing.
        let (mut pages, mut taken) = (0, BTreeMap::<&str, u64>::new());
        for counts in runs.iter().filter_map(|run| run.counts()) {
            let Some(by_function) = &counts.taken_by_kernel else { continue };
            pages += counts.pages;
            for (function, nr) in by_function {
                *taken.entry(function).or_default() += nr;
            }
        }
        let mut taken_by_kernel: Vec<_> = taken
            .into_iter()
            .map(|(function, nr)| (function.to_owned(), nr as f64 / pages.max(1) as f64))
            .collect();
        taken_by_kernel.sort_by(|a, b| b.1.total_cmp(&a.1));
        let problems = runs.iter().filter_map(|run| run.problem()).map(str::to_owned).collect();
        let name = variant.name().to_owned();
        Some(Self { variant, name, figures, taken_by_kernel, problems })
    }

    fn numbers(&self, of: impl Fn(&Figures) -> Option<f64>) -> Vec<f64> {
        self.figures.iter().filter_map(of).collect()
    }

    fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        range::median(&self.numbers(of))
    }

    /// The least and the most.
    fn ends(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<(f64, f64)> {
        let numbers = self.numbers(of);
        let least = numbers.iter().copied().reduce(f64::min)?;
        Some((least, numbers.iter().copied().reduce(f64::max)?))
    }

    fn line(&self, stock: Option<&Self>, out: &mut String) {
        let nr_runs = self.figures.len();
        if nr_runs > 0 {
            let words = |of: fn(&Figures) -> Option<f64>, digits| {
                range::words(&self.numbers(of), digits).unwrap_or_else(|| "–".to_owned())
            };
            let percent = |of: fn(&Figures) -> Option<f64>| {
                self.median(of).map_or_else(|| "–".to_owned(), |nr| format!("{nr:.0} %"))
            };
            let times = |of: fn(&Figures) -> Option<f64>| {
                let first = stock.and_then(|stock| stock.median(of)).filter(|first| *first > 0.0);
                let times = self.median(of).zip(first).map(|(own, first)| own / first);
                times.map_or_else(|| "–".to_owned(), |times| format!("{times:.2}"))
            };
            let _ = writeln!(
                out,
                "  {:<33}  {nr_runs:>4}  {:>15} {:>6}  {:>15}  {:>13}  {:>15} {:>6}  {:>13} {:>7}  {:>11}  {:>9}",
                self.name,
                words(|it| Some(it.remote_commands), 0),
                times(|it| Some(it.remote_commands)),
                words(|it| Some(it.owner_changes), 0),
                words(|it| Some(it.modelled_megacycles), 1),
                words(|it| Some(it.pages_per_modelled_s), 0),
                times(|it| Some(it.pages_per_modelled_s)),
                percent(|it| Some(it.imbalance_percent)),
                percent(|it| it.imbalance_of_parts_percent),
                percent(|it| Some(it.cpu_imbalance_percent)),
                percent(|it| it.local_percent),
            );
        }
        for problem in &self.problems {
            let _ = writeln!(out, "  {:<33}  failed: {problem}", self.name);
        }
    }
}

impl Verdict {
    /// By any two runs, and by some.
    fn of(by_all: bool, by_some: bool) -> Self {
        match (by_all, by_some) {
            (true, _) => Self::Met,
            (false, true) => Self::NotTold,
            (false, false) => Self::Missed,
        }
    }
}

impl Wish {
    fn sentence(&self, out: &mut String) {
        let Self { connections, what, value, least, most, bound, verdict } = self;
        let verdict = match verdict {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotTold => "not told",
        };
        let _ = writeln!(
            out,
            "{}, {}: {value:.2} {what} ({least:.2} to {most:.2} by any runs; wished {bound}): {verdict}",
            OURS.name(),
            connections.name(),
        );
    }
}

const EXPLANATION: &str = "\
Counted: all processes of the servers and their database, the kernel in their name with them, while they were loaded; of several runs\n\
the least and the most, and times and percents of the middle one. Times: those of Debian's Apache with mod_php. What runs the copies\n\
(`quartier serve` itself) and what loads them is not counted.\n\
Remote commands: all that left their node. Owner changes: copies of lines that writes took from other CPUs. Lines that the kernel took:\n\
by functions, of the 64 lines alone that are taken most, in runs of their own. M cycles: modelled, of all CPUs. Pages per modelled\n\
second: by the CPU that has most to do; who waits takes no time.\n\
Nodes uneven: by so much the node that does most is above the mean, in modelled cycles, over the whole time; parts: in the mean of\n\
quarters of it; CPUs: over the whole time. At home: connections that went to the copy on the node that received them.\n\n";
