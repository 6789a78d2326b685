//! `quartier scale` on this machine: planted culprits are found by name, and bad input is said.

mod common;
#[path = "../../../tests/programs/stops_scaling.rs"]
mod stops_scaling;

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{program, quartier};
use serde_json::Value;
use stops_scaling::{OTHERS_PERCENT_MAX, Planted, Tries};

/// Judged anew where the machine is too busy to tell, so many times.
const TRIES: usize = 6;

/// One at a time: what others run takes the CPUs that are measured.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scale(options: &[&str], command: &[&str]) -> Output {
    let _alone = alone();
    // Before others, where that is allowed: in a session of its own, so that nobody else's priority changes.
    let script = "echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 \"$@\"";
    let mut run = Command::new("setsid");
    run.args(["--wait", "sh", "-c", script, "sh"]).arg(quartier()).arg("scale").args(options);
    run.arg("--").args(command).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn nr_cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// A sweep of a planted culprit; `None`: nothing can be profiled here, or there is nothing to scale over.
fn sweep(planted: &Planted) -> Option<Value> {
    if nr_cpus() < 2 {
        println!("skipped: one CPU");
        return None;
    }
    let program = program(planted.program());
    let options = ["--cpus", "1,2", "--repeat", "5", "--metric", "units: ([0-9]+)", "--json", "-"];
    let units = planted.units.to_string();
    let command = [program.to_str().unwrap(), &planted.reason, "{cpus}", &units];
    let output = scale(&options, &command);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let complaints = report["complaints"].to_string();
    if complaints.contains("profiles are not permitted") || complaints.contains("no perf events") {
        println!("skipped: {complaints}");
        return None;
    }
    assert_eq!(report["study"]["points"].as_array().unwrap().len(), 2);
    println!("{}", report["verdict"]["sentences"]);
    Some(report)
}

/// The culprit that is named first is the one that was planted, and next to nothing is laid upon others.
fn found(reason: &str) {
    let planted = Planted::of(reason);
    let mut tries = Tries::begin();
    while tries.go_on() {
        let Some(report) = sweep(&planted) else { return };
        if tries.is_right(&report, |named| planted.is(named)) {
            return;
        }
    }
    tries.end();
}

#[test]
fn a_global_counter_is_found() {
    found("counter");
}

#[test]
fn a_short_global_mutex_is_found() {
    found("mutex");
}

/// HAProxy met it: 34b9b528e of July 2026.
#[test]
fn a_lock_of_the_c_librarys_own_is_found() {
    found("localtime");
}

#[test]
fn the_lock_of_an_allocators_arena_is_found() {
    found("arena");
}

/// Of one address space, whoever changes it or faults in it.
#[test]
fn a_lock_of_the_kernels_is_found() {
    found("mapping");
}

#[test]
fn words_side_by_side_are_found() {
    found("sharing");
}

#[test]
fn variables_side_by_side_are_found() {
    found("structs");
}

#[test]
fn a_serial_stage_is_found() {
    found("serial");
}

#[test]
fn an_uneven_partition_is_found() {
    found("imbalance");
}

#[test]
fn nothing_is_named_where_nothing_is_lost() {
    let Some(report) = sweep(&Planted::of("nothing")) else { return };
    // On a machine that others use too, it may lose to them.
    assert_eq!(report["verdict"]["culprits"], Value::Array(Vec::new()), "{}", report["verdict"]);
}

#[test]
fn bad_input_is_one_sentence_and_status_2() {
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&["--cpus", "1"], &["true"], "give --cpus two"),
        (&["--cpus", "1,8000"], &["true"], "8000 CPUs are more than"),
        (&["--cpus", "0,1"], &["true"], "from 1 to"),
        (&["--metric", "("], &["true"], "no regular expression"),
        (&["--metric", "x"], &["true"], "parentheses"),
        (&[], &["no-such-command"], "no command"),
        (&["--repeat", "1"], &["sh", "-c", "echo broken >&2; exit 3"], "`broken`"),
        (
            &["--repeat", "1", "--metric", "did ([0-9]+)"],
            &["echo", "nothing"],
            "nothing it printed matches",
        ),
    ];
    for (options, command, message) in cases {
        if nr_cpus() < 2 && !options.contains(&"1") {
            continue;
        }
        let output = scale(options, command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{options:?}: {said}");
        assert!(output.stdout.is_empty(), "{options:?}");
    }
}

