//! `quartierd` that may use the cpusets of control groups, on real kernels: a process that is alone in its group is held by
//! that, whoever shares a group or has one of which somebody said the CPUs is not, and all is as it was afterwards, also after
//! a kill. What older kernels get instead, `daemon.rs` asks.

mod common;

/// Four processes with 8 MiB each on node 0. Two have a group of their own and are wanted on other nodes, one shares its with
/// a sleeper, one has a group of which somebody said the CPUs.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    printf '[[tasks.cpuset]]\ncgroup = "/may"\n' > config
    for group in first:1 second:2 shared:3 set:3; do
        printf '[[tasks.pin]]\nwho = { name = "far", cgroup = "/may/%s" }\nnode = %s\n' ${group%:*} ${group#*:} >> config
    done
    groups=/sys/fs/cgroup
    echo +cpuset > $groups/cgroup.subtree_control
    mkdir $groups/may && echo +cpuset > $groups/may/cgroup.subtree_control
    mkdir $groups/may/first $groups/may/second $groups/may/shared $groups/may/set
    echo 0-7 > $groups/may/set/cpuset.cpus
    sleep 600 & sleeper=$!
    echo $sleeper > $groups/may/shared/cgroup.procs
    start() {
        $far 8 0 $2 600 30 > far.$1 & pids="$pids $!"
        echo $! > $groups/may/$1/cgroup.procs
        eval $1=$!
    }
    start first 4; start second 6; start shared 1; start set 2
    sleep 2
    left() { grep Cpus_allowed_list /proc/$1/status | cut -f 2; }
    show() {
        for group in first second shared set; do
            eval pid=\$$group
            echo "$1-$group [$(cat $groups/may/$group/cpuset.cpus)] $(left $pid)"
        done
    }
    start_daemon() { $quartierd --apply --journal journal --log log --config config > said.$1 2>&1 & daemon=$!; settle 20; }
    show before
    start_daemon killed
    show moved
    tail -q -n 1 far.* | sed 's/^/local /'
    kill -9 $daemon
    wait $daemon 2> /dev/null
    $quartier undo --journal journal | sed 's/^/undone-said /'
    show undone
    start_daemon stopped
    # One gets company, of the other somebody says the CPUs.
    sleep 600 & guest=$!
    echo $guest > $groups/may/first/cgroup.procs
    echo 0-1 > $groups/may/second/cpuset.cpus
    sleep 8
    echo "company [$(cat $groups/may/first/cpuset.cpus)] $(left $guest)"
    show taken
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    show stopped
    sed 's/^/said /' said.*
    $quartier replay log | sed 's/^/replayed /'
    kill $pids $sleeper $guest
"#;

fn run(kernel: &str) -> Option<String> {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("far")];
    common::script_on_four_nodes(kernel, SCRIPT, programs)
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
    let are = |word: &str, expected: [(&str, &str); 4]| {
        let groups = ["first", "second", "shared", "set"];
        let all = groups.map(|group| cpus(&text, &format!("{word}-{group}")));
        assert_eq!(all, expected, "{word}: {text}");
    };
    are("moved", [("2-3", "2-3"), ("4-5", "4-5"), ("", "6-7"), ("0-7", "6-7")]);
    assert!(common::lines(&text, "local").iter().all(|line| line.contains(": 100,")), "{text}");
    let said = common::lines(&text, "said").join("\n");
    for expected in ["by the cpuset of /may/first,", "others are in it too", "somebody has said"] {
        assert!(said.contains(expected), "{expected}: {text}");
    }
    // Who has company is held thread by thread, and the company not at all. What somebody sets is his.
    assert_eq!(cpus(&text, "company"), ("", "0-7"), "{text}");
    are("taken", [("", "2-3"), ("0-1", "0-1"), ("", "6-7"), ("0-7", "6-7")]);
    are("stopped", [("", "0-7"), ("0-1", "0-1"), ("", "0-7"), ("0-7", "0-7")]);
    let undone = common::lines(&text, "undone-said");
    assert!(undone.contains(&"2 control groups have their CPUs back"), "{text}");
}

#[test]
fn a_process_is_held_by_its_group_on_7_2() {
    check("7.2");
}

#[test]
fn a_process_is_held_by_its_group_on_7_3() {
    check("7.3");
}
