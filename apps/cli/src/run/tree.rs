//! Which decision tree a run decides by, and where its program starts.

use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use quartier_act::{Start, TreeFiles};
use quartier_decide::dqdt::{Allowed, RecordId, Tree};
use quartier_decide::policy::Exec;
use quartier_model::{CpuList, Machine};
use quartier_session::{CpuBits, FirstThread, Pin};
use quartier_shared::{Found, Member, SharedError, SharedTree};

/// Whose decision tree is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeOption {
    /// The machine's, if there is one to place threads by, else the user's.
    Auto,
    /// One of this run alone.
    Own,
    /// The one in this directory.
    In(PathBuf),
}

impl TreeOption {
    /// Reads any path but the empty one, which is refused as it is everywhere.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        PathBufValueParser::new().map(|path| match path.to_str() {
            Some("auto") => Self::Auto,
            Some("own") => Self::Own,
            _ => Self::In(path),
        })
    }
}

/// The decision tree of a run, in which the launcher is entered.
#[derive(Debug)]
pub struct RunTree {
    launcher: Member,
}

impl RunTree {
    /// Opens the tree; whatever is wrong with a shared one is told to `say`, and the run has its own.
    pub fn open(
        option: &TreeOption,
        machine: &Machine,
        say: impl Fn(&str),
    ) -> Result<Self, SharedError> {
        let tree = Tree::build(machine);
        let found = find(option, &tree).or_else(|error| {
            say(&format!("threads of other runs are not seen: {error}"));
            SharedTree::private(&tree).map(Found::Private)
        })?;
        let launcher = Member::enter(found);
        launcher.sweep();
        Ok(Self { launcher })
    }

    /// The launcher in it.
    pub fn member(&self) -> &Member {
        &self.launcher
    }

    /// For the processes of the run.
    pub fn files(&self) -> TreeFiles<'_> {
        let (tree, threads) = self.launcher.shared().files();
        TreeFiles { tree: tree.as_fd(), threads: threads.as_fd() }
    }

    /// Chooses where a program starts (thesis 4.3.3, item 3) and counts its first thread there.
    pub fn place_program(&self, machine: &Machine, cpus: &CpuList, pin: Pin) -> Option<Start> {
        let shared = self.launcher.shared();
        let launcher = self.launcher.process()?;
        let allowed = Allowed::from_os_ids(shared.tree(), cpus);
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).ok()?;
        let request = Exec {
            allowed: &allowed,
            free_pages_min: shared.free_pages_min(),
            seed: u64::from_ne_bytes(seed),
        };
        let placed = shared.place(Some(launcher), &request)?;
        let RecordId(record) = placed.record?;
        let cpu = shared.tree().cpu_os_id(placed.decision.cpu).0;
        let of_node = || {
            let node: CpuBits = machine.node_cpu_list(placed.decision.node?).iter().collect();
            Some(node.intersection(&cpus.iter().collect()))
        };
        let start = match pin {
            Pin::Cpu => [cpu].into_iter().collect(),
            Pin::Node | Pin::None => of_node().unwrap_or([cpu].into_iter().collect()),
        };
        let first_thread = FirstThread { process: launcher.to_word() as u32, record };
        Some(Start { cpus: start, first_thread: first_thread.pack() })
    }
}

impl Drop for RunTree {
    fn drop(&mut self) {
        self.launcher.sweep();
    }
}

fn find(option: &TreeOption, tree: &Tree) -> Result<Found, SharedError> {
    match option {
        TreeOption::Own => SharedTree::private(tree).map(Found::Private),
        TreeOption::In(directory) => SharedTree::open_for(directory, tree).map(Found::Shared),
        TreeOption::Auto => Found::for_user(tree),
    }
}
