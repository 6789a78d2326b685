//! The state of a machine that a decision is replayed on: a file, or a few options.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use quartier_decide::dqdt::{BLOCK_ORDERS, FreeMemory, Usage};
use quartier_model::{CpuId, CpuList, NodeId};
use quartier_observe::json_complaint;
use serde::Deserialize;

use super::scene::Lookup;
use crate::numbers::number;

/// The version of the file.
const STATE_FORMAT: u32 = 1;

/// More threads than this Linux never has (`PID_MAX_LIMIT`).
pub const THREADS_MAX: u32 = 1 << 22;

/// A state as it is written. What it leaves out is no threads, and unknown U and M.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateFile {
    format: u32,
    #[serde(default)]
    load: Vec<LoadEntry>,
    #[serde(default)]
    memory: Vec<MemoryEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadEntry {
    cpus: CpuList,
    threads: Option<u32>,
    usage_percent: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryEntry {
    nodes: CpuList,
    free_pages: Option<u64>,
    free_blocks: Option<Vec<u32>>,
}

/// Only the version, of a file of any version.
#[derive(Deserialize)]
struct AnyVersion {
    format: u32,
}

impl StateFile {
    /// Reads a file's text.
    pub fn from_json(text: &str) -> anyhow::Result<Self> {
        // Lists would be read too, as the fields in order.
        if !text.trim_start().starts_with('{') {
            bail!("this is no machine state: a state is a JSON object");
        }
        let file = serde_json::from_str::<Self>(text);
        // A later version may say more than this one knows: that it is later is what is wrong.
        let found = match &file {
            Ok(file) => Some(file.format),
            Err(_) => serde_json::from_str::<AnyVersion>(text).ok().map(|any| any.format),
        };
        if let Some(found) = found.filter(|found| *found != STATE_FORMAT) {
            bail!("state format {found} is not {STATE_FORMAT}");
        }
        file.map_err(|error| anyhow!("this is no machine state: {}", json_complaint(&error)))
    }

    /// The same from options.
    pub fn from_options(threads: &[Given<u32>], usage: &[Given<f64>], free: &[Given<u64>]) -> Self {
        let entry =
            |cpus: &CpuList| LoadEntry { cpus: cpus.clone(), threads: None, usage_percent: None };
        let threads = threads
            .iter()
            .map(|given| LoadEntry { threads: Some(given.value), ..entry(&given.ids) });
        let usage = usage
            .iter()
            .map(|given| LoadEntry { usage_percent: Some(given.value), ..entry(&given.ids) });
        let memory = free.iter().map(|given| MemoryEntry {
            nodes: given.ids.clone(),
            free_pages: Some(given.value),
            free_blocks: None,
        });
        Self {
            format: STATE_FORMAT,
            load: threads.chain(usage).collect(),
            memory: memory.collect(),
        }
    }

    /// The state of a machine, if all that it names is there and nothing is said twice.
    pub fn resolve(&self, lookup: &Lookup<'_>) -> anyhow::Result<State> {
        let mut state = State::default();
        for LoadEntry { cpus, threads, usage_percent } in &self.load {
            for os_id in cpus.iter() {
                let cpu = lookup.online_cpu(os_id)?;
                let what = |what| format!("{what} of CPU {os_id}");
                if let Some(threads) = *threads {
                    insert(&mut state.threads, cpu, threads, || what("threads"))?;
                }
                if let Some(percent) = *usage_percent {
                    let usage = usage(percent).ok_or_else(|| {
                        anyhow!("{} is {percent} %: give 0 to 100", what("usage"))
                    })?;
                    insert(&mut state.usage, cpu, usage, || what("usage"))?;
                }
            }
        }
        for entry in &self.memory {
            for os_id in entry.nodes.iter() {
                let memory = entry.free_memory(os_id)?;
                let node = lookup.node(os_id)?;
                if let Some(memory) = memory {
                    let what = || format!("free memory of node {os_id}");
                    insert(&mut state.memory, node, memory, what)?;
                    state.blocks_assumed |= entry.free_blocks.is_none();
                }
            }
        }
        let nr_threads: u64 = state.threads.values().map(|&threads| u64::from(threads)).sum();
        if nr_threads > u64::from(THREADS_MAX) {
            bail!("{nr_threads} threads: Linux has at most {THREADS_MAX}");
        }
        Ok(state)
    }
}

impl MemoryEntry {
    fn free_memory(&self, node: u32) -> anyhow::Result<Option<FreeMemory>> {
        let Some(given) = &self.free_blocks else {
            // Nobody says how they lie; that each is a page is certain.
            return Ok(self.free_pages.map(|pages| {
                let mut blocks = [0; BLOCK_ORDERS];
                blocks[0] = u32::try_from(pages).unwrap_or(u32::MAX);
                FreeMemory { pages, blocks }
            }));
        };
        let mut blocks = [0u32; BLOCK_ORDERS];
        let mut pages_in_blocks = 0u64;
        for (order, &count) in given.iter().enumerate() {
            if order >= u32::BITS as usize {
                bail!(
                    "free_blocks of node {node} has {} orders: no kernel has more than 32",
                    given.len()
                );
            }
            // A larger block counts as as many of the largest order.
            let counted = order.min(BLOCK_ORDERS - 1);
            let parts = u64::from(count) << (order - counted);
            let sum = u64::from(blocks[counted]).saturating_add(parts);
            blocks[counted] = u32::try_from(sum).unwrap_or(u32::MAX);
            pages_in_blocks = pages_in_blocks.saturating_add(u64::from(count) << order);
        }
        let pages = self.free_pages.unwrap_or(pages_in_blocks);
        if pages_in_blocks > pages {
            bail!(
                "node {node} has {pages_in_blocks} pages in free blocks and {pages} free pages: give as many pages, or leave them out"
            );
        }
        Ok(Some(FreeMemory { pages, blocks }))
    }
}

/// A state of one machine.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// T of CPUs that have threads.
    pub threads: BTreeMap<CpuId, u32>,
    /// U where it is known.
    pub usage: BTreeMap<CpuId, Usage>,
    /// M where it is known.
    pub memory: BTreeMap<NodeId, FreeMemory>,
    /// Whether free pages of a node were given without saying how they lie.
    pub blocks_assumed: bool,
}

