//! Kernels: cached, fetched, or given by path.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::apt::{self, Mirror, PrivateApt, SUITES, Suite};
use crate::bzimage;
use crate::cache::Cache;
use crate::error::{Context, Error, Result};

/// Which kernel to boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelSpec {
    /// The newest in the cache, or the newest stable one there is.
    #[default]
    Newest,
    /// The newest whose release begins with these numbers: `6.12`, `7.3.4`.
    Version(String),
    /// This boot image.
    Path(PathBuf),
}

impl FromStr for KernelSpec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Path(text.into()));
        }
        let mut parts = text.splitn(2, '.');
        let starts_with_numbers =
            parts.all(|part| part.starts_with(|first: char| first.is_ascii_digit()));
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || ".+-~".contains(c));
        if starts_with_numbers && plain && text.contains('.') {
            Ok(Self::Version(text.to_owned()))
        } else if Path::new(text).exists() {
            Ok(Self::Path(text.into()))
        } else {
            Err(format!(
                "`{text}` is neither a kernel version such as 6.12 nor the path of a boot image"
            ))
        }
    }
}

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What `uname -r` prints in it.
    pub release: String,
    /// Its boot image.
    pub image: PathBuf,
    /// What that holds, where a machine can begin with it at once.
    pub unpacked: Option<PathBuf>,
    /// Its `/lib/modules/RELEASE`, where there is one.
    pub modules: Option<PathBuf>,
    /// Its build configuration, where known.
    pub config: Option<PathBuf>,
}

/// Where a cached kernel came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The suite of the Debian archive.
    pub suite: String,
    /// The package files.
    pub packages: Vec<String>,
}

