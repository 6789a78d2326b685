//! Streams of one CPU whose counts can be told on paper.

mod common;

use common::*;
use quartier_memmodel::geometry::{Fill, TlbEntries, WalksEnter};
use quartier_memmodel::{Access, Class, Kind, Mode, Owner, PageSize, Split, Translation};

/// Lines of a first level, of an L2, and of a last level.
const L1: u64 = 16;
const L2: u64 = 64;
const LAST: u64 = 256;

fn split(local: u64, remote: u64) -> Split {
    Split { local, remote }
}

#[test]
fn a_sweep_within_the_first_level_misses_once_per_line() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    for _ in 0..10 {
        (0..L1 * LINE).step_by(8).for_each(|address| load(&mut cpus[0], address));
    }
    let totals = program(&system).totals();
    assert_eq!((totals.data_accesses, totals.l1d_read_misses), (10 * L1 * 8, L1));
    assert_eq!((totals.memory_reads, totals.last_level_hits), (L1, 0));
    assert_eq!(totals.l1d_hits(), 10 * L1 * 8 - L1);
}

#[test]
fn a_sweep_one_line_larger_than_a_level_always_misses_it_where_sets_overflow() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    // One line more than 16: four sets of four, so one set gets five lines and they drive each other
    // out (least recently used), while the other twelve lines stay.
    for _ in 0..10 {
        (0..=L1).for_each(|line| load(&mut cpus[0], line * LINE));
    }
    let totals = program(&system).totals();
    assert_eq!(totals.l1d_read_misses, 12 + 10 * 5);
    assert_eq!((totals.memory_reads, totals.last_level_hits), (L1 + 1, 12 + 50 - 17));
}

#[test]
fn a_sweep_larger_than_the_last_level_reads_memory_every_time() {
    for geometry in [small_home(), small_requester()] {
        let (system, mut cpus) = machine(geometry, 2, 1);
        for _ in 0..3 {
            (0..2 * LAST).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
        }
        let counts = program(&system);
        assert_eq!(counts.totals().memory_reads, 3 * 2 * LAST);
        assert_eq!(counts.commands(Kind::Read, Some(Class::User)), split(0, 3 * 2 * LAST));
    }
}

#[test]
fn a_stride_of_a_page_uses_one_set_only() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    // Five lines that are a multiple of 256 bytes apart: one set of four ways.
    for _ in 0..20 {
        (0..5).for_each(|at| load(&mut cpus[0], at * 4 * KIB));
    }
    assert_eq!(program(&system).totals().l1d_read_misses, 100);
    (0..4).for_each(|at| load(&mut cpus[0], at * 4 * KIB));
    let before = program(&system).totals().l1d_read_misses;
    (0..4).for_each(|at| load(&mut cpus[0], at * 4 * KIB));
    assert_eq!(program(&system).totals().l1d_read_misses, before);
}

#[test]
fn what_the_first_level_cannot_hold_hits_in_the_second_and_leaves_no_cpu() {
    let (system, mut cpus) = machine(small_with_l2(), 2, 1);
    for _ in 0..5 {
        (0..L2).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    }
    let counts = program(&system);
    let totals = counts.totals();
    assert_eq!((totals.l1d_read_misses, totals.l2_hits), (5 * L2, 4 * L2));
    assert_eq!(counts.all_commands(), split(0, L2));
}

#[test]
fn a_requester_side_last_level_keeps_what_a_home_side_one_asks_for_again() {
    for (geometry, commands) in [(small_home(), 4 * 128), (small_requester(), 128)] {
        let (system, mut cpus) = machine(geometry, 2, 1);
        for _ in 0..4 {
            (0..128).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
        }
        let counts = program(&system);
        assert_eq!(counts.commands(Kind::Read, None), split(0, commands));
        assert_eq!(counts.totals().last_level_hits, 3 * 128);
    }
}

#[test]
fn a_victim_cache_is_filled_by_what_the_private_caches_drop() {
    let mut geometry = small_requester();
    geometry.last_level.fill = Fill::Victim;
    let (system, mut cpus) = machine(geometry, 2, 1);
    (0..L1).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    // Sixteen more drive the first sixteen out, into the last level.
    (L1..2 * L1).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    (0..L1).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    let totals = program(&system).totals();
    assert_eq!((totals.memory_reads, totals.last_level_hits), (2 * L1, L1));
}

#[test]
fn a_pointer_chase_through_the_nodes_of_a_mesh_has_the_mean_distance_of_the_mesh() {
    let (system, mut cpus) = machine(small_home(), 16, 1);
    (0..16).for_each(|node| load(&mut cpus[5], node * NODE));
    let counts = program(&system);
    // Node 5 is (1, 1) in four by four: |dx| sums to 4, |dy| to 4, over four rows and columns.
    assert_eq!(counts.mean_distance(), Some(4.0 * (4.0 + 4.0) / 16.0));
    assert_eq!(counts.byte_hops(system.geometry()), 32 * 64);
    assert_eq!(counts.q_mib(system.geometry()), 15.0 * 64.0 / MIB as f64);
    assert_eq!(counts.all_commands(), split(1, 15));
}

