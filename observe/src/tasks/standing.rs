//! Whether somebody placed a process already: its cpuset, affinity, memory policy and class.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

use quartier_model::{Bytes, CpuList, Standing};

use super::files::Files;
use crate::parse;

/// What is read of a process's `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The effective user.
    pub uid: Option<u32>,
    pub cpus: Option<CpuList>,
    /// The kernel's numbers of nodes.
    pub mems: Option<CpuList>,
    /// Anonymous pages, `RssAnon`.
    pub resident: Option<Bytes>,
}

impl Status {
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let field = |key| parse::status_field(&text, key);
        let list = |key| field(key)?.parse().ok();
        let kib = field("RssAnon").and_then(|value| value.strip_suffix(" kB")?.trim().parse().ok());
        Self {
            uid: field("Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()),
            cpus: list("Cpus_allowed_list"),
            mems: list("Mems_allowed_list"),
            resident: kib.and_then(|kib: u64| Some(Bytes(kib.checked_mul(1024)?))),
        }
    }
}

/// The control group of a process in the unified hierarchy, from its file `cgroup`.
pub fn cgroup(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    line.starts_with('/').then(|| line.to_owned())
}

/// What a process may run and allocate on: what its cpuset says, or else the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    pub cpus: Option<CpuList>,
    pub mems: Option<CpuList>,
}

impl Cpuset {
    /// Of a control group, or the nearest above it that has one. `None` for what none of them says.
    pub fn of(files: &mut Files, cgroup: &str) -> Self {
        let mut effective = |file: &str| {
            let mut at = cgroup.trim_end_matches('/');
            loop {
                let path = format!("sys/fs/cgroup{at}/cpuset.{file}.effective");
                let text = files.read(&path).ok().flatten();
                if let Some(list) =
                    text.and_then(|text| parse::list(std::str::from_utf8(text).ok()?))
                {
                    return Some(list);
                }
                at = &at[..at.rfind('/')?];
            }
        };
        Self { cpus: effective("cpus"), mems: effective("mems") }
    }
}

/// Those of control groups that were asked for a moment ago: most processes share one with others.
#[derive(Debug, Default)]
pub struct Cpusets(BTreeMap<String, Cpuset>);

impl Cpusets {
    /// As it was when it was asked first since all were forgotten.
    pub fn of(&mut self, files: &mut Files, cgroup: &str) -> Cpuset {
        if let Some(known) = self.0.get(cgroup) {
            return known.clone();
        }
        let asked = Cpuset::of(files, cgroup);
        self.0.insert(cgroup.to_owned(), asked.clone());
        asked
    }

    /// Each is read anew when it is asked next.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Whether somebody set an affinity: it is narrower than what a cpuset leaves, or, where there is none,
/// than all CPUs that are online.
pub fn is_affinity_set(affinity: &CpuList, cpuset: Option<&CpuList>, online: &CpuList) -> bool {
    let whole = cpuset.filter(|cpuset| !cpuset.is_empty()).unwrap_or(online);
    whole.iter().any(|cpu| !affinity.contains(cpu) && online.contains(cpu))
}

/// Whether somebody set the memory policy of a task; its folder is `proc/PID` or `proc/PID/task/TID`.
///
/// The first line of `numa_maps` is about the first mapping, which is small: so little is asked for
/// that the kernel walks no other.
pub fn policy_standing(files: &Files, folder: &str) -> Standing {
    let mut start = [0; 32];
    let read = std::fs::File::open(files.path(&format!("{folder}/numa_maps")))
        .and_then(|mut file| file.read(&mut start));
    match read {
        Ok(read) => policy(&start[..read]),
        // A kernel without `CONFIG_NUMA` has no policies.
        Err(error) if error.kind() == ErrorKind::NotFound => Standing::Free,
        // Not permitted, most often.
        Err(_) => Standing::Unknown,
    }
}

/// `7f12a000 default file=…` (Linux fs/proc/task_mmu.c).
fn policy(text: &[u8]) -> Standing {
    let mut words = text.split(|byte| matches!(byte, b' ' | b'\n'));
    match (words.next(), words.next()) {
        (Some(address), Some(b"default")) if !address.is_empty() => Standing::Free,
        (Some(address), Some(policy)) if !address.is_empty() && !policy.is_empty() => {
            Standing::MemoryPolicySet
        }
        // It has no memory (any more).
        _ => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn a_status_is_read_and_what_is_missing_is_unknown() {
        let text =
            b"Name:\tx\nUid:\t1000\t1001\t0\t0\nRssAnon:\t     12 kB\nCpus_allowed_list:\t0-3\n";
        let status = Status::parse(text);
        assert_eq!((status.uid, status.resident), (Some(1001), Some(Bytes(12 << 10))));
        assert_eq!((status.cpus, status.mems), (Some(list("0-3")), None));
        let bad = b"Uid:\tx\nRssAnon:\t18446744073709551615 kB\nCpus_allowed_list:\t3-\n";
        assert_eq!(Status::parse(bad), Status::default());
    }

    #[test]
    fn an_affinity_is_set_if_it_leaves_out_what_could_be_used() {
        let online = list("0-7");
        for (affinity, cpuset, is_set) in [
            ("0-7", None, false),
            // CPUs that are offline, or do not exist, are no matter.
            ("0-63", None, false),
            ("0-6", None, true),
            ("2-3", Some("2-3"), false),
            ("2", Some("2-3"), true),
            ("2-3", Some("2-3,9"), false),
            ("0-7", Some(""), false),
        ] {
            let cpuset = cpuset.map(list);
            assert_eq!(
                is_affinity_set(&list(affinity), cpuset.as_ref(), &online),
                is_set,
                "{affinity}"
            );
        }
    }

    #[test]
    fn a_policy_is_the_second_word() {
        for (text, expected) in [
            ("55d0c000 default file=/bin/x mapp", Standing::Free),
            ("55d0c000 bind:0-1 anon=", Standing::MemoryPolicySet),
            ("55d0c000 prefer=static:3", Standing::MemoryPolicySet),
            ("55d0c000 default", Standing::Free),
            ("", Standing::Unknown),
            ("55d0c000", Standing::Unknown),
        ] {
            assert_eq!(policy(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_cgroup_is_that_of_the_unified_hierarchy() {
        assert_eq!(cgroup(b"12:cpu:/x\n0::/a.slice/b\n").as_deref(), Some("/a.slice/b"));
        assert_eq!(cgroup(b"12:cpu:/x\n"), None);
        assert_eq!(cgroup(b"0::../b\n"), None, "outside of our cgroup namespace");
    }

    #[test]
    fn a_cpuset_is_that_of_the_nearest_group_that_has_one() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("sys/fs/cgroup/a/b");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("../cpuset.cpus.effective"), "2-3\n").unwrap();
        std::fs::write(group.join("../../cpuset.mems.effective"), "0-1\n").unwrap();
        let mut files = Files::below(root.path());
        let found = Cpuset::of(&mut files, "/a/b");
        assert_eq!(found, Cpuset { cpus: Some(list("2-3")), mems: Some(list("0-1")) });
        assert_eq!(Cpuset::of(&mut files, "/").cpus, None);
        // It is asked for once until all are forgotten.
        let mut known = Cpusets::default();
        assert_eq!(known.of(&mut files, "/a/b"), found);
        std::fs::write(group.join("../cpuset.cpus.effective"), "3\n").unwrap();
        assert_eq!(known.of(&mut files, "/a/b"), found);
        known.forget();
        assert_eq!(known.of(&mut files, "/a/b").cpus, Some(list("3")));
    }
}
