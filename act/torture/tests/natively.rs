//! The hazards and the random tester on this machine: plainly, and under `quartier run`. Which rung
//! there is depends on the kernel and on rights; what had to be skipped is printed.

mod common;

use std::process::Command;

use common::{
    Ended, HAZARDS, SKIPPED, operations, programs, quartier, run, torture, under_quartier,
};

/// Runs a hazard program plainly (the program itself must be right) and under `quartier run`.
fn hazard(name: &str) {
    let arguments = HAZARDS.iter().filter(|(program, _)| *program == name);
    for (_, arguments) in arguments.inspect(|hazard| println!("{hazard:?}")) {
        let program = programs().join(name);
        judge("plainly", &run(Command::new(&program).args(*arguments), 60));
        judge("under quartier run", &run(under_quartier(&program).args(*arguments), 90));
    }
}

fn judge(how: &str, ended: &Ended) {
    match ended.status {
        0 => {}
        SKIPPED => println!("{how}: {}", ended.said.trim()),
        status => panic!("{how}: status {status}: {}", ended.said),
    }
}

macro_rules! hazards {
    ($($test:ident: $program:literal,)+) => {
        $(#[test]
        fn $test() {
            hazard($program);
        })+

        #[test]
        fn every_hazard_has_a_test() {
            let tested = [$($program,)+];
            for (program, _) in HAZARDS {
                assert!(tested.contains(program), "{program} has no test");
            }
        }
    };
}

hazards! {
    threads_end_by_cancel_and_exit: "cancel_exit",
    children_of_a_placed_thread_have_the_users_affinity: "child_affinity",
    a_program_may_close_every_descriptor_and_become_a_daemon: "close_all",
    signals_that_dump_core_end_the_program: "core_signals",
    exec_with_threads_lets_the_old_memory_go: "exec_threads",
    a_program_that_loses_rights_goes_on: "fewer_rights",
    children_inherit_no_lock_of_the_runtimes: "fork_storm",
    memory_moves_to_where_other_was_freed: "freed_and_moved",
    whoever_kills_the_helper_loses_no_data: "helper_killed",
    a_program_with_nothing_special_runs: "just_runs",
    the_kernel_reads_and_writes_for_the_program: "kernel_io",
    a_limit_on_memory_is_left_to_the_program: "little_room",
    locked_shared_file_and_wiped_memory_is_right: "locked_shared",
    very_many_mappings_leave_the_program_enough: "many_mappings",
    other_data_in_the_place_of_marked_is_marked_too: "mapped_again",
    memory_moved_away_in_very_many_pieces: "many_pieces",
    large_blocks_are_resized_in_several_threads: "resized_blocks",
    mremap_that_keeps_the_old_place: "mremap_dontunmap",
    mappings_change_while_others_mark: "mremap_race",
    parts_are_mapped_anew_while_others_mark: "map_race",
    memory_with_a_policy_stays: "own_policy",
    a_stack_in_marked_memory_is_left_to_its_thread: "own_stack",
    a_program_sees_only_its_own_threads_and_children: "own_threads",
    a_program_may_use_userfaultfd_itself: "own_userfaultfd",
    pages_merged_with_equal_ones: "same_pages",
    a_debugger_reads_marked_memory: "ptrace_peek",
    a_raw_fork_has_all_data: "raw_fork",
    children_that_share_memory_or_come_unseen: "shared_children",
    a_stopped_program_goes_on: "stop_continue",
    a_program_stopped_while_its_helper_starts_goes_on: "stopped_starts",
    threads_get_the_attributes_asked_for: "thread_attributes",
    a_fork_past_the_c_library_has_all_data: "unseen_fork",
}

#[test]
fn many_threads_one_after_another_and_at_once() {
    let program = programs().join("many_threads");
    judge("under quartier run", &run(under_quartier(&program).args(["10000", "1000"]), 120));
}

#[test]
fn marks_while_the_helper_goes_home_come_to_an_end() {
    let program = programs().join("going_home");
    let mut command = Command::new(quartier());
    command.args(["run", "--force", "--quiet", "--helper-idle-ms", "1", "--"]).arg(&program);
    judge("under quartier run", &run(&mut command, 60));
}

/// With the machine's core pattern as it is: where it is not a plain file, guests test it.
#[test]
fn a_core_holds_what_the_memory_held() {
    judge("under quartier run", &run(&mut under_quartier(&programs().join("core_dump")), 60));
}

