//! The unit under a real systemd, in guests of four nodes with two CPUs: `quartierd` moves what is far as a user of its own
//! with the capabilities that the unit names and no other, and whatever becomes of it, all is taken back.

mod common;

use std::path::Path;

/// The guest has a first process of its own, so systemd is the first one of namespaces made for it. Of units it finds those
/// that are here and no other; this one is started with it, and it ends with this one.
const BOOT: &str = r#"
    export quartier=$1 quartierd=$2 far=$3 unit=$4 check=$5
    mkdir -p /run/units/quartierd.service.d && mountpoint -q /sys/fs/cgroup ||
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mountpoint -q /run || mount -t tmpfs tmpfs /run && mkdir -p /run/units/quartierd.service.d
    echo 0 > /proc/sys/kernel/numa_balancing
    install -m 755 $quartier /usr/bin/quartier && install -m 755 $quartierd /usr/sbin/quartierd
    install -m 755 $far /run/far
    rm -rf /var/lib/quartier /var/lib/private/quartier
    cp $unit /run/units/quartierd.service
    printf '[Service]\nExecStart=\nExecStart=/usr/sbin/quartierd --apply\n' \
        > /run/units/quartierd.service.d/apply.conf
    for target in sysinit basic shutdown sockets; do
        printf '[Unit]\nDefaultDependencies=no\n' > /run/units/$target.target
    done
    printf '%s' "$check" > /run/check.sh
    cat > /run/units/check.service <<EOF
[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/sh /run/check.sh
StandardOutput=truncate:/run/said
StandardError=truncate:/run/said-beside
EOF
    env container=lab SYSTEMD_UNIT_PATH=/run/units SYSTEMD_LOG_TARGET=console \
        unshare --pid --fork --mount --cgroup --mount-proc \
        /lib/systemd/systemd --unit=check.service --show-status=no > /run/boot 2>&1
    cat /run/said || cat /run/boot
    sed 's/^/beside /' /run/said-beside
"#;

/// Four processes as in the test of the daemon itself: two have to take their memory along.
const CHECK: &str = r#"
    cd /tmp
    for cpu in 0 2 4 6; do /run/far 8 0 $cpu 600 30 > far.$cpu & pids="$pids $!"; done
    sleep 2
    show() {
        sleep 1.5
        tail -q -n 1 far.* | sed "s/^/$1 /"
        for pid in $pids; do
            echo "$1-cpus $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2)"
        done
    }
    of() { systemctl show quartierd --value -p $1; }
    systemctl start quartierd || echo "not started: $(systemctl status quartierd)"
    daemon=$(of MainPID)
    echo "state $(of ActiveState)"
    echo "uid $(grep ^Uid /proc/$daemon/status | cut -f 2)"
    echo "nice $(cut -d ' ' -f 19 /proc/$daemon/stat)"
    for set in CapEff CapBnd CapAmb; do echo "caps $(grep ^$set /proc/$daemon/status | cut -f 2)"; done
    settle 20; sleep 2
    show moved
    systemctl reload quartierd || echo "not reloaded"
    sleep 1
    echo "same $([ $daemon = $(of MainPID) ] && echo yes)"
    kill -9 $daemon
    # It is started again after five seconds; until then nothing is held.
    for look in $(seq 40); do sleep 0.1; [ "$(of ActiveState)" = activating ] && break; done
    show killed
    settle 20; sleep 2
    show again
    echo "restarts $(of NRestarts)"
    systemctl stop quartierd || echo "not stopped"
    echo "result $(of Result) $(of ActiveState)"
    show stopped
    ls -A /var/lib/private/quartier | sed 's/^/left /'
    kill $pids
"#;

/// CAP_SYS_PTRACE, CAP_SYS_NICE and CAP_PERFMON, by their numbers.
const CAPABILITIES: u64 = 1 << 19 | 1 << 23 | 1 << 38;

fn check(kernel: &str) {
    if !Path::new("/lib/systemd/systemd").exists() {
        println!(
            "skipped: this machine has no systemd (`apt-get install systemd`) that a guest could run"
        );
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/quartierd.service");
    let given = [
        common::quartier().clone().into_os_string(),
        common::quartierd().into_os_string(),
        common::program("far").into_os_string(),
        unit.into_os_string(),
        (common::SETTLE.to_owned() + CHECK).into(),
    ];
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let Some((text, said)) = common::script_in_guest(kernel, options, BOOT, given) else {
        return;
    };
    println!("kernel {kernel}: {said}\n{text}");
    let lines = |word: &str| common::lines(&text, word);
    let far = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let percent = |line: &str| far(line)["local_percent"].as_u64().unwrap();
    assert_eq!(lines("state"), ["active"]);
    assert_ne!(lines("uid"), ["0"], "a user of its own");
    assert_eq!(lines("nice"), ["-10"]);
    let capabilities: Vec<_> =
        lines("caps").into_iter().map(|set| u64::from_str_radix(set, 16).unwrap()).collect();
    assert_eq!(capabilities, [CAPABILITIES; 3]);
    for word in ["moved", "again"] {
        let local = lines(word).iter().filter(|line| percent(line) >= 90).count();
        assert!(local >= 3, "{word}: of four {local}");
        let cpus = lines(&format!("{word}-cpus"));
        assert!(cpus.iter().any(|cpus| *cpus != "0-7"), "{word}: {cpus:?}");
    }
    assert_eq!((lines("same"), lines("restarts")), (vec!["yes"], vec!["1"]));
    for word in ["killed", "stopped"] {
        assert_eq!(lines(&format!("{word}-cpus")), ["0-7"; 4], "{word}");
        let home = |line: &&str| far(line)["pages_on"][0].as_u64().unwrap() >= 250;
        assert!(lines(word).iter().all(home), "{word}: of 256 pages each");
    }
    assert_eq!(lines("result"), ["success inactive"]);
    assert!(!text.contains("\nnot "), "something was refused");
}

/// On request, as `QUARTIER_TEST_KERNELS=all`: what differs between kernels is tested in `daemon.rs`.
#[test]
fn systemd_runs_it_restarts_it_and_stops_it_on_6_1() {
    if common::asks_for_all_kernels() {
        check("6.1");
    }
}

#[test]
fn systemd_runs_it_restarts_it_and_stops_it_on_7_3() {
    check("7.3");
}
