//! Verdicts on runs that were counted in guests: modelled time, by lines of memory.

use quartier_decide::verdict::{
    Class, Cost, Counted, Memory, Outcome, Point, Profile, Run, Sharing, Spent, Study, Verdict,
};
use quartier_model::{Frame, KERNEL_MODULE, PROGRAM_MODULE};

/// Of a run's CPU time, in seconds for each unit: what costs something.
#[derive(Clone, Copy, Default)]
struct Made {
    /// A word that `count` takes, its user's or (`kernel`) of the kernel's.
    word_s: f64,
    line_s: f64,
    kernel_lock_s: f64,
    instructions_s: f64,
    stalls_s: f64,
    unused_s: f64,
    /// `count` waits for `slots`, of its own node and of others.
    near_s: f64,
    far_s: f64,
    /// `count` calls the kernel, which executes more, and waits for memory of its own that has no name.
    call_s: f64,
    call_far_s: f64,
    /// And `beside` does.
    call_beside_s: f64,
    /// The kernel moves pages where `count` faults on them, so that there is less to do for others, and looks who uses which.
    balancing_s: f64,
    beside_balancing_s: f64,
    /// CPUs idle beside parts of `cc1` that all of them run, of its threads' `work`, of one of its `link`s that one runs, and
    /// of `ld` that one runs.
    beside_main_s: f64,
    beside_work_s: f64,
    beside_link_s: f64,
    beside_ld_s: f64,
    remote_percent: f64,
    busiest_percent: f64,
    memories_busy_percent: Option<f64>,
}

const COUNT: u32 = 0;
const BESIDE: u32 = 1;
const SPIN: u32 = 2;
const CALLED: u32 = 3;
const CALLEE: u32 = 4;
const CC1: u32 = 5;
const LD: u32 = 6;
const MAIN: u32 = 7;
const WORK: u32 = 8;
const LINK: u32 = 9;
const FAULT: u32 = 10;
const MISPLACED: u32 = 11;
const WORK_OF_BALANCING: u32 = 12;

fn study(few: Made, many: Made) -> Study {
    let frame = |function: &str, module: &str| Frame {
        function: function.to_owned(),
        module: module.to_owned(),
        line: None,
    };
    let mut study = Study {
        unit: "unit".to_owned(),
        is_modelled: true,
        frames: vec![
            frame("count", "a"),
            frame("beside", "a"),
            frame("_raw_spin_lock", KERNEL_MODULE),
            frame("__x64_sys_munmap", KERNEL_MODULE),
            frame("unmap_region", KERNEL_MODULE),
            frame("cc1", PROGRAM_MODULE),
            frame("ld", PROGRAM_MODULE),
            frame("main", "a"),
            frame("work", "a"),
            frame("link", "a"),
            frame("exc_page_fault", KERNEL_MODULE),
            frame("migrate_misplaced_folio", KERNEL_MODULE),
            frame("task_numa_work", KERNEL_MODULE),
        ],
        objects: vec!["total".to_owned(), "slots".to_owned(), "mount_lock".to_owned()],
        ..Study::default()
    };
    for (nr_cpus, made) in [(4, few), (32, many)] {
        // Threads meet differently each time.
        let runs = [1.0, 1.02, 0.99].map(|part| run(nr_cpus, &made, part)).to_vec();
        study.points.push(Point { nr_cpus, cpus: String::new(), runs });
    }
    study
}

