//! Where a process's data is when it ends: `/proc/self/numa_maps`, read line by line.

use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering;

use crate::runtime::Runtime;

/// Counts resident pages of private data per node into the process's slot, in base pages.
pub fn count(runtime: &Runtime) {
    let Some(decide) = runtime.decide() else { return };
    let Ok(file) = std::fs::File::open("/proc/self/numa_maps") else { return };
    let per_node = runtime.session.pages_per_node(runtime.slot_index());
    for line in BufReader::new(file).lines() {
        let Ok(line) = line else { return };
        for (node, pages) in pages_of_line(&line) {
            let count = decide.node_index(node).and_then(|index| per_node.get(index as usize));
            if let Some(count) = count {
                count.fetch_add(pages, Ordering::Relaxed);
            }
        }
    }
    runtime.slot().set_resident_known();
}

/// `(node, base pages)` of one line; nothing for files, which are shared with others.
fn pages_of_line(line: &str) -> impl Iterator<Item = (u32, u64)> + '_ {
    let private = line.contains(" anon=") && !line.contains(" file=");
    let page_kib = line
        .split_once("kernelpagesize_kB=")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(4);
    line.split_whitespace().filter(move |_| private).filter_map(move |word| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, pages.parse::<u64>().ok()?.saturating_mul(page_kib / 4)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_from_the_kernels_lines() {
        let line = "7f00 default anon=20 dirty=20 active=0 N0=12 N3=8 kernelpagesize_kB=4";
        assert_eq!(pages_of_line(line).collect::<Vec<_>>(), [(0, 12), (3, 8)]);
        let huge = "7f00 default anon=2 dirty=2 N1=2 kernelpagesize_kB=2048";
        assert_eq!(pages_of_line(huge).collect::<Vec<_>>(), [(1, 1024)]);
        for other in [
            "7f00 default file=/lib/x anon=1 N0=1",
            "7f00 default",
            "",
            "N=1 anon=",
            "x anon=1 N9=q",
        ] {
            assert_eq!(pages_of_line(other).count(), 0, "{other}");
        }
    }
}
