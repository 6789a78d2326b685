//! `quartier serve` on a machine of four nodes with two CPUs: each connection is served on the node that
//! received it, by a copy with its memory there; a node that has more than it can serve gives some away.
//! Clients run on every CPU in turn, as loopback receives a connection on the CPU of its client.

mod common;

const NODES: usize = 4;

const SERVE: &str = r#"
    quartier=$1 serves=$2 pages_of_file=$3 choose=$4
    ip link set lo up
    cd /tmp
    mkdir www && head -c 1M /dev/urandom > www/file
    $quartier serve --name guest --port 8080 --choose $choose --root www --copy-root \
        -- $serves 8080 2 5000 {root} 2>said &
    unit=$!
    state() { $quartier serve status --name guest --json | grep -c '"state": "serves"'; }
    for look in $(seq 120); do [ "$(state)" = 4 ] && break; sleep 0.5; done
    for cpu in $(seq 0 7); do
        taskset -c $cpu $serves get 8080 25 | sed "s/^/from $((cpu / 2)) /"
    done
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
    kill $unit
    wait $unit
    echo "ended $?"
    echo "left $(ls /dev/shm | grep -c serve)"
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

/// What a guest says, and the part of the answers from the node that was asked there.
fn run(kernel: &str, choose: &str) -> Option<(String, f64)> {
    let programs = ["serves", "pages_of_file"].map(common::program);
    let programs = std::iter::once(common::quartier().clone()).chain(programs);
    let given = programs.map(|program| program.display().to_string());
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let given = given.chain([choose.to_owned()]);
    let (text, said) = common::script_in_guest(kernel, options, SERVE, given)?;
    println!("kernel {kernel}, {choose}: {said}\n{text}");
    let answers = answers(&text, "from");
    assert_eq!(answers.len(), 8 * 25);
    let local = answers.iter().filter(|(asked, answered)| asked == answered).count();
    // Each copy has the folder on its node, also after it has changed.
    for (word, pages) in [("root", 256), ("changed", 512)] {
        let expected: Vec<_> = (0..NODES).map(|node| format!("{pages} {node}")).collect();
        assert_eq!(common::lines(&text, word), expected, "{text}");
    }
    assert_eq!(common::lines(&text, "ended"), ["0"]);
    assert_eq!(common::lines(&text, "left"), ["0"]);
    Some((text, local as f64 / answers.len() as f64))
}

fn check(kernel: &str) {
    let Some((text, local)) = run(kernel, "auto") else { return };
    assert!(local >= 0.95, "{local}");
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
}

#[test]
fn connections_are_served_where_they_arrive_on_6_12() {
    check("6.12");
}

#[test]
fn connections_are_served_where_they_arrive_on_7_3() {
    check("7.3");
    // The kernel's own hashing knows nothing of nodes.
    let Some((_, local)) = run("7.3", "kernel") else { return };
    assert!((0.1..=0.45).contains(&local), "{local}");
}
