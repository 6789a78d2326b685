//! Against a cache simulator that we did not write: valgrind's cachegrind, for one thread.
//!
//! A real program (gzip, on files of this crate) runs under `valgrind --tool=lackey --trace-mem=yes`; the
//! model is fed with that trace, and must miss as often as cachegrind says for the same program.
//! Cachegrind's semantics: first levels and last level each on their own (neither inclusion nor
//! coherence), write-allocate, least recently used, evictions cost nothing, a modify is a read, and an
//! access across a line's end is at most one miss.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::*;
use quartier_memmodel::geometry::{Cache, DataCache, Fill, Geometry, LastLevel, Side, WritePolicy};
use quartier_memmodel::{
    Access, Cpu, Layout, MemoryRange, Mode, Owner, PageSize, System, Translation,
};

/// Misses may differ by this share.
const MOST: f64 = 0.01;

/// Bytes and ways of the first levels and of the last.
const CACHES: [[(u64, u32); 2]; 3] =
    [[(32 * KIB, 8), (MIB, 16)], [(16 * KIB, 4), (256 * KIB, 16)], [(4 * KIB, 2), (64 * KIB, 8)]];

fn valgrind(arguments: &[String]) -> Command {
    let mut command = Command::new("valgrind");
    let folder = env!("CARGO_MANIFEST_DIR");
    command.args(arguments).args(["gzip", "-9", "-c"]);
    for file in ["presets/tsar.toml", "presets/server.toml"] {
        command.arg(format!("{folder}/{file}"));
    }
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The numbers of a line like `D1  misses:  6,789  ( 4,000 rd + 2,789 wr)`, without the total.
fn cachegrind([first, last]: [(u64, u32); 2]) -> BTreeMap<String, Vec<u64>> {
    let of = |name: &str, (bytes, ways): (u64, u32)| format!("--{name}={bytes},{ways},64");
    let arguments = [
        "--tool=cachegrind".to_owned(),
        "--cache-sim=yes".to_owned(),
        "--cachegrind-out-file=/dev/null".to_owned(),
        of("I1", first),
        of("D1", first),
        of("LL", last),
    ];
    let output = valgrind(&arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("misses:")) {
        let (name, numbers) = line.split_once("misses:").unwrap();
        let name = name.split_whitespace().last().unwrap().to_owned();
        let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
        found.insert(name, numbers.split_whitespace().filter_map(number).collect());
    }
    found
}

fn model([(bytes, ways), (last_bytes, last_ways)]: [(u64, u32); 2]) -> (Arc<System>, Cpu) {
    let geometry = Geometry {
        l1i: Cache { bytes, ways },
        l1d: DataCache { bytes, ways, write: WritePolicy::Back },
        last_level: LastLevel {
            bytes: last_bytes,
            ways: last_ways,
            side: Side::Requester,
            fill: Fill::NonInclusive,
            cpus: None,
        },
        ..small_requester()
    };
    let memory = vec![MemoryRange { start: 0, end: 1 << 52, node: 0 }];
    let system = System::new(geometry, Layout { memory, ..Layout::uniform(1, 1, NODE) }).unwrap();
    let mut cpu = system.cpu(0).unwrap();
    cpu.attribute(Some(Owner::Program));
    (system, cpu)
}

fn giant(vaddr: u64) -> Option<Translation> {
    Some(Translation::new(vaddr & !((1 << 30) - 1), PageSize::Giant))
}

/// Feeds one line of lackey's: `I  04000000,3`, ` L addr,size`, ` S` and ` M` likewise.
fn feed(cpu: &mut Cpu, line: &str) -> Option<()> {
    let (what, rest) = line.split_at_checked(3)?;
    let (address, bytes) = rest.split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let bytes = bytes.parse().ok()?;
    match what {
        "I  " => cpu.fetch_block(address, bytes, 1, Mode::User, &mut giant),
        " L " | " M " => {
            cpu.data(address, bytes, Access::Load, Mode::User, &mut giant);
            if what == " M " {
                cpu.data(address, bytes, Access::Store, Mode::User, &mut giant);
            }
        }
        " S " => cpu.data(address, bytes, Access::Store, Mode::User, &mut giant),
        _ => return None,
    }
    Some(())
}

#[test]
fn a_real_program_misses_as_often_as_in_cachegrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "valgrind is missing; CI installs it");
        eprintln!("skipped: valgrind is not installed (`apt-get install valgrind`)");
        return;
    }
    let mut models = CACHES.map(model);
    let arguments = ["--tool=lackey".to_owned(), "--trace-mem=yes".to_owned()];
    let mut lackey = valgrind(&arguments).spawn().unwrap();
    let mut nr_fed = 0_u64;
    for line in BufReader::new(lackey.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let fed = models.iter_mut().all(|(_, cpu)| feed(cpu, &line).is_some());
        nr_fed += u64::from(fed);
    }
    assert!(lackey.wait().unwrap().success());
    assert!(nr_fed > 1_000_000, "{nr_fed} accesses are no real program");
    for (caches, (system, _)) in CACHES.into_iter().zip(&models) {
        let theirs = cachegrind(caches);
        let totals = program(system).totals();
        let first = [
            totals.l1d_read_misses + totals.l1d_write_misses,
            totals.l1d_read_misses,
            totals.l1d_write_misses,
        ];
        // Misses in the last level are what memory served, fetches too.
        let last = theirs["LLi"][0] + theirs["LLd"][0];
        let compared = [
            ("I1", totals.l1i_misses, theirs["I1"][0]),
            ("D1", first[0], theirs["D1"][0]),
            ("D1 reads", first[1], theirs["D1"][1]),
            ("D1 writes", first[2], theirs["D1"][2]),
            ("LL", totals.memory_reads, last),
        ];
        for (name, ours, theirs) in compared {
            println!("{caches:?} {name}: {ours} here, {theirs} in cachegrind");
            let differs = (ours as f64 - theirs as f64).abs() / theirs as f64;
            assert!(differs <= MOST, "{caches:?} {name}: {ours} here, {theirs} in cachegrind");
        }
    }
}
