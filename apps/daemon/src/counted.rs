//! What runs is counted in the machine's decision tree (`docs/tree.md`), so that programs under `quartier run`, which count
//! themselves, go where CPUs are free of others too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use quartier_decide::dqdt::{Ledger, Process, RecordId, Tree};
use quartier_model::{CpuId, Machine, Nanos, ProcessSeen, Snapshot, Standing, TaskId, ThreadSeen};
use quartier_shared::{Found, Member, SharedError, SharedTree};

/// Threads are counted where they are this often.
const COUNT_EVERY: Nanos = Nanos(1_000_000_000);
/// It is looked this often whether there is a tree, and still the same.
const LOOK_EVERY: Nanos = Nanos(10_000_000_000);

/// Threads that are counted, each on a CPU.
pub struct Counted {
    directory: PathBuf,
    tree: Tree,
    member: Option<Member>,
    records: BTreeMap<TaskId, (CpuId, RecordId)>,
    next_count: Nanos,
    next_look: Nanos,
    /// What was said last, whether or not the tree is of use.
    said: String,
}

impl Counted {
    /// In the tree that this directory has, once it has one.
    pub fn below(directory: PathBuf, machine: &Machine) -> Self {
        Self {
            directory,
            tree: Tree::build(machine),
            member: None,
            records: BTreeMap::new(),
            next_count: Nanos(0),
            next_look: Nanos(0),
            said: String::new(),
        }
    }

    /// Counts whoever runs now where they are; gives a sentence if there is something new to say.
    pub fn renew(&mut self, machine: &Machine, snapshot: &Snapshot) -> Option<String> {
        if snapshot.at < self.next_count {
            return None;
        }
        self.next_count = snapshot.at + COUNT_EVERY;
        let said =
            if snapshot.at >= self.next_look { self.look_for_tree(snapshot.at) } else { None };
        self.count(machine, snapshot);
        said
    }

    fn look_for_tree(&mut self, at: Nanos) -> Option<String> {
        self.next_look = at + LOOK_EVERY;
        if self.member.as_ref().is_some_and(|member| !member.shared().is_in(&self.directory)) {
            (self.member, self.records) = (None, BTreeMap::new());
        }
        if let Some(member) = &self.member {
            member.sweep();
            return None;
        }
        let directory = self.directory.display();
        let sentence = match join(&self.directory, &self.tree) {
            Ok(None) => return None,
            Ok(member) => {
                self.member = member;
                format!("threads that run are counted in the decision tree {directory}")
            }
            Err(error) => format!("threads are counted in no decision tree: {error:#}"),
        };
        let is_new = sentence != self.said;
        self.said.clone_from(&sentence);
        is_new.then_some(sentence)
    }

    /// Half of the records are left to programs that count themselves.
    fn records_max(&self) -> usize {
        Ledger::nr_records(&self.tree) / 2
    }

    fn count(&mut self, machine: &Machine, snapshot: &Snapshot) {
        let Some(member) = &self.member else { return };
        let (Some(ledger), Some(me)) = (member.shared().ledger(), member.process()) else { return };
        let mut wanted = wanted(machine, snapshot);
        self.records.retain(|thread, (cpu, record)| match wanted.remove(thread) {
            Some(now) if now == *cpu => true,
            Some(now) => match ledger.recount(me, me, *record, now) {
                Some(moved) => {
                    (*cpu, *record) = (now, moved);
                    true
                }
                // A full ledger: it stays where it was counted.
                None => true,
            },
            None => {
                ledger.release(me, *record);
                false
            }
        });
        let left = self.records_max().saturating_sub(self.records.len());
        let more = wanted.into_iter().filter_map(|(thread, cpu)| counted(ledger, me, thread, cpu));
        self.records.extend(more.take(left));
    }
}

fn counted(
    ledger: Ledger<'_>,
    me: Process,
    thread: TaskId,
    cpu: CpuId,
) -> Option<(TaskId, (CpuId, RecordId))> {
    Some((thread, (cpu, ledger.count(me, cpu)?)))
}

