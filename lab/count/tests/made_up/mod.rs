//! Recordings that nobody counted, for tests and the gallery: every number follows from a few.
#![allow(dead_code, reason = "each user takes what it needs")]

use quartier_count::{
    CountMode, FORMAT, Machine, Mark, Moment, Phase, Policy, PolicyRuns, Recording, Report, Slice,
    Slices, SweepRuns, Trial,
};
use quartier_memmodel::geometry::Geometry;
use quartier_memmodel::{Counts, CpuCounts, Kind, Pair, PeakUtilisation, Snapshot, Totals};

/// Of a hundred commands, how many are of each kind.
const MIX: [u64; 6] = [55, 8, 9, 2, 22, 4];

/// A program and its machine.
#[derive(Clone)]
pub struct MadeUp {
    pub cpus_per_node: Vec<u32>,
    /// CPUs that the program has, node by node; the others do nothing.
    pub nr_busy_cpus: u64,
    /// Commands of the whole run.
    pub commands: u64,
    /// Of a thousand commands of a node's CPUs, how many leave it.
    pub remote_per_mille: u64,
    /// Of a thousand that leave, how many go to the hot node rather than round.
    pub hot_per_mille: u64,
    pub hot_node: u16,
    /// Of how many commands one is the kernel's.
    pub kernel_one_in: u64,
    pub mode: CountMode,
    pub has_threads: bool,
    /// One in so many sets of the caches was modelled.
    pub sets_one_in: u32,
}

impl MadeUp {
    /// A program that initialised on node 1, and works everywhere.
    pub fn new(nr_nodes: usize, cpus_per_node: u32) -> Self {
        Self {
            cpus_per_node: vec![cpus_per_node; nr_nodes],
            nr_busy_cpus: u64::MAX,
            commands: 40_000_000,
            remote_per_mille: 310,
            hot_per_mille: 700,
            hot_node: 1,
            kernel_one_in: 6,
            mode: CountMode::Parallel,
            has_threads: true,
            sets_one_in: 1,
        }
    }

    pub fn with(self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self;
        change(&mut changed);
        changed
    }

    fn nr_nodes(&self) -> u64 {
        self.cpus_per_node.len() as u64
    }

    fn nr_cpus(&self) -> u64 {
        let nr_cpus = self.cpus_per_node.iter().copied().map(u64::from).sum::<u64>();
        nr_cpus.min(self.nr_busy_cpus)
    }

    fn nr_cpus_of(&self, node: u64) -> u64 {
        let before: u32 = self.cpus_per_node[..node as usize].iter().sum();
        let left = self.nr_busy_cpus.saturating_sub(before.into());
        left.min(self.cpus_per_node[node as usize].into())
    }

    /// Commands from a node to a node, of the whole run.
    fn commands_between(&self, initiator: u64, target: u64) -> u64 {
        let share = u128::from(self.commands) * u128::from(self.nr_cpus_of(initiator));
        let own = share / u128::from(self.nr_cpus());
        let remote =
            if self.nr_nodes() > 1 { own * u128::from(self.remote_per_mille) / 1000 } else { 0 };
        let hot = if initiator == u64::from(self.hot_node) {
            0
        } else {
            remote * u128::from(self.hot_per_mille) / 1000
        };
        let others = u128::from(self.nr_nodes() - 1).max(1);
        let nr = if initiator == target {
            own - remote
        } else {
            let extra = if target == u64::from(self.hot_node) { hot } else { 0 };
            // Nearer nodes are asked a little more, so that the map has a texture.
            let spread = (remote - hot) / others;
            spread * u128::from(100 + 40 / hops(initiator, target)) / 140 + extra
        };
        nr as u64
    }

    fn pair(&self, (initiator, target): (u64, u64), part: Part) -> Pair {
        let nr = part.of(self.commands_between(initiator, target));
        let mut commands = [[0; 3]; 6];
        for (kind, (by_class, share)) in commands.iter_mut().zip(MIX).enumerate() {
            let of_kind = (u128::from(nr) * u128::from(share) / 100) as u64;
            if kind == 2 || kind == 3 {
                by_class[2] = of_kind;
            } else {
                by_class[1] = of_kind / self.kernel_one_in;
                by_class[0] = of_kind - by_class[1];
            }
        }
        let hops = if initiator == target { 0 } else { hops(initiator, target) as u16 };
        let words = commands[5].iter().sum();
        Pair { initiator: initiator as u16, target: target as u16, hops, commands, words }
    }

