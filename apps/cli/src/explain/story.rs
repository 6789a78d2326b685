//! The story of one process: who it is, where it is, its factors, what was decided and what came of it.

use std::fmt::Write;

use anstyle::Style;
use quartier_decide::reporter::view::{Absent, Explanation, ProcessView, What};
use quartier_model::{Intensity, Nanos, NodeOsId, ProcessSeen, Standing, ThreadSeen};
use quartier_observe::printable;

use super::Origin;
use super::words::{self, UNKNOWN, Words, percent, time};
use crate::topo::view::count;

/// So many threads and events make a screen; of more only the busiest, and the latest.
const THREADS_MAX: usize = 8;
const EVENTS_MAX: usize = 8;
const BOLD: Style = Style::new().bold();

/// Lines under headings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story(pub Vec<Line>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Heading(String),
    Text(String),
}

impl Story {
    /// Of what was asked for by this number.
    pub fn of(explanation: &Explanation, asked: u32, origin: &Origin) -> Self {
        let words = Words {
            nodes: &explanation.nodes,
            at: explanation.at,
            settings: explanation.settings.as_ref(),
        };
        let mut story = Self::default();
        match (&explanation.process, &explanation.seen) {
            (Some(process), Some(seen)) => {
                story.tell_who(explanation, process, asked, origin);
                story.tell_where(words, process, seen);
                story.tell_factors(process);
                story.tell_counted(seen);
                story.tell_decided(words, process, seen);
                story.tell_events(words, explanation, Some(process));
                story.tell_threads(words, explanation.window, seen);
                story.tell_unknown(process, seen);
            }
            _ => {
                story.text(why_absent(explanation, asked, origin));
                story.tell_events(words, explanation, None);
            }
        }
        story
    }

    /// One sentence.
    pub fn sentence(sentence: String) -> Self {
        Self(vec![Line::Text(sentence)])
    }

    /// For a terminal.
    pub fn styled(&self) -> String {
        let mut text = String::new();
        for line in &self.0 {
            let _ = match line {
                Line::Heading(heading) => writeln!(text, "{BOLD}{heading}{BOLD:#}"),
                Line::Text(line) => writeln!(text, "{line}"),
            };
        }
        text
    }

    fn heading(&mut self, heading: impl Into<String>) {
        if !self.0.is_empty() {
            self.text("");
        }
        self.0.push(Line::Heading(heading.into()));
    }

    fn text(&mut self, text: impl Into<String>) {
        self.0.push(Line::Text(text.into()));
    }

    fn item(&mut self, name: &str, text: &str) {
        self.text(format!("  {name:<11} {text}"));
    }

    fn tell_who(&mut self, all: &Explanation, process: &ProcessView, asked: u32, origin: &Origin) {
        let pid = process.placed.factors.process.id;
        let thread = match asked == pid {
            true => String::new(),
            false => format!(", of which {asked} is a thread"),
        };
        self.heading(format!("{}, process {pid}{thread}", printable(&process.name)));
        let memory = process.resident.map_or_else(
            || "how much memory of its own it has is unknown".to_owned(),
            |resident| format!("{resident} of its own memory"),
        );
        let used = process.working_set.map(|used| format!(", of which it used {used} lately"));
        let memory = memory + &used.unwrap_or_default();
        self.text(format!(
            "  began {} {}; {} ran or waited, {} held; {memory}",
            time(process.age),
            if *origin == Origin::Live { "ago" } else { "before" },
            count(process.threads as usize, "thread"),
            process.held,
        ));
        let window =
            all.window.map_or_else(String::new, |window| format!(" over {}", time(window)));
        let applies = match all.applies {
            true => "moves threads and pages",
            false => "only says what it would do",
        };
        self.text(match origin {
            Origin::Live => format!("  as quartierd sees it now,{window}; it {applies}"),
            Origin::Log(_) => format!("  {}", origin.text()),
        });
    }

    fn tell_where(&mut self, words: Words<'_>, process: &ProcessView, seen: &ProcessSeen) {
        self.heading("Where it runs, and where its memory lies");
        let placed = &process.placed;
        let ran_on = words.shares(&placed.ran_on);
        self.item("threads", if ran_on.is_empty() { UNKNOWN } else { &ran_on });
        let sampled = seen.sample.as_ref().map_or(0, |sample| sample.values().sum::<u64>());
        let when = seen.sampled_at.map(|at| format!(", asked {}", words.ago(at)));
        let of = format!(" (of {sampled} pages{})", when.unwrap_or_default());
        let memory = match &placed.pages_on {
            Some(pages) => words.shares(pages) + &of,
            None if seen.sample.is_some() => {
                format!("{UNKNOWN}: a sample of {sampled} pages says too little")
            }
            None => format!("{UNKNOWN}: not asked yet, or it may not be asked"),
        };
        self.item("memory", &memory);
        let local = placed.local.map_or_else(
            || UNKNOWN.to_owned(),
            |local| format!("{} of its running is beside its memory", percent(local)),
        );
        self.item("local", &local);
        if let Some(pin) = seen.pin {
            self.item("pinned", &format!("to {}, by the configuration", words.node(pin)));
        }
        if let Some(cpus) = &seen.cpus {
            self.item("cpuset", &format!("CPUs {cpus}"));
        }
        if let Some(mems) = &seen.mems {
            let nodes: Vec<_> = mems.iter().map(|node| words.node(*node)).collect();
            self.item("cpuset", &format!("memory of {}", nodes.join(", ")));
        }
    }