/// Whether `release` is of `version`: begins with it, at a number's end.
fn is_of_version(release: &str, version: &str) -> bool {
    release
        .strip_prefix(version)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// Orders releases by their numbers.
fn release_key(release: &str) -> Vec<u64> {
    let numbers = release.trim_end_matches("-cloud-amd64").trim_end_matches("-amd64");
    numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Kernel {
    /// The kernels in the cache, oldest first.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn cached(cache: &Cache) -> Result<Vec<Self>> {
        let folder = cache.kernels();
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut kernels = Vec::new();
        for entry in fs::read_dir(&folder).path("read", &folder)? {
            let name = entry.path("read", &folder)?.file_name();
            let release = name.to_string_lossy().into_owned();
            let home = folder.join(&name);
            if !release.starts_with('.') && home.join("vmlinuz").exists() {
                kernels.push(Self::in_folder(&home, release));
            }
        }
        kernels.sort_by_key(|kernel| release_key(&kernel.release));
        Ok(kernels)
    }

    fn in_folder(home: &Path, release: String) -> Self {
        let modules = home.join("lib/modules").join(&release);
        let config = home.join("config");
        let unpacked = home.join("vmlinux");
        Self {
            image: home.join("vmlinuz"),
            unpacked: unpacked.exists().then_some(unpacked),
            modules: modules.exists().then_some(modules),
            config: config.exists().then_some(config),
            release,
        }
    }

    /// Where this cached kernel came from, where that was written down.
    #[must_use]
    pub fn provenance(&self) -> Option<Provenance> {
        let text = fs::read(self.image.parent()?.join("origin.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// A kernel by the path of its boot image. Modules are looked for beside it and on the host.
    ///
    /// # Errors
    /// When the file is no boot image.
    pub fn at(path: &Path) -> Result<Self> {
        let release = bzimage::release(path)?;
        let path = fs::canonicalize(path).path("find", path)?;
        let home = path.parent().unwrap_or(Path::new("/"));
        let find = |candidates: [PathBuf; 3]| candidates.into_iter().find(|path| path.exists());
        Ok(Self {
            modules: find([
                home.join("lib/modules").join(&release),
                home.join("../lib/modules").join(&release),
                Path::new("/lib/modules").join(&release),
            ]),
            config: find([
                home.join("config"),
                home.join(format!("config-{release}")),
                Path::new("/lib/modules").join(&release).join("config"),
            ]),
            image: path,
            unpacked: None,
            release,
        })
    }

    /// The kernel asked for: from the cache, or fetched into it.
    ///
    /// # Errors
    /// When there is no such kernel or it cannot be fetched.
    pub fn find(spec: &KernelSpec, cache: &Cache, progress: &dyn Fn(&str)) -> Result<Self> {
        if let KernelSpec::Path(path) = spec {
            return Self::at(path);
        }
        match Self::find_cached(spec, cache)? {
            Some(kernel) => Ok(kernel),
            None => Self::fetch(spec, cache, progress),
        }
    }

    fn find_cached(spec: &KernelSpec, cache: &Cache) -> Result<Option<Self>> {
        let mut kernels = Self::cached(cache)?;
        if let KernelSpec::Version(version) = spec {
            kernels.retain(|kernel| is_of_version(&kernel.release, version));
        }
        Ok(kernels.pop())
    }

    /// Fetches the newest kernel that fits into the cache, unless it is there.
    ///
    /// # Errors
    /// When there is no such kernel or it cannot be fetched.
    pub fn fetch(spec: &KernelSpec, cache: &Cache, progress: &dyn Fn(&str)) -> Result<Self> {
        let version = match spec {
            KernelSpec::Path(path) => return Self::at(path),
            KernelSpec::Version(version) => Some(version.as_str()),
            KernelSpec::Newest => None,
        };
        let _lock = cache.lock(|| progress("waiting for another quartier that is fetching"))?;
        let what = || version.map_or("a kernel".to_owned(), |v| format!("a Linux {v} kernel"));
        let missing = |reason: String| Error::Missing {
            what: what(),
            reason,
            remedy: "run `quartier lab kernels --available` to see what there is, or give a boot \
                     image with --kernel PATH"
                .to_owned(),
        };
        let mirror = Mirror::of_host().map_err(|error| missing(error.to_string()))?;
        let mut failures = Vec::new();
        for suite in suites_for(version) {
            progress(&format!("looking for {} in {}", what(), suite.name));
            match fetch_from(suite, version, &mirror, cache, progress) {
                Ok(Some(kernel)) => return Ok(kernel),
                Ok(None) => {}
                Err(error) => failures.push(format!("{}: {error}", suite.name)),
            }
        }
        Err(missing(match failures.as_slice() {
            [] => "no suite of the archive has it".to_owned(),
            failures => failures.join("; "),
        }))
    }
}

/// The suites worth looking in for a version, best first.
fn suites_for(version: Option<&str>) -> Vec<Suite> {
    let Some(numbers) = version.and_then(major_minor) else {
        let newest = ["trixie-backports", "bookworm-backports", "bookworm"];
        return SUITES.into_iter().filter(|suite| newest.contains(&suite.name)).collect();
    };
    let fits = |suite: &Suite| (suite.kernels.0..=suite.kernels.1).contains(&numbers);
    SUITES.into_iter().filter(fits).collect()
}

/// The releases in a suite that fit and their packages, oldest first.
fn releases_in(names: impl IntoIterator<Item = String>, version: Option<&str>) -> Vec<String> {
    let mut releases: Vec<String> = names
        .into_iter()
        .filter_map(|name| name.strip_prefix("linux-image-").map(str::to_owned))
        .filter(|release| release.starts_with(|first: char| first.is_ascii_digit()))
        .filter(|release| release.ends_with("-amd64") && !release.contains("-rt"))
        .filter(|release| version.is_none_or(|version| is_of_version(release, version)))
        .collect();
    // The cloud kernel is smaller and has virtio-fs built in: it comes after, so it is preferred.
    releases.sort_by_key(|release| (release_key(release), release.contains("-cloud-")));
    releases
}

fn open_suite(suite: Suite, mirror: &Mirror, cache: &Cache) -> Result<PrivateApt> {
    let apt = PrivateApt::new(&cache.apt(suite.name), mirror, &[suite.name], false)?;
    apt.update()?;
    Ok(apt)
}

/// A suite's name and the releases in it, or why it cannot be read.
pub type SuiteReleases = (&'static str, std::result::Result<Vec<String>, String>);

/// Every release that can be fetched, by suite.
///
/// # Errors
/// When there is no apt or no mirror.
pub fn available(cache: &Cache, progress: &dyn Fn(&str)) -> Result<Vec<SuiteReleases>> {
    let _lock = cache.lock(|| progress("waiting for another quartier that is fetching"))?;
    let mirror = Mirror::of_host()?;
    let list = |suite: Suite| {
        progress(&format!("reading the index of {}", suite.name));
        let names = open_suite(suite, &mirror, cache)?.package_names("linux-image-")?;
        Ok(releases_in(names, None))
    };
    Ok(SUITES
        .into_iter()
        .map(|suite| (suite.name, list(suite).map_err(|error: Error| error.to_string())))
        .collect())
}

fn fetch_from(
    suite: Suite,
    version: Option<&str>,
    mirror: &Mirror,
    cache: &Cache,
    progress: &dyn Fn(&str),
) -> Result<Option<Kernel>> {
    let apt = open_suite(suite, mirror, cache)?;
    let names = apt.package_names("linux-")?;
    let Some(release) = releases_in(names.iter().cloned(), version).pop() else { return Ok(None) };
    let home = cache.kernels().join(&release);
    if home.join("vmlinuz").exists() {
        return Ok(Some(Kernel::in_folder(&home, release)));
    }
    // Until 6.18 one package has all; since then the image package only depends on three others.
    let parts = ["binary", "modules", "base"].map(|part| format!("linux-{part}-{release}"));
    let packages: Vec<String> = if names.contains(&parts[0]) {
        parts.into_iter().filter(|name| names.contains(name)).collect()
    } else {
        vec![format!("linux-image-{release}")]
    };
    progress(&format!("fetching Linux {release} from {}", suite.name));
    let files = apt.download(&packages)?;
    install(&files, &release, suite, &home)?;
    for file in files {
        fs::remove_file(&file).path("remove", &file)?;
    }
    Ok(Some(Kernel::in_folder(&home, release)))
}

/// Unpacks a kernel's packages and puts what is needed in `home`, in one step.
fn install(files: &[PathBuf], release: &str, suite: Suite, home: &Path) -> Result<()> {
    let kernels = home.parent().unwrap_or(home);
    fs::create_dir_all(kernels).path("create", kernels)?;
    let scratch = tempfile::Builder::new()
        .prefix(".fetching-")
        .tempdir_in(kernels)
        .path("write in", kernels)?;
    let (tree, ready) = (scratch.path().join("tree"), scratch.path().join("ready"));
    for file in files {
        apt::unpack(file, &tree)?;
    }
    let modules = ready.join("lib/modules");
    fs::create_dir_all(&modules).path("create", &modules)?;
    let pick = |names: &[String], to: &Path| -> Result<bool> {
        let Some(from) = names.iter().map(|name| tree.join(name)).find(|path| path.exists()) else {
            return Ok(false);
        };
        fs::rename(&from, to).path("move", &from).map(|()| true)
    };
    let in_modules = |name: &str| format!("usr/lib/modules/{release}/{name}");
    pick(&[format!("boot/config-{release}"), in_modules("config")], &ready.join("config"))?;
    let image = [format!("boot/vmlinuz-{release}"), in_modules("vmlinuz")];
    let to = ready.join("vmlinuz");
    if !pick(&image, &to)? {
        return Err(Error::refused(format!("the packages of Linux {release} hold no boot image")));
    }
    if let Some(kernel) = bzimage::unpacked(&to)? {
        let path = ready.join("vmlinux");
        fs::write(&path, kernel).path("write", &path)?;
    }
    let trees = [format!("lib/modules/{release}"), format!("usr/lib/modules/{release}")];
    pick(&trees, &modules.join(release))?;
    let origin = Provenance {
        suite: suite.name.to_owned(),
        packages: files
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
            .collect(),
    };
    let path = ready.join("origin.json");
    let text = serde_json::to_vec(&origin).map_err(std::io::Error::other).path("write", &path)?;
    fs::write(&path, text).path("write", &path)?;
    fs::rename(&ready, home).path("move a kernel to", home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_match_whole_numbers() {
        assert!(is_of_version("6.1.0-50-cloud-amd64", "6.1"));
        assert!(!is_of_version("6.12.95+deb12-cloud-amd64", "6.1"));
        assert!(is_of_version("7.3.4+deb13-cloud-amd64", "7.3.4"));
        assert!(!is_of_version("7.3.40+deb13-cloud-amd64", "7.3.4"));
    }

    #[test]
    fn the_newest_release_is_by_number_and_cloud_is_preferred() {
        let names = [
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-6.12.95+deb12-cloud-amd64",
            "linux-image-6.12.95+deb12-rt-amd64",
            "linux-image-6.12.99+deb12-cloud-amd64-unsigned",
            "linux-image-6.12.99+deb12-cloud-amd64-dbg",
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-50-cloud-amd64",
            "linux-headers-6.12.99+deb12-amd64",
        ];
        let find = |version| releases_in(names.map(str::to_owned), version).pop();
        assert_eq!(find(Some("6.12")).as_deref(), Some("6.12.95+deb12-cloud-amd64"));
        assert_eq!(find(Some("6.1")).as_deref(), Some("6.1.0-50-cloud-amd64"));
        assert_eq!(find(None).as_deref(), Some("6.12.95+deb12-cloud-amd64"));
        assert_eq!(find(Some("5.10")), None);
    }

    #[test]
    fn each_version_has_a_suite() {
        let first = |version| suites_for(Some(version)).first().map(|suite| suite.name);
        assert_eq!(first("6.1"), Some("bookworm"));
        assert_eq!(first("6.12"), Some("bookworm-backports"));
        assert_eq!(first("7.3"), Some("trixie-backports"));
        assert_eq!(first("4.19"), None);
    }

    #[test]
    fn specifications_are_versions_or_paths() {
        assert_eq!("6.12".parse(), Ok(KernelSpec::Version("6.12".to_owned())));
        assert_eq!("./bzImage".parse(), Ok(KernelSpec::Path("./bzImage".into())));
        for bad in ["", "6", "six", "6.x", "6.12;rm", ".."] {
            let parsed = bad.parse::<KernelSpec>();
            assert!(!matches!(parsed, Ok(KernelSpec::Version(_))), "{bad}");
        }
    }
}
