//! The Monitor on a made-up /proc, and on this machine's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quartier_model::{
    Bytes, Counting, CpuId, CpuList, Machine, Nanos, NodeId, NodeOsId, PerNode, ProcessSeen,
    Refusal, Snapshot, Standing, SyntheticSpec, Task, TaskId, Unseen, Users,
};
use quartier_observe::Host;
use quartier_observe::events::{Counters, Counts, Events, Extent, Fault, Faults, Refused};
use quartier_observe::tasks::{Denied, Kernel, Monitor, Rules, Who};
use tempfile::TempDir;

const SECOND: u64 = 1_000_000_000;
const PERIOD: u64 = SECOND / 5;
const PID: u32 = 40;

/// A kernel that answers what a test wants.
#[derive(Default)]
struct Fake {
    affinities: BTreeMap<u32, CpuList>,
    held: BTreeMap<u32, NodeId>,
    /// What processes ran; of others a file says it.
    clocks: BTreeMap<u32, Nanos>,
    /// Where every page is; `None`: that may not be known.
    pages_on: Option<NodeOsId>,
    asked: RefCell<usize>,
    watcher: Option<u32>,
    left: RefCell<Vec<u32>>,
}

impl Kernel for Fake {
    fn affinity(&self, tid: u32) -> Option<CpuList> {
        Some(self.affinities.get(&tid).cloned().unwrap_or_else(|| "0-7".parse().unwrap()))
    }

    fn cpu_time(&self, pid: u32) -> Option<Nanos> {
        self.clocks.get(&pid).copied()
    }

    fn nodes_of(
        &self,
        _pid: u32,
        addresses: &[u64],
        nodes: &mut Vec<Option<NodeOsId>>,
    ) -> Result<(), Denied> {
        *self.asked.borrow_mut() += addresses.len();
        let on = self.pages_on.ok_or(Denied)?;
        // Every second page is resident.
        *nodes = addresses.iter().map(|address| (address >> 12 & 1 == 0).then_some(on)).collect();
        Ok(())
    }

    fn held_on(&self, task: &Task) -> Option<NodeId> {
        self.held.get(&task.thread.id).copied()
    }

    fn is_narrowed(&self, _cgroup: &str) -> bool {
        false
    }

    fn owns(&self, task: &Task, _affinity: &CpuList, _whole: &CpuList) -> bool {
        self.held.contains_key(&task.thread.id)
    }

    fn leaves(&self, process: TaskId) {
        self.left.borrow_mut().push(process.id);
    }

    fn is_watcher(&self, pid: u32) -> bool {
        self.watcher == Some(pid)
    }
}

/// A /proc and /sys of four nodes with two CPUs, and one process with four threads.
struct World {
    root: TempDir,
    monitor: Monitor,
    kernel: Fake,
    at: u64,
    ran: BTreeMap<u32, (u64, u64)>,
    /// Tasks that were made since the start; `None`: nobody says.
    forks: Option<u64>,
}

fn machine() -> Machine {
    SyntheticSpec::uniform(4, 2).machine().unwrap()
}

fn stat_line(
    pid: u32,
    flags: u32,
    ticks: u64,
    threads: u32,
    start: u64,
    cpu: u32,
    class: u32,
) -> String {
    format!(
        "{pid} (a) b) S 1 1 1 0 -1 {flags} {ticks} 0 {cpu} 0 {ticks} 0 0 0 20 0 {threads} 0 {start} 0 0 0 0 0 \
         0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 {class} 0\n"
    )
}

impl World {
    fn new(rules: Rules) -> Self {
        let root = tempfile::tempdir().unwrap();
        let monitor = Monitor::new(root.path(), machine(), rules, 2);
        let (kernel, ran) = (Fake::default(), BTreeMap::new());
        let world = Self { root, monitor, kernel, at: 0, ran, forks: None };
        world.write("sys/devices/system/cpu/online", "0-7\n");
        world.write("sys/devices/system/cpu/isolated", "7\n");
        for node in 0..4 {
            let text =
                format!("Node {node} MemFree: 1024 kB\nNode {node} Inactive(file): 512 kB\n");
            world.write(&format!("sys/devices/system/node/node{node}/meminfo"), &text);
        }
        world
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, start: u64, tids: &[u32]) {
        let folder = format!("proc/{pid}");
        self.write(
            &format!("{folder}/stat"),
            &stat_line(pid, 0, 0, tids.len() as u32, start, 0, 0),
        );
        self.write(&format!("{folder}/status"), "Uid:\t0\t7\t0\t0\nRssAnon:\t 2048 kB\n");
        self.write(&format!("{folder}/cgroup"), "0::/\n");
        self.write(&format!("{folder}/numa_maps"), "1000 default file=/bin/x mapped=1\n");
        self.write(&format!("{folder}/maps"), "100000-300000 rw-p 00000000 00:00 0\n");
        for tid in tids {
            let folder = format!("{folder}/task/{tid}");
            self.write(&format!("{folder}/stat"), &stat_line(*tid, 0, 0, 1, start, 3, 0));
            self.write(&format!("{folder}/schedstat"), "0 0 1\n");
            self.write(&format!("{folder}/numa_maps"), "1000 default file=/bin/x mapped=1\n");
        }
    }

