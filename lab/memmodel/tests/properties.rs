//! What holds for any accesses on any machine.

mod common;

use common::*;
use proptest::prelude::*;
use quartier_memmodel::geometry::{
    Cache, Fill, Geometry, Side, TlbEntries, WalksEnter, WritePolicy,
};
use quartier_memmodel::{
    Access, Class, Counts, Cpu, Kind, Mode, PageSize, Snapshot, System, Translation,
};

/// One call of the model.
#[derive(Clone, Debug)]
enum Step {
    Data(u64, u32, Access, Mode),
    Fetch(u64, Mode),
    FlushAll,
    FlushPage(u64),
    Switch(u64, bool),
}

const NODES: u16 = 3;
const CPUS_PER_NODE: usize = 2;

/// Few lines and pages, so that CPUs meet; a fifth of them beyond memory.
fn address() -> impl Strategy<Value = u64> {
    let node = prop_oneof![4 => 0..u64::from(NODES), 1 => Just(u64::from(NODES))];
    (node, 0_u64..6, 0_u64..12, 0_u64..64)
        .prop_map(|(node, page, line, byte)| node * NODE + page * 4 * KIB + line * LINE + byte)
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop_oneof![Just(Access::Load), Just(Access::Store), Just(Access::Atomic)];
    let mode = prop_oneof![Just(Mode::User), Just(Mode::Kernel)];
    prop_oneof![
        20 => (address(), prop_oneof![Just(8_u32), 0_u32..200], access, mode.clone())
            .prop_map(|(at, bytes, access, mode)| Step::Data(at, bytes, access, mode)),
        6 => (address(), mode).prop_map(|(at, mode)| Step::Fetch(at, mode)),
        1 => Just(Step::FlushAll),
        1 => address().prop_map(Step::FlushPage),
        1 => (0_u64..3, any::<bool>()).prop_map(|(asid, keep)| Step::Switch(asid, keep)),
    ]
}

/// Small caches of every sort: lines of 8 in the first levels, of 32 in the last.
fn geometry() -> impl Strategy<Value = Geometry> {
    let sort = (
        0..3_u8,
        any::<bool>(),
        prop_oneof![Just(Fill::Inclusive), Just(Fill::NonInclusive), Just(Fill::Victim)],
    );
    let more = (0..3_u8, any::<bool>(), prop_oneof![Just(None), Just(Some(1_u32))], 0..2_u32);
    (sort, more).prop_map(|((sort, has_l2, fill), (walks, has_tlb, cpus, huge))| {
        let mut geometry = small_home();
        geometry.l1i = Cache { bytes: 512, ways: 2 };
        (geometry.l1d.bytes, geometry.l1d.ways) = (512, 2);
        geometry.last_level.bytes = 2 * KIB;
        geometry.last_level.ways = 4;
        geometry.last_level.fill = fill;
        if sort != 0 {
            geometry.l1d.write = WritePolicy::Back;
            geometry.l2 = has_l2.then_some(Cache { bytes: 2 * KIB, ways: 4 });
        }
        if sort == 2 {
            geometry.last_level.side = Side::Requester;
            geometry.last_level.cpus = cpus;
        } else if fill == Fill::Victim {
            geometry.last_level.fill = Fill::Inclusive;
        }
        geometry.walks_enter = match walks {
            0 => WalksEnter::L1d,
            1 if geometry.l2.is_some() => WalksEnter::L2,
            _ => WalksEnter::LastLevel,
        };
        geometry.dtlb.entries = 4;
        geometry.dtlb.ways = 2;
        geometry.dtlb.huge = (huge > 0).then_some(TlbEntries { entries: 2, ways: 2 });
        geometry.second_tlb = has_tlb.then_some(TlbEntries { entries: 8, ways: 4 });
        geometry.cost.window_cycles = 1000;
        geometry
    })
}

/// Pages of both sizes, three table reads, the last in the memory of the page's node or none.
fn walk(vaddr: u64) -> Option<Translation> {
    let size = if vaddr & (4 * KIB) == 0 { PageSize::Small } else { PageSize::Huge };
    let mask = (1 << size.shift()) - 1;
    let read = |level: u64| NODE / 2 + level * 4 * KIB + (vaddr >> (12 + 9 * level) << 3) % 512;
    (vaddr % (16 * KIB) < 15 * KIB).then(|| {
        let found = Translation::new(vaddr & !mask, size);
        found.reading(read(2)).reading(read(1)).reading(read(0))
    })
}

fn run(cpu: &mut Cpu, step: &Step) {
    match *step {
        Step::Data(at, bytes, access, mode) => cpu.data(at, bytes, access, mode, &mut walk),
        Step::Fetch(at, mode) => cpu.fetch(at, mode, &mut walk),
        Step::FlushAll => cpu.flush_all(),
        Step::FlushPage(at) => cpu.flush_page(at),
        Step::Switch(asid, keep) => cpu.switch_space(asid, keep),
    }
}

