//! On which CPUs packets are to be received, so that connections arrive on every node.
//!
//! With as many queues as domains, each queue is a domain's, by its interrupt and by RPS within the domain; with
//! fewer, RPS spreads flows over all CPUs. Either way a flow stays where it is, and so does its
//! connection, as the copy there gets it; RFS then finds its very CPU.

use std::fmt::Write;

use quartier_model::CpuList;

/// Entries of the table by which RFS knows who reads what.
const FLOWS: usize = 32_768;

/// A file and what is to be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Below the root.
    pub path: String,
    /// As the kernel reads it.
    pub value: String,
}

/// An interface: its name, the interrupt of each receive queue where known, and how many queues it sends on.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    /// As `ip link` calls it.
    pub name: &'a str,
    /// Of each receive queue.
    pub interrupts: &'a [Option<u32>],
    /// How many.
    pub nr_send: usize,
}

/// What to set for an interface, given the CPUs of each domain.
#[must_use]
pub fn receiving(queues: Queues<'_>, domains: &[CpuList]) -> Vec<Setting> {
    let mut settings = Vec::new();
    let nr_receive = queues.interrupts.len();
    if nr_receive == 0 || domains.is_empty() {
        return settings;
    }
    let mut set = |path: String, value: String| settings.push(Setting { path, value });
    set("proc/sys/net/core/rps_sock_flow_entries".to_owned(), FLOWS.to_string());
    let everybody: CpuList = domains.iter().flat_map(CpuList::iter).collect();
    let folder = format!("sys/class/net/{}/queues", queues.name);
    let has_for_each = |nr_queues: usize| nr_queues >= domains.len() && nr_queues > 1;
    for (queue, interrupt) in queues.interrupts.iter().enumerate() {
        let own = has_for_each(nr_receive).then(|| &domains[queue % domains.len()]);
        set(format!("{folder}/rx-{queue}/rps_cpus"), mask(own.unwrap_or(&everybody)));
        set(format!("{folder}/rx-{queue}/rps_flow_cnt"), (FLOWS / nr_receive).to_string());
        if let (Some(own), Some(interrupt)) = (own, interrupt) {
            set(format!("proc/irq/{interrupt}/smp_affinity_list"), own.to_string());
        }
    }
    for queue in (0..queues.nr_send).filter(|_| has_for_each(queues.nr_send)) {
        let own = &domains[queue % domains.len()];
        set(format!("{folder}/tx-{queue}/xps_cpus"), mask(own));
    }
    settings
}

/// Words of 32 bits in hexadecimal, the highest first, as the kernel reads and prints CPU masks.
fn mask(cpus: &CpuList) -> String {
    let nr_words = cpus.iter().max().map_or(1, |last| last as usize / 32 + 1);
    let mut words = vec![0u32; nr_words];
    for cpu in cpus.iter() {
        words[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let mut text = String::new();
    for (at, word) in words.iter().rev().enumerate() {
        let _ = if at == 0 { write!(text, "{word:x}") } else { write!(text, ",{word:08x}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains() -> Vec<CpuList> {
        ["0-1", "2-3,33"].map(|list| list.parse().unwrap()).to_vec()
    }

    fn value<'a>(settings: &'a [Setting], end: &str) -> Option<&'a str> {
        let setting = settings.iter().find(|setting| setting.path.ends_with(end))?;
        Some(&setting.value)
    }

    #[test]
    fn a_queue_for_each_domain_is_the_domains() {
        let interrupts = [Some(24), None, Some(26), None];
        let queues = Queues { name: "eth0", interrupts: &interrupts, nr_send: 2 };
        let settings = receiving(queues, &domains());
        assert_eq!(value(&settings, "rx-0/rps_cpus"), Some("3"));
        assert_eq!(value(&settings, "rx-3/rps_cpus"), Some("2,0000000c"));
        assert_eq!(value(&settings, "irq/26/smp_affinity_list"), Some("0-1"));
        assert_eq!(value(&settings, "tx-1/xps_cpus"), Some("2,0000000c"));
        assert_eq!(value(&settings, "rx-1/rps_flow_cnt"), Some("8192"));
    }

    #[test]
    fn one_queue_is_spread_over_all_and_nothing_is_said_of_its_interrupt() {
        let queues = Queues { name: "eth0", interrupts: &[Some(24)], nr_send: 1 };
        let settings = receiving(queues, &domains());
        assert_eq!(value(&settings, "rx-0/rps_cpus"), Some("2,0000000f"));
        assert_eq!(value(&settings, "smp_affinity_list"), None);
        assert_eq!(value(&settings, "xps_cpus"), None);
        let none = Queues { name: "x", interrupts: &[], nr_send: 0 };
        assert!(receiving(none, &domains()).is_empty());
    }
}
