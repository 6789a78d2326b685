//! Touches of made-up threads, period after period.

use std::cell::RefCell;
use std::rc::Rc;

use quartier_model::{CpuList, SyntheticSpec, Task};
use tempfile::TempDir;

use super::*;
use crate::events::{Counters, Extent};
use crate::tasks::Denied;

const PID: u32 = 40;
const FIRST: u64 = 0x10_0000_0000;
const MAPS: &str = "1000000000-2000000000 rw-p 00000000 00:00 0\n";

/// What threads did that nobody has taken yet, and what is open.
#[derive(Debug, Default)]
struct Kernels {
    faults: BTreeMap<u32, (Vec<Fault>, u64)>,
    nr_open: usize,
    refuses: BTreeMap<u32, Refused>,
}

#[derive(Clone, Debug, Default)]
struct Fake(Rc<RefCell<Kernels>>);

#[derive(Debug)]
struct Open(Fake, u32);

impl Events for Fake {
    fn faults(&self, tid: u32) -> Result<Box<dyn Faults>, Refused> {
        let mut kernel = self.0.borrow_mut();
        if let Some(refused) = kernel.refuses.get(&tid) {
            return Err(*refused);
        }
        kernel.nr_open += 1;
        Ok(Box::new(Open(self.clone(), tid)))
    }

    fn counters(&self, _: u32, _: Extent) -> Result<Box<dyn Counters>, Refused> {
        Err(Refused::Unsupported)
    }
}

impl Faults for Open {
    fn take(&mut self, each: &mut dyn FnMut(Fault)) -> u64 {
        let (faults, lost) = self.0.0.borrow_mut().faults.remove(&self.1).unwrap_or_default();
        faults.into_iter().for_each(each);
        lost
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.borrow_mut().nr_open -= 1;
    }
}

/// All pages are on one node, or nobody may know.
struct AllOn(Option<NodeOsId>);

impl Kernel for AllOn {
    fn affinity(&self, _: u32) -> Option<CpuList> {
        None
    }

    fn cpu_time(&self, _: u32) -> Option<Nanos> {
        None
    }

    fn nodes_of(
        &self,
        _: u32,
        addresses: &[u64],
        nodes: &mut Vec<Option<NodeOsId>>,
    ) -> Result<(), Denied> {
        let on = self.0.ok_or(Denied)?;
        *nodes = vec![Some(on); addresses.len()];
        Ok(())
    }

    fn held_on(&self, _: &Task) -> Option<NodeId> {
        None
    }

    fn leaves(&self, _: quartier_model::TaskId) {}

    fn is_narrowed(&self, _cgroup: &str) -> bool {
        false
    }

    fn owns(&self, _: &Task, _: &CpuList, _: &CpuList) -> bool {
        false
    }

    fn is_watcher(&self, _: u32) -> bool {
        false
    }
}

struct Scene {
    root: TempDir,
    fake: Fake,
    touching: Touching,
    at: Nanos,
    on: AllOn,
    threads: Vec<u32>,
    left: usize,
}

impl Scene {
    fn of(nr_threads: u32) -> Self {
        let mut scene = Self {
            root: tempfile::tempdir().unwrap(),
            fake: Fake::default(),
            touching: Touching::default(),
            at: Nanos(100 * SECOND),
            on: AllOn(Some(NodeOsId(2))),
            threads: (PID..PID + nr_threads).collect(),
            left: 100,
        };
        scene.has_own_pages(1000);
        scene.touching.want(scene.at);
        scene
    }

