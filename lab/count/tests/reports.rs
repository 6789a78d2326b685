//! Reports of recordings whose numbers are known on paper, and of recordings that say too little.

mod made_up;

use made_up::{MadeUp, geometry};
use quartier_count::{
    CountMode, FORMAT, Level, LevelName, Machine, Mark, Moment, Phase, Recording, Report,
    ReportError,
};
use quartier_memmodel::{Counts, CpuCounts, Kind, Pair, PeakUtilisation, Snapshot, Totals};

/// Two nodes of a CPU each, two hops apart: CPU 0 asks node 1.
fn snapshot(reads: u64, words: u64) -> Snapshot {
    let totals = Totals {
        instructions: 1000 * reads,
        fetches: 500 * reads,
        itlb_misses: 5 * reads,
        modelled_stall_millicycles: 7000 * reads,
        ..Totals::default()
    };
    let busy = CpuCounts { node: 0, totals, modelled_cycles: 500 * reads + 7 * reads };
    let idle = CpuCounts { node: 1, ..CpuCounts::default() };
    let pair = |target: u16, reads: u64, words: u64| Pair {
        initiator: 0,
        target,
        hops: 2 * target,
        commands: [[reads, 0, 0], [0; 3], [0, 0, reads], [0; 3], [0, words, 0], [0; 3]],
        words,
    };
    let mut pairs = vec![pair(0, 3 * reads, 0), pair(1, reads, words)];
    pairs.retain(|pair| pair.nr_commands() > 0);
    Snapshot {
        geometry: geometry(),
        nr_nodes: 2,
        program: Counts { cpus: vec![busy, idle], pairs, ..Counts::default() },
        rest: Counts { cpus: vec![CpuCounts::default(), idle], ..Counts::default() },
        sets_one_in: 1,
        modelled_peak_utilisation: PeakUtilisation::default(),
    }
}

fn mark(at: Moment, reads: u64, words: u64) -> Mark {
    Mark { at, instructions: 1000 * reads, guest_seconds: None, snapshot: snapshot(reads, words) }
}

fn recording(marks: Vec<Mark>) -> Recording {
    Recording {
        format: FORMAT,
        command: vec!["true".to_owned()],
        kernel: "7.3".to_owned(),
        qemu: "10.0".to_owned(),
        machine: Machine { cpus_per_node: vec![1, 1] },
        mode: CountMode::Deterministic,
        under_load: false,
        marks,
        slices: Vec::new(),
        lines: None,
        stalls: None,
        moves: None,
        executed: None,
        parallel: None,
        units: None,
        notes: vec!["A note.".to_owned()],
    }
}

fn whole() -> Recording {
    recording(vec![
        mark(Moment::Start, 0, 0),
        mark(Moment::FirstThread, 100, 10),
        mark(Moment::LastThreadEnded, 1100, 60),
        mark(Moment::End, 1200, 64),
    ])
}

#[test]
fn every_number_follows_from_the_counts() {
    let report = Report::new(&whole(), Phase::Parallel).unwrap();
    let program = &report.program;
    // Of each: 1000 RD and 1000 DTLB there, three times as many here; 50 words there.
    assert_eq!((program.commands.local, program.commands.remote), (6000, 2050));
    assert_eq!(program.remote_percent, Some(100.0 * 2050.0 / 8050.0));
    assert_eq!(program.q_mib, (2000.0 * 64.0 + 50.0 * 4.0) / 1_048_576.0);
    // The words are the kernel's: only its class has stores.
    let parts = [program.q_user_mib, program.q_kernel_mib, program.q_walk_mib];
    assert_eq!(parts, [64_000.0, 200.0, 64_000.0].map(|bytes| bytes / 1_048_576.0));
    assert_eq!(program.energy_mib_hops, 2.0 * program.q_mib);
    assert_eq!(program.mean_hops, Some(2050.0 * 2.0 / 8050.0));
    assert_eq!(program.matrix, [[6000, 2050], [0, 0]]);
    assert_eq!(program.asked[1].remote.as_array(), [1000, 0, 1000, 0, 50, 0]);
    assert_eq!(program.asked[0].local.total(), 6000);
    assert_eq!(program.most_asked()[0].node, 1);
    let reads = &program.kinds[Kind::Read as usize];
    assert_eq!((reads.local, reads.remote, reads.classes[0].remote), (3000, 1000, 1000));
    let classes: Vec<_> = program.classes.iter().map(|class| class.remote).collect();
    assert_eq!(classes, [1000, 50, 1000]);
    assert_eq!(report.rest.remote_percent, None);
    assert_eq!(report.instructions, 1_000_000);
    assert_eq!(report.span(), Some((100_000, 1_100_000)));
}

