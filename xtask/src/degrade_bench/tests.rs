//! Tables and drawings, of made-up runs.

use super::*;

const BEGIN: &str = r#"{"begin": {"light_cpu_s": 0.002, "heavy_cpu_s": 0.01, "cpus": 2,
    "java": "17"}}"#;
const HELD: &str =
    r#"{"held": {"variant": "curve", "round": 0, "alone_p95_ms": 50.0, "p95_ms": [65.0, 150.0]}}"#;

fn line(variant: &str, heavy: u32, round: u32, class: &str, answered: u64, p95: &str) -> String {
    format!(
        "{{\"run\": {{\"variant\": \"{variant}\", \"loop\": \"closed\", \"heavy\": {heavy}, \"round\": {round}, \
         \"class\": \"{class}\", \"seconds\": 10.0, \"answered\": {answered}, \"refused\": 0, \"failed\": 0, \
         \"p50_ms\": {p95}, \"p95_ms\": {p95}, \"p99_ms\": {p95}, \"server_cpu_s\": 20.0, \"client_cpu_s\": 0.5}}}}\n"
    )
}

fn experiment(protect_p95: &str, protect_heavy: u64) -> Experiment {
    let mut text = BEGIN.replace('\n', " ") + "\n" + HELD + "\n";
    text += &line("unmodified", 0, 0, "light", 10_000, "50");
    text += &line("unmodified", 40, 0, "light", 5_000, "200");
    text += &line("unmodified", 40, 0, "heavy", 1_000, "300");
    text += &line("protect", 0, 0, "light", 10_000, "50");
    text += &line("protect", 40, 0, "light", 8_000, protect_p95);
    text += &line("protect", 40, 0, "heavy", protect_heavy, "900");
    text += &line("curve", 0, 0, "light", 10_000, "65");
    text += &line("curve", 40, 0, "light", 6_000, "null");
    Experiment::parse(&text).unwrap()
}

#[test]
fn useful_work_is_that_of_answered_requests() {
    let experiment = experiment("70", 400);
    let useful = |variant| experiment.useful("closed", variant, 40, 0);
    // 5,000 × 2 ms and 1,000 × 10 ms in 10 s; 8,000 × 2 ms and 400 × 10 ms.
    assert_eq!(useful("unmodified").map(|it| (100.0 * it).round()), Some(200.0));
    assert_eq!(useful("protect").map(|it| (100.0 * it).round()), Some(200.0));
    assert_eq!(useful("jetty"), None, "absent is not zero");
    // Not what was learned as it began.
    let text = BEGIN.replace('\n', " ").replace("0.01", "0.03") + "\n";
    let runs = [
        ("unmodified", 0, "light", 10_000),
        ("unmodified", 40, "light", 5_000),
        ("unmodified", 40, "heavy", 1_000),
    ];
    let text = runs.iter().fold(text, |text, (variant, heavy, class, answered)| {
        text + &line(variant, *heavy, 0, class, *answered, "50")
    });
    let (light, heavy) = Experiment::parse(&text).unwrap().costs(0);
    assert!((light - 0.002).abs() < 1e-9 && (heavy - 0.01).abs() < 1e-9, "{light} {heavy}");
    // Clients took 0.5 of the 20 seconds.
    let of_left = experiment.useful_of_left("closed", "protect", 40, 0).unwrap();
    assert!((of_left - 2.0 / 1.95).abs() < 1e-9, "{of_left}");
}

#[test]
fn targets_are_met_or_missed() {
    let told = table::of(&experiment("70", 400));
    assert!(
        told.contains(
            "beside 40 heavy over beside 0: 1.40 (1.40; at most 1.5): met, in 1 of 1 runs"
        ),
        "{told}"
    );
    assert!(told.contains("unmodified beside 40 heavy: 1.00 (1.00; at least 0.95): met"), "{told}");
    assert!(told.contains("the line beside 0 heavy: 1.00 (1.00; within 0.1 of 1): met"), "{told}");
    assert!(told.contains("was 50.0 ms as rounds began; then it was held to 65.0 ms"), "{told}");
    let told = table::of(&experiment("80", 300));
    assert!(told.contains("1.60 (1.60; at most 1.5): missed, in 0 of 1"), "{told}");
    assert!(told.contains("beside 40 heavy: 0.95 (0.95; at least 0.95): met"), "{told}");
    let told = table::of(&experiment("80", 200));
    assert!(told.contains("beside 40 heavy: 0.90 (0.90; at least 0.95): missed"), "{told}");
}

