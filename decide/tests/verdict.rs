//! Verdicts on made-up runs whose culprit is known: what threads did, moment by moment.

use quartier_decide::verdict::{
    Class, Clock, Comparison, Outcome, Point, Run, Study, Verdict, fold,
};
use quartier_model::{Event, Frame, Happening, KERNEL_MODULE, Recording, Touch};

/// A look of the clock: every millisecond.
const LOOK_NS: u64 = 1_000_000;
/// Of the global counter, and of the mutex.
const WORD: u64 = 0x5000;

const STACKS: [&[(&str, &str)]; 7] = [
    &[("main", "a"), ("work", "a"), ("compute", "a")],
    &[("main", "a"), ("work", "a"), ("count", "a")],
    &[("main", "a"), ("work", "a"), ("prepare", "a"), ("compute", "a")],
    &[
        ("main", "a"),
        ("work", "a"),
        ("add", "a"),
        ("pthread_mutex_lock", "libc.so.6"),
        ("futex_wait", KERNEL_MODULE),
    ],
    &[
        ("main", "a"),
        ("work", "a"),
        ("pthread_barrier_wait", "libc.so.6"),
        ("futex_wait", KERNEL_MODULE),
    ],
    &[
        ("main", "a"),
        ("work", "a"),
        ("read", "libc.so.6"),
        ("__x64_sys_read", KERNEL_MODULE),
        ("io_schedule", KERNEL_MODULE),
    ],
    &[("main", "a"), ("work", "a"), ("epoll_wait", "libc.so.6"), ("do_epoll_wait", KERNEL_MODULE)],
];
const COMPUTE: u32 = 0;
const COUNT: u32 = 1;
const PREPARE: u32 = 2;
const LOCKED: u32 = 3;
const BARRIER: u32 = 4;
const DISK: u32 = 5;
const PEER: u32 = 6;

/// What threads do, of a run that is being made up.
///
/// With when its load ran, if it is a server.
struct Story(Recording, Option<(u64, u64)>);

impl Story {
    fn new() -> Self {
        let mut recording = Recording { objects: vec!["total".to_owned()], ..Recording::default() };
        for stack in STACKS {
            let mut numbers = Vec::new();
            for (function, module) in stack {
                let frame =
                    Frame { function: (*function).into(), module: (*module).into(), line: None };
                let known = recording.frames.iter().position(|known| *known == frame);
                numbers.push(known.unwrap_or(recording.frames.len()) as u32);
                if known.is_none() {
                    recording.frames.push(frame);
                }
            }
            recording.stacks.push(numbers);
        }
        Self(recording, None)
    }

    fn add(&mut self, at_ns: u64, tid: u32, what: Happening) {
        self.0.events.push(Event { at_ns, tid, what });
    }

    /// A thread runs for so many looks from a moment on; with an address if it writes there.
    fn runs(
        &mut self,
        tid: u32,
        from_ns: u64,
        looks: u64,
        stack: u32,
        address: Option<u64>,
    ) -> u64 {
        let touch = address.map(|address| Touch { address, object: Some(0), is_write: true });
        self.add(from_ns, tid, Happening::Came);
        for look in 0..looks {
            let at_ns = from_ns + look * LOOK_NS + LOOK_NS / 2;
            self.add(at_ns, tid, Happening::Ran { stack, touch });
        }
        from_ns + looks * LOOK_NS
    }

    /// And then waits.
    fn waits(&mut self, tid: u32, at_ns: u64, stack: u32) {
        let word = Touch { address: WORD, object: Some(0), is_write: true };
        let word = (stack == LOCKED).then_some(word);
        self.add(at_ns - 1, tid, Happening::Waits { stack, word, is_locked: stack == LOCKED });
        self.add(at_ns, tid, Happening::Left { is_preempted: false });
    }

    fn run(mut self, study: &mut Study, nr_cpus: u32, ends_ns: u64) -> Run {
        for tid in 1..=nr_cpus {
            self.add(ends_ns, tid, Happening::Ended);
        }
        self.0.events.sort_by_key(|event| event.at_ns);
        let profile = fold(&self.0, nr_cpus, self.1);
        let profile = study.adopt(profile, &self.0);
        Run {
            units: 100.0,
            wall_s: ends_ns as f64 / 1e9,
            user_s: Some(profile.ran_s),
            profile: Some(profile),
            ..Run::default()
        }
    }
}

