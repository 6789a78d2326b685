//! The same seed gives the same result to the last byte, another seed another one.

use quartier_simulate::loads::Load;
use quartier_simulate::period::Period;
use quartier_simulate::report::{Plan, Report};
use quartier_simulate::{chart, text};

fn report(seed: u64) -> Report {
    let plan = Plan {
        machines: ["mesh:16", "uneven:16"].map(|name| name.parse().unwrap()).into(),
        loads: vec![Load::Steady, Load::Bursts],
        periods: vec![Period::from_ms(10), Period::from_ms(100)],
        nr_events: 1000,
        seed,
    };
    let report = plan.run(|_, _| ()).unwrap();
    assert_eq!(report.runs.len(), plan.nr_runs());
    report
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (one, other) = (report(1), report(1));
    let json = |report: &Report| serde_json::to_string(report).unwrap();
    assert_eq!(json(&one), json(&other));
    assert_eq!(text::table(&one), text::table(&other));
    assert_eq!(chart::draw(&one), chart::draw(&other));
}

#[test]
fn every_run_differs_with_the_seed() {
    for (one, other) in report(1).runs.iter().zip(&report(2).runs) {
        assert_ne!(one.measures, other.measures, "{}, {}, {}", one.machine, one.load, one.chooser);
    }
}

#[test]
fn the_table_has_a_line_for_each_run() {
    let report = report(1);
    let table = text::table(&report);
    for run in &report.runs {
        let imbalance = format!("{:.2}", run.measures.imbalance_percent);
        let is_its = |line: &str| line.starts_with(run.chooser.name()) && line.contains(&imbalance);
        assert!(table.lines().any(is_its), "{run:?}\n{table}");
    }
    assert!(table.ends_with('\n') && !table.ends_with("\n\n"));
    assert!(table.lines().all(|line| line.trim_end() == line && line.chars().count() <= 120));
}
