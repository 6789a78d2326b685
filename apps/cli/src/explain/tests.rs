//! Stories of made-up processes, as a quartierd that runs tells them and as a log does.

use quartier_decide::reporter::log::{LOG_FORMAT, Line};
use quartier_decide::reporter::view::{Absent, Explanation};
use quartier_decide::reporter::{Reporter, Settings, State};
use quartier_model::{
    Intensity, Nanos, NodeId, NodeOsId, ProcessSeen, Refusal, Snapshot, Standing, TaskId,
};

use super::from_log::{InLog, explain};
use super::story::{Line as StoryLine, Story};
use super::{Origin, words::time};
use crate::made_up::{
    self, SECOND, begin, explanation, machine, outcome, plan, processes, snapshot,
};

fn text(explanation: &Explanation, asked: u32, origin: &Origin) -> String {
    let line = |line: &StoryLine| match line {
        StoryLine::Heading(text) | StoryLine::Text(text) => text.clone(),
    };
    Story::of(explanation, asked, origin).0.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn live(explanation: &Explanation, asked: u32) -> String {
    text(explanation, asked, &Origin::Live)
}

#[test]
fn the_story_of_a_process_that_was_moved() {
    let told = live(&explanation(100), 100);
    let expected = "\
far, process 100
  began 60 min ago; 2 threads ran or waited, 0 held; 64M of its own memory
  as quartierd sees it now, over 1.0 s; it moves threads and pages

Where it runs, and where its memory lies
  threads     node 0 100 %
  memory      node 1 100 % (of 100 pages, asked 1.0 s ago)
  local       0 % of its running is beside its memory

Factors
  runs        1.00 CPUs' worth, and waits for a CPU for 0.50
  remoteness  1.00: 0 is all local, 1 all at distance 20
  intensity   0.33: assumed from the size of its memory; misses are not counted
  contention  0.00: what others cost its memory; 0 is nothing
  speed-up    2.00 times as fast at the best place, as was decided last

What was decided last
  0.0 s ago   gather: 2 threads to node 1, its pages stay
              gains 0.75 CPUs' worth of work; its pages cost 0 ns once

Plans, and what came of them
  0.0 s ago   decided to gather: 2 threads to node 1, its pages stay
  0.0 s ago   2 threads held, 60M moved, 4M could not be

Threads, the busiest first
  100      ran  50 %, waited  25 %; node 0 100 %
  101      ran  50 %, waited  25 %; node 0 100 %

Unknown
  how much of it it used lately; which thread uses which pages; how often it misses the last-level cache; how many \
     instructions it gets done";
    assert_eq!(told, expected);
}

#[test]
fn what_counters_say_is_told_as_far_as_they_say_it() {
    let mut explanation = explanation(100);
    let counted = |explanation: &Explanation| {
        let told = live(explanation, 100);
        told.lines().find_map(|line| line.strip_prefix("  counted     ").map(str::to_owned))
    };
    assert_eq!(counted(&explanation), None);
    let threads = &mut explanation.seen.as_mut().unwrap().threads;
    // Of one thread it is not known how many cycles it took.
    threads[0].instructions = Some(4_000_000);
    threads[1].instructions = Some(1_000_000);
    threads[1].cycles = Some(2_000_000);
    threads[0].remote_reads = Some(2_500);
    threads[1].remote_reads = Some(0);
    let expected =
        "0.50 instructions a cycle, 0.50 reads of other nodes' memory in 1,000 instructions";
    assert_eq!(counted(&explanation).as_deref(), Some(expected));
}

#[test]
fn a_thread_is_explained_by_its_process() {
    let told = live(&explanation(101), 101);
    assert!(told.starts_with("far, process 100, of which 101 is a thread\n"), "{told}");
}

#[test]
fn who_is_left_alone_is_told_why_and_what_is_unknown_is_said() {
    let told = live(&explanation(200), 200);
    assert!(told.contains("0.0 s ago   somebody set its CPU affinity\n"), "{told}");
    let told = live(&explanation(300), 300);
    for expected in [
        "how much memory of its own it has is unknown",
        "memory      unknown: not asked yet",
        "local       unknown",
        "remoteness  unknown",
        "contention  unknown",
        "intensity   unknown: neither",
        "0.0 s ago   where its memory lies is unknown\n",
        "Unknown\n  where its memory lies; how much memory of its own it has;",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains('\u{1b}'), "any program may choose its name");
}

#[test]
fn a_screen_is_enough_for_a_process_of_many_threads_and_moves() {
    let mut explanation = explanation(100);
    let seen = explanation.seen.as_mut().unwrap();
    seen.threads = (0..5000).map(|tid| made_up::thread(tid, tid % 4)).collect();
    seen.threads[4999].ran = Nanos(SECOND);
    seen.threads[4999].standing = Some(Standing::RealTime);
    seen.threads[4999].held_on = Some(NodeId(2));
    explanation.events = vec![explanation.events[0].clone(); 512];
    let told = live(&explanation, 100);
    assert!(told.lines().count() <= 50, "{told}");
    let busiest = "  4999     ran 100 %, waited  25 %; node 3 100 %; held on node 2; left alone: it has a real-time";
    assert!(told.contains(busiest), "{told}");
    assert!(told.contains("  and 4992 more, which --json has\n"), "{told}");
    assert!(told.contains("  504 before these\n"), "{told}");
    assert!(told.contains("1 thread of its own will not be held"), "{told}");
}

#[test]
fn who_measured_is_told_from_who_assumed_and_the_number_of_another_from_its_own() {
    let mut explanation = explanation(100);
    explanation.process.as_mut().unwrap().placed.factors.intensity = Intensity::Measured(0.25);
    explanation.events[0].process = TaskId { id: 100, start_ticks: 0 };
    let told = live(&explanation, 100);
    assert!(told.contains("intensity   0.25: measured"), "{told}");
    assert!(!told.contains("how often it misses the last-level cache"), "{told}");
    assert!(told.contains("0.0 s ago   an earlier process: decided to gather"), "{told}");
    assert!(told.contains("0.0 s ago   2 threads held"), "{told}");
}

#[test]
fn why_a_process_was_not_seen_is_one_sentence() {
    let (pid, name) = (7, "x\u{1b}".to_owned());
    for (absent, expected) in [
        (Some(Absent::Gone), "there is no process and no thread 8: it has ended"),
        (Some(Absent::KernelThread { name: name.clone() }), "8 is x , a thread of the kernel"),
        (Some(Absent::Asleep { pid, name: name.clone() }), "x , process 7, sleeps: "),
        (Some(Absent::New { pid, name }), "x , process 7, has just begun"),
        (None, "quartierd does not see 8"),
    ] {
        let told = live(&Explanation { absent, ..explanation(8) }, 8);
        assert!(told.starts_with(expected) && told.lines().count() == 1, "{told}");
    }
    let absent = Some(Absent::Asleep { pid, name: "x".to_owned() });
    let held_on = vec![NodeOsId(0), NodeOsId(3)];
    let told = live(&Explanation { absent, held_on, ..explanation(8) }, 8);
    assert!(told.trim_end().ends_with("; its threads are held on nodes 0, 3"), "{told}");
}

#[test]
fn what_was_refused_is_said_with_the_reason() {
    let mut explanation = explanation(100);
    let mut with = |refusal| {
        explanation.events.pop();
        explanation.events.push(quartier_decide::reporter::view::Event {
            at: Nanos(8 * SECOND),
            process: made_up::id(100),
            name: String::new(),
            what: quartier_decide::reporter::view::Happened::Done(outcome(100, Some(refusal))),
        });
        live(&explanation, 100)
    };
    let told = with(Refusal::DryRun);
    assert!(told.contains("2.0 s ago   not done: quartierd runs without --apply\n"), "{told}");
    let told = with(Refusal::NoRoom);
    assert!(told.contains("60M moved, 4M could not be: the node has no room left\n"), "{told}");
}

#[test]
fn times_have_the_unit_that_says_most() {
    let second = |seconds: u64| time(Nanos(seconds * SECOND));
    let all = [second(0), second(119), second(3600), second(86_400), second(864_000)];
    assert_eq!(all, ["0.0 s", "119.0 s", "60 min", "24 h", "10 d"]);
}

/// A log of decisions over such processes, one after another.
struct Log {
    reporter: Reporter,
    text: String,
}

impl Log {
    fn new() -> Self {
        let machine = machine(4);
        let mut log = Self {
            reporter: Reporter::new(machine.clone(), Settings::default(), State::default()),
            text: String::new(),
        };
        log.push(&begin(&machine));
        log
    }

    fn push(&mut self, line: &Line) {
        self.text += &serde_json::to_string(line).unwrap();
        self.text += "\n";
    }

    fn decided(&mut self, at: u64, processes: Vec<ProcessSeen>) {
        let snapshot =
            Snapshot { at: Nanos(at * SECOND), ..snapshot(self.reporter.machine(), processes) };
        let plan = plan(&mut self.reporter, &snapshot);
        self.push(&Line::Decided { snapshot, plan });
    }

    fn explain(&self, number: u32) -> (Explanation, InLog) {
        explain(self.text.as_bytes(), "log", number).unwrap()
    }
}

#[test]
fn a_log_tells_the_same_story_marked_as_replayed() {
    let mut log = Log::new();
    log.decided(10, processes());
    log.push(&Line::Outcome(outcome(100, None)));
    log.decided(20, processes().split_off(1));
    let (explanation, found) = log.explain(101);
    assert_eq!((found.line, found.lines, found.is_cut), (Some(2), 4, false));
    let told = text(&explanation, 101, &Origin::Log(found));
    assert!(
        told.contains("REPLAYED: as line 2 of 4 of the log log has it; nothing is done"),
        "{told}"
    );
    for expected in [
        "far, process 100, of which 101 is a thread\n",
        "  began 60 min before;",
        "10.0 s ago  gather: 2 threads to node 1",
        "10.0 s ago  2 threads held, 60M moved",
        "(of 100 pages, asked 11.0 s ago)",
        "local       0 %",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn who_is_not_in_a_log_is_said_not_to_be() {
    let mut log = Log::new();
    log.decided(10, processes());
    let (explanation, found) = log.explain(7);
    assert!(explanation.process.is_none() && found.line.is_none());
    let told = text(&explanation, 7, &Origin::Log(found));
    assert!(told.starts_with("REPLAYED: the log log has no process or thread 7: "), "{told}");
    assert_eq!(told.lines().count(), 1);
}

#[test]
fn another_quartierds_part_of_a_log_is_another_story() {
    let mut log = Log::new();
    log.decided(10, processes());
    // Times begin anew.
    log.push(&begin(&machine(4)));
    log.decided(5, Vec::new());
    assert!(log.explain(100).0.process.is_none());
    let mut log = Log::new();
    log.decided(10, processes());
    log.push(&begin(&machine(2)));
    let (explanation, found) = log.explain(100);
    assert!(explanation.process.is_none() && explanation.events.is_empty());
    assert_eq!(found.line, None);
    // Begun anew because it was full: the same machine, and time goes on.
    let mut log = Log::new();
    log.decided(10, processes());
    log.push(&begin(&machine(4)));
    log.decided(15, Vec::new());
    assert!(log.explain(100).0.process.is_some());
}

#[test]
fn a_log_that_is_cut_is_read_as_far_as_it_goes_and_what_is_no_log_is_refused() {
    let mut log = Log::new();
    log.decided(10, processes());
    let whole = log.text.clone();
    log.decided(20, Vec::new());
    log.text.truncate(whole.len() + 100);
    let (explanation, found) = log.explain(100);
    assert!(found.is_cut && explanation.process.is_some());
    assert_eq!(found.lines, 2);
    let refused = |text: &str| format!("{:#}", explain(text.as_bytes(), "log", 1).unwrap_err());
    assert_eq!(refused(""), "it is empty");
    let ours = format!("\"format\":{LOG_FORMAT}");
    for (text, expected) in [
        ("{}\n".to_owned(), "line 1: "),
        ("{\"begin\":".to_owned(), "line 1: "),
        (format!("{}nonsense\n", whole), "line 3: "),
        (whole.lines().nth(1).unwrap().to_owned(), "line 1: nothing before it says"),
        (whole.replacen(&ours, "\"format\":9", 1), "line 1: it has format 9"),
        (whole.replace("\"found_on\":{\"0\"", "\"found_on\":{\"9\""), "line 2: it names nodes"),
    ] {
        let refused = refused(&text);
        assert!(refused.starts_with(expected), "{refused}");
    }
}
