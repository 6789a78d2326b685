//! How each policy is set: what stands before the command, what runs beside it, and what the kernel is
//! told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use quartier_count::Policy;

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyOption {
    /// Linux as it is, without NUMA balancing
    FirstTouch,
    /// numactl --interleave=all
    Interleave,
    /// The kernel's automatic NUMA balancing
    NumaBalancing,
    /// The daemon numad
    Numad,
    /// The best placement by hand
    Hand,
    /// quartier run
    Quartier,
}

impl From<PolicyOption> for Policy {
    fn from(option: PolicyOption) -> Self {
        match option {
            PolicyOption::FirstTouch => Self::FirstTouch,
            PolicyOption::Interleave => Self::Interleave,
            PolicyOption::NumaBalancing => Self::NumaBalancing,
            PolicyOption::Numad => Self::Numad,
            PolicyOption::Hand => Self::Hand,
            PolicyOption::Quartier => Self::Quartier,
        }
    }
}

/// Placements by hand that are tried where none is given: all on one node; threads held on cores, one
/// after the other, each with what it touches first.
const BY_HAND: [&str; 2] =
    ["numactl --cpunodebind=0 --membind=0", "env OMP_PLACES=cores OMP_PROC_BIND=spread"];

/// One way to set a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    before: Vec<OsString>,
    beside: Vec<OsString>,
    is_balanced: bool,
    detail: Option<String>,
}

impl Way {
    fn before(words: &[&str]) -> Self {
        Self {
            before: words.iter().map(Into::into).collect(),
            beside: Vec::new(),
            is_balanced: false,
            detail: (!words.is_empty()).then(|| words.join(" ")),
        }
    }

    fn of_words(words: &str) -> Self {
        Self::before(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// The command under this policy.
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        [&self.before, command].concat()
    }

    /// What runs as root beside it, if anything does.
    pub fn beside(&self) -> Vec<OsString> {
        self.beside.clone()
    }

    pub fn kernel_arg(&self) -> &'static str {
        if self.is_balanced { "numa_balancing=enable" } else { "numa_balancing=disable" }
    }

    /// As a reader would set it.
    pub fn shown(&self) -> Option<String> {
        self.detail.clone()
    }
}

/// The ways to try for a policy, or why it cannot be tried here.
pub fn ways(policy: Policy, by_hand: &[String]) -> Result<Vec<Way>, String> {
    match policy {
        Policy::FirstTouch => Ok(vec![Way::before(&[])]),
        Policy::Interleave => {
            program("numactl")?;
            Ok(vec![Way::before(&["numactl", "--interleave=all"])])
        }
        Policy::NumaBalancing => Ok(vec![Way {
            is_balanced: true,
            detail: Some("numa_balancing=enable".to_owned()),
            ..Way::before(&[])
        }]),
        Policy::Numad => {
            let numad = program("numad")?;
            // Looks as often as it can, every five seconds.
            let beside = vec![numad.into_os_string(), "-i".into(), "5:5".into()];
            Ok(vec![Way { beside, detail: Some("numad -i 5:5".to_owned()), ..Way::before(&[]) }])
        }
        Policy::Hand if by_hand.is_empty() => {
            program("numactl")?;
            Ok(BY_HAND.map(Way::of_words).to_vec())
        }
        Policy::Hand => Ok(by_hand.iter().map(|words| Way::of_words(words)).collect()),
        Policy::Quartier => {
            let quartier = std::env::current_exe()
                .map_err(|error| format!("cannot find out where quartier is: {error}"))?;
            let mut way = Way::before(&["quartier", "run", "--quiet", "--"]);
            way.before[0] = quartier.into_os_string();
            way.detail = Some("quartier run".to_owned());
            Ok(vec![way])
        }
    }
}

/// A program of this machine, where administrators' programs are too; its package has its name.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{name} is not installed: `apt-get install {name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_stays_as_it_is_behind_what_sets_the_policy() {
        let command: Vec<OsString> = ["./a b", "-x"].map(Into::into).to_vec();
        let shown = |policy, hand: &[String]| ways(policy, hand).unwrap()[0].command(&command);
        assert_eq!(shown(Policy::FirstTouch, &[]), command);
        let by_hand = shown(Policy::Hand, &["taskset  -c 0-3".to_owned()]);
        assert_eq!(by_hand, ["taskset", "-c", "0-3", "./a b", "-x"].map(OsString::from));
        assert_eq!(
            shown(Policy::Quartier, &[])[1..],
            ["run", "--quiet", "--", "./a b", "-x"].map(OsString::from)
        );
    }

    #[test]
    fn only_balancing_balances() {
        for policy in [Policy::FirstTouch, Policy::NumaBalancing, Policy::Quartier] {
            let way = &ways(policy, &[]).unwrap()[0];
            let is_balanced = way.kernel_arg() == "numa_balancing=enable";
            assert_eq!(is_balanced, policy == Policy::NumaBalancing);
        }
    }
}