/// Enters the tree, if there is one. One where everybody may write is none to trust: whoever cuts its file off ends all who
/// have mapped it.
fn join(directory: &Path, tree: &Tree) -> anyhow::Result<Option<Member>> {
    let shared = match SharedTree::open_for(directory, tree) {
        Err(SharedError::None { .. }) => return Ok(None),
        opened => opened?,
    };
    let everybody = shared.threads_mode().is_none_or(|mode| mode & 0o002 != 0);
    ensure!(
        !everybody,
        "in {} everybody may cut off the file `threads`, which would end quartierd; make it anew with `quartier tree \
         serve --threads-mode 660`, for a group",
        directory.display()
    );
    ensure!(
        shared.ledger().is_some(),
        "quartierd may not write {}/threads; have `quartier tree serve --threads-mode 660` make it for a group that \
         quartierd is in",
        directory.display()
    );
    ensure!(
        shared.is_allocated(),
        "{} was made by an older `quartier tree serve`, which did not take all memory that it needs: where /dev/shm is full that \
         would end quartierd; make it anew",
        directory.display()
    );
    let member = Member::enter(Found::Shared(shared));
    ensure!(member.process().is_some(), "too many programs are in {} already", directory.display());
    Ok(Some(member))
}

/// Threads that ran or waited for half of the time, and where each is to be counted; not those of programs that count themselves in
/// this tree, or of runs, which count theirs there if they may. Of whom it is not known whether he does, nothing is counted.
fn wanted(machine: &Machine, snapshot: &Snapshot) -> BTreeMap<TaskId, CpuId> {
    let is_counted = |process: &&ProcessSeen| {
        let counts_itself = process.counts_itself || process.standing == Standing::UnderRun;
        process.sample.is_some() && !counts_itself && process.standing != Standing::Watcher
    };
    let threads = snapshot.processes.iter().filter(is_counted).flat_map(|process| &process.threads);
    let is_busy = |thread: &&ThreadSeen| 2 * (thread.ran + thread.waited).0 >= snapshot.window.0;
    threads
        .filter(is_busy)
        .filter_map(|thread| Some((thread.id, cpu_of(machine, thread)?)))
        .collect()
}

