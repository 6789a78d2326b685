//! Where memory has nodes, it is filled on the first and touched on the last, whoever places threads.

use std::fs;
use std::mem::{size_of, zeroed};

/// Keeps the calling thread on the first node.
pub fn go_to_first() {
    let nodes = cpus_of_nodes();
    if let [first, _, ..] = &nodes[..] {
        stay_on(first);
    }
}

/// Keeps the calling thread on the last node.
pub fn go_to_last() {
    let nodes = cpus_of_nodes();
    if let [_, .., last] = &nodes[..] {
        stay_on(last);
    }
}

/// The CPUs of every node that has some.
fn cpus_of_nodes() -> Vec<Vec<usize>> {
    (0..1024)
        .filter_map(|node| {
            fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok()
        })
        .map(|list| cpus(&list))
        .filter(|cpus| !cpus.is_empty())
        .collect()
}

/// The kernel's form of a list: `0-3,8`.
fn cpus(list: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// A thread that cannot be held (its CPUs are not allowed) runs where it may.
fn stay_on(cpus: &[usize]) {
    // SAFETY: all-zero is the empty set; CPUs beyond its size are left out; the length is its own.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        let fits = |cpu: &&usize| **cpu < libc::CPU_SETSIZE as usize;
        cpus.iter().filter(fits).for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(super::cpus("0-2,8\n"), [0, 1, 2, 8]);
        assert!(super::cpus("\n").is_empty());
    }
}
