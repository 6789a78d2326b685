//! How each policy is set: what stands before the command, what runs beside it, and what the kernel is
//! told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use quartier_count::Policy;

use super::point::Point;

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyOption {
    /// Linux without NUMA balancing
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
    /// quartier run, with the kernel's automatic NUMA balancing on
    QuartierBalanced,
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
            PolicyOption::QuartierBalanced => Self::QuartierBalanced,
        }
    }
}

/// Threads held on cores, neighbours together or far apart, and memory where it is touched first or all
/// around. What is not OpenMP's takes no notice of these variables.
const BY_HAND: [&str; 4] = [
    "env OMP_PLACES=cores OMP_PROC_BIND=close",
    "env OMP_PLACES=cores OMP_PROC_BIND=spread",
    "numactl --interleave=all env OMP_PLACES=cores OMP_PROC_BIND=close",
    "numactl --interleave=all env OMP_PLACES=cores OMP_PROC_BIND=spread",
];

/// The daemon's program and package.
const NUMAD: &str = "numad";

/// Words of an option, as a shell would divide them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<String>);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match shlex::split(text) {
            None => Err("a quote is not closed: close it".to_owned()),
            Some(words) if words.is_empty() => Err("there is no word in it: give some".to_owned()),
            Some(words) => Ok(Self(words)),
        }
    }
}

/// Placements by hand that are given.
#[derive(Clone, Debug, clap::Args)]
pub struct ByHand {
    /// What to put before the command to place it by hand; may be repeated, and the best counts
    ///
    /// Without it, these are tried: all on one node; OMP_PLACES=cores, close and spread, each with first
    /// touch and with `numactl --interleave=all`. Nothing at all is tried too, if first touch is counted.
    #[arg(long = "hand", value_name = "WORDS", conflicts_with = "from")]
    before: Vec<Words>,
    /// A command that stands in the place of CMD, placed by hand inside; may be repeated
    #[arg(long = "hand-instead", value_name = "WORDS", conflicts_with = "from")]
    instead: Vec<Words>,
}

/// One way to set a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    before: Vec<OsString>,
    /// There is nothing after `before`.
    is_instead: bool,
    beside: Vec<OsString>,
    is_balanced: bool,
    detail: Option<String>,
}

impl Way {
    fn before<T: AsRef<str>>(words: &[T]) -> Self {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        Self {
            before: words.iter().map(Into::into).collect(),
            is_instead: false,
            beside: Vec::new(),
            is_balanced: false,
            detail: (!words.is_empty()).then(|| words.join(" ")),
        }
    }

    /// Nothing is set.
    pub fn as_it_is() -> Self {
        Self::before::<&str>(&[])
    }

    fn instead(words: &Words) -> Self {
        let way = Self::before(&words.0);
        let detail = way.detail.map(|detail| format!("instead: {detail}"));
        Self { is_instead: true, detail, ..way }
    }