    fn cpus(&self, part: Part) -> Vec<CpuCounts> {
        let nodes = self.cpus_per_node.iter().enumerate();
        let node_of_cpu = nodes.flat_map(|(node, &cpus)| vec![node as u16; cpus as usize]);
        let per_cpu = self.commands / self.nr_cpus();
        let of = |(cpu, node): (usize, u16)| {
            // Not all are equally busy.
            let is_busy = u64::from((cpu as u64) < self.nr_busy_cpus);
            let busy = is_busy * part.of(per_cpu) / 100 * (100 - (cpu as u64 * 7) % 23);
            let far = if node == self.hot_node { 10 } else { 10 + self.remote_per_mille / 20 };
            let instructions = busy.saturating_mul(70);
            let modelled_stall_millicycles = busy.saturating_mul(1000).saturating_mul(far);
            let totals = Totals {
                instructions,
                fetches: busy.saturating_mul(18),
                data_accesses: busy.saturating_mul(25),
                l1i_misses: busy / 6,
                l1d_read_misses: busy.saturating_mul(2),
                l1d_write_misses: busy,
                itlb_misses: busy / 40,
                dtlb_misses: busy / 3,
                second_tlb_hits: busy / 4,
                itlb_walks: busy / 50,
                dtlb_walks: busy / 10,
                table_reads: busy / 3,
                l2_hits: busy.saturating_mul(2),
                last_level_hits: busy / 2,
                peer_hits: busy / 9,
                owner_hits: busy / 20,
                memory_reads: busy / 2,
                modelled_stall_millicycles,
                ..Totals::default()
            };
            let modelled_cycles = instructions / 2 + modelled_stall_millicycles / 1000;
            CpuCounts { node, totals, modelled_cycles }
        };
        node_of_cpu.enumerate().map(of).collect()
    }

    fn counts(&self, part: Part) -> Counts {
        let nodes = || 0..self.nr_nodes();
        let pairs = nodes().flat_map(|from| nodes().map(move |to| (from, to)));
        let pairs = pairs.map(|nodes| self.pair(nodes, part)).filter(|pair| pair.nr_commands() > 0);
        Counts { cpus: self.cpus(part), pairs: pairs.collect(), ..Counts::default() }
    }

    fn mark(&self, at: Moment, part: Part) -> Mark {
        let rest = self.clone().with(|rest| {
            rest.commands /= 25;
            rest.remote_per_mille = 60;
        });
        let snapshot = Snapshot {
            geometry: geometry(),
            nr_nodes: self.cpus_per_node.len(),
            sets_one_in: self.sets_one_in,
            program: self.counts(part),
            rest: rest.counts(part),
            modelled_peak_utilisation: PeakUtilisation {
                last_level: 0.21,
                memory: 0.87,
                link: 1.34,
            },
        };
        Mark { at, instructions: self.instructions(part), guest_seconds: None, snapshot }
    }

    fn instructions(&self, part: Part) -> u64 {
        part.of(self.commands).saturating_mul(60)
    }

    fn slices(&self) -> Vec<Slice> {
        let mut slices = Slices::new((self.instructions(ALL) / 150).max(1));
        let all = self.counts(ALL);
        for at in 1..=150_u64 {
            // Rounds of a calculation; before the second thread there is nobody to ask from elsewhere.
            let wave = 70 + (at * 17) % 29 + 20 * (at / 12 % 3);
            let is_parallel = self.has_threads && (20..145).contains(&at);
            let mut slice =
                Slice { instructions: self.instructions(Part(at, 150)), ..Slice::default() };
            for kind in Kind::ALL {
                let of_kind = all.commands(kind, None);
                slice.local[kind as usize] = Part(wave, 15_000).of(of_kind.local);
                slice.remote[kind as usize] =
                    if is_parallel { Part(wave, 12_500).of(of_kind.remote) } else { 0 };
            }
            slices.push(slice);
        }
        slices.into_vec()
    }

    pub fn recording(&self) -> Recording {
        let mut marks = vec![self.mark(Moment::Start, Part(0, 1))];
        if self.has_threads {
            marks.push(self.mark(Moment::FirstThread, Part(20, 150)));
            marks.push(self.mark(Moment::LastThreadEnded, Part(145, 150)));
        }
        marks.push(self.mark(Moment::End, ALL));
        Recording {
            format: FORMAT,
            command: ["./eighths", "64", "8"].map(str::to_owned).to_vec(),
            kernel: "7.3-cloud-amd64".to_owned(),
            qemu: "10.0.2".to_owned(),
            machine: Machine { cpus_per_node: self.cpus_per_node.clone() },
            mode: self.mode,
            under_load: false,
            marks,
            slices: self.slices(),
            lines: None,
            stalls: None,
            moves: None,
            executed: None,
            parallel: None,
            units: None,
            notes: Vec::new(),
        }
    }

    pub fn report(&self) -> Report {
        let phase = if self.has_threads { Phase::Parallel } else { Phase::Whole };
        Report::new(&self.recording(), phase).unwrap()
    }
}

