//! What the kernel's scheduler did with the threads that served requests, where its tracepoints may be used.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::mpsc::channel;

use quartier_observe::Host;
use quartier_observe::switches::{Happened, SwitchTrace, Switches};
use serde_json::{Value, json};

use super::agent::Agent;

/// What happened, and how often something was lost; or why that is not known.
pub type Traced = Result<(Vec<Happened>, u64), String>;

/// Does something while the scheduler is watched, if it may be.
pub fn while_traced<T>(agent: &Agent, does: impl FnOnce() -> T) -> (T, Traced) {
    if !agent.jvm().shares_numbers() {
        return (
            does(),
            Err("the JVM is in a container, whose threads have other numbers".to_owned()),
        );
    }
    let trace = match SwitchTrace::open(&Host::live()) {
        Ok(trace) => trace,
        Err(why) => return (does(), Err(why.to_string())),
    };
    let (end, ended) = channel();
    std::thread::scope(|scope| {
        let recorder = scope.spawn(move || trace.record(&ended));
        let done = does();
        drop(end);
        let traced = recorder.join().map_err(|_| "the tracepoints could not be read".to_owned());
        (done, traced)
    })
}

/// Puts it beside what the agent says.
pub fn add(answer: &mut Value, traced: Traced) {
    let threads: BTreeSet<u32> = answer["threads"]
        .as_array()
        .map(|threads| {
            threads.iter().filter_map(|thread| thread.as_u64()?.try_into().ok()).collect()
        })
        .unwrap_or_default();
    match traced {
        Ok((happened, nr_lost)) => {
            let mut switches = Switches::of(&happened, &threads, nr_lost);
            answer["scheduler"] = json!({
                "slices": quantiles(&mut switches.slices_ns),
                "wakeups": quantiles(&mut switches.wakeups_ns),
                "lost": switches.nr_lost,
            });
            answer["scheduler_unknown"] = Value::Null;
        }
        Err(why) => {
            answer["scheduler"] = Value::Null;
            answer["scheduler_unknown"] = why.into();
        }
    }
}

fn quantiles(nanos: &mut [u64]) -> Value {
    nanos.sort_unstable();
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let Some(greatest) = nanos.last() else { return Value::Null };
    let quantile =
        |part: f64| ms(nanos[((part * nanos.len() as f64) as usize).min(nanos.len() - 1)]);
    let mean = nanos.iter().sum::<u64>() as f64 / nanos.len() as f64 / 1e6;
    json!({
        "number": nanos.len(), "mean_ms": mean, "p50_ms": quantile(0.5), "p95_ms": quantile(0.95), "max_ms": ms(*greatest),
    })
}

/// For people.
pub fn write(text: &mut String, answer: &Value) {
    let line = |text: &mut String, what: &str, field: &str| {
        let times = &answer["scheduler"][field];
        let ms = |quantile: &str| times[quantile].as_f64().unwrap_or_default();
        let _ = match (times["number"].as_u64(), answer["scheduler_unknown"].as_str()) {
            (Some(number), _) => writeln!(
                text,
                "{what}: {:.3} ms on average, p50 {:.3}, p95 {:.3}, at most {:.3} ({number} times)",
                ms("mean_ms"),
                ms("p50_ms"),
                ms("p95_ms"),
                ms("max_ms")
            ),
            (None, Some(why)) => writeln!(text, "{what}: unknown ({why})"),
            (None, None) => writeln!(text, "{what}: it never happened"),
        };
    };
    text.push('\n');
    if !answer["scheduler"].is_null() {
        line(text, "how long a thread runs at once", "slices");
    }
    line(text, "how long a woken thread waits", "wakeups");
    if answer["scheduler"]["lost"].as_u64().is_some_and(|nr| nr > 0) {
        text.push_str(
            "some of that was lost: this machine switches more often than it can be written down\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_observe::switches::What;

    #[test]
    fn only_threads_that_served_are_counted() {
        let happened = [
            (1_000_000, What::Woken(7)),
            (3_000_000, What::Switched(0, 7)),
            (7_000_000, What::Switched(7, 9)),
        ];
        let happened = happened.map(|(at_ns, what)| Happened { at_ns, what }).to_vec();
        let mut answer = json!({"threads": [7]});
        add(&mut answer, Ok((happened.clone(), 0)));
        assert_eq!(answer["scheduler"]["wakeups"]["p95_ms"], 2.0);
        assert_eq!(answer["scheduler"]["slices"]["mean_ms"], 4.0);
        let mut text = String::new();
        write(&mut text, &answer);
        assert!(text.contains("a woken thread waits: 2.000 ms on average"), "{text}");
        let mut answer = json!({"threads": [8]});
        add(&mut answer, Ok((happened, 1)));
        text.clear();
        write(&mut text, &answer);
        assert!(
            text.contains("it never happened") && text.contains("some of that was lost"),
            "{text}"
        );
    }
}
