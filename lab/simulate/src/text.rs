//! The results as a table.

use std::fmt::{self, Write};

use crate::loads::Load;
use crate::measures::Measures;
use crate::report::{Report, Run, Simulated};

/// A column: its heading in two lines, its width, and what stands in it.
type Column = (&'static str, &'static str, usize, fn(&Report, &Run) -> String);

const COLUMNS: [Column; 10] = [
    ("period", "", 7, |_, run| run.period_ns.map_or("-".to_owned(), |period| period.to_string())),
    ("imbalance", "%", 10, |_, run| format!("{:.2}", run.measures.imbalance_percent)),
    ("CPU time", "% oracle", 9, cpu_time),
    ("deviation", "threads", 10, |_, run| format!("{:.3}", run.measures.threads_deviation)),
    ("max/mean", "threads", 9, |_, run| format!("{:.2}", run.measures.threads_max_over_mean)),
    ("needless", "%", 9, |_, run| format!("{:.2}", run.measures.shared_needlessly_percent)),
    ("thread", "SLIT", 7, |_, run| or_dash(run.measures.thread_distance)),
    ("fork", "SLIT", 7, |_, run| or_dash(run.measures.fork_distance)),
    ("short", "%", 6, |_, run| or_dash(run.measures.short_of_memory_percent)),
    ("reads", "mean/most", 14, reads),
];

const NAME_WIDTH: usize = 16;

const LEGEND: &str = "\
imbalance  CPU time that waits while a CPU elsewhere is unused, of what perfect balance would give
CPU time   that threads get, of what they get where the oracle chooses
deviation  standard deviation of threads per CPU; max/mean: the fullest CPU over the mean CPU
needless   decisions for a CPU with a thread while another CPU had none
thread     mean distance of a thread to its creator; fork: of a process to its parent (10: same node)
short      new programs on a node with no more free memory than the threshold
reads      clusters of the tree that a decision reads; for the others, CPUs
period     of U and M, which only the tree reads; T is exact for all
";

/// A block for each machine and load, and what the columns mean.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    write(&mut text, report).expect("a String takes everything");
    text
}

fn write(text: &mut String, report: &Report) -> fmt::Result {
    let loads = report.loads();
    for (machine, &load) in
        report.machines.iter().flat_map(|machine| loads.iter().map(move |load| (machine, load)))
    {
        let runs = report.of(&machine.name, load);
        let Some(first) = runs.first() else { continue };
        heading(text, machine, load, &first.measures)?;
        for run in runs {
            write!(text, "{:NAME_WIDTH$}", run.chooser)?;
            line(text, |&(_, _, _, cell)| cell(report, run))?;
        }
        text.push('\n');
    }
    let (events, seed) = (report.nr_events, report.seed);
    write!(text, "{events} events each, seed {seed}\n\n{LEGEND}")
}

fn heading(text: &mut String, machine: &Simulated, load: Load, measures: &Measures) -> fmt::Result {
    let Simulated { name, nr_nodes, nr_cpus, tree_height, .. } = machine;
    let Measures { measured_s, nr_decisions, demand_percent, .. } = measures;
    writeln!(
        text,
        "{name}, {load}: {nr_nodes} nodes, {nr_cpus} CPUs, tree of height {tree_height}; \
         {nr_decisions} decisions in {measured_s:.2} s, {demand_percent:.0} % of the CPUs demanded"
    )?;
    write!(text, "{:NAME_WIDTH$}", "chooser")?;
    line(text, |column| column.0.to_owned())?;
    write!(text, "{:NAME_WIDTH$}", "")?;
    line(text, |column| column.1.to_owned())
}

fn line(text: &mut String, cell: impl Fn(&Column) -> String) -> fmt::Result {
    for column in &COLUMNS {
        write!(text, " {:>width$}", cell(column), width = column.2)?;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(())
}

fn cpu_time(report: &Report, run: &Run) -> String {
    or_dash(report.oracle_of(run).map(|oracle| run.measures.cpu_time_percent_of(oracle)))
}

fn reads(_: &Report, run: &Run) -> String {
    format!("{:.1}/{}", run.measures.reads_mean, run.measures.reads_max)
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}
