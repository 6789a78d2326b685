//! `quartier tree serve`: the refresher.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use quartier_decide::dqdt::{BLOCK_ORDERS, FreeMemory, Tree};
use quartier_decide::policy::default_free_pages_min;
use quartier_model::{Bytes, CpuId, NodeId, NodeOsId};
use quartier_observe::Host;
use quartier_shared::{Create, SharedTree, system_directory};

use crate::busy::{self, AllTimes};
use crate::say;

/// Dead processes are looked for once in so many ticks.
const SWEEP_TICKS: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  sudo quartier tree serve --threads-mode 666
      One tree for all programs of this machine, while it runs; every user may place threads
  quartier tree serve --directory /dev/shm/batch --period 100ms
      One for those who name it: quartier run --tree /dev/shm/batch -- CMD";

/// Options of `quartier tree serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where the tree is [default: /dev/shm/quartier, the machine's]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// How often U and M are renewed: a number with ms or s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = period)]
    period: Duration,

    /// Who may place threads: permissions of the file `threads`, 600, 660 or 666 [default: 600, or
    /// those of the tree that is there]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    threads_mode: Option<u32>,

    /// Free base pages that a node must have to be first choice for a new program [default: half the
    /// pages of the smallest node, or as the tree that is there]
    #[arg(long, value_name = "PAGES", value_parser = pages)]
    free_pages_min: Option<u64>,

    /// Renew so often, then end [default: until stopped by a signal]
    #[arg(long, value_name = "N", value_parser = ticks)]
    ticks: Option<u64>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let host = Host::live();
        let machine = host.machine()?;
        let directory = self.directory.clone().unwrap_or_else(system_directory);
        let page = Bytes(rustix::param::page_size() as u64);
        let default = || default_free_pages_min(&machine, page);
        let options = Create {
            threads_mode: self.threads_mode.unwrap_or(Create::default().threads_mode),
            free_pages_min: self.free_pages_min.or_else(default),
        };
        let shared = open_or_create(&directory, &Tree::build(&machine), &options)?;
        self.check_options(&shared, &directory)?;
        if !shared.try_become_refresher() {
            bail!(
                "{} is renewed by another process already; stop that one first",
                directory.display()
            );
        }
        let (stop, stopped) = channel();
        let mut signals = signal_hook::iterator::Signals::new([
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
        ])?;
        std::thread::spawn(move || signals.forever().next().map(|_| stop.send(())));
        say::sentence(&format!("{}: renewed every {:?}", directory.display(), self.period));
        let mut collector = Collector::new(&host, page);
        let me = shared.enter();
        for tick in 0.. {
            collector.renew(&shared)?;
            if let Some(me) = me.filter(|_| tick % SWEEP_TICKS == 0) {
                let _ = shared.sweep(me);
            }
            if self.ticks.is_some_and(|ticks| tick + 1 >= ticks) {
                break;
            }
            match stopped.recv_timeout(self.period) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
        }
        if let (Some(me), Some(ledger)) = (me, shared.ledger()) {
            ledger.leave(me);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// A tree that was there already may be another than the one that is asked for.
    fn check_options(&self, shared: &SharedTree, directory: &Path) -> anyhow::Result<()> {
        let directory = directory.display();
        let remedy = format!("leave the option out, or remove {directory} while nobody uses it");
        if let (Some(asked), Some(has)) = (self.threads_mode, shared.threads_mode())
            && asked != has
        {
            bail!("the tree at {directory} has --threads-mode {has:o}, not {asked:o}: {remedy}");
        }
        if self.free_pages_min.is_some() && self.free_pages_min != shared.free_pages_min() {
            let has = shared.free_pages_min().map_or("none".to_owned(), |pages| pages.to_string());
            bail!(
                "the tree at {directory} has --free-pages-min {has}, not what is asked: {remedy}"
            );
        }
        Ok(())
    }
}

/// What is there is kept, with the threads it counts, if it is of this machine as it is.
fn open_or_create(directory: &Path, tree: &Tree, options: &Create) -> anyhow::Result<SharedTree> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            bail!(
                "cannot make {} ({error}): name a directory in a tmpfs where you may write, such as \
                 /dev/shm/NAME",
                directory.display()
            );
        }
        _ => {}
    }
    match SharedTree::open_for(directory, tree) {
        Err(error) if error.may_be_replaced() => Ok(SharedTree::create(directory, tree, options)?),
        opened => Ok(opened?),
    }
}

/// Reads what the kernel says, and keeps what it said last: utilisation is a difference.
struct Collector<'a> {
    host: &'a Host,
    page: Bytes,
    times: AllTimes,
}

impl<'a> Collector<'a> {
    fn new(host: &'a Host, page: Bytes) -> Self {
        Self { host, page, times: AllTimes::new() }
    }

    fn renew(&mut self, shared: &SharedTree) -> anyhow::Result<()> {
        let now = self.host.cpu_times()?;
        let before = std::mem::replace(&mut self.times, now);
        let blocks = self.host.free_blocks()?;
        let tree = shared.tree();
        let usage = |cpu: CpuId| busy::usage(&before, &self.times, tree.cpu_os_id(cpu));
        let free = |node: NodeId| {
            let os_id = tree.node_os_id(node);
            self.free_memory(os_id, blocks.get(&os_id))
        };
        let refresher = shared.refresher().context("the tree may not be written")?;
        refresher.tick(usage, free);
        shared.set_refreshed_now();
        Ok(())
    }

    fn free_memory(&self, node: NodeOsId, blocks: Option<&Vec<u64>>) -> Option<FreeMemory> {
        let free = self.host.free_memory(node).ok()??;
        let mut memory = FreeMemory { pages: free.0 / self.page.0, ..FreeMemory::default() };
        for (order, &count) in blocks.into_iter().flatten().enumerate() {
            // A block of 2¹⁰ pages is two of 2⁹.
            let at = order.min(BLOCK_ORDERS - 1);
            let count = count.saturating_mul(1 << (order - at).min(32));
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            memory.blocks[at] = memory.blocks[at].saturating_add(count);
        }
        Some(memory)
    }
}

fn period(text: &str) -> Result<Duration, String> {
    let refused = || format!("`{text}` is not a period: give 1ms to 60s, such as 250ms");
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => return Err(refused()),
    };
    let number: u64 = number.trim().parse().map_err(|_| refused())?;
    let millis = number.checked_mul(unit_ms).filter(|millis| (1..=60_000).contains(millis));
    millis.map(Duration::from_millis).ok_or_else(refused)
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| [0o600, 0o660, 0o666].contains(mode)).ok_or_else(|| {
        format!("`{text}` is not 600 (the owner), 660 (a group too) or 666 (everybody)")
    })
}

fn pages(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number of pages, such as 65536"))
}

fn ticks(text: &str) -> Result<u64, String> {
    let ticks = text.parse().ok().filter(|&ticks| ticks > 0);
    ticks.ok_or_else(|| format!("`{text}` is not a number of times, 1 or more"))
}
