//! Sentences that text, pages and drawings share.

use quartier_memmodel::Kind;
use quartier_memmodel::geometry::{Cost, Geometry, Side, Topology, WritePolicy};

use crate::numbers::{count, mib, of, percent, significant};
use crate::recording::{CountMode, Machine};
use crate::report::{Report, Service, Tally};

/// What remains of a command line that is longer than this, letters.
const COMMAND_LENGTH_MAX: usize = 2000;

/// A command as one line, quoted where a shell would need it, without what no terminal should get.
#[must_use]
pub fn command_line(command: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+./=:,@%^".contains(c);
    let quote = |word: &String| {
        let word: String = word.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let line = command.iter().map(quote).collect::<Vec<_>>().join(" ");
    shortened(&line, COMMAND_LENGTH_MAX)
}

/// At most this many letters, with a sign that some are missing.
#[must_use]
pub fn shortened(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(letters_max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// `4 nodes with 2 CPUs each`, `3 nodes with 2, 0 and 3 CPUs`.
#[must_use]
pub fn machine(machine: &Machine) -> String {
    let nodes = of(machine.nr_nodes() as u64, "node");
    match machine.cpus_per_node.as_slice() {
        [one] => format!("{nodes} with {}", of(u64::from(*one), "CPU")),
        [first, rest @ ..] if rest.iter().all(|cpus| cpus == first) => {
            format!("{nodes} with {} each", of(u64::from(*first), "CPU"))
        }
        _ => format!("{nodes}, {}", of(machine.nr_cpus(), "CPU")),
    }
}

/// How it was counted, in a few words.
#[must_use]
pub fn mode_short(mode: CountMode) -> String {
    match mode {
        CountMode::Parallel => "every access counted".to_owned(),
        CountMode::Deterministic => "every access counted, repeatably".to_owned(),
        CountMode::Sampled { one_in, .. } => {
            format!("1 set of the caches in {} modelled", count(one_in.into()))
        }
    }
}

/// How it was counted and how sure that is.
#[must_use]
pub fn mode(mode: CountMode) -> String {
    match mode {
        CountMode::Parallel => "Every access was counted, with the CPUs running at the same time. \
                                Nothing is estimated, but threads meet differently each time: two \
                                runs differ a little. `quartier lab compare --policies first-touch \
                                --runs 5 -- CMD` prints by how much."
            .to_owned(),
        CountMode::Deterministic => "Every access was counted, with the CPUs taking turns by \
                                     instruction count. Nothing is estimated, and two runs of one \
                                     program give identical counts."
            .to_owned(),
        CountMode::Sampled { one_in, error_percent } => format!(
            "One set of the caches in {} was modelled, and all counts are estimates of the whole. Q may be \
             off by {} (two standard errors, from how sets differ).",
            count(one_in.into()),
            percent(error_percent),
        ),
    }
}

/// The sentence that everybody reads.
#[must_use]
pub fn headline(report: &Report) -> String {
    let program = &report.program;
    let Some(remote) = program.remote_percent else {
        return format!("No commands were counted in the {}.", report.phase.name());
    };
    if report.machine.nr_nodes() == 1 {
        return "One node: no command can leave it.".to_owned();
    }
    if program.commands.remote == 0 {
        return "No command leaves its node.".to_owned();
    }
    format!(
        "{} of commands leave their node; {}{} move between nodes.",
        percent(remote),
        mib(program.q_mib),
        plus_minus(report.mode),
    )
}

/// How far what was estimated may be off, in brackets.
fn plus_minus(mode: CountMode) -> String {
    match mode {
        CountMode::Sampled { error_percent, .. } => format!(" (± {})", percent(error_percent)),
        CountMode::Parallel | CountMode::Deterministic => String::new(),
    }
}

/// What to know next: the node most asked, and what for. Absent if nothing leaves its node.
#[must_use]
pub fn busiest(tally: &Tally) -> Option<String> {
    let asked = tally.most_asked();
    let busiest = asked.first()?;
    let of_all = crate::numbers::share(busiest.remote.total(), tally.commands.remote)?;
    let (kind, share) = main_kind(&busiest.remote.as_array())?;
    Some(format!(
        "Node {} is asked most: it receives {} of them, mostly {} ({}).",
        busiest.node,
        percent(of_all),
        kind.name(),
        percent(share),
    ))
}

/// The kind with most commands, and its share in percent.
#[must_use]
pub fn main_kind(by_kind: &[u64; 6]) -> Option<(Kind, f64)> {
    let total = by_kind.iter().fold(0, |sum: u64, &nr| sum.saturating_add(nr));
    let kind = Kind::ALL.into_iter().rev().max_by_key(|&kind| by_kind[kind as usize])?;
    Some((kind, crate::numbers::share(by_kind[kind as usize], total)?))
}

/// What a kind of command is.
#[must_use]
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "a line read for a load",
        Kind::Instruction => "a line read for an instruction",
        Kind::DataTlb => "page tables read for data",
        Kind::InstructionTlb => "page tables read for instructions",
        Kind::Write => "a store that leaves its CPU",
        Kind::Atomic => "an atomic operation that leaves its CPU",
    }
}

/// The cost parameters: name, value, unit.
#[must_use]
pub fn cost_parameters(cost: &Cost) -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("frequency", count(cost.frequency_mhz.into()), "MHz"),
        ("an instruction", significant(cost.cycles_per_instruction), "cycles"),
        ("second-level TLB", cost.second_tlb_cycles.to_string(), "cycles"),
        ("L2", cost.l2_cycles.to_string(), "cycles"),
        ("last level", cost.last_level_cycles.to_string(), "cycles"),
        ("memory beyond it", cost.memory_cycles.to_string(), "cycles"),
        ("a hop there and back", cost.hop_cycles.to_string(), "cycles"),
        ("reads in flight", cost.reads_in_flight.to_string(), ""),
        ("writes in flight", cost.writes_in_flight.to_string(), ""),
        ("last level busy", significant(cost.last_level_service_cycles), "cycles a command"),
        ("memory of a node", significant(cost.memory_bytes_per_cycle), "bytes a cycle"),
        ("a link", significant(cost.link_bytes_per_cycle), "bytes a cycle"),
        ("window", count(cost.window_cycles), "cycles"),
        ("highest utilisation", significant(cost.utilisation_max), ""),
    ]
}

