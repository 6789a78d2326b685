//! The result as text.

use std::fmt::{self, Display, Formatter};

use crate::cases::Part;
use crate::report::{Line, Report};
use crate::stats::Spread;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds; middle [smallest..largest] of the rounds. `mean` is of {} operations timed \
             together, the\npercentiles are of operations timed one by one, less the {:.0} ns that \
             reading the clock takes.",
            self.rounds, self.batch, self.clock_cost_ns
        )?;
        let others = self.lines.iter().filter_map(|line| Some(line.other_percent?.min));
        if let Some(least) = others.min_by(f64::total_cmp) {
            writeln!(f, "What runs beside a case ran {least:.0} % of the time, or more.")?;
        }
        for part in Part::ALL {
            self.write_part(f, part)?;
        }
        if self.targets.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nTargets")?;
        for target in &self.targets {
            let verdict = if target.met { "met" } else { "MISSED" };
            let Spread { min, median, max } = target.measured;
            let digits = if target.unit == "%" { 4 } else { 0 };
            let measured = format!("{median:.digits$} [{min:.digits$}..{max:.digits$}]");
            let (name, unit) = (&target.name, &target.unit);
            let bound = format!("<= {} {unit}", target.bound);
            writeln!(f, "  {name:<56}{bound:>11}{measured:>26} {unit:<3} {verdict}")?;
        }
        Ok(())
    }
}

impl Report {
    fn write_part(&self, f: &mut Formatter<'_>, part: Part) -> fmt::Result {
        let lines: Vec<_> = self.lines.iter().filter(|line| line.part == part).collect();
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{}", part.heading())?;
        let has_each = lines.iter().any(|line| line.each.is_some());
        let each = match has_each {
            true => format!("{:>24}{:>10}{:>26}{:>10}", "p50", "p90", "p99", "max"),
            false => String::new(),
        };
        writeln!(f, "{:<54}{:>26}{each}{:>22}", "", "mean", "ratio")?;
        lines.into_iter().try_for_each(|line| write_line(f, line, has_each))
    }
}

fn write_line(f: &mut Formatter<'_>, line: &Line, has_each: bool) -> fmt::Result {
    let Some(mean) = line.mean_ns else {
        let why = line.unknown.as_deref().unwrap_or("not measured");
        return writeln!(f, "  {:<52}  unknown: {why}", line.name);
    };
    let each = match &line.each {
        Some(each) => format!(
            "{:>24}{:>10}{:>26}{:>10}",
            times(each.p50_ns),
            time(each.p90_ns.median),
            times(each.p99_ns),
            time(each.max_ns.max)
        ),
        None if has_each => format!("{:70}", ""),
        None => String::new(),
    };
    let ratio = line.ratio.map(|ratio| {
        let Spread { min, median, max } = ratio;
        let digits = if median < 10.0 { 2 } else { 0 };
        format!("{median:.digits$} [{min:.digits$}..{max:.digits$}]")
    });
    let text =
        format!("  {:<52}{:>26}{each}{:>22}", line.name, times(mean), ratio.unwrap_or_default());
    writeln!(f, "{}", text.trim_end())
}

/// A divisor, its unit, and the digits that are worth printing.
fn unit(ns: f64) -> (f64, &'static str, usize) {
    match ns {
        ns if ns >= 1e6 => (1e6, "ms", 1),
        ns if ns >= 1e4 => (1e3, "us", 1),
        ns if ns >= 100.0 => (1.0, "ns", 0),
        _ => (1.0, "ns", 1),
    }
}

fn time(ns: f64) -> String {
    let (divisor, unit, digits) = unit(ns);
    format!("{:.digits$} {unit}", ns / divisor)
}

fn times(spread: Spread) -> String {
    let (divisor, unit, digits) = unit(spread.median);
    let Spread { min, median, max } = spread.map(|ns| ns / divisor);
    format!("{median:.digits$} [{min:.digits$}..{max:.digits$}] {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_of_its_middle() {
        assert_eq!(time(99.94), "99.9 ns");
        assert_eq!(time(12_340.0), "12.3 us");
        let spread = Spread { min: 900_000.0, median: 2_000_000.0, max: 3_000_000.0 };
        assert_eq!(times(spread), "2.0 [0.9..3.0] ms");
    }
}