    /// The command under this policy.
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        if self.is_instead { self.before.clone() } else { [&self.before, command].concat() }
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

impl ByHand {
    /// The ways to try, each once.
    fn ways(&self, point: &Point) -> Vec<Way> {
        let mut ways: Vec<_> = if self.before.is_empty() {
            let one_node = point.one_node.as_ref().map(|(node, cpus)| {
                let cpus = format!("--physcpubind={cpus}");
                Way::before(&["numactl", &cpus, &format!("--membind={node}")])
            });
            let others = BY_HAND.map(|words| Way::before(&words.split(' ').collect::<Vec<_>>()));
            one_node.into_iter().chain(others).collect()
        } else {
            self.before.iter().map(|words| Way::before(&words.0)).collect()
        };
        ways.extend(self.instead.iter().map(Way::instead));
        let mut known = Vec::new();
        ways.retain(|way| {
            let is_new = !known.contains(way);
            known.push(way.clone());
            is_new
        });
        ways
    }
}

/// The ways to try for a policy, or why it cannot be tried here.
pub fn ways(
    policy: Policy,
    by_hand: &ByHand,
    point: &Point,
    slow_clocks: u32,
) -> Result<Vec<Way>, String> {
    match policy {
        Policy::FirstTouch => Ok(vec![Way::as_it_is()]),
        Policy::Interleave => {
            program("numactl")?;
            Ok(vec![Way::before(&["numactl", "--interleave=all"])])
        }
        Policy::NumaBalancing => Ok(vec![Way {
            is_balanced: true,
            detail: Some("numa_balancing=enable".to_owned()),
            ..Way::as_it_is()
        }]),
        Policy::Numad => {
            let numad = program(NUMAD)?;
            // Looks as often as it can, every five seconds.
            let seconds = 5 * slow_clocks;
            let interval = format!("{seconds}:{seconds}");
            let detail = Some(format!("numad -i {interval}"));
            let beside = vec![numad.into_os_string(), "-i".into(), interval.into()];
            Ok(vec![Way { beside, detail, ..Way::as_it_is() }])
        }
        Policy::Hand => Ok(by_hand.ways(point)),
        Policy::Quartier | Policy::QuartierBalanced => {
            let quartier = std::env::current_exe()
                .map_err(|error| format!("cannot find out where quartier is: {error}"))?;
            let slow = (slow_clocks > 1).then(|| format!("--slow-clocks={slow_clocks}"));
            let mut words = vec!["quartier", "run", "--quiet"];
            words.extend(slow.as_deref());
            words.push("--");
            let mut way = Way::before(&words);
            way.before[0] = quartier.into_os_string();
            way.is_balanced = policy == Policy::QuartierBalanced;
            let balanced = if way.is_balanced { ", numa_balancing=enable" } else { "" };
            way.detail = Some(format!("quartier run{balanced}"));
            Ok(vec![way])
        }
    }
}

/// A program of this machine, where administrators' programs are too; its package has its name.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        // A daemon's package starts it.
        let daemon = if name == NUMAD { ", which starts it on this machine too" } else { "" };
        format!("{name} is not installed: `apt-get install {name}`{daemon}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_model::CpuList;

    fn point() -> Point {
        let cpus = |list: &str| list.parse::<CpuList>().unwrap();
        Point { nr_cpus: 3, cpus: cpus("0-2"), is_all: false, one_node: Some((0, cpus("0-1"))) }
    }

    fn by_hand(before: &[&str], instead: &[&str]) -> ByHand {
        let words = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        ByHand { before: words(before), instead: words(instead) }
    }

    #[test]
    fn the_command_stays_as_it_is_behind_what_sets_the_policy() {
        let command: Vec<OsString> = ["./a b", "-x"].map(Into::into).to_vec();
        let shown =
            |policy, hand: &ByHand| ways(policy, hand, &point(), 1).unwrap()[0].command(&command);
        let none = by_hand(&[], &[]);
        assert_eq!(shown(Policy::FirstTouch, &none), command);
        let hand = shown(Policy::Hand, &by_hand(&["taskset  -c '0 -3'"], &[]));
        assert_eq!(hand, ["taskset", "-c", "0 -3", "./a b", "-x"].map(OsString::from));
        assert_eq!(
            shown(Policy::Quartier, &none)[1..],
            ["run", "--quiet", "--", "./a b", "-x"].map(OsString::from)
        );
        let slow = &ways(Policy::Quartier, &none, &point(), 200).unwrap()[0];
        assert_eq!(
            slow.command(&command)[2..4],
            ["--quiet", "--slow-clocks=200"].map(OsString::from)
        );
    }

    #[test]
    fn what_stands_in_the_commands_place_competes_with_what_is_before_it() {
        let shown = |hand: &ByHand| -> Vec<_> {
            ways(Policy::Hand, hand, &point(), 1).unwrap().iter().filter_map(Way::shown).collect()
        };
        let found = shown(&by_hand(&[], &["./by-hand 8"]));
        assert_eq!((found.len(), found[0].as_str()), (6, "numactl --physcpubind=0-1 --membind=0"));
        assert_eq!(found[5], "instead: ./by-hand 8");
        let given = shown(&by_hand(&["taskset -c 0", "taskset -c 0"], &["./by-hand"]));
        assert_eq!(given, ["taskset -c 0", "instead: ./by-hand"]);
        let way = Way::instead(&"./by-hand 8".parse().unwrap());
        assert_eq!(way.command(&["./a".into()]), ["./by-hand", "8"].map(OsString::from));
    }

    #[test]
    fn words_that_cannot_be_divided_are_refused() {
        for text in ["", "  ", "taskset -c '0"] {
            assert!(text.parse::<Words>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_balancing_balances() {
        let ours = [Policy::Quartier, Policy::QuartierBalanced];
        for policy in [Policy::FirstTouch, Policy::NumaBalancing].into_iter().chain(ours) {
            let way = &ways(policy, &by_hand(&[], &[]), &point(), 1).unwrap()[0];
            let is_balanced = way.kernel_arg() == "numa_balancing=enable";
            let balances = [Policy::NumaBalancing, Policy::QuartierBalanced];
            assert_eq!(is_balanced, balances.contains(&policy));
        }
    }
}
