//! Which way dependencies may go: model <- observe, decide, act <- apps, lab.
//!
//! The folder a package lies in is its layer. Development dependencies obey the same rule: a test
//! that needs two stages belongs to `apps` or `tests`, where both may be used.

use crate::Findings;
use crate::workspace::Package;

/// The layers that each layer may use beside itself. A folder that is not here has no place yet.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("model", &[]),
    ("observe", &["model"]),
    ("decide", &["model"]),
    ("shared", &["model", "decide"]),
    ("act", &["model", "percore"]),
    ("percore", &["model"]),
    ("lab", &["model", "observe", "decide", "shared", "act", "percore"]),
    ("apps", &["model", "observe", "decide", "shared", "act", "percore"]),
    ("tests", &["model", "observe", "decide", "shared", "act", "percore", "lab"]),
    ("xtask", &[]),
];

/// Single arrows outside the rule (from, to, only for tests), each with its reason.
const EXCEPTIONS: [(&str, &str, bool, &str); 9] = [
    ("quartier-cli", "quartier-lab", false, "the lab's commands are commands of quartier"),
    ("quartier-cli", "quartier-count", false, "so is counting"),
    ("quartier-cli", "quartier-memmodel", false, "what is modelled is an option of counting"),
    ("quartier-cli", "quartier-simulate", false, "the simulation is a command of quartier"),
    ("quartier-cli", "quartier-loopback", false, "what both show over HTTP is shown alike"),
    ("quartier-daemon", "quartier-loopback", false, "as above"),
    ("xtask", "quartier-cli", false, "man pages come from the one definition of the command line"),
    ("xtask", "quartier-daemon", false, "so do those of quartierd"),
    ("xtask", "quartier-count", false, "targets are looked up in what a comparison writes"),
];

/// What pure crates may use: nothing that reaches a file, a clock or a random source.
const PURE_LAYERS: [&str; 2] = ["model", "decide"];
/// (loom's atomics stand in for the machine's in model-checked tests.)
const PURE_DEPENDENCIES: [&str; 3] = ["serde", "thiserror", "loom"];

/// Checks every arrow.
pub fn check(packages: &[Package]) -> Findings {
    let mut findings = Findings::default();
    for package in packages {
        let layer = layer(package);
        let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == layer) else {
            findings.require(false, || {
                format!(
                    "{}: `{layer}/` is no known layer; xtask/src/deps.rs lists them",
                    package.name
                )
            });
            continue;
        };
        for dependency in &package.dependencies {
            if !dependency.is_ours {
                let pure = PURE_LAYERS.contains(&layer) && !dependency.is_dev;
                findings.require(
                    !pure || PURE_DEPENDENCIES.contains(&dependency.name.as_str()),
                    || {
                        format!(
                            "{} -> {}: `{layer}` is pure; only {PURE_DEPENDENCIES:?} and our own \
                             pure crates may be used there",
                            package.name, dependency.name
                        )
                    },
                );
                continue;
            }
            let target = packages.iter().find(|other| other.name == dependency.name);
            let Some(target) = target else {
                findings.require(false, || {
                    format!("{} -> {}: not in this workspace", package.name, dependency.name)
                });
                continue;
            };
            let to = self::layer(target);
            let is_tool = layer == "apps" || layer == "xtask" || layer == "tests";
            let allowed = (to == layer && !is_tool)
                || may_use.contains(&to)
                || is_exception(&package.name, &target.name, dependency.is_dev);
            findings.require(allowed, || {
                format!(
                    "{} -> {}: `{layer}` may use {may_use:?}, not `{to}`",
                    package.name, target.name
                )
            });
        }
    }
    findings
}

fn layer(package: &Package) -> &str {
    package.folder.split('/').next().unwrap_or_default()
}

fn is_exception(from: &str, to: &str, is_dev: bool) -> bool {
    EXCEPTIONS.iter().any(|(f, t, only_dev, _)| (*f, *t) == (from, to) && (is_dev || !only_dev))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Workspace};

    fn package(name: &str, folder: &str, dependencies: &[(&str, bool, bool)]) -> Package {
        let dependency = |&(name, is_ours, is_dev): &(&str, bool, bool)| Dependency {
            name: name.to_owned(),
            is_dev,
            is_ours,
        };
        Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            roots: Vec::new(),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    /// A right workspace, with one more arrow.
    fn problems_with(from: &str, to: &str, is_dev: bool) -> Vec<String> {
        let mut packages = vec![
            package("model", "model", &[("serde", false, false), ("proptest", false, true)]),
            package("observe", "observe", &[("model", true, false)]),
            package("decide", "decide", &[("model", true, false)]),
            package("kernel", "act/kernel", &[("libc", false, false)]),
            package("host", "act/host", &[("kernel", true, false), ("model", true, false)]),
            package("quartier-lab", "lab/guest", &[("model", true, false)]),
            package(
                "quartier-cli",
                "apps/cli",
                &[("quartier-lab", true, false), ("host", true, false), ("observe", true, false)],
            ),
            package("runtime", "apps/runtime", &[("decide", true, false), ("host", true, false)]),
            package("xtask", "xtask", &[("quartier-cli", true, false)]),
        ];
        if !from.is_empty() {
            let package = packages.iter_mut().find(|package| package.name == from).unwrap();
            let is_ours = to != "libc";
            package.dependencies.push(Dependency { name: to.to_owned(), is_dev, is_ours });
        }
        check(&packages).problems
    }

    #[test]
    fn the_arrows_of_the_design_are_right() {
        assert_eq!(problems_with("", "", false), Vec::<String>::new());
        assert_eq!(problems_with("quartier-lab", "host", true), Vec::<String>::new());
    }

    #[test]
    fn every_wrong_arrow_is_found_in_tests_too() {
        let wrong = [
            ("model", "observe"),
            ("observe", "decide"),
            ("decide", "observe"),
            ("decide", "host"),
            ("host", "decide"),
            ("kernel", "observe"),
            ("host", "quartier-lab"),
            ("runtime", "quartier-lab"),
            ("runtime", "quartier-cli"),
            ("quartier-cli", "runtime"),
            ("quartier-lab", "quartier-cli"),
            ("observe", "xtask"),
            ("xtask", "model"),
            ("observe", "missing"),
        ];
        for (from, to) in wrong {
            for is_dev in [false, true] {
                let problems = problems_with(from, to, is_dev);
                assert_eq!(problems.len(), 1, "{from} -> {to}: {problems:?}");
                assert!(problems[0].starts_with(&format!("{from} -> {to}: ")), "{problems:?}");
            }
        }
    }

    #[test]
    fn pure_crates_reach_nothing_outside_but_their_tests_may() {
        assert_eq!(problems_with("decide", "libc", false).len(), 1);
        assert_eq!(problems_with("model", "libc", false).len(), 1);
        assert_eq!(problems_with("decide", "libc", true).len(), 0);
        assert_eq!(problems_with("observe", "libc", false).len(), 0);
    }

    #[test]
    fn a_folder_without_a_layer_is_a_finding() {
        let findings = check(&[package("stray", "misc/stray", &[])]);
        assert_eq!(findings.problems.len(), 1, "{findings:?}");
        assert!(findings.problems[0].contains("`misc/` is no known layer"), "{findings:?}");
    }

    #[test]
    fn no_exception_outlives_its_arrow() {
        let packages = Workspace::load().unwrap().packages;
        for (from, to, _, reason) in EXCEPTIONS {
            let from = packages.iter().find(|package| package.name == from).unwrap();
            assert!(from.dependencies.iter().any(|dependency| dependency.name == to), "{reason}");
        }
    }
}
