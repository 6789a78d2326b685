//! `quartier serve` with a server of several processes, on this machine: what is asked is answered while
//! copies are reloaded, stopped and killed, and what cannot be is refused in a sentence. Loopback says
//! nothing of where connections arrive: that is for guests (`serve_in_guests.rs`).

mod common;
mod serving;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use serving::{Served, WORKERS, free_port, get, has_two_cpus, refused, send, serves, wait_for};

#[test]
fn copies_share_a_port_that_the_server_does_not_share() {
    if !has_two_cpus() {
        return;
    }
    let shown = free_port();
    let options = ["--copies", "2", "--metrics", &shown.to_string()];
    let served = Served::start(&options, "shares", 0);
    served.wait_until_all_serve(2);
    let mut answered = [0; 2];
    for _ in 0..200 {
        let answer = served.ask().unwrap();
        let copy: usize = answer.split(' ').nth(1).unwrap().parse().unwrap();
        answered[copy] += 1;
    }
    assert!(answered.iter().all(|count| *count >= 30), "{answered:?}");
    std::thread::sleep(Duration::from_millis(1500));
    let status = served.status().unwrap();
    if status["why_not_steered"].is_null() {
        let given: u64 = (0..2).map(|copy| status["copies"][copy]["given"].as_u64().unwrap()).sum();
        assert!(given >= 200, "{status}");
    }
    let metrics = Command::new(common::quartier())
        .args(["serve", "status", "--metrics", "--name", &served.name])
        .output()
        .unwrap();
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    let is_whole = |text: &str| {
        text.ends_with("# EOF\n") && text.contains("quartier_serve_serving{copy=\"1\"")
    };
    assert!(is_whole(&metrics), "{metrics}");
    check_threads_times(&metrics, &status);
    let over_http = get(shown, "/metrics", "localhost");
    assert!(over_http.starts_with("HTTP/1.0 200 ") && is_whole(&over_http), "{over_http}");
    assert!(get(shown, "/healthz", "localhost").ends_with("\r\n\r\nok\n"));
    assert!(get(shown, "/status.json", "localhost").contains(&served.name));
    assert!(get(shown, "/", "localhost").starts_with("HTTP/1.0 404 "));
    assert!(get(shown, "/metrics", "evil.example").starts_with("HTTP/1.0 403 "));
    check_rights(served.process.id(), served.pid_of(0).unwrap());
    let said = served.stop();
    assert!(said.contains(": 2 copies on 127.0.0.1:"), "{said}");
}

/// What the copies' threads did is a counter in seconds, and in the status.
fn check_threads_times(metrics: &str, status: &Value) {
    let value = |name: &str| {
        let start = format!("{name}_total{{copy=\"0\",node=\"0\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse::<f64>().unwrap()
    };
    for name in ["quartier_serve_threads_ran_seconds", "quartier_serve_threads_waited_seconds"] {
        assert!(metrics.contains(&format!("# TYPE {name} counter\n")), "{metrics}");
    }
    let ran_s = value("quartier_serve_threads_ran_seconds");
    // Some hundred requests of a fraction of a millisecond, and the start of a few processes.
    assert!(ran_s > 0.001 && ran_s < 5.0, "{ran_s}");
    assert!(value("quartier_serve_threads_waited_seconds") < 60.0);
    assert!(status["copies"][0]["ran_s"].as_f64().unwrap() <= ran_s, "{status}");
    assert!(status["copies"][1]["waited_s"].is_f64(), "{status}");
}

/// What serves has given up most of what root may do; a copy has all of it, as who started both.
fn check_rights(serve: u32, copy: u32) {
    const SYS_ADMIN: u64 = 1 << 21;
    let effective = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let own = effective("self");
    if own & SYS_ADMIN == 0 {
        return println!("skipped: there is nothing to give up");
    }
    assert_eq!(effective(&serve.to_string()) & SYS_ADMIN, 0);
    assert_eq!(effective(&copy.to_string()), own);
}

#[test]
fn nothing_is_lost_but_what_a_killed_copy_had_in_hand() {
    if !has_two_cpus() {
        return;
    }
    let served = Served::start(&["--copies", "2"], "chaos", 300);
    served.wait_until_all_serve(2);
    if !served.status().unwrap()["why_not_steered"].is_null() {
        println!("skipped: what waits is only moved by our program, which is not permitted here");
        return;
    }
    let is_over = AtomicBool::new(false);
    let rounds: usize =
        std::env::var("QUARTIER_TEST_ROUNDS").ok().and_then(|it| it.parse().ok()).unwrap_or(2);
    let (answers, failures) = std::thread::scope(|scope| {
        let client = || {
            let (mut answers, mut failures) = (0u64, Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                match served.ask() {
                    Ok(_) => answers += 1,
                    Err(error) => failures.push((error, began.elapsed())),
                }
            }
            (answers, failures)
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(client)).collect();
        let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
        for round in 0..rounds {
            served.signal("HUP");
            pause(2500);
            served.signal_copy("STOP", round % 2);
            pause(1500);
            served.signal_copy("CONT", round % 2);
            pause(1000);
            served.signal_copy("KILL", (round + 1) % 2);
            pause(1500);
        }
        is_over.store(true, Ordering::Relaxed);
        let results = clients.into_iter().map(|client| client.join().unwrap());
        results.fold((0, Vec::new()), |(answers, mut failures), (more, others)| {
            failures.extend(others);
            (answers + more, failures)
        })
    });
    let status = served.status().unwrap();
    println!("{answers} answers, failures {failures:?}\n{status:#}\n{}", served.said());
    assert!(answers > 500, "{answers}");
    assert!(failures.len() <= rounds * WORKERS, "{} failures", failures.len());
    let restarts: u64 =
        (0..2).map(|copy| status["copies"][copy]["restarts"].as_u64().unwrap()).sum();
    assert!(restarts >= rounds as u64, "{status}");
    served.wait_until_all_serve(2);
}

#[test]
fn a_rolling_restart_loses_nothing() {
    if !has_two_cpus() {
        return;
    }
    let served = Served::start(&["--copies", "2", "--reload-by", "restart"], "rolls", 100);
    served.wait_until_all_serve(2);
    if !served.status().unwrap()["why_not_steered"].is_null() {
        println!("skipped: what waits is only moved by our program, which is not permitted here");
        return;
    }
    let before = [served.pid_of(0), served.pid_of(1)];
    served.signal("HUP");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        served.ask().unwrap();
    }
    served.wait_until_all_serve(2);
    let after = [served.pid_of(0), served.pid_of(1)];
    assert!(before[0] != after[0] && before[1] != after[1], "{before:?} {after:?}");
    assert_eq!(served.status().unwrap()["copies"][0]["restarts"], 0, "it was asked for");
}