fn run(nr_cpus: u32, made: &Made, part: f64) -> Run {
    let cost = |stack: Vec<u32>, object, sharing, spent, ran_s: f64, idle_s: f64| Cost {
        stack,
        object,
        sharing,
        spent,
        ran_s: ran_s * part,
        idle_s: idle_s * part,
        ..Cost::default()
    };
    let waits = |memory, ran_s| Cost {
        memory: Some(memory),
        ..cost(vec![COUNT], Some(1), None, None, ran_s, 0.0)
    };
    let call = |memory, ran_s| Cost {
        memory,
        ..cost(vec![COUNT, CALLED, CALLEE], None, None, None, ran_s, 0.0)
    };
    // All of it was found running on the busiest CPU alone, or as much on each.
    let beside = |stack, is_alone, idle_s: f64| Cost {
        nr_samples: if idle_s > 0.0 { 100 } else { 0 },
        ran_beside_idle_s: if is_alone && idle_s > 0.0 { 0.1 * part } else { 0.0 },
        ..cost(stack, None, None, None, if idle_s > 0.0 { 0.1 } else { 0.0 }, idle_s)
    };
    let costs = vec![
        beside(vec![CC1, MAIN, COUNT], false, made.beside_main_s),
        beside(vec![CC1, WORK], false, made.beside_work_s),
        beside(vec![CC1, MAIN, LINK], true, made.beside_link_s),
        beside(vec![LD, MAIN], true, made.beside_ld_s),
        call(None, made.call_s),
        call(Some(Memory::Far), made.call_far_s),
        cost(vec![BESIDE, CALLED, CALLEE], None, None, None, made.call_beside_s, 0.0),
        cost(vec![COUNT, FAULT, MISPLACED, CALLEE], None, None, None, made.balancing_s, 0.0),
        beside(vec![CC1, COUNT, WORK_OF_BALANCING, CALLEE], false, made.beside_balancing_s),
        waits(Memory::Near, made.near_s),
        waits(Memory::Far, made.far_s),
        cost(vec![COUNT], Some(0), Some(Sharing::Word), None, made.word_s, 0.0),
        cost(vec![BESIDE], Some(1), Some(Sharing::Line), None, made.line_s, 0.0),
        cost(vec![SPIN], Some(2), Some(Sharing::Word), None, made.kernel_lock_s, 0.0),
        cost(vec![], None, None, Some(Spent::Instructions), made.instructions_s, 0.0),
        cost(vec![], None, None, Some(Spent::Stalls), made.stalls_s, 0.0),
        cost(vec![], None, None, Some(Spent::Nothing), 0.0, made.unused_s),
    ];
    let ran_s = costs.iter().map(|cost| cost.ran_s).sum::<f64>();
    let idle_s = costs.iter().map(|cost| cost.idle_s).sum::<f64>();
    let nr_remote = (10.0 * made.remote_percent) as u64;
    Run {
        units: 1.0,
        wall_s: (ran_s + idle_s) / f64::from(nr_cpus),
        profile: Some(Profile { ran_s, idle_s, costs, ..Profile::default() }),
        counted: Some(Counted {
            nr_instructions: 1_000,
            instructions_s: made.instructions_s,
            stalls_s: made.stalls_s + made.word_s + made.line_s,
            nr_local: 1_000 - nr_remote,
            nr_remote,
            nr_taken: 100,
            busiest_percent: made.busiest_percent,
            memories_busy_percent: made.memories_busy_percent,
        }),
        ..Run::default()
    }
}

/// What everybody begins with.
const FEW: Made = Made {
    word_s: 0.1,
    line_s: 0.1,
    kernel_lock_s: 0.1,
    instructions_s: 1.0,
    stalls_s: 0.5,
    unused_s: 0.05,
    near_s: 0.1,
    far_s: 0.0,
    call_s: 0.1,
    call_far_s: 0.05,
    call_beside_s: 0.05,
    balancing_s: 0.0,
    beside_balancing_s: 0.0,
    beside_main_s: 0.0,
    beside_work_s: 0.0,
    beside_link_s: 0.0,
    beside_ld_s: 0.0,
    remote_percent: 20.0,
    busiest_percent: 10.0,
    memories_busy_percent: None,
};

/// The only culprit.
fn only(many: Made) -> (Option<Class>, String, Option<String>) {
    let verdict = Verdict::of(&study(FEW, many));
    assert_eq!(verdict.outcome, Outcome::Loses, "{verdict:#?}");
    assert_eq!(verdict.culprits.len() + verdict.undetermined.len(), 1, "{verdict:#?}");
    let mut all = verdict.culprits.into_iter().chain(verdict.undetermined);
    let culprit = all.next().unwrap();
    assert!(culprit.share_percent > 80.0, "{culprit:#?}");
    (culprit.class, culprit.function, culprit.object)
}

fn named(many: Made, class: Class, function: &str, object: Option<&str>) {
    let found = only(many);
    assert_eq!((found.0, found.1.as_str(), found.2.as_deref()), (Some(class), function, object));
}

#[test]
fn lines_that_cost_more_are_named_with_what_lies_there() {
    named(Made { word_s: 1.5, ..FEW }, Class::BouncingLine, "count", Some("total"));
    named(Made { line_s: 1.5, ..FEW }, Class::FalseSharing, "beside", Some("slots"));
    let many = Made { kernel_lock_s: 1.5, ..FEW };
    named(many, Class::Lock, "_raw_spin_lock", Some("mount_lock"));
}

#[test]
fn what_the_kernel_executes_and_waits_for_is_told_with_what_it_was_entered_for() {
    let many = Made { call_s: 0.6, call_far_s: 0.7, ..FEW };
    let found = only(many);
    assert_eq!((found.0, found.2), (Some(Class::KernelPath), None));
    assert!(found.1.contains("munmap()") && found.1.contains("count"), "{}", found.1);
}

