//! What sampled sets err and cost: a table.
//!
//! `cargo bench -p quartier-memmodel --bench sampling [PROGRAM ARGUMENTS]`: made-up streams, and the program
//! given under valgrind's lackey if it is installed. All memory is of another node, so that Q is all
//! that leaves. Cost is the time of the model against all accesses; what callbacks cost comes on top.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use quartier_memmodel::geometry::{Geometry, Preset};
use quartier_memmodel::{
    Access, Cpu, Layout, MemoryRange, Mode, Owner, PageSize, System, Translation,
};

/// An access: address, bytes, and what.
#[derive(Clone, Copy)]
enum Reference {
    Fetch(u64, u32),
    Data(u64, u32, Access),
}

/// Accesses of a program that are enough, and made-up ones.
const MOST: usize = 24_000_000;
const NR_MADE_UP: u64 = 40_000_000;

/// Where accesses come from.
enum Trace {
    MadeUp,
    Stored(Vec<Reference>),
}

impl Trace {
    fn each(&self, mut f: impl FnMut(Reference)) {
        match self {
            Self::MadeUp => made_up(f),
            Self::Stored(trace) => trace.iter().for_each(|&reference| f(reference)),
        }
    }
}

const TABLES: u64 = 1 << 50;

fn walk(vaddr: u64) -> Option<Translation> {
    let translation = Translation::new(vaddr & !0xfff, PageSize::Small);
    let entry = |level: u64| TABLES + (level << 40) + (vaddr >> (12 + 9 * level) << 3);
    Some([3, 2, 1, 0].into_iter().fold(translation, |found, level| found.reading(entry(level))))
}

fn machine(geometry: Geometry, sets_one_in: u32) -> (std::sync::Arc<System>, Cpu) {
    let memory = vec![MemoryRange { start: 0, end: 1 << 52, node: 1 }];
    let layout = Layout { memory, ..Layout::uniform(2, 1, 1 << 20) };
    let system = System::new_sampled(geometry, layout, sets_one_in).unwrap();
    let mut cpu = system.cpu(0).unwrap();
    cpu.attribute(Some(Owner::Program));
    (system, cpu)
}

fn feed(cpu: &mut Cpu, access: Reference) {
    match access {
        Reference::Fetch(at, bytes) => cpu.fetch_block(at, bytes, 1, Mode::User, &mut walk),
        Reference::Data(at, bytes, access) => cpu.data(at, bytes, access, Mode::User, &mut walk),
    }
}

/// Q in MiB, its stated standard error, seconds.
fn run(geometry: &Geometry, trace: &Trace, one_in: u32) -> (f64, f64, f64) {
    let (system, mut cpu) = machine(geometry.clone(), one_in);
    let began = Instant::now();
    trace.each(|access| feed(&mut cpu, access));
    let seconds = began.elapsed().as_secs_f64();
    let snapshot = system.snapshot();
    let stated = snapshot.q_standard_error(Owner::Program).unwrap_or(1.0);
    (snapshot.program.q_mib(geometry), stated, seconds)
}

/// A program's phases: blocked products, a stream, and look-ups in a table, over and over.
fn made_up(mut f: impl FnMut(Reference)) {
    let mut random = 1_u64;
    let data = |at: u64, access| Reference::Data((1 << 40) + at, 8, access);
    for step in 0..NR_MADE_UP / 3 {
        f(Reference::Fetch((1 << 30) + step * 4 % 2048, 4));
        let (round, at) = (step / 700_000, step % 700_000);
        match round % 3 {
            0 => {
                f(data((at / 512 * 8 + round * 4096) % (1 << 25), Access::Load));
                f(data((1 << 26) + (at % 512 * 4096 + at / 512 * 8) % (1 << 24), Access::Load));
            }
            1 => {
                f(data((2 << 26) + at * 8 % (1 << 25), Access::Load));
                f(data((3 << 26) + at * 8 % (1 << 25), Access::Store));
            }
            _ => {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                f(data((4 << 26) + (random >> 40) % (1 << 22), Access::Load));
            }
        }
    }
}

fn traced(command: &[String]) -> Option<Trace> {
    let mut lackey = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut trace = Vec::with_capacity(MOST);
    for line in BufReader::new(lackey.stderr.take()?).lines().map_while(Result::ok) {
        let parsed = (|| {
            let (what, rest) = line.split_at_checked(3)?;
            let (at, bytes) = rest.split_once(',')?;
            let (at, bytes) = (u64::from_str_radix(at, 16).ok()?, bytes.parse().ok()?);
            Some(match what {
                "I  " => Reference::Fetch(at, bytes),
                " S " | " M " => Reference::Data(at, bytes, Access::Store),
                " L " => Reference::Data(at, bytes, Access::Load),
                _ => return None,
            })
        })();
        trace.extend(parsed);
        if trace.len() >= MOST {
            break;
        }
    }
    // Enough was seen: the program need not end.
    lackey.kill().ok()?;
    lackey.wait().ok()?;
    Some(Trace::Stored(trace))
}

fn main() {
    let command: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut traces = vec![("made up".to_owned(), Trace::MadeUp)];
    if !command.is_empty() {
        traces.extend(traced(&command).map(|trace| (command.join(" "), trace)));
    }
    for (name, trace) in &traces {
        for preset in Preset::ALL {
            let geometry = preset.geometry().scaled_to(2);
            let (q, _, seconds) = run(&geometry, trace, 1);
            println!("{name}, {}: Q {q:.2} MiB in {seconds:.1} s", preset.name());
            for one_in in [4, 8, 16] {
                let (estimate, stated, cost) = run(&geometry, trace, one_in);
                println!(
                    "  1 in {one_in}: error {:+.2} % (stated ± {:.2} %), cost {:.2}",
                    (estimate / q - 1.0) * 100.0,
                    stated * 200.0,
                    cost / seconds
                );
            }
        }
    }
}
