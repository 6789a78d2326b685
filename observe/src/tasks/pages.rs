//! Where a process's own pages lie, from a sample: the mappings that can hold any, and addresses in
//! them.

use std::collections::BTreeSet;

use quartier_model::{SESSION_MEMORY, TREE_OF_MACHINE};

/// Bytes of a base page.
pub const PAGE: u64 = 4096;

/// The mappings of a process that hold pages of its own: private, without a file, and not
/// inaccessible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// First page, and how many pages all mappings before it have.
    ranges: Vec<(u64, u64)>,
    nr_pages: u64,
    /// Whether the process is one of a `quartier run`.
    pub is_under_run: bool,
    /// Whether it counts its threads in the machine's decision tree.
    pub counts_itself: bool,
}

impl Mappings {
    /// From `proc/PID/maps` (proc(5)). What is no line of it is left out.
    pub fn parse(text: &[u8]) -> Self {
        let mut mappings = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            if let Some((start, end)) = own_range(line) {
                mappings.ranges.push((start / PAGE, mappings.nr_pages));
                mappings.nr_pages += (end - start) / PAGE;
            }
            // What a run shares with its processes is a memfd, which has no name in any folder.
            mappings.is_under_run |= has_name(line, &["/memfd:", SESSION_MEMORY, " (deleted)"]);
            mappings.counts_itself |= has_name(line, &[TREE_OF_MACHINE, "/threads"]);
        }
        mappings
    }

    /// The ranges, from the first byte of each to its end, without those of which somebody set the policy:
    /// `policies` is `proc/PID/numa_maps` (Linux Documentation/admin-guide/mm/numa_memory_policy.rst).
    pub fn movable(&self, policies: &[u8]) -> Vec<(u64, u64)> {
        let set: BTreeSet<u64> =
            policies.split(|byte| *byte == b'\n').filter_map(start_with_policy).collect();
        let ends = self.ranges.iter().skip(1).map(|(_, before)| *before).chain([self.nr_pages]);
        let ranges = self
            .ranges
            .iter()
            .zip(ends)
            .map(|((first, before), end)| (first * PAGE, (first + end - before) * PAGE));
        ranges.filter(|(start, _)| !set.contains(start)).collect()
    }

    /// So many addresses of pages, spread evenly with a random offset each, in rising order.
    pub fn pick(&self, nr: u64, random: &mut Random, into: &mut Vec<u64>) {
        into.clear();
        if self.nr_pages == 0 || nr == 0 {
            return;
        }
        let nr = nr.min(self.nr_pages);
        let step = self.nr_pages / nr;
        into.extend((0..nr).map(|at| self.page(at * step + random.below(step)) * PAGE));
    }

    /// Whether a page with this address is in one of them.
    pub fn contains(&self, address: u64) -> bool {
        let page = address / PAGE;
        let next = self.ranges.partition_point(|(first, _)| *first <= page);
        let Some(at) = next.checked_sub(1) else { return false };
        let end = self.ranges.get(next).map_or(self.nr_pages, |(_, before)| *before);
        let (first, before) = self.ranges[at];
        page < first + (end - before)
    }

    /// The page with this index among all.
    fn page(&self, index: u64) -> u64 {
        let at = self.ranges.partition_point(|(_, before)| *before <= index) - 1;
        let (first, before) = self.ranges[at];
        first + (index - before)
    }
}

/// Whether these parts are the name of what a line is about.
fn has_name(line: &[u8], parts: &[&str]) -> bool {
    let before = parts.iter().rev().try_fold(line, |line, part| line.strip_suffix(part.as_bytes()));
    before.is_some_and(|before| before.ends_with(b" "))
}

/// The start of a mapping that has a policy of its own.
fn start_with_policy(line: &[u8]) -> Option<u64> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    (words.next()? != "default").then_some(start)
}

/// `start-end perms offset device inode path`.
fn own_range(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let name = words.next().unwrap_or("");
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let is_own = permissions.get(3) == Some(&b'p') && permissions.starts_with(b"r");
    let is_kernels = ["[vdso]", "[vvar]", "[vsyscall]", "[vvar_vclock]"].contains(&name);
    // The largest address space there is has 57 bits.
    (is_own && inode == "0" && !is_kernels && start < end && end <= 1 << 57).then_some((start, end))
}

