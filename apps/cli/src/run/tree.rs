//! Which decision tree a run decides by, and where its program starts.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::str::FromStr;

use quartier_act::{Start, TreeFiles};
use quartier_decide::dqdt::{Allowed, Process, RecordId, Tree};
use quartier_decide::policy::Exec;
use quartier_model::{CpuList, Machine};
use quartier_session::{CpuBits, FirstThread, Pin};
use quartier_shared::{SharedError, SharedTree, UserTree, directory_of_user, system_directory};

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

impl FromStr for TreeOption {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "own" => Self::Own,
            directory => Self::In(directory.into()),
        })
    }
}

/// The decision tree of a run, in which the launcher is entered.
#[derive(Debug)]
pub struct RunTree {
    opened: Opened,
    /// The launcher in the ledger. `None`: it cannot count.
    me: Option<Process>,
}

#[derive(Debug)]
enum Opened {
    Users(UserTree),
    Other(SharedTree),
}

impl RunTree {
    /// Opens the tree; whatever is wrong with a shared one is told to `say`, and the run has its own.
    pub fn open(
        option: &TreeOption,
        machine: &Machine,
        say: impl Fn(&str),
    ) -> Result<Self, SharedError> {
        let tree = Tree::build(machine);
        let opened = match find(option, &tree) {
            Ok(Some(opened)) => opened,
            Ok(None) => Opened::Other(SharedTree::private(&tree)?),
            Err(error) => {
                say(&format!("threads of other runs are not seen: {error}"));
                Opened::Other(SharedTree::private(&tree)?)
            }
        };
        let mut run_tree = Self { opened, me: None };
        run_tree.me = run_tree.shared().enter();
        run_tree.sweep();
        Ok(run_tree)
    }

    fn shared(&self) -> &SharedTree {
        match &self.opened {
            Opened::Users(users) => users.shared(),
            Opened::Other(shared) => shared,
        }
    }

    /// For the processes of the run.
    pub fn files(&self) -> TreeFiles<'_> {
        let (tree, threads) = self.shared().files();
        TreeFiles { tree: tree.as_fd(), threads: threads.as_fd() }
    }

    /// Chooses where a program starts (thesis 4.3.3, item 3) and counts its first thread there.
    pub fn place_program(&self, machine: &Machine, cpus: &CpuList, pin: Pin) -> Option<Start> {
        let shared = self.shared();
        let (me, ledger) = (self.me?, shared.ledger()?);
        let allowed = Allowed::from_os_ids(shared.tree(), cpus);
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).ok()?;
        let request = Exec {
            allowed: &allowed,
            free_pages_min: shared.free_pages_min(),
            seed: u64::from_ne_bytes(seed),
        };
        let placed = ledger.place(me, &request)?;
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
        let first_thread = FirstThread { process: me.to_word() as u32, record };
        Some(Start { cpus: start, first_thread: first_thread.pack() })
    }

    /// Takes off what processes left that were killed.
    fn sweep(&self) {
        if let Some(me) = self.me {
            let _ = self.shared().sweep(me);
        }
    }
}

impl Drop for RunTree {
    fn drop(&mut self) {
        self.sweep();
        if let (Some(me), Some(ledger)) = (self.me, self.shared().ledger()) {
            ledger.leave(me);
        }
    }
}

/// `None`: there is to be one of this run alone.
fn find(option: &TreeOption, tree: &Tree) -> Result<Option<Opened>, SharedError> {
    match option {
        TreeOption::Own => Ok(None),
        TreeOption::In(directory) => {
            let shared = SharedTree::open(directory)?;
            shared.check_is_of(tree, directory)?;
            Ok(Some(Opened::Other(shared)))
        }
        TreeOption::Auto => {
            let directory = system_directory();
            let machines = SharedTree::open(&directory);
            if let Some(shared) = machines.ok().filter(|shared| {
                shared.ledger().is_some() && shared.check_is_of(tree, &directory).is_ok()
            }) {
                return Ok(Some(Opened::Other(shared)));
            }
            UserTree::join(&directory_of_user(), tree).map(|users| Some(Opened::Users(users)))
        }
    }
}
