//! `quartierd` asks DAMON how much of its memory a process uses, on real kernels; leaves alone what somebody else has set up
//! there, and nothing behind.

mod common;

use common::lines;

/// One has 192 MiB and uses 24.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 uses=$3
    cd /tmp && printf 'monitor.damon = true\nmonitor.pages_percent = 15\n' > config
    until_so() { for look in $(seq 40); do "$@" 2> /dev/null && break; sleep 0.5; done; }
    # What 7.3 does by itself, until it is told not to.
    statistics=/sys/module/damon_stat/parameters/enabled
    begin() { $quartierd --apply --journal journal --config config >> said 2>&1 & daemon=$!; }
    if [ -e $statistics ]; then
        $uses 64 8 600 & other=$!
        begin
        until_so grep -q 'working sets' said
        kill -TERM $daemon; wait $daemon; kill $other
        echo N > $statistics
        sed 's/^/with-statistics /' said; rm said
    fi
    nr=/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
    $uses 192 24 600 & pid=$!
    sleep 3
    begin
    is_known() { $quartier explain $pid > explained && grep -q "$1" explained; }
    if [ ! -e $nr ]; then
        until_so is_known .
        until_so grep -q 'has no DAMON' said
    else
        until_so is_known 'used .* lately'
    fi
    sed 's/^/explained /' explained
    kill -TERM $daemon; wait $daemon || echo "quartierd ended with $?"
    [ -e $nr ] || { sed 's/^/said /' said; kill $pid; exit; }
    echo "stopped $(cat $nr)"
    begin
    until_so grep -q 1 $nr
    echo "watching $(cat $nr)"
    kill -9 $daemon; wait $daemon 2> /dev/null
    $quartier undo --journal journal 2>&1 | sed 's/^/undone /'
    echo "undone-nr $(cat $nr)"
    echo 1 > $nr
    begin
    until_so grep -q 'somebody else uses' said
    kill -TERM $daemon; wait $daemon || echo "quartierd ended with $?"
    echo "of-others $(cat $nr)"
    sed 's/^/said /' said
    kill $pid
"#;

fn run(kernel: &str) -> Option<String> {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("uses")];
    let (text, said) = common::script_in_small_guest(kernel, SCRIPT, programs)?;
    println!("kernel {kernel}: {said}\n{text}");
    assert!(!text.contains("ended with"), "{text}");
    Some(text)
}

fn check(kernel: &str) {
    let Some(text) = run(kernel) else { return };
    if kernel == "7.3" {
        let said = lines(&text, "with-statistics").join("\n");
        assert!(said.contains("damon_stat/parameters/enabled"), "{text}");
    }
    let explained = lines(&text, "explained").join("\n");
    let (_, used) = explained.split_once("of which it used ").expect("it is known");
    let (number, unit) = used
        .split_once(" lately")
        .unwrap()
        .0
        .split_at(used.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap());
    let mib = number.parse::<f64>().unwrap()
        * match unit.trim().chars().next() {
            Some('M') => 1.0,
            Some('K') => 1.0 / 1024.0,
            _ => panic!("{unit}: {text}"),
        };
    // Regions follow what is used, and do not end where it does.
    assert!((12.0..=96.0).contains(&mib), "{mib} MiB of 24: {text}");
    assert_eq!(lines(&text, "stopped"), ["0"], "{text}");
    assert_eq!(lines(&text, "watching"), ["1"], "{text}");
    assert!(lines(&text, "undone").iter().any(|line| line.contains("stopped DAMON")), "{text}");
    assert_eq!(lines(&text, "undone-nr"), ["0"], "{text}");
    assert_eq!(lines(&text, "of-others"), ["1"], "what is somebody else's stays: {text}");
    let said = lines(&text, "said").join("\n");
    assert!(
        said.contains("watched by DAMON") && said.contains("somebody else uses DAMON"),
        "{text}"
    );
}

#[test]
fn what_a_process_uses_is_known_on_6_12() {
    check("6.12");
}

#[test]
fn what_a_process_uses_is_known_on_7_3() {
    check("7.3");
}

#[test]
fn a_kernel_without_damon_is_said_to_have_none() {
    let Some(text) = run("6.1") else { return };
    assert!(lines(&text, "said").join("\n").contains("has no DAMON"), "{text}");
    assert!(!lines(&text, "explained").is_empty() && !text.contains("of which it used"), "{text}");
}
