//! Caches and TLBs: what was looked up, what was there, and what served the rest.

use quartier_memmodel::{Counts, Snapshot, Totals};
use serde::{Deserialize, Serialize};

use super::sum;
use crate::numbers::share;

/// A cache or TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelName {
    /// First-level instruction TLB.
    InstructionTlb,
    /// First-level data TLB.
    DataTlb,
    /// Second-level TLB.
    SecondTlb,
    /// First-level instruction cache.
    L1Instruction,
    /// First-level data cache.
    L1Data,
    /// Second-level cache.
    L2,
    /// The level that CPUs share.
    LastLevel,
}

/// What was looked up in a cache or TLB, by lines or translations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Which.
    pub name: LevelName,
    /// Look-ups.
    pub lookups: u64,
    /// Of them, those that found it.
    pub hits: u64,
    /// Hits of look-ups, percent; absent without look-ups.
    pub hit_percent: Option<f64>,
}

/// What served requests that left the private caches, and what walks there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// A last level.
    pub last_level: u64,
    /// Another CPU of the same last level.
    pub peer: u64,
    /// A cache elsewhere that had written the line.
    pub owner: u64,
    /// Memory.
    pub memory: u64,
    /// Walks of the page tables, for data and instructions.
    pub walks: u64,
    /// Table entries that they read.
    pub table_reads: u64,
    /// Accesses of device memory; never commands.
    pub devices: u64,
}

impl LevelName {
    /// In a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InstructionTlb => "instruction TLB",
            Self::DataTlb => "data TLB",
            Self::SecondTlb => "second-level TLB",
            Self::L1Instruction => "L1 instruction",
            Self::L1Data => "L1 data",
            Self::L2 => "L2",
            Self::LastLevel => "last level",
        }
    }
}

impl Level {
    fn new(name: LevelName, lookups: u64, misses: u64) -> Self {
        let hits = lookups.saturating_sub(misses);
        Self { name, lookups, hits, hit_percent: share(hits, lookups) }
    }
}

impl Service {
    pub(super) fn of(counts: &Counts) -> Self {
        let of = |field: fn(&Totals) -> u64| sum(counts.cpus.iter().map(|cpu| field(&cpu.totals)));
        Self {
            last_level: of(|totals| totals.last_level_hits),
            peer: of(|totals| totals.peer_hits),
            owner: of(|totals| totals.owner_hits),
            memory: of(|totals| totals.memory_reads),
            walks: of(|totals| totals.itlb_walks).saturating_add(of(|totals| totals.dtlb_walks)),
            table_reads: of(|totals| totals.table_reads),
            devices: of(|totals| totals.device_accesses),
        }
    }

    /// Requests that a last level was asked for or passed by.
    #[must_use]
    pub fn requests(&self) -> u64 {
        sum([self.last_level, self.peer, self.owner, self.memory].into_iter())
    }
}

/// The program's levels, from the CPU outwards.
pub(super) fn of(counted: &Snapshot) -> Vec<Level> {
    let counts = &counted.program;
    let of = |field: fn(&Totals) -> u64| sum(counts.cpus.iter().map(|cpu| field(&cpu.totals)));
    let fetches = of(|totals| totals.fetches);
    let accesses = of(|totals| totals.data_accesses);
    let itlb_misses = of(|totals| totals.itlb_misses);
    let dtlb_misses = of(|totals| totals.dtlb_misses);
    let write_misses = of(|totals| totals.l1d_write_misses);
    let data_misses = of(|totals| totals.l1d_read_misses).saturating_add(write_misses);
    let cached = accesses.saturating_sub(of(|totals| totals.device_accesses));
    let second = || {
        let lookups = itlb_misses.saturating_add(dtlb_misses);
        let hits = of(|totals| totals.second_tlb_hits);
        Level::new(LevelName::SecondTlb, lookups, lookups.saturating_sub(hits))
    };
    let service = Service::of(counts);
    let l2 = || {
        let hits = of(|totals| totals.l2_hits);
        Level::new(LevelName::L2, hits.saturating_add(service.requests()), service.requests())
    };
    let beyond = service.requests().saturating_sub(service.last_level);
    [
        Some(Level::new(LevelName::InstructionTlb, fetches, itlb_misses)),
        Some(Level::new(LevelName::DataTlb, accesses, dtlb_misses)),
        counted.geometry.second_tlb.map(|_| second()),
        Some(Level::new(LevelName::L1Instruction, fetches, of(|totals| totals.l1i_misses))),
        Some(Level::new(LevelName::L1Data, cached, data_misses)),
        counted.geometry.l2.map(|_| l2()),
        Some(Level::new(LevelName::LastLevel, service.requests(), beyond)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
