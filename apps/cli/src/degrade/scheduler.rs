//! What the kernel's scheduler did with the threads that served requests, where its tracepoints may be used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::mpsc::channel;

use quartier_observe::Host;
use quartier_observe::switches::{Happened, Slice, SwitchTrace, slices};
use serde_json::{Value, json};

use super::agent::Agent;

/// What happened, and how often something was lost; or why that is not known.
pub type Traced = Result<(Vec<Happened>, u64), String>;

/// Does something while the scheduler is watched, if it may be; it is told whether.
pub fn while_traced<T>(agent: &Agent, does: impl FnOnce(bool) -> T) -> (T, Traced) {
    if !agent.jvm().shares_numbers() {
        return (
            does(false),
            Err("the JVM is in a container, whose threads have other numbers".to_owned()),
        );
    }
    let trace = match SwitchTrace::open(&Host::live()) {
        Ok(trace) => trace,
        Err(why) => return (does(false), Err(why.to_string())),
    };
    let (end, ended) = channel();
    std::thread::scope(|scope| {
        let recorder = scope.spawn(move || trace.record(&ended));
        let done = does(true);
        drop(end);
        let traced = recorder.join().map_err(|_| "the tracepoints could not be read".to_owned());
        (done, traced)
    })
}

/// Puts it beside what the agent says, of all and of each class.
pub fn add(answer: &mut Value, traced: Traced) {
    let served = Served::taken_from(answer);
    let (happened, nr_lost) = match traced {
        Ok(seen) => seen,
        Err(why) => {
            answer["scheduler"] = Value::Null;
            answer["scheduler_unknown"] = why.into();
            return;
        }
    };
    let slices = slices(&happened, &threads(answer));
    answer["scheduler"] = times(&slices.iter().collect::<Vec<_>>());
    answer["scheduler"]["lost"] = nr_lost.into();
    answer["scheduler_unknown"] = Value::Null;
    let mut of_class: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
    for slice in &slices {
        if let Some(class) = served.class(slice) {
            of_class.entry(class).or_default().push(slice);
        }
    }
    for class in answer["classes"].as_array_mut().into_iter().flatten() {
        class["scheduler"] = class["name"]
            .as_str()
            .and_then(|name| of_class.get(name))
            .map_or(Value::Null, |slices| times(slices));
    }
}

fn threads(answer: &Value) -> BTreeSet<u32> {
    let threads = answer["threads"].as_array().into_iter().flatten();
    threads.filter_map(|thread| thread.as_u64()?.try_into().ok()).collect()
}

/// By thread, from when to when it served a request of which class, in order.
#[derive(Debug, Default)]
struct Served(BTreeMap<u32, Vec<(u64, u64, String)>>);

impl Served {
    /// Of use only here, and long.
    fn taken_from(answer: &mut Value) -> Self {
        let mut served = Self::default();
        let told = answer.as_object_mut().and_then(|fields| fields.remove("served"));
        for (class, requests) in told.as_ref().and_then(Value::as_object).into_iter().flatten() {
            for request in requests.as_array().into_iter().flatten() {
                let number = |at: usize| request[at].as_u64();
                if let (Some(thread), Some(from), Some(to)) = (number(0), number(1), number(2)) {
                    let thread = u32::try_from(thread).unwrap_or_default();
                    served.0.entry(thread).or_default().push((from, to, class.clone()));
                }
            }
        }
        served.0.values_mut().for_each(|requests| requests.sort_unstable());
        served
    }

    /// The first request that was served in it: what a thread is woken for begins soon after.
    fn class(&self, slice: &Slice) -> Option<&str> {
        let requests = self.0.get(&slice.thread)?;
        let first = requests.partition_point(|(_, to, _)| *to <= slice.began_ns);
        let (from, _, class) = requests.get(first)?;
        slice.ended_ns.is_none_or(|ended| *from < ended).then_some(class)
    }
}

