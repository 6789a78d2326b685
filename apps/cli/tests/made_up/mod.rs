//! A machine of four nodes with two CPUs, and processes on it.
#![allow(dead_code)] // Each test file uses a part.

use quartier_decide::reporter::log::{LOG_FORMAT, Line};
use quartier_decide::reporter::told::Told;
use quartier_decide::reporter::view::{Explanation, View};
use quartier_decide::reporter::{Reporter, Settings, State};
use quartier_model::{
    Bytes, CpuId, KernelSeen, Machine, Nanos, NodeId, NodeSeen, Outcome, PerNode, Plan,
    ProcessSeen, Refusal, Snapshot, Standing, SyntheticSpec, TaskId, ThreadSeen, Trigger,
};

pub const SECOND: u64 = 1_000_000_000;

pub fn machine(nodes: usize) -> Machine {
    SyntheticSpec::uniform(nodes, 2).machine().unwrap()
}

pub fn id(id: u32) -> TaskId {
    TaskId { id, start_ticks: 1 }
}

pub fn thread(tid: u32, node: u32) -> ThreadSeen {
    ThreadSeen {
        id: id(tid),
        ran: Nanos(SECOND / 2),
        waited: Nanos(SECOND / 4),
        cpu: Some(CpuId(2 * node)),
        found_on: PerNode::from([(NodeId(node), 5)]),
        held_on: None,
        standing: None,
        touched: None,
        llc_misses: None,
        cycles: None,
        remote_reads: None,
        faults: None,
        instructions: None,
    }
}

/// One of 64 MiB with two threads, an hour old; its memory is on the one node, its threads run on the other.
pub fn process(pid: u32, name: &str, memory_on: u32, runs_on: u32) -> ProcessSeen {
    ProcessSeen {
        id: id(pid),
        name: name.to_owned(),
        age: Nanos(3600 * SECOND),
        standing: Standing::Free,
        counts_itself: false,
        pin: None,
        cpus: None,
        mems: None,
        resident: Some(Bytes::from_mib(64)),
        working_set: None,
        accessed_per_mille: None,
        users: None,
        sample: Some(PerNode::from([(NodeId(memory_on), 100)])),
        sampled_at: Some(Nanos(9 * SECOND)),
        threads: vec![thread(pid, runs_on), thread(pid + 1, runs_on)],
    }
}

/// One that is far from its memory, one that somebody placed, and one of which little is known.
pub fn processes() -> Vec<ProcessSeen> {
    let far = process(100, "far", 1, 0);
    let placed = ProcessSeen { standing: Standing::AffinitySet, ..process(200, "placed", 2, 2) };
    let (sample, sampled_at, resident) = (None, None, None);
    let unknown =
        ProcessSeen { sample, sampled_at, resident, ..process(300, "\u{1b}[2Jstrange\n", 0, 3) };
    vec![far, placed, unknown]
}

/// Ten seconds after the beginning.
pub fn snapshot(machine: &Machine, processes: Vec<ProcessSeen>) -> Snapshot {
    let free = Some(Bytes::from_mib(1024));
    let mut nodes = vec![NodeSeen { free, ..NodeSeen::default() }; machine.nodes().len()];
    nodes.last_mut().unwrap().free = None;
    Snapshot {
        at: Nanos(10 * SECOND),
        window: Nanos(SECOND),
        cpus: machine.cpus().iter().map(|cpu| cpu.os_id.0).collect(),
        cpus_busy: vec![Some(Nanos(SECOND / 4)), Some(Nanos(SECOND / 2)), None],
        nodes,
        kernel: Some(KernelSeen {
            over: Nanos(SECOND),
            waited_for_cpu: Some(Nanos(SECOND / 8)),
            hint_faults: Some(340),
            hint_faults_local: Some(170),
            ..KernelSeen::default()
        }),
        processes,
    }
}

pub fn begin(machine: &Machine) -> Line {
    Line::Begin {
        format: LOG_FORMAT,
        unix_seconds: 1_700_000_000,
        machine: machine.clone(),
        settings: Settings::default(),
        state: State::default(),
    }
}

pub fn outcome(pid: u32, refusal: Option<Refusal>) -> Outcome {
    Outcome {
        at: Nanos(10 * SECOND),
        process: id(pid),
        threads_held: 2,
        threads_left: 0,
        moved: Bytes::from_mib(60),
        stayed: Bytes::from_mib(4),
        refusal,
        by_cpuset: None,
    }
}

pub fn plan(reporter: &mut Reporter, snapshot: &Snapshot) -> Plan {
    reporter.plan(vec![Trigger::Changed], snapshot)
}

/// What is shown when a plan was made and what it says was done for the first process, and the snapshot.
pub fn view_of(nodes: usize, processes: Vec<ProcessSeen>) -> (View, Snapshot) {
    let machine = machine(nodes);
    let snapshot = snapshot(&machine, processes);
    let mut reporter = Reporter::new(machine, Settings::default(), State::default());
    let mut told = Told::keeping(512);
    told.plan(&snapshot, &plan(&mut reporter, &snapshot));
    told.outcome(&outcome(100, None));
    let view = View::of(&reporter, &told, true, &snapshot);
    (View { version: "1.2.3".to_owned(), ..view }, snapshot)
}

pub fn view() -> View {
    view_of(4, processes()).0
}

pub fn explanation(pid: u32) -> Explanation {
    let (view, snapshot) = view_of(4, processes());
    Explanation::of(&view, &snapshot, pid)
}
