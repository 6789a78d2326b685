//! Verdicts on made-up sweeps of random size and noise: what grows is named whatever the shape of its growth, and noise names
//! nobody more often than is said. `QUARTIER_SEED` repeats a run.

#[path = "common/random.rs"]
mod random;

use quartier_decide::verdict::{
    Cost, Culprit, Outcome, Point, Profile, Run, Study, Verdict, growth, trend,
};
use quartier_model::Frame;

use random::Random;

/// Of those that are tested at once, by chance: what the verdict promises.
const CHANCE_MAX: f64 = 0.05;
/// Beside the one that grows.
const NR_OTHERS: usize = 8;

impl Random {
    fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.unit() * (most - least + 1) as f64) as usize
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Around 1; as times are, it is farther above than below.
    fn noise(&mut self, spread: f64) -> f64 {
        (spread * self.normal()).exp()
    }
}

/// As many as may be in so many by chance, or fewer: four standard deviations more is no chance.
fn is_within(nr: usize, of: usize) -> bool {
    let (nr, of) = (nr as f64, of as f64);
    nr <= of * CHANCE_MAX + 4.0 * (of * CHANCE_MAX * (1.0 - CHANCE_MAX)).sqrt()
}

#[test]
fn noise_is_called_growth_as_seldom_as_is_said() {
    let mut random = Random::seeded();
    const NR: usize = 20_000;
    let (mut nr_grown, mut nr_grown_at_ends) = (0, 0);
    for _ in 0..NR {
        let (nr_points, nr_runs) = (random.between(2, 6), random.between(2, 6));
        let spread = 0.3 * random.unit();
        let points: Vec<(u32, Vec<f64>)> = (0..nr_points)
            .map(|at| (1 << at, (0..nr_runs).map(|_| random.noise(spread)).collect()))
            .collect();
        nr_grown += usize::from(trend(&points, 0.0).unwrap().p <= CHANCE_MAX);
        let (few, many) = (&points[0].1, &points[nr_points - 1].1);
        nr_grown_at_ends += usize::from(growth(few, many, 0.0).unwrap().p <= CHANCE_MAX);
    }
    println!("{nr_grown} and, of the ends, {nr_grown_at_ends} of {NR}");
    assert!(is_within(nr_grown, NR) && is_within(nr_grown_at_ends, NR));
    // Nor is it called so hardly ever: then what grows would not be seen either.
    assert!(nr_grown > NR / 50);
}

/// A sweep in which `grows` costs so much on 1, 2, 4, … CPUs, and each of the others always the same, but for noise.
fn study(random: &mut Random, grows: &[f64], nr_runs: usize, spread: f64) -> Study {
    let frame = |function: String| Frame { function, module: "a".to_owned(), line: None };
    let others = (0..NR_OTHERS).map(|nr| frame(format!("other{nr}")));
    let mut study = Study {
        unit: "unit".to_owned(),
        frames: std::iter::once(frame("grows".to_owned())).chain(others).collect(),
        ..Study::default()
    };
    for (at, level) in grows.iter().enumerate() {
        let nr_cpus = 1_u32 << at;
        let runs = (0..nr_runs).map(|_| {
            // Runs are slower and faster as a whole, too.
            let of_run = random.noise(0.1 * spread);
            let mut cost = |place: usize, seconds: f64| Cost {
                stack: vec![place as u32],
                ran_s: seconds * of_run * random.noise(spread),
                ..Cost::default()
            };
            let mut costs = vec![cost(0, *level)];
            costs.extend((1..=NR_OTHERS).map(|place| cost(place, 1.0)));
            let ran_s = costs.iter().map(|cost| cost.ran_s).sum::<f64>();
            Run {
                units: 1.0,
                wall_s: ran_s / f64::from(nr_cpus),
                profile: Some(Profile { ran_s, costs, ..Profile::default() }),
                ..Run::default()
            }
        });
        let runs = runs.collect();
        study.points.push(Point { nr_cpus, cpus: String::new(), runs });
    }
    study
}

/// Everybody that is told of.
fn told(verdict: &Verdict) -> Vec<&Culprit> {
    verdict.culprits.iter().chain(&verdict.undetermined).collect()
}

#[test]
fn who_only_makes_noise_is_named_as_seldom_as_is_said() {
    let mut random = Random::seeded();
    const NR: usize = 400;
    let (mut nr_wrong, mut nr_lost) = (0, 0);
    for _ in 0..NR {
        let (nr_points, nr_runs) = (random.between(2, 5), random.between(2, 6));
        // So little more that noise of the others is a part of it that would be worth a name.
        let mut grows = vec![1.0; nr_points];
        grows[nr_points - 1] = 3.0;
        let verdict = Verdict::of(&study(&mut random, &grows, nr_runs, 0.25));
        nr_lost += usize::from(verdict.outcome == Outcome::Loses);
        nr_wrong += usize::from(told(&verdict).iter().any(|of| of.function != "grows"));
    }
    println!("wrong: {nr_wrong} of {NR}, of which {nr_lost} lose");
    assert!(is_within(nr_wrong, NR));
    assert!(nr_lost > NR / 4, "nobody could have been named");
}

