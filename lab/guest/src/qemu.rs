//! QEMU: on the PATH if it is new enough, else in the cache, fetched there once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt::{self, Mirror, PrivateApt};
use crate::cache::Cache;
use crate::error::{Context, Error, Result};

const PROGRAM: &str = "qemu-system-x86_64";
/// The first with the plugin interface that counted runs need (and, since 9.1, with all that snapshots do): major and minor number.
const WANTED: (u32, u32) = (9, 2);
/// The first seen to run the lab at all.
const OLDEST: (u32, u32) = (7, 0);

/// A QEMU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Its program.
    pub program: PathBuf,
    /// Its version's text.
    pub version: String,
    /// Where it is unpacked, if it is ours.
    pub prefix: Option<PathBuf>,
}

impl Qemu {
    /// The QEMU to use, fetched if need be.
    ///
    /// # Errors
    /// When there is none and none can be fetched.
    pub fn find(cache: &Cache, progress: &dyn Fn(&str)) -> Result<Self> {
        if let Some(found) = Self::find_present(cache) {
            return Ok(found);
        }
        match Self::fetch(cache, progress) {
            Err(error) => Self::on_path().filter(|old| old.number() >= OLDEST).ok_or(error),
            fetched => fetched,
        }
    }

    /// The QEMU that is here and new enough.
    #[must_use]
    pub fn find_present(cache: &Cache) -> Option<Self> {
        Self::on_path().into_iter().chain(Self::probe_prefix(&cache.qemu())).find(Self::is_new)
    }

    fn on_path() -> Option<Self> {
        let folders = std::env::var_os("PATH")?;
        let program =
            std::env::split_paths(&folders).map(|dir| dir.join(PROGRAM)).find(|p| p.exists())?;
        Self { program, version: String::new(), prefix: None }.probe().ok()
    }

    fn probe_prefix(prefix: &Path) -> Option<Self> {
        let program = prefix.join("usr/bin").join(PROGRAM);
        let prefix = Some(prefix.to_owned());
        program
            .exists()
            .then(|| Self { program, version: String::new(), prefix }.probe().ok())
            .flatten()
    }