#[test]
fn without_overload_it_is_the_open_loop_that_counts() {
    let open = |variant, answered, p99: &str| {
        let closed = line(variant, 0, 0, "light", answered, p99);
        closed.replace("closed", "open")
    };
    let mut text = BEGIN.replace('\n', " ") + "\n" + &open("unmodified", 1000, "20");
    text += &open("fair", 980, "20");
    text += &open("protect", 960, "22");
    let told = table::of(&Experiment::parse(&text).unwrap());
    for expected in [
        "fair, not overloaded, beside 0 heavy: answers over unmodified: 0.98 (0.98; at least 0.97): met",
        "fair, not overloaded, beside 0 heavy: light p99 over unmodified: 1.00 (1.00; at most 1.05): met",
        "protect, not overloaded, beside 0 heavy: answers over unmodified: 0.96 (0.96; at least 0.97): missed",
        "protect, not overloaded, beside 0 heavy: light p99 over unmodified: 1.10 (1.10; at most 1.05): missed",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }
    assert!(!told.contains("curve,"), "nothing is said of what was not counted: {told}");
}

#[test]
fn what_was_not_counted_is_not_drawn() {
    let drawn = drawing::of(&experiment("70", 400), "closed").unwrap();
    let of = |name: &str| &drawn.iter().find(|(of, _)| *of == name).unwrap().1;
    assert!(of("light-p95").contains("protect") && !of("light-p95").contains("jetty"));
    assert!(!of("heavy").contains("curve"), "{}", of("heavy"));
}

#[test]
fn what_is_cut_short_is_none() {
    assert!(Experiment::parse(BEGIN.replace('\n', " ").as_str()).is_err());
    assert!(Experiment::parse(&line("protect", 0, 0, "light", 1, "1")).is_err());
    assert!(Experiment::parse("{\"run\": {}}").is_err());
}

#[test]
fn environments_are_side_by_side() {
    let named = |name: &str, p95| {
        let mut experiment = experiment(p95, 400);
        let held = Held { variant: "protect".to_owned(), ..experiment.held[0].clone() };
        experiment.held = vec![Held { p95_ms: [65.0, 65.0], ..held }];
        (name.to_owned(), experiment)
    };
    let told = across::of(&[named("batch", "60"), named("nice", "75")]);
    let line = |name: &str, nr: usize| {
        let mut lines = told.lines().skip_while(|line| !line.starts_with("protect"));
        lines.find(|line| line.starts_with(name)).unwrap().split_whitespace().nth(nr).unwrap()
    };
    assert_eq!((line("batch, tomcat", 3), line("nice, tomcat", 3)), ("60", "75"));
    // `greatest over least`, then beside none and beside 40.
    assert_eq!((line("greatest", 3), line("greatest", 4)), ("1.00", "1.25"));
    assert_eq!((line("   ", 0), line("   ", 1)), ("met", "missed"));
    let mut over = told.lines().skip_while(|line| !line.starts_with("greatest over its target"));
    let [first, second] = [(); 2].map(|()| over.next().unwrap().split_whitespace().rev());
    assert_eq!(first.take(2).collect::<Vec<_>>(), ["1.15", "0.77"], "{told}");
    assert_eq!(second.collect::<Vec<_>>(), ["missed", "met"], "{told}");
    let alone = across::of(&[named("batch", "60")]);
    assert!(
        alone.lines().any(|line| line.starts_with("greatest") && line.ends_with("–")),
        "{alone}"
    );
}

#[test]
fn servers_are_environments_too() {
    let mut one = experiment("60", 400);
    let other = one.runs.iter().filter(|run| run.variant == "protect").cloned();
    let other: Vec<_> =
        other.map(|run| Run { variant: "jetty-protect".to_owned(), ..run }).collect();
    one.runs.extend(other);
    let told = across::of(&[("batch".to_owned(), one)]);
    let rows: Vec<_> = told.lines().skip_while(|line| !line.starts_with("protect")).collect();
    assert!(rows[1].starts_with("batch, tomcat") && rows[2].starts_with("batch, jetty"), "{told}");
    assert!(rows[3].ends_with("1.00") && rows[4].ends_with("met"), "{told}");
}

#[test]
fn a_folder_of_one_experiment_has_none_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let of = folder.path().join("batch");
    std::fs::create_dir(&of).unwrap();
    let text = BEGIN.replace('\n', " ") + "\n" + &line("protect", 0, 0, "light", 1, "1");
    std::fs::write(of.join(COUNTED), &text).unwrap();
    assert!(across::read(folder.path()).is_err());
    let of = folder.path().join("nice");
    std::fs::create_dir(&of).unwrap();
    std::fs::write(of.join(COUNTED), &text).unwrap();
    assert_eq!(across::read(folder.path()).unwrap().len(), 2);
}