fn times(slices: &[&Slice]) -> Value {
    json!({
        "slices": quantiles(slices.iter().filter_map(|slice| slice.ran_ns()).collect()),
        "wakeups": quantiles(slices.iter().filter_map(|slice| slice.wakeup_ns).collect()),
    })
}

fn quantiles(mut nanos: Vec<u64>) -> Value {
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
    if let Some(why) = answer["scheduler_unknown"].as_str() {
        let _ = writeln!(
            text,
            "\nhow long threads run at once, and wait once they are woken: unknown ({why})"
        );
        return;
    }
    for (what, field) in [
        ("how long a thread runs at once, ms", "slices"),
        ("how long a woken thread waits, ms", "wakeups"),
    ] {
        let _ = writeln!(text, "\n{what}:\n    mean      p50      p95  at most    times  class");
        for class in answer["classes"].as_array().into_iter().flatten() {
            line(text, &class["scheduler"][field], class["name"].as_str().unwrap_or("?"));
        }
        line(text, &answer["scheduler"][field], "(all that these threads did)");
    }
    if answer["scheduler"]["lost"].as_u64().is_some_and(|nr| nr > 0) {
        text.push_str(
            "some of that was lost: this machine switches more often than it can be written down\n",
        );
    }
}

/// What never happened took no time.
fn line(text: &mut String, times: &Value, of: &str) {
    for field in ["mean_ms", "p50_ms", "p95_ms", "max_ms"] {
        let _ = match times[field].as_f64() {
            Some(ms) => write!(text, "{ms:>8.3} "),
            None => write!(text, "{:>8} ", "-"),
        };
    }
    let _ = writeln!(text, "{:>8}  {of}", times["number"].as_u64().unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_observe::switches::What;

    #[test]
    fn slices_and_wakeups_are_of_the_class_whose_request_was_served_in_them() {
        let happened = [
            (1_000_000, What::Woken(7)),
            (3_000_000, What::Switched(0, 7)),
            (7_000_000, What::Switched(7, 9)),
            (8_000_000, What::Switched(9, 7)),
            (9_000_000, What::Switched(7, 0)),
            (10_000_000, What::Switched(0, 7)),
        ];
        let happened = happened.map(|(at_ns, what)| Happened { at_ns, what }).to_vec();
        let answer = json!({
            "threads": [7], "classes": [{"name": "light"}, {"name": "heavy"}],
            // The first begins a while after the thread was woken for it; in the last slice nobody is served.
            "served": {"heavy": [[7, 8_500_000, 8_900_000]], "light": [[7, 3_500_000, 6_000_000]]},
        });
        let mut told = answer.clone();
        add(&mut told, Ok((happened.clone(), 0)));
        assert_eq!(told["served"], Value::Null, "of use only here");
        assert_eq!(told["scheduler"]["slices"]["number"], 2);
        let [light, heavy] = [0, 1].map(|class| told["classes"][class]["scheduler"].clone());
        assert_eq!(
            (&light["slices"]["mean_ms"], &light["wakeups"]["p95_ms"]),
            (&4.0.into(), &2.0.into())
        );
        assert_eq!(
            (&heavy["slices"]["number"], &heavy["slices"]["max_ms"]),
            (&1.into(), &1.0.into())
        );
        assert_eq!(heavy["wakeups"], Value::Null, "it was pushed out, and never slept");
        let mut text = String::new();
        write(&mut text, &told);
        let light: Vec<_> = text.lines().filter(|line| line.ends_with("  light")).collect();
        assert_eq!(light.len(), 2, "{text}");
        assert!(light[1].trim_start().starts_with("2.000"), "{text}");
        let mut of_others = answer;
        of_others["threads"] = json!([8]);
        add(&mut of_others, Ok((happened, 1)));
        text.clear();
        write(&mut text, &of_others);
        assert!(
            text.contains("       -        0  heavy") && text.contains("some of that was lost"),
            "{text}"
        );
    }
}
