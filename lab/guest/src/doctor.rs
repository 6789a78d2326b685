//! Looks at everything the lab needs, without changing or fetching anything.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use quartier_model::Bytes;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::apt::Mirror;
use crate::cache::Cache;
use crate::error::Result;
use crate::guest::snapshot::Snapshots;
use crate::initramfs;
use crate::kernel::Kernel;
use crate::modules::{ModuleTree, NEEDED};
use crate::qemu::Qemu;

/// Open files below which a file server soon refuses: every file the guest knows takes one.
const OPEN_FILES_MIN: u64 = 16_384;
/// Memory of the default guest.
const MEMORY_WANTED: Bytes = Bytes::from_mib(2048);

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// The lab works, with a limit.
    Limited,
    /// The lab does not work until it is there.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it, where there is something to do.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), remedy: None }
    }

    fn not_ok(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { name, state, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// Looks at everything.
#[must_use]
pub fn check(cache: &Cache) -> Vec<Check> {
    let kernels = Kernel::cached(cache).unwrap_or_default();
    vec![
        check_cache(cache),
        check_fetching(),
        check_qemu(cache),
        check_kernels(&kernels),
        check_snapshots(cache),
        check_first_process(kernels.last()),
        check_open_files(),
        check_memory(),
        check_kvm(),
    ]
}

fn check_cache(cache: &Cache) -> Check {
    let name = "cache";
    let root = cache.root();
    let existing = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Check::ok(name, root.display().to_string()),
        Err(error) => Check::not_ok(
            name,
            State::Limited,
            format!("{} cannot be written: {error}", root.display()),
            "set QUARTIER_CACHE to a folder of yours",
        ),
    }
}

fn check_fetching() -> Check {
    let name = "fetching";
    let remedy = "without it, give --kernel PATH and install qemu-system-x86_64 yourself";
    let unpack = Command::new("dpkg-deb").arg("--version").stdout(Stdio::null()).status();
    if !unpack.is_ok_and(|status| status.success()) {
        return Check::not_ok(name, State::Limited, "there is no dpkg-deb", remedy);
    }
    match Mirror::of_host() {
        Ok(_) => Check::ok(name, "the host's apt has a mirror of Debian's archive"),
        Err(error) => Check::not_ok(name, State::Limited, error.to_string(), remedy),
    }
}

fn check_qemu(cache: &Cache) -> Check {
    match Qemu::find_present(cache) {
        Some(qemu) => Check::ok("qemu", format!("{} at {}", qemu.version, qemu.program.display())),
        None => Check::not_ok(
            "qemu",
            State::Missing,
            "neither on the PATH nor in the cache is one new enough",
            "quartier lab fetch",
        ),
    }
}

fn check_kernels(kernels: &[Kernel]) -> Check {
    if kernels.is_empty() {
        let found = "none is in the cache";
        return Check::not_ok("kernels", State::Missing, found, "quartier lab fetch");
    }
    let releases: Vec<_> = kernels.iter().map(|kernel| kernel.release.as_str()).collect();
    Check::ok("kernels", releases.join(", "))
}

fn check_snapshots(cache: &Cache) -> Check {
    let name = "snapshots";
    let snapshots = Snapshots::at(&cache.snapshots());
    let (count, bytes) = snapshots.about();
    let found = format!("{count} of guests that have booted, {bytes}");
    if snapshots.has_room() {
        return Check::ok(name, found);
    }
    Check::not_ok(
        name,
        State::Limited,
        format!("{found}; no other is taken, for the disk is nearly full"),
        "guests boot all the same; for sooner ones let QUARTIER_CACHE be where 4 GiB are free",
    )
}

fn check_first_process(kernel: Option<&Kernel>) -> Check {
    let name = "first process";
    let build = || -> Result<usize> {
        let modules = match kernel.and_then(|kernel| kernel.modules.as_ref()) {
            Some(folder) => ModuleTree::open(folder)?.load_order(&NEEDED)?,
            None => Vec::new(),
        };
        let program = Path::new("/proc/self/exe");
        let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
        Ok(initramfs::build(&program, &modules, None)?.len())
    };
    match build() {
        Ok(bytes) => Check::ok(name, format!("{} in memory", Bytes(bytes as u64))),
        Err(error) => Check::not_ok(
            name,
            State::Missing,
            error.to_string(),
            "use a quartier built for this system",
        ),
    }
}

fn check_open_files() -> Check {
    let name = "open files";
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < OPEN_FILES_MIN => Check::not_ok(
            name,
            State::Limited,
            format!("at most {limit}, and a guest that walks many files needs more"),
            format!("raise the hard limit: ulimit -Hn {OPEN_FILES_MIN}"),
        ),
        Some(limit) => Check::ok(name, format!("at most {limit}")),
        None => Check::ok(name, "no limit"),
    }
}

fn check_memory() -> Check {
    let name = "memory";
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| Bytes::from_mib(kib / 1024));
    match available {
        None => Check::not_ok(name, State::Limited, "unknown", "mount /proc"),
        Some(size) if size < MEMORY_WANTED => Check::not_ok(
            name,
            State::Limited,
            format!("{size} available"),
            format!("the default guest may use {MEMORY_WANTED}: give a smaller --mem"),
        ),
        Some(size) => Check::ok(name, format!("{size} available")),
    }
}

fn check_kvm() -> Check {
    let usable = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    let found = if usable {
        "/dev/kvm is there, and used only with --kvm: it may not boot a stock kernel"
    } else {
        "not usable, and not needed"
    };
    Check::ok("kvm", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cache_names_the_command_that_fills_it() {
        let folder = tempfile::tempdir().unwrap();
        let checks = check(&Cache::at(folder.path().join("not-yet")));
        let kernels = checks.iter().find(|check| check.name == "kernels").unwrap();
        assert_eq!(kernels.state, State::Missing);
        assert_eq!(kernels.remedy.as_deref(), Some("quartier lab fetch"));
        let first = checks.iter().find(|check| check.name == "first process").unwrap();
        assert_eq!(first.state, State::Ok, "{}", first.found);
        assert!(!folder.path().join("not-yet").exists(), "looking changes nothing");
    }
}
