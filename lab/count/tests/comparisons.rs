//! What is concluded from runs under several policies, and what is not.

mod made_up;

use made_up::{MadeUp, policies, runs, sweep};
use quartier_count::compare::{CompareError, Outcome};
use quartier_count::{Comparison, CountMode, Policy, PolicyRuns, SweepRuns};

fn compare(policies: Vec<PolicyRuns>) -> Comparison {
    Comparison::new(vec!["p".to_owned()], policies, Vec::new()).unwrap()
}

fn two(first_touch: &[u64], quartier: &[u64]) -> Comparison {
    compare(vec![
        runs(Policy::FirstTouch, first_touch, 500, None),
        runs(Policy::Quartier, quartier, 500, None),
    ])
}

fn with_mode(mode: CountMode, comparison: [&[u64]; 2]) -> Comparison {
    let mut policies = vec![
        runs(Policy::FirstTouch, comparison[0], 500, None),
        runs(Policy::Quartier, comparison[1], 500, None),
    ];
    for report in policies.iter_mut().flat_map(|runs| runs.runs.as_mut().unwrap()) {
        report.mode = mode;
    }
    compare(policies)
}

#[test]
fn the_verdict_follows_the_spread() {
    for (first_touch, quartier, outcome) in [
        (&[700, 690][..], &[70, 75][..], Outcome::Helps),
        (&[70, 75], &[700, 690], Outcome::Hurts),
        (&[700, 300], &[310, 310], Outcome::DoesNotHelp),
        (&[300, 302], &[296, 298], Outcome::DoesNotHelp),
        (&[300, 302], &[303, 306], Outcome::DoesNotHelp),
        (&[0, 0], &[0, 0], Outcome::DoesNotHelp),
        (&[700], &[70, 71], Outcome::Unknown),
        (&[700], &[70], Outcome::Unknown),
    ] {
        let verdict = two(first_touch, quartier).verdict;
        assert_eq!(verdict.outcome, outcome, "{first_touch:?} {quartier:?}: {verdict:?}");
        let says = verdict.headline.contains(outcome.name()) || outcome == Outcome::Unknown;
        assert!(says, "{verdict:?}");
    }
}

#[test]
fn differences_are_told_as_people_would() {
    for (first_touch, quartier, part) in [
        (
            &[700, 700][..],
            &[70, 70][..],
            "10.0 times fewer bytes move between nodes, and the modelled phase is",
        ),
        (&[70, 70], &[700, 700], "10.0 times as many bytes"),
        (&[500, 500], &[400, 400], "20.0 % fewer bytes"),
        (&[400, 400], &[500, 500], "25.0 % more bytes"),
        (&[0, 0], &[500, 500], "first touch, more bytes"),
        (&[500, 500], &[0, 0], "first touch, fewer bytes"),
        (
            &[500, 500],
            &[500, 500],
            "as many bytes move between nodes (within the spread of runs or 3 %)",
        ),
    ] {
        let headline = two(first_touch, quartier).verdict.headline;
        assert!(headline.contains(part), "{headline}");
    }
}

#[test]
fn one_run_is_enough_only_where_counts_are_repeatable() {
    let runs: [&[u64]; 2] = [&[700], &[70]];
    assert_eq!(with_mode(CountMode::Deterministic, runs).verdict.outcome, Outcome::Helps);
    assert_eq!(with_mode(CountMode::Parallel, runs).verdict.outcome, Outcome::Unknown);
}

#[test]
fn the_error_of_sampling_is_allowed_for() {
    let runs: [&[u64]; 2] = [&[300, 302], &[285, 287]];
    let outcome = |error_percent| {
        let mode = CountMode::Sampled { one_in: 16, error_percent };
        with_mode(mode, runs).verdict.outcome
    };
    assert_eq!((outcome(0.1), outcome(2.0)), (Outcome::Helps, Outcome::DoesNotHelp));
}