/// The machine that was modelled, in a sentence.
#[must_use]
pub fn geometry(geometry: &Geometry) -> String {
    let write = match geometry.l1d.write {
        WritePolicy::Through => "writes through",
        WritePolicy::Back => "writes back",
    };
    let l2 = geometry.l2.map_or(String::new(), |l2| format!(", L2 {}", bytes(l2.bytes)));
    let side = match geometry.last_level.side {
        Side::Home => "in front of each node's memory",
        Side::Requester => "for what its CPUs use",
    };
    let topology = match &geometry.topology {
        Topology::Mesh { .. } => "a mesh of nodes",
        Topology::Sockets { .. } => "sockets all linked with each other",
        Topology::Matrix { .. } => "distances given pair by pair",
    };
    format!(
        "{}: L1 {} + {} ({write}){l2}, last level {} {side}; lines of {} bytes; {topology}",
        clean(&geometry.name),
        bytes(geometry.l1i.bytes),
        bytes(geometry.l1d.bytes),
        bytes(geometry.last_level.bytes),
        geometry.line_bytes,
    )
}

/// What every modelled number follows from, in a sentence.
#[must_use]
pub fn modelled_with(of: &Geometry) -> String {
    let parameters = cost_parameters(&of.cost);
    let parameters: Vec<_> = parameters
        .iter()
        .map(|(name, value, unit)| format!("{name} {value} {unit}").trim_end().to_owned())
        .collect();
    format!("Modelled on {}. Parameters: {}.", geometry(of), parameters.join(", "))
}

/// What served the requests that no private cache did.
#[must_use]
pub fn service(service: &Service) -> String {
    let Service { last_level, peer, owner, memory, walks, table_reads, .. } = *service;
    format!(
        "Past the private caches, the last level served {}, another CPU beside it {}, a cache elsewhere \
         {}, memory {}; {} of the page tables read {} of their entries.",
        count(last_level),
        count(peer),
        count(owner),
        count(memory),
        of(walks, "walk"),
        count(table_reads),
    )
}

/// What the rest of the guest did meanwhile.
#[must_use]
pub fn rest(rest: &Tally) -> String {
    match rest.remote_percent {
        Some(remote) => format!(
            "The rest of the guest, in none of the other numbers: {}, {} leave their node, {} move \
             between nodes.",
            of(rest.commands.total(), "command"),
            percent(remote),
            mib(rest.q_mib),
        ),
        None => "The rest of the guest had no commands.".to_owned(),
    }
}

/// What the column `rest` of a comparison is.
pub const REST: &str = "rest: what the rest of the guest moved, such as pages that numad moves; it is in no other number.";

/// Names come from files: what is no letter of a line becomes a space.
#[must_use]
pub fn clean(text: &str) -> String {
    let is_odd = |c: char| c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c);
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

/// A cache's size.
fn bytes(bytes: u64) -> String {
    let (value, unit) = match bytes {
        ..0x400 => (bytes as f64, "bytes"),
        0x400..0x10_0000 => (bytes as f64 / 1024.0, "KiB"),
        _ => (bytes as f64 / (1024.0 * 1024.0), "MiB"),
    };
    format!("{} {unit}", (value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_harmless_line() {
        let line = |words: &[&str]| {
            command_line(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(line(&["./eighths", "64", "8"]), "./eighths 64 8");
        assert_eq!(line(&["sh", "-c", "echo 'a' > b"]), r"sh -c 'echo '\''a'\'' > b'");
        assert_eq!(line(&["a\u{1b}[31m\n", ""]), "'a?[31m?' ''");
        assert_eq!(line(&["x"; 4000]).chars().count(), COMMAND_LENGTH_MAX);
    }

    #[test]
    fn machines_are_told_shortly() {
        let of = |cpus: &[u32]| machine(&Machine { cpus_per_node: cpus.to_vec() });
        assert_eq!(of(&[1]), "1 node with 1 CPU");
        assert_eq!(of(&[2; 4]), "4 nodes with 2 CPUs each");
        assert_eq!(of(&[2, 0, 3]), "3 nodes, 5 CPUs");
    }
}
