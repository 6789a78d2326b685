//! The cost model: latencies on paper, queues against theory.

mod common;

use common::*;
use quartier_memmodel::geometry::Geometry;
use quartier_memmodel::{Counts, Cpu, Mode};

fn cycles(counts: &Counts, cpu: usize) -> u64 {
    counts.cpus[cpu].modelled_cycles
}

#[test]
fn cycles_are_instructions_and_the_latency_of_what_serves() {
    let (system, mut cpus) = machine(small_home(), 4, 1);
    cpus[0].retire(1000);
    assert_eq!(cycles(&program(&system), 0), 1000);
    // Memory of the own node: 20 + 100. Again from the last level: 20.
    load(&mut cpus[0], 0);
    assert_eq!(cycles(&program(&system), 0), 1120);
    (1..=4).for_each(|at| load(&mut cpus[0], at * 256));
    load(&mut cpus[0], 0);
    assert_eq!(cycles(&program(&system), 0), 1120 + 4 * 120 + 20);
    // Node 3 is two hops away: 20 + 100 + 2 × 10.
    load(&mut cpus[1], 2 * NODE);
    assert_eq!(cycles(&program(&system), 1), 140);
}

#[test]
fn reads_in_flight_share_a_latency_and_hits_cost_nothing() {
    let mut geometry = small_requester();
    geometry.cost.reads_in_flight = 4;
    let (system, mut cpus) = machine(geometry, 1, 1);
    (0..8).for_each(|line| load(&mut cpus[0], line * LINE));
    (0..8).for_each(|line| load(&mut cpus[0], line * LINE));
    assert_eq!(cycles(&program(&system), 0), 8 * 120 / 4);
}

#[test]
fn a_phase_lasts_as_long_as_its_slowest_cpu_and_speedup_is_the_ratio() {
    let run = |instructions: [u32; 2]| {
        let (system, mut cpus) = machine(small_home(), 1, 2);
        cpus.iter_mut().zip(instructions).for_each(|(cpu, nr)| cpu.retire(nr));
        program(&system)
    };
    let (one, two) = (run([4000, 0]), run([2000, 1000]));
    assert_eq!((one.modelled_phase_cycles(), two.modelled_phase_cycles()), (4000, 2000));
    assert_eq!(two.modelled_speedup(&one), Some(2.0));
    assert_eq!(two.modelled_speedup(&Counts::default()), None);
}

/// Each CPU reads a new line of node 0 after `gap` instructions, over and over, in turns.
fn hammer(geometry: Geometry, nr_cpus: u16, gap: u32, rounds: u64) -> (Counts, f64) {
    let (system, mut cpus) = machine(geometry, nr_cpus, 1);
    let one = |cpu: &mut Cpu, at: u64| {
        cpu.retire(gap);
        load(cpu, at * LINE % NODE);
    };
    let mut at = 0;
    for _ in 0..rounds {
        for cpu in &mut cpus {
            // A few at a time, as a host thread would.
            (0..10).for_each(|_| {
                one(cpu, at);
                at += 1;
            });
        }
    }
    let snapshot = system.snapshot();
    (snapshot.program, snapshot.modelled_peak_utilisation.memory)
}

/// One CPU's memory busy for `busy` of each `busy + idle` cycles, and nothing else that costs.
fn memory_only(service: f64) -> Geometry {
    let mut geometry = small_home();
    geometry.cost.hop_cycles = 0;
    geometry.cost.last_level_service_cycles = 0.001;
    geometry.cost.link_bytes_per_cycle = 1e6;
    geometry.cost.memory_bytes_per_cycle = 64.0 / service;
    geometry.cost.window_cycles = 100_000;
    geometry
}

#[test]
fn a_half_used_memory_makes_its_readers_wait_as_an_md1_queue() {
    // Four CPUs that ask for 40 cycles each (after 20 + 100 latency + 200 gap, and the wait).
    let (counts, _) = hammer(memory_only(40.0), 4, 200, 20_000);
    let reads = counts.totals().memory_reads as f64 / 4.0;
    let per_read = cycles(&counts, 0) as f64 / reads;
    let wait = per_read - 320.0;
    let utilisation = 4.0 * 40.0 / per_read;
    let by_others = utilisation * 3.0 / 4.0;
    let theory = by_others * 40.0 / (2.0 * (1.0 - by_others));
    assert!((wait - theory).abs() / theory < 0.05, "{wait} for {theory} at {utilisation}");
}

#[test]
fn a_cpu_alone_waits_for_nobody() {
    let (counts, _) = hammer(memory_only(40.0), 1, 0, 20_000);
    assert_eq!(cycles(&counts, 0), counts.totals().memory_reads * 120);
}

#[test]
fn a_saturated_memory_serves_what_it_can_and_no_more() {
    for nr_cpus in [8, 16] {
        let (counts, peak) = hammer(memory_only(40.0), nr_cpus, 0, 4_000);
        let least = counts.totals().memory_reads as f64 * 40.0;
        let ratio = counts.modelled_phase_cycles() as f64 / least;
        // 1 / 0.95, and the first windows, in which nobody knew.
        assert!((0.97..1.12).contains(&ratio), "{nr_cpus} CPUs: {ratio} of the least time");
        assert!(peak > 1.5, "{peak}");
    }
}

#[test]
fn spreading_memory_over_the_nodes_is_faster_than_one_node() {
    let spread = |stride: u64| {
        let (system, mut cpus) = machine(memory_only(40.0), 8, 1);
        for at in 0..20_000_u64 {
            for (node, cpu) in cpus.iter_mut().enumerate() {
                load(cpu, node as u64 * stride + at * LINE);
            }
        }
        program(&system)
    };
    let (one, all) = (spread(MIB * 8), spread(NODE));
    let speedup = all.modelled_speedup(&one).unwrap();
    assert!((1.8..3.0).contains(&speedup), "{speedup}");
}

#[test]
fn busy_links_make_their_users_wait_and_nobody_else() {
    let mut geometry = memory_only(0.001);
    geometry.cost.link_bytes_per_cycle = 0.5;
    // Four nodes in a row: 3 reads from 0 over all links, 2 from 3 against the stream of data.
    geometry.topology = quartier_memmodel::geometry::Topology::Mesh { columns: Some(4) };
    let (system, mut cpus) = machine(geometry, 4, 1);
    for at in 0..40_000_u64 {
        load(&mut cpus[3], at * LINE % NODE);
        load(&mut cpus[1], at * LINE % NODE);
        load(&mut cpus[2], 2 * NODE + at * LINE % NODE);
    }
    let counts = program(&system);
    assert_eq!(cycles(&counts, 2), 40_000 * 120, "no link is used");
    assert!(cycles(&counts, 3) > 40_000 * 128, "{}", cycles(&counts, 3));
}

#[test]
fn what_is_not_counted_still_takes_modelled_time_of_nobody() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    cpus[0].attribute(None);
    cpus[0].fetch_block(0, 64, 100, Mode::User, &mut flat);
    assert_eq!(program(&system).modelled_phase_cycles(), 0);
    assert_eq!(system.snapshot().rest.modelled_phase_cycles(), 0);
}