#[test]
fn stores_written_through_are_a_word_each_and_fetch_nothing() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    (0..64).for_each(|_| store(&mut cpus[0], NODE));
    let counts = program(&system);
    assert_eq!(counts.commands(Kind::Write, Some(Class::User)), split(0, 64));
    assert_eq!(counts.all_commands(), split(0, 64));
    assert_eq!(counts.pairs[0].bytes(system.geometry()), 4 * 64);
    assert_eq!(counts.totals().stores_through, 64);
}

#[test]
fn stores_written_back_fetch_the_line_once_and_write_it_once() {
    let (system, mut cpus) = machine(small_requester(), 2, 1);
    for _ in 0..10 {
        (0..8).for_each(|word| store(&mut cpus[0], NODE + 8 * word));
    }
    assert_eq!(program(&system).commands(Kind::Write, None), split(0, 1));
    // A sweep twice the last level drives it out of both levels.
    (1..=2 * LAST).for_each(|line| load(&mut cpus[0], NODE + line * LINE));
    let counts = program(&system);
    assert_eq!(counts.commands(Kind::Write, None), split(0, 2));
    assert_eq!(counts.totals().write_backs, 1);
    assert_eq!(counts.pairs[0].bytes(system.geometry()), (2 * LAST + 2) * LINE);
}

#[test]
fn an_access_across_the_end_of_a_line_and_page_is_one_to_each() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    let mut walked = Vec::new();
    let mut walker = |vaddr: u64| {
        walked.push(vaddr);
        flat_small(vaddr)
    };
    cpus[0].data(4 * KIB - 4, 8, Access::Load, Mode::User, &mut walker);
    cpus[0].data(8 * KIB - 64, 130, Access::Load, Mode::User, &mut walker);
    assert_eq!(walked, [4 * KIB - 4, 4 * KIB, 8 * KIB]);
    assert_eq!(program(&system).totals().data_accesses, 2 + 3);
    assert_eq!(program(&system).totals().memory_reads, 5);
}

#[test]
fn instructions_are_counted_and_their_lines_are_commands_of_kind_inst() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    cpus[0].fetch_block(NODE + 32, 64, 17, Mode::Kernel, &mut flat);
    cpus[0].fetch(NODE + 32, Mode::Kernel, &mut flat);
    let counts = program(&system);
    assert_eq!((counts.totals().instructions, counts.totals().fetches), (18, 3));
    assert_eq!(counts.commands(Kind::Instruction, Some(Class::Kernel)), split(0, 2));
    assert_eq!(counts.all_commands(), split(0, 2));
}

/// Tables of node 1 for pages of node 0: two reads a walk, the entries of eight pages in a line.
fn two_levels(vaddr: u64) -> Option<Translation> {
    let translation = Translation::new(vaddr & !(4 * KIB - 1), PageSize::Small);
    Some(translation.reading(NODE + (vaddr >> 30 << 3)).reading(NODE + MIB + (vaddr >> 12 << 3)))
}

#[test]
fn a_walk_per_page_reads_tables_where_they_lie() {
    let mut geometry = small_home();
    geometry.walks_enter = WalksEnter::LastLevel;
    let (system, mut cpus) = machine(geometry, 2, 1);
    // 32 pages over a TLB of 16, in order: every access walks, least recently used.
    for _ in 0..3 {
        for page in 0..32 {
            cpus[0].data(page * 4 * KIB, 8, Access::Load, Mode::User, &mut two_levels);
        }
    }
    let counts = program(&system);
    assert_eq!((counts.totals().dtlb_misses, counts.totals().dtlb_walks), (96, 96));
    assert_eq!(counts.commands(Kind::DataTlb, Some(Class::Walk)), split(0, 192));
    // The data lines are one set of the first level: they miss too.
    assert_eq!(counts.commands(Kind::Read, Some(Class::User)), split(96, 0));
}

#[test]
fn walks_through_the_first_level_ask_for_each_table_line_once() {
    let (system, mut cpus) = machine(small_home(), 2, 1);
    for page in 0..16 {
        // Other lines of the pages, so that tables and data do not meet in a set.
        let vaddr = page * 4 * KIB + 2 * LINE;
        cpus[0].data(vaddr, 8, Access::Load, Mode::User, &mut two_levels);
    }
    let counts = program(&system);
    // The root's line, and two lines of eight entries.
    assert_eq!(counts.commands(Kind::DataTlb, Some(Class::Walk)), split(0, 3));
    assert_eq!((counts.totals().table_reads, counts.totals().table_misses), (32, 3));
}

