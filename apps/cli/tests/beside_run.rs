//! `quartierd` beside `quartier run`, on real kernels with four nodes of two CPUs: the daemon leaves a run's processes to it, both
//! count in one tree, and a run that somebody starts who is held on a node is not held there.

mod common;

use serde_json::Value;

/// Four processes begin far from their memory, as in `daemon.rs`; a fifth does under `quartier run`; and a shell is busy that an
/// administrator pins to node 2, which then starts two runs: one that can ask quartierd, and one that cannot. Another such shell becomes a run.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3 side=$4
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    cp /bin/dash driver
    printf 'monitor.pages_percent = 15\n[[tasks.pin]]\nwho = { name = "driver" }\nnode = 2\n' > config
    tree() { echo "$1 $($quartier tree show --json | tr -d '\n')"; }
    threads() { $quartier tree show --json | grep -m 1 '"threads"' | tr -dc 0-9; }
    cpus() { grep Cpus_allowed_list /proc/$1/status | cut -f 2; }
    $quartier tree serve 2> served & serving=$!
    until [ -e /dev/shm/quartier/tree ]; do sleep 0.1; done
    pids=
    for cpu in 0 2 4 6; do $far 8 0 $cpu 600 > far.$cpu & pids="$pids $!"; done
    $quartier run --quiet -- $far 8 0 7 600 > under & running=$!
    until [ -s under ]; do sleep 0.1; done
    under=$(pgrep -P $running -x far)
    ./driver -c '
        while [ ! -e go ]; do i=$((i + 1)); done
        QUARTIER_DAEMON=127.0.0.1:1 '$quartier' run --quiet -- grep Cpus_allowed_list /proc/self/status > kept
        '$quartier' run -- grep Cpus_allowed_list /proc/self/status > widened 2> said-by-run
        touch driven; sleep 600; true' & driver=$!
    ./driver -c '
        while [ ! -e go ]; do i=$((i + 1)); done
        exec '$quartier' run --quiet -- grep Cpus_allowed_list /proc/self/status > exec-widened' & execs=$!
    sleep 1
    echo "under-before $(cpus $under)"
    $quartierd --apply --journal journal --log log --config config > said 2>&1 & daemon=$!
    settle 20; sleep 3
    tree together
    echo "under-after $(cpus $under)"
    $quartier explain $under | sed 's/^/explained /'
    echo "driver-held $(cpus $driver)"
    touch go
    until [ -e driven ]; do sleep 0.1; done
    wait $execs
    echo "exec-widened $(cut -f 2 exec-widened)"
    QUARTIER_DAEMON=nonsense taskset -c 2 $quartier run --quiet -- true
    echo "bad-environment $?"
    $quartier explain $driver | sed 's/^/driver-explained /'
    echo "kept $(cut -f 2 kept)"
    echo "widened $(cut -f 2 widened)"
    echo "said-by-run $(cat said-by-run)"
    # Those that have ended are counted no more.
    sleep 3
    tree then
    $quartier run --quiet -- $side places end & beside=$!
    until [ -s places ]; do sleep 0.1; done
    echo "places $(cat places)"
    touch end
    wait $beside
    grep -c "\"process\":{\"id\":$under,.*\"threads_held\"" log | sed 's/^/touched /'
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    tree alone
    echo "driver-let-go $(cpus $driver)"
    echo "under-at-last $(cpus $under)"
    $quartierd --apply --journal journal --config config > said-again 2>&1 & daemon=$!
    for look in $(seq 20); do
        sleep 1
        [ $(threads) -ge 4 ] && break
    done
    tree again
    kill -9 $daemon
    wait $daemon 2> /dev/null
    # Whoever serves the tree looks for dead ones every ten ticks.
    for look in $(seq 30); do
        sleep 1
        [ $(threads) = 1 ] && break
    done
    tree killed
    $quartier undo --journal journal > /dev/null
    grep 'decision tree' said | sed 's/^/said /'
    kill $pids $driver $running $serving
"#;

fn check(kernel: &str) {
    let programs = [
        common::quartier().clone(),
        common::quartierd(),
        common::program("far"),
        common::program("side_by_side"),
    ];
    let Some(text) = common::script_on_four_nodes(kernel, SCRIPT, programs) else {
        return;
    };
    let one = |word: &str| match common::lines(&text, word)[..] {
        [line] => line,
        ref lines => panic!("{word}: {lines:?}"),
    };
    let tree = |word: &str| -> (u64, Vec<u64>) {
        let tree: Value = serde_json::from_str(one(word)).unwrap();
        let threads = |of: &Value| of["threads"].as_u64().unwrap();
        (threads(&tree), tree["nodes"].as_array().unwrap().iter().map(threads).collect())
    };
    // The four, two shells, and the one that its own run counts; what else is busy in a guest that is slow counts too.
    let (together, on_nodes) = tree("together");
    assert!(together >= 6, "{on_nodes:?}");
    assert_eq!(tree("alone").0, 1, "the run's own");
    assert!(tree("again").0 >= 4);
    assert_eq!(tree("killed").0, 1, "whoever serves the tree takes a killed one's threads off");
    assert_eq!(common::lines(&text, "said").len(), 1);
    // Whoever runs under `quartier run` is left to it.
    assert_eq!([one("under-after"), one("under-at-last")], [one("under-before"); 2]);
    assert_eq!(one("touched"), "0");
    let explained = common::lines(&text, "explained").join("\n");
    assert!(explained.contains("`quartier run` places it"), "{explained}");
    // Whoever is started by one that is held is not.
    assert_eq!((one("driver-held"), one("driver-let-go")), ("4-5", "0-7"));
    // (One that starts slowly may have been held elsewhere before it was known to be a run.)
    assert!(["0-1", "2-3", "4-5", "6-7"].contains(&one("kept")), "{}", one("kept"));
    assert_eq!(one("widened"), "0-7");
    assert!(one("said-by-run").contains("quartierd holds who started this on node "));
    assert!(common::lines(&text, "driver-explained").join("\n").contains("held on node 2"));
    assert_eq!(one("exec-widened"), "0-7");
    assert_eq!(one("bad-environment"), "0");
    // The second thread of a run that begins then is where a CPU is free of others too; its first is the kernel's to move until then.
    let (_, on_nodes) = tree("then");
    let second: usize = one("places").rsplit(' ').next().unwrap().parse().unwrap();
    let emptiest = on_nodes.iter().min().unwrap();
    assert!(on_nodes[second] <= emptiest + 1, "node {second} of {on_nodes:?}");
    assert!(!text.contains("ended with"));
}

/// On request, as `QUARTIER_TEST_KERNELS=all`: what differs between kernels is tested in `daemon.rs`.
#[test]
fn the_two_share_a_tree_and_never_fight_on_6_1() {
    if common::asks_for_all_kernels() {
        check("6.1");
    }
}

#[test]
fn the_two_share_a_tree_and_never_fight_on_7_3() {
    check("7.3");
}