fn play(geometry: Geometry, steps: &[(usize, Step)]) -> (std::sync::Arc<System>, Snapshot) {
    let (system, mut cpus) = machine(geometry, NODES, CPUS_PER_NODE);
    for (cpu, step) in steps {
        run(&mut cpus[*cpu], step);
    }
    let snapshot = system.snapshot();
    (system, snapshot)
}

/// Every miss of a first level was served once, and every request that left is one command.
fn conserves(counts: &Counts, geometry: &Geometry) -> Result<(), TestCaseError> {
    let totals = counts.totals();
    let misses =
        totals.l1i_misses + totals.l1d_read_misses + totals.l1d_write_misses + totals.table_misses;
    let walks_hit_l2 = geometry.walks_enter == WalksEnter::L2;
    prop_assert!(!walks_hit_l2 || geometry.l2.is_some());
    prop_assert_eq!(misses, totals.served(), "{:?}", totals);
    prop_assert_eq!(
        totals.second_tlb_hits + totals.itlb_walks + totals.dtlb_walks,
        totals.itlb_misses + totals.dtlb_misses
    );
    let all = counts.all_commands();
    let commands = |kind| counts.commands(kind, None);
    let by_kind: u64 =
        Kind::ALL.iter().map(|&kind| commands(kind).local + commands(kind).remote).sum();
    let by_class: u64 = Kind::ALL
        .iter()
        .flat_map(|&kind| Class::ALL.map(|class| counts.commands(kind, Some(class))))
        .map(|split| split.local + split.remote)
        .sum();
    let by_pair: u64 = counts.pairs.iter().map(|pair| pair.nr_commands()).sum();
    prop_assert_eq!((by_kind, by_class, by_pair), (by_pair, by_pair, all.local + all.remote));
    if geometry.last_level.side == Side::Home && geometry.l1d.write == WritePolicy::Back {
        let left = totals.served() - totals.l2_hits + totals.upgrades + totals.write_backs;
        prop_assert_eq!(by_pair, left);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn caches_include_what_they_must_no_line_has_two_owners_and_counts_conserve(
        geometry in geometry(),
        steps in prop::collection::vec((0..usize::from(NODES) * CPUS_PER_NODE, step()), 1..400),
    ) {
        let (system, snapshot) = play(geometry, &steps);
        prop_assert_eq!(system.audit(), Vec::<String>::new());
        conserves(&snapshot.program, system.geometry())?;
        let data = |step: &(usize, Step)| matches!(step.1, Step::Data(..));
        prop_assert!(snapshot.program.totals().data_accesses + snapshot.program.totals().untranslated
            >= steps.iter().filter(|step| data(step)).count() as u64);
    }

    #[test]
    fn the_same_accesses_give_the_same_counts_and_cycles(
        geometry in geometry(),
        steps in prop::collection::vec((0..usize::from(NODES) * CPUS_PER_NODE, step()), 1..200),
    ) {
        prop_assert_eq!(play(geometry.clone(), &steps).1, play(geometry, &steps).1);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cpus_fed_at_once_leave_a_machine_that_is_right(
        geometry in geometry(),
        steps in prop::collection::vec(prop::collection::vec(step(), 100..400), NODES as usize * CPUS_PER_NODE),
    ) {
        let (system, cpus) = machine(geometry, NODES, CPUS_PER_NODE);
        std::thread::scope(|scope| {
            for (mut cpu, steps) in cpus.into_iter().zip(&steps) {
                scope.spawn(move || (0..20).for_each(|_| steps.iter().for_each(|step| run(&mut cpu, step))));
            }
        });
        prop_assert_eq!(system.audit(), Vec::<String>::new());
    }

    #[test]
    fn a_phase_is_the_difference_of_its_ends(
        geometry in geometry(),
        steps in prop::collection::vec((0..usize::from(NODES) * CPUS_PER_NODE, step()), 2..200),
    ) {
        let (system, mut cpus) = machine(geometry, NODES, CPUS_PER_NODE);
        let (first, second) = steps.split_at(steps.len() / 2);
        first.iter().for_each(|(cpu, step)| run(&mut cpus[*cpu], step));
        let before = system.snapshot();
        second.iter().for_each(|(cpu, step)| run(&mut cpus[*cpu], step));
        let after = system.snapshot();
        let phase = after.since(&before).unwrap();
        let sum = |snapshot: &Snapshot| snapshot.program.q_mib(&snapshot.geometry);
        prop_assert!((sum(&before) + sum(&phase) - sum(&after)).abs() < 1e-9);
        let accesses = |snapshot: &Snapshot| snapshot.program.totals().data_accesses;
        prop_assert_eq!(accesses(&before) + accesses(&phase), accesses(&after));
        let text = serde_json::to_string(&phase).unwrap();
        prop_assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), phase);
    }
}
