//! Whatever a state says: it is read or refused, and what was read can be decided on and told.
//!
//! When a case fails, proptest prints it and its seed.

use proptest::prelude::*;
use quartier_decide::dqdt::Tree;
use quartier_model::{Machine, MachineParts, SyntheticSpec};

use super::options::{Decision, RequestOptions};
use super::report::Report;
use super::scene::{Lists, Lookup, Scene};
use super::state::{Given, StateFile};
use super::text;
use crate::strategy::StrategyOption;
use crate::topo::names::Names;

const DECISIONS: [Decision; 6] = [
    Decision::Thread,
    Decision::Fork,
    Decision::Exec,
    Decision::Balance,
    Decision::Memory,
    Decision::Group,
];

/// Nodes without CPUs, two CPUs per core, a CPU that is offline and one of no node.
fn machine() -> Machine {
    let spec = "4,0,3,6,1,2".parse::<SyntheticSpec>().unwrap();
    let mut parts = MachineParts::from(spec.machine().unwrap());
    for cpu in &mut parts.cpus {
        cpu.core = cpu.core.map(|core| core / 2);
    }
    parts.cpus[5].online = false;
    parts.cpus[9].node = None;
    Machine::try_from(parts).unwrap()
}

fn options(machine: &Machine, decision: Decision, numbers: [u32; 4]) -> RequestOptions {
    let [from, mask, amount, kind] = numbers;
    let is = |other| decision == other;
    let online = machine.cpus().iter().filter(|cpu| cpu.online).map(|cpu| cpu.os_id.0);
    let online: Vec<_> = online.collect();
    let from_cpu = online[from as usize % online.len()];
    let allowed = machine.cpus().iter().map(|cpu| cpu.os_id.0).filter(|id| mask >> id & 1 == 1);
    let nodes = machine.nodes().iter().map(|node| node.os_id.0).filter(|id| mask >> id & 1 == 1);
    let strategies = [StrategyOption::Thesis, StrategyOption::Packed, StrategyOption::Spread];
    RequestOptions {
        from_cpu: (is(Decision::Balance) || !is(Decision::Exec) && kind % 3 > 0)
            .then_some(from_cpu),
        allowed: (!is(Decision::Memory) && kind % 2 == 0).then(|| allowed.collect()),
        strategy: is(Decision::Thread).then_some(strategies[kind as usize % 3]),
        level_max: (is(Decision::Thread) && kind % 5 == 0).then_some(amount as u8 % 4),
        seed: is(Decision::Exec).then_some(u64::from(from)),
        free_pages_min: (is(Decision::Exec) && kind % 2 == 1).then_some(u64::from(amount)),
        ready: is(Decision::Balance).then_some(amount % 3),
        pages: is(Decision::Memory).then_some(u64::from(amount)),
        order: (is(Decision::Memory) && kind % 2 == 1).then_some(amount as u8 % 33),
        nodes: (is(Decision::Memory) && kind % 4 > 1).then(|| nodes.collect()),
        threads: is(Decision::Group).then_some(1 + amount % 40),
    }
}

/// Decides everything on a state, if it can be read, and tells it. Says whether it was read.
fn replay(state: &StateFile, numbers: [u32; 4]) -> bool {
    let machine = machine();
    let tree = Tree::build(&machine);
    let lookup = Lookup { machine: &machine, tree: &tree };
    let Ok(state) = state.resolve(&lookup) else { return false };
    let lists = Lists::new(&tree, &state).unwrap();
    let names = Names { machine: &machine, tree: &tree };
    let scene = Scene { names, estimates: lists.estimates(&tree).unwrap() };
    for decision in DECISIONS {
        let options = options(&machine, decision, numbers);
        options.check(decision).unwrap();
        let report = Report::new(decision, &options, &scene, &lookup, &state).unwrap();
        assert_eq!(report.outcome.is_none(), report.reason.is_some());
        if let (Some(outcome), Some(max)) = (&report.outcome, report.visits_max) {
            assert!(outcome.visited <= max);
        }
        assert!(!text::print(&report).is_empty());
        let json = serde_json::to_string(&report).unwrap();
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
    true
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..4, 0u64..20, Just(1 << 32), any::<u64>()]
}

prop_compose! {
    /// A state as the format wants it, with numbers that often mean nothing.
    fn state_text()(
        load in prop::collection::vec((0u32..19, 0u32..3, any_number(), 0u32..140), 0..9),
        memory in prop::collection::vec((0u32..7, any_number(), prop::collection::vec(0u32..5, 0..12)), 0..5),
    ) -> String {
        let load: Vec<_> = load.into_iter().map(|(cpu, more, threads, percent)| {
            let usage = if percent > 100 { "null".to_owned() } else { percent.to_string() };
            let last = cpu + more;
            format!(r#"{{"cpus":"{cpu}-{last}","threads":{threads},"usage_percent":{usage}}}"#)
        }).collect();
        let memory: Vec<_> = memory.into_iter().map(|(node, pages, blocks)| {
            format!(r#"{{"nodes":"{node}","free_pages":{pages},"free_blocks":{blocks:?}}}"#)
        }).collect();
        format!(r#"{{"format":1,"load":[{}],"memory":[{}]}}"#, load.join(","), memory.join(","))
    }
}

prop_compose! {
    /// A state that can be read.
    fn good_state()(
        load in prop::collection::vec((0u32..6, prop::option::of(0u32..=100)), 16),
        free in prop::collection::vec(prop::option::of(0u64..2000), 6),
    ) -> StateFile {
        let online = load.iter().enumerate().filter(|(cpu, _)| *cpu != 5);
        let given = |cpu: usize, value: u32| format!("{cpu}={value}");
        let threads = online.clone().map(|(cpu, (threads, _))| given(cpu, *threads));
        let threads: Vec<Given<u32>> = threads.map(|text| text.parse().unwrap()).collect();
        let usage = online.filter_map(|(cpu, (_, percent))| Some(given(cpu, (*percent)?)));
        let usage: Vec<Given<f64>> = usage.map(|text| text.parse().unwrap()).collect();
        let free = free.iter().enumerate();
        let free = free.filter_map(|(node, pages)| Some(format!("{node}={}", (*pages)?)));
        let free: Vec<Given<u64>> = free.map(|text| text.parse().unwrap()).collect();
        StateFile::from_options(&threads, &usage, &free)
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}", bytes in any::<Vec<u8>>()) {
        let _ = StateFile::from_json(&text);
        let _ = StateFile::from_json(&String::from_utf8_lossy(&bytes));
        let _ = text.parse::<Given<u32>>();
        let _ = text.parse::<Given<f64>>();
    }

    #[test]
    fn no_text_that_is_nearly_a_state_makes_anything_panic(
        text in state_text(),
        at in any::<prop::sample::Index>(),
        put in "[\\[\\]{}\":,0-9a-z\u{0}-]{0,2}",
        is_changed in any::<bool>(),
        numbers in any::<[u32; 4]>(),
    ) {
        let mut text = text;
        if is_changed {
            let at = at.index(text.len());
            text.replace_range(at..=at, &put);
        }
        match StateFile::from_json(&text) {
            Ok(state) => _ = replay(&state, numbers),
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }

    #[test]
    fn every_good_state_is_decided_on_and_told(
        state in good_state(),
        numbers in any::<[u32; 4]>(),
    ) {
        prop_assert!(replay(&state, numbers));
    }
}