    fn tell_factors(&mut self, process: &ProcessView) {
        self.heading("Factors");
        let factors = &process.placed.factors;
        let runs = format!(
            "{:.2} CPUs' worth, and waits for a CPU for {:.2}",
            factors.running, factors.waiting
        );
        self.item("runs", &runs);
        let with = |value: Option<f64>, meaning: &str| match value {
            Some(value) => format!("{value:.2}: {meaning}"),
            None => UNKNOWN.to_owned(),
        };
        self.item("remoteness", &with(factors.remoteness, "0 is all local, 1 all at distance 20"));
        let intensity = words::intensity(process).map_or_else(
            || format!("{UNKNOWN}: neither its misses nor the size of its memory are known"),
            |intensity| format!("{:.2}: {}", intensity.value(), words::source(intensity)),
        );
        self.item("intensity", &intensity);
        let meaning = "what others cost its memory; 0 is nothing";
        self.item("contention", &with(factors.contention, meaning));
        let speedup = match process.decided.as_ref().map(|decided| decided.speedup) {
            Some(Some(speedup)) => {
                format!("{speedup:.2} times as fast at the best place, as was decided last")
            }
            Some(None) => "not asked: it was not to go anywhere else".to_owned(),
            None => format!("{UNKNOWN}: nothing was decided yet"),
        };
        self.item("speed-up", &speedup);
    }

    /// What the CPUs' counters say, of those of its threads that were counted.
    fn tell_counted(&mut self, seen: &ProcessSeen) {
        let sum = |of: fn(&ThreadSeen) -> Option<u64>| {
            let both = |thread: &ThreadSeen| Some((of(thread)?, thread.instructions?));
            let all: Vec<_> = seen.threads.iter().filter_map(both).collect();
            let sums = all.iter().fold((0, 0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
            (sums.0 > 0 || sums.1 > 0).then_some((sums.0 as f64, sums.1 as f64))
        };
        let mut parts = Vec::new();
        if let Some((cycles, instructions)) = sum(|thread| thread.cycles) {
            parts.push(format!("{:.2} instructions a cycle", instructions / cycles.max(1.0)));
        }
        let per_thousand = [
            ("misses of the last level", sum(|thread| thread.llc_misses)),
            ("reads of other nodes' memory", sum(|thread| thread.remote_reads)),
        ];
        for (name, counted) in per_thousand {
            if let Some((counted, instructions)) = counted {
                let rate = 1000.0 * counted / instructions.max(1.0);
                parts.push(format!("{rate:.2} {name} in 1,000 instructions"));
            }
        }
        if !parts.is_empty() {
            self.item("counted", &parts.join(", "));
        }
        let faults = seen.threads.iter().filter_map(|thread| thread.faults);
        let rate = |count: u64, over: Nanos| 1e9 * count as f64 / over.0.max(1) as f64;
        let rates = faults.map(|seen| (rate(seen.minor, seen.over), rate(seen.major, seen.over)));
        let sum = |sum: (f64, f64), one: (f64, f64)| (sum.0 + one.0, sum.1 + one.1);
        if let Some((minor, major)) = rates.reduce(sum) {
            self.item(
                "page faults",
                &format!("{minor:.0} a second, and {major:.0} that had to read"),
            );
        }
        if let Some(per_mille) = seen.accessed_per_mille {
            let part = percent(f64::from(per_mille) / 1000.0);
            self.item(
                "accesses",
                &format!("{part} of the checks of what it used found it accessed within 20 ms"),
            );
        }
    }

    fn tell_decided(&mut self, words: Words<'_>, process: &ProcessView, seen: &ProcessSeen) {
        self.heading("What was decided last");
        let Some(decided) = &process.decided else {
            return self.text("  nothing yet: no plan was made since it ran");
        };
        self.item(&words.ago(decided.at), &words.decided(process));
        if let What::Step(step) = &decided.what {
            let (gain, cost) = (step.gain, step.cost);
            self.item(
                "",
                &format!("gains {gain:.2} CPUs' worth of work; its pages cost {cost} once"),
            );
        }
        let left = |thread: &&ThreadSeen| seen.standing_of(thread) != Standing::Free;
        let nr_left = seen.threads.iter().filter(left).count();
        if seen.standing == Standing::Free && nr_left > 0 {
            let text = format!("{} of its own will not be held", count(nr_left, "thread"));
            self.item("", &text);
        }
    }

    fn tell_events(&mut self, words: Words<'_>, all: &Explanation, process: Option<&ProcessView>) {
        let events = &all.events;
        if events.is_empty() {
            return;
        }
        self.heading("Plans, and what came of them");
        let more = events.len().saturating_sub(EVENTS_MAX);
        if more > 0 {
            self.text(format!("  {more} before these"));
        }
        let is_it = |id| process.is_none_or(|process| process.placed.factors.process == id);
        for event in &events[more..] {
            let who = if is_it(event.process) { "" } else { "an earlier process: " };
            let what = words.happened(&event.what);
            self.item(&words.ago(event.at), &format!("{who}{what}"));
        }
    }

    fn tell_threads(&mut self, words: Words<'_>, window: Option<Nanos>, seen: &ProcessSeen) {
        let mut threads: Vec<_> = seen.threads.iter().collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.ran + thread.waited), thread.id));
        self.heading("Threads, the busiest first");
        for thread in threads.iter().take(THREADS_MAX) {
            self.text(format!("  {}", thread_text(words, window, seen, thread)));
        }
        let more = threads.len().saturating_sub(THREADS_MAX);
        if more > 0 {
            self.text(format!("  and {more} more, which --json has"));
        }
    }

    fn tell_unknown(&mut self, process: &ProcessView, seen: &ProcessSeen) {
        let threads = || seen.threads.iter();
        let unknown = [
            (process.placed.pages_on.is_none(), "where its memory lies"),
            (seen.resident.is_none(), "how much memory of its own it has"),
            (seen.working_set.is_none(), "how much of it it used lately"),
            (threads().any(|thread| thread.touched.is_none()), "which thread uses which pages"),
            (
                matches!(process.placed.factors.intensity, Intensity::Assumed(_)),
                "how often it misses the last-level cache",
            ),
            (
                threads().any(|thread| thread.instructions.is_none()),
                "how many instructions it gets done",
            ),
            (
                threads().any(|thread| thread.cpu.is_none() && thread.found_on.is_empty()),
                "where some of its threads run",
            ),
        ];
        let unknown: Vec<_> = unknown.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
        if !unknown.is_empty() {
            self.heading("Unknown");
            self.text(format!("  {}", unknown.join("; ")));
        }
    }
}

