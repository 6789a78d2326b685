//! `quartier scale --allocations`: memory that was allocated is named by who did, and no program comes to harm.

mod common;
#[path = "../../../tests/programs/stops_scaling.rs"]
mod stops_scaling;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{program, quartier};
use serde_json::Value;
use stops_scaling::{Named, Tries};

/// In C++, what allocates is in a library.
const IN_CPP: &str = r#"
    #include <cstdio>
    #include <cstdlib>
    #include <thread>
    #include <vector>
    struct counter { volatile long nr; long other; };
    __attribute__((noinline)) counter *make_counters(int nr) {
        counter *all = new counter[nr + 4]();
        while (reinterpret_cast<unsigned long>(all) % 64) all++;
        return all;
    }
    __attribute__((noinline)) void count_own(counter *own) {
        for (int i = 0; i < 2000; i++) own->nr = own->nr + 1;
    }
    int main(int, char **words) {
        int nr = std::atoi(words[1]);
        long units = std::atol(words[2]);
        counter *all = make_counters(nr);
        std::vector<std::thread> threads;
        for (int i = 0; i < nr; i++)
            threads.emplace_back([=] { for (long n = 0; n < units / nr; n++) count_own(all + i); });
        for (auto &thread : threads) thread.join();
        std::printf("units: %ld\n", units);
    }
"#;

/// An allocator of a program's own, in a library, which ends whoever frees what is not from there.
const ALLOCATOR: &str = r#"
    #define _GNU_SOURCE
    #include <stddef.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    enum { HEAD = 16, ROOM = 64 << 20, MARK = 0x5157 };
    static char *room;
    static size_t used;
    void *malloc(size_t bytes) {
        char *at = __atomic_load_n(&room, __ATOMIC_ACQUIRE), *none = NULL;
        if (!at) {
            at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (!__atomic_compare_exchange_n(&room, &none, at, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) at = none;
        }
        size_t all = (HEAD + bytes + 15) / 16 * 16, begin = __atomic_fetch_add(&used, all, __ATOMIC_RELAXED);
        if (begin + all > ROOM) return NULL;
        ((size_t *)(at + begin))[0] = MARK, ((size_t *)(at + begin))[1] = bytes;
        return at + begin + HEAD;
    }
    static size_t *head(void *block) {
        size_t *head = (size_t *)block - 2;
        if (head[0] != MARK) _exit(99);
        return head;
    }
    void free(void *block) { if (block) head(block); }
    void *calloc(size_t nr, size_t bytes) { return malloc(nr * bytes); }
    void *realloc(void *block, size_t bytes) {
        void *new = malloc(bytes);
        if (block && new) memcpy(new, block, head(block)[1] < bytes ? head(block)[1] : bytes);
        return new;
    }
"#;
/// Which has threads free what others allocated.
const USES_ALLOCATOR: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static void *work(void *kept) {
        for (int i = 0; i < 10000; i++) free(realloc(strdup("some text"), 100));
        free(kept);
        return calloc(3, 5);
    }
    int main(void) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, malloc(100));
        for (int i = 0; i < 2; i++) {
            void *made;
            pthread_join(threads[i], &made);
            free(made);
        }
        puts("units: 1");
    }
"#;

