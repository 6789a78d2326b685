//! The copies in the decision tree that programs share (`docs/tree.md`): their active threads are counted in T, so that programs under
//! `quartier run` go where CPUs are free of them too; and T and U of their CPUs tell the loop where there is room.

use std::time::{Duration, Instant};

use quartier_decide::dqdt::{Allowed, RecordId, Tree};
use quartier_decide::policy::Thread;
use quartier_decide::steer::Freshness;
use quartier_model::{CpuId, CpuOsId, Machine};
use quartier_shared::{Found, Member};

use super::active::Active;
use super::looks::part;
use super::places::Places;
use super::status::TreeStatus;
use super::trees::{Directories, is_quartierd_in};

/// It is looked this often whether there is a tree, and still the one that others use, and for threads of programs that were killed.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// And for a quartierd, among all processes, once in so many looks.
const QUARTIERD_LOOKS: u64 = 6;

/// Where the threads of a copy are counted.
#[derive(Debug)]
struct Place {
    home: usize,
    /// The CPUs that it may use.
    cpus: Vec<CpuId>,
    allowed: Allowed,
    /// More than its part of the CPUs it cannot use, however many threads wait for them: so many are counted at most.
    nr_max: usize,
    nr_wanted: usize,
    records: Vec<RecordId>,
    /// Threads of it that quartierd counts.
    nr_of_quartierd: usize,
}

/// What the tree says of the CPUs that a copy may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// T.
    pub threads: u32,
    /// Of these, its own.
    pub nr_counted: usize,
    /// U as it was renewed last, from 0 to 1; `None`: unknown.
    pub usage: Option<f64>,
    /// Threads of others for each CPU.
    pub others: f64,
}

/// All copies.
#[derive(Debug)]
pub struct Counted {
    directories: Directories,
    tree: Tree,
    member: Option<Member>,
    places: Vec<Place>,
    next_look: Option<Instant>,
    why_not: Option<String>,
    /// What there was to say last, and what is not said yet; nothing of a tree that is there from the start.
    said: Option<String>,
    unsaid: Option<String>,
    nr_looks: u64,
    does_quartierd_count: bool,
    freshness: Freshness,
    takes_usage: bool,
}

impl Counted {
    /// In no tree yet.
    pub fn new(directories: Directories, machine: &Machine, places: &Places) -> Self {
        let tree = Tree::build(machine);
        let place = |copy: usize| {
            let home = places.homes[copy];
            let cpus = &places.domains[home].allowed;
            Place {
                home,
                cpus: cpus.iter().filter_map(|cpu| tree.cpu_by_os_id(CpuOsId(cpu))).collect(),
                allowed: Allowed::from_os_ids(&tree, cpus),
                nr_max: places.nr_cpus_of(copy),
                nr_wanted: 0,
                records: Vec::new(),
                nr_of_quartierd: 0,
            }
        };
        let places = (0..places.homes.len()).map(place).collect();
        Self {
            directories,
            tree,
            member: None,
            places,
            next_look: None,
            why_not: None,
            said: None,
            unsaid: None,
            nr_looks: 0,
            does_quartierd_count: false,
            freshness: Freshness::default(),
            takes_usage: false,
        }
    }

    /// Sees to it that this is in the tree that others use, if it is time to look.
    pub fn keep(&mut self) {
        let now = Instant::now();
        if self.next_look.is_some_and(|next| now < next) {
            return;
        }
        let is_first = self.next_look.replace(now + LOOK_EVERY).is_none();
        let is_still = |member: &Member| self.directories.is_still(member.found(), &self.tree);
        if self.member.as_ref().is_some_and(|member| !is_still(member)) {
            self.leave();
        }
        match &self.member {
            Some(member) => member.sweep(),
            None => self.join(is_first),
        }
        if self.nr_looks.is_multiple_of(QUARTIERD_LOOKS) {
            let found = self.member.as_ref().map(Member::found);
            let is_machines = matches!(found, Some(Found::Shared(_)));
            self.does_quartierd_count = is_machines && is_quartierd_in(&self.directories.machines);
        }
        self.nr_looks += 1;
    }

