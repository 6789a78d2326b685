//! A run that somebody starts whom `quartierd` holds on a node inherits its CPUs. Nobody meant that for the run.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use quartier_act::widen_own_affinity;
use quartier_model::{CpuList, Machine, NodeOsId};
use quartier_observe::tasks::cpus_left_to;

use crate::daemon_client::{self, Daemon};

/// A program does not wait longer for an answer before it starts.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Who is asked whether whoever starts a run is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskOption {
    Nobody,
    At(SocketAddr),
}

impl FromStr for AskOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Nobody),
            address => daemon_client::address(address).map(Self::At),
        }
    }
}

impl AskOption {
    /// As the environment says, or where quartierd usually is. What the environment says wrongly is no reason not to run a program.
    fn usual() -> Self {
        match std::env::var(daemon_client::ADDRESS_VARIABLE) {
            Ok(text) => text.parse().unwrap_or(Self::Nobody),
            Err(_) => Self::At(daemon_client::ADDRESS),
        }
    }
}

/// Gives this program the CPUs back that `quartierd` has taken from whoever started it, `own` being those that it has. Gives the
/// node that it was held on; `None`: nobody was held, or no `quartierd` answers.
pub fn widen(machine: &Machine, own: &CpuList, ask: Option<AskOption>) -> Option<NodeOsId> {
    let AskOption::At(at) = ask.unwrap_or_else(AskOption::usual) else { return None };
    if machine.nodes().len() == 1 {
        return None;
    }
    let whole = cpus_left_to(Path::new("/"), std::process::id());
    let limits = Limits::of(machine, own, whole.as_ref());
    if limits.is_wide() {
        return None;
    }
    let answer = Daemon::within(at, ANSWER_WITHIN).explanation(std::process::id()).ok()?;
    let node = answer.held_on.into_iter().chain(answer.starter_held_on);
    let node = node.into_iter().find(|os_id| limits.is_held_on(machine, *os_id))?;
    widen_own_affinity(&limits.whole).then_some(node)
}

/// What a program has of what its cpuset leaves to it. CPUs that are offline are in neither.
#[derive(Debug)]
struct Limits {
    own: CpuList,
    whole: CpuList,
}

impl Limits {
    fn of(machine: &Machine, own: &CpuList, whole: Option<&CpuList>) -> Self {
        let online = machine.cpus().iter().filter(|cpu| cpu.online).map(|cpu| cpu.os_id.0);
        let online: CpuList = online.collect();
        Self {
            own: both(own, &online),
            whole: whole.map_or_else(|| online.clone(), |whole| both(whole, &online)),
        }
    }

    fn is_wide(&self) -> bool {
        self.own == self.whole
    }

    /// Whether it has what a cpuset leaves of a node: that, and nothing else, is what `quartierd` leaves to whom it holds there.
    fn is_held_on(&self, machine: &Machine, node: NodeOsId) -> bool {
        let of_node = machine.node_by_os_id(node).map(|node| machine.node_cpu_list(node));
        of_node.is_some_and(|of_node| self.own == both(&of_node, &self.whole))
    }
}

fn both(a: &CpuList, b: &CpuList) -> CpuList {
    a.iter().filter(|cpu| b.contains(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use quartier_model::SyntheticSpec;

    use super::*;
    use crate::fake_daemon::FakeDaemon;

    fn limits(own: &str, whole: Option<&str>) -> (Machine, Limits) {
        let machine = SyntheticSpec::uniform(4, 2).machine().unwrap();
        let whole = whole.map(|whole| whole.parse().unwrap());
        let limits = Limits::of(&machine, &own.parse().unwrap(), whole.as_ref());
        (machine, limits)
    }

    #[test]
    fn only_what_looks_like_a_hold_is_taken_for_one() {
        for (own, whole, held_on) in [
            ("2-3", None, Some(1)),
            // A part of a node, or more than one, is somebody's will.
            ("2", None, None),
            ("2-5", None, None),
            // A cpuset leaves a part of a node.
            ("2", Some("0,2,4"), Some(1)),
            // What is not there is in no list of the kernel's that counts.
            ("2-3,8-9", Some("0-9"), Some(1)),
        ] {
            let (machine, limits) = limits(own, whole);
            let found = (0..4).find(|node| limits.is_held_on(&machine, NodeOsId(*node)));
            assert_eq!(found, held_on, "{own} of {whole:?}");
        }
    }

    #[test]
    fn who_has_all_cpus_that_are_online_asks_nobody() {
        for (own, whole, is_wide) in [
            ("0-7", None, true),
            ("0-63", None, true),
            ("0-3", Some("0-3"), true),
            ("0-3", None, false),
        ] {
            assert_eq!(limits(own, whole).1.is_wide(), is_wide, "{own} of {whole:?}");
        }
    }

    #[test]
    fn who_does_not_answer_does_not_keep_a_program_waiting() {
        let silent = FakeDaemon::writing(|_, to| _ = to.read_to_end(&mut Vec::new()));
        let (machine, _) = limits("0-1", None);
        let began = Instant::now();
        let own: CpuList = "0".parse().unwrap();
        assert_eq!(widen(&machine, &own, Some(AskOption::At(silent.at))), None);
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(widen(&machine, &own, Some(AskOption::Nobody)), None);
    }

    #[test]
    fn an_address_or_off_is_given() {
        assert_eq!("off".parse(), Ok(AskOption::Nobody));
        assert_eq!("127.0.0.1:7".parse(), Ok(AskOption::At("127.0.0.1:7".parse().unwrap())));
        for bad in ["", "on", "10.0.0.1:7117"] {
            assert!(bad.parse::<AskOption>().is_err(), "{bad}");
        }
    }
}
