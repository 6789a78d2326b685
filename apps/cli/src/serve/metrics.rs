//! OpenMetrics 1.0 text. What is unknown is absent.

use std::fmt::Write;

use super::status::{CopyStatus, DomainStatus, RootStatus, Status, TreeStatus};

/// All of it.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {help}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{suffix}{labels} {value}");
        }
    };
    let copies = |value: &dyn Fn(&CopyStatus) -> Option<f64>| -> Vec<(String, f64)> {
        let sample = |copy: &CopyStatus| {
            let labels = format!("{{copy=\"{}\",node=\"{}\"}}", copy.copy, copy.node);
            Some((labels, value(copy)?))
        };
        status.copies.iter().filter_map(sample).collect()
    };
    let is_steered = f64::from(status.why_not_steered.is_none());
    family(
        "quartier_serve_steered",
        "gauge",
        "1 if connections are steered, 0 if the kernel's hashing chooses.",
        vec![(String::new(), is_steered)],
    );
    family(
        "quartier_serve_serving",
        "gauge",
        "1 if the copy gets connections.",
        copies(&|copy| Some(f64::from(copy.state == "serves"))),
    );
    family(
        "quartier_serve_restarts",
        "counter",
        "Times that the copy was started again because it had ended.",
        copies(&|copy| Some(copy.restarts as f64)),
    );
    family(
        "quartier_serve_load",
        "gauge",
        "The part of the time that its CPUs are busy, and what waits for them.",
        copies(&|copy| copy.load),
    );
    let of_tree = |value: &dyn Fn(&TreeStatus) -> Option<f64>| -> Vec<(String, f64)> {
        let value = status.tree.as_ref().and_then(value);
        value.map(|value| (String::new(), value)).into_iter().collect()
    };
    family(
        "quartier_serve_in_tree",
        "gauge",
        "1 if copies are counted in a decision tree that programs share, 0 if not.",
        of_tree(&|tree| Some(f64::from(tree.directory.is_some()))),
    );
    family(
        "quartier_serve_tree_usage_age_seconds",
        "gauge",
        "How long ago U of the decision tree was renewed.",
        of_tree(&|tree| tree.usage_age_ms.map(|age| age as f64 / 1000.0)),
    );
    family(
        "quartier_serve_takes_tree_usage",
        "gauge",
        "1 if U of the decision tree is renewed in time and steered by, 0 if how busy CPUs are is looked at.",
        of_tree(&|tree| Some(f64::from(tree.takes_usage))),
    );
    family(
        "quartier_serve_threads",
        "gauge",
        "T: threads of all programs that the decision tree counts on the CPUs that the copy may use.",
        copies(&|copy| copy.threads.map(f64::from)),
    );
    family(
        "quartier_serve_own_threads",
        "gauge",
        "Threads of the copy that are counted in the decision tree: those that it keeps active.",
        copies(&|copy| copy.own_threads.map(|threads| threads as f64)),
    );
    family(
        "quartier_serve_usage_ratio",
        "gauge",
        "U: how busy the CPUs that the copy may use are by the decision tree, as it was renewed last.",
        copies(&|copy| copy.usage_percent.map(|usage| usage / 100.0)),
    );
    family(
        "quartier_serve_threads_ran_seconds",
        "counter",
        "CPU time of all threads of the copy; of those that have ended, as of the last look.",
        copies(&|copy| copy.ran_s),
    );
    family(
        "quartier_serve_threads_waited_seconds",
        "counter",
        "Time that threads of the copy waited for a CPU; with what they ran, by the time that passes, as many are active.",
        copies(&|copy| copy.waited_s),
    );
    family(
        "quartier_serve_spilled_ratio",
        "gauge",
        "The part of its own node's (or cache's) connections that goes elsewhere because it is more loaded.",
        copies(&|copy| Some(copy.spilled_part)),
    );
    family(
        "quartier_serve_waiting_connections",
        "gauge",
        "Connections that wait to be accepted.",
        copies(&|copy| copy.waiting.map(f64::from)),
    );
    family(
        "quartier_serve_open_connections",
        "gauge",
        "Connections that are open.",
        copies(&|copy| copy.open.map(f64::from)),
    );
    family(
        "quartier_serve_moved_connections",
        "counter",
        "Connections that had waited at another copy.",
        copies(&|copy| copy.moved_here.map(|moved| moved as f64)),
    );
    let mut given = Vec::new();
    if status.why_not_steered.is_none() {
        for domain in &status.domains {
            for (copy, count) in domain.given_to.iter().enumerate() {
                let labels = format!(
                    "{{received=\"{}\",cpus=\"{}\",copy=\"{copy}\"}}",
                    domain.node, domain.cpus
                );
                given.push((labels, *count as f64));
            }
        }
    }
    family(
        "quartier_serve_connections",
        "counter",
        "New connections, by the node (or cache: its CPUs) that received them and the copy that they were given to.",
        given,
    );
    let mut given_away = Vec::new();
    for domain in &status.domains {
        for (because, count) in domain.given_away.iter().flatten() {
            let DomainStatus { node, cpus, .. } = domain;
            let because = because.word();
            let labels = format!("{{received=\"{node}\",cpus=\"{cpus}\",because=\"{because}\"}}");
            given_away.push((labels, *count as f64));
        }
    }
    family(
        "quartier_serve_given_away_connections",
        "counter",
        "New connections that went to a copy elsewhere, by the node (or cache: its CPUs) that received them and the reason.",
        given_away,
    );
    let local = status.local_share().map(|share| (String::new(), share));
    family(
        "quartier_serve_local_ratio",
        "gauge",
        "The part of new connections that is served where it was received.",
        local.into_iter().collect(),
    );
    let left = status.left_to_kernel.map(|count| (String::new(), count as f64));
    family(
        "quartier_serve_unsteered_connections",
        "counter",
        "Connections that were left to the kernel's hashing.",
        left.into_iter().collect(),
    );
    let of_root = |value: &dyn Fn(&RootStatus) -> f64| -> Vec<(String, f64)> {
        status.root.iter().map(|root| (String::new(), value(root))).collect()
    };
    family(
        "quartier_serve_root_bytes",
        "gauge",
        "Memory for each copy's own folder (--copy-root), in whole pages.",
        of_root(&|root| root.bytes as f64),
    );
    family(
        "quartier_serve_root_changes",
        "counter",
        "Times that all copies were given a new tree, the first time too.",
        of_root(&|root| root.number as f64),
    );
    family(
        "quartier_serve_root_in_step",
        "gauge",
        "1 if each copy has what the original has, 0 if what changed does not reach them.",
        of_root(&|root| f64::from(root.not_in_step.is_none())),
    );
    text + "# EOF\n"
}
