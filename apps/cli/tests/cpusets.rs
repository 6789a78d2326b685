//! `quartierd` that may use the cpusets of control groups, on real kernels: a process that is alone in its group is held by
//! that, whoever shares a group or has threads that somebody placed is not, and all is as it was afterwards, also after
//! a kill.

mod common;

/// Four processes with 8 MiB each on node 0, started on CPUs of four nodes. Two have a group of their own, one shares
/// its with a sleeper, one has a group of which somebody said the CPUs.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    printf 'reporter.rest_s = 1.0\n[[tasks.cpuset]]\ncgroup = "/may"\n' > config
    groups=/sys/fs/cgroup
    echo +cpuset > $groups/cgroup.subtree_control
    mkdir $groups/may && echo +cpuset > $groups/may/cgroup.subtree_control
    mkdir $groups/may/first $groups/may/second $groups/may/shared $groups/may/set
    echo 0-7 > $groups/may/set/cpuset.cpus
    sleep 600 & sleeper=$!
    echo $sleeper > $groups/may/shared/cgroup.procs
    start() {
        $far 8 0 $2 600 > far.$1 & pids="$pids $!"
        echo $! > $groups/may/$1/cgroup.procs
        eval $1=$!
    }
    start first 2; start second 4; start shared 6; start set 3
    sleep 2
    left() { grep Cpus_allowed_list /proc/$1/status | cut -f 2; }
    show() {
        for group in first second shared set; do
            eval pid=\$$group
            echo "$1-$group [$(cat $groups/may/$group/cpuset.cpus)] $(left $pid)"
        done
    }
    settle() {
        for look in $(seq 20); do
            sleep 1
            [ $(tail -q -n 1 far.* | grep -c 'percent": \(9[0-9]\|100\),') = 4 ] && break
        done
        sleep 6
    }
    start_daemon() { $quartierd --apply --journal journal --log log --config config > said.$1 2>&1 & daemon=$!; settle; }
    show before
    start_daemon killed
    show moved
    tail -q -n 1 far.* | sed 's/^/local /'
    kill -9 $daemon
    wait $daemon 2> /dev/null
    $quartier undo --journal journal | sed 's/^/undone-said /'
    show undone
    start_daemon stopped
    # One gets company, one is given to somebody, one puts a thread elsewhere by itself.
    narrow=$(for group in first second; do [ -n "$(cat $groups/may/$group/cpuset.cpus)" ] && echo $group; done)
    echo "narrow $(echo $narrow | wc -w)"
    sleep 600 & guest=$!
    company=$(echo $narrow first | cut -d ' ' -f 1)
    echo $guest > $groups/may/$company/cgroup.procs
    other=$(echo $narrow | cut -s -d ' ' -f 2)
    [ -z "$other" ] || echo 0-1 > $groups/may/$other/cpuset.cpus
    sleep 8
    echo "company [$(cat $groups/may/$company/cpuset.cpus)] $(left $guest)"
    [ -z "$other" ] || echo "taken [$(cat $groups/may/$other/cpuset.cpus)]"
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    show stopped
    [ -z "$other" ] || echo "still-taken [$(cat $groups/may/$other/cpuset.cpus)]"
    sed 's/^/said /' said.*
    $quartier replay log | sed 's/^/replayed /'
    kill $pids $sleeper $guest
"#;

fn run(kernel: &str) -> Option<String> {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("far")];
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let (text, said) = common::script_in_guest(kernel, options, SCRIPT, programs)?;
    println!("kernel {kernel}: {said}\n{text}");
    Some(text)
}

/// The CPUs that were set for a group, and those that its process may use.
fn cpus<'a>(text: &'a str, word: &str) -> (&'a str, &'a str) {
    let [line] = common::lines(text, word)[..] else { panic!("{word}: {text}") };
    let (set, left) = line.strip_prefix('[').unwrap().split_once(']').unwrap();
    (set, left.trim())
}

fn check_undone(text: &str) {
    for group in ["first", "second", "shared", "set"] {
        let set = if group == "set" { "0-7" } else { "" };
        for word in ["before", "undone"] {
            assert_eq!(cpus(text, &format!("{word}-{group}")), (set, "0-7"), "{word}: {text}");
        }
    }
    assert!(!text.contains("ended with"), "{text}");
    let replayed = common::lines(text, "replayed");
    assert!(replayed.iter().any(|line| line.ends_with("all the same")), "{text}");
}

fn check(kernel: &str) {
    let Some(text) = run(kernel) else { return };
    check_undone(&text);
    let nodes = ["0-1", "2-3", "4-5", "6-7"];
    // Whoever is held by its group has no narrower affinity than that, and there is one at least.
    let alone = ["first", "second"].map(|group| cpus(&text, &format!("moved-{group}")));
    let by_group = alone.iter().filter(|(set, left)| nodes.contains(set) && set == left);
    assert!(by_group.count() >= 1, "{text}");
    for group in ["shared", "set"] {
        let set = if group == "set" { "0-7" } else { "" };
        assert_eq!(cpus(&text, &format!("moved-{group}")).0, set, "{text}");
    }
    let said = common::lines(&text, "said").join("\n");
    assert!(said.contains("by the cpuset of /may/"), "{text}");
    // Company makes it the kernel's own again; what somebody set is his.
    assert_eq!(cpus(&text, "company"), ("", "0-7"), "{text}");
    for word in ["taken", "still-taken"] {
        for line in common::lines(&text, word) {
            assert_eq!(line, "[0-1]", "{text}");
        }
    }
    for group in ["first", "second"] {
        let (set, left) = cpus(&text, &format!("stopped-{group}"));
        assert!(matches!((set, left), ("", "0-7") | ("0-1", "0-1")), "{group}: {text}");
    }
    assert!(!common::lines(&text, "undone-said").iter().any(|line| line.contains("stays")));
}

#[test]
fn a_process_is_held_by_its_group_on_7_2() {
    check("7.2");
}

#[test]
fn a_process_is_held_by_its_group_on_7_3() {
    check("7.3");
}

/// It could not take that back, so threads are held one by one there, and that is said.
#[test]
fn no_cpuset_is_used_on_6_12() {
    let Some(text) = run("6.12") else { return };
    check_undone(&text);
    for group in ["first", "second", "shared"] {
        assert_eq!(cpus(&text, &format!("moved-{group}")).0, "", "{text}");
    }
    let said = common::lines(&text, "said").join("\n");
    assert!(said.contains("not supported before Linux 7.2"), "{text}");
}