    /// A period in which these threads of the process ran and waited for so many percent of the time.
    fn period(&mut self, work: &[(u32, u64, u64)]) -> Snapshot {
        self.at += PERIOD;
        for (tid, ran, waited) in work {
            let sum = self.ran.entry(*tid).or_default();
            sum.0 += PERIOD * ran / 100;
            sum.1 += PERIOD * waited / 100;
            let text = format!("{} {} 1\n", sum.0, sum.1);
            fs::write(self.root.path().join(format!("proc/{PID}/task/{tid}/schedstat")), text)
                .unwrap();
        }
        let ticks = self.ran.values().map(|(ran, _)| ran / 10_000_000).sum();
        let threads = fs::read_dir(self.root.path().join(format!("proc/{PID}/task")));
        if let Ok(threads) = threads {
            let line = stat_line(PID, 0, ticks, threads.count() as u32, 500, 0, 0);
            self.write(&format!("proc/{PID}/stat"), &line);
        }
        let busy = self.at / 20_000_000;
        let idle = self.at / 10_000_000 - busy;
        let cpu = |cpu| format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        let forks = self.forks.map(|forks| format!("processes {forks}\n"));
        let lines = (0..8).map(cpu).chain(forks).collect::<String>();
        self.write("proc/stat", &lines);
        self.write("proc/uptime", &format!("{}.{:02} 1.00\n", 100 + self.at / SECOND, 0));
        self.monitor.look(Nanos(self.at), &self.kernel).unwrap()
    }

    fn periods(&mut self, nr: usize, work: &[(u32, u64, u64)]) -> Snapshot {
        (0..nr).map(|_| self.period(work)).last().unwrap()
    }
}

fn only(snapshot: &Snapshot) -> &ProcessSeen {
    assert_eq!(snapshot.processes.len(), 1, "{snapshot:?}");
    &snapshot.processes[0]
}

#[test]
fn who_runs_or_waits_is_seen_and_nobody_else() {
    let mut world = World::new(Rules::default());
    world.kernel.pages_on = Some(NodeOsId(2));
    world.process(PID, 500, &[40, 41, 42, 43]);
    world.process(50, 600, &[50]);
    world.write("proc/2/stat", &stat_line(2, 0x0020_0000, 0, 1, 1, 0, 0));
    let snapshot = world.periods(20, &[(40, 60, 10), (41, 0, 100)]);
    assert_eq!(snapshot.window, Nanos(SECOND));
    let process = only(&snapshot);
    assert_eq!((process.id, &*process.name), (TaskId { id: PID, start_ticks: 500 }, "a) b"));
    assert_eq!(
        process.age,
        Nanos(98 * SECOND + 800 * 1_000_000),
        "5 s after the start, 103.8 s now"
    );
    assert_eq!(process.standing, Standing::Free);
    let sample = process.sample.as_ref().unwrap();
    assert!(sample[&NodeId(2)] >= 32 && sample.len() == 1, "{sample:?}");
    let threads: Vec<_> =
        process.threads.iter().map(|thread| (thread.id.id, thread.ran, thread.waited)).collect();
    let tenth = SECOND / 10;
    assert_eq!(threads, [(40, Nanos(6 * tenth), Nanos(tenth)), (41, Nanos(0), Nanos(SECOND))]);
    let thread = &process.threads[0];
    assert_eq!(thread.found_on, PerNode::from([(NodeId(1), 5)]), "CPU 3");
    assert_eq!(thread.standing, None, "it may be placed");
    assert_eq!(snapshot.cpus, "0-6".parse().unwrap(), "one is isolated");
    assert_eq!(snapshot.cpus_busy[0], Some(Nanos(SECOND / 2)));
    let node = &snapshot.nodes[3];
    assert_eq!((node.free.unwrap().0, node.reclaimable.unwrap().0), (1 << 20, 1 << 19));
    let idle = world.periods(8, &[]);
    assert_eq!(idle.processes.len(), 0, "it sleeps");
}

