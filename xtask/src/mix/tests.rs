//! The table and the drawing, of made-up runs.

use super::*;

fn said(policy: &str, local: &[u64], moved_mib: u64) -> String {
    let looks = local.iter().enumerate().map(|(at, percent)| {
        format!("{{\"look\": {{\"seconds\": {at}.0, \"local_bytes\": {percent}, \"resident_bytes\": 100}}}}\n")
    });
    let end = format!(
        "{{\"end\": {{\"policy\": \"{policy}\", \"least_bytes\": {}, \"moved_bytes\": {}, \"daemon_cpu_seconds\": 0.5, \
         \"work\": {{\"vm\": 200, \"cpu\": 10}}}}}}\n",
        100 << 20,
        moved_mib << 20,
    );
    looks.chain([end]).collect()
}

#[test]
fn when_the_goal_was_reached_is_the_first_look_with_as_much() {
    let run = Run::of(&said("numad", &[10, 89, 90, 70], 50)).unwrap();
    assert_eq!(run.reached(), Some(2.0));
    assert!((run.last().unwrap() - 0.7).abs() < 1e-9);
    assert_eq!(Run::of(&said("numad", &[10, 89], 50)).unwrap().reached(), None);
}

#[test]
fn what_is_cut_short_is_no_run() {
    let whole = said("nothing", &[10], 0);
    let (looks, end) = whole.split_at(whole.find("{\"end").unwrap());
    assert!(Run::of(looks).is_err());
    assert!(Run::of(end).is_err());
    assert!(Run::of(&whole.replace("moved_bytes", "moved")).is_err());
}

#[test]
fn never_is_no_time_and_absent_no_zero() {
    let said = [
        said("nothing", &[0, 20], 0),
        said("quartierd", &[0, 95], 110),
        said("quartierd", &[0, 10, 99], 130),
        said("numad", &[0, 95], 100),
        said("numad", &[0, 50], 100),
    ];
    let mut runs = Run::all(&said.concat()).unwrap();
    assert!(Run::all(&said.concat().replacen("\"end\"", "\"ended\"", 1)).is_err());
    runs.iter_mut()
        .filter(|run| run.policy() == Policy::Nothing)
        .for_each(|run| run.end.least_bytes = 0);
    let table = table::of(&runs);
    let line = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("nothing"), "nothing 1 never 20 % 0 – 0.5 cpu 1.00×, vm 1.00×");
    assert_eq!(line("numad"), "numad 2 1; 1 never 50–95 % 100 1.00 0.5 cpu 1.00×, vm 1.00×");
    assert_eq!(
        line("quartierd"),
        "quartierd 2 1–2 95–99 % 110–130 1.10–1.30 0.5 cpu 0.75×, vm 0.75×"
    );
    let drawing = drawing::of(&runs, "4x2").unwrap();
    assert!(drawing.contains("quartierd") && !drawing.contains("balancing"), "{drawing}");
}