#[test]
fn what_was_done_divides_what_was_counted() {
    let each = |units| {
        let recording = Recording { units, ..whole() };
        Report::new(&recording, Phase::Parallel).unwrap().per_unit
    };
    let told = each(Some(100.0)).unwrap();
    assert_eq!((told.local, told.remote, told.instructions), (60.0, 20.5, 10_000.0));
    assert_eq!(told.lines_taken, None, "not counted is not none");
    assert_eq!((each(None), each(Some(0.0)), each(Some(f64::INFINITY))), (None, None, None));
}

#[test]
fn commands_by_kind_are_there_for_each_pair_of_nodes() {
    let report = Report::new(&whole(), Phase::Parallel).unwrap();
    let [own, other] = report.program.pairs[..] else { panic!("{:?}", report.program.pairs) };
    assert_eq!((own.from, own.to, own.hops), (0, 0, 0));
    assert_eq!((other.from, other.to, other.hops), (0, 1, 2));
    assert_eq!(own.kinds.as_array(), [3000, 0, 3000, 0, 0, 0]);
    assert_eq!(other.kinds.as_array(), [1000, 0, 1000, 0, 50, 0]);
    assert!(report.rest.pairs.is_empty());
    let program = MadeUp::new(5, 2).report().program;
    assert_eq!(program.pairs.len(), 25);
    for pair in &program.pairs {
        let cell = program.matrix[usize::from(pair.from)][usize::from(pair.to)];
        assert_eq!(pair.kinds.total(), cell, "{pair:?}");
    }
}

#[test]
fn classes_of_q_are_all_of_q_and_words_are_divided_among_stores() {
    for kernel_one_in in [1, 2, 6, u64::MAX] {
        let made_up = MadeUp::new(4, 2).with(|made_up| made_up.kernel_one_in = kernel_one_in);
        let program = made_up.report().program;
        let sum = program.q_user_mib + program.q_kernel_mib + program.q_walk_mib;
        assert!((sum / program.q_mib - 1.0).abs() < 1e-9, "{sum} of {}", program.q_mib);
        assert_eq!(program.q_kernel_mib == 0.0, kernel_one_in == u64::MAX);
        assert_eq!(program.q_user_mib == 0.0, kernel_one_in == 1);
    }
    // Of four stores two are the kernel's, so is half of the words.
    let mut recording = whole();
    for pair in recording.marks.iter_mut().flat_map(|mark| &mut mark.snapshot.program.pairs) {
        pair.commands[Kind::Write as usize] = [2 * pair.words, 2 * pair.words, 0];
    }
    let program = Report::new(&recording, Phase::Parallel).unwrap().program;
    // 50 words; of 100 stores each, 25 moved words.
    let stores = 75.0 * 64.0 + 25.0 * 4.0;
    assert_eq!(program.q_kernel_mib, stores / 1_048_576.0);
    assert_eq!(program.q_user_mib, (64_000.0 + stores) / 1_048_576.0);
}

#[test]
fn modelled_time_is_that_of_the_slowest_cpu() {
    let modelled = Report::new(&whole(), Phase::Parallel).unwrap().modelled;
    assert_eq!(modelled.phase_cycles, 507_000);
    assert_eq!(modelled.phase_ms, Some(507_000.0 / 2_500_000.0));
    assert_eq!((modelled.cpus[0].stall_cycles, modelled.cpus[1].modelled_cycles), (7000, 0));
    assert_eq!((modelled.nr_busy(), modelled.slowest().unwrap().cpu), (1, 0));
}

#[test]
fn hits_are_look_ups_less_misses_and_absent_levels_are_not_listed() {
    let mut recording = whole();
    let report = Report::new(&recording, Phase::Whole).unwrap();
    let itlb = Level {
        name: LevelName::InstructionTlb,
        lookups: 600_000,
        hits: 594_000,
        hit_percent: Some(99.0),
    };
    assert_eq!(report.levels[0], itlb);
    assert_eq!(report.levels.len(), 7);
    assert_eq!(report.levels[6].hit_percent, None);
    for mark in &mut recording.marks {
        mark.snapshot.geometry.l2 = None;
        mark.snapshot.geometry.second_tlb = None;
        mark.snapshot.geometry.walks_enter = quartier_memmodel::geometry::WalksEnter::L1d;
    }
    let levels = Report::new(&recording, Phase::Whole).unwrap().levels;
    assert!(levels.iter().all(|level| !matches!(level.name, LevelName::L2 | LevelName::SecondTlb)));
    assert_eq!(levels.len(), 5);
}