/// One at a time: what others run takes the CPUs that are measured.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nr_cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// On one CPU and on two.
fn scale(repeat: &str, command: &[&str]) -> Output {
    let _alone = alone();
    // Before others, where that is allowed: in a session of its own, so that nobody else's priority changes.
    let script = "echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 \"$@\"";
    let mut run = Command::new("setsid");
    run.args(["--wait", "sh", "-c", script, "sh"]).arg(quartier()).args(["scale", "--allocations"]);
    run.args(["--cpus", "1,2", "--repeat", repeat, "--metric", "units: ([0-9]+)", "--json", "-"]);
    run.arg("--").args(command).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A sweep; `None`: nothing can be profiled here, or there is nothing to scale over.
fn sweep(command: &[&str]) -> Option<Value> {
    if nr_cpus() < 2 {
        println!("skipped: one CPU");
        return None;
    }
    let report = report(&scale("5", command));
    let complaints = report["complaints"].to_string();
    if complaints.contains("profiles are not permitted") || complaints.contains("no perf events") {
        println!("skipped: {complaints}");
        return None;
    }
    assert!(!complaints.contains("has no names"), "{complaints}");
    println!("{}", report["verdict"]["sentences"]);
    Some(report)
}

/// The first one is as expected, and next to nothing is laid upon others.
fn found(command: &[&str], class: &str, function: &str, object: &str) {
    let is = |named: &Named| {
        named.class.as_deref() == Some(class)
            && named.function.starts_with(function)
            && named.object.as_ref().is_some_and(|of| of.starts_with(object))
    };
    let mut tries = Tries::begin();
    while tries.go_on() {
        let Some(report) = sweep(command) else { return };
        if tries.is_right(&report, is) {
            return;
        }
    }
    tries.end();
}

fn allocates() -> String {
    program("allocates").to_str().unwrap().to_owned()
}

/// Compiles a source beside the command; `None`: there is no such compiler, or it cannot.
fn compiled(compiler: &str, options: &[&str], source: &Path, name: &str) -> Option<String> {
    let built = quartier().with_file_name(name);
    let mut compile = Command::new(compiler);
    compile.args(["-O2", "-pthread"]).args(options).arg("-o").args([&built, source]);
    let is_built = compile.output().is_ok_and(|output| output.status.success());
    if !is_built {
        println!("skipped: {compiler} {options:?} does not compile here");
    }
    is_built.then(|| built.to_str().unwrap().to_owned())
}

#[test]
fn blocks_of_memory_side_by_side_are_found_with_who_allocated_them() {
    let command: [&str; 4] = [&allocates(), "sharing", "{cpus}", "500000"];
    found(&command, "false-sharing", "count_own", "memory from make_counters");
}

#[test]
fn a_word_that_was_allocated_and_bounces_is_found_with_who_allocated_it() {
    let command: [&str; 4] = [&allocates(), "counter", "{cpus}", "3000000"];
    found(&command, "bouncing-line", "count_together", "memory from make_total");
}

#[test]
fn a_lock_that_was_allocated_is_found_with_who_allocated_it() {
    let command: [&str; 4] = [&allocates(), "lock", "{cpus}", "1000000"];
    found(&command, "lock", "add_to_queue", "memory from make_queue");
}

#[test]
fn memory_of_operator_new_is_from_who_calls_it() {
    let source = tempfile::Builder::new().suffix(".cpp").tempfile().unwrap();
    std::fs::write(source.path(), IN_CPP).unwrap();
    let Some(program) = compiled("c++", &["-std=c++11"], source.path(), "allocates_in_cpp") else {
        return;
    };
    let command: [&str; 3] = [&program, "{cpus}", "500000"];
    found(&command, "false-sharing", "count_own", "memory from make_counters");
}

#[test]
fn a_program_that_allocates_in_every_way_is_not_harmed() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seed.subsec_nanos().to_string();
    println!("seed {seed}");
    // It is right by itself.
    let plain = Command::new(allocates()).args(["all", &seed]).output().unwrap();
    assert!(plain.status.success(), "{plain:?}");
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let report = report(&scale("2", &[&allocates(), "all", &seed]));
    for point in report["study"]["points"].as_array().unwrap() {
        assert_eq!(point["runs"].as_array().unwrap().len(), 2, "{report:#}");
    }
    let complaints = report["complaints"].to_string();
    assert!(!complaints.contains("has no names") && !complaints.contains("failed"), "{complaints}");
}

#[test]
fn what_an_allocator_of_the_programs_own_frees_is_from_there() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, text, options) in [
        ("allocator", ALLOCATOR, &["-shared", "-fPIC", "-fno-builtin"][..]),
        ("uses", USES_ALLOCATOR, &["-fno-builtin", "-Wl,--no-as-needed", &at("allocator.so")]),
    ] {
        std::fs::write(at(&format!("{name}.c")), text).unwrap();
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-pthread", "-o", &at(&format!("{name}.so"))]);
        let status = compile.arg(at(&format!("{name}.c"))).args(options).status().unwrap();
        assert!(status.success(), "{name}");
    }
    let plain = Command::new(at("uses.so")).output().unwrap();
    assert!(plain.status.success(), "{plain:?}");
    let report = report(&scale("2", &[&at("uses.so")]));
    let complaints = report["complaints"].to_string();
    assert!(!complaints.contains("failed") && !complaints.contains("has no names"), "{complaints}");
}

#[test]
fn a_program_that_nothing_can_be_loaded_into_runs_without_names() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/allocates.c");
    let Some(program) = compiled("cc", &["-static"], &source, "allocates_static") else { return };
    let said = |command: &[&str]| {
        let report = report(&scale("1", command));
        for point in report["study"]["points"].as_array().unwrap() {
            assert_eq!(point["runs"][0]["units"], 1.0, "{report:#}");
        }
        report["complaints"].to_string()
    };
    assert!(said(&[&program, "all", "1"]).contains("statically linked"));
    // A shell, of which it is known, becomes it.
    let script = format!("exec {program} all 1");
    assert!(!said(&["sh", "-c", &script]).contains("failed"));
}

#[test]
fn what_is_preloaded_anyway_stays_and_no_table_is_left() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let others = "libm.so.6";
    let _alone = alone();
    let script = "echo units: 1; echo \"$LD_PRELOAD\" >>\"$0\"; echo \"$QUARTIER_SITES\" >>\"$0\"";
    let seen = tempfile::NamedTempFile::new().unwrap();
    let seen_path = seen.path().to_str().unwrap();
    let mut run = Command::new(quartier());
    run.env("LD_PRELOAD", others).args(["scale", "--allocations", "--cpus=1,2", "--repeat=1"]);
    let output = run.args(["--", "sh", "-c", script, seen_path]).output().unwrap();
    let seen = std::fs::read_to_string(seen_path).unwrap();
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines.len(), 4, "{output:?}");
    for (preloads, table) in [(lines[0], lines[1]), (lines[2], lines[3])] {
        assert!(preloads.starts_with("libm.so.6:/"), "{preloads}");
        assert!(preloads.ends_with("/libquartier_sites.so"), "{preloads}");
        let table = Path::new(table);
        assert!(table.is_absolute() && !table.parent().unwrap().exists(), "{}", table.display());
    }
    assert_ne!(lines[1], lines[3], "each run has a table of its own");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let output = Command::new(quartier())
        .args(["scale", "--allocations", "--no-profile", "--", "true"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--no-profile"), "{said}");
}