    /// Asks for its version, which also shows that it starts.
    fn probe(mut self) -> Result<Self> {
        let name = self.program.display().to_string();
        let mut command = Command::new(&self.program);
        let output = command
            .envs(self.environment())
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::Program {
                program: name.clone(),
                source,
                remedy: "run `quartier lab doctor`",
            })?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().next().and_then(parse_version) {
            Some(version) if output.status.success() => {
                self.version = version;
                Ok(self)
            }
            _ => Err(Error::ProgramFailed {
                program: name,
                status: output.status.to_string(),
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    fn number(&self) -> (u32, u32) {
        let mut parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Whether it has all that the lab can make use of.
    pub(crate) fn is_new(&self) -> bool {
        self.number() >= WANTED
    }

    /// Refuses one that cannot count.
    pub(crate) fn check_counts(&self) -> Result<()> {
        if self.is_new() {
            return Ok(());
        }
        let (major, minor) = WANTED;
        Err(Error::refused(format!(
            "QEMU {} ({}) is too old to count: install {major}.{minor} or newer, or take it off the \
             PATH so that the lab fetches one",
            self.version,
            self.program.display()
        )))
    }

    /// What a QEMU in the cache needs to find its libraries and modules.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let Some(prefix) = &self.prefix else { return Vec::new() };
        let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib"];
        let libraries = std::env::join_paths(folders.map(|folder| prefix.join(folder)))
            .unwrap_or_else(|_| prefix.join(folders[0]).into());
        let modules = prefix.join("usr/lib/x86_64-linux-gnu/qemu");
        vec![("LD_LIBRARY_PATH".into(), libraries), ("QEMU_MODULE_DIR".into(), modules.into())]
    }

    /// What a QEMU in the cache needs to find its firmware.
    #[must_use]
    pub fn data_args(&self) -> Vec<OsString> {
        let Some(prefix) = &self.prefix else { return Vec::new() };
        ["usr/share/qemu", "usr/share/seabios"]
            .into_iter()
            .flat_map(|folder| ["-L".into(), prefix.join(folder).into()])
            .collect()
    }

    /// Fetches QEMU and the libraries that the host lacks into the cache.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn fetch(cache: &Cache, progress: &dyn Fn(&str)) -> Result<Self> {
        let _lock = cache.lock(|| progress("waiting for another quartier that is fetching"))?;
        if let Some(found) = Self::find_present(cache) {
            return Ok(found);
        }
        let missing = |error: Error| Error::Missing {
            what: format!("QEMU {}.{} or newer", WANTED.0, WANTED.1),
            reason: error.to_string(),
            remedy: "install it: `apt-get install qemu-system-x86` (on Debian 12 from \
                     bookworm-backports)"
                .to_owned(),
        };
        let scratch = Self::fetch_packages(cache, progress).map_err(missing)?;
        let home = cache.qemu();
        if home.exists() {
            fs::remove_dir_all(&home).path("replace", &home)?;
        }
        fs::rename(scratch.path().join("tree"), &home).path("move QEMU to", &home)?;
        Self {
            program: home.join("usr/bin").join(PROGRAM),
            version: String::new(),
            prefix: Some(home),
        }
        .probe()
        .map_err(missing)
    }

    fn fetch_packages(cache: &Cache, progress: &dyn Fn(&str)) -> Result<tempfile::TempDir> {
        let suites = suites_of_host()?;
        let apt = PrivateApt::new(&cache.apt("qemu"), &Mirror::of_host()?, &suites, true)?;
        progress("looking for QEMU");
        apt.update()?;
        progress("fetching QEMU");
        let newest = suites.last().copied().unwrap_or("stable");
        let files = apt.download_with_dependencies("qemu-system-x86", newest)?;
        let scratch = tempfile::Builder::new()
            .prefix(".fetching-")
            .tempdir_in(cache.root())
            .path("write in", cache.root())?;
        for file in &files {
            apt::unpack(file, &scratch.path().join("tree"))?;
            fs::remove_file(file).path("remove", file)?;
        }
        Ok(scratch)
    }
}

/// The suites of the host's own release: QEMU must fit the host's libraries.
fn suites_of_host() -> Result<Vec<&'static str>> {
    let path = Path::new("/etc/os-release");
    let text = fs::read_to_string(path).path("read", path)?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("");
    match name.trim_matches('"') {
        "bookworm" => Ok(vec!["bookworm", "bookworm-backports"]),
        "trixie" => Ok(vec!["trixie"]),
        "forky" => Ok(vec!["forky"]),
        "sid" => Ok(vec!["sid"]),
        other => Err(Error::refused(format!(
            "this system is `{other}`, and QEMU is fetched only on Debian 12 or newer"
        ))),
    }
}

/// `10.0.2` from `QEMU emulator version 10.0.2 (Debian …)`.
fn parse_version(line: &str) -> Option<String> {
    let version = line.strip_prefix("QEMU emulator version ")?.split_whitespace().next()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_first_line() {
        let line = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2~bpo12+1)";
        assert_eq!(parse_version(line).as_deref(), Some("10.0.2"));
        assert_eq!(parse_version("bash: not found"), None);
    }

    #[test]
    fn an_old_qemu_cannot_count_and_says_so() {
        for version in ["9.1.3", "7.2.22", "x"] {
            let qemu = Qemu { program: "q".into(), version: version.to_owned(), prefix: None };
            let why = qemu.check_counts().unwrap_err().to_string();
            assert!(why.contains(version) && why.contains("9.2 or newer"), "{why}");
        }
    }

    #[test]
    fn a_qemu_of_the_host_needs_nothing() {
        let qemu = Qemu { program: "q".into(), version: "10.0.2".into(), prefix: None };
        assert!(qemu.environment().is_empty() && qemu.data_args().is_empty());
        assert_eq!(qemu.number(), (10, 0));
        assert!(qemu.check_counts().is_ok());
    }
}