/// The new version does not start: it is tried again by and by, and the others keep the old one.
#[test]
fn a_reload_that_fails_ends_with_the_first_copy() {
    if !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    let port = free_port();
    let script = format!("test ! -e {} && exec {} {port} {WORKERS} 0", broken.display(), serves());
    let options = ["--copies", "2", "--reload-by", "restart", "--choose", "kernel"];
    let served = Served::start_command(&options, "fails", port, &["sh", "-c", &script]);
    served.wait_until_all_serve(2);
    let other = served.pid_of(1);
    std::fs::write(&broken, "").unwrap();
    served.signal("HUP");
    wait_for("the reload to end", || served.said().contains("the reload ends here, since copy 0"));
    std::thread::sleep(Duration::from_secs(2));
    let status = served.status().unwrap();
    let restarts = status["copies"][0]["restarts"].as_u64().unwrap();
    assert!((1..=10).contains(&restarts), "{restarts} in two seconds");
    assert_eq!(served.pid_of(1), other);
    served.ask().unwrap();
    std::fs::remove_file(&broken).unwrap();
    served.wait_until_all_serve(2);
}

#[test]
fn copies_of_a_killed_serve_are_left_alone() {
    let mut served = Served::start(&["--copies", "1"], "left", 0);
    served.wait_until_all_serve(1);
    let group = format!("-{}", served.pid_of(0).unwrap());
    served.process.kill().unwrap();
    served.process.wait().unwrap();
    let again = || {
        let mut command = Command::new(common::quartier());
        command.args(["serve", "--name", &served.name, "--port", &served.port.to_string()]);
        command.args(["--", "true"]).stdin(Stdio::null()).output().unwrap()
    };
    let refused = again();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("still serve: `kill -- {group}` ends them")), "{said}");
    let folder = PathBuf::from("/run/quartier-serve").join(&served.name);
    if rustix::process::geteuid().is_root() {
        assert!(folder.join("copy-0").is_dir(), "their files are still theirs");
    }
    served.ask().unwrap();
    send("TERM", &group);
    wait_for("them to end", || served.ask().is_err());
    wait_for("a name that can be had", || {
        !String::from_utf8_lossy(&again().stderr).contains("still serve")
    });
}