#[test]
fn a_command_that_fails_at_one_point_is_said_and_the_rest_reported() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let script = "test $QUARTIER_CPUS = 1 || { echo cannot; exit 7; }";
    let output = scale(&["--cpus", "1,2", "--repeat", "2"], &["sh", "-c", script]);
    let printed = text(&output.stdout);
    // Nothing can be compared.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(printed.contains("on 2 CPUs the command failed"), "{printed}");
    assert!(
        printed.contains("`cannot`") && printed.contains("nothing can be compared"),
        "{printed}"
    );
    assert_eq!(printed.matches("cannot").count(), 1, "said more than once: {printed}");
}

#[test]
fn what_is_measured_without_a_profile_is_reported_without_a_name() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let output = scale(
        &["--cpus", "1,2", "--repeat", "3", "--no-profile"],
        &["sh", "-c", "test $(nproc) = {cpus} && sleep 0.2"],
    );
    let printed = text(&output.stdout);
    assert!(printed.contains("Nothing is named, because runs were not profiled"), "{output:?}");
}

#[test]
fn a_server_is_measured_while_its_load_runs_and_ended_with_all_it_started() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    // Not ready at once; its child must not be left behind.
    let ready = tempfile::NamedTempFile::new().unwrap();
    let ready = ready.path().to_str().unwrap().to_owned();
    let serve = format!("sh -c 'sleep 31.4159 & sleep 0.3; echo up >{ready}; while :; do :; done'");
    let load = format!("sh -c 'grep -q up {ready} && sleep 0.4 && echo did 250 requests'");
    let output = scale(
        &[
            "--cpus",
            "1,2",
            "--repeat",
            "2",
            "--metric",
            "did ([0-9]+)",
            "--json",
            "-",
            "--serve",
            &serve,
            "--load",
            &load,
        ],
        &[],
    );
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let is_profiled = !report["complaints"].to_string().contains("nothing is named, because");
    for point in report["study"]["points"].as_array().unwrap() {
        for run in point["runs"].as_array().unwrap() {
            assert_eq!(run["units"], 250.0);
            let seconds = |name: &str| run[name].as_f64().unwrap();
            let (cpu_s, wall_s) = (seconds("user_s") + seconds("kernel_s"), seconds("wall_s"));
            // One thread that never rests, while the load ran: not before, and not twice.
            assert!(cpu_s > 0.2 * wall_s && cpu_s < 1.1 * wall_s, "{cpu_s} of {wall_s} s");
            assert!(run["nr_faults"].is_u64() && run["nr_waits"].is_u64() == is_profiled, "{run}");
            let busy = seconds("load_busy_percent");
            assert!((0.0..50.0).contains(&busy), "a load that sleeps: {busy} %");
        }
    }
    let left = Command::new("pgrep").args(["-f", "^sleep 31.4159"]).output().unwrap();
    assert!(left.stdout.is_empty(), "left behind: {}", text(&left.stdout));
}