#[test]
fn what_is_half_read_is_unknown_and_known_again_later() {
    let mut world = World::new(Rules::default());
    world.write("proc/buddyinfo", "Node 0, zone Normal 1 2 3\n");
    world.process(PID, 500, &[40]);
    world.periods(6, &[(40, 50, 0)]);
    let root = world.root.path().to_owned();
    let look = |world: &mut World| {
        world.at += SECOND;
        world.write(&format!("proc/{PID}/task/40/schedstat"), &format!("{} 0 1\n", world.at / 2));
        world.monitor.look(Nanos(world.at), &world.kernel).unwrap()
    };
    let files = [
        ("sys/devices/system/cpu/online", "0-"),
        ("sys/devices/system/cpu/isolated", "x"),
        ("proc/stat", "cpu0 1 2\n"),
        ("proc/uptime", "10"),
        ("proc/buddyinfo", "Node 0, zo"),
        ("sys/devices/system/node/node3/meminfo", "Node 3 MemFree: 10"),
    ];
    for (path, half) in files {
        let whole = fs::read_to_string(root.join(path)).unwrap();
        for text in [half, ""] {
            // Empty, that list says that there are none.
            let text = if text.is_empty() && path.ends_with("isolated") { half } else { text };
            world.write(path, text);
            let seen = look(&mut world);
            assert_eq!(seen.cpus, "0-6".parse().unwrap(), "{path}");
            assert_eq!(seen.processes.len(), 1, "{path}");
            let age = seen.processes[0].age;
            assert!((95 * SECOND..130 * SECOND).contains(&age.0), "{path}: {age}");
            let is_known = (seen.cpus_busy[0].is_some(), seen.nodes[3].free.is_some());
            assert_eq!(is_known, (path != "proc/stat", !path.ends_with("node3/meminfo")), "{path}");
            assert!(text.is_empty() || world.monitor.unread().is_some(), "{path}");
        }
        world.write(path, &whole);
        let seen = look(&mut world);
        assert!(seen.cpus_busy[0].is_some() && seen.nodes[3].free.is_some());
        assert_eq!(world.monitor.unread(), None);
    }
}

#[test]
fn who_begins_is_told_what_cannot_be_read() {
    let mut world = World::new(Rules::default());
    world.write("proc/stat", "cpu0 1 2\n");
    let error = world.monitor.look(Nanos(1), &world.kernel).unwrap_err();
    assert!(error.to_string().contains("proc/stat"), "{error}");
}

#[test]
fn cpus_are_busy_for_the_same_part_of_the_window_however_long_a_period_is() {
    let mut world = World::new(Rules::default());
    let mut snapshot = Snapshot::default();
    for _ in 0..8 {
        world.at += 9 * PERIOD;
        snapshot = world.period(&[]);
    }
    assert_eq!(snapshot.window, Nanos(10 * SECOND));
    assert_eq!(snapshot.cpus_busy[0], Some(Nanos(5 * SECOND)));
}

#[test]
fn page_faults_are_those_between_two_looks() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40]);
    let faults = |snapshot: &Snapshot| only(snapshot).threads[0].faults;
    assert_eq!(faults(&world.periods(20, &[(40, 50, 0)])).map(|seen| seen.minor), Some(0));
    // The line of a test has as many minor faults as ticks, and as many major ones as its CPU has for a number.
    let line = stat_line(40, 0, 700, 1, 500, 5, 0);
    world.write(&format!("proc/{PID}/task/40/stat"), &line);
    let seen: Vec<_> = (0..5)
        .filter_map(|_| faults(&world.period(&[(40, 50, 0)])))
        .filter(|seen| seen.minor > 0)
        .collect();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|seen| (seen.minor, seen.major, seen.over) == (700, 2, Nanos(SECOND))),
        "{seen:?}"
    );
}

