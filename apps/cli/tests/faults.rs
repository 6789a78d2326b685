//! `quartierd` while all goes wrong around it, on real kernels: tasks that end while they are moved, forks without end,
//! clocks that step, CPUs that go offline, a cpuset that changes, a node that fills up, permission that is lost. It goes on,
//! nobody else comes to harm, and nothing is left behind.

mod common;

/// Three that stay all the time, one of them in a cpuset of its own; others come and go.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3 forks=$4
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    printf 'monitor.pages_percent = 15\nreporter.rest_s = 1.0\n' > config
    group=/sys/fs/cgroup/cut
    echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
    mkdir $group && echo 0-7 > $group/cpuset.cpus
    for cpu in 2 4 6; do $far 8 0 $cpu 600 30 > stays.$cpu & stay="$stay $!"; done
    in_group=$!
    echo $in_group > $group/cgroup.procs
    $quartierd --apply --journal journal --log log --config config > said 2>&1 & daemon=$!
    state() {
        for pid in $stay; do kill -0 $pid || echo "gone after $1: $pid"; done
        kill -0 $daemon || { echo "quartierd has ended after $1: $(cat said)"; exit; }
        echo "$1 $(ls /proc/$daemon/fd | wc -l) descriptors, $(grep VmRSS /proc/$daemon/status | tr -dc 0-9) KiB"
    }
    sleep 3
    state start
    # Tasks end at any moment of being looked at, held and moved, beside a storm of forks.
    $forks 15 > forked & storm=$!
    $forks 15 > forked-beside & beside=$!
    for nr in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        $far 8 0 $((nr % 8)) 600 30 > /dev/null & first=$!
        $far 4 2 $((nr * 3 % 8)) 600 30 > /dev/null & second=$!
        sleep 0.$((nr * 7 % 10)); kill -9 $first
        sleep 0.$((nr * 3 % 10)); kill -9 $second
    done 2> /dev/null
    wait $storm $beside
    echo "forked $(($(cat forked) + $(cat forked-beside)))"
    state endings
    now=$(date +%s)
    date -s @$((now + 86400)) > /dev/null && sleep 1 && date -s @$((now - 3600)) > /dev/null && sleep 1
    date -s @$((now + 3)) > /dev/null
    state clocks
    for cpu in 2 3 4 5 6; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done
    sleep 3
    echo "online $(cat /sys/devices/system/cpu/online)"
    for cpu in 2 3 4 5 6; do echo 1 > /sys/devices/system/cpu/cpu$cpu/online; done
    sleep 3
    state offline
    echo 2-3 > $group/cpuset.cpus
    sleep 3
    echo "cut $(grep Cpus_allowed_list /proc/$in_group/status | cut -f 2)"
    echo 0-7 > $group/cpuset.cpus
    sleep 2
    state cpuset
    # Little is left on all nodes but the first, and what is on it wants to move.
    for node in 1 2 3; do
        kib=$(grep MemFree /sys/devices/system/node/node$node/meminfo | tr -s ' ' | cut -d ' ' -f 4)
        $far $((kib / 1024 - 90)) $((node * 2)) $((node * 2 + 1)) 600 > /dev/null & full="$full $!"
    done
    for cpu in 3 5 7; do $far 160 0 $cpu 600 > /dev/null & full="$full $!"; done
    sleep 12
    for pid in $full; do kill -0 $pid || echo "gone: $pid, which fills a node"; done
    kill $full
    state full
    sleep 3
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    for pid in $stay; do echo "left $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2)"; done
    $quartier undo --journal journal | sed 's/^/undone /'
    grep '^oom_kill ' /proc/vmstat
    $quartier replay log | sed 's/^/replayed /'
    kill $stay
    # They may be moved, until they may not: two of three have to take their memory along.
    chmod 1777 /tmp
    mkdir -m 777 own
    be_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
    for cpu in 2 4 6; do $be_nobody $far 96 0 $cpu 600 > /dev/null & hidden="$hidden $!"; done
    sleep 5
    $be_nobody $quartierd --apply --journal own/journal --config config > said-by-nobody 2>&1 & daemon=$!
    for look in $(seq 100); do grep -q 'pages To' said-by-nobody && break; sleep 0.2; done
    kill -USR1 $hidden
    sleep 3
    kill -TERM $daemon
    wait $daemon || echo "quartierd of nobody ended with $?"
    for pid in $hidden; do echo "hidden $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2)"; done
    sed 's/^/nobody /' said-by-nobody
    kill $hidden
"#;

fn check(kernel: &str) {
    let programs = [common::quartier().clone(), common::quartierd()];
    let programs = programs.into_iter().chain(["far", "forks"].map(common::program));
    let Some(text) = common::script_on_four_nodes(kernel, SCRIPT, programs) else {
        return;
    };
    let lines = |word: &str| common::lines(&text, word);
    for stage in ["start", "endings", "clocks", "offline", "cpuset", "full"] {
        let [state] = lines(stage)[..] else { panic!("{stage}: {text}") };
        let numbers: Vec<u64> = state.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] <= 64, "descriptors are left open after {stage}: {text}");
        assert!(numbers[1] <= 64 << 10, "memory grows after {stage}: {text}");
    }
    for bad in ["gone", "ended with", "has ended"] {
        assert!(!text.contains(bad), "{bad}: {text}");
    }
    // The faults were there.
    assert!(lines("forked")[0].parse::<u64>().unwrap() > 100, "{text}");
    assert_eq!(lines("online"), ["0-1,7"], "{text}");
    assert_eq!(lines("cut"), ["2-3"], "nobody widens a cpuset: {text}");
    // And nothing of ours is left.
    assert_eq!(lines("left"), ["0-7"; 3], "{text}");
    assert_eq!(lines("undone"), ["0 threads let go"], "{text}");
    assert_eq!(lines("oom_kill"), ["0"], "{text}");
    assert!(lines("replayed").iter().any(|line| line.ends_with("all the same")), "{text}");
    assert!(lines("nobody").iter().any(|line| line.contains("pages To")), "{text}");
    assert_eq!(lines("hidden"), ["0-7"; 3], "{text}");
}

/// On request, as `QUARTIER_TEST_KERNELS=all`: what differs between kernels is tested in `daemon.rs`.
#[test]
fn it_goes_on_when_all_goes_wrong_on_6_1() {
    if common::asks_for_all_kernels() {
        check("6.1");
    }
}

#[test]
fn it_goes_on_when_all_goes_wrong_on_7_3() {
    check("7.3");
}