#[test]
fn an_affinity_set_outside_or_inside_is_kept() {
    for name in ["thread_attributes", "child_affinity"] {
        let program = programs().join(name);
        let run_line = under_quartier(&program);
        let mut outside = Command::new("taskset");
        outside.args(["-c", "1"]).arg(run_line.get_program()).args(run_line.get_args());
        judge("taskset outside", &run(&mut outside, 60));
        let taskset = std::path::Path::new("/usr/bin/taskset");
        judge("taskset inside", &run(under_quartier(taskset).args(["-c", "1"]).arg(&program), 60));
    }
}

#[test]
fn an_openmp_program_bound_to_places_stays_there() {
    let bound = [("OMP_PLACES", "threads"), ("OMP_PROC_BIND", "close")];
    let program = programs().join("openmp_places");
    judge("plainly", &run(Command::new(&program).envs(bound), 60));
    judge("under quartier run", &run(under_quartier(&program).envs(bound), 60));
}

#[test]
fn a_program_under_numactl_stays_there() {
    let program = programs().join("bound_outside");
    let run_line = under_quartier(&program);
    for options in [&["--physcpubind=1"][..], &["--physcpubind=1", "--membind=0"]] {
        let mut outside = Command::new("numactl");
        outside.args(options).arg(run_line.get_program()).args(run_line.get_args());
        judge("under quartier run", &run(&mut outside, 60));
    }
}

#[test]
fn a_static_program_runs_and_the_reason_is_said() {
    let program = programs().join("just_runs_static");
    let ended = run(Command::new(quartier()).args(["run", "--force", "--"]).arg(&program), 30);
    assert_eq!(ended.status, 0, "{}", ended.said);
    assert!(ended.said.contains("ok\n"), "{}", ended.said);
    assert!(ended.said.contains("statically linked"), "{}", ended.said);
}

#[test]
fn a_setuid_program_runs_and_the_reason_is_said() {
    // SAFETY: a query.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can make a program that becomes somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("becomes_nobody");
    std::fs::copy(programs().join("just_runs"), &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&program, mode).unwrap();
    let ended = run(Command::new(quartier()).args(["run", "--force", "--"]).arg(&program), 30);
    assert_eq!(ended.status, 0, "{}", ended.said);
    assert!(ended.said.contains("gains privileges"), "{}", ended.said);
}

/// Helpers of a program, by its path: a helper shares the program's memory, command line included.
fn helpers_of(program: &std::path::Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let text = |path: std::path::PathBuf| std::fs::read(path).unwrap_or_default();
    let path = program.to_str().unwrap();
    processes
        .filter(|process| text(process.join("comm")) == b"quartier-helper\n")
        .filter(|process| String::from_utf8_lossy(&text(process.join("cmdline"))).contains(path))
        .count()
}

#[test]
fn a_killed_program_leaves_no_helper() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("killed");
    std::fs::copy(programs().join("killed"), &program).unwrap();
    // The shell tells when the program has marked; then it and all its threads are killed.
    let script = "q=$1; p=$2; \"$q\" run --force --quiet -- \"$p\" > \"$p.out\" 2>&1 & \
        for n in 1 2 3 4 5 6 7 8 9; do sleep 0.3; grep -q ready \"$p.out\" && break; done; \
        sleep 0.3; pkill -KILL -x -f \"$p\" ; wait $!; echo status $?";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(quartier()).arg(&program);
    let ended = run(&mut shell, 30);
    assert!(ended.said.contains("status 137"), "{}", ended.said);
    for _ in 0..20 {
        if helpers_of(&program) == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("a helper is left 2 s after its program was killed");
}

#[test]
fn random_operations_differ_nowhere_plainly() {
    let operations = operations(200_000).to_string();
    let ended = run(Command::new(torture()).args(["--ops", &operations]), 300);
    println!("{}", ended.said);
    assert_eq!(ended.status, 0, "{}", ended.said);
}

#[test]
fn random_operations_differ_nowhere_under_quartier_run() {
    let operations = operations(100_000).to_string();
    let (wide, narrow) = (["--threads", "8", "--mib", "32"], ["--threads", "3", "--mib", "4"]);
    // On a machine with one node every page is local already: copying is asked for.
    let runs = [
        (&[][..], narrow),
        (&["--always-copy"], wide),
        (&["--always-copy", "--helper-idle-ms", "1"], narrow),
        // Blocks of a page: whatever the helper itself needs must not be among them.
        (&["--always-copy", "--block", "4K", "--block-max", "64K"], narrow),
        (&[], wide),
    ];
    for (options, sizes) in runs {
        let mut command = Command::new(quartier());
        command.args(["run", "--force", "--quiet"]).args(options).arg("--").arg(torture());
        let ended = run(command.args(["--ops", &operations]).args(sizes), 600);
        println!("{options:?} {sizes:?}: {}", ended.said);
        assert_eq!(ended.status, 0, "{options:?} {sizes:?}: {}", ended.said);
    }
}
