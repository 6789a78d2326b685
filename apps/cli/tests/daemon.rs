//! `quartierd` on real kernels with four nodes of two CPUs: tasks that run far from their memory are moved, what
//! somebody placed stays, and everything is taken back, also what a killed one did.

mod common;

use serde_json::Value;

/// Four processes of 8 MiB each fill their memory on node 0, and are on a CPU of each node then: two can stay with
/// their memory, two have to take it along. A fifth one is given a CPU by somebody, and of a sixth somebody said where its memory is to be
/// (MPOL_PREFERRED of the first node).
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 far=$3
    cd /tmp && echo 0 > /proc/sys/kernel/numa_balancing
    printf '[[tasks.cpuset]]\nname = "far"\n' > config
    $far 8 3 3 600 30 > placed & placed=$!
    perl -e '$nodes = pack("Q", 1); syscall(238, 1, $nodes, 64) == 0 or die; exec @ARGV' $far 8 0 5 600 30 > bound & bound=$!
    sleep 1
    taskset -p -c 3 $placed > /dev/null
    show() {
        sleep 1.5
        tail -q -n 1 far.* | sed "s/^/$1 /"
        tail -n 1 bound | sed "s/^/$1-bound /"
        for pid in $pids $bound $placed; do
            echo "$1-cpus $(grep Cpus_allowed_list /proc/$pid/status | cut -f 2)"
        done
    }
    # In a guest that hardly runs, the kernel may bring one home by chance: the daemon begins while two are away.
    for attempt in 1 2 3 4 5 6 7 8; do
        pids=
        for cpu in 0 2 4 6; do $far 8 0 $cpu 600 30 > far.$cpu & pids="$pids $!"; done
        sleep 0.5
        show before > now
        [ $(grep -c '^before .*"local_percent": *0[,.]' now) -ge 2 ] && break
        sed "s/^/attempt $attempt: /" now
        kill $pids
    done
    cat now
    $quartierd --apply --journal journal --log log --config config > said & daemon=$!
    settle 15; sleep 2
    show moved
    kill -9 $daemon
    wait $daemon 2> /dev/null
    $quartier undo --journal journal > undone || echo "not all undone: $(cat undone)"
    show undone
    grep '"outcome"' log | sed 's/^/log /'
    grep -o 'not by the cpuset of.*' said | sed 's/^/cpuset /'
    $quartier replay log | sed 's/^/replayed /'
    $quartierd --apply --journal journal > said-again & daemon=$!
    settle 15; sleep 2
    kill -TERM $daemon
    wait $daemon || echo "quartierd ended with $?"
    show stopped
    grep -c "\"process\":{\"id\":$bound,.*\"threads_held\"" log | sed 's/^/bound-touched /'
    kill $pids $placed $bound
"#;

struct Answer(String);

impl Answer {
    /// What follows that word on its lines.
    fn lines(&self, word: &str) -> Vec<&str> {
        common::lines(&self.0, word)
    }

    fn json(&self, word: &str) -> Vec<Value> {
        self.lines(word).into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Percent of local pages of each process.
    fn local(&self, word: &str) -> Vec<u64> {
        let far = self.json(word);
        assert_eq!(far.len(), 4, "{}", self.0);
        far.iter().map(|line| line["local_percent"].as_u64().unwrap()).collect()
    }

    /// Whether all pages of all processes are on the first node.
    fn are_home(&self, word: &str) -> bool {
        self.json(word).iter().all(|line| line["pages_on"][0].as_u64().unwrap() >= 250)
    }

    /// The CPUs of the four, and of the two that somebody placed.
    fn cpus(&self, word: &str) -> (Vec<&str>, Vec<&str>) {
        let word = format!("{word}-cpus");
        let mut all = self.lines(&word);
        let placed = all.split_off(4);
        (all, placed)
    }
}

fn check(kernel: &str) {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("far")];
    let Some(text) = common::script_on_four_nodes(kernel, SCRIPT, programs) else {
        return;
    };
    let answer = Answer(text);
    let (before, moved) = (answer.local("before"), answer.local("moved"));
    assert!(
        before.iter().filter(|percent| **percent == 0).count() >= 2,
        "nothing to do: {before:?}"
    );
    assert!(answer.are_home("before"), "{}", answer.0);
    // One that was far has taken its 8 MiB along, if not two, and is at home there.
    let outcomes = answer.json("log");
    let bytes = |outcome: &Value| outcome["outcome"]["moved"].as_u64().unwrap();
    assert!(outcomes.iter().any(|outcome| bytes(outcome) >= 7 << 20), "{}", answer.0);
    assert!(moved.iter().filter(|percent| **percent >= 90).count() >= 2, "{}", answer.0);
    assert!(answer.cpus("moved").0.iter().any(|cpus| *cpus != "0-7"), "{}", answer.0);
    for word in ["before", "moved", "undone", "stopped"] {
        assert_eq!(answer.cpus(word).1, ["0-7", "3"], "what somebody set stays: {}", answer.0);
        let bound = &answer.json(&format!("{word}-bound"))[0];
        assert!(bound["pages_on"][0].as_u64().unwrap() >= 250, "{word}: {}", answer.0);
    }
    assert_eq!(answer.lines("bound-touched"), ["0"], "{}", answer.0);
    for word in ["undone", "stopped"] {
        assert_eq!(answer.cpus(word).0, ["0-7"; 4], "{word}: {}", answer.0);
        assert!(answer.are_home(word), "{word}: {}", answer.0);
    }
    // Their group is that of everybody, and 6.1 could not take back what is done to one.
    let why =
        if kernel == "6.1" { "not supported before Linux 7.2" } else { "it has none; Delegate" };
    let cpuset = answer.lines("cpuset");
    assert!(!cpuset.is_empty() && cpuset.iter().all(|line| line.contains(why)), "{}", answer.0);
    assert!(
        answer.lines("replayed").iter().any(|line| line.ends_with("all the same")),
        "{}",
        answer.0
    );
    assert!(
        !answer.0.contains("not all undone") && !answer.0.contains("ended with"),
        "{}",
        answer.0
    );
}

#[test]
fn tasks_are_moved_and_all_is_taken_back_on_6_1() {
    check("6.1");
}

#[test]
fn tasks_are_moved_and_all_is_taken_back_on_7_3() {
    check("7.3");
}