/// Numbers that differ (SplitMix64); nothing depends on their being unpredictable.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c000-55d0d000 r-xp 00000000 08:01 1234 /bin/x
55e00000-55e03000 rw-p 00000000 00:00 0 [heap]
7f000000-7f002000 rw-s 00000000 00:01 55 /dev/shm/x
7f100000-7f200000 ---p 00000000 00:00 0
7f300000-7f301000 rw-p 00000000 00:00 0
7ffe0000-7ffe2000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn a_processs_own_pages_are_private_without_a_file_and_can_be_read() {
        let mappings = Mappings::parse(MAPS.as_bytes());
        let mut picked = Vec::new();
        mappings.pick(100, &mut Random(1), &mut picked);
        assert_eq!(picked, [0x55e0_0000, 0x55e0_1000, 0x55e0_2000, 0x7f30_0000]);
        let is_in = |address| mappings.contains(address);
        let edges = [0x55df_ffff, 0x55e0_0000, 0x55e0_2fff, 0x55e0_3000, 0x7f10_0000, 0x7f30_0fff];
        assert_eq!(edges.map(is_in), [false, true, true, false, false, true]);
        Mappings::parse(b"").pick(100, &mut Random(1), &mut picked);
        assert!(picked.is_empty());
    }

    #[test]
    fn who_maps_the_session_of_a_run_is_of_it() {
        let is_under_run = |name: &str| {
            Mappings::parse(
                format!("{MAPS}7f400000-7f500000 rw-s 00000000 00:01 5 {name}\n").as_bytes(),
            )
            .is_under_run
        };
        assert!(is_under_run("/memfd:quartier-session (deleted)"));
        for other in [
            "/memfd:quartier-session",
            "/tmp/memfd:quartier-session (deleted)",
            "/memfd:quartier-tree (deleted)",
            "",
        ] {
            assert!(!is_under_run(other), "{other}");
        }
        let counts = |name: &str| {
            Mappings::parse(
                format!("7f400000-7f500000 rw-s 00000000 00:01 5    {name}\n").as_bytes(),
            )
            .counts_itself
        };
        assert!(counts("/dev/shm/quartier/threads"));
        for other in [
            "/dev/shm/quartier/tree",
            "/x/dev/shm/quartier/threads",
            "/dev/shm/quartier/threads (deleted)",
        ] {
            assert!(!counts(other), "{other}");
        }
    }

    #[test]
    fn what_somebody_bound_is_not_movable() {
        let mappings = Mappings::parse(MAPS.as_bytes());
        let all = [(0x55e0_0000, 0x55e0_3000), (0x7f30_0000, 0x7f30_1000)];
        assert_eq!(mappings.movable(b"55e00000 default heap anon=1\nrubbish\n"), all);
        assert_eq!(mappings.movable(b"55e00000 bind:1 heap anon=1\n"), all[1..]);
    }

    proptest! {
        #[test]
        fn what_is_picked_lies_in_a_mapping_and_is_spread(
            sizes in proptest::collection::vec(1..5000u64, 1..40),
            nr in 0..200u64,
            seed: u64,
        ) {
            let mut at = 0x10000;
            let mut text = String::new();
            let mut ranges = Vec::new();
            for size in sizes {
                let end = at + size * PAGE;
                text += &format!("{at:x}-{end:x} rw-p 00000000 00:00 0\n");
                ranges.push((at, end));
                at = end + 3 * PAGE;
            }
            let mappings = Mappings::parse(text.as_bytes());
            let mut picked = Vec::new();
            mappings.pick(nr, &mut Random(seed), &mut picked);
            prop_assert_eq!(picked.len() as u64, nr.min(mappings.nr_pages));
            prop_assert!(picked.is_sorted_by(|a, b| a < b), "no page twice");
            for page in picked {
                prop_assert!(ranges.iter().any(|(start, end)| (*start..*end).contains(&page)));
            }
        }

        #[test]
        fn any_text_is_read_or_left_out(text in "([0-9a-f]{1,18}-?[0-9a-f]{0,18} [rwxp-]{0,5} [0-9: ]{0,9}\\n?){0,5}") {
            let mut picked = Vec::new();
            Mappings::parse(text.as_bytes()).pick(9, &mut Random(3), &mut picked);
        }
    }
}
