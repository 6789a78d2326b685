//! The page of a made-up report.

use quartier_decide::verdict::{Cost, Point, Profile, Run, Study};
use quartier_model::Frame;

use super::super::report::Report;
use super::super::sweep::Swept;

fn run(ran_s: f64, idle_s: f64) -> Run {
    let cost = |stack: Vec<u32>, ran_s, idle_s| Cost {
        stack,
        nr_samples: 1000,
        ran_s,
        idle_s,
        ..Cost::default()
    };
    let costs = vec![cost(vec![0, 1], ran_s, 0.0), cost(vec![0], 0.5, idle_s)];
    let (ran_s, nr_samples) = (ran_s + 0.5, 2000);
    let profile = Profile { ran_s, idle_s, nr_samples, costs, ..Profile::default() };
    Run {
        units: 1.0,
        wall_s: ran_s,
        user_s: Some(ran_s),
        kernel_s: Some(0.0),
        profile: Some(profile),
        ..Run::default()
    }
}

fn report() -> Report {
    let frame = |function: &str| Frame {
        function: function.to_owned(),
        module: "a".to_owned(),
        line: None,
    };
    let point = |nr_cpus: u32, ran_s: f64| Point {
        nr_cpus,
        cpus: format!("0-{}", nr_cpus - 1),
        runs: vec![run(ran_s, 0.0), run(ran_s * 1.01, 0.0), run(ran_s * 0.99, 0.0)],
    };
    let study = Study {
        unit: "run".to_owned(),
        points: vec![point(1, 1.0), point(2, 3.0)],
        frames: vec![frame("main"), frame("std::vec::Vec<T>::push & \"co\"")],
        ..Study::default()
    };
    let complaints = vec!["<script>".to_owned()];
    Report::new(
        Swept { study, complaints, interrupted: None },
        &["./a".into(), "</script>".into()],
        1,
    )
}

#[test]
fn the_page_can_be_read_by_any_parser_and_has_the_report_in_it() {
    let report = report();
    let page = super::page(&report);
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let data = document.descendants().find(|node| node.attribute("id") == Some("data")).unwrap();
    let again: Report = serde_json::from_str(data.text().unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&report).unwrap());
    let texts: String = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains("std::vec::Vec<T>::push"), "{page}");
    assert!(
        document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "svg")))
            .count()
            == 3
    );
    assert!(!page.contains("src=") && !page.contains("href="), "something would be fetched");
}

#[test]
fn what_grew_is_told_at_each_cpu_count_with_how_certain_that_is() {
    let report = report();
    let text = super::super::text::print(&report);
    for told in [super::page(&report), text] {
        assert!(told.contains("1.00 s on 1, 3.00 s on 2"), "{told}");
        assert!(told.contains("more than 99.9 %"), "{told}");
    }
}
