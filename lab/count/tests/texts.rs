//! Text for a terminal. Expected texts lie in `golden/`; `QUARTIER_BLESS=1 cargo test -p quartier-count`
//! writes them anew.

mod made_up;

use std::path::Path;
use std::{env, fs};

use made_up::MadeUp;
use quartier_count::numbers::count;
use quartier_count::{
    AS_IT_IS, Comparison, CountMode, Policy, PolicyRuns, SweepRuns, Trial, html, text,
};

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn check(name: &str, text: &str) {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if env::var_os("QUARTIER_BLESS").is_some() {
        fs::write(&expected, text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&expected).unwrap(), "{name}");
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= text::COLUMNS, "{}: {line}", line.chars().count());
        assert_eq!(line.trim_end(), line);
    }
    assert!(!text.contains("NaN") && !text.contains('\u{1b}'), "{text}");
}

fn shapes() -> Vec<(&'static str, MadeUp)> {
    let sampled = CountMode::Sampled { one_in: 16, error_percent: 1.4 };
    vec![
        ("nodes-1", MadeUp::new(1, 4)),
        ("nodes-4", MadeUp::new(4, 2)),
        ("nodes-64", MadeUp::new(64, 4).with(|made_up| made_up.mode = sampled)),
        ("local", MadeUp::new(4, 2).with(|made_up| made_up.remote_per_mille = 0)),
        ("nothing", MadeUp::new(4, 2).with(|made_up| made_up.commands = 0)),
    ]
}

#[test]
fn reports_are_as_before() {
    for (name, made_up) in shapes() {
        check(name, &plain(&text::report(&made_up.report())));
    }
}

#[test]
fn a_comparison_is_as_before() {
    let command = ["./eighths", "64", "8"].map(str::to_owned).to_vec();
    let comparison = Comparison::new(command, made_up::policies(), made_up::sweep()).unwrap();
    let text = plain(&text::comparison(&comparison));
    fits(&text);
    check("compare", &text);
}

/// What a program is told for which quartier run does nothing good.
fn compared(name: &str, policies: Vec<PolicyRuns>) {
    let comparison = Comparison::new(vec!["./p".to_owned()], policies, Vec::new()).unwrap();
    let text = plain(&text::comparison(&comparison));
    fits(&text);
    check(name, &text);
}

#[test]
fn causes_are_as_before() {
    let with_kernel = |policy, per_mille: &[u64], kernel_one_in| {
        made_up::runs_with(policy, per_mille, |made_up| {
            (made_up.hot_per_mille, made_up.kernel_one_in) = (0, kernel_one_in);
        })
    };
    let first_touch = |per_mille| with_kernel(Policy::FirstTouch, per_mille, 100);
    compared(
        "compare-moving-costs",
        vec![
            first_touch(&[300, 302]),
            with_kernel(Policy::Quartier, &[402, 400], 2),
            made_up::runs(Policy::Hand, &[100, 101], 0, Some("numactl --membind=0")),
        ],
    );
    let tried = vec![
        made_up::trial(AS_IT_IS, Some(1350.0), Some(137.0), None),
        made_up::trial("numactl --membind=0", Some(1349.0), Some(149.0), None),
    ];
    let by_hand = with_kernel(Policy::Hand, &[749, 748], 100);
    let detail = Some(AS_IT_IS.to_owned());
    compared(
        "compare-all-read-it",
        vec![
            first_touch(&[750, 748]),
            PolicyRuns { tried, detail, ..by_hand },
            with_kernel(Policy::Quartier, &[751, 752], 100),
        ],
    );
    let [first_touch, quartier] = [Policy::FirstTouch, Policy::Quartier]
        .map(|policy| move |per_mille: &[u64]| made_up::runs(policy, per_mille, 900, None));
    compared("compare-no-cause", vec![first_touch(&[300, 302]), quartier(&[301, 303])]);
    compared("compare-little", vec![first_touch(&[5, 6]), quartier(&[5, 6])]);
}

