//! What a machine cannot be.

use thiserror::Error;

use super::{Cost, Fill, Geometry, Side, TlbEntries, Topology, WalksEnter, WritePolicy};

/// Nodes of the largest machine.
pub const NODES_MAX: usize = 1024;
/// CPUs of the largest machine.
pub const CPUS_MAX: usize = 4096;

/// Ways per set; replacement order is kept in four bits per way.
const WAYS_MAX: u32 = 16;
/// Ways of a TLB, which may be fully associative.
const TLB_WAYS_MAX: u32 = 4096;
const TLB_ENTRIES_MAX: u32 = 1 << 16;
/// A private cache above this is a slip of units.
const PRIVATE_BYTES_MAX: u64 = 1 << 26;
const LAST_LEVEL_BYTES_MAX: u64 = 1 << 32;
const CYCLES_MAX: u32 = 1_000_000;
/// Every pair has a link in a matrix.
const MATRIX_NODES_MAX: usize = 64;
const HOPS_MAX: u16 = 1000;

/// Why a geometry was refused.
#[derive(Debug, Error)]
pub enum GeometryError {
    /// The file is no text.
    #[error("the geometry is no UTF-8 text: give a TOML file")]
    NoText,
    /// The file is no TOML, or has the wrong fields.
    #[error("the geometry cannot be read: {}; the presets show every field", .0.message())]
    Format(Box<toml::de::Error>),
    /// No machine is like that: what, why, and what to do.
    #[error("{0}")]
    Impossible(String),
}

type Checked = Result<(), GeometryError>;

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(GeometryError::Impossible(otherwise())) }
}

impl Geometry {
    /// Refuses what no machine can be.
    ///
    /// # Errors
    /// One sentence for the first thing found: what, why, and what to do.
    pub fn check(&self) -> Checked {
        require(
            self.line_bytes.is_power_of_two() && (16..=1024).contains(&self.line_bytes),
            || {
                format!(
                    "line_bytes is {}, but lines are addressed by bits and lie within pages: use a \
                     power of two from 16 to 1024",
                    self.line_bytes
                )
            },
        )?;
        require((1..=self.line_bytes).contains(&self.word_bytes), || {
            format!(
                "word_bytes is {}, but a word is part of a line of {}: use 4, as the thesis",
                self.word_bytes, self.line_bytes
            )
        })?;
        self.check_private("l1i", self.l1i.bytes, self.l1i.ways)?;
        self.check_private("l1d", self.l1d.bytes, self.l1d.ways)?;
        if let Some(l2) = self.l2 {
            self.check_private("l2", l2.bytes, l2.ways)?;
            self.check_l2_includes(l2.bytes, l2.ways)?;
        }
        self.check_last_level()?;
        self.check_tlbs()?;
        self.check_combination()?;
        self.topology.check()?;
        self.cost.check()
    }

    fn check_private(&self, name: &str, bytes: u64, ways: u32) -> Checked {
        self.check_cache(name, bytes, ways, PRIVATE_BYTES_MAX)?;
        let nr_sets = self.sets(bytes, ways);
        require(nr_sets.is_power_of_two(), || {
            format!(
                "{name} would have {nr_sets} sets, but a set is chosen by address bits: choose bytes \
                 and ways so that the number of sets is a power of two"
            )
        })
    }

    fn check_cache(&self, name: &str, bytes: u64, ways: u32, bytes_max: u64) -> Checked {
        require((1..=WAYS_MAX).contains(&ways), || {
            format!(
                "{name} has {ways} ways, but a set's order of use is kept for 1 to {WAYS_MAX}: use \
                 {WAYS_MAX} where the machine has more"
            )
        })?;
        let way_bytes = u64::from(ways) * u64::from(self.line_bytes);
        require(bytes > 0 && bytes.is_multiple_of(way_bytes), || {
            format!(
                "{name} has {bytes} bytes, which {ways} ways of {}-byte lines do not divide: use a \
                 multiple of {way_bytes}",
                self.line_bytes
            )
        })?;
        require(bytes <= bytes_max, || {
            format!(
                "{name} has {bytes} bytes, above the {bytes_max} that are modelled: check the unit"
            )
        })
    }

