//! The kernel's formats. Every function gives `None` for what it cannot read, and never panics.

use quartier_model::{Bytes, CpuList, Distance};

/// One word, such as a kernel release.
pub(crate) fn word(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let word = words.next()?.to_owned();
    words.next().is_none().then_some(word)
}

/// `0-3,8`; an empty file is an empty list.
pub(crate) fn list(text: &str) -> Option<CpuList> {
    text.parse().ok()
}

/// An id that the kernel gives as -1 where it does not know it (`physical_package_id`,
/// `core_id`): the outer `None` is a malformed file, the inner one an unknown id.
pub(crate) fn id_or_unknown(text: &str) -> Option<Option<u32>> {
    let id: i64 = text.trim().parse().ok()?;
    match id {
        -1 => Some(None),
        id => Some(Some(u32::try_from(id).ok()?)),
    }
}

/// A cache's level, 1 and up.
pub(crate) fn cache_level(text: &str) -> Option<u8> {
    text.trim().parse().ok().filter(|&level| level > 0)
}

/// A cache's size, `32768K`: the kernel prints KiB.
pub(crate) fn cache_size(text: &str) -> Option<Bytes> {
    text.parse().ok()
}

/// `10 20 20`: the row of a distance matrix.
pub(crate) fn distances(text: &str) -> Option<Vec<Distance>> {
    text.split_whitespace().map(|number| number.parse().ok().map(Distance)).collect()
}

/// The value of a line of `meminfo` (`Node 0 MemTotal:  4417748 kB` or without `Node 0`).
/// The outer `None` is a malformed line, the inner one a missing line.
pub(crate) fn meminfo(text: &str, key: &str) -> Option<Option<Bytes>> {
    let Some(line) = text.lines().find(|line| is_meminfo_line(line, key)) else {
        return Some(None);
    };
    let mut value = line.split_once(':')?.1.split_whitespace();
    let kib: u64 = value.next()?.parse().ok()?;
    if (value.next(), value.next()) != (Some("kB"), None) {
        return None;
    }
    Some(Some(Bytes(kib.checked_mul(1024)?)))
}

/// Whether a line of `meminfo` is the one of `key`.
pub(crate) fn is_meminfo_line(line: &str, key: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| name.split_whitespace().next_back() == Some(key))
}

/// The value of a line of /proc/PID/status.
pub(crate) fn status_field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn meminfo_of_a_node_and_of_the_machine() {
        let node = "Node 3 MemTotal:        4417748 kB\nNode 3 MemFree:  12 kB\n";
        assert_eq!(meminfo(node, "MemTotal"), Some(Some(Bytes(4_417_748 << 10))));
        assert_eq!(meminfo("MemFree: 12 kB\n", "MemFree"), Some(Some(Bytes(12 << 10))));
        assert_eq!(meminfo(node, "SwapTotal"), Some(None), "absent is not zero");
        for bad in ["MemTotal: x kB", "MemTotal:", "MemTotal: 5", "MemTotal: 5 MB"] {
            assert_eq!(meminfo(bad, "MemTotal"), None, "{bad}");
        }
        assert_eq!(meminfo("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }

    #[test]
    fn unknown_ids_are_not_zero() {
        assert_eq!(id_or_unknown("7\n"), Some(Some(7)));
        assert_eq!(id_or_unknown("-1\n"), Some(None));
        for bad in ["", "-2", "4294967296", "0x1"] {
            assert_eq!(id_or_unknown(bad), None, "{bad}");
        }
    }

    #[test]
    fn distances_are_those_of_a_slit() {
        assert_eq!(distances("10 21\n"), Some(vec![Distance(10), Distance(21)]));
        assert_eq!(distances("10 256"), None);
        assert_eq!(distances("10 -1"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(?s).{0,60}", numbers in "[-0-9 ,:kBK\\n]{0,60}") {
            for text in [&text, &numbers] {
                word(text);
                list(text);
                id_or_unknown(text);
                cache_level(text);
                cache_size(text);
                distances(text);
                meminfo(&format!("MemTotal:{text}"), "MemTotal");
                meminfo(text, "MemTotal");
                status_field(text, "Cpus_allowed_list");
            }
        }
    }
}