#[test]
fn what_moves_least_is_told_where_it_is_not_the_fastest() {
    let text = |trials: Vec<Trial>, mode: CountMode| {
        let mut by_hand = made_up::runs(Policy::Hand, &[300, 301], 0, Some("fast"));
        by_hand.tried = trials;
        by_hand.runs.as_mut().unwrap().iter_mut().for_each(|report| report.mode = mode);
        let comparison = Comparison::new(Vec::new(), vec![by_hand], Vec::new()).unwrap();
        let page = html::comparison(&comparison);
        let text = plain(&text::comparison(&comparison));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("Of these"), page.contains("Of these"), "{text}");
        text
    };
    let trial = |detail: &str, q_mib, ms| made_up::trial(detail, Some(q_mib), Some(ms), None);
    let fast = || trial("fast", 100.0, 80.0);
    let exact = CountMode::Parallel;
    let told = text(vec![trial("near", 96.0, 90.0), fast(), trial("mid", 96.5, 85.0)], exact);
    let sentence = "Of these, near moves least (Q 96.0 MiB), but its modelled time is longer.";
    assert!(
        told.contains(&format!(
            "(80.0 ms modelled, Q 100 MiB); mid (85.0 ms modelled, Q 96.5 MiB). {sentence}"
        )),
        "{told}"
    );
    let sampled = CountMode::Sampled { one_in: 8, error_percent: 2.0 };
    let failed = made_up::trial("./absent", None, None, Some("no such program"));
    for (trials, mode) in [
        // Within the margin; within the error; the fastest itself; alone.
        (vec![trial("near", 97.5, 90.0), fast()], exact),
        (vec![trial("near", 96.0, 90.0), fast()], sampled),
        (vec![trial("far", 200.0, 90.0), fast()], exact),
        (vec![failed, fast()], exact),
        (vec![fast()], exact),
        // Nobody knows how long.
        (vec![made_up::trial("near", Some(1.0), None, None), fast()], exact),
    ] {
        let text = text(trials, mode);
        assert!(!text.contains("Of these"), "{text}");
    }
}

#[test]
fn a_sweep_shows_all_numbers_of_cpus() {
    let report = MadeUp::new(4, 2).report();
    let point = |nr_cpus| SweepRuns {
        policy: Policy::QuartierBalanced,
        nr_cpus,
        detail: None,
        runs: Ok(vec![report.clone()]),
        failed: None,
    };
    let cpus = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 1024];
    let sweep = cpus.iter().copied().map(point).collect();
    let comparison = Comparison::new(vec!["p".to_owned()], made_up::policies(), sweep).unwrap();
    let text = plain(&text::comparison(&comparison));
    fits(&text);
    let text = text.split("Modelled speed-up").nth(1).unwrap();
    for cpus in &cpus[1..] {
        assert_eq!(
            text.matches(&format!(" {} CPUs", count(u64::from(*cpus)))).count(),
            1,
            "{text}"
        );
    }
    assert_eq!(text.matches("policy                1 CPU").count(), 1, "{text}");
}

#[test]
fn every_text_fits_a_hundred_columns() {
    for (_, made_up) in shapes() {
        fits(&plain(&text::report(&made_up.report())));
    }
    for nr_nodes in [2, 5, 8, 9, 10, 16, 48, 64] {
        for commands in [1, 999, 999_999, 999_999_999_999, i64::MAX as u64] {
            let made_up = MadeUp::new(nr_nodes, 3).with(|made_up| made_up.commands = commands);
            let mut report = made_up.report();
            report.command = vec!["a long command".to_owned(); 40];
            report.notes = vec!["word ".repeat(60), "x".repeat(300), "\u{1b}[31m".to_owned()];
            fits(&plain(&text::report(&report)));
        }
    }
}

#[test]
fn all_nodes_are_in_the_sum() {
    let report = MadeUp::new(64, 4).report();
    let text = plain(&text::report(&report));
    assert!(text.contains("56 others   224"), "{text}");
    let nine = plain(&text::report(&MadeUp::new(9, 1).report()));
    assert!(!nine.contains("others"), "{nine}");
}

#[test]
fn modelled_stands_beside_every_modelled_number() {
    for (_, made_up) in shapes() {
        let text = plain(&text::report(&made_up.report()));
        assert!(text.contains("Modelled time (not measured)"), "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!text.contains("cycles each") || text.contains("memory beyond it 150 cycles"));
    }
}
