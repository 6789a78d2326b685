//! Whether every CPU's timer interrupts it. In QEMU 10.0 with a thread for each CPU, on a busy machine, one may lose the end of
//! a timer interrupt while the guest boots (seen under Linux 6.1: vector 236 in service in the local APIC of a CPU that is halted,
//! and its timer still periodic). It never has another, nor any device's: all goes on but what waits for a timer there, without a
//! word and without end. A guest that has such a CPU is of no use, and another is booted.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cpus;
use crate::error::{Context, Error, Result};

const INTERRUPTS: &str = "/proc/interrupts";
/// A kernel interrupts a CPU that is not idle a hundred times a second at least.
const LOOK: Duration = Duration::from_millis(5);
/// The machine that emulates the guest may have other things to do.
const WAIT: Duration = Duration::from_secs(5);

/// Keeps each CPU busy until its timer has interrupted it.
///
/// # Errors
/// When one is not interrupted.
pub fn check() -> Result<()> {
    cpus::on_each(check_one)
}

fn check_one(cpu: usize) -> Result<()> {
    if is_interrupted(|| interrupts(cpu), WAIT)? {
        return Ok(());
    }
    Err(Error::refused(format!("the guest's CPU {cpu} has lost its timer, as one may in QEMU")))
}

/// Whether another interrupt is counted within that time, while this thread runs. A kernel that counts none says nothing.
fn is_interrupted(count: impl Fn() -> Result<Option<u64>>, wait: Duration) -> Result<bool> {
    let Some(before) = count()? else { return Ok(true) };
    let began = Instant::now();
    while count()? == Some(before) {
        if began.elapsed() > wait {
            return Ok(false);
        }
        let look = Instant::now();
        while look.elapsed() < LOOK {
            std::hint::spin_loop();
        }
    }
    Ok(true)
}

fn interrupts(cpu: usize) -> Result<Option<u64>> {
    let path = Path::new(INTERRUPTS);
    Ok(count(&fs::read_to_string(path).path("read", path)?, cpu))
}

/// How many timer interrupts a CPU has had, as the kernel's table has it.
fn count(table: &str, cpu: usize) -> Option<u64> {
    let name = format!("CPU{cpu}");
    let at = table.lines().next()?.split_whitespace().position(|column| column == name)?;
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix("LOC:"))?;
    row.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;

    #[test]
    fn the_table_is_read_by_the_names_of_its_columns() {
        let table = "           CPU0       CPU2       CPU10\n  0:  7  0  0  IO-APIC  2-edge  timer\n\
                     LOC:  120  30  4000   Local timer interrupts\n";
        assert_eq!(
            [0, 1, 2, 10].map(|cpu| count(table, cpu)),
            [Some(120), None, Some(30), Some(4000)]
        );
        assert_eq!(count("CPU0\nLOC:\n", 0), None);
        assert_eq!(count("", 0), None);
    }

    #[test]
    fn a_cpu_that_is_not_interrupted_is_waited_for_and_then_given_up() {
        let left = std::cell::Cell::new(3_u64);
        let late = || Ok(Some(left.replace(left.get().saturating_sub(1)).min(1)));
        assert!(is_interrupted(late, WAIT).unwrap());
        assert!(!is_interrupted(|| Ok(Some(7)), 2 * LOOK).unwrap());
        assert!(is_interrupted(|| Ok(None), WAIT).unwrap());
    }

    #[test]
    fn the_cpus_of_this_machine_are_interrupted() {
        let before = sched_getaffinity(None).unwrap();
        check().unwrap();
        let after = sched_getaffinity(None).unwrap();
        assert!((0..CpuSet::MAX_CPU).all(|cpu| before.is_set(cpu) == after.is_set(cpu)));
    }
}
