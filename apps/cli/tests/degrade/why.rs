//! `quartier degrade why` of requests of which it is known where their time goes. What else this machine does is in the
//! run queue's part, so the others hold however busy it is.

use serde_json::Value;

use super::jvm::{Jvm, degrade, ok};

/// The one class that was looked at, under this load.
fn looked_at(jvm: &Jvm, clients: &[(&'static str, usize)]) -> Value {
    let load = jvm.load(clients);
    let answer: Value =
        serde_json::from_str(&ok(&degrade(&["why", &jvm.pid(), "--seconds", "3", "--json"])))
            .unwrap();
    assert!(load.stop().is_empty());
    // The tracepoints may be used, or it is said why not.
    match answer["scheduler_unknown"].as_str() {
        Some(why) => println!("slices and wake-ups are unknown: {why}"),
        None => {
            let slices = &answer["scheduler"]["slices"];
            assert!(slices["number"].as_u64().unwrap() > 0, "{answer}");
            assert!(ms(slices, "mean_ms") > 0.0 && ms(slices, "p50_ms") <= ms(slices, "max_ms"));
            assert!(answer["scheduler"]["wakeups"]["number"].as_u64().unwrap() > 0, "{answer}");
        }
    }
    let classes = answer["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 1, "{answer}");
    let class = classes[0].clone();
    if answer["scheduler_unknown"].is_null() {
        // There is no other class; what threads do between requests is nobody's.
        let nr = |times: &Value| times["slices"]["number"].as_u64().unwrap();
        let (all, own) = (nr(&answer["scheduler"]), nr(&class["scheduler"]));
        assert!(own > 0 && own <= all, "{answer}");
    }
    println!("{clients:?}: {class}");
    let parts = ["cpu_ms", "run_queue_ms", "lock_ms", "io_ms", "wait_ms", "yield_ms", "other_ms"];
    let sum: f64 = parts.iter().map(|part| ms(&class, part)).sum();
    assert!((sum - ms(&class, "total_ms")).abs() < 0.02 * sum + 0.1, "{class}");
    class
}

fn ms(class: &Value, part: &str) -> f64 {
    class[part].as_f64().unwrap_or_else(|| panic!("no {part} in {class}"))
}

#[test]
fn of_a_jvm_without_the_agent_it_is_said_too() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let sleeps = looked_at(&jvm, &[("/sleep", 2)]);
    assert!((45.0..60.0).contains(&ms(&sleeps, "wait_ms")), "{sleeps}");
    assert!(ms(&sleeps, "cpu_ms") < 10.0 && ms(&sleeps, "lock_ms") < 5.0, "{sleeps}");

    let burns = looked_at(&jvm, &[("/burn", 2)]);
    assert!((19.0..30.0).contains(&ms(&burns, "cpu_ms")), "{burns}");
    assert!(
        ms(&burns, "wait_ms") + ms(&burns, "lock_ms") + ms(&burns, "yield_ms") < 2.0,
        "{burns}"
    );
    assert!(ms(&burns, "slice_ms") > 0.0 && ms(&burns, "slices") >= 1.0, "{burns}");

    let reads = looked_at(&jvm, &[("/socket", 2)]);
    assert!((18.0..30.0).contains(&ms(&reads, "io_ms")), "{reads}");
    assert!(ms(&reads, "wait_ms") < 2.0 && ms(&reads, "lock_waits") < 0.5, "{reads}");

    // More of them than CPUs: whoever is ready waits while others run.
    let nr_cpus = std::thread::available_parallelism().unwrap().get();
    let crowded = looked_at(&jvm, &[("/burn", 2 * nr_cpus)]);
    assert!(ms(&crowded, "run_queue_ms") > 0.25 * ms(&crowded, "cpu_ms"), "{crowded}");

    // Each waits for the three others, who sleep in there for 10 ms each.
    for path in ["/monitor", "/lock"] {
        let contends = looked_at(&jvm, &[(path, 4)]);
        assert!((8.0..15.0).contains(&ms(&contends, "wait_ms")), "{path}: {contends}");
        let lock = ms(&contends, "lock_ms");
        assert!(lock > 20.0 && lock < 45.0, "{path}: {contends}");
        // Once, unless somebody else was faster as it woke up.
        let waits = ms(&contends, "lock_waits");
        assert!((0.8..3.0).contains(&waits), "{path}: {contends}");
        assert!((ms(&contends, "lock_wait_ms") * waits - lock).abs() < 0.01 * lock, "{contends}");
    }
    // It was only there to look.
    assert!(!degrade(&["status", &jvm.pid()]).status.success());
}

#[test]
fn each_class_has_its_own_rows() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let classes = "[[class]]\nname = \"burn\"\npaths = \"/burn\"\n\n[[class]]\nname = \"sleep\"\npaths = \"/sleep\"\n";
    let config = jvm.file("classes.toml", classes);
    let load = jvm.load(&[("/burn", 1), ("/sleep", 2)]);
    let why = ["why", &jvm.pid(), "--seconds", "2", "--config", &config, "--json"];
    let answer: Value = serde_json::from_str(&ok(&degrade(&why))).unwrap();
    assert!(load.stop().is_empty());
    let of = |name: &str| {
        let classes = answer["classes"].as_array().unwrap();
        classes
            .iter()
            .find(|class| class["name"] == name)
            .unwrap_or_else(|| panic!("{answer}"))
            .clone()
    };
    let (burn, sleep) = (of("burn"), of("sleep"));
    assert!(ms(&burn, "cpu_ms") > 15.0 && ms(&sleep, "cpu_ms") < 10.0, "{answer}");
    assert!(ms(&burn, "wait_ms") < 5.0 && ms(&sleep, "wait_ms") > 40.0, "{answer}");
    if answer["scheduler_unknown"].is_null() {
        let slices = |class: &Value| ms(&class["scheduler"]["slices"], "mean_ms");
        assert!(slices(&burn) > slices(&sleep), "{answer}");
        // Who has slept is woken.
        assert!(
            sleep["scheduler"]["wakeups"]["number"].as_u64() >= sleep["requests"].as_u64(),
            "{answer}"
        );
    }
}

#[test]
fn what_the_gate_holds_is_its_own_part() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let config = jvm.file("degrade.toml", "permits = 1\n");
    ok(&degrade(&["attach", &jvm.pid(), "--config", &config]));
    let burns = looked_at(&jvm, &[("/burn", 4)]);
    assert!((19.0..30.0).contains(&ms(&burns, "cpu_ms")), "{burns}");
    // One of four runs.
    let blocked = ms(&burns, "total_ms") - ms(&burns, "cpu_ms") - ms(&burns, "run_queue_ms");
    assert!(ms(&burns, "yield_ms") > 0.9 * blocked && ms(&burns, "yield_ms") > 30.0, "{burns}");
    assert!(ms(&burns, "lock_ms") + ms(&burns, "wait_ms") < 2.0, "{burns}");
}