    fn has_own_pages(&mut self, nr: u64) {
        let folder = self.root.path().join(format!("proc/{PID}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("statm"), format!("9999 {} 50 1 0 9 0\n", nr + 50)).unwrap();
    }

    /// A thread touches pages, by their number.
    fn touch(&self, tid: u32, pages: impl IntoIterator<Item = u64>) {
        let fault = |page| Fault { pid: PID, tid, address: FIRST + page * PAGE + 123 };
        let mut kernel = self.fake.0.borrow_mut();
        kernel.faults.entry(tid).or_default().0.extend(pages.into_iter().map(fault));
    }

    /// After so many seconds.
    fn look(&mut self, seconds: u64) -> Users {
        self.at = self.at + Nanos(seconds * SECOND);
        self.touching.want(self.at);
        self.touching.look(&mut Ask {
            files: &mut Files::below(self.root.path()),
            machine: &SyntheticSpec::uniform(4, 2).machine().unwrap(),
            kernel: &self.on,
            events: &self.fake,
            at: self.at,
            pid: PID,
            mappings: Some(&Mappings::parse(MAPS.as_bytes())),
            threads: &self.threads,
            left: self.left,
        });
        self.touching.users(self.at).expect("it is asked for")
    }

    fn nr_open(&self) -> usize {
        let nr_open = self.fake.0.borrow().nr_open;
        assert_eq!(nr_open, self.touching.nr_open());
        nr_open
    }
}

fn blocks(users: Users) -> Vec<(u64, Vec<(u32, u64)>)> {
    let Users::Seen(touches) = users else { panic!("{users:?}") };
    let by = |block: BlockSeen| (block.index - FIRST / BLOCK.0, block.by.into_iter().collect());
    touches.blocks.into_iter().map(by).collect()
}

#[test]
fn touches_name_the_thread_the_block_and_the_node() {
    let mut scene = Scene::of(3);
    scene.look(1);
    assert_eq!(scene.nr_open(), 3);
    scene.touch(40, [0, 511, 512]);
    scene.touch(41, [513]);
    let users = scene.look(1);
    assert_eq!(scene.touching.touched_by(40), Some(PerNode::from([(NodeId(2), 3)])));
    assert_eq!(
        scene.touching.touched_by(42),
        None,
        "that nothing was seen is not that it uses nothing"
    );
    let Users::Seen(touches) = &users else { panic!("{users:?}") };
    assert!(touches.blocks.iter().all(|block| block.on == Some(NodeId(2))));
    assert_eq!(blocks(users), [(0, vec![(40, 2)]), (1, vec![(40, 1), (41, 1)])]);
    // The pages move.
    scene.on = AllOn(Some(NodeOsId(3)));
    scene.look(1);
    assert_eq!(scene.touching.touched_by(40), Some(PerNode::from([(NodeId(3), 3)])));
    scene.on = AllOn(None);
    scene.look(1);
    assert_eq!(scene.touching.touched_by(40), None, "where they are may not be known");
}

#[test]
fn first_touches_say_nothing_about_who_uses_memory() {
    let mut scene = Scene::of(2);
    scene.look(1);
    // It grows by as many pages as it faults: it fills memory.
    scene.touch(40, 0..100);
    scene.fake.0.borrow_mut().faults.entry(41).or_default().1 = 50;
    scene.has_own_pages(1100);
    assert_eq!(scene.look(1), Users::Seen(Touches::default()), "lost ones were such, too");
    // By less than a quarter of them: others are most.
    scene.touch(40, 0..100);
    scene.has_own_pages(1120);
    assert_eq!(blocks(scene.look(1)), [(0, vec![(40, 100)])]);
    // Of a mapping that was not there, a file's, or another process that has the thread's number now.
    scene.touch(41, [1 << 30]);
    let fault = Fault { pid: 99, tid: 41, address: FIRST };
    scene.fake.0.borrow_mut().faults.entry(41).or_default().0.push(fault);
    assert_eq!(blocks(scene.look(1)), [(0, vec![(40, 100)])]);
    // Whether it grew is unknown: it may have.
    std::fs::remove_file(scene.root.path().join("proc/40/statm")).unwrap();
    scene.touch(41, 0..9);
    assert_eq!(blocks(scene.look(1)), [(0, vec![(40, 100)])]);
}

#[test]
fn what_was_lost_is_counted() {
    let mut scene = Scene::of(2);
    scene.look(1);
    scene.touch(40, [1, 2]);
    scene.fake.0.borrow_mut().faults.entry(40).or_default().1 = 7;
    let Users::Seen(Touches { blocks, lost }) = scene.look(1) else { panic!() };
    assert_eq!((blocks.len(), lost), (1, 7));
    // Of a thread of which nothing was seen at all, too; of one that is known, not.
    scene.fake.0.borrow_mut().faults.entry(41).or_default().1 = 5;
    scene.touch(40, 0..64);
    let Users::Seen(Touches { lost, .. }) = scene.look(1) else { panic!() };
    assert_eq!(lost, 5);
}

#[test]
fn it_is_looked_for_a_while_then_not_and_what_is_old_is_forgotten() {
    // Longer where little comes: the kernel may go over all of it once a minute only.
    for (touches, seconds) in [(1, 65), (MUCH, 20)] {
        let mut scene = Scene::of(2);
        scene.look(1);
        scene.touch(40, (0..touches).map(|at| at % 512));
        for _ in 1..seconds {
            scene.look(1);
            assert_eq!(scene.nr_open(), 2);
        }
        scene.look(1);
        assert_eq!(scene.nr_open(), 0, "{seconds} s are over");
        for _ in 0..39 {
            assert_eq!(blocks(scene.look(1)).len(), 1, "what is known stays known");
            assert_eq!(scene.nr_open(), 0);
        }
        scene.look(1);
        assert_eq!(scene.nr_open(), 2);
        assert_eq!(blocks(scene.look(259 - seconds)).len(), 1);
        assert_eq!(blocks(scene.look(3)), [], "five minutes ago");
        // It needs a node only, or ended.
        scene.touching.stop(scene.at, None);
        assert_eq!(scene.nr_open(), 0);
    }
}

#[test]
fn it_ends_early_when_as_much_is_known_as_is_kept() {
    let mut scene = Scene::of(2);
    scene.look(1);
    scene.touch(40, (0..200).map(|at| 512 * at));
    scene.touch(41, (0..63).map(|at| 512 * at));
    scene.touch(41, 0..200);
    scene.look(1);
    assert_eq!(scene.nr_open(), 2);
    scene.touch(41, [512 * 63]);
    scene.look(1);
    assert_eq!(scene.nr_open(), 0);
}

/// The kernel marks memory in the order of addresses, and a thread goes over it in that order.
#[test]
fn many_touches_of_a_block_do_not_push_out_those_of_others() {
    let mut scene = Scene::of(1);
    scene.look(1);
    scene.touch(40, 0..64 * 512);
    let seen = blocks(scene.look(1));
    assert_eq!(seen.len(), 64);
    assert!(seen.iter().all(|(_, by)| *by == [(40, 512)]));
    // Each look halves what was seen before, and one touch stays one.
    scene.look(40);
    scene.touch(40, [0]);
    assert_eq!(blocks(scene.look(1))[0], (0, vec![(40, 257)]));
}

#[test]
fn why_nothing_is_seen_is_told_apart_and_nothing_stays_open() {
    for (refused, expected) in [
        (Refused::NotPermitted, Unseen::NotPermitted),
        (Refused::Unsupported, Unseen::Unsupported),
        (Refused::NoDescriptors, Unseen::NoDescriptors),
    ] {
        let mut scene = Scene::of(3);
        scene.fake.0.borrow_mut().refuses.insert(42, refused);
        assert_eq!(scene.look(1), Users::Unknown(expected));
        assert_eq!(scene.nr_open(), 0);
        // It is not tried all the time, but it is again.
        scene.fake.0.borrow_mut().refuses.clear();
        assert_eq!(scene.look(39), Users::Unknown(expected));
        assert_eq!(scene.look(1), Users::Seen(Touches::default()));
        assert_eq!(scene.nr_open(), 3);
    }
}

#[test]
fn a_thread_that_ends_while_it_is_opened_is_no_trouble() {
    let mut scene = Scene::of(3);
    scene.fake.0.borrow_mut().refuses.insert(41, Refused::Ended);
    scene.look(1);
    assert_eq!(scene.nr_open(), 2);
    scene.threads = vec![42, 43];
    scene.touch(40, [1]);
    scene.look(1);
    assert_eq!(scene.nr_open(), 2, "one ended, another began");
}

#[test]
fn where_descriptors_are_few_most_threads_are_opened_or_none() {
    for (left, expected) in [(8, 8), (6, 6), (4, 4), (3, 0)] {
        let mut scene = Scene::of(8);
        scene.left = left;
        let users = scene.look(1);
        assert_eq!(scene.nr_open(), expected);
        assert_eq!(users == Users::Unknown(Unseen::NoDescriptors), expected == 0, "{left}");
    }
}

#[test]
fn what_is_kept_and_told_is_bounded() {
    let mut scene = Scene::of(200);
    scene.left = 512;
    scene.look(1);
    for tid in scene.threads.clone() {
        scene.touch(tid, (0..100).map(|at| 512 * (100 * u64::from(tid - PID) + at)));
        scene.touch(tid, [3, 4]);
    }
    let users = scene.look(1);
    let told = blocks(users.clone());
    assert_eq!(told.len(), BLOCKS_MAX);
    assert!(told.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(
        (told[0].0, told[0].1.len()),
        (0, 200),
        "those that were touched most often are told"
    );
    let touches: u64 = told.iter().flat_map(|(_, by)| by).map(|(_, times)| times).sum();
    assert!(touches <= TOUCHES_MAX as u64);
    let len = serde_json::to_string(&users).unwrap().len();
    assert!(len < 64 << 10, "{len} bytes in a snapshot");
}

#[test]
fn whether_touches_are_visible_is_the_kernels_setting() {
    assert_eq!(balancing(Some(b"1\n")), Ok(()));
    assert_eq!(balancing(Some(b"3\n")), Ok(()));
    for off in ["0\n", "2\n"] {
        assert_eq!(balancing(Some(off.as_bytes())), Err(Unseen::BalancingOff), "{off}");
    }
    assert_eq!(balancing(Some(b"x")), Err(Unseen::Unsupported));
    assert_eq!(balancing(None), Err(Unseen::Unsupported));
}
