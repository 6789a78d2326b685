//! Whether it is known how much of its memory a process uses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether the kernel says it (DAMON).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkingSets {
    /// The configuration does not ask for it, or nothing has run yet.
    #[default]
    NotAsked,
    /// One process after the other is watched.
    Watched,
    /// The kernel cannot.
    Unsupported,
    /// We may not.
    NotPermitted,
    /// Somebody else uses it.
    InUse,
    /// The kernel's own statistics do.
    Statistics,
}

impl fmt::Display for WorkingSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ASSUMED: &str = "a process is taken to use all that it has";
        match self {
            Self::NotAsked => write!(f, "working sets are not asked for: {ASSUMED}"),
            Self::Watched => {
                write!(f, "working sets are watched by DAMON, of one process at a time")
            }
            Self::Unsupported => write!(
                f,
                "working sets are not watched, since this kernel has no DAMON that tells them (Linux 6.6 or newer, \
                 with CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR): {ASSUMED}"
            ),
            Self::NotPermitted => write!(
                f,
                "working sets are not watched, since only root may write DAMON's files: {ASSUMED}; run quartierd \
                 as root, or set monitor.damon = false"
            ),
            Self::InUse => write!(
                f,
                "working sets are not watched, since somebody else uses DAMON, and a machine has but one: {ASSUMED}; \
                 when it is free, it is used"
            ),
            Self::Statistics => write!(
                f,
                "working sets are not watched, since the kernel uses DAMON for statistics of its own: {ASSUMED}; \
                 `echo N > /sys/module/damon_stat/parameters/enabled` frees it"
            ),
        }
    }
}