#[test]
fn nobody_is_named_where_all_is_noise() {
    let mut random = Random::seeded();
    const NR: usize = 400;
    let mut nr_wrong = 0;
    for _ in 0..NR {
        let (nr_points, nr_runs) = (random.between(2, 5), random.between(2, 6));
        let verdict = Verdict::of(&study(&mut random, &vec![1.0; nr_points], nr_runs, 0.25));
        nr_wrong += usize::from(!told(&verdict).is_empty());
    }
    println!("wrong: {nr_wrong} of {NR}");
    assert!(is_within(nr_wrong, NR));
}

#[test]
fn whatever_grows_is_named_whatever_the_shape_of_its_growth() {
    let mut random = Random::seeded();
    for _ in 0..200 {
        let (nr_points, nr_runs) = (random.between(2, 6), random.between(3, 6));
        let mut grows = vec![1.0];
        for _ in 1..nr_points {
            // Evenly, in steps, or not here.
            let by = [0.0, 1.0, 3.0 * random.unit()][random.between(0, 2)];
            grows.push(grows.last().unwrap() + by);
        }
        // A cliff at the end is growth, too.
        *grows.last_mut().unwrap() += 2.0;
        let verdict = Verdict::of(&study(&mut random, &grows, nr_runs, 0.01));
        let all = told(&verdict);
        let [found] = &all[..] else { panic!("{grows:?}: {verdict:#?}") };
        assert_eq!(found.function, "grows", "{grows:?}");
        assert!(found.confidence_percent >= 95.0 && found.per_unit_s.by() > 1.5, "{found:#?}");
        let levels: Vec<_> = found.trend.levels.iter().map(|level| level.nr_cpus).collect();
        assert_eq!(levels, (0..nr_points).map(|at| 1 << at).collect::<Vec<_>>());
        let near = |(level, expected): (f64, &f64)| (level / expected - 1.0).abs() < 0.1;
        assert!(found.trend.levels.iter().map(|level| level.mean).zip(&grows).all(near));
        // It has one context.
        let stacks: Vec<_> = found.contexts.iter().map(|context| &context.stack[..]).collect();
        assert_eq!(stacks, [["grows"]], "{found:#?}");
    }
}

#[test]
fn who_costs_more_only_on_the_way_is_not_named() {
    let mut random = Random::seeded();
    for _ in 0..100 {
        let nr_runs = random.between(3, 6);
        // The last other one grows instead, so that something is lost.
        let mut study = study(&mut random, &[1.0, 1.0, 4.0, 1.0], nr_runs, 0.01);
        let last = study.points.last_mut().unwrap();
        for run in &mut last.runs {
            let profile = run.profile.as_mut().unwrap();
            profile.costs[NR_OTHERS].ran_s += 3.0;
            profile.ran_s += 3.0;
            run.wall_s += 3.0 / 8.0;
        }
        let verdict = Verdict::of(&study);
        let names: Vec<_> = told(&verdict).iter().map(|of| of.function.as_str()).collect();
        assert_eq!(names, [format!("other{}", NR_OTHERS - 1)], "{verdict:#?}");
    }
}

#[test]
fn contexts_of_one_function_are_told_apart() {
    let mut random = Random::seeded();
    let mut study = study(&mut random, &[1.0, 1.0, 1.0], 4, 0.01);
    let frame = |function: &str| Frame {
        function: function.to_owned(),
        module: "a".to_owned(),
        line: None,
    };
    let nr_frames = study.frames.len() as u32;
    study.frames.extend([frame("reads"), frame("writes")]);
    let (reads, writes) = (nr_frames, nr_frames + 1);
    // From the one caller it costs ever more, from the other always the same.
    for (point, more_s) in study.points.iter_mut().zip([0.5, 1.5, 4.5]) {
        for run in &mut point.runs {
            let profile = run.profile.as_mut().unwrap();
            for (caller, seconds) in [(writes, more_s), (reads, 2.0)] {
                let ran_s = seconds * random.noise(0.01);
                let stack = vec![caller, 0];
                profile.costs.push(Cost { stack, ran_s, ..Cost::default() });
                profile.ran_s += ran_s;
                run.wall_s += ran_s / f64::from(point.nr_cpus);
            }
        }
    }
    let verdict = Verdict::of(&study);
    let all = told(&verdict);
    let [found] = &all[..] else { panic!("{verdict:#?}") };
    assert_eq!(found.function, "grows");
    let [context] = &found.contexts[..] else { panic!("{found:#?}") };
    assert_eq!(context.stack, ["writes", "grows"]);
    assert!((context.share_percent - 100.0).abs() < 15.0, "{context:#?}");
}