    /// An L2 that includes both first levels has room for their sets.
    fn check_l2_includes(&self, bytes: u64, ways: u32) -> Checked {
        let first = self.l1i.bytes + self.l1d.bytes;
        require(bytes >= first, || {
            format!(
                "l2 has {bytes} bytes, but it includes both first levels, which have {first}: make it \
                 larger, or leave it out"
            )
        })?;
        // A set of L2 that maps to one L1 set must hold all ways of it, or L1 could never be full.
        let nr_sets = self.sets(bytes, ways);
        let l1_sets = self.sets(self.l1d.bytes, self.l1d.ways);
        require(nr_sets * ways as usize >= l1_sets && nr_sets >= l1_sets, || {
            format!(
                "l2 has {nr_sets} sets, fewer than the {l1_sets} of l1d that it includes: give it fewer \
                 ways or more bytes"
            )
        })
    }

    fn check_last_level(&self) -> Checked {
        let last = &self.last_level;
        self.check_cache("last_level", last.bytes, last.ways, LAST_LEVEL_BYTES_MAX)?;
        require(last.cpus != Some(0), || {
            "last_level.cpus is 0, but a last level serves at least one CPU: give a number, or leave it \
             out for one per node"
                .to_owned()
        })?;
        require(last.side == Side::Requester || last.cpus.is_none(), || {
            "last_level.cpus is given, but a last level on the home side belongs to the memory of a \
             node: leave it out, or use side = \"requester\""
                .to_owned()
        })?;
        require(last.side == Side::Requester || last.fill != Fill::Victim, || {
            "last_level.fill is victim, but a last level on the home side is filled from its memory: \
             use inclusive, or side = \"requester\""
                .to_owned()
        })
    }

    fn check_tlbs(&self) -> Checked {
        for (name, tlb) in [("itlb", &self.itlb), ("dtlb", &self.dtlb)] {
            check_tlb(name, TlbEntries { entries: tlb.entries, ways: tlb.ways })?;
            if let Some(huge) = tlb.huge {
                check_tlb(&format!("{name}.huge"), huge)?;
            }
        }
        self.second_tlb.map_or(Ok(()), |entries| check_tlb("second_tlb", entries))
    }

    fn check_combination(&self) -> Checked {
        let through = self.l1d.write == WritePolicy::Through;
        require(!through || self.last_level.side == Side::Home, || {
            "l1d.write is through and the last level on the requester side, a machine whose every store \
             would be a command within its own node: use write = \"back\", or side = \"home\""
                .to_owned()
        })?;
        require(!through || self.l2.is_none(), || {
            "l1d.write is through and there is an l2, which would keep the stores that are to be \
             counted: use write = \"back\", or leave l2 out"
                .to_owned()
        })?;
        require(self.walks_enter != WalksEnter::L2 || self.l2.is_some(), || {
            "walks_enter is l2, but there is no l2: use l1d or last-level".to_owned()
        })
    }
}

fn check_tlb(name: &str, TlbEntries { entries, ways }: TlbEntries) -> Checked {
    require((1..=TLB_ENTRIES_MAX).contains(&entries), || {
        format!("{name} has {entries} entries, but 1 to {TLB_ENTRIES_MAX} can be: correct it")
    })?;
    require((1..=TLB_WAYS_MAX).contains(&ways) && entries.is_multiple_of(ways), || {
        format!("{name} has {entries} entries, which {ways} ways do not divide: use a divisor")
    })?;
    require((entries / ways).is_power_of_two(), || {
        format!(
            "{name} would have {} sets, but a set is chosen by address bits: choose entries and ways so \
             that the number of sets is a power of two",
            entries / ways
        )
    })
}