/// At faults, and beside idle CPUs: it is one reason with one cure.
#[test]
fn what_the_kernel_does_to_balance_memory_is_told_as_that() {
    let many = Made { balancing_s: 0.6, beside_balancing_s: 0.7, ..FEW };
    named(many, Class::NumaBalancing, "NUMA balancing", None);
    let verdict = Verdict::of(&study(FEW, many));
    let sentence = verdict.culprits[0].sentence();
    assert!(sentence.contains("moves them"), "{sentence}");
    assert!(Class::NumaBalancing.cure().contains("kernel.numa_balancing=0"));
}

/// Each of those who enter it costs too little more to be named, and together they do not.
#[test]
fn what_the_kernel_is_entered_for_is_named_where_no_one_function_is() {
    let many = Made { word_s: 8.1, call_s: 0.7, call_beside_s: 0.6, ..FEW };
    let verdict = Verdict::of(&study(FEW, many));
    let named: Vec<_> =
        verdict.culprits.iter().map(|of| (of.class, of.function.as_str())).collect();
    assert_eq!(
        named,
        [(Some(Class::BouncingLine), "count"), (Some(Class::KernelPath), "munmap()")],
        "{verdict:#?}"
    );
    let kernel = &verdict.culprits[1];
    assert!((kernel.per_unit_s.by() - 1.15).abs() < 0.01, "{kernel:#?}");
    assert_eq!(kernel.contexts.len(), 2, "where it grew: {kernel:#?}");
    let rest = verdict.rest.unwrap();
    assert!(rest.parts.is_empty() && rest.share_percent.abs() < 1.0, "{rest:#?}");
}

#[test]
fn cpus_with_nothing_to_do_are_their_programs_or_the_functions_that_says_more() {
    let made = Made { beside_ld_s: 2.0, ..FEW };
    named(made, Class::SerialPart, "ld", None);
    let made = Made { beside_link_s: 2.0, ..FEW };
    named(Made { beside_main_s: 0.1, ..made }, Class::SerialPart, "link", None);
    // `main` says less than what its program is called, and so does one of several functions.
    let made = Made { beside_main_s: 2.0, ..FEW };
    named(made, Class::Imbalance, "cc1", None);
    named(Made { beside_work_s: 1.6, ..made }, Class::Imbalance, "cc1", None);
    let made = Made { beside_work_s: 2.0, ..FEW };
    named(Made { beside_main_s: 0.2, ..made }, Class::Imbalance, "work", None);
}

#[test]
fn stalls_are_remote_memory_or_too_much_of_it_or_nothing_with_a_name() {
    let far = Made { stalls_s: 2.0, remote_percent: 75.0, ..FEW };
    assert_eq!(only(far).0, Some(Class::RemoteMemory));
    let busy = Made { busiest_percent: 90.0, ..far };
    assert_eq!(only(busy).0, Some(Class::MemoryBandwidth));
    let near = Made { stalls_s: 2.0, ..FEW };
    assert_eq!(only(near).0, None);
}

#[test]
fn who_waits_for_memory_is_named_with_what_lies_there() {
    // All on one node, which is busy, and the others have time: it lies in the wrong place.
    let misplaced =
        Made { far_s: 1.5, busiest_percent: 95.0, memories_busy_percent: Some(25.0), ..FEW };
    named(misplaced, Class::RemoteMemory, "count", Some("slots"));
    let all_busy = Made { memories_busy_percent: Some(90.0), ..misplaced };
    named(all_busy, Class::MemoryBandwidth, "count", Some("slots"));
    let near = Made { near_s: 1.5, far_s: 0.1, ..misplaced };
    named(near, Class::MemoryBandwidth, "count", Some("slots"));
    let sentence = Verdict::of(&study(FEW, misplaced)).sentences[1].clone();
    assert!(
        sentence.contains("`count` waits for memory of other nodes, that of `slots`"),
        "{sentence}"
    );
}

#[test]
fn waiting_for_ones_own_memory_that_is_not_busy_is_no_culprit() {
    let verdict = Verdict::of(&study(FEW, Made { near_s: 1.5, ..FEW }));
    assert!(verdict.culprits.is_empty() && verdict.undetermined.len() == 1, "{verdict:#?}");
    let told = verdict.sentences.last().unwrap();
    assert!(told.contains("`count` with `slots` takes longer"), "{told}");
    assert!(told.contains("caches hold less"), "{told}");
}