    fn join(&mut self, is_first: bool) {
        let sentence = match self.directories.join(&self.tree) {
            Ok(member) => {
                let directory = self.directories.of(member.found()).display();
                let sentence =
                    format!("the copies' threads are counted in the decision tree {directory}");
                (self.member, self.why_not) = (Some(member), None);
                (0..self.places.len()).for_each(|copy| self.settle(copy));
                sentence
            }
            Err(error) => {
                let sentence = format!(
                    "the copies are in no decision tree, so runs begin where they are busy too, and connections go by what is looked \
                     at: {error:#}"
                );
                self.why_not = Some(sentence.clone());
                sentence
            }
        };
        let is_usual = is_first && self.member.is_some();
        if !is_usual && self.said.as_ref() != Some(&sentence) {
            self.unsaid = Some(sentence.clone());
        }
        self.said = Some(sentence);
    }

    /// A sentence, if there is something new to say, once.
    pub fn unsaid(&mut self) -> Option<String> {
        self.unsaid.take()
    }

    /// Takes all off.
    fn leave(&mut self) {
        self.member = None;
        self.places.iter_mut().for_each(|place| place.records.clear());
        (self.freshness, self.takes_usage) = (Freshness::default(), false);
        (self.nr_looks, self.does_quartierd_count) = (0, false);
    }

    /// Counts as many threads of a copy as it keeps active.
    pub fn count(&mut self, copy: usize, active: Active) {
        let place = &mut self.places[copy];
        let nr_active = active.threads.round() as usize;
        place.nr_of_quartierd = if self.does_quartierd_count { active.nr_by_themselves } else { 0 };
        place.nr_wanted = nr_active.min(place.nr_max).saturating_sub(place.nr_of_quartierd);
        self.settle(copy);
    }

    /// Takes threads off that are too many, and has the tree choose CPUs for those that are missing.
    fn settle(&mut self, copy: usize) {
        let Some(member) = &self.member else { return };
        let (Some(ledger), Some(me)) = (member.shared().ledger(), member.process()) else { return };
        let place = &mut self.places[copy];
        for record in place.records.drain(place.nr_wanted.min(place.records.len())..) {
            ledger.release(me, record);
        }
        while place.records.len() < place.nr_wanted {
            let request = Thread::new(place.cpus.first().copied(), &place.allowed);
            let placed = ledger.place(me, &request).and_then(|placed| placed.record);
            // A full ledger: those beyond are not counted.
            let Some(record) = placed else { break };
            place.records.push(record);
        }
    }

    /// Finds out whether U may be steered by, `seconds` after the last time.
    pub fn look(&mut self, seconds: f64) {
        let age = self.member.as_ref().and_then(|member| member.shared().age());
        self.takes_usage = self.freshness.look(seconds, age.map(|age| age.as_secs_f64()));
    }

    /// Whether U is renewed in time.
    pub fn takes_usage(&self) -> bool {
        self.takes_usage
    }

    /// What the tree says of a copy's CPUs now; `None`: there is no tree, or it does not know them.
    pub fn told(&self, copy: usize) -> Option<Told> {
        let member = self.member.as_ref()?;
        let place = &self.places[copy];
        if place.cpus.is_empty() {
            return None;
        }
        let estimates = member.shared().estimates();
        let threads = place.cpus.iter().map(|cpu| estimates.nr_threads_on(*cpu));
        let threads = threads.fold(0, u32::saturating_add);
        let here = self.places.iter().filter(|other| other.home == place.home);
        let ours: usize = here.map(|other| other.records.len() + other.nr_of_quartierd).sum();
        let usage: Option<f64> =
            place.cpus.iter().map(|cpu| estimates.usage_on(*cpu).map(part)).sum();
        let nr_cpus = place.cpus.len() as f64;
        Some(Told {
            threads,
            nr_counted: place.records.len(),
            usage: usage.map(|usage| usage / nr_cpus),
            others: f64::from(threads.saturating_sub(ours as u32)) / nr_cpus,
        })
    }