/// The CPU that it was found on, or, if it is held on another node, one of those.
fn cpu_of(machine: &Machine, thread: &ThreadSeen) -> Option<CpuId> {
    let Some(node) = thread.held_on else { return thread.cpu };
    let cpus = machine.node_cpus(node);
    match thread.cpu {
        Some(cpu) if cpus.contains(&cpu) => Some(cpu),
        _ => cpus.get(thread.id.id as usize % cpus.len().max(1)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use quartier_model::{NodeId, SyntheticSpec};
    use quartier_shared::Create;

    use super::*;
    use crate::made_up::{self, SECOND};

    fn thread(id: u32, percent: u64, cpu: u32, held_on: Option<u32>) -> ThreadSeen {
        ThreadSeen {
            ran: Nanos(SECOND / 100 * percent),
            waited: Nanos(0),
            cpu: Some(CpuId(cpu)),
            held_on: held_on.map(NodeId),
            ..made_up::thread(id, 0)
        }
    }

    fn process(standing: Standing, threads: Vec<ThreadSeen>) -> ProcessSeen {
        ProcessSeen { standing, threads, ..made_up::process(1, "x", 0, 0) }
    }

    fn seen(at: u64, processes: Vec<ProcessSeen>) -> Snapshot {
        Snapshot { at: Nanos(at * SECOND), window: Nanos(SECOND), processes, ..Snapshot::default() }
    }

    /// Threads that the tree in a directory counts on each of four nodes.
    fn on_nodes(directory: &Path) -> Vec<u32> {
        let shared = SharedTree::open(directory).unwrap();
        let (tree, estimates) = (shared.tree(), shared.estimates());
        (0..4).map(|node| estimates.nr_threads(tree.cluster_of_node(NodeId(node)))).collect()
    }

    fn world(mode: u32) -> (tempfile::TempDir, Machine, Counted) {
        world_of(mode, 2)
    }

    fn world_of(mode: u32, cpus_per_node: u32) -> (tempfile::TempDir, Machine, Counted) {
        let directory = tempfile::tempdir().unwrap();
        let machine = SyntheticSpec::uniform(4, cpus_per_node).machine().unwrap();
        let options = Create { threads_mode: mode, ..Create::default() };
        SharedTree::create(directory.path(), &Tree::build(&machine), &options).unwrap();
        let counted = Counted::below(directory.path().to_owned(), &machine);
        (directory, machine, counted)
    }

    #[test]
    fn who_runs_is_counted_where_he_is_until_he_sleeps_or_the_daemon_ends() {
        let (directory, machine, mut counted) = world(0o600);
        let busy = |cpu, held| {
            process(Standing::Free, vec![thread(1, 90, cpu, held), thread(2, 20, 4, None)])
        };
        let run = || process(Standing::UnderRun, vec![thread(9, 100, 7, None)]);
        let of_tree = || ProcessSeen {
            counts_itself: true,
            ..process(Standing::Free, vec![thread(11, 100, 6, None)])
        };
        let unknown = || ProcessSeen {
            sample: None,
            ..process(Standing::Free, vec![thread(5, 100, 7, None)])
        };
        let said =
            counted.renew(&machine, &seen(1, vec![busy(2, None), run(), of_tree(), unknown()]));
        assert!(said.unwrap().contains("are counted in the decision tree"));
        assert_eq!(
            on_nodes(directory.path()),
            [0, 1, 0, 0],
            "but who hardly runs, counts itself, or may"
        );
        assert_eq!(
            counted.renew(&machine, &seen(2, vec![busy(2, Some(3))])),
            None,
            "it is said once"
        );
        assert_eq!(on_nodes(directory.path()), [0, 0, 0, 1], "it is on its way there");
        counted.renew(&machine, &seen(3, vec![]));
        assert_eq!(on_nodes(directory.path()), [0; 4]);
        counted.renew(&machine, &seen(4, vec![busy(0, None)]));
        assert_eq!(on_nodes(directory.path()), [1, 0, 0, 0]);
        drop(counted);
        assert_eq!(on_nodes(directory.path()), [0; 4]);
    }

    #[test]
    fn half_of_the_records_are_left_to_others() {
        let (directory, machine, mut counted) = world_of(0o600, 64);
        let crowd = |id| process(Standing::Free, vec![thread(id, 100, id % 256, None)]);
        counted.renew(&machine, &seen(1, (1..4000).map(crowd).collect()));
        assert_eq!(on_nodes(directory.path()).iter().sum::<u32>(), 2048);
    }

    #[test]
    fn a_tree_that_is_made_later_or_anew_is_found() {
        let (directory, machine, mut counted) = world(0o600);
        let busy = || vec![process(Standing::Free, vec![thread(1, 90, 2, None)])];
        let (tree, threads) = (directory.path().join("tree"), directory.path().join("threads"));
        std::fs::remove_file(&tree).unwrap();
        std::fs::remove_file(&threads).unwrap();
        assert_eq!(counted.renew(&machine, &seen(1, busy())), None, "no tree is no trouble");
        for at in [20, 40] {
            SharedTree::create(directory.path(), &Tree::build(&machine), &Create::default())
                .unwrap();
            counted.renew(&machine, &seen(at, busy()));
            assert_eq!(on_nodes(directory.path()), [0, 1, 0, 0], "{at} s");
        }
    }

    #[test]
    fn a_tree_that_everybody_may_cut_off_is_left_alone() {
        let (directory, machine, mut counted) = world(0o666);
        let busy = || vec![process(Standing::Free, vec![thread(1, 90, 2, None)])];
        let said = counted.renew(&machine, &seen(1, busy())).unwrap();
        assert!(
            said.contains("threads are counted in no decision tree")
                && said.contains("--threads-mode 660"),
            "{said}"
        );
        assert_eq!(counted.renew(&machine, &seen(30, busy())), None, "it is said once");
        assert_eq!(on_nodes(directory.path()), [0; 4]);
    }
}