impl Topology {
    fn check(&self) -> Checked {
        match self {
            Self::Mesh { columns } => require(
                columns.is_none_or(|columns| (1..=NODES_MAX as u32).contains(&columns)),
                || format!("topology.columns is outside 1 to {NODES_MAX}: give the nodes of a row"),
            ),
            Self::Sockets { nodes_per_socket, hops_within, hops_between } => {
                require((1..=NODES_MAX as u32).contains(nodes_per_socket), || {
                    format!("topology.nodes_per_socket is outside 1 to {NODES_MAX}: 1 is the usual")
                })?;
                require((1..=HOPS_MAX).contains(hops_within), || {
                    format!(
                        "topology.hops_within is outside 1 to {HOPS_MAX}: nodes are not the same"
                    )
                })?;
                require((*hops_within..=HOPS_MAX).contains(hops_between), || {
                    format!(
                        "topology.hops_between is {hops_between}, nearer than the {hops_within} within a \
                         socket or above {HOPS_MAX}: another socket is at least as far"
                    )
                })
            }
            Self::Matrix { hops } => check_matrix(hops),
        }
    }
}

fn check_matrix(hops: &[Vec<u16>]) -> Checked {
    let nr_nodes = hops.len();
    require((1..=MATRIX_NODES_MAX).contains(&nr_nodes), || {
        format!(
            "topology.hops has {nr_nodes} rows, but 1 to {MATRIX_NODES_MAX} are modelled: use a mesh for \
             more"
        )
    })?;
    for (from, row) in hops.iter().enumerate() {
        require(row.len() == nr_nodes, || {
            format!(
                "topology.hops[{from}] has {} entries for {nr_nodes} nodes: give one each",
                row.len()
            )
        })?;
        for (to, &hops) in row.iter().enumerate() {
            require((hops == 0) == (from == to) && hops <= HOPS_MAX, || {
                format!(
                    "topology.hops[{from}][{to}] is {hops}, but a node is 0 hops from itself and 1 to \
                     {HOPS_MAX} from others: correct it"
                )
            })?;
        }
    }
    Ok(())
}

impl Cost {
    fn check(&self) -> Checked {
        let cycles = [
            ("second_tlb_cycles", self.second_tlb_cycles, 0),
            ("l2_cycles", self.l2_cycles, 0),
            ("last_level_cycles", self.last_level_cycles, 1),
            ("memory_cycles", self.memory_cycles, 0),
            ("hop_cycles", self.hop_cycles, 0),
            ("reads_in_flight", self.reads_in_flight, 1),
            ("writes_in_flight", self.writes_in_flight, 1),
            ("frequency_mhz", self.frequency_mhz, 1),
        ];
        for (name, value, least) in cycles {
            require((least..=CYCLES_MAX).contains(&value), || {
                format!(
                    "cost.{name} is {value}, but {least} to {CYCLES_MAX} can be: check the unit"
                )
            })?;
        }
        let rates = [
            ("cycles_per_instruction", self.cycles_per_instruction),
            ("last_level_service_cycles", self.last_level_service_cycles),
            ("memory_bytes_per_cycle", self.memory_bytes_per_cycle),
            ("link_bytes_per_cycle", self.link_bytes_per_cycle),
        ];
        for (name, value) in rates {
            require((0.001..=1e6).contains(&value), || {
                format!("cost.{name} is {value}, but 0.001 to 1000000 can be: check the unit")
            })?;
        }
        require((1000..=1 << 40).contains(&self.window_cycles), || {
            format!(
                "cost.window_cycles is {}, but a window of less than 1000 measures nothing and one above \
                 2^40 never ends: use some million",
                self.window_cycles
            )
        })?;
        require((0.1..=0.99).contains(&self.utilisation_max), || {
            format!(
                "cost.utilisation_max is {}, but queues are finite from 0.1 to 0.99 only: use 0.95",
                self.utilisation_max
            )
        })
    }
}
