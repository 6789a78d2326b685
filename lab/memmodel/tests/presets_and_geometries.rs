//! Geometry files: the presets, what is refused and how, and files nobody meant.

mod common;

use common::*;
use proptest::prelude::*;
use quartier_memmodel::geometry::{
    Cache, Fill, Geometry, GeometryError, Preset, Side, TlbEntries, Topology, WalksEnter,
    WritePolicy,
};
use quartier_memmodel::{Layout, LayoutError, MemoryRange, System, SystemError};

#[test]
fn tsar_is_table_5_1() {
    let tsar = Preset::Tsar.geometry();
    let sets = |bytes: u64, ways: u32| bytes / u64::from(ways) / 64;
    assert_eq!((tsar.line_bytes, tsar.word_bytes), (64, 4));
    assert_eq!(
        (sets(tsar.l1i.bytes, tsar.l1i.ways), tsar.l1i.ways, tsar.l1i.bytes),
        (64, 4, 16 * KIB)
    );
    assert_eq!(
        (sets(tsar.l1d.bytes, tsar.l1d.ways), tsar.l1d.ways, tsar.l1d.bytes),
        (64, 4, 16 * KIB)
    );
    assert_eq!((tsar.itlb.entries, tsar.dtlb.entries, tsar.second_tlb), (64, 64, None));
    assert_eq!(sets(tsar.last_level.bytes, tsar.last_level.ways), 256);
    assert_eq!((tsar.last_level.ways, tsar.last_level.bytes), (16, 256 * KIB));
    assert_eq!(
        (tsar.l1d.write, tsar.last_level.side, tsar.l2),
        (WritePolicy::Through, Side::Home, None)
    );
    assert_eq!(tsar.topology, Topology::Mesh { columns: None });
}

