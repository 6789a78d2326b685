//! What an access costs: hits, TLB misses, last-level misses, and a line that two threads write.
//!
//! `cargo bench -p quartier-memmodel --bench access`. Items per second are accesses per second and thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use quartier_memmodel::geometry::Preset;
use quartier_memmodel::{Access, Cpu, Layout, Mode, Owner, PageSize, System, Translation};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// Accesses per iteration.
const BATCH: u64 = 1024;
const PRESETS: [&str; 2] = ["tsar", "server"];

fn main() {
    divan::main();
}

fn system(name: &str) -> Arc<System> {
    let preset = Preset::ALL.into_iter().find(|preset| preset.name() == name).unwrap();
    System::new(preset.geometry(), Layout::uniform(4, 2, 1 << 30)).unwrap()
}

fn cpu(system: &Arc<System>, index: usize) -> Cpu {
    let mut cpu = system.cpu(index).unwrap();
    cpu.attribute(Some(Owner::Program));
    cpu
}

/// Virtual is physical, four table reads per walk.
fn walk(vaddr: u64) -> Option<Translation> {
    let entry = (vaddr >> 12 << 3) & 0xff_ffff;
    let translation = Translation::new(vaddr & !0xfff, PageSize::Small);
    Some((0..4).fold(translation, |t, level| {
        t.reading((3 << 30) + (level << 24) + (entry >> (9 * level)))
    }))
}

/// `nr` loads, `stride` bytes apart, again and again: `BATCH` of them per iteration.
fn sweep(bencher: Bencher<'_, '_>, preset: &str, stride: u64, nr: u64) {
    let system = system(preset);
    let mut cpu = cpu(&system, 0);
    let mut next = 0_u64;
    bencher.counter(ItemsCount::new(BATCH)).bench_local(move || {
        for _ in 0..BATCH {
            cpu.data(black_box(next * stride), 8, Access::Load, Mode::User, &mut walk);
            next = if next + 1 == nr { 0 } else { next + 1 };
        }
    });
}

/// One line again and again.
#[divan::bench(args = PRESETS)]
fn hit_last_used(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 8, 8);
}

/// Eight bytes after eight over 8 KiB: two pages, every eighth access another line.
#[divan::bench(args = PRESETS)]
fn hit_sequential(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 8, 1024);
}

/// A line of each of four arrays in turn: other pages, other sets.
#[divan::bench(args = PRESETS)]
fn hit_four_streams(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 5 * 4096 + 5 * 64, 4);
}

/// Four lines of one set in turn: never the last used, the worst hit.
#[divan::bench(args = PRESETS)]
fn hit_least_recently_used(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 4096 * 4, 4);
}

/// Fetches, in a loop of 4 KiB.
#[divan::bench(args = PRESETS)]
fn fetch_hit(bencher: Bencher<'_, '_>, preset: &str) {
    let system = system(preset);
    let mut cpu = cpu(&system, 0);
    let mut at = 0_u64;
    bencher.counter(ItemsCount::new(BATCH)).bench_local(move || {
        for _ in 0..BATCH {
            cpu.fetch(black_box(at), Mode::User, &mut walk);
            at = (at + 4) & 0xfff;
        }
    });
}

/// A page after the other over 16 MiB, then 64 MiB.
#[divan::bench(args = PRESETS)]
fn tlb_miss(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 4096 + 64, 4 * 4096);
}

/// A line after the other over 256 MiB: every one a miss in the last level.
#[divan::bench(args = PRESETS)]
fn last_level_miss(bencher: Bencher<'_, '_>, preset: &str) {
    sweep(bencher, preset, 64, 1 << 22);
}

/// Stores to one line, on one thread and two; enough of them per iteration that the threads meet.
#[divan::bench(args = PRESETS, threads = [1, 2], sample_count = 20)]
fn contended_line(bencher: Bencher<'_, '_>, preset: &str) {
    let system = system(preset);
    let taken = AtomicUsize::new(0);
    let cpus: Vec<_> = (0..8).map(|index| std::sync::Mutex::new(cpu(&system, index))).collect();
    thread_local!(static MINE: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) });
    bencher.counter(ItemsCount::new(64 * BATCH)).bench(|| {
        if MINE.get() == usize::MAX {
            // CPUs 0, 2, 4...: of different nodes.
            MINE.set(taken.fetch_add(2, Ordering::Relaxed) % 8);
        }
        let mut cpu = cpus[MINE.get()].lock().unwrap();
        for _ in 0..64 * BATCH {
            cpu.data(black_box(64), 8, Access::Store, Mode::User, &mut walk);
        }
    });
}