fn usage(percent: f64) -> Option<Usage> {
    let scaled = percent * f64::from(quartier_decide::dqdt::USAGE_PER_PERCENT);
    (0.0..=100.0).contains(&percent).then(|| Usage::from_scaled(scaled.round() as u32))
}

fn insert<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    what: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if map.insert(key, value).is_some() {
        bail!("the {} are given twice", what());
    }
    Ok(())
}

/// `0-3=2`: a value for each of some ids.
#[derive(Clone, Debug)]
pub struct Given<T> {
    ids: CpuList,
    value: T,
}

/// What may be given for ids.
pub trait Value: Sized {
    /// Reads it; the error says what to give.
    fn read(text: &str) -> Result<Self, String>;
}

/// Threads on each CPU.
impl Value for u32 {
    fn read(text: &str) -> Result<Self, String> {
        number(0..=THREADS_MAX)(text)
    }
}

/// Free pages of each node.
impl Value for u64 {
    fn read(text: &str) -> Result<Self, String> {
        number(0..=Self::MAX)(text)
    }
}

/// Usage of each CPU, in percent. That it is at most 100 is seen to where states from files are, too.
impl Value for f64 {
    fn read(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok();
        let percent = percent.filter(|percent: &Self| percent.is_finite());
        percent.ok_or_else(|| "give 0 to 100, such as 40 or 40%".to_owned())
    }
}

impl<T: Value> FromStr for Given<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ids, value) = text.split_once('=').ok_or("write ID=VALUE, such as 0=2 or 0-3=2")?;
        let ids: CpuList =
            ids.parse().map_err(|error: quartier_model::CpuListError| error.to_string())?;
        if ids.is_empty() {
            return Err("an id is missing before the =".to_owned());
        }
        let value = value.trim();
        let value = T::read(value).map_err(|remedy| format!("{remedy}, not `{value}`"))?;
        Ok(Self { ids, value })
    }
}