/// Three runs on each of one CPU and four, made by a function of the CPUs and of the run's own length.
fn judge(tell: fn(&mut Story, u32, u64) -> u64) -> Verdict {
    let mut study = Study { unit: "unit".to_owned(), ..Study::default() };
    for nr_cpus in [1, 4] {
        let runs = [400, 404, 396].map(|looks| {
            let mut story = Story::new();
            let ends_ns = tell(&mut story, nr_cpus, looks);
            story.run(&mut study, nr_cpus, ends_ns)
        });
        study.points.push(Point { nr_cpus, cpus: String::new(), runs: runs.to_vec() });
    }
    let verdict = Verdict::of(&study);
    // It is judged alike from what is saved.
    let saved = serde_json::to_string(&study).unwrap();
    let again = Verdict::of(&serde_json::from_str(&saved).unwrap());
    assert_eq!(again, verdict);
    verdict
}

fn only(verdict: &Verdict) -> (Option<Class>, &str, Option<&str>) {
    assert_eq!(verdict.outcome, Outcome::Loses, "{verdict:#?}");
    let [culprit] = &verdict.culprits[..] else { panic!("{verdict:#?}") };
    assert!((85.0..115.0).contains(&culprit.share_percent), "{verdict:#?}");
    (culprit.class, &culprit.function, culprit.object.as_deref())
}

#[test]
fn nothing_is_named_where_nothing_is_lost() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        (1..=nr_cpus).map(|tid| story.runs(tid, 0, each, COMPUTE, None)).max().unwrap()
    });
    assert_eq!(verdict.outcome, Outcome::Scales, "{verdict:#?}");
    assert!(verdict.culprits.is_empty() && verdict.undetermined.is_empty(), "{verdict:#?}");
}

#[test]
fn a_word_that_all_write_is_a_bouncing_line() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        let slower = if nr_cpus > 1 { 3 } else { 1 };
        let run = |tid| {
            let at_ns = story.runs(tid, 0, each / 2, COMPUTE, None);
            story.runs(tid, at_ns, each / 2 * slower, COUNT, Some(WORD))
        };
        (1..=nr_cpus).map(run).max().unwrap()
    });
    assert_eq!(only(&verdict), (Some(Class::BouncingLine), "count", Some("total")));
}

#[test]
fn words_side_by_side_are_false_sharing() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus) * if nr_cpus > 1 { 3 } else { 1 };
        (1..=nr_cpus)
            .map(|tid| story.runs(tid, 0, each, COUNT, Some(WORD + 8 * u64::from(tid - 1))))
            .max()
            .unwrap()
    });
    assert_eq!(only(&verdict), (Some(Class::FalseSharing), "count", Some("total")));
}

#[test]
fn who_costs_more_without_a_shared_word_is_a_place_to_look_at_but_no_culprit() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus) * if nr_cpus > 1 { 2 } else { 1 };
        (1..=nr_cpus).map(|tid| story.runs(tid, 0, each, COMPUTE, None)).max().unwrap()
    });
    assert_eq!(verdict.outcome, Outcome::Loses);
    assert!(verdict.culprits.is_empty(), "{verdict:#?}");
    assert_eq!(verdict.undetermined[0].function, "compute");
    assert!(verdict.sentences.iter().any(|sentence| sentence.contains("hardware counters")));
}

#[test]
fn a_lock_is_charged_with_the_idle_cpus_of_those_who_wait_for_it() {
    // One at a time has the lock, the others wait.
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        for tid in 1..=nr_cpus {
            story.add(0, tid, Happening::Came);
            if tid > 1 {
                story.waits(tid, 2, LOCKED);
            }
        }
        let mut at_ns = 2;
        for tid in 1..=nr_cpus {
            at_ns = story.runs(tid, at_ns, each, COMPUTE, None);
            // Who is done sleeps until the end, as who has not yet been served does.
            story.waits(tid, at_ns, LOCKED);
        }
        at_ns
    });
    assert_eq!(only(&verdict), (Some(Class::Lock), "add", Some("total")));
}