#[test]
fn a_closer_look_sees_where_every_thread_is_now() {
    let mut world = World::new(Rules::default());
    let threads: Vec<u32> = (40..50).collect();
    world.process(PID, 500, &threads);
    let work: Vec<_> = threads.iter().map(|tid| (*tid, 90, 0)).collect();
    let on = |snapshot: &Snapshot, cpu| {
        let threads = &only(snapshot).threads;
        threads.iter().filter(|thread| thread.cpu == Some(CpuId(cpu))).count()
    };
    assert_eq!(on(&world.periods(20, &work), 3), 10);
    for tid in &threads {
        let line = stat_line(*tid, 0, 0, 1, 500, 6, 0);
        world.write(&format!("proc/{PID}/task/{tid}/stat"), &line);
    }
    assert_eq!(on(&world.period(&work), 6), 2, "one in five is asked");
    let closer = world.monitor.look_closer(Nanos(world.at), &world.kernel);
    assert_eq!(on(&closer, 6), 10);
}

#[test]
fn of_very_many_threads_a_bounded_number_is_asked_in_a_period() {
    let mut world = World::new(Rules::default());
    let threads: Vec<u32> = (1000..1600).collect();
    world.process(PID, 500, &threads);
    let work: Vec<_> = threads.iter().map(|tid| (*tid, 50, 0)).collect();
    world.periods(12, &work);
    for tid in &threads {
        world.write(&format!("proc/{PID}/task/{tid}/stat"), &stat_line(*tid, 0, 0, 1, 500, 6, 0));
    }
    let on_the_other = |snapshot: &Snapshot| {
        let threads = &only(snapshot).threads;
        threads.iter().filter(|thread| thread.cpu == Some(CpuId(6))).count()
    };
    for period in 1..=6 {
        assert_eq!(on_the_other(&world.period(&work)), 100 * period);
    }
}

#[test]
fn who_does_next_to_nothing_is_looked_at_once_in_a_window() {
    let missed_at_once = |percent: u64| {
        let is_missed = |more: &u64| {
            let mut world = World::new(Rules::default());
            world.monitor = Monitor::new(world.root.path(), machine(), Rules::default(), 0);
            world.process(PID, 500, &[40, 41]);
            let work = |period| [(40, 60, 0), (41, percent * (period % 2), 0)];
            for period in 0..20 + more {
                world.period(&work(period));
            }
            let times = format!("proc/{PID}/task/41/schedstat");
            fs::remove_file(world.root.path().join(times)).unwrap();
            let snapshot = world.period(&[(40, 60, 0)]);
            only(&snapshot).threads.iter().all(|thread| thread.id.id != 41)
        };
        (0..5).filter(is_missed).count()
    };
    assert_eq!((missed_at_once(1), missed_at_once(40)), (1, 5));
}

#[test]
fn who_did_next_to_nothing_and_does_more_is_seen_to() {
    for more in 0..5 {
        let mut world = World::new(Rules::default());
        let tids: Vec<u32> = (PID..PID + 10).collect();
        world.process(PID, 500, &tids);
        let at_once = |percent| tids.iter().map(|tid| (*tid, percent, 0)).collect::<Vec<_>>();
        for period in 0..20 + more {
            world.period(&at_once(period % 2));
        }
        let snapshot = world.periods(5, &at_once(80));
        assert!(only(&snapshot).threads.iter().all(|thread| thread.ran.0 > SECOND / 100));
        let snapshot = world.periods(5, &at_once(80));
        assert!(only(&snapshot).threads.iter().all(|thread| thread.ran.0 == SECOND / 100 * 80));
    }
}

#[test]
fn a_thread_that_begins_to_run_is_found_soon() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &(40..340).collect::<Vec<_>>());
    world.periods(60, &[(40, 50, 0)]);
    let found =
        (0..10).position(|_| only(&world.period(&[(40, 50, 0), (250, 90, 0)])).threads.len() == 2);
    assert!(found.is_some(), "within two seconds, since its process runs more than was known");
    // While the whole process sleeps nobody looks so often.
    world.periods(60, &[]);
    let found = (0..30).position(|_| !world.period(&[(99, 90, 0)]).processes.is_empty());
    assert!(found.is_some());
}