/// Two processes of a server each of which answers one client at a time, and takes some milliseconds to do so.
const SERVER: &str = r#"
    use IO::Socket::INET;
    my $s = IO::Socket::INET->new(Listen => 16, LocalAddr => "127.0.0.1:$ARGV[0]", ReuseAddr => 1) or die;
    for (1, 2) {
        next if fork;
        while (my $c = $s->accept) { my $line = <$c>; my $x = 0; $x += $_ for 1 .. 60000; print $c "$x
"; close $c }
    }
    sleep;
"#;

/// One client that asks for one thing after the other, and takes its time in between.
const CLIENT: &str = r#"
    use IO::Socket::INET;
    my $done = 0;
    for (1 .. 100) {
        my $c = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or die "not there";
        print $c "x
"; <$c>; $done++;
        select undef, undef, undef, 0.003;
    }
    print "did $done requests
";
"#;

fn scale_server(options: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let [server, client] = [("server", SERVER), ("client", CLIENT)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let serve = format!("perl {server} {port}");
    let load = format!("perl {client} {port}");
    let mut all = vec!["--cpus", "1,2", "--repeat", "4", "--metric", "did ([0-9]+)", "--json", "-"];
    all.extend(["--serve", &serve, "--load", &load]);
    all.extend(options);
    let output = scale(&all, &[]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_server_whose_client_is_the_limit_is_not_blamed() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let is_judged = |report: &Value| report["verdict"]["outcome"] != "unknown";
    let Some(report) = (0..TRIES).map(|_| scale_server(&[])).find(is_judged) else {
        return println!("skipped: too much else happens on this machine");
    };
    let complaints = report["complaints"].to_string();
    if complaints.contains("nothing is named, because") || complaints.contains("hides the names") {
        return println!("skipped: {complaints}");
    }
    let verdict = &report["verdict"];
    assert_eq!(verdict["outcome"], "loses", "{verdict:#}");
    let culprits = verdict["culprits"].as_array().unwrap();
    assert_eq!(culprits[0]["class"], "client-limited", "{verdict:#}");
    let others = culprits.iter().skip(1).map(|other| other["share_percent"].as_f64().unwrap());
    assert!(others.sum::<f64>() <= OTHERS_PERCENT_MAX, "another is named: {culprits:?}");
    let last = verdict["sentences"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("the CPUs that loaded it were busy for"), "{last}");
}

#[test]
fn a_server_is_measured_without_a_profile_too() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let report = scale_server(&["--no-profile"]);
    for run in report["study"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|of| of["runs"].as_array().unwrap())
    {
        let seconds = |name: &str| run[name].as_f64().unwrap();
        assert_eq!(run["units"], 100.0);
        assert!(seconds("user_s") + seconds("kernel_s") > 0.05, "{run}");
        assert!(run["nr_waits"].is_null() && run["profile"].is_null(), "absent is not zero: {run}");
    }
    let said = report["verdict"]["sentences"].to_string();
    assert!(
        said.contains("were not profiled") || report["verdict"]["outcome"] != "loses",
        "{said}"
    );
}

#[test]
fn a_server_that_does_not_stay_is_said() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let output =
        scale(&["--cpus", "1,2", "--repeat", "1", "--serve", "true", "--load", "false"], &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ended before its load did"), "{said}");
}

#[test]
fn reports_are_compared() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (name, seconds) in [("slow", "0.3"), ("fast", "0.05")] {
        let json = file(name);
        let options = ["--cpus", "1,2", "--repeat", "3", "--no-profile", "--json", &json];
        let output = scale(&options, &["sleep", seconds]);
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    let diff = |from: &str, to: &str| {
        Command::new(quartier()).args(["scale", "diff", &file(from), &file(to)]).output().unwrap()
    };
    let output = diff("slow", "fast");
    let printed = text(&output.stdout);
    assert!(output.status.success() && printed.contains(": more."), "{output:?}");
    // And judged again, to the same verdict, also where that is written to where it was read.
    let (slow, page) = (file("slow"), file("page.html"));
    let again = |more: &[&str]| {
        Command::new(quartier()).args(["scale", "report", &slow]).args(more).output().unwrap()
    };
    let saved = || -> Value { serde_json::from_slice(&std::fs::read(&slow).unwrap()).unwrap() };
    let before = saved();
    let (printed, written) = (again(&[]), again(&["--json", &slow, "--html", &page]));
    assert_eq!(printed.stdout, written.stdout, "{written:?}");
    assert!(text(&printed.stdout).contains("CPUs  runs"), "{printed:?}");
    for part in ["command", "verdict", "complaints", "study"] {
        assert_eq!(saved()[part], before[part], "{part}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
    std::fs::write(file("other"), "{\"format\":2,\"command\":[]}").unwrap();
    std::fs::write(file("older"), "{\"format\":1,\"command\":[]}").unwrap();
    for (other, message) in [
        ("other", "is no report"),
        ("older", "has format 1, and 2 is what this version reads"),
        ("missing", "cannot read"),
    ] {
        let output = diff("slow", other);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_load_is_repeated_for_as_long_as_is_asked() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let folder = tempfile::tempdir().unwrap();
    let loads = folder.path().join("loads");
    let load = format!("sh -c 'echo >>{}; sleep 0.2; echo done: 5'", loads.display());
    let options =
        ["--cpus", "1,2", "--repeat", "1", "--no-profile", "--warm-up", "1", "--run", "1"];
    let rest =
        ["--metric", "done: ([0-9]+)", "--serve", "sleep 60", "--load", &load, "--json", "-"];
    let _alone = alone();
    let output = Command::new(quartier()).arg("scale").args(options).args(rest).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let mut nr_measured = 0.0;
    for point in report["study"]["points"].as_array().unwrap() {
        let run = &point["runs"][0];
        let (units, wall_s) = (run["units"].as_f64().unwrap(), run["wall_s"].as_f64().unwrap());
        // Five loads of 0.2 s and more, or fewer where starting them takes long.
        assert!((10.0..=25.0).contains(&units) && units % 5.0 == 0.0, "{run}");
        assert!((0.2 * units / 5.0..2.0).contains(&wall_s), "{run}");
        nr_measured += units / 5.0;
    }
    // Before that, at both points, the first that succeeds, and those of a second.
    let nr_loads = std::fs::read_to_string(&loads).unwrap().lines().count() as f64;
    assert!(nr_loads >= nr_measured + 4.0, "{nr_loads} loads, {nr_measured} of them measured");
    let refused = Command::new(quartier())
        .args(["scale", "--run", "1", "--program", "gmake"])
        .output()
        .unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("gmake does a job and ends"), "{said}");
}

#[test]
fn an_interrupted_sweep_leaves_no_server_behind() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let _alone = alone();
    let mut sweep = Command::new(quartier());
    sweep.args(["scale", "--cpus", "1,2", "--serve", "sleep 27.1828", "--load", "sleep 0.3"]);
    let mut sweep = sweep.spawn().unwrap();
    let left = || {
        let found = Command::new("pgrep").args(["-f", "^sleep 27.1828"]).output().unwrap();
        !found.stdout.is_empty()
    };
    let wait = |until: &dyn Fn() -> bool| {
        for _ in 0..200 {
            if until() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        false
    };
    if !wait(&left) {
        sweep.kill().unwrap();
        sweep.wait().unwrap();
        panic!("no server was started");
    }
    Command::new("kill").args(["-TERM", &sweep.id().to_string()]).status().unwrap();
    let status = sweep.wait().unwrap();
    assert!(wait(&|| !left()), "the server was left behind ({status})");
    assert!(!status.success());
}

/// What runs is ended too, and is none of those that are reported.
#[test]
fn an_interrupted_sweep_reports_the_runs_that_it_has() {
    if nr_cpus() < 2 {
        return println!("skipped: one CPU");
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let job = "echo >>\"$0\"; [ $(wc -l <\"$0\") -lt 4 ] || exec sleep 31.4159; sleep 0.1";
    let sweep = Command::new(quartier())
        .args(["scale", "--cpus", "1,2", "--repeat", "9", "--no-profile", "--json", "-"])
        .args(["--", "sh", "-c", job])
        .arg(&begun)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    let nr_begun = || std::fs::read_to_string(&begun).unwrap_or_default().lines().count();
    while nr_begun() < 4 && began.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &sweep.id().to_string()]).status().unwrap();
    let output = sweep.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(began.elapsed().as_secs() < 25, "it waited for the run that was to end: {said}");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!said.contains("run 5"), "{said}");
    assert!(said.ends_with("quartier: ended by signal 2\n"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = report["study"]["points"].as_array().unwrap();
    let nr_runs = points.iter().map(|point| point["runs"].as_array().unwrap().len());
    assert_eq!(nr_runs.collect::<Vec<_>>(), [2, 1]);
    let complaints = report["complaints"].as_array().unwrap();
    assert_eq!(complaints[0], "ended by signal 2 after 3 of 18 runs: this is of those");
}