#[test]
fn a_lock_is_found_by_looks_where_waits_are_not_seen() {
    let verdict = judge(|story, nr_cpus, looks| {
        story.0.is_user_only = true;
        let each = looks / u64::from(nr_cpus);
        for tid in 1..=nr_cpus {
            story.add(0, tid, Happening::Came);
            if tid > 1 {
                story.add(1, tid, Happening::Left { is_preempted: false });
            }
        }
        let mut at_ns = 2;
        for tid in 1..=nr_cpus {
            at_ns = story.runs(tid, at_ns, each, COMPUTE, None);
            story.add(at_ns, tid, Happening::Left { is_preempted: false });
        }
        // One thread has the lock, the others are seen waiting for it; so is, by a stale look, who runs.
        let word = Some(Touch { address: WORD, object: Some(0), is_write: true });
        for look_ns in (0..at_ns).step_by(10 * LOOK_NS as usize) {
            for tid in 1..=nr_cpus {
                story.add(
                    look_ns + 3,
                    tid,
                    Happening::Asleep { stack: LOCKED, word, is_locked: true },
                );
            }
        }
        at_ns
    });
    assert_eq!(only(&verdict), (Some(Class::Lock), "add", Some("total")));
}

#[test]
fn who_was_woken_waits_for_a_cpu_from_then_on() {
    let mut story = Story::new();
    story.0.has_wakeups = true;
    story.add(0, 1, Happening::Came);
    story.waits(1, 1_000, LOCKED);
    // Before it has left nobody wakes it; the second time it has been woken already.
    story.add(500, 1, Happening::Woken);
    story.add(4_000, 1, Happening::Woken);
    story.add(5_000, 1, Happening::Woken);
    story.add(7_000, 1, Happening::Came);
    story.add(8_000, 1, Happening::Left { is_preempted: true });
    story.add(10_000, 1, Happening::Came);
    story.0.events.sort_by_key(|event| event.at_ns);
    let profile = fold(&story.0, 1, None);
    let waited_s: f64 = profile.costs.iter().map(|cost| cost.waited_s).sum();
    assert_eq!((1e9 * waited_s).round(), 3_000.0);
    assert_eq!(profile.queued_s.map(|seconds| (1e9 * seconds).round()), Some(5_000.0));
    // Within a server's load alone.
    let profile = fold(&story.0, 1, Some((6_000, 9_000)));
    assert_eq!(profile.queued_s.map(|seconds| (1e9 * seconds).round()), Some(2_000.0));
    story.0.has_wakeups = false;
    assert_eq!(fold(&story.0, 1, None).queued_s, None, "absent is not zero");
}

#[test]
fn a_change_is_told_by_its_ratio_and_by_who_is_gone() {
    let study = |slower: u64| {
        let mut study = Study { unit: "unit".to_owned(), ..Study::default() };
        for nr_cpus in [1, 4] {
            let runs = [400, 404, 396].map(|looks| {
                let mut story = Story::new();
                let each = looks / u64::from(nr_cpus) * if nr_cpus > 1 { slower } else { 1 };
                let ends = (1..=nr_cpus).map(|tid| story.runs(tid, 0, each, COUNT, Some(WORD)));
                let ends_ns = ends.max().unwrap();
                story.run(&mut study, nr_cpus, ends_ns)
            });
            study.points.push(Point { nr_cpus, cpus: String::new(), runs: runs.to_vec() });
        }
        study
    };
    let (before, after) = (study(3), study(1));
    let comparison = Comparison::of(&before, &after);
    assert_eq!(
        comparison.points.iter().map(|point| point.is_changed).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(
        comparison.sentences[0].contains("3.00 times")
            && comparison.sentences[0].ends_with("more.")
    );
    let says = |what: &str| comparison.sentences.iter().any(|sentence| sentence.contains(what));
    assert!(says("0.33 times the CPU time"), "{comparison:#?}");
    assert!(says("Gone: bouncing line in `count`, `total`"), "{comparison:#?}");
    let same = Comparison::of(&before, &before);
    assert!(same.sentences[0].contains("no difference") && !same.points[1].is_changed);
}

#[test]
fn what_runs_alone_is_the_serial_part() {
    let verdict = judge(|story, nr_cpus, looks| {
        let serial = looks / 4;
        let each = (looks - serial) / u64::from(nr_cpus);
        for tid in 2..=nr_cpus {
            story.add(0, tid, Happening::Came);
            story.waits(tid, 1, BARRIER);
        }
        let at_ns = story.runs(1, 1, serial, PREPARE, None);
        (1..=nr_cpus).map(|tid| story.runs(tid, at_ns, each, COMPUTE, None)).max().unwrap()
    });
    assert_eq!(only(&verdict), (Some(Class::SerialPart), "prepare", None));
}

#[test]
fn who_has_most_to_do_is_an_imbalance() {
    let verdict = judge(|story, nr_cpus, looks| {
        if nr_cpus == 1 {
            return story.runs(1, 0, looks, COMPUTE, None);
        }
        let small = looks / 8;
        for tid in 2..=nr_cpus {
            let at_ns = story.runs(tid, 0, small, COMPUTE, None);
            story.waits(tid, at_ns, BARRIER);
        }
        story.runs(1, 0, looks - small * u64::from(nr_cpus - 1), COMPUTE, None)
    });
    assert_eq!(only(&verdict), (Some(Class::Imbalance), "main", None));
}

#[test]
fn what_everybody_waits_for_is_named_where_nobody_runs() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        let mut ends_ns = 0;
        for tid in 1..=nr_cpus {
            let at_ns = story.runs(tid, 0, each, COMPUTE, None);
            story.waits(tid, at_ns, DISK);
            ends_ns = at_ns + 100 * LOOK_NS;
        }
        ends_ns
    });
    let (class, _, _) = only(&verdict);
    assert_eq!(class, Some(Class::Disk));
}

