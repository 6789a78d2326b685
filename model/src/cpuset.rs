//! Whether a process is held by the cpuset of its control group.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What came of holding a process by the cpuset of its control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByCpuset {
    /// The CPUs of this group have been narrowed to a node.
    Group(String),
    /// They have not: its threads are held one by one.
    Not {
        /// Which group.
        group: String,
        /// Why not.
        why: NoCpuset,
    },
}

/// Why the cpuset of a control group is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoCpuset {
    /// Not supported: this kernel may not be able to take it back.
    TooOld,
    /// Not supported: the group has no cpuset.
    NoController,
    /// Not permitted.
    NotPermitted,
    /// Somebody said which CPUs the group has, or made a partition of it.
    SetBySomebody,
    /// Other processes, or other groups, are in it.
    Shared,
    /// Threads of the process may not be placed.
    ThreadsLeft,
    /// Not enforceable: the kernel did not give the group these CPUs.
    NotEffective,
    /// The group is no more, or not where this file system of groups begins.
    Gone,
}

impl fmt::Display for ByCpuset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "by the cpuset of {group}"),
            Self::Not { group, why } => {
                write!(f, "thread by thread, not by the cpuset of {group}: {why}")
            }
        }
    }
}

impl fmt::Display for NoCpuset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooOld => {
                "not supported before Linux 7.2, which lets a group have its CPUs back while processes are in it"
            }
            Self::NoController => {
                "it has none; Delegate=cpuset in its unit, or +cpuset in cgroup.subtree_control of the group above, gives \
                 it one"
            }
            Self::NotPermitted => {
                "not permitted; give quartierd CAP_DAC_OVERRIDE and ProtectControlGroups=no, as its unit shows, or the \
                 group's file cpuset.cpus to its user"
            }
            Self::SetBySomebody => "somebody has said which CPUs it has, and that stays so",
            Self::Shared => {
                "others are in it too; give the process a group of its own if all of it is to be held so"
            }
            Self::ThreadsLeft => {
                "some threads of the process may not be placed, by their affinity, policy or class"
            }
            Self::NotEffective => {
                "the kernel does not give it these CPUs; see cpuset.cpus.effective of the groups above it"
            }
            Self::Gone => "it is not there",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_in_one_sentence_and_read_as_it_was_written() {
        let group = "/system.slice/x.service".to_owned();
        for by in [
            ByCpuset::Group(group.clone()),
            ByCpuset::Not { group: group.clone(), why: NoCpuset::NotPermitted },
        ] {
            assert!(by.to_string().contains("the cpuset of /system.slice/x.service"), "{by}");
            let text = serde_json::to_string(&by).unwrap();
            assert_eq!(serde_json::from_str::<ByCpuset>(&text).unwrap(), by);
        }
    }
}