#[test]
fn pages_of_two_mebibytes_walk_once_where_small_ones_walk_512_times() {
    for (size, walks) in [(PageSize::Small, 512), (PageSize::Huge, 1)] {
        let (system, mut cpus) = machine(small_home(), 1, 1);
        let mask = (1 << size.shift()) - 1;
        let mut walker = |vaddr: u64| Some(Translation::new(vaddr & !mask, size));
        for page in 0..512 {
            cpus[0].data(page * 4 * KIB, 8, Access::Load, Mode::User, &mut walker);
        }
        assert_eq!(program(&system).totals().dtlb_walks, walks);
    }
}

#[test]
fn a_page_of_a_gibibyte_takes_an_entry_for_each_two_mebibytes() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    let giant = |_: u64| Some(Translation::new(0, PageSize::Giant));
    let mut walker = giant;
    for at in [0, MIB, 2 * MIB, 3 * MIB, 5 * MIB] {
        cpus[0].data(at, 8, Access::Load, Mode::User, &mut walker);
    }
    assert_eq!(program(&system).totals().dtlb_walks, 3);
    assert_eq!(program(&system).totals().memory_reads, 5, "physical addresses keep all their bits");
}

#[test]
fn a_second_tlb_spares_walks_of_both_sides() {
    let mut geometry = small_home();
    geometry.second_tlb = Some(TlbEntries { entries: 64, ways: 4 });
    let (system, mut cpus) = machine(geometry, 2, 1);
    for _ in 0..3 {
        for page in 0..32 {
            cpus[0].data(page * 4 * KIB, 8, Access::Load, Mode::User, &mut two_levels);
        }
    }
    cpus[0].fetch(0, Mode::User, &mut two_levels);
    let totals = program(&system).totals();
    assert_eq!((totals.dtlb_misses, totals.dtlb_walks), (96, 32));
    assert_eq!((totals.itlb_misses, totals.itlb_walks), (1, 0));
    assert_eq!(totals.second_tlb_hits, 65);
}

#[test]
fn spaces_are_kept_apart_and_global_pages_are_in_all() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    let mut walker = |vaddr: u64| {
        flat_small(vaddr).map(|found| if vaddr < MIB { found } else { found.global() })
    };
    let walks = || program(&system).totals().dtlb_walks;
    let cpu = &mut cpus[0];
    let mut touch_both = |cpu: &mut quartier_memmodel::Cpu| {
        cpu.data(0, 8, Access::Load, Mode::User, &mut walker);
        cpu.data(MIB, 8, Access::Load, Mode::User, &mut walker);
    };
    touch_both(cpu);
    assert_eq!(walks(), 2);
    cpu.switch_space(7, true);
    touch_both(cpu);
    assert_eq!(walks(), 3, "only the global page is known");
    cpu.switch_space(0, true);
    touch_both(cpu);
    assert_eq!(walks(), 3, "what was kept is still known");
    cpu.switch_space(0, false);
    touch_both(cpu);
    assert_eq!(walks(), 4, "only global pages stay");
    cpu.flush_page(8);
    touch_both(cpu);
    assert_eq!(walks(), 5);
    cpu.flush_page(MIB);
    touch_both(cpu);
    assert_eq!(walks(), 6, "a flushed page goes even if it is global");
    cpu.flush_all();
    touch_both(cpu);
    assert_eq!(walks(), 8);
}

#[test]
fn devices_and_unmapped_addresses_are_no_commands() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    for access in [Access::Load, Access::Store, Access::Atomic] {
        cpus[0].data(NODE + 64, 8, access, Mode::Kernel, &mut flat);
        cpus[0].data(0, 8, access, Mode::Kernel, &mut |_: u64| None);
    }
    cpus[0].fetch(NODE, Mode::Kernel, &mut flat);
    let counts = program(&system);
    assert_eq!((counts.totals().device_accesses, counts.totals().untranslated), (4, 3));
    assert_eq!((counts.all_commands(), counts.totals().served()), (split(0, 0), 0));
}

#[test]
fn counts_go_to_whoever_is_on_account_and_caches_stay_warm() {
    let (system, mut cpus) = machine(small_home(), 1, 1);
    cpus[0].attribute(None);
    load(&mut cpus[0], 0);
    cpus[0].attribute(Some(Owner::Rest));
    load(&mut cpus[0], 0);
    load(&mut cpus[0], 64);
    cpus[0].attribute(Some(Owner::Program));
    load(&mut cpus[0], 64);
    load(&mut cpus[0], 128);
    let before = system.snapshot();
    let (rest, program) = (before.rest.totals(), before.program.totals());
    assert_eq!((rest.data_accesses, rest.memory_reads), (2, 1));
    assert_eq!((program.data_accesses, program.memory_reads), (2, 1));
    load(&mut cpus[0], 192);
    let phase = system.snapshot().since(&before).unwrap();
    assert_eq!((phase.program.totals().memory_reads, phase.rest.totals().memory_reads), (1, 0));
    assert_eq!(phase.program.all_commands(), split(1, 0));
    assert_eq!(before.since(&system.snapshot()), None, "a phase does not run backwards");
}