    /// For the status.
    pub fn status(&self) -> TreeStatus {
        let member = self.member.as_ref();
        let directory = |member: &Member| self.directories.of(member.found()).display().to_string();
        let age = member.and_then(|member| member.shared().age());
        TreeStatus {
            directory: member.map(directory),
            why_not: self.why_not.clone(),
            usage_age_ms: age.map(|age| age.as_millis() as u64),
            takes_usage: self.takes_usage,
            beside_quartierd: self.does_quartierd_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::DirBuilderExt;
    use std::path::Path;

    use quartier_decide::dqdt::Usage;
    use quartier_model::{NodeId, SyntheticSpec};
    use quartier_shared::{Create, SharedTree};

    use super::*;
    use crate::serve::places::Per;

    /// A machine of four nodes with two CPUs, where the machine's tree and the user's would be, and copies there.
    struct World {
        directories: Directories,
        machine: Machine,
        counted: Counted,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new(nr_copies: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let [machines, users] = ["machines", "users"].map(|name| folder.path().join(name));
            let directories = Directories { machines, users };
            let machine = SyntheticSpec::uniform(4, 2).machine().unwrap();
            let all = "0-7".parse().unwrap();
            let places = Places::new(&machine, &all, Per::Node, Some(nr_copies)).unwrap();
            let counted = Counted::new(directories.clone(), &machine, &places);
            Self { directories, machine, counted, _folder: folder }
        }

        /// As `quartier tree serve` makes it.
        fn make(&self, threads_mode: u32) -> SharedTree {
            let _ = fs::DirBuilder::new().mode(0o700).create(&self.directories.machines);
            let options = Create { threads_mode, ..Create::default() };
            let tree = Tree::build(&self.machine);
            SharedTree::create(&self.directories.machines, &tree, &options).unwrap()
        }

        fn keep(&mut self) -> Option<String> {
            self.counted.next_look = self.counted.next_look.map(|_| Instant::now());
            self.counted.keep();
            self.counted.unsaid()
        }

        fn count(&mut self, copy: usize, threads: f64) {
            self.counted.count(copy, Active { threads, nr_by_themselves: 0 });
        }

        fn told(&self, copy: usize) -> Told {
            self.counted.told(copy).unwrap()
        }
    }

    /// T of each node, as others see it; `None`: there is no tree.
    fn on_nodes(directory: &Path) -> Option<Vec<u32>> {
        let shared = SharedTree::open(directory).ok()?;
        let (tree, estimates) = (shared.tree(), shared.estimates());
        let node = |node| estimates.nr_threads(tree.cluster_of_node(NodeId(node)));
        Some((0..4).map(node).collect())
    }

    #[test]
    fn as_many_are_counted_as_are_active_and_none_of_them_is_left() {
        let mut world = World::new(4);
        let machines = world.make(0o600);
        assert_eq!(world.keep(), None, "that there is a tree goes without saying");
        let directory = world.directories.machines.clone();
        let on_nodes = || on_nodes(&directory).unwrap();
        world.count(0, 1.6);
        world.count(1, 0.4);
        assert_eq!(on_nodes(), [2, 0, 0, 0]);
        // Two hundred that wait for two CPUs use no more than two.
        world.count(2, 200.0);
        world.count(1, 0.6);
        assert_eq!(on_nodes(), [2, 1, 2, 0]);
        let of_cpus: Vec<_> =
            (0..8).map(|cpu| machines.estimates().nr_threads_on(CpuId(cpu))).collect();
        assert!(
            of_cpus.iter().all(|threads| *threads <= 1),
            "each on a CPU of its own: {of_cpus:?}"
        );
        world.count(0, 1.0);
        world.count(2, 0.0);
        assert_eq!(on_nodes(), [1, 1, 0, 0]);
        assert!(machines.estimates().add_thread(CpuId(1)));
        let told = world.told(0);
        assert_eq!((told.threads, told.nr_counted, told.others), (2, 1, 0.5));
        assert_eq!((world.told(3).threads, world.told(3).others), (0, 0.0));
        drop(world.counted);
        assert_eq!(on_nodes(), [1, 0, 0, 0], "but for the other's");
    }

    #[test]
    fn copies_of_a_node_are_no_others_to_each_other() {
        let mut world = World::new(8);
        let machines = world.make(0o600);
        world.keep();
        // Each has one CPU's part.
        world.count(0, 2.0);
        world.count(4, 2.0);
        let told = [world.told(0), world.told(4)];
        for told in told {
            assert_eq!((told.threads, told.nr_counted, told.others), (2, 1, 0.0));
        }
        assert!(machines.estimates().add_thread(CpuId(0)));
        assert_eq!([world.told(0).others, world.told(4).others], [0.5; 2]);
    }

    #[test]
    fn the_tree_that_runs_take_is_taken_when_it_comes_and_when_it_is_made_anew() {
        let mut world = World::new(4);
        let Directories { machines, users } = world.directories.clone();
        assert_eq!(world.keep(), None, "the user's own does as well");
        world.count(3, 1.0);
        assert_eq!(on_nodes(&users), Some(vec![0, 0, 0, 1]));
        for _ in 0..2 {
            world.make(0o600);
            let said = world.keep();
            assert_eq!(on_nodes(&machines), Some(vec![0, 0, 0, 1]), "{said:?}");
            assert!(!users.exists(), "nobody uses it any more");
        }
        // It is the same folder, and so the same sentence.
        assert_eq!(world.keep(), None);
        fs::remove_dir_all(&machines).unwrap();
        assert!(world.keep().unwrap().ends_with("users"));
        assert_eq!(on_nodes(&users), Some(vec![0, 0, 0, 1]));
    }

    #[test]
    fn a_tree_that_everybody_may_cut_off_is_left_alone_and_that_is_said_once() {
        let mut world = World::new(4);
        world.make(0o666);
        let said = world.keep().unwrap();
        assert!(
            said.contains("in no decision tree") && said.contains("--threads-mode 660"),
            "{said}"
        );
        world.count(0, 1.0);
        assert_eq!(world.keep(), None);
        assert_eq!(world.counted.told(0), None, "what nobody says is not zero");
        assert_eq!(world.counted.status().why_not, Some(said));
        assert_eq!(on_nodes(&world.directories.machines), Some(vec![0; 4]));
        // Made anew, it is used.
        world.make(0o660);
        assert!(world.keep().unwrap().contains("are counted in the decision tree"));
        assert_eq!(on_nodes(&world.directories.machines), Some(vec![1, 0, 0, 0]));
        assert_eq!(world.counted.status().why_not, None);
    }

    #[test]
    fn usage_is_told_with_whether_it_is_renewed() {
        let mut world = World::new(4);
        let machines = world.make(0o600);
        world.keep();
        let look = |world: &mut World, renews: bool| {
            if renews {
                machines.set_refreshed_now();
            }
            world.counted.look(1.0);
            world.counted.takes_usage()
        };
        assert!(!look(&mut world, false) && !look(&mut world, false), "it never was");
        assert_eq!(world.told(1).usage, None);
        let busy = |cpu: CpuId| Some(if cpu == CpuId(2) { Usage::FULL } else { Usage::IDLE });
        machines.refresher().unwrap().tick(busy, |_| None);
        let seen: Vec<_> = (0..5).map(|_| look(&mut world, true)).collect();
        assert!(!seen[0] && seen.contains(&true), "{seen:?}");
        assert_eq!([world.told(0).usage, world.told(1).usage], [Some(0.0), Some(0.5)]);
        // One CPU of which nobody knows makes the whole unknown.
        machines.refresher().unwrap().tick(|cpu| busy(cpu).filter(|_| cpu != CpuId(3)), |_| None);
        assert_eq!([world.told(0).usage, world.told(1).usage], [Some(0.0), None]);
    }

    #[test]
    fn what_quartierd_counts_is_left_to_it() {
        let mut world = World::new(4);
        let machines = world.make(0o600);
        world.keep();
        world.counted.does_quartierd_count = true;
        world.counted.count(1, Active { threads: 1.8, nr_by_themselves: 1 });
        assert!(machines.estimates().add_thread(CpuId(2)), "its");
        let told = world.told(1);
        assert_eq!((told.threads, told.nr_counted, told.others), (2, 1, 0.0));
    }
}
