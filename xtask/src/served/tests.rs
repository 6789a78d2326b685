//! What is asked for, what is taken of a recording, and the table, of made-up runs.

use clap::Parser;
use quartier_count::{ContendedLine, Lines, Nature, Slice, Taker, Word};

use super::guest::{given, taken_by_kernel, windows};
use super::table::Figures;
use super::*;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    args: Args,
}

fn args(words: &[&str]) -> Args {
    let words = [&["served"][..], words].concat();
    Words::parse_from(words).args
}

fn task(variant: Variant, run: u32) -> Task {
    Task {
        cpus_per_node: 4,
        connections: Connections::KeepAlive,
        variant,
        run,
        clients: 1,
        pages: 6,
        tells_lines: false,
        kernel: "7.3".to_owned(),
    }
}

/// 100 pages; two nodes with a CPU each, of a gigahertz.
fn counted(variant: Variant, run: u32, remote: u64, cycles: [u64; 2]) -> Run {
    let kinds = |nr: u64| BTreeMap::from([("RD".to_owned(), nr), ("WR".to_owned(), nr / 4)]);
    let counts = Counts {
        pages: 100,
        instructions: 1_000_000,
        local: kinds(7),
        remote: kinds(remote * 80),
        remote_of_kernel: 2_000,
        owner_changes: 300,
        taken_by_kernel: None,
        cpus: vec![(0, cycles[0]), (1, cycles[1])],
        frequency_mhz: 1_000,
        windows: vec![vec![100, 100], cycles.map(|nr| nr / 2).to_vec()],
        listeners: Some(1),
        given: None,
        kernel: "7.3.4".to_owned(),
        qemu: "9.2".to_owned(),
    };
    let outcome = Outcome::Counted(Box::new(counts));
    Run { task: task(variant, run), took_s: Some(200.0), outcome }
}

fn failed(variant: Variant) -> Run {
    let outcome = Outcome::Failed("served: 5 of 6 pages came".to_owned());
    Run { task: task(variant, 1), took_s: None, outcome }
}

/// The first line with that, words with a space between.
fn line(text: &str, begin: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no {begin} in {text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

const STOCK: Variant = Variant::ApachePreforkModPhp;
const OURS: Variant = Variant::CopiesSteeredRoots;

#[test]
fn numbers_are_of_a_page_and_times_are_of_the_stock_server() {
    let runs = [
        counted(STOCK, 1, 400, [300_000_000, 100_000_000]),
        counted(OURS, 1, 100, [100_000_000, 100_000_000]),
    ];
    let text = Results::of(&runs).text();
    assert!(
        text.starts_with("16 CPUs of 4 nodes, connections that are kept; of a page:\n"),
        "{text}"
    );
    let expected = "Apache, mod_php (stock) 1 400 1.00 3 4.0 333 1.00 50 % 25 % 50 % –";
    assert_eq!(line(&text, "Apache, mod_php"), expected);
    let expected = "serve: and --copy-root 1 100 0.25 3 2.0 1000 3.00 0 % 0 % 0 % –";
    assert_eq!(line(&text, "serve: and --copy-root "), expected);
    let kinds = text.split("remote commands by kind").nth(1).unwrap();
    assert_eq!(line(kinds, "Apache, mod_php"), "Apache, mod_php (stock) 320 – – – 80 – 20");
    assert!(!text.contains("lines that the kernel took"), "{text}");
}

#[test]
fn who_takes_lines_is_told_by_runs_of_their_own() {
    let mut told = counted(OURS, 1, 900, [100_000_000, 100_000_000]);
    told.task.tells_lines = true;
    if let Outcome::Counted(counts) = &mut told.outcome {
        let taken = [("lockref_get".to_owned(), 200), ("?".to_owned(), 70)];
        counts.taken_by_kernel = Some(BTreeMap::from(taken));
    }
    let text = Results::of(&[counted(OURS, 1, 100, [100_000_000, 100_000_000]), told]).text();
    let functions = text.split("lines that the kernel took from").nth(1).unwrap();
    assert_eq!(line(functions, "serve: "), "serve: and --copy-root lockref_get 2, ? 1");
    let numbers = line(&text, "serve: and --copy-root ");
    assert!(numbers.starts_with("serve: and --copy-root 1 100 –"), "not of that run: {numbers}");
}

#[test]
fn several_runs_are_a_range_and_the_middle_one_counts() {
    let even = [100_000_000; 2];
    let runs = [
        counted(STOCK, 1, 400, even),
        counted(STOCK, 2, 500, even),
        counted(STOCK, 3, 410, even),
        counted(OURS, 1, 205, even),
    ];
    let text = Results::of(&runs).text();
    assert_eq!(line(&text, "Apache, mod_php").split(' ').nth(4), Some("400–500"), "{text}");
    assert_eq!(line(&text, "serve: and --copy-root ").split(' ').nth(5), Some("0.50"), "{text}");
}

#[test]
fn what_is_wished_is_met_missed_or_not_told_by_the_runs() {
    let wish = |stock: [u64; 2], ours: u64, begin: &str| {
        let even = [100_000_000; 2];
        let runs = [
            counted(STOCK, 1, stock[0], even),
            counted(STOCK, 2, stock[1], even),
            counted(OURS, 1, ours, even),
        ];
        let text = Results::of(&runs).text();
        text.lines().find(|line| line.contains(begin)).map(str::to_owned).unwrap()
    };
    let fewer = "times fewer remote commands";
    assert!(wish([400, 420], 100, fewer).ends_with("wished 3): met"));
    assert!(
        wish([280, 420], 100, fewer).ends_with("(2.80 to 4.20 by any runs; wished 3): not told")
    );
    assert!(wish([200, 220], 100, fewer).ends_with(": missed"));
    assert!(wish([200, 220], 100, "times the pages").ends_with("1.33): missed"));
    assert!(wish([200, 220], 100, "percent above the mean").ends_with("wished 10): met"));
}

#[test]
fn what_failed_is_a_line_and_no_number() {
    let runs = [failed(STOCK), counted(OURS, 1, 100, [100, 100])];
    let text = Results::of(&runs).text();
    let expected = "Apache, mod_php (stock) failed: served: 5 of 6 pages came";
    assert_eq!(line(&text, "Apache, mod_php"), expected);
    let ours = line(&text, "serve: and --copy-root ");
    assert_eq!(ours.split(' ').nth(5), Some("–"), "nothing is times what was not counted: {ours}");
    assert!(!text.contains("times fewer") && text.contains("percent above the mean"), "{text}");
}

#[test]
fn who_executed_nothing_has_no_figures() {
    let Outcome::Counted(counts) = counted(STOCK, 1, 1, [0, 0]).outcome else { unreachable!() };
    assert_eq!(Figures::of(&counts), None);
    let Outcome::Counted(mut counts) = counted(STOCK, 1, 1, [9, 9]).outcome else { unreachable!() };
    counts.given = Some((0, 0));
    assert_eq!(Figures::of(&counts).unwrap().local_percent, None, "no connection is no share");
    counts.pages = 0;
    assert_eq!(Figures::of(&counts), None);
}

#[test]
fn runs_are_read_as_they_were_written() {
    for run in [counted(STOCK, 1, 1, [1, 2]), failed(OURS)] {
        let written = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&written).unwrap(), run, "{written}");
    }
}