#[test]
fn what_was_not_counted_is_absent_and_said() {
    let comparison = compare(policies());
    let numad = comparison.of(Policy::Numad).unwrap();
    assert_eq!((numad.figures, numad.runs.len()), (None, 0));
    let sentences = comparison.verdict.sentences.join(" ");
    assert!(sentences.contains("numad (numad is not installed in the guest)"), "{sentences}");
    assert!(sentences.contains("best placement by hand"), "{sentences}");
    let alone = compare(vec![runs(Policy::Quartier, &[70, 71], 500, None)]);
    assert_eq!(alone.verdict.outcome, Outcome::Unknown);
    assert_eq!(alone.of(Policy::Quartier).unwrap().figures.unwrap().q_to_first_touch, None);
}

#[test]
fn little_to_gain_is_said() {
    let sentences = two(&[5, 6], &[5, 5]).verdict.sentences.join(" ");
    assert!(sentences.contains("little to gain"), "{sentences}");
}

#[test]
fn ratios_are_to_first_touch_and_to_the_best_by_hand() {
    let comparison = compare(policies());
    let first = comparison.of(Policy::FirstTouch).unwrap().figures.unwrap();
    let hand = comparison.of(Policy::Hand).unwrap().figures.unwrap();
    let quartier = comparison.of(Policy::Quartier).unwrap().figures.unwrap();
    let ratio = quartier.q_to_first_touch.unwrap();
    assert_eq!(ratio.middle, quartier.q_mib.middle / first.q_mib.middle);
    assert_eq!(ratio.greatest, quartier.q_mib.greatest / first.q_mib.least);
    assert_eq!(quartier.q_to_hand.unwrap().least, quartier.q_mib.least / hand.q_mib.greatest);
    assert_eq!(first.q_to_first_touch.unwrap().middle, 1.0);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refuse = |policies| Comparison::new(Vec::new(), policies, Vec::new()).unwrap_err();
    assert_eq!(refuse(Vec::new()), CompareError::Nothing);
    let twice = || runs(Policy::Hand, &[1], 0, None);
    assert_eq!(refuse(vec![twice(), twice()]), CompareError::Twice("best by hand"));
    let other = |change: fn(&mut MadeUp)| PolicyRuns {
        policy: Policy::Quartier,
        detail: None,
        runs: Ok(vec![MadeUp::new(4, 2).with(change).report()]),
    };
    for (change, what) in [
        ((|made_up: &mut MadeUp| made_up.cpus_per_node = vec![2; 2]) as fn(&mut MadeUp), "nodes"),
        (|made_up| made_up.mode = CountMode::Deterministic, "way of counting"),
        (|made_up| made_up.has_threads = false, "phase"),
    ] {
        let error = refuse(vec![runs(Policy::FirstTouch, &[1], 0, None), other(change)]);
        assert_eq!(error, CompareError::Differ(what));
    }
}

#[test]
fn speed_up_is_against_first_touch_on_the_fewest_cpus() {
    let comparison = Comparison::new(Vec::new(), policies(), sweep()).unwrap();
    let swept = comparison.sweep.unwrap();
    assert_eq!((swept.base_policy, swept.base_cpus, swept.cpus_max()), (Policy::FirstTouch, 1, 16));
    let point = swept.curves[0].points[0];
    assert_eq!(point.modelled_speedup.unwrap().middle, 1.0);
    for point in swept.points() {
        let speedup = point.modelled_speedup.unwrap();
        assert_eq!(speedup.middle, swept.base_modelled_phase_ms / point.modelled_phase_ms.middle);
        assert!(speedup.least <= speedup.middle && speedup.middle <= speedup.greatest);
    }
    let none = Comparison::new(Vec::new(), policies(), Vec::new()).unwrap();
    assert_eq!(none.sweep, None);
    // A point without runs is none.
    let empty = SweepRuns { policy: Policy::Hand, nr_cpus: 4, runs: Vec::new() };
    assert_eq!(Comparison::new(Vec::new(), policies(), vec![empty]).unwrap().sweep, None);
}

#[test]
fn a_comparison_is_read_again_as_it_was() {
    let comparison = Comparison::new(Vec::new(), policies(), sweep()).unwrap();
    let json = serde_json::to_string(&comparison).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), comparison);
}