#[test]
fn what_is_spread_over_many_places_is_told_by_the_largest_and_nobody_is_blamed() {
    const NR: u32 = 30;
    let mut study = Study { unit: "unit".to_owned(), is_modelled: true, ..Study::default() };
    study.frames = (0..NR)
        .map(|nr| Frame { function: format!("f{nr}"), module: "a".to_owned(), line: None })
        .collect();
    for (nr_cpus, more) in [(1, 0.0), (8, 1.0)] {
        let runs = [1.0, 1.002, 0.999].map(|part| {
            let cost = |nr: u32| {
                // The first has a little more than the others.
                let own = if nr == 0 { 1.5 } else { 1.0 };
                let ran_s = (1.0 + own * more) * part;
                Cost { stack: vec![nr], ran_s, ..Cost::default() }
            };
            let costs: Vec<_> = (0..NR).map(cost).collect();
            let ran_s = costs.iter().map(|cost| cost.ran_s).sum();
            let profile = Profile { ran_s, costs, ..Profile::default() };
            let wall_s = ran_s / f64::from(nr_cpus);
            Run { units: 1.0, wall_s, profile: Some(profile), ..Run::default() }
        });
        study.points.push(Point { nr_cpus, cpus: String::new(), runs: runs.to_vec() });
    }
    let verdict = Verdict::of(&study);
    assert_eq!(verdict.outcome, Outcome::Loses, "{verdict:#?}");
    assert!(verdict.culprits.is_empty(), "{verdict:#?}");
    assert_eq!(verdict.undetermined[0].function, "f0");
    assert!(verdict.undetermined.len() < NR as usize / 2, "{verdict:#?}");
    let told = verdict.sentences.last().unwrap();
    assert!(told.contains("spread over places") && told.contains("`f0` (5 %)"), "{told}");
}

/// Names and the rest are all of it.
#[test]
fn what_nobody_is_named_for_is_told_by_what_it_is() {
    let many = Made { word_s: 1.5, call_s: 0.15, call_far_s: 0.1, line_s: 0.09, ..FEW };
    let verdict = Verdict::of(&study(FEW, many));
    assert_eq!(verdict.culprits.len(), 1, "{verdict:#?}");
    let rest = verdict.rest.unwrap();
    let parts: f64 = rest.parts.iter().map(|part| part.share_percent).sum();
    let all = verdict.culprits[0].share_percent + parts + rest.others_percent;
    assert!((all - 100.0).abs() < 1e-6, "{rest:#?}");
    // What the kernel executes and what it waits for are one; what costs less on more CPUs is with all else.
    assert_eq!(rest.parts.len(), 1, "{rest:#?}");
    assert_eq!(rest.parts[0].what, "the kernel, entered for munmap()");
    assert!((rest.parts[0].per_unit_s.by() - 0.1).abs() < 0.01, "{rest:#?}");
    assert!(rest.others_percent < 0.0, "{rest:#?}");
    let nothing_lost = Verdict::of(&study(FEW, FEW));
    assert_eq!(nothing_lost.rest, None);
}

#[test]
fn what_no_place_is_known_of_is_told_and_not_blamed_on_anybody() {
    for (many, part) in [
        (Made { instructions_s: 3.0, ..FEW }, "more instructions"),
        (Made { unused_s: 2.0, ..FEW }, "less to do"),
        (Made { stalls_s: 2.0, ..FEW }, "neither a line"),
    ] {
        let verdict = Verdict::of(&study(FEW, many));
        assert!(verdict.culprits.is_empty(), "{verdict:#?}");
        let told = verdict.sentences.last().unwrap();
        assert!(told.contains("Nothing is named") && told.contains(part), "{told}");
        assert!(!told.contains("hardware counters"), "{told}");
    }
}

#[test]
fn what_costs_the_same_scales_and_its_times_are_said_to_be_modelled() {
    let verdict = Verdict::of(&study(FEW, FEW));
    assert_eq!(verdict.outcome, Outcome::Scales, "{verdict:#?}");
    assert!(verdict.sentences[0].contains("modelled CPU time"), "{verdict:#?}");
    assert!(verdict.notes.iter().any(|note| note.contains("not measured")), "{verdict:#?}");
}

#[test]
fn a_study_that_was_counted_is_read_again() {
    let study = study(FEW, Made { word_s: 1.5, ..FEW });
    let text = serde_json::to_string(&study).unwrap();
    assert_eq!(serde_json::from_str::<Study>(&text).unwrap(), study);
}