/// A part of the run.
#[derive(Clone, Copy)]
struct Part(u64, u64);

const ALL: Part = Part(1, 1);

impl Part {
    fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.0) / u128::from(self.1)) as u64
    }
}

/// In a mesh of eight columns.
fn hops(from: u64, to: u64) -> u64 {
    from.abs_diff(to) % 8 + from.abs_diff(to) / 8
}

pub fn geometry() -> Geometry {
    Geometry::parse(include_str!("geometry.toml")).unwrap()
}

/// Several runs of a policy: each with so many per mille remote.
pub fn runs(
    policy: Policy,
    per_mille: &[u64],
    hot_per_mille: u64,
    detail: Option<&str>,
) -> PolicyRuns {
    let runs = runs_with(policy, per_mille, |made_up| made_up.hot_per_mille = hot_per_mille);
    PolicyRuns { detail: detail.map(str::to_owned), ..runs }
}

/// The same, changed in any way.
pub fn runs_with(policy: Policy, per_mille: &[u64], change: impl Fn(&mut MadeUp)) -> PolicyRuns {
    let report = |&remote_per_mille: &u64| {
        let made_up = MadeUp::new(4, 2).with(|made_up| made_up.remote_per_mille = remote_per_mille);
        made_up.with(&change).report()
    };
    let runs = Ok(per_mille.iter().map(report).collect());
    PolicyRuns { policy, detail: None, runs, tried: Vec::new(), failed: None }
}

/// A placement by hand that was tried.
pub fn trial(
    detail: &str,
    q_mib: Option<f64>,
    modelled_phase_ms: Option<f64>,
    failed: Option<&str>,
) -> Trial {
    let (detail, failed) = (detail.to_owned(), failed.map(str::to_owned));
    Trial { detail, q_mib, modelled_phase_ms, failed }
}

/// A comparison as one would wish it: three runs each, one policy that could not be run.
pub fn policies() -> Vec<PolicyRuns> {
    let by_hand = runs(Policy::Hand, &[70, 71, 70], 100, Some("numactl --membind=… per thread"));
    let tried = vec![
        trial("numactl --membind=… per thread", Some(127.4), Some(80.0), None),
        trial("env OMP_PROC_BIND=close", Some(1430.0), Some(137.0), None),
        trial("./by-hand", None, None, Some("the command ended with status 1: <no> memory")),
    ];
    vec![
        runs(Policy::FirstTouch, &[747, 750, 744], 850, None),
        runs(Policy::Interleave, &[741, 746, 743], 0, Some("numactl --interleave=all")),
        runs(Policy::NumaBalancing, &[701, 748, 725], 780, Some("/proc/sys/kernel/numa_balancing")),
        PolicyRuns {
            policy: Policy::Numad,
            detail: None,
            runs: Err("numad is not installed in the guest".to_owned()),
            tried: Vec::new(),
            failed: None,
        },
        PolicyRuns { tried, ..by_hand },
        runs(Policy::Quartier, &[77, 80, 76], 300, Some("quartier run")),
        runs(Policy::QuartierBalanced, &[85, 84, 86], 310, Some("quartier run, balanced")),
    ]
}

/// Policies on 1 to 8 CPUs.
pub fn sweep() -> Vec<SweepRuns> {
    let policies = [
        (Policy::FirstTouch, 600, 40),
        (Policy::Interleave, 450, 6),
        (Policy::Hand, 60, 0),
        (Policy::Quartier, 70, 2),
    ];
    let point = |policy, per_mille: u64, serial: u64, nr_cpus: u64| {
        let report = |jitter: u64| {
            MadeUp::new(4, 2)
                .with(|made_up| {
                    made_up.nr_busy_cpus = nr_cpus;
                    made_up.remote_per_mille = if nr_cpus > 2 { per_mille } else { 0 };
                    made_up.commands += made_up.commands * serial * (nr_cpus - 1) / 100;
                    made_up.commands += made_up.commands * jitter * nr_cpus / 800;
                })
                .report()
        };
        let runs = Ok((0..3).map(report).collect());
        SweepRuns { policy, nr_cpus: nr_cpus as u32, detail: None, runs, failed: None }
    };
    let points = policies.into_iter().flat_map(|(policy, per_mille, serial)| {
        [1, 2, 4, 8].map(|nr_cpus| point(policy, per_mille, serial, nr_cpus))
    });
    // By hand, the best depends on the CPUs, and one point could not be counted.
    let mut points: Vec<_> = points.collect();
    for point in points.iter_mut().filter(|point| point.policy == Policy::Hand) {
        point.detail = Some(format!("numactl --physcpubind=+0-{}", point.nr_cpus - 1));
        if point.nr_cpus == 2 {
            point.runs = Err("the command ended with status 1: no memory".to_owned());
        }
    }
    points
}