/// A server whose threads are asked too seldom.
fn served(story: &mut Story, nr_cpus: u32, looks: u64) -> u64 {
    let ends_ns = 2 * looks * LOOK_NS;
    story.1 = Some((0, ends_ns));
    for tid in 1..=nr_cpus {
        // One after the other: never two at once.
        let mut at_ns = u64::from(tid) * LOOK_NS;
        for _ in 0..looks / u64::from(nr_cpus) {
            let until_ns = story.runs(tid, at_ns, 1, COMPUTE, None);
            story.waits(tid, until_ns, PEER);
            at_ns += 2 * u64::from(nr_cpus) * LOOK_NS;
        }
    }
    ends_ns
}

#[test]
fn idle_cpus_of_a_server_whose_threads_all_wait_for_peers_are_the_peers_doing() {
    let (class, _, _) = only(&judge(served));
    assert_eq!(class, Some(Class::ClientLimited));
}

#[test]
fn what_a_server_waits_for_a_disk_is_no_peers_doing() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        let ends_ns = looks * LOOK_NS;
        story.1 = Some((0, ends_ns));
        for tid in 1..=nr_cpus {
            let at_ns = story.runs(tid, 0, each / 2, COMPUTE, None);
            story.waits(tid, at_ns, DISK);
        }
        // One more that is there for new connections.
        story.add(0, nr_cpus + 1, Happening::Came);
        story.waits(nr_cpus + 1, 1, PEER);
        ends_ns
    });
    assert_eq!(only(&verdict).0, Some(Class::Disk));
}

#[test]
fn a_thread_of_a_server_that_hardly_ever_waits_is_what_the_others_wait_for() {
    let verdict = judge(|story, nr_cpus, looks| {
        let ends_ns = looks * LOOK_NS;
        story.1 = Some((0, ends_ns));
        for tid in 2..=nr_cpus {
            story.add(0, tid, Happening::Came);
            story.waits(tid, 1, PEER);
        }
        story.runs(1, 0, looks, PREPARE, None)
    });
    let (class, function, _) = only(&verdict);
    assert_eq!((class, function), (Some(Class::SerialPart), "main"));
}

#[test]
fn what_others_took_is_no_loss() {
    let verdict = judge(|story, nr_cpus, looks| {
        let each = looks / u64::from(nr_cpus);
        let mut ends_ns = 0;
        for tid in 1..=nr_cpus {
            let at_ns = story.runs(tid, 0, each / 2, COMPUTE, None);
            story.add(at_ns, tid, Happening::Left { is_preempted: true });
            let later_ns = if nr_cpus > 1 { 70 * LOOK_NS } else { 0 };
            ends_ns = story.runs(tid, at_ns + later_ns, each - each / 2, COMPUTE, None);
        }
        ends_ns
    });
    assert_eq!(verdict.outcome, Outcome::Scales, "{verdict:#?}");
    assert!(
        verdict.notes.iter().any(|note| note.contains("Others on this machine")),
        "{verdict:#?}"
    );
}

