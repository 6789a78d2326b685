//! `quartier serve` on a machine of four nodes with two CPUs: each connection is served on the node that
//! received it, by a copy with its memory there; a node that has more than it can serve gives some away, and so
//! does one that a program under `quartier run` occupies, which itself goes where no copy is busy: both count in
//! one decision tree. Clients run on every CPU in turn, as loopback receives a connection on the CPU of its client.

mod common;

use serde_json::Value;

const NODES: usize = 4;

const SERVE: &str = r#"
    quartier=$1 serves=$2 pages_of_file=$3 also=$4
    ip link set lo up
    cd /tmp
    mkdir www && head -c 1M /dev/urandom > www/file
    state() { $quartier serve status --name guest --json | grep -c '"state": "serves"'; }
    # With a way to choose, and the word before what was answered to clients on each CPU.
    serve() {
        $quartier serve --name guest --port 8080 --choose $1 --root www --copy-root \
            -- $serves 8080 2 5000 {root} 2>>said &
        unit=$!
        for look in $(seq 120); do [ "$(state)" = 4 ] && break; sleep 0.5; done
        for cpu in $(seq 0 7); do
            taskset -c $cpu $serves get 8080 25 | sed "s/^/$2 $((cpu / 2)) /"
        done
    }
    serve auto from
    sleep 3
    $quartier serve status --name guest | sed 's/^/status /'
    for pid in $($quartier serve status --name guest --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | tail -n 4); do
        echo "bound $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2) $(sed -n 's/.* \(prefer[^ ]*\) .*/\1/p' /proc/$pid/numa_maps | head -n 1)"
    done
    roots() {
        for copy in 0 1 2 3; do
            file=/run/quartier-serve/guest/roots/$copy/root/file
            echo "$1 $(cmp $file www/file && $pages_of_file $file | cut -d ' ' -f 2 | sort | uniq -c | xargs)"
        done
    }
    roots root
    head -c 2M /dev/urandom > www/file
    for look in $(seq 60); do cmp -s /run/quartier-serve/guest/roots/3/root/file www/file && break; sleep 0.5; done
    roots changed
    for client in $(seq 8); do
        taskset -c 0-1 $serves get 8080 60 | sed 's/^/busy /' >busy.$client & clients="$clients $!"
    done
    wait $clients
    cat busy.*
    $quartier serve status --name guest | sed 's/^/then /'
    end() { kill $unit; wait $unit; echo "ended $?"; echo "left $(ls /dev/shm | grep -c serve)"; }
    end
    [ -z "$also" ] || { serve $also hashed; end; }
    sed 's/^/said /' said
"#;

/// Answers by the node that asked and the one that answered.
fn answers(text: &str, word: &str) -> Vec<(usize, usize)> {
    let answer = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let (asked, words) = match words[..] {
            [asked, "copy", ..] => (asked.parse().unwrap(), &words[1..]),
            _ => (0, &words[..]),
        };
        (asked, words[5].parse().unwrap())
    };
    common::lines(text, word).into_iter().map(answer).collect()
}

/// The part of the answers from the node that was asked.
fn local(text: &str, word: &str) -> f64 {
    let answers = answers(text, word);
    assert_eq!(answers.len(), 8 * 25);
    let local = answers.iter().filter(|(asked, answered)| asked == answered).count();
    local as f64 / answers.len() as f64
}

/// What a guest says that serves, and then in another way to choose too.
fn run(kernel: &str, also: &[&str]) -> Option<String> {
    let programs = ["serves", "pages_of_file"].map(common::program);
    let programs = std::iter::once(common::quartier().clone()).chain(programs);
    let given = programs.map(|program| program.display().to_string());
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let given = given.chain(also.iter().map(|&way| way.to_owned()));
    let (text, said) = common::script_in_guest(kernel, options, SERVE, given)?;
    println!("kernel {kernel}: {said}\n{text}");
    // Each copy has the folder on its node, also after it has changed.
    for (word, pages) in [("root", 256), ("changed", 512)] {
        let expected: Vec<_> = (0..NODES).map(|node| format!("{pages} {node}")).collect();
        assert_eq!(common::lines(&text, word), expected, "{text}");
    }
    assert_eq!(common::lines(&text, "ended"), vec!["0"; 1 + also.len()]);
    assert_eq!(common::lines(&text, "left"), vec!["0"; 1 + also.len()]);
    Some(text)
}

