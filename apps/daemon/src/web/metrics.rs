//! `/metrics`: OpenMetrics 1.0 text.

use std::fmt::Write;

use quartier_decide::reporter::local_part;
use quartier_decide::reporter::view::{Counts, NodeView, ProcessView, View};
use quartier_model::{Allocated, Bytes, Standing};

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str, value: u64) {
        self.family(name, "counter", unit, help);
        let _ = writeln!(self.0, "{name}_total {value}");
    }

    /// A gauge by node; absent where it is unknown.
    fn by_node(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        nodes: &[NodeView],
        value: impl Fn(&NodeView) -> Option<f64>,
    ) {
        self.family(name, "gauge", unit, help);
        for node in nodes {
            if let Some(value) = value(node) {
                let _ = writeln!(self.0, "{name}{{node=\"{}\"}} {value}", node.os_id.0);
            }
        }
    }
}

/// All of it.
pub fn text(view: &View) -> String {
    let mut text = Text(String::new());
    text.family("quartierd_build", "info", "", "Which quartierd this is.");
    let _ = writeln!(text.0, "quartierd_build_info{{version=\"{}\"}} 1", view.version);
    text.family(
        "quartierd_applies",
        "gauge",
        "",
        "1 if threads and pages are moved, 0 if that is only said.",
    );
    let _ = writeln!(text.0, "quartierd_applies {}", u8::from(view.applies));
    let Counts { looks, plans, steps, threads_held, moved, stayed, cpu } = view.counts;
    text.counter("quartierd_looks", "", "Looks at all tasks.", looks);
    text.counter("quartierd_plans", "", "Plans that were made.", plans);
    text.counter("quartierd_steps", "", "Steps of plans: processes to be moved.", steps);
    text.counter("quartierd_threads_held", "", "Threads that were put on a node.", threads_held);
    text.counter("quartierd_moved_bytes", "bytes", "Memory that was moved.", moved.0);
    text.counter("quartierd_stayed_bytes", "bytes", "Memory that could not be moved.", stayed.0);
    let name = "quartierd_cpu_seconds";
    let help = "CPU time that was taken, by what for.";
    text.family(name, "counter", "seconds", help);
    for (part, spent) in [("observe", cpu.observe), ("decide", cpu.decide), ("act", cpu.act)] {
        let _ = writeln!(text.0, "{name}_total{{part=\"{part}\"}} {}", spent.0 as f64 / 1e9);
    }
    nodes(&mut text, view);
    kernel(&mut text, view);
    processes(&mut text, view);
    text.0 += "# EOF\n";
    text.0
}

fn nodes(text: &mut Text, view: &View) {
    let all = &view.nodes;
    let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0 as f64);
    text.by_node("quartierd_node_cpus", "cpus", "CPUs that tasks may be placed on.", all, |node| {
        Some(f64::from(node.cpus))
    });
    text.by_node("quartierd_node_free_bytes", "bytes", "Free memory.", all, |node| {
        bytes(node.free)
    });
    let help = "Free memory in blocks of 2 MiB and more, to which huge pages can move as they are.";
    text.by_node("quartierd_node_free_huge_bytes", "bytes", help, all, |node| {
        bytes(node.free_huge)
    });
    text.by_node("quartierd_node_memory_bytes", "bytes", "Installed memory.", all, |node| {
        bytes(node.memory)
    });
    let help = "The part of the time that the CPUs were busy.";
    text.by_node("quartierd_node_busy_ratio", "ratio", help, all, |node| node.busy);
    text.by_node("quartierd_node_threads", "threads", "Threads that ran or waited.", all, |node| {
        Some(f64::from(node.seen.threads))
    });
    text.by_node(
        "quartierd_node_running_cpus",
        "cpus",
        "CPUs' worth of running threads.",
        all,
        |node| Some(node.seen.running_cpus),
    );
    text.by_node(
        "quartierd_node_waiting_cpus",
        "cpus",
        "CPUs' worth of threads waiting for a CPU.",
        all,
        |node| Some(node.seen.waiting_cpus),
    );
    text.by_node(
        "quartierd_node_pressure_ratio",
        "ratio",
        "Waiting for its memory, by CPUs per node.",
        all,
        |node| Some(node.seen.pressure),
    );
    let name = "quartierd_flow_cpus";
    text.family(
        name,
        "gauge",
        "cpus",
        "CPUs' worth that run on a node with their memory on another.",
    );
    for (from, row) in all.iter().zip(&view.flows_cpus) {
        for (to, cpus) in all.iter().zip(row) {
            let _ = writeln!(
                text.0,
                "{name}{{node=\"{}\",memory_node=\"{}\"}} {cpus}",
                from.os_id.0, to.os_id.0
            );
        }
    }
}