fn thread_text(
    words: Words<'_>,
    window: Option<Nanos>,
    seen: &ProcessSeen,
    thread: &ThreadSeen,
) -> String {
    let part = |time: Nanos| match window {
        Some(Nanos(window)) if window > 0 => percent(time.0 as f64 / window as f64),
        _ => UNKNOWN.to_owned(),
    };
    let found: u64 = thread.found_on.values().sum();
    let on = |(node, count): (_, &u64)| (node, *count as f64 / found as f64);
    let found_on: Vec<_> = thread.found_on.iter().map(|(node, nr)| on((*node, nr))).collect();
    let found_on = match found_on.is_empty() {
        true => "where it ran is unknown".to_owned(),
        false => words.shares(&found_on),
    };
    let held =
        thread.held_on.map_or_else(String::new, |node| format!("; held on {}", words.node(node)));
    let standing = seen.standing_of(thread);
    let left = standing.reason().map_or_else(String::new, |why| format!("; left alone: {why}"));
    let (ran, waited) = (part(thread.ran), part(thread.waited));
    format!("{:<8} ran {ran:>5}, waited {waited:>5}; {found_on}{held}{left}", thread.id.id)
}

/// One sentence.
fn why_absent(explanation: &Explanation, asked: u32, origin: &Origin) -> String {
    if let Origin::Log(_) = origin {
        return format!(
            "{} has no process or thread {asked}: it did not run or wait whenever something was decided",
            origin.text()
        );
    }
    match &explanation.absent {
        Some(Absent::Gone) => {
            format!("there is no process and no thread {asked}: it has ended, or never began")
        }
        Some(Absent::KernelThread { name }) => format!(
            "{asked} is {}, a thread of the kernel, and quartierd never looks at those",
            printable(name)
        ),
        Some(Absent::Asleep { pid, name }) => format!(
            "{}, process {pid}, sleeps: none of its threads ran or waited for a CPU while quartierd looked last, so \
             there is nothing to place{}",
            printable(name),
            held(&explanation.held_on)
        ),
        Some(Absent::New { pid, name }) => format!(
            "{}, process {pid}, has just begun, and quartierd has not looked at it yet: ask again in a second",
            printable(name)
        ),
        None => format!("quartierd does not see {asked}: it did not run, or there is none"),
    }
}

/// Of one that sleeps.
fn held(on: &[NodeOsId]) -> String {
    let nodes: Vec<_> = on.iter().map(|node| node.0.to_string()).collect();
    match nodes.len() {
        0 => String::new(),
        1 => format!("; it is held on node {}", nodes[0]),
        _ => format!("; its threads are held on nodes {}", nodes.join(", ")),
    }
}