fn check(kernel: &str, also: &[&str]) {
    let Some(text) = run(kernel, also) else { return };
    let served = local(&text, "from");
    assert!(served >= 0.95, "{served}");
    let bound: Vec<String> =
        (0..NODES).map(|node| format!("{}-{} prefer", 2 * node, 2 * node + 1)).collect();
    for (line, bound) in common::lines(&text, "bound").iter().zip(&bound) {
        assert!(line.starts_with(bound), "{line}, not {bound}");
    }
    // Eight clients and a copy on two CPUs: the others idle, and get some.
    let busy = answers(&text, "busy");
    assert_eq!(busy.len(), 8 * 60);
    let elsewhere = busy.iter().filter(|(_, answered)| *answered != 0).count();
    println!("{elsewhere} of {} given away", busy.len());
    assert!(elsewhere * 20 >= busy.len(), "{elsewhere} of {}", busy.len());
    // The kernel's own hashing knows nothing of nodes.
    if !also.is_empty() {
        let hashed = local(&text, "hashed");
        assert!((0.1..=0.45).contains(&hashed), "{hashed}");
    }
}

#[test]
fn connections_are_served_where_they_arrive_on_6_12() {
    check("6.12", &[]);
}

#[test]
fn connections_are_served_where_they_arrive_on_7_3() {
    check("7.3", &["kernel"]);
}

/// One tree, in which `quartier run` and `quartier serve` count. At first nothing is asked, then a run occupies node 1, then
/// clients keep node 0's copy busy while three runs begin; that copy is stopped for a while; and in the end the serve is killed.
const TREE: &str = r#"
    quartier=$1 serves=$2 side=$3 busy=$4
    ip link set lo up
    cd /tmp
    tree() { echo "$1 $($quartier tree show --json | tr -d '\n')"; }
    # T of a node, or (-1) of all; and waits until it is so.
    threads() { $quartier tree show --json | grep '"threads":' | sed -n "$(($1 + 2))p" | tr -dc 0-9; }
    until_threads() { for look in $(seq 80); do [ "$(threads $1)" $2 $3 ] && break; sleep 0.5; done; }
    state() { $quartier serve status --name guest --json | grep -c '"state": "serves"'; }
    get() { taskset -c $2 $serves get 8080 $3 | sed "s/^/$1 /"; }
    $quartier tree serve --threads-mode 660 2>/dev/null & serving=$!
    for look in $(seq 100); do [ -e /dev/shm/quartier/tree ] && break; sleep 0.1; done
    $quartier serve --name guest --port 8080 -- $serves 8080 2 50000 2>said & unit=$!
    for look in $(seq 120); do [ "$(state)" = 4 ] && break; sleep 0.5; done
    until_threads -1 -eq 0
    tree idle
    get free 2 40
    taskset -c 2-3 $quartier run --quiet --daemon off --policy first-touch -- $busy crew 2 1 600 & running=$!
    until_threads 1 -ge 3
    timeout 25 taskset -c 2-3 $serves get 8080 1000000 >/dev/null
    $quartier serve status --name guest | sed 's/^/seen /'
    echo "status $($quartier serve status --name guest --json | tr -d '\n')"
    for cpu in 2 3; do get occupied $cpu 40; done
    for cpu in 0 4 6; do get beside $cpu 20; done
    kill $running
    wait $running
    until_threads -1 -eq 0
    tree freed
    for client in 1 2; do
        taskset -c 0-1 $serves get 8080 1000000 >/dev/null & clients="$clients $!"
    done
    until_threads 0 -ge 1
    tree busy
    for run in 1 2 3; do
        $quartier run --quiet --daemon off --policy first-touch -- $side places.$run go & runs="$runs $!"
        for look in $(seq 300); do [ -s places.$run ] && break; sleep 0.1; done
        echo "placed $(cut -d ' ' -f 3 places.$run)"
    done
    touch go
    wait $runs
    copies=$($quartier serve status --name guest --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | tail -n 4)
    first=$(echo $copies | cut -d ' ' -f 1)
    /bin/kill -s STOP -- -$first
    until_threads 0 -eq 0
    tree stopped
    /bin/kill -s CONT -- -$first
    until_threads 0 -ge 1
    tree continued
    kill -9 $unit
    wait $unit 2>/dev/null
    until_threads -1 -eq 0
    tree killed
    get after 0 3
    kill $clients $serving
    for copy in $copies; do /bin/kill -s KILL -- -$copy; done
    sed 's/^/said /' said