/// What the kernel counts, in parts of a whole: its own counters are for others to tell.
fn kernel(text: &mut Text, view: &View) {
    let help = "The part of what was allocated there that its own CPUs did.";
    text.by_node("quartierd_node_allocated_local_ratio", "ratio", help, &view.nodes, |node| {
        let Allocated { local_pages, other_pages, .. } = node.allocated?;
        let all = local_pages + other_pages;
        (all > 0).then(|| local_pages as f64 / all as f64)
    });
    let seen = view.kernel.unwrap_or_default();
    let name = "quartierd_stalled_ratio";
    let help = "The part of the time that some task waited for lack of it (PSI).";
    text.family(name, "gauge", "ratio", help);
    let waited = [
        ("cpu", seen.waited_for_cpu),
        ("memory", seen.waited_for_memory),
        ("io", seen.waited_for_io),
    ];
    for (resource, waited) in waited {
        if let Some(waited) = waited.filter(|_| seen.over.0 > 0) {
            let part = waited.0 as f64 / seen.over.0 as f64;
            let _ = writeln!(text.0, "{name}{{resource=\"{resource}\"}} {part}");
        }
    }
    let name = "quartierd_hint_faults_local_ratio";
    let help = "The part of NUMA balancing's hint faults that found their page local.";
    text.family(name, "gauge", "ratio", help);
    if let (Some(local), Some(all @ 1..)) = (seen.hint_faults_local, seen.hint_faults) {
        let _ = writeln!(text.0, "{name} {}", local as f64 / all as f64);
    }
}

/// Sums only: names of processes would be without number.
fn processes(text: &mut Text, view: &View) {
    text.family(
        "quartierd_processes",
        "gauge",
        "processes",
        "Processes that ran or waited, by whether they may be placed.",
    );
    let may = |process: &&ProcessView| process.standing == Standing::Free;
    let free = view.processes.iter().filter(may).count();
    let _ = writeln!(text.0, "quartierd_processes{{standing=\"free\"}} {free}");
    let _ = writeln!(
        text.0,
        "quartierd_processes{{standing=\"left-alone\"}} {}",
        view.processes.len() - free
    );
    text.family(
        "quartierd_local_ratio",
        "gauge",
        "ratio",
        "The part of running beside its memory, as far as it is known.",
    );
    if let Some(local) = local_part(&view.flows_cpus) {
        let _ = writeln!(text.0, "quartierd_local_ratio {local}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_decide::reporter::NodeOverview;
    use quartier_model::{KernelSeen, Nanos, NodeOsId};

    #[test]
    fn every_sample_has_a_family_with_help_and_what_is_unknown_is_absent() {
        let node = NodeView {
            os_id: NodeOsId(3),
            cpus: 2,
            memory: None,
            free: Some(Bytes(4096)),
            free_huge: None,
            busy: None,
            allocated: Some(Allocated { local_pages: 1, other_pages: 3, missed_pages: 0 }),
            seen: NodeOverview::default(),
        };
        let view = View {
            format: 1,
            version: "0".to_owned(),
            unix_ms: 0,
            at: Nanos(0),
            window: Nanos(0),
            applies: true,
            counting: Default::default(),
            working_sets: Default::default(),
            settings: None,
            nodes: vec![node],
            kernel: Some(KernelSeen {
                over: Nanos(4),
                waited_for_io: Some(Nanos(1)),
                ..KernelSeen::default()
            }),
            distances: Vec::new(),
            flows_cpus: vec![vec![0.0]],
            history: Vec::new(),
            processes: Vec::new(),
            events: Vec::new(),
            counts: Counts::default(),
        };
        let text = text(&view);
        assert!(text.ends_with("\n# EOF\n") && text.contains("_free_bytes{node=\"3\"} 4096\n"));
        assert!(text.contains("_allocated_local_ratio{node=\"3\"} 0.25\n"));
        assert!(text.contains("_stalled_ratio{resource=\"io\"} 0.25\n"));
        let unknown = [
            "resource=\"cpu\"",
            "hint_faults_local_ratio ",
            "memory_bytes{",
            "busy_ratio{",
            "quartierd_local_ratio ",
        ];
        assert!(unknown.iter().all(|sample| {
            !text.lines().any(|line| line.contains(sample) && !line.starts_with('#'))
        }));
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, _] => family = name,
                // A unit is the end of its family's name.
                ["#", "UNIT", name, unit] => {
                    assert!(name == family && name.ends_with(unit), "{line}")
                }
                ["#", "HELP", name, help] => {
                    assert!(name == family && help.ends_with('.'), "{line}")
                }
                _ => assert!(line.starts_with(family), "{line}"),
            }
        }
    }
}