#[test]
fn new_processes_are_looked_for_if_any_was_made_and_every_minute() {
    let mut world = World::new(Rules::default());
    world.forks = Some(1);
    world.write("proc/9/stat", &stat_line(9, 0x0020_0000, 0, 1, 1, 0, 0));
    world.process(50, 600, &[50]);
    world.periods(10, &[]);
    assert_eq!(world.monitor.nr_processes(), 1, "one is the kernel's");
    world.process(51, 600, &[51]);
    world.periods(10, &[]);
    assert_eq!(world.monitor.nr_processes(), 1, "it cannot have been made");
    world.forks = Some(2);
    world.periods(6, &[]);
    assert_eq!(world.monitor.nr_processes(), 2);
    // The kernel's thread has ended, and somebody has its number.
    world.process(9, 700, &[9]);
    world.forks = Some(3);
    world.periods(300, &[]);
    assert_eq!(world.monitor.nr_processes(), 3);
}

#[test]
fn of_a_process_whose_clock_stands_still_no_file_is_read() {
    let mut world = World::new(Rules::default());
    world.process(50, 600, &[50, 51]);
    world.kernel.clocks.insert(50, Nanos(SECOND));
    world.periods(10, &[]);
    // Whoever looked into its files now would take it for one that has ended, or for another.
    let folder = world.root.path().join("proc/50");
    let line = stat_line(50, 0, 0, 2, 600, 0, 0);
    fs::write(folder.join("stat"), line.replace("(a) b)", "(other)")).unwrap();
    fs::rename(&folder, world.root.path().join("hidden")).unwrap();
    world.periods(100, &[]);
    assert_eq!(world.monitor.nr_processes(), 1);
    fs::rename(world.root.path().join("hidden"), &folder).unwrap();
    // It runs again, and is another program by now.
    for period in 1..=40 {
        world.kernel.clocks.insert(50, Nanos(SECOND + period * PERIOD / 2));
        fs::write(folder.join("task/51/schedstat"), format!("{} 0 1\n", period * PERIOD / 2))
            .unwrap();
        world.period(&[]);
    }
    let snapshot = world.period(&[]);
    let process = only(&snapshot);
    assert_eq!((process.threads[0].id.id, &*process.name), (51, "other"));
    world.kernel.clocks.remove(&50);
    fs::remove_dir_all(&folder).unwrap();
    world.periods(30, &[]);
    assert_eq!(world.monitor.nr_processes(), 0);
}

#[test]
fn who_ended_is_forgotten_also_if_another_has_its_number() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40, 41]);
    world.periods(10, &[(40, 50, 0), (41, 50, 0)]);
    fs::remove_dir_all(world.root.path().join("proc/40/task/41")).unwrap();
    assert_eq!(only(&world.periods(7, &[(40, 50, 0)])).threads.len(), 1);
    fs::remove_dir_all(world.root.path().join("proc/40")).unwrap();
    world.ran.clear();
    assert_eq!(world.periods(7, &[]).processes.len(), 0);
    assert_eq!(world.monitor.nr_processes(), 0);
    world.process(PID, 500, &[40]);
    world.periods(15, &[(40, 50, 0)]);
    world.process(PID, 700, &[40]);
    // The same number, begun later.
    let line = stat_line(PID, 0, 0, 1, 700, 0, 0);
    world.at += PERIOD;
    for _ in 0..8 {
        world.at += PERIOD;
        world.write("proc/40/stat", &line);
        world.monitor.look(Nanos(world.at), &world.kernel).unwrap();
        if world.monitor.nr_processes() == 0 {
            return;
        }
    }
    panic!("the process of before is still there");
}

#[test]
fn what_is_read_by_half_is_read_again_and_nothing_is_lost() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40]);
    world.periods(10, &[(40, 50, 0)]);
    let path = world.root.path().join("proc/40/task/40/schedstat");
    for half in ["", "9999", "99 x", "\u{fffd}"] {
        fs::write(&path, half).unwrap();
        world.at += PERIOD;
        let snapshot = world.monitor.look(Nanos(world.at), &world.kernel).unwrap();
        assert_eq!(only(&snapshot).threads.len(), 1, "{half}");
    }
    fs::write(world.root.path().join("proc/40/stat"), "40 (x").unwrap();
    world.at += 2 * SECOND;
    assert_eq!(world.monitor.look(Nanos(world.at), &world.kernel).unwrap().processes.len(), 1);
}