"#;

/// T of all and of each node, as a line has it.
fn threads(text: &str, word: &str) -> (u64, Vec<u64>) {
    let lines = common::lines(text, word);
    let tree: Value = serde_json::from_str(lines[0]).expect(word);
    let threads = |of: &Value| of["threads"].as_u64().unwrap();
    (threads(&tree), tree["nodes"].as_array().unwrap().iter().map(threads).collect())
}

/// Of answers to those who asked under a word: all, and those of a node.
fn answered_by(text: &str, word: &str, node: usize) -> (usize, usize) {
    let answers = answers(text, word);
    (answers.len(), answers.iter().filter(|(_, answered)| *answered == node).count())
}

fn check_tree(kernel: &str) {
    let programs = ["serves", "side_by_side", "busy_nodes"].map(common::program);
    let programs = std::iter::once(common::quartier().clone()).chain(programs);
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "400"];
    let Some((text, said)) = common::script_in_guest(kernel, options, TREE, programs) else {
        return;
    };
    println!("kernel {kernel}: {said}\n{text}");
    // Twelve processes that wait for clients are no active threads.
    assert_eq!(threads(&text, "idle").0, 0);
    let (all, at_home) = answered_by(&text, "free", 1);
    assert!(all == 40 && at_home * 10 >= all * 9, "{at_home} of {all}");
    // What arrives where a run has both CPUs goes elsewhere, and nothing of others comes there.
    let (all, at_home) = answered_by(&text, "occupied", 1);
    assert!(all == 80 && at_home * 10 <= all * 3, "{at_home} of {all}");
    let (all, there) = answered_by(&text, "beside", 1);
    assert!(all == 60 && there * 10 <= all, "{there} of {all}");
    let status: Value = serde_json::from_str(common::lines(&text, "status")[0]).unwrap();
    assert_eq!(status["tree"]["directory"], "/dev/shm/quartier", "{status}");
    let of_run = status["copies"][1]["threads"].as_u64().unwrap();
    assert!(of_run >= 3, "the run has three there: {status}");
    assert_eq!(threads(&text, "freed").0, 0);
    // Runs go where no copy is busy.
    let (_, busy) = threads(&text, "busy");
    assert!(busy[0] >= 1, "{busy:?}");
    let mut placed = common::lines(&text, "placed");
    placed.sort_unstable();
    assert_eq!(placed, ["1", "2", "3"], "{busy:?}");
    // A copy that is stopped has no active thread, and a serve that is killed none at all, while its copies go on.
    assert_eq!(threads(&text, "stopped").1[0], 0);
    assert!(threads(&text, "continued").1[0] >= 1);
    assert_eq!(threads(&text, "killed").0, 0);
    assert_eq!(common::lines(&text, "after").len(), 3);
}

#[test]
fn copies_and_runs_avoid_each_other_on_7_3() {
    check_tree("7.3");
}

#[test]
fn copies_and_runs_avoid_each_other_on_6_12() {
    if common::asks_for_all_kernels() {
        check_tree("6.12");
    }
}
