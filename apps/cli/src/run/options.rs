//! Values of the options of `quartier run`.

use std::str::FromStr;

use quartier_model::CpuList;
use quartier_session::{Pin, Policy, Rung};

/// `--policy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyOption {
    /// A policy without nodes of its own.
    Plain(Policy),
    /// Round robin over all nodes.
    Interleave,
    /// Only these nodes.
    Bind(CpuList),
}

impl PolicyOption {
    /// The policy that the runtime is told.
    pub fn policy(&self) -> Policy {
        match self {
            Self::Plain(policy) => *policy,
            Self::Interleave => Policy::Interleave,
            Self::Bind(_) => Policy::Bind,
        }
    }
}

impl FromStr for PolicyOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("bind", nodes)) => {
                let list: CpuList = nodes
                    .parse()
                    .map_err(|error: quartier_model::CpuListError| error.to_string())?;
                if list.is_empty() {
                    return Err("bind= needs nodes, such as bind=0,2".to_owned());
                }
                Ok(Self::Bind(list))
            }
            None => match text {
                "next-touch" => Ok(Self::Plain(Policy::NextTouch)),
                "first-touch" => Ok(Self::Plain(Policy::FirstTouch)),
                "none" => Ok(Self::Plain(Policy::None)),
                "interleave" => Ok(Self::Interleave),
                "bind" => Err("bind needs nodes, such as bind=0,2".to_owned()),
                _ => Err(unknown(text)),
            },
            Some(_) => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!(
        "there is no policy `{text}`; use next-touch, first-touch, interleave, bind=NODES or none"
    )
}

/// `--pin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PinOption {
    /// Starts on the CPU chosen, may move between the CPUs of that node
    Node,
    /// Stays on the CPU chosen
    Cpu,
    /// Not placed
    None,
}

impl PinOption {
    /// What the runtime is told.
    pub fn pin(self) -> Pin {
        match self {
            Self::Node => Pin::Node,
            Self::Cpu => Pin::Cpu,
            Self::None => Pin::None,
        }
    }
}

/// `--rung`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RungOption {
    /// The best that works
    Auto,
    /// UFFDIO_RWPROTECT (Linux 7.3)
    Rwp,
    /// UFFDIO_MOVE (Linux 6.8)
    Move,
    /// Threads only
    None,
}

impl RungOption {
    /// The highest rung allowed.
    pub fn highest(self) -> Rung {
        match self {
            Self::Auto | Self::Rwp => Rung::Rwp,
            Self::Move => Rung::Move,
            Self::None => Rung::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_and_nothing_else() {
        for (text, policy) in [
            ("next-touch", Policy::NextTouch),
            ("first-touch", Policy::FirstTouch),
            ("interleave", Policy::Interleave),
            ("none", Policy::None),
            ("bind=0-1,3", Policy::Bind),
        ] {
            assert_eq!(text.parse::<PolicyOption>().unwrap().policy(), policy);
        }
        for bad in ["", "bind", "bind=", "bind=x", "interleave=1", "next", "Next-Touch"] {
            assert!(bad.parse::<PolicyOption>().is_err(), "{bad}");
        }
    }
}
