//! What is concluded from runs under several policies, and what is not.

mod made_up;

use made_up::{MadeUp, policies, runs, sweep};
use quartier_count::compare::{CompareError, Outcome};
use quartier_count::{Comparison, CountMode, CountedRun, Policy, PolicyRuns, SweepRuns};

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
    with_modes(std::iter::repeat(mode), comparison)
}

/// A mode for each run.
fn with_modes(modes: impl IntoIterator<Item = CountMode>, comparison: [&[u64]; 2]) -> Comparison {
    let mut policies = vec![
        runs(Policy::FirstTouch, comparison[0], 500, None),
        runs(Policy::Quartier, comparison[1], 500, None),
    ];
    let reports = policies.iter_mut().flat_map(|runs| runs.runs.as_mut().unwrap());
    for (report, mode) in reports.zip(modes) {
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
    let sampled = |error_percent| CountMode::Sampled { one_in: 16, error_percent };
    let outcome = |error_percent| with_mode(sampled(error_percent), runs).verdict.outcome;
    assert_eq!((outcome(0.1), outcome(2.0)), (Outcome::Helps, Outcome::DoesNotHelp));
    // Each run errs by its own; what is concluded allows for the greatest.
    let comparison = with_modes([0.1, 2.0, 0.3, 0.2].map(sampled), runs);
    assert_eq!(comparison.mode, sampled(2.0));
    assert_eq!(comparison.verdict.outcome, Outcome::DoesNotHelp);
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
    assert!(refuse(Vec::new()).to_string().contains("no policy was run"));
    let twice = || runs(Policy::Hand, &[1], 0, None);
    assert_eq!(refuse(vec![twice(), twice()]), CompareError::Twice("best by hand"));
    let other = |change: fn(&mut MadeUp)| PolicyRuns {
        policy: Policy::Quartier,
        detail: None,
        runs: Ok(vec![MadeUp::new(4, 2).with(change).report()]),
        tried: Vec::new(),
        failed: None,
    };
    for (change, what) in [
        ((|made_up: &mut MadeUp| made_up.cpus_per_node = vec![2; 2]) as fn(&mut MadeUp), "nodes"),
        (|made_up| made_up.mode = CountMode::Deterministic, "way of counting"),
        (
            |made_up| made_up.mode = CountMode::Sampled { one_in: 8, error_percent: 0.0 },
            "way of counting",
        ),
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
    assert_eq!((swept.base_policy, swept.base_cpus, swept.cpus_max()), (Policy::FirstTouch, 1, 8));
    let point = &swept.curves[0].points[0];
    assert_eq!(point.modelled_speedup.unwrap().middle, 1.0);
    for point in swept.points() {
        let speedup = point.modelled_speedup.unwrap();
        assert_eq!(speedup.middle, swept.base_modelled_phase_ms / point.modelled_phase_ms.middle);
        assert!(speedup.least <= speedup.middle && speedup.middle <= speedup.greatest);
    }
    let none = Comparison::new(Vec::new(), policies(), Vec::new()).unwrap();
    assert_eq!(none.sweep, None);
}

#[test]
fn a_point_that_could_not_be_counted_is_told_unless_nothing_of_its_policy_is_there() {
    let compared =
        |sweep: Vec<SweepRuns>| Comparison::new(Vec::new(), policies(), sweep).unwrap().sweep;
    let swept = compared(sweep()).unwrap();
    let told = "best by hand on 2 CPUs: the command ended with status 1: no memory";
    assert_eq!(swept.absent_in_words(), [told]);
    let failed = |point: SweepRuns| SweepRuns { runs: Err("it broke".to_owned()), ..point };
    assert_eq!(compared(sweep().into_iter().map(failed).collect()), None);
    // On one CPU there is no second thread, say: speed-up is against first touch where it has one.
    let only_ours = |point: SweepRuns| match (point.nr_cpus, point.policy) {
        (1, Policy::Quartier) | (2.., _) => point,
        (_, _) => failed(point),
    };
    let swept = compared(sweep().into_iter().map(only_ours).collect()).unwrap();
    assert_eq!((swept.base_policy, swept.base_cpus), (Policy::FirstTouch, 2));
    let told = "first touch, interleave, best by hand on 1 CPU: it broke";
    assert_eq!(swept.absent_in_words()[0], told);
}

#[test]
fn a_sweep_is_of_one_machine() {
    let mut other = sweep();
    other[0].runs = Ok(vec![MadeUp::new(2, 4).report()]);
    let error = Comparison::new(Vec::new(), policies(), other).unwrap_err();
    assert_eq!(error, CompareError::Differ("nodes"));
}

/// A run with so many per mille remote; more take longer.
fn counted(policy: Policy, detail: &str, nr_cpus: u32, per_mille: u64) -> CountedRun {
    let made_up = MadeUp::new(4, 2).with(|made_up| made_up.remote_per_mille = per_mille);
    let detail = Some(detail.to_owned()).filter(|detail| !detail.is_empty());
    CountedRun { policy, detail, nr_cpus, outcome: Ok(made_up.report()) }
}

fn failed(policy: Policy, detail: &str, nr_cpus: u32, why: &str) -> CountedRun {
    CountedRun { outcome: Err(why.to_owned()), ..counted(policy, detail, nr_cpus, 0) }
}

#[test]
fn of_several_ways_the_best_counts_and_all_are_told() {
    let runs = vec![
        counted(Policy::FirstTouch, "", 8, 700),
        counted(Policy::Hand, "one node", 8, 300),
        failed(Policy::Hand, "./absent", 8, "no such program"),
        counted(Policy::Hand, "spread", 8, 60),
        counted(Policy::Hand, "spread", 8, 61),
        failed(Policy::Hand, "spread", 8, "it hung"),
        failed(Policy::Numad, "", 8, "numad is not installed"),
    ];
    let comparison = Comparison::of_runs(vec!["p".to_owned()], 8, runs).unwrap();
    let hand = comparison.of(Policy::Hand).unwrap();
    assert_eq!((hand.detail.as_deref(), hand.runs.len()), (Some("spread"), 2));
    let tried: Vec<_> = hand.tried.iter().map(|trial| trial.detail.as_str()).collect();
    assert_eq!(tried, ["one node", "./absent", "spread"]);
    assert_eq!(hand.tried[1].failed.as_deref(), Some("no such program"));
    assert!(hand.tried[0].modelled_phase_ms > hand.tried[2].modelled_phase_ms);
    assert!(comparison.of(Policy::FirstTouch).unwrap().tried.is_empty());
    let numad = comparison.of(Policy::Numad).unwrap();
    assert_eq!(numad.absent.as_deref(), Some("numad is not installed"));
    let note = "best by hand: 1 run failed beside those counted: it hung";
    assert_eq!((comparison.notes.as_slice(), comparison.sweep), (&[note.to_owned()][..], None));
}

#[test]
fn runs_on_fewer_cpus_are_a_sweep_and_the_table_is_of_all() {
    let mut runs = Vec::new();
    for (nr_cpus, per_mille) in [(8, 700), (4, 600), (1, 100)] {
        runs.push(counted(Policy::FirstTouch, "", nr_cpus, per_mille));
        runs.push(counted(Policy::Hand, "one node", nr_cpus, 100 - u64::from(nr_cpus)));
        runs.push(counted(Policy::Hand, "spread", nr_cpus, 95));
        runs.push(failed(Policy::Numad, "numad", nr_cpus, "not installed"));
    }
    runs.push(failed(Policy::Quartier, "", 4, "it broke"));
    runs.push(counted(Policy::Quartier, "", 8, 10));
    let comparison = Comparison::of_runs(vec!["p".to_owned()], 8, runs).unwrap();
    assert_eq!(comparison.policies.len(), 4);
    let sweep = comparison.sweep.unwrap();
    let points = |policy| {
        let curve = sweep.curves.iter().find(|curve| curve.policy == policy).unwrap();
        let points = curve.points.iter();
        points.map(|point| (point.nr_cpus, point.detail.as_deref())).collect::<Vec<_>>()
    };
    assert_eq!(points(Policy::FirstTouch), [(1, None), (4, None), (8, None)]);
    let by_hand = [(1, Some("spread")), (4, Some("spread")), (8, Some("one node"))];
    assert_eq!(points(Policy::Hand), by_hand);
    assert_eq!(points(Policy::Quartier), [(8, None)]);
    assert_eq!(sweep.absent_in_words(), ["quartier run on 4 CPUs: it broke"]);
}

#[test]
fn where_nothing_was_counted_each_reason_is_told_once() {
    let runs = vec![
        failed(Policy::FirstTouch, "", 8, "status 3"),
        failed(Policy::Hand, "one node", 8, "status 3"),
        failed(Policy::Hand, "spread", 8, "no libgomp"),
        failed(Policy::Quartier, "", 8, "status 3"),
    ];
    let error = Comparison::of_runs(vec!["p".to_owned()], 8, runs).unwrap_err().to_string();
    let first = "no policy could be counted: first touch, quartier run (status 3); ";
    let by_hand = "best by hand (one node: status 3; spread: no libgomp)";
    assert!(error.ends_with(&format!("{first}{by_hand}")), "{error}");
}

#[test]
fn a_comparison_is_read_again_as_it_was() {
    let comparison = Comparison::new(Vec::new(), policies(), sweep()).unwrap();
    let json = serde_json::to_string(&comparison).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), comparison);
}
