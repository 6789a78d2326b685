//! The command line of `quartierd`, a library so that `xtask` makes its man page and completions from the one
//! [`Args`]. All else is in the program beside this file.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Parser;

/// The configuration that is read where none is given.
pub const CONFIG: &str = "/etc/quartier/quartierd.toml";

const EXAMPLES: &str = "\
Examples:
  quartierd                     say what would be done
  quartierd --apply             do it, until a signal comes; then take all of it back
  quartierd --log decisions.jsonl
                                keep what was seen and decided
  quartierd --check             is the configuration good?
  systemctl start quartierd     the same as the first, as a service that may no more than it needs
  systemctl reload quartierd    read the configuration again (SIGHUP); a bad one changes nothing

Who may what: tasks of its own user need no privilege. For those of others, CAP_SYS_PTRACE lets it know where
their memory is, CAP_SYS_NICE hold their threads, CAP_PERFMON count their cache misses and see who uses which
page; rules about environments need CAP_DAC_READ_SEARCH, rules about cpusets that their user may write the file
cpuset.cpus of the control group. It says what it lacks, and does the rest.

Exit status: 0 after a signal, or if the configuration is good; 1 if it could not go on, or not take everything
back; 2 if something was refused.";

/// Watches all tasks of this machine, and brings them together with their memory.
///
/// Without --apply it only says what it would do.
#[derive(Debug, Parser)]
#[command(name = "quartierd", version, after_help = EXAMPLES)]
pub struct Args {
    /// Move threads and pages, instead of only saying which
    #[arg(long)]
    pub apply: bool,
    /// The configuration; read again on SIGHUP [default: /etc/quartier/quartierd.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say whether the configuration is good, and do nothing else
    #[arg(long, conflicts_with_all = ["apply", "log"])]
    pub check: bool,
    /// Where what is changed is written down, so that it can be undone
    #[arg(long, value_name = "FILE", default_value = "/var/lib/quartier/journal")]
    pub journal: PathBuf,
    /// Where snapshots, plans and outcomes are written, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}