#[test]
fn every_preset_makes_machines_of_any_size() {
    for preset in Preset::ALL {
        assert_eq!(preset.geometry().name, preset.name());
        for (nodes, cpus) in [(1, 1), (2, 3), (8, 2)] {
            let (system, mut cpus) = machine(preset.geometry().scaled_to(cpus as u32), nodes, cpus);
            cpus.iter_mut().for_each(|cpu| store(cpu, u64::from(nodes - 1) * NODE));
            assert_eq!(system.audit(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_share_of_a_socket_is_what_falls_to_each_cpu() {
    let whole = Preset::Server.geometry();
    let scaled = whole.clone().scaled_to(2);
    assert_eq!((scaled.last_level.bytes, scaled.last_level.cpus), (2 * 1920 * KIB, Some(2)));
    let ratios = [
        whole.cost.memory_bytes_per_cycle / scaled.cost.memory_bytes_per_cycle,
        whole.cost.link_bytes_per_cycle / scaled.cost.link_bytes_per_cycle,
        scaled.cost.last_level_service_cycles / whole.cost.last_level_service_cycles,
    ];
    ratios.iter().for_each(|ratio| assert!((ratio - 30.0).abs() < 1e-9, "{ratios:?}"));
    assert_eq!(Preset::Server.geometry().scaled_to(64), Preset::Server.geometry());
    assert_eq!(Preset::Tsar.geometry().scaled_to(1), Preset::Tsar.geometry());
}

#[test]
fn a_geometry_is_read_as_it_was_written() {
    for preset in Preset::ALL {
        let mut geometry = preset.geometry();
        assert_eq!(Geometry::parse(&geometry.to_toml()).unwrap(), geometry);
        geometry.topology = Topology::Matrix { hops: vec![vec![0, 1], vec![2, 0]] };
        assert_eq!(Geometry::parse(&geometry.to_toml()).unwrap(), geometry);
    }
}

#[test]
fn a_line_of_a_preset_states_its_source() {
    for preset in Preset::ALL {
        let values = preset.text().lines().filter(|line| line.contains(" = "));
        for line in values.filter(|line| !line.starts_with("name") && !line.starts_with("kind")) {
            assert!(line.contains("# "), "{}: {line}", preset.name());
        }
    }
}

/// The sentence with which a change of the small machine is refused.
fn refusal(change: impl FnOnce(&mut Geometry)) -> String {
    let mut geometry = small_requester();
    change(&mut geometry);
    let error = geometry.check().expect_err("the change makes it impossible");
    assert!(matches!(error, GeometryError::Impossible(_)));
    error.to_string()
}

#[test]
fn impossible_machines_are_refused_with_what_why_and_remedy() {
    type Change = fn(&mut Geometry);
    let cases: [(&str, Change); 22] = [
        ("line_bytes is 48", |g| g.line_bytes = 48),
        ("word_bytes is 0", |g| g.word_bytes = 0),
        ("l1i would have 12 sets", |g| g.l1i.bytes = 3 * KIB),
        ("l1d has 17 ways", |g| g.l1d.ways = 17),
        ("l1d has 0 bytes", |g| g.l1d.bytes = 0),
        ("l1d has 1000 bytes", |g| g.l1d.bytes = 1000),
        ("l1i has 1073741824 bytes, above", |g| g.l1i.bytes = 1 << 30),
        ("l2 has 1024 bytes, but it includes", |g| g.l2 = Some(Cache { bytes: KIB, ways: 4 })),
        ("l2 has 2 sets, fewer", |g| g.l2 = Some(Cache { bytes: 2 * KIB, ways: 16 })),
        ("last_level has 100 bytes", |g| g.last_level.bytes = 100),
        ("last_level.cpus is 0", |g| g.last_level.cpus = Some(0)),
        ("last_level.cpus is given", |g| {
            g.last_level.side = Side::Home;
            g.last_level.cpus = Some(2);
        }),
        ("last_level.fill is victim", |g| {
            g.last_level.side = Side::Home;
            g.last_level.fill = Fill::Victim;
        }),
        ("dtlb has 0 entries", |g| g.dtlb.entries = 0),
        ("itlb has 16 entries, which 3 ways", |g| g.itlb.ways = 3),
        ("dtlb.huge would have 3 sets", |g| {
            g.dtlb.huge = Some(TlbEntries { entries: 12, ways: 4 });
        }),
        ("l1d.write is through and the last level", |g| g.l1d.write = WritePolicy::Through),
        ("l1d.write is through and there is an l2", |g| {
            g.l1d.write = WritePolicy::Through;
            g.last_level.side = Side::Home;
            g.l2 = Some(Cache { bytes: 4 * KIB, ways: 4 });
        }),
        ("walks_enter is l2", |g| g.walks_enter = WalksEnter::L2),
        ("topology.hops[1][0] is 0", |g| {
            g.topology = Topology::Matrix { hops: vec![vec![0, 1], vec![0, 0]] };
        }),
        ("cost.last_level_cycles is 0", |g| g.cost.last_level_cycles = 0),
        ("cost.utilisation_max is 1", |g| g.cost.utilisation_max = 1.0),
    ];
    for (beginning, change) in cases {
        let sentence = refusal(change);
        assert!(sentence.starts_with(beginning), "{sentence}");
        assert_eq!(sentence.matches(". ").count(), 0, "one sentence: {sentence}");
        assert!(sentence.contains(": "), "no remedy: {sentence}");
    }
}

#[test]
fn machines_that_do_not_fit_are_refused() {
    let refuse = |geometry: Geometry, change: fn(&mut Layout)| {
        let mut layout = Layout::uniform(2, 2, NODE);
        change(&mut layout);
        match System::new(geometry, layout).expect_err("it does not fit") {
            SystemError::Layout(error) => error,
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        refuse(small_home(), |layout| layout.nr_nodes = 1025),
        LayoutError::Size { nodes: 1025, cpus: 4 }
    );
    assert_eq!(
        refuse(small_home(), |layout| layout.node_of_cpu[3] = 2),
        LayoutError::Node { what: "CPU 3".to_owned(), node: 2, nodes: 2 }
    );
    assert_eq!(
        refuse(small_home(), |layout| {
            layout.memory.push(MemoryRange { start: 5, end: 6, node: 1 });
        }),
        LayoutError::Range { start: 0, end: NODE }
    );
    let matrix = Topology::Matrix { hops: vec![vec![0]] };
    assert_eq!(
        refuse(Geometry { topology: matrix, ..small_home() }, |_| ()),
        LayoutError::Topology { topology: 1, nodes: 2 }
    );
}

#[test]
fn memory_of_a_node_may_be_two_ranges_with_a_hole() {
    let mut layout = Layout::uniform(2, 1, NODE);
    layout.memory[0].end = NODE / 2;
    layout.memory.push(MemoryRange { start: 4 * NODE, end: 5 * NODE, node: 0 });
    let system = System::new(small_home(), layout).unwrap();
    let mut cpu = system.cpu(0).unwrap();
    cpu.attribute(Some(quartier_memmodel::Owner::Program));
    for at in [0, NODE / 2, NODE - 64, NODE, 3 * NODE, 4 * NODE, 5 * NODE] {
        load(&mut cpu, at);
    }
    let counts = program(&system);
    assert_eq!(counts.totals().device_accesses, 4);
    let all = counts.all_commands();
    assert_eq!((all.local, all.remote), (2, 1));
}

#[test]
fn a_cpu_is_given_out_once() {
    let system = System::new(small_home(), Layout::uniform(1, 1, NODE)).unwrap();
    assert!(system.cpu(0).is_some());
    assert!(system.cpu(0).is_none(), "two threads cannot feed one CPU");
    assert!(system.cpu(1).is_none(), "there is no such CPU");
}

#[test]
fn the_largest_machine_works_and_is_bounded() {
    // 1024 nodes of 4 CPUs, each reading from the next node.
    let (system, mut cpus) = machine(Preset::Tsar.geometry(), 1024, 4);
    let per_cpu = cpus[0].nr_bytes();
    assert!(per_cpu < 128 * 1024, "{per_cpu} bytes per CPU");
    for (at, cpu) in cpus.iter_mut().enumerate() {
        (0..300).for_each(|line| load(cpu, ((at as u64 / 4 + 1) % 1024) * NODE + line * LINE));
        // And all of them one line.
        load(cpu, 0);
        store(cpu, 0);
    }
    let counts = program(&system);
    assert_eq!(counts.all_commands().remote, 4096 * 300 + 2 * 4092);
    assert!(system.nr_bytes() < 400 << 20, "{} bytes shared", system.nr_bytes());
}

/// A preset with one of its numbers, words or lines replaced.
fn mutated() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0".to_owned()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        (0_u32..40).prop_map(|bits| (1_u64 << bits).to_string()),
        (1_u32..64).prop_map(|n| n.to_string()),
        Just("\"back\"".to_owned()),
        Just("nan".to_owned()),
    ];
    (any::<bool>(), any::<prop::sample::Index>(), number).prop_map(|(is_tsar, at, value)| {
        let text = if is_tsar { Preset::Tsar.text() } else { Preset::Server.text() };
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let assignments: Vec<_> =
            (0..lines.len()).filter(|&at| lines[at].contains(" = ")).collect();
        let line = &mut lines[*at.get(&assignments)];
        let key = line.split(" = ").next().unwrap().to_owned();
        *line = format!("{key} = {value}");
        lines.join("\n")
    })
}

/// Uses a geometry that was not refused, where it is not too large for a test.
fn use_if_accepted(result: Result<Geometry, GeometryError>) {
    let Ok(geometry) = result else { return };
    if geometry.last_level.bytes > 1 << 28 {
        return;
    }
    let nodes = match &geometry.topology {
        Topology::Matrix { hops } => hops.len() as u16,
        _ => 3,
    };
    let (system, mut cpus) = machine(geometry, nodes, 2);
    for at in 0..200_u64 {
        let cpu = &mut cpus[at as usize % usize::from(nodes)];
        load(cpu, at * 4032 % NODE);
        store(cpu, at * 64);
    }
    assert_eq!(system.audit(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_changed_preset_is_refused_or_works(text in mutated()) {
        use_if_accepted(Geometry::parse(&text));
    }

    #[test]
    fn bytes_that_are_no_geometry_are_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
    ) {
        prop_assert!(Geometry::from_bytes(&bytes).is_err());
        let mut text = Preset::Tsar.text().as_bytes().to_vec();
        let at = at.index(text.len());
        text.splice(at..at, bytes);
        use_if_accepted(Geometry::from_bytes(&text));
    }
}