#[test]
fn without_our_program_the_kernel_chooses_and_that_is_said() {
    if !has_two_cpus() {
        return;
    }
    let served = Served::start(&["--copies", "2", "--choose", "kernel"], "kernel", 0);
    served.wait_until_all_serve(2);
    (0..50).for_each(|_| assert!(served.ask().is_ok()));
    let status = served.status().unwrap();
    assert!(status["why_not_steered"].as_str().unwrap().contains("--choose kernel"));
    assert!(status["copies"][0]["given"].is_null(), "nobody counts, so nothing is counted");
    let said = served.stop();
    assert!(said.contains("connections are not steered"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.conf");
    std::fs::write(&config, "listen 80;\npid {pids};\n").unwrap();
    let config = config.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let serves = serves();
    for (options, command, what) in [
        (&["--copies", "999"][..], &["true"][..], "--copies 999: there are"),
        (&[], &["true", "{nodes}"], "the command: there is no {nodes} to fill in"),
        (&["--config", config], &["true"], "server.conf, line 2: there is no {pids}"),
        (&["--config", config, "--config", config], &["true"], "two files are called server.conf"),
        (&["--config", "/nowhere"], &["true"], "cannot read /nowhere"),
        (&["--port", &port], &["true"], "is in use by "),
        (&[], &[&serves, &port, "1"], "copy 0 ended with status 1 before it listened anywhere"),
        (&[], &["no-such-command"], "there is no command `no-such-command`"),
        (&["--start-timeout", "1"], &["sleep", "60"], "copy 0 listens on no port after 1 s"),
        (&["--metrics", "0.0.0.0:9"], &["true"], "--metrics 0.0.0.0:9 is not on loopback"),
        (&["--metrics", &port], &["true"], "cannot listen at 127.0.0.1:"),
        (
            &["--metrics", "9117", "--port", "8080,9117"],
            &["true"],
            "--metrics 127.0.0.1:9117: the server has port 9117 (--port): give one of the two another",
        ),
        (&["--port", "[::]:8080"], &["true"], "give the number alone, 8080: at which addresses"),
        (&["--port", "x:y"], &["true"], "give a whole number from 1 to 65535"),
        (&["--metrics", "x"], &["true"], "neither a port nor an address with one"),
        (&["--stop-signal", "STOP"], &["true"], "`STOP` is not HUP, INT"),
        (&["--reload-by", "x"], &["true"], "`x` is not HUP, USR1"),
        (
            &["--root", "/tmp"],
            &["true"],
            "--root: neither the command nor a --config file has {root}",
        ),
        (&["--root", "/nowhere", "--copy-root"], &["true", "{root}"], "/nowhere: No such file"),
        (&["--root", "/etc/passwd", "--copy-root"], &["true", "{root}"], "passwd: Not a directory"),
        (
            &["--root", "/tmp", "--copy-root", "--keep-one", "/etc"],
            &["true", "{root}"],
            "--keep-one /etc:",
        ),
    ] {
        let said = refused(options, command);
        assert!(said.contains(what), "{options:?} {command:?}: {said}");
    }
}

#[test]
fn what_keeps_data_for_all_is_not_copied() {
    if !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let memcached = folder.path().join("memcached");
    std::os::unix::fs::symlink("/bin/true", &memcached).unwrap();
    let said = refused(&["--copies", "2"], &[memcached.to_str().unwrap()]);
    assert!(said.contains("memcached must not be copied: each copy would know a part"), "{said}");
}

/// What a copy's configuration file says, and what is in the folder that it names.
fn root_of(served: &Served, copy: usize) -> Option<(PathBuf, String)> {
    let directory = PathBuf::from("/run/quartier-serve");
    let own =
        std::env::var_os("XDG_RUNTIME_DIR").map(|own| PathBuf::from(own).join("quartier-serve"));
    let by_uid = std::env::temp_dir()
        .join(format!("quartier-serve-{}", rustix::process::geteuid().as_raw()));
    let bases = [Some(directory), own, Some(by_uid)];
    let config = |base: PathBuf| base.join(&served.name).join(format!("copy-{copy}/site.conf"));
    let text =
        bases.into_iter().flatten().find_map(|base| std::fs::read_to_string(config(base)).ok());
    let root = PathBuf::from(text?.trim());
    let page = std::fs::read_to_string(root.join("page")).ok()?;
    Some((root.parent()?.parent()?.to_owned(), page))
}

#[test]
fn a_killed_one_leaves_copies_their_folders_and_the_next_one_removes_them() {
    let site = tempfile::tempdir().unwrap();
    let config = site.path().join("site.conf");
    std::fs::write(&config, "{root}\n").unwrap();
    let www = site.path().join("www");
    std::fs::create_dir(&www).unwrap();
    std::fs::write(www.join("page"), "old").unwrap();
    let [www_text, config] = [&www, &config].map(|path| path.to_str().unwrap());
    let options = ["--copies", "1", "--root", www_text, "--copy-root", "--config", config];
    let mut served = Served::start(&options, "killed-roots", 0);
    let (first, page) = root_of(&served, 0).unwrap();
    assert_eq!(page, "old");
    let root = served.status().unwrap()["root"].clone();
    assert_eq!((&root["files"], &root["not_in_step"]), (&1.into(), &Value::Null), "{root}");
    std::fs::write(www.join("page"), "new").unwrap();
    wait_for("the new page", || root_of(&served, 0).is_some_and(|(_, page)| page == "new"));
    let copy = served.pid_of(0).unwrap();
    served.process.kill().unwrap();
    served.process.wait().unwrap();
    assert!(served.ask().is_ok(), "the copy goes on");
    assert_eq!(root_of(&served, 0).unwrap().1, "new", "with its folder");
    send("KILL", &format!("-{copy}"));
    wait_for("the copy to end", || served.ask().is_err());
    let next = Served::start(&options, "killed-roots", 0);
    let (second, _) = root_of(&next, 0).unwrap();
    assert!(second != first && !first.exists(), "{} is left", first.display());
    next.stop();
    assert!(!second.exists(), "{} is left", second.display());
}

#[test]
fn two_of_them_have_neither_one_name_nor_one_port() {
    let served = Served::start(&["--copies", "1"], "first", 0);
    let port = served.port.to_string();
    let said = refused(&[], &[&serves(), &port, "1"]);
    assert!(said.contains("ended with status 1"), "{said}");
    let said = refused(&["--port", &port], &[&serves(), &port, "1"]);
    assert!(said.contains("is in use by serves (process "), "{said}");
    let again = Command::new(common::quartier())
        .args(["serve", "--name", &served.name, "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains(&format!("named {} runs already", served.name)), "{said}");
    assert!(served.ask().is_ok(), "the first is as it was");
}

/// In a network namespace of its own, with a pair of interfaces that have a queue for each CPU.
const STEER: &str = r#"
    mount -t sysfs sysfs /sys && ip link set lo up
    ip link add near numrxqueues 2 numtxqueues 2 type veth peer name far && ip link set near up && ip link set far up
    look() { for file in /sys/class/net/near/queues/*/[rx]ps_*; do echo "$1 $(basename $file) $(cat $file 2>/dev/null)"; done; }
    look before
    $1 serve --name $2 --copies 1 --steer=near -- $3 8080 1 & unit=$!
    for look in $(seq 100); do $1 serve status --name $2 >/dev/null 2>&1 && break; sleep 0.1; done
    look during
    [ $4 = killed ] && { kill -9 $unit; kill $(ss -ltnpH | sed -n 's/.*pid=\([0-9]*\).*/\1/p'); sleep 1; timeout -s TERM 2 $1 serve --name $2 -- $3 8080 1; }
    [ $4 = stopped ] && { kill $unit; wait $unit; }
    look after
"#;

#[test]
fn how_packets_are_received_is_taken_back_also_after_a_kill() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has network namespaces");
        return;
    }
    for how in ["stopped", "killed"] {
        let name = format!("test-steer-{how}-{}", std::process::id());
        let output = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", STEER, "sh"])
            .arg(common::quartier())
            .args([&name, &serves(), how])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        let lines = |word| common::lines(&text, word);
        assert!(lines("before").contains(&"rps_flow_cnt 0"), "{how}");
        assert_ne!(lines("before"), lines("during"), "{how}");
        assert_eq!(lines("before"), lines("after"), "{how}");
    }
}

/// In a network namespace, whose settings are its own.
const MIGRATE: &str = r#"
    mount -t sysfs sysfs /sys; ip link set lo up; sysctl -q -w net.ipv4.tcp_migrate_req=1
    $1 serve --name $2 --copies 2 --choose kernel -- $3 8080 1 & unit=$!
    both() { $1 serve status --name $2 --json 2>/dev/null | grep -c '"state": "serves"'; }
    for look in $(seq 100); do [ "$(both $1 $2)" = 2 ] && break; sleep 0.1; done
    first=$($1 serve status --name $2 --json | sed -n 's/.*"pid": \([0-9]*\),/\1/p' | sed -n 2p)
    /bin/kill -s STOP -- -$first; sleep 2
    timeout 5 $3 get 8080 30 | sed 's/^/stopped /'
    /bin/kill -s CONT -- -$first; sleep 1
    timeout 5 $3 get 8080 60 | sed 's/^/back /'
    kill $unit; wait $unit
"#;

#[test]
fn without_our_program_a_stopped_copy_is_closed_where_the_kernel_moves_what_waits() {
    if !rustix::process::geteuid().is_root() || !has_two_cpus() {
        println!("skipped: only root has network namespaces");
        return;
    }
    let name = format!("test-migrate-{}", std::process::id());
    let output = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", MIGRATE, "sh"])
        .arg(common::quartier())
        .args([&name, &serves()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let stopped = common::lines(&text, "stopped");
    assert!(stopped.len() == 30 && stopped.iter().all(|line| line.starts_with("copy 1 ")));
    let back = common::lines(&text, "back");
    assert!(back.len() == 60 && back.iter().any(|line| line.starts_with("copy 0 ")), "{back:?}");
}