#[test]
fn all_that_was_counted_of_a_server_is_its_load() {
    let mut recording = whole();
    recording.under_load = true;
    recording.marks.retain(|mark| matches!(mark.at, Moment::Start | Moment::End));
    let report = Report::new(&recording, Phase::Whole).unwrap();
    assert_eq!((report.phase, report.phase.name()), (Phase::Load, "time under load"));
    assert_eq!(report.span(), Some((0, report.instructions)));
    let parallel = Report::new(&recording, Phase::Parallel).unwrap_err();
    assert!(matches!(parallel, ReportError::NoSecondThread));
}

#[test]
fn a_mark_that_is_missing_is_said_and_never_zero() {
    let error = |without: &[Moment], phase: Phase| {
        let mut recording = whole();
        recording.marks.retain(|mark| !without.contains(&mark.at));
        Report::new(&recording, phase).unwrap_err()
    };
    assert!(matches!(error(&[Moment::Start], Phase::Whole), ReportError::NoStart));
    assert!(matches!(error(&[Moment::End], Phase::Whole), ReportError::NoEnd));
    let single = [Moment::FirstThread, Moment::LastThreadEnded];
    assert!(matches!(error(&single, Phase::Parallel), ReportError::NoSecondThread));
    let killed = [Moment::LastThreadEnded, Moment::End];
    assert!(matches!(error(&killed, Phase::Parallel), ReportError::NoEnd));
    for error in [error(&[Moment::Start], Phase::Whole), error(&single, Phase::Parallel)] {
        let sentence = error.to_string();
        assert!(sentence.contains("count again") || sentence.contains("ask for"), "{sentence}");
        assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
    }
}

#[test]
fn a_program_that_ends_with_its_threads_has_a_parallel_phase_until_its_end() {
    let mut recording = whole();
    recording.marks.remove(2);
    let report = Report::new(&recording, Phase::Parallel).unwrap();
    assert_eq!(report.instructions, 1_100_000);
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
}

#[test]
fn marks_that_go_backwards_are_refused() {
    let mut recording = whole();
    recording.marks.swap(1, 2);
    (recording.marks[1].at, recording.marks[2].at) = (Moment::FirstThread, Moment::LastThreadEnded);
    let error = Report::new(&recording, Phase::Parallel).unwrap_err();
    assert!(matches!(error, ReportError::Backwards), "{error}");
}

#[test]
fn a_sample_states_the_error_of_its_phase() {
    let mut recording = whole();
    recording.mode = CountMode::Sampled { one_in: 8, error_percent: 1.0 };
    for (at, mark) in recording.marks.iter_mut().enumerate() {
        mark.snapshot.sets_one_in = 8;
        // Only before the parallel phase do sets differ.
        let differs = |set: u64| if at > 0 { 50 * set } else { 0 };
        let by_set = (0..64).map(|set| 100 * at as u64 + differs(set)).collect();
        mark.snapshot.program.remote_bytes_by_set = by_set;
    }
    let error = |phase| match Report::new(&recording, phase).unwrap().mode {
        CountMode::Sampled { one_in: 8, error_percent } => error_percent,
        other => panic!("{other:?}"),
    };
    assert!(error(Phase::Whole) > 0.0);
    assert_eq!(error(Phase::Parallel), 0.0);
}

#[test]
fn counts_near_the_end_of_what_a_counter_holds_are_added_right() {
    let most = i64::MAX as u64;
    let report = MadeUp::new(4, 2).with(|made_up| made_up.commands = most).report();
    let commands = report.program.commands;
    // 125 of 150 parts are parallel.
    let share = commands.total() as f64 / (most as f64 * 125.0 / 150.0);
    assert!((share - 1.0).abs() < 0.05, "{share}");
    assert!(report.program.q_mib > 1e13 && report.program.q_mib.is_finite());
    assert_eq!(
        report.program.kinds.iter().map(|kind| kind.remote).sum::<u64>(),
        report.program.commands.remote
    );
}

#[test]
fn a_report_is_read_again_as_it_was() {
    let report = MadeUp::new(4, 2).report();
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    for part in ["\"phase\":\"parallel\"", "\"LL/SC\":", "\"modelled\":", "\"frequency_mhz\":2500"]
    {
        assert!(json.contains(part), "{part}: {json}");
    }
}
