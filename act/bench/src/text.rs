//! The result as text.

use std::fmt::{self, Display, Formatter};

use crate::report::{Line, Report};
use crate::startup::Costs;
use crate::stats::Spread;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} MiB, {} rounds, {} memory node(s); ns per 4 KiB page, median [min..max]\n",
            self.mib, self.rounds, self.nodes
        )?;
        writeln!(
            f,
            "{:<28}{:>3}{:>6}{:>24}{:>21}{:>6}{:>18}{:>7}  system calls",
            "", "thr", "mark", "mark + touch", "x first touch", "CPU", "x first touch", "sleeps"
        )?;
        self.lines.iter().try_for_each(|line| write_line(f, line))?;
        let one = |pick: fn(&Line) -> Spread| {
            self.lines.iter().find(|line| line.name == "first touch").map(pick)
        };
        if let (Some(cold), Some(again)) = (one(|line| line.cold_ns), one(|line| line.again_ns)) {
            writeln!(
                f,
                "\nBeside a first touch: the same in memory not warmed up {}, a touch of a page \
                 that is there {} ns",
                spread(cold, 0),
                spread(again, 1)
            )?;
        }
        writeln!(f, "\nTargets")?;
        for target in &self.targets {
            let verdict = if target.met { "met" } else { "MISSED" };
            let ratio = spread(target.ratio, 2);
            writeln!(
                f,
                "  {:<40} {} thread(s) {ratio:>20}  {verdict}",
                target.name, target.threads
            )?;
        }
        self.costs.as_ref().map_or(Ok(()), |costs| write_costs(f, costs))
    }
}

fn write_line(f: &mut Formatter<'_>, line: &Line) -> fmt::Result {
    let access = match line.kernel_access {
        Some(true) => "work",
        Some(false) => "EFAULT",
        None => "",
    };
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let text = format!(
        "{:<28}{:>3}{:>6.0}{:>24}{:>21}{:>6.0}{:>18}{:>7}  {}",
        line.name,
        line.threads,
        line.mark_ns.median,
        spread(line.sum_ns, 0),
        spread(line.to_first_touch, 2),
        line.cpu_ns.median,
        spread(line.cpu_to_first_touch, 2),
        number(line.helper_sleeps, 3),
        access
    );
    writeln!(f, "{}", text.trim_end())
}

fn write_costs(f: &mut Formatter<'_>, costs: &Costs) -> fmt::Result {
    writeln!(f, "\nWhole runs of a small program, ms: alone, under `quartier run`, extra")?;
    for start in &costs.starts {
        let ms = |spread: Spread| Spread {
            min: spread.min / 1e6,
            median: spread.median / 1e6,
            max: spread.max / 1e6,
        };
        writeln!(
            f,
            "  {:<36}{:>20}{:>20}{:>20}",
            start.name,
            spread(ms(start.alone_ns), 2),
            spread(ms(start.under_ns), 2),
            spread(ms(start.extra_ns), 2)
        )?;
    }
    writeln!(f, "\nThreads, ns: first pthread_create, a later one, create and join")?;
    for threads in &costs.threads {
        writeln!(
            f,
            "  {:<20}{:>30}{:>24}{:>26}",
            threads.name,
            spread(threads.first_create_ns, 0),
            spread(threads.create_ns, 0),
            spread(threads.create_join_ns, 0)
        )?;
    }
    match costs.idle_cpu_ns_per_s {
        Some(ns) => writeln!(
            f,
            "\nIdle marked process with its helper: {:.0} us of CPU time per second",
            ns / 1e3
        ),
        None => writeln!(f, "\nIdle marked process: unknown (no helper was found)"),
    }
}

fn spread(spread: Spread, digits: usize) -> String {
    let Spread { min, median, max } = spread;
    format!("{median:.digits$} [{min:.digits$}..{max:.digits$}]")
}
