//! What an operator counts on, on real kernels with four nodes of two CPUs: a dry run changes nothing, metrics and health are served,
//! a configuration is read again while all goes on, and a bad one changes nothing.

mod common;

/// Four processes begin far from their memory, as in `daemon.rs`.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    for cpu in 0 2 4 6; do $far 8 0 $cpu 600 30 > far.$cpu & pids="$pids $!"; done
    show() {
        sleep 1.5
        tail -q -n 1 far.* | sed "s/^/$1 /"
        for pid in $pids; do echo "$1-cpus $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2)"; done
    }
    get() {
        perl -MIO::Socket::INET -e '
            my $to = IO::Socket::INET->new("127.0.0.1:7117") or die "nobody listens";
            print $to "GET $ARGV[0] HTTP/1.0\r\nHost: localhost\r\n\r\n"; print while <$to>' $1
    }
    # A guest is slow at times, and so is a daemon in it.
    until_so() { for look in $(seq 60); do eval "$1" && break; sleep 0.5; done; }
    show before
    : > config
    $quartierd --journal journal --log log-dry --config config > said-dry 2>&1 & daemon=$!
    until_so 'grep -sq dry-run log-dry'
    show dry
    get /metrics | grep '^quartierd_\(applies\|threads_held_total\|moved_bytes_total\) ' | sed 's/^/dry-metrics /'
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    ls journal 2>&1 | sed 's/^/dry-journal /'
    grep -c '"dry-run"' log-dry | sed 's/^/dry-outcomes /'
    $quartierd --apply --journal journal --log log --config config > said 2>&1 & daemon=$!
    settle 20; sleep 2
    show moved
    get /healthz | tr '\r' ' ' | sed 's/^/health /'
    get /metrics | tr -d '\r' | sed 's/^/metrics /'
    # Bad: nothing changes.
    printf '\n[scheduler]\nrate_mib_per_s = 0\n' > config
    kill -HUP $daemon
    until_so 'grep -q "old configuration stays" said'
    show bad
    # Whoever may not be placed any more is let go; his pages stay.
    printf '[[tasks.never]]\nname = "far"\n' > config
    kill -HUP $daemon
    last=$(echo $pids | cut -d ' ' -f 4)
    until_so '$quartier explain $last > explained; grep -q "opted out" explained'
    show reloaded
    sed 's/^/explained /' explained
    sleep 3
    show later
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    show stopped
    sed 's/^/said /' said
    kill $pids
"#;

fn check(kernel: &str) {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("far")];
    let Some(text) = common::script_on_four_nodes(kernel, SCRIPT, programs) else {
        return;
    };
    let lines = |word: &str| common::lines(&text, word);
    let cpus = |word: &str| lines(&format!("{word}-cpus"));
    let at_home = |word: &str| {
        lines(word).iter().filter(|line| line.contains("\"pages_on\": [256, 0")).count()
    };
    // It says what it would do, and does none of it.
    assert!(lines("dry-outcomes")[0].parse::<u64>().unwrap() > 0);
    assert_eq!((cpus("dry"), at_home("dry")), (vec!["0-7"; 4], 4));
    let metrics = lines("dry-metrics");
    assert_eq!(metrics.len(), 3, "{metrics:?}");
    assert!(metrics.iter().all(|line| line.ends_with(" 0")), "{metrics:?}");
    assert!(lines("dry-journal")[0].contains("No such file"));
    // Served as they are meant to be.
    let health = lines("health");
    assert!(health[0].starts_with("HTTP/1.0 200 OK") && *health.last().unwrap() == "ok");
    check_metrics(&lines("metrics"));
    // Read again.
    let are_held = |word| cpus(word).into_iter().map(|cpus| cpus != "0-7").collect::<Vec<_>>();
    assert!(are_held("moved").contains(&true));
    let said = lines("said").join("\n");
    assert!(
        said.contains("config: line 3, column 18: scheduler.rate_mib_per_s = 0: give at least 1")
    );
    let is_let_go = |(moved, bad): (bool, bool)| moved && !bad;
    let mut both = are_held("moved").into_iter().zip(are_held("bad"));
    assert!(!both.any(is_let_go), "a bad file changes nothing");
    for word in ["reloaded", "later", "stopped"] {
        assert_eq!(cpus(word), ["0-7"; 4], "{word}");
    }
    assert!(at_home("later") < 4, "pages stay where they are");
    assert_eq!(at_home("stopped"), 4, "until all is taken back");
    let explained = lines("explained").join("\n");
    assert!(explained.contains("it was opted out"), "{explained}");
    assert!(!text.contains("ended with"));
}

/// What OpenMetrics 1.0 asks of the whole, and something of each kind.
fn check_metrics(lines: &[&str]) {
    let end = lines.iter().position(|line| line.is_empty()).unwrap();
    let (head, body) = (lines[..end].join("\n").to_lowercase(), &lines[end + 1..]);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert_eq!(*body.last().unwrap(), "# EOF");
    let families = body.iter().filter_map(|line| line.strip_prefix("# TYPE "));
    for family in families {
        let (name, kind) = family.split_once(' ').unwrap();
        assert!(body.iter().any(|line| line.starts_with(&format!("# HELP {name} "))), "{name}");
        for unit in ["bytes", "seconds", "ratio", "cpus"] {
            let is_so = body.contains(&&*format!("# UNIT {name} {unit}"));
            assert_eq!(name.ends_with(&format!("_{unit}")), is_so, "{name}: {unit}");
        }
        let counted =
            |line: &&&str| kind != "counter" || line.starts_with(&format!("{name}_total"));
        let samples = body.iter().filter(|line| !line.starts_with('#') && line.starts_with(name));
        assert!(samples.clone().filter(counted).count() == samples.count(), "{name}");
    }
    let value = |sample: &str| -> f64 {
        let line = body.iter().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} is not there")).parse().unwrap()
    };
    assert_eq!(value("quartierd_applies"), 1.0);
    assert!(value("quartierd_moved_bytes_total") >= 7.0 * 1048576.0);
    assert!(value("quartierd_cpu_seconds_total{part=\"observe\"}") > 0.0);
}

/// On request, as `QUARTIER_TEST_KERNELS=all`: what differs between kernels is tested in `daemon.rs`.
#[test]
fn an_operator_can_count_on_it_on_6_1() {
    if !common::asks_for_all_kernels() {
        return;
    }
    check("6.1");
}

#[test]
fn an_operator_can_count_on_it_on_7_3() {
    check("7.3");
}