#[test]
fn who_was_placed_by_somebody_is_said_to_be() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40, 41, 42, 43]);
    world.kernel.affinities.insert(41, "2-3".parse().unwrap());
    world.kernel.affinities.insert(42, "4-5".parse().unwrap());
    world.kernel.held.insert(42, NodeId(2));
    world.write("proc/40/task/43/stat", &stat_line(43, 0, 0, 1, 500, 3, 2));
    let all: Vec<_> = (40..44).map(|tid| (tid, 50, 0)).collect();
    let snapshot = world.periods(40, &all);
    let process = only(&snapshot);
    let standings: Vec<_> =
        process.threads.iter().map(|thread| process.standing_of(thread)).collect();
    let (free, set, real_time) = (Standing::Free, Standing::AffinitySet, Standing::RealTime);
    assert_eq!(standings, [free, set, free, real_time]);
    assert_eq!(process.threads[2].held_on, Some(NodeId(2)));
    world.write("proc/40/numa_maps", "1000 bind:1 file=/bin/x\n");
    let snapshot = world.periods(30, &all);
    assert_eq!(only(&snapshot).standing, Standing::MemoryPolicySet);
}

#[test]
fn rules_say_who_is_left_alone() {
    let never = vec![Who { name: Some("a*".to_owned()), uid: Some(7), ..Who::default() }];
    let mut world = World::new(Rules { never, ..Rules::default() });
    world.process(PID, 500, &[40]);
    assert_eq!(only(&world.periods(10, &[(40, 50, 0)])).standing, Standing::OptedOut);
}

/// At the next look, not some seconds later: who was let go would be placed again meanwhile.
#[test]
fn other_rules_hold_at_once() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40, 41]);
    let both = [(40, 50, 0), (41, 50, 0)];
    assert_eq!(only(&world.periods(40, &both)).standing, Standing::Free);
    let never = vec![Who { name: Some("a*".to_owned()), uid: Some(7), ..Who::default() }];
    world.monitor.set_rules(Rules { never, ..Rules::default() });
    let snapshot = world.periods(1, &both);
    let process = only(&snapshot);
    assert_eq!(process.standing, Standing::OptedOut);
    assert!(process.threads.iter().all(|seen| process.standing_of(seen) == Standing::OptedOut));
}

#[test]
fn whoever_watches_is_known_whatever_rules_say() {
    let only_it = vec![Who { name: Some("a*".to_owned()), uid: Some(7), ..Who::default() }];
    let mut world = World::new(Rules { only: only_it, ..Rules::default() });
    world.kernel.watcher = Some(PID);
    world.process(PID, 500, &[40]);
    assert_eq!(only(&world.periods(10, &[(40, 50, 0)])).standing, Standing::Watcher);
}

#[test]
fn who_runs_under_quartier_run_is_left_to_it() {
    const SESSION: &str = "400000-500000 rw-s 0 00:01 9 /memfd:quartier-session (deleted)\n";
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40, 41]);
    world.kernel.held.insert(41, NodeId(1));
    let process = TaskId { id: PID, start_ticks: 500 };
    assert_eq!(only(&world.periods(10, &[(40, 50, 0)])).standing, Standing::Free);
    assert!(!world.monitor.is_under_run(process));
    // It becomes that program.
    world.write("proc/40/maps", &format!("100000-300000 rw-p 0 00:00 0\n{SESSION}"));
    assert!(world.monitor.is_under_run(process), "whoever asks is told at once");
    let snapshot = world.periods(60, &[(40, 50, 0), (41, 50, 0)]);
    let process = only(&snapshot);
    assert_eq!(process.standing, Standing::UnderRun);
    assert!(process.free_threads().next().is_none());
    assert!(world.kernel.left.borrow().contains(&PID), "nor is it held any more");
}

#[test]
fn what_may_be_moved_is_what_nobody_bound() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40, 41]);
    world.write("proc/40/maps", "100000-300000 rw-p 0 00:00 0\n400000-500000 rw-p 0 00:00 0\n");
    world.write("proc/40/numa_maps", "1000 default\n100000 default\n400000 interleave:0-1\n");
    world.periods(10, &[(40, 50, 0)]);
    let process = TaskId { id: PID, start_ticks: 500 };
    assert_eq!(world.monitor.movable(process, Bytes(4 << 20)), Ok(vec![(0x10_0000, 0x30_0000)]));
    assert_eq!(world.monitor.movable(process, Bytes(1 << 20)), Err(Refusal::PolicyUnknown));
    let other = TaskId { start_ticks: 501, ..process };
    assert_eq!(world.monitor.movable(other, Bytes(4 << 20)), Err(Refusal::Ended));
    let tids: Vec<_> = world.monitor.tasks_of(process).iter().map(|task| task.thread.id).collect();
    assert_eq!(tids, [40, 41], "the one that sleeps, too");
    assert_eq!(*world.monitor.whole_of(process), "0-7".parse().unwrap());
}

