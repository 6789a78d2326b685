//! Which tasks may be placed, as the administrator says, and where those go that he pins.

use quartier_model::{NodeOsId, Standing};
use serde::{Deserialize, Serialize};

/// Which processes a rule is about: those for which everything holds that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Who {
    /// The name as `ps -o comm` prints it; `*` at its end stands for anything.
    pub name: Option<String>,
    /// The numeric id of its user.
    pub uid: Option<u32>,
    /// Its control group, or one above it, such as `/system.slice/postgresql.service`.
    pub cgroup: Option<String>,
    /// A variable of its environment, `NAME` or `NAME=VALUE`.
    pub environment: Option<String>,
}

/// A process that goes to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Which.
    pub who: Who,
    /// Where.
    pub node: NodeOsId,
}

/// What the administrator says of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// If not empty, nothing else is placed.
    pub only: Vec<Who>,
    /// These are not.
    pub never: Vec<Who>,
    /// The first that fits counts.
    pub pin: Vec<Pin>,
    /// These may be held by the cpuset of their control group, rather than thread by thread.
    pub cpuset: Vec<Who>,
}

/// What rules ask about a process.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub name: &'a str,
    pub uid: Option<u32>,
    pub cgroup: Option<&'a str>,
    /// Strings that end with a zero byte.
    pub environment: Option<&'a [u8]>,
}

impl Rules {
    /// Whether any rule asks for the environment, which not everybody may read.
    pub fn ask_for_environment(&self) -> bool {
        let pins = self.pin.iter().map(|pin| &pin.who);
        let all = self.only.iter().chain(&self.never).chain(&self.cpuset).chain(pins);
        all.into_iter().any(|who| who.environment.is_some())
    }

    /// Whether a process may be placed as far as rules go.
    pub fn standing(&self, asked: Asked<'_>) -> Standing {
        match () {
            () if self.never.iter().any(|who| who.is(asked)) => Standing::OptedOut,
            () if self.only.is_empty() || self.only.iter().any(|who| who.is(asked)) => {
                Standing::Free
            }
            () => Standing::NotOptedIn,
        }
    }

    /// Where the administrator wants a process.
    pub fn pin_of(&self, asked: Asked<'_>) -> Option<NodeOsId> {
        self.pin.iter().find(|pin| pin.who.is(asked)).map(|pin| pin.node)
    }

    /// Whether a process may be held by the cpuset of its control group.
    pub fn may_narrow(&self, asked: Asked<'_>) -> bool {
        self.cpuset.iter().any(|who| who.is(asked))
    }
}

impl Who {
    fn is(&self, asked: Asked<'_>) -> bool {
        let name = self.name.as_ref().is_none_or(|name| matches(name, asked.name));
        let uid = self.uid.is_none_or(|uid| asked.uid == Some(uid));
        let cgroup = self
            .cgroup
            .as_ref()
            .is_none_or(|above| asked.cgroup.is_some_and(|cgroup| is_below(cgroup, above)));
        let environment = self.environment.as_ref().is_none_or(|wanted| {
            asked.environment.is_some_and(|environment| has_variable(environment, wanted))
        });
        // A rule that says nothing is about nobody.
        *self != Self::default() && name && uid && cgroup && environment
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn is_below(cgroup: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    cgroup.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn has_variable(environment: &[u8], wanted: &str) -> bool {
    let (name, value) =
        wanted.split_once('=').map_or((wanted, None), |(name, value)| (name, Some(value)));
    environment.split(|byte| *byte == 0).any(|variable| {
        let rest = variable.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        rest.is_some_and(|rest| value.is_none_or(|value| rest == value.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTGRES: Asked<'_> = Asked {
        name: "postgres",
        uid: Some(105),
        cgroup: Some("/system.slice/postgresql.service/worker"),
        environment: Some(b"HOME=/x\0QUARTIER=no\0"),
    };

    fn who(set: impl FnOnce(&mut Who)) -> Who {
        let mut who = Who::default();
        set(&mut who);
        who
    }

    #[test]
    fn a_rule_is_about_those_for_which_all_of_it_holds() {
        let name = |name: &str| who(|who| who.name = Some(name.to_owned()));
        let cgroup = |path: &str| who(|who| who.cgroup = Some(path.to_owned()));
        let variable = |text: &str| who(|who| who.environment = Some(text.to_owned()));
        for (rule, expected) in [
            (Who::default(), false),
            (name("postgres"), true),
            (name("postgre"), false),
            (name("post*"), true),
            (who(|who| who.uid = Some(105)), true),
            (who(|who| who.uid = Some(0)), false),
            (cgroup("/system.slice/postgresql.service"), true),
            (cgroup("/system.slice/postgresql"), false),
            (cgroup("/"), true),
            (variable("QUARTIER"), true),
            (variable("QUARTIER=no"), true),
            (variable("QUARTIER=yes"), false),
            (variable("QUART"), false),
            (Who { uid: Some(0), ..name("postgres") }, false),
        ] {
            assert_eq!(rule.is(POSTGRES), expected, "{rule:?}");
        }
        let unknown = Asked { uid: None, cgroup: None, environment: None, ..POSTGRES };
        assert!(!variable("QUARTIER").is(unknown) && !cgroup("/").is(unknown));
    }

    #[test]
    fn who_is_opted_out_is_so_even_if_opted_in() {
        let everyone = who(|who| who.name = Some("*".to_owned()));
        let nobody = who(|who| who.name = Some("nobody".to_owned()));
        let rules = |only: &[&Who], never: &[&Who]| Rules {
            only: only.iter().map(|who| (*who).clone()).collect(),
            never: never.iter().map(|who| (*who).clone()).collect(),
            pin: vec![Pin { who: everyone.clone(), node: NodeOsId(3) }],
            ..Rules::default()
        };
        assert_eq!(rules(&[], &[]).standing(POSTGRES), Standing::Free);
        assert_eq!(rules(&[&nobody], &[]).standing(POSTGRES), Standing::NotOptedIn);
        assert_eq!(rules(&[&everyone], &[&everyone]).standing(POSTGRES), Standing::OptedOut);
        assert_eq!(rules(&[], &[]).pin_of(POSTGRES), Some(NodeOsId(3)));
    }
}
