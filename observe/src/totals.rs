//! What the kernel has counted since the machine was started: `proc/vmstat`, `proc/pressure`, and `numastat` of each node.
//!
//! Whatever of it a kernel does not have, or does not let anybody read, is absent; none of it is worth an error.

use quartier_model::{Allocated, KernelSeen, Machine, Nanos};

use crate::Host;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    faults: Option<u64>,
    major_faults: Option<u64>,
    hint_faults: Option<u64>,
    hint_faults_local: Option<u64>,
    balanced_pages: Option<u64>,
    waited_for_cpu: Option<Nanos>,
    waited_for_memory: Option<Nanos>,
    waited_for_io: Option<Nanos>,
    /// By node.
    allocated: Vec<Option<Allocated>>,
}

impl Totals {
    /// As of now.
    pub fn read(host: &Host, machine: &Machine) -> Self {
        let read = |path: &str| host.read(path).ok().flatten().unwrap_or_default();
        let vmstat = read("proc/vmstat");
        let count = |key| number_of(&vmstat, key);
        let waited = |resource| waited(&read(&format!("proc/pressure/{resource}")));
        let numastat = |node: &quartier_model::Node| {
            allocated(&read(&format!("sys/devices/system/node/node{}/numastat", node.os_id.0)))
        };
        Self {
            faults: count("pgfault"),
            major_faults: count("pgmajfault"),
            hint_faults: count("numa_hint_faults"),
            hint_faults_local: count("numa_hint_faults_local"),
            balanced_pages: count("numa_pages_migrated"),
            waited_for_cpu: waited("cpu"),
            waited_for_memory: waited("memory"),
            waited_for_io: waited("io"),
            allocated: machine.nodes().iter().map(numastat).collect(),
        }
    }

    /// What has been counted since an earlier time.
    pub fn since(&self, before: &Self, over: Nanos) -> KernelSeen {
        let counts = |of: fn(&Self) -> Option<u64>| Some(of(self)?.saturating_sub(of(before)?));
        let times = |of: fn(&Self) -> Option<Nanos>| Some(of(self)? - of(before)?);
        KernelSeen {
            over,
            faults: counts(|of| of.faults),
            major_faults: counts(|of| of.major_faults),
            hint_faults: counts(|of| of.hint_faults),
            hint_faults_local: counts(|of| of.hint_faults_local),
            balanced_pages: counts(|of| of.balanced_pages),
            waited_for_cpu: times(|of| of.waited_for_cpu),
            waited_for_memory: times(|of| of.waited_for_memory),
            waited_for_io: times(|of| of.waited_for_io),
        }
    }

    /// What has been allocated on a node since an earlier time.
    pub fn allocated_since(&self, before: &Self, node: usize) -> Option<Allocated> {
        let (now, before) = ((*self.allocated.get(node)?)?, (*before.allocated.get(node)?)?);
        Some(Allocated {
            local_pages: now.local_pages.saturating_sub(before.local_pages),
            other_pages: now.other_pages.saturating_sub(before.other_pages),
            missed_pages: now.missed_pages.saturating_sub(before.missed_pages),
        })
    }
}

/// `key 123`, on a line of its own.
fn number_of(text: &str, key: &str) -> Option<u64> {
    let of_line = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(of_line)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds (Linux Documentation/accounting/psi.rst).
fn waited(text: &str) -> Option<Nanos> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Nanos(micros.parse::<u64>().ok()?.checked_mul(1000)?))
}

/// Linux Documentation/admin-guide/numastat.rst.
fn allocated(text: &str) -> Option<Allocated> {
    Some(Allocated {
        local_pages: number_of(text, "local_node")?,
        other_pages: number_of(text, "other_node")?,
        missed_pages: number_of(text, "numa_miss")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_kernel_writes_is_read_and_what_it_lacks_is_absent() {
        let text = "numa_hit 9\nnuma_miss 3\nnuma_foreign 1\ninterleave_hit 0\nlocal_node 7\nother_node 5\n";
        let expected = Allocated { local_pages: 7, other_pages: 5, missed_pages: 3 };
        assert_eq!(allocated(text), Some(expected));
        assert_eq!(allocated("numa_miss 3\nlocal_node 7\n"), None);
        let vmstat = "numa_hint_faults_local 4\nnuma_hint_faults 6\npgfault 12\n";
        assert_eq!(number_of(vmstat, "numa_hint_faults"), Some(6), "not the longer name");
        assert_eq!(number_of(vmstat, "pgmajfault"), None);
        let pressure =
            "some avg10=1.50 avg60=0.00 avg300=0.00 total=2500\nfull avg10=0.00 total=7\n";
        assert_eq!(waited(pressure), Some(Nanos(2_500_000)));
        assert_eq!(waited("full avg10=0.00 total=7\n"), None);
    }

    #[test]
    fn counts_between_two_looks_are_absent_if_one_of_them_is() {
        let of = |faults, waited| Totals {
            faults,
            waited_for_memory: waited,
            allocated: vec![None, Some(Allocated { local_pages: 9, ..Allocated::default() })],
            ..Totals::default()
        };
        let (before, now) = (of(Some(10), None), of(Some(25), Some(Nanos(5))));
        let seen = now.since(&before, Nanos(100));
        assert_eq!((seen.faults, seen.waited_for_memory, seen.over), (Some(15), None, Nanos(100)));
        assert_eq!(now.since(&now, Nanos(100)).memory_pressure(), Some(0.0));
        assert_eq!(
            (now.allocated_since(&before, 0), now.allocated_since(&before, 2)),
            (None, None)
        );
        assert_eq!(now.allocated_since(&before, 1), Some(Allocated::default()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in "([a-z_=0-9 .\n]|some |total=|numa_miss ){0,80}") {
            let _ = (allocated(&text), waited(&text), number_of(&text, "pgfault"));
        }
    }
}