#[test]
fn where_pages_are_is_unknown_where_nobody_may_ask() {
    let mut world = World::new(Rules::default());
    world.process(PID, 500, &[40]);
    assert_eq!(only(&world.periods(10, &[(40, 50, 0)])).sample, None);
}

/// Each thread touches a block of its own once in a look, and counts a million instructions and a thousand misses.
#[derive(Debug, Default)]
struct FakeEvents {
    counters: Option<Refused>,
    misses: bool,
}

#[derive(Debug)]
struct FakeFaults(u32);

#[derive(Debug)]
struct FakeCounters(u64, bool, Extent);

impl Events for FakeEvents {
    fn faults(&self, tid: u32) -> Result<Box<dyn Faults>, Refused> {
        Ok(Box::new(FakeFaults(tid)))
    }

    fn counters(&self, _: u32, extent: Extent) -> Result<Box<dyn Counters>, Refused> {
        match self.counters {
            Some(refused) => Err(refused),
            None => Ok(Box::new(FakeCounters(0, self.misses, extent))),
        }
    }
}

impl Faults for FakeFaults {
    fn take(&mut self, each: &mut dyn FnMut(Fault)) -> u64 {
        each(Fault { pid: PID, tid: self.0, address: u64::from(self.0) << 21 });
        0
    }
}

impl Counters for FakeCounters {
    fn read(&mut self) -> Option<Counts> {
        self.0 += 1;
        let llc_misses = self.1.then_some(1_000 * self.0);
        let is_all = self.2 == Extent::All;
        let (cycles, remote_reads) =
            (is_all.then_some(2_000_000 * self.0), is_all.then_some(self.0));
        Some(Counts { instructions: 1_000_000 * self.0, llc_misses, cycles, remote_reads })
    }

    fn nr_open(&self) -> usize {
        1 + usize::from(self.1) + if self.2 == Extent::All { 2 } else { 0 }
    }

    fn counts_misses(&self) -> bool {
        self.1
    }
}

/// With a process of so many threads that all run, more files that may be opened, and hint faults.
fn world_of_threads(nr: u32, events: FakeEvents, balancing: &str) -> (World, Vec<(u32, u64, u64)>) {
    let mut world = World::new(Rules::default());
    let monitor = Monitor::new(world.root.path(), machine(), Rules::default(), 100);
    world.monitor = monitor.with_events(Box::new(events));
    world.kernel.pages_on = Some(NodeOsId(1));
    let threads: Vec<u32> = (PID..PID + nr).collect();
    world.process(PID, 500, &threads);
    world.write("proc/40/maps", "4000000-10000000 rw-p 0 00:00 0\n");
    world.write("proc/40/statm", "9000 900 100 1 0 9 0\n");
    world.write("proc/sys/kernel/numa_balancing", balancing);
    (world, threads.iter().map(|tid| (*tid, 90, 0)).collect())
}

#[test]
fn who_uses_which_page_is_asked_of_who_is_too_big_for_a_node() {
    // Two CPUs a node.
    let (mut world, work) = world_of_threads(2, FakeEvents::default(), "1\n");
    let snapshot = world.periods(30, &work);
    assert_eq!((&only(&snapshot).users, &only(&snapshot).threads[0].touched), (&None, &None));
    let (mut world, work) = world_of_threads(3, FakeEvents::default(), "1\n");
    let snapshot = world.periods(40, &work);
    let process = only(&snapshot);
    let Some(Users::Seen(touches)) = &process.users else { panic!("{process:?}") };
    let blocks: Vec<_> = touches.blocks.iter().map(|block| (block.index, block.on)).collect();
    let on = Some(NodeId(1));
    assert_eq!(blocks, [(40, on), (41, on), (42, on)]);
    for (thread, block) in process.threads.iter().zip(&touches.blocks) {
        let times = thread.touched.as_ref().unwrap()[&NodeId(1)];
        assert!(times > 10, "{process:?}");
        assert_eq!(block.by.keys().collect::<Vec<_>>(), [&thread.id.id]);
    }
    // Its threads sleep, then it is gone: nothing is kept.
    assert_eq!(world.periods(60, &[]).processes.len(), 0);
}

