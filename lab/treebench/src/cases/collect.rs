//! What it costs to ask this host for U and M: apart from the refresh, which takes them as given.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use anyhow::Context;
use quartier_model::NodeOsId;
use quartier_observe::Host;

use crate::cases::{Bench, Case, Outcome, Part};
use crate::shape::Shape;

/// Room for the counters of thousands of CPUs.
const BUFFER_BYTES: usize = 4 << 20;

pub(super) fn cases() -> Vec<Case> {
    let made_up = Case::new(Part::Collect, "U: parse 4096 CPUs, made up; one CPU", |bench| {
        let text = stat_of(Shape::TARGET.nr_cpus());
        let nr_cpus = busy_times(&text).count();
        Ok(bench.clock.mean(bench.effort, nr_cpus, |_| busy_times(black_box(&text)).count()))
    });
    vec![
        file("U: read /proc/stat, one CPU", "/proc/stat", |_| 0, |text| busy_times(text).count()),
        file(
            "U: read and parse /proc/stat, one CPU",
            "/proc/stat",
            |text| busy_times(text).map(|(busy, _)| busy).sum(),
            |text| busy_times(text).count(),
        ),
        made_up,
        Case {
            part: Part::Collect,
            name: "M: node0/meminfo, one node".to_owned(),
            compared_to: None,
            point: None,
            run: Box::new(free_memory),
        },
        file(
            "M: read and parse /proc/buddyinfo, one node",
            "/proc/buddyinfo",
            |text| free_blocks(text).map(|(_, blocks)| blocks).sum(),
            nr_nodes,
        ),
    ]
}

/// Reads a file of /proc that stays open, and does something with it. `nr_parts` says of how many CPUs
/// or nodes it tells.
fn file(
    name: &str,
    path: &'static str,
    parse: impl Fn(&str) -> u64 + 'static,
    nr_parts: impl Fn(&str) -> usize + 'static,
) -> Case {
    let run = move |bench: &Bench| {
        let Ok(file) = File::open(path) else {
            return Ok(Outcome::Unknown(format!("{path} is not there; is /proc mounted?")));
        };
        let mut buffer = vec![0; BUFFER_BYTES];
        let read = |buffer: &mut Vec<u8>| file.read_at(buffer, 0);
        let len = read(&mut buffer).with_context(|| format!("cannot read {path}"))?;
        let nr_parts = nr_parts(std::str::from_utf8(&buffer[..len])?).max(1);
        Ok(Outcome::Measured(bench.clock.mean(bench.effort, nr_parts, |_| {
            let len = read(&mut buffer).unwrap_or(0);
            parse(std::str::from_utf8(&buffer[..len]).unwrap_or(""))
        })))
    };
    let run = Box::new(run);
    Case { part: Part::Collect, name: name.to_owned(), compared_to: None, point: None, run }
}

fn free_memory(bench: &Bench) -> anyhow::Result<Outcome> {
    let (host, node) = (Host::live(), NodeOsId(0));
    if host.free_memory(node)?.is_none() {
        let why = "/sys has no nodes here: a kernel without CONFIG_NUMA, or /sys is not mounted";
        return Ok(Outcome::Unknown(why.to_owned()));
    }
    let sample = bench.clock.mean(bench.effort, 1, |_| host.free_memory(node).ok());
    Ok(Outcome::Measured(sample))
}

/// Busy and whole time of each CPU, in clock ticks: all but the fourth and fifth number is busy.
fn busy_times(stat: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    // The first line is the sum; the CPUs follow it, and nothing after them matters.
    stat.lines().skip(1).take_while(is_cpu).map(|line| {
        let (mut idle, mut sum) = (0, 0);
        // Guests' time is in that of users already.
        for (at, field) in line.split_ascii_whitespace().skip(1).take(8).enumerate() {
            let ticks: u64 = field.parse().unwrap_or(0);
            sum += ticks;
            idle += if at == 3 || at == 4 { ticks } else { 0 };
        }
        (sum - idle, sum)
    })
}

/// Node and free blocks of all orders of each zone.
fn free_blocks(buddyinfo: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    buddyinfo.lines().filter_map(|line| {
        let (node, rest) = line.strip_prefix("Node ")?.split_once(',')?;
        let (_, rest) = rest.trim_start().strip_prefix("zone")?.trim_start().split_once(' ')?;
        let blocks = rest.split_ascii_whitespace().filter_map(|field| field.parse::<u64>().ok());
        Some((node.trim().parse().ok()?, blocks.sum()))
    })
}

fn nr_nodes(buddyinfo: &str) -> usize {
    let mut nodes: Vec<_> = free_blocks(buddyinfo).map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len()
}

/// A file as a kernel with so many CPUs has it.
fn stat_of(nr_cpus: u32) -> String {
    let line = |cpu: u32| {
        let user = 1_000_000 + 7 * u64::from(cpu);
        format!("cpu{cpu} {user} 1200 345678 98765432 4321 0 8765 0 0 0\n")
    };
    let cpus: String = (0..nr_cpus).map(line).collect();
    format!("cpu  1 2 3 4 5 6 7 8 0 0\n{cpus}intr 12345 0 1 2\nctxt 1\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_busy_when_it_is_neither_idle_nor_waiting() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 200 4 5 6 7 8\nintr 5\ncpu9 1\n";
        assert_eq!(busy_times(text).collect::<Vec<_>>(), [(21, 321)]);
        assert_eq!(busy_times("").count(), 0);
        assert_eq!(busy_times(&stat_of(4096)).count(), 4096);
    }

    #[test]
    fn blocks_are_those_of_each_zone() {
        let text = "Node 0, zone      DMA      1      0      2 \n\
                    Node 0, zone   Normal      5      6      7 \n\
                    Node 1, zone   Normal      1      1      1 \n";
        assert_eq!(free_blocks(text).collect::<Vec<_>>(), [(0, 3), (0, 18), (1, 3)]);
        assert_eq!(nr_nodes(text), 2);
        assert_eq!(free_blocks("nonsense\nNode x, zone\n").count(), 0);
    }
}