#[test]
fn one_of_each_is_counted_before_the_second_of_any() {
    let asked = tasks(&args(&["--runs", "2", "--variants", "copies,nginx-fpm"]));
    assert_eq!(asked.len(), 2 * 2 * 2 * 2);
    assert!(asked[..8].iter().all(|task| task.run == 1));
    let first: Vec<_> = asked[..4].iter().map(|it| (it.cpus_per_node, it.connections)).collect();
    let (kept, short) = (Connections::KeepAlive, Connections::Short);
    assert_eq!(first, [(4, kept), (4, kept), (4, short), (4, short)]);
    assert_eq!(tasks(&args(&["--runs", "1"])).len(), 4 * Variant::ALL.len());
}

#[test]
fn windows_are_as_long_as_each_other_and_lose_nothing() {
    let slice = |instructions, cycles: [u64; 2]| Slice {
        instructions,
        modelled_cycles: cycles.to_vec(),
        ..Slice::default()
    };
    let slices: Vec<Slice> = (1..=25).map(|at| slice(at * 10, [at, 1])).collect();
    let cut = windows(&slices, 10);
    assert_eq!(cut.len(), 10);
    assert_eq!(cut[0], [1 + 2, 2]);
    let sum = |node: usize| cut.iter().map(|window| window[node]).sum::<u64>();
    assert_eq!((sum(0), sum(1)), ((1..=25).sum(), 25));
    assert!(windows(&[], 10).is_empty());
    // What an older instrument wrote has no cycles.
    assert!(windows(&[Slice { instructions: 5, ..Slice::default() }], 10).is_empty());
}

#[test]
fn what_the_kernel_takes_is_the_sum_of_its_lines_by_function() {
    let taker = |function: &str, module: &str, taken| Taker {
        function: Some(function.to_owned()),
        module: Some(module.to_owned()),
        access: serde_json::from_str("\"store\"").unwrap(),
        taken,
        modelled_stall_cycles: 0,
        callers: Vec::new(),
    };
    let contended = |takers: Vec<Taker>| ContendedLine {
        process: None,
        address: 64,
        taken: 9,
        share: 0.1,
        nature: Nature::Shared,
        words: vec![Word {
            address: 64,
            object: None,
            taken: 9,
            cpus: vec![0],
            threads: vec![1],
            takers,
        }],
    };
    let lines = Lines {
        taken: 100,
        taken_by_the_rest: 0,
        modelled_stall_cycles: 0,
        most: vec![
            contended(vec![taker("lockref_get", "[kernel]", 5), taker("zend_hash", "php", 7)]),
            contended(vec![taker("lockref_get", "[kernel]", 6), taker("dput", "[kernel]", 1)]),
        ],
    };
    let expected = [("lockref_get", 11), ("dput", 1)].map(|(name, nr)| (name.to_owned(), nr));
    assert_eq!(taken_by_kernel(&lines), BTreeMap::from(expected));
}

#[test]
fn connections_are_those_under_load() {
    let status = |word: &str, given: &str| {
        format!("{word} {{\"copies\": [{{\"given\": {given}, \"given_local\": 3}}]}}\n")
    };
    let said = format!("pages 8\n{}{}", status("before", "5"), status("after", "15"));
    assert_eq!(given(&said), Some((10, 0)));
    assert_eq!(given("pages 8\n"), None, "no copies");
    let hashed = format!("{}{}", status("before", "null"), status("after", "null"));
    assert_eq!(given(&hashed), None, "by the kernel's hashing nobody counts");
}

#[test]
fn why_a_run_failed_is_what_it_said_last_beside_the_report() {
    let said = "served: it begins\nquartier: the server ended with status 3\n  RD 12 k\n";
    assert_eq!(
        guest_runs::reason("served", said, "exit status: 2"),
        "quartier: the server ended with status 3 (exit status: 2)"
    );
    assert_eq!(
        guest_runs::reason("served", "", "exit status: 125"),
        "it ended with exit status: 125"
    );
}