#[test]
fn why_nobody_knows_who_uses_which_page_is_said() {
    for (balancing, expected) in [("0\n", Unseen::BalancingOff), ("?", Unseen::Unsupported)] {
        let (mut world, work) = world_of_threads(3, FakeEvents::default(), balancing);
        let snapshot = world.periods(30, &work);
        assert_eq!(only(&snapshot).users, Some(Users::Unknown(expected)));
        assert_eq!(only(&snapshot).threads[0].touched, None);
    }
}

#[test]
fn what_threads_count_is_told_for_the_window() {
    for misses in [true, false] {
        let (mut world, work) =
            world_of_threads(2, FakeEvents { misses, ..FakeEvents::default() }, "0\n");
        let many = if misses { 2_000 } else { 100 };
        let monitor = Monitor::new(world.root.path(), machine(), Rules::default(), many);
        let events = FakeEvents { misses, ..FakeEvents::default() };
        world.monitor = monitor.with_events(Box::new(events));
        let early = world.periods(8, &work);
        let snapshot = world.periods(20, &work);
        let state = if misses { Counting::Counts } else { Counting::WithoutMisses };
        assert_eq!(world.monitor.counting(), state);
        for thread in
            early.processes.iter().chain(&snapshot.processes).flat_map(|process| &process.threads)
        {
            // Five looks, or as much as five if it was counted for less.
            let expected = (Some(5_000_000), misses.then_some(5_000));
            assert!(
                thread.instructions.is_none()
                    || (thread.instructions, thread.llc_misses) == expected
            );
        }
        for thread in &only(&snapshot).threads {
            assert!(thread.instructions.is_some());
            // Where there are few descriptors that is not counted.
            let more = misses.then_some((10_000_000, 5));
            assert_eq!(thread.cycles.zip(thread.remote_reads), more);
        }
    }
}

#[test]
fn why_nothing_is_counted_is_said() {
    for (refused, expected) in [
        (Refused::Unsupported, Counting::Unsupported),
        (Refused::NotPermitted, Counting::NotPermitted),
        (Refused::NoDescriptors, Counting::NoDescriptors),
        (Refused::Ended, Counting::NotAsked),
    ] {
        let events = FakeEvents { counters: Some(refused), ..FakeEvents::default() };
        let (mut world, work) = world_of_threads(2, events, "0\n");
        let snapshot = world.periods(10, &work);
        assert_eq!(world.monitor.counting(), expected);
        assert!(only(&snapshot).threads.iter().all(|thread| thread.instructions.is_none()));
    }
}

#[test]
fn no_more_is_opened_than_may_be() {
    // A file of each thread, and two more of each that is counted.
    for (max, counted) in [(4, 0), (6, 1), (9, 3)] {
        let (mut world, work) = world_of_threads(3, FakeEvents::default(), "0\n");
        let monitor = Monitor::new(world.root.path(), machine(), Rules::default(), max);
        let events = FakeEvents { misses: true, ..FakeEvents::default() };
        world.monitor = monitor.with_events(Box::new(events));
        let snapshot = world.periods(10, &work);
        let threads = &only(&snapshot).threads;
        let nr = threads.iter().filter(|thread| thread.instructions.is_some()).count();
        assert_eq!(nr, counted, "{max}");
        let state = if counted < 3 { Counting::NoDescriptors } else { Counting::Counts };
        assert_eq!(world.monitor.counting(), state);
    }
}

/// Whatever /proc holds, the Monitor goes on.
#[test]
fn this_machine_can_be_watched() {
    let machine = Host::live().machine().unwrap();
    let kernel = Fake::default();
    let mut monitor = Monitor::new(Path::new("/"), machine, Rules::default(), 64);
    let mut own = Vec::new();
    for look in 1..=15 {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
        while std::time::Instant::now() < until {}
        let snapshot = monitor.look(Nanos(look * PERIOD), &kernel).unwrap();
        own.extend(
            snapshot.processes.into_iter().filter(|process| process.id.id == std::process::id()),
        );
    }
    let last = own.last().expect("this test runs");
    assert!(last.threads.iter().any(|thread| thread.ran > Nanos(10_000_000)), "{last:?}");
    assert!(last.age > Nanos(0) && last.resident.is_some());
}