/// Four threads' parts are even, but the host takes these looks of each one's CPU: to the guest's kernel they run meanwhile.
fn judge_taken_by_the_host(taken: [u64; 4]) -> Verdict {
    let mut study = Study { unit: "unit".to_owned(), ..Study::default() };
    for nr_cpus in [1, 4] {
        let runs = [400, 404, 396].map(|looks| {
            let mut story = Story::new();
            let each = looks / u64::from(nr_cpus);
            let taken = if nr_cpus > 1 { taken } else { [0; 4] };
            let ends = (1..=nr_cpus).zip(taken);
            let ends = ends.map(|(tid, taken)| {
                let at_ns = story.runs(tid, 0, each + taken, COMPUTE, None);
                (at_ns, tid)
            });
            let ends: Vec<_> = ends.collect();
            let ends_ns = ends.iter().map(|(at_ns, _)| *at_ns).max().unwrap();
            for (at_ns, tid) in ends.into_iter().filter(|(at_ns, _)| *at_ns < ends_ns) {
                story.waits(tid, at_ns, BARRIER);
            }
            let host_stolen_s = taken.map(|looks| (looks * LOOK_NS) as f64 / 1e9).to_vec();
            Run { host_stolen_s, ..story.run(&mut study, nr_cpus, ends_ns) }
        });
        study.points.push(Point { nr_cpus, cpus: String::new(), runs: runs.to_vec() });
    }
    Verdict::of(&study)
}

#[test]
fn what_the_host_of_a_virtual_machine_took_is_no_loss() {
    let verdict = judge_taken_by_the_host([70; 4]);
    assert_eq!(verdict.outcome, Outcome::Scales, "{verdict:#?}");
    assert!(verdict.notes.iter().any(|note| note.contains("and on its host")), "{verdict:#?}");
}

#[test]
fn nobodys_parts_are_uneven_because_the_host_took_one_cpu() {
    // Three wait for as long as it took the fourth one's, and whether that is all is not known.
    let verdict = judge_taken_by_the_host([70, 0, 0, 0]);
    assert!(verdict.culprits.is_empty(), "{verdict:#?}");
}

#[test]
fn runs_that_differ_are_not_judged() {
    let mut study = Study { unit: "unit".to_owned(), ..Study::default() };
    for (nr_cpus, lengths) in [(1, [300, 500, 420]), (4, [330, 560, 400])] {
        let runs = lengths.map(|looks| {
            let mut story = Story::new();
            let each = looks / u64::from(nr_cpus);
            let ends = (1..=nr_cpus).map(|tid| story.runs(tid, 0, each, COUNT, Some(WORD))).max();
            story.run(&mut study, nr_cpus, ends.unwrap())
        });
        study.points.push(Point { nr_cpus, cpus: String::new(), runs: runs.to_vec() });
    }
    let verdict = Verdict::of(&study);
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict:#?}");
    assert!(verdict.culprits.is_empty() && verdict.sentences[0].contains("--repeat"));
    // One run each has no noise to compare with.
    study.points.iter_mut().for_each(|point| point.runs.truncate(1));
    let verdict = Verdict::of(&study);
    assert!(verdict.sentences[0].contains("--repeat"), "{verdict:#?}");
    // And without a second point there is nothing to compare.
    study.points.truncate(1);
    let verdict = Verdict::of(&study);
    assert!(verdict.sentences[0].contains("--cpus"), "{verdict:#?}");
}

#[test]
fn it_is_told_where_the_processor_said_when_to_look() {
    let mut study = Study { unit: "unit".to_owned(), ..Study::default() };
    let mut story = Story::new();
    let ends_ns = story.runs(1, 0, 100, COMPUTE, None);
    let mut run = story.run(&mut study, 1, ends_ns);
    for (clock, is_told) in
        [(None, false), (Some(Clock::Software), false), (Some(Clock::Cycles), true)]
    {
        run.profile.as_mut().unwrap().clock = clock;
        let runs = vec![run.clone(), run.clone()];
        study.points = vec![Point { nr_cpus: 1, cpus: "0".to_owned(), runs }];
        let notes = Verdict::of(&study).notes;
        let told = notes.iter().any(|note| note.contains("the processor's counter of cycles"));
        assert_eq!(told, is_told, "{clock:?}: {notes:?}");
    }
}
