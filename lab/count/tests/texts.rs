//! Text for a terminal. Expected texts lie in `golden/`; `QUARTIER_BLESS=1 cargo test -p quartier-count`
//! writes them anew.

mod made_up;

use std::path::Path;
use std::{env, fs};

use made_up::MadeUp;
use quartier_count::{Comparison, CountMode, text};

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
