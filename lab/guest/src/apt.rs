//! A private apt: packages are found, checked against signed indexes and downloaded in our cache,
//! with the mirror that the host's own apt uses. The host's sources and package state stay as they
//! are, and nothing is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::error::{Context, Error, Result};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const NEEDS_APT: &str = "fetching needs Debian's apt: on another system give --kernel PATH and \
                         install qemu-system-x86_64 yourself";

/// Where the host's apt gets Debian's packages from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The repository's address.
    pub uri: String,
    /// The keyring its signatures are checked against, if the host names one.
    pub signed_by: Option<String>,
}

impl Mirror {
    /// The host's mirror of the Debian archive.
    ///
    /// # Errors
    /// When there is no apt here, or it has no source with Debian's suites.
    pub fn of_host() -> Result<Self> {
        let mut command = Command::new("apt-get");
        // Only asked: not even its own caches may be written.
        command.args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
        command.args(["indextargets", "--no-release-info", "--format"]);
        command.arg("$(CREATED_BY)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)");
        let text = capture(&mut command)?;
        Self::from_index_targets(&text).ok_or_else(|| Error::Missing {
            what: "Debian's archive".to_owned(),
            reason: "no source of the host's apt has a Debian suite".to_owned(),
            remedy: "add one to /etc/apt/sources.list and run `apt-get update`".to_owned(),
        })
    }

    /// The first source of `Packages` that has a plain Debian suite's `main`.
    fn from_index_targets(text: &str) -> Option<Self> {
        text.lines().find_map(|line| {
            let mut fields = line.split('\t');
            let (kind, uri, suite, component) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let is_debian = SUITES.iter().any(|known| known.name == suite)
                || matches!(suite, "stable" | "oldstable" | "testing" | "unstable");
            let signed_by = fields.next().filter(|text| text.starts_with('/')).map(str::to_owned);
            (kind == "Packages" && is_debian && component == "main")
                .then(|| Self { uri: uri.to_owned(), signed_by })
        })
    }
}

/// A suite of the Debian archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The oldest and newest kernel (major, minor) worth looking for in it.
    pub kernels: ((u32, u32), (u32, u32)),
}

const ANY: (u32, u32) = (u32::MAX, u32::MAX);

/// The suites to look in, in this order: small indexes and stable kernels first.
pub const SUITES: [Suite; 7] = [
    Suite { name: "bookworm", kernels: ((6, 1), (6, 1)) },
    Suite { name: "bookworm-backports", kernels: ((6, 2), (6, 12)) },
    Suite { name: "trixie-backports", kernels: ((6, 13), ANY) },
    Suite { name: "trixie", kernels: ((6, 12), (6, 12)) },
    Suite { name: "forky", kernels: ((6, 13), ANY) },
    Suite { name: "sid", kernels: ((6, 13), ANY) },
    Suite { name: "experimental", kernels: ((6, 13), ANY) },
];

/// One private apt with its suites.
#[derive(Debug)]
pub struct PrivateApt {
    folder: PathBuf,
    options: Vec<String>,
}

impl PrivateApt {
    /// Sets one up in `folder`. With `installed`, the host's packages count as installed.
    ///
    /// # Errors
    /// When the folder cannot be written or the host's configuration cannot be read.
    pub fn new(folder: &Path, mirror: &Mirror, suites: &[&str], installed: bool) -> Result<Self> {
        Self::of(folder, &sources(mirror, suites, "deb"), installed)
    }

    /// The same that knows of sources too, with the host's packages as installed.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_sources(folder: &Path, mirror: &Mirror, suite: &str) -> Result<Self> {
        Self::of(folder, &sources(mirror, &[suite], "deb deb-src"), true)
    }

    fn of(folder: &Path, sources: &str, installed: bool) -> Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial", "etc/empty"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).path("create", &path)?;
        }
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).path("write", &path).map(|()| path)
        };
        write("etc/quartier.sources", sources)?;
        let status = folder.join("status");
        if installed {
            let host = Path::new("/var/lib/dpkg/status");
            fs::copy(host, &status).path("copy", host)?;
        } else {
            write("status", "")?;
        }
        let acquire = host_acquire_settings(&capture(
            Command::new("apt-config").arg("dump").env_remove("APT_CONFIG"),
        )?);
        write("etc/apt.conf", &(acquire + &private_settings(folder)))?;
        Ok(Self { folder: folder.to_owned(), options: safety_options() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("etc/apt.conf")).env("LC_ALL", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(&self.options);
        command
    }

    /// Gets the suites' indexes and checks their signatures.
    ///
    /// # Errors
    /// When an index cannot be had, or its signature is not good.
    pub fn update(&self) -> Result<()> {
        capture(self.command("apt-get").arg("update")).map(drop)
    }

    /// The names of the packages that begin with `prefix`.
    ///
    /// # Errors
    /// When apt fails.
    pub fn package_names(&self, prefix: &str) -> Result<BTreeSet<String>> {
        let text = capture(self.command("apt-cache").args(["pkgnames", prefix]))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Downloads packages, without their dependencies, and gives their files.
    ///
    /// # Errors
    /// When a package cannot be had, or is not what the signed index says.
    pub fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let folder = self.fresh_folder("download")?;
        capture(self.command("apt-get").current_dir(&folder).arg("download").args(packages))?;
        debs(&folder)
    }

    /// Downloads a package and whatever it needs that the host lacks, and gives their files.
    ///
    /// # Errors
    /// When a package cannot be had, or is not what the signed index says.
    pub fn download_with_dependencies(&self, package: &str, suite: &str) -> Result<Vec<PathBuf>> {
        let archives = self.fresh_folder("cache/archives")?;
        let partial = archives.join("partial");
        fs::create_dir_all(&partial).path("create", &partial)?;
        capture(
            self.command("apt-get")
                .args(["--yes", "--no-install-recommends", "--download-only", "-t", suite])
                .args(["install", package]),
        )?;
        debs(&archives)
    }

    /// Downloads the source of a package, not unpacked, and gives the files whose names end in `ending`.
    ///
    /// # Errors
    /// When the source cannot be had, or is not what the signed index says.
    pub fn download_source(&self, package: &str, ending: &str) -> Result<Vec<PathBuf>> {
        let folder = self.fresh_folder("source")?;
        let mut command = self.command("apt-get");
        capture(command.current_dir(&folder).args(["source", "--download-only", package]))?;
        files(&folder, ending)
    }

    fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).path("empty", &path)?;
        }
        fs::create_dir_all(&path).path("create", &path)?;
        Ok(path)
    }
}

/// Unpacks a package below `folder`.
///
/// # Errors
/// When dpkg-deb fails.
pub fn unpack(package: &Path, folder: &Path) -> Result<()> {
    capture(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder)).map(drop)
}

fn debs(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, ".deb")
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).path("read", folder)?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect())
}

fn sources(mirror: &Mirror, suites: &[&str], types: &str) -> String {
    let default = Path::new(KEYRING).exists().then(|| KEYRING.to_owned());
    // The mirror's own keyring may hold just the host's release; the archive's holds all of them.
    let signed_by = default.or_else(|| mirror.signed_by.clone());
    let signed_by = signed_by.map(|path| format!("Signed-By: {path}\n")).unwrap_or_default();
    format!(
        "Types: {types}\nURIs: {}\nSuites: {}\nComponents: main\nArchitectures: amd64\n{signed_by}",
        mirror.uri,
        suites.join(" ")
    )
}

/// What the host says about getting files (proxies, certificates, how old an index may be). Nothing else of its
/// configuration is taken: its hooks would act on the host.
fn host_acquire_settings(dump: &str) -> String {
    let wanted = |line: &&str| {
        const WANTED: [&str; 6] = [
            "Acquire::http",
            "Acquire::Retries",
            "Acquire::ForceIPv",
            // A mirror that keeps an old day is the host's choice; signatures are checked anyway.
            "Acquire::Check-Valid-Until",
            "Acquire::Check-Date",
            "Acquire::Max-ValidTime",
        ];
        WANTED.iter().any(|prefix| line.starts_with(prefix))
    };
    dump.lines().filter(wanted).fold(String::new(), |text, line| text + line + "\n")
}

/// Indexes stay compressed and nothing is derived from them on disk: 10 MB a suite instead of 115.
fn private_settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Dir::Etc::main \"/dev/null\";\n\
         Dir::Etc::parts \"{folder}/etc/empty\";\n\
         Dir::Etc::sourcelist \"{folder}/etc/quartier.sources\";\n\
         Dir::Etc::sourceparts \"{folder}/etc/empty\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"{folder}/etc/empty\";\n\
         Dir::State \"{folder}/state\";\n\
         Dir::State::status \"{folder}/status\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         Dir::Cache::pkgcache \"\";\n\
         Dir::Cache::srcpkgcache \"\";\n\
         Dir::Log \"{folder}\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Architecture \"amd64\";\n\
         APT::Architectures {{ \"amd64\"; }};\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::GzipIndexes \"true\";\n\
         Acquire::Languages \"none\";\n"
    )
}

/// On the command line, where they outrank every file: nothing unsigned is ever taken.
fn safety_options() -> Vec<String> {
    [
        "Acquire::AllowInsecureRepositories=false",
        "Acquire::AllowWeakRepositories=false",
        "Acquire::AllowDowngradeToInsecureRepositories=false",
        "APT::Get::AllowUnauthenticated=false",
        "APT::Get::Download-Only=true",
    ]
    .into_iter()
    .flat_map(|option| ["-o".to_owned(), option.to_owned()])
    .collect()
}

/// Runs a program to its end and gives its standard output.
fn capture(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|source| Error::Program { program: program.clone(), source, remedy: NEEDS_APT })?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        return Err(Error::ProgramFailed { program, status: status.to_string(), stderr });
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: &str = "\
DEP-11\tfile:/mirror/debian/\tbookworm\tmain\t/k.gpg
Packages\tfile:/other/\tnodistro\tmain\t
Packages\tfile:/mirror/security/\tbookworm-security\tmain\t/k.gpg
Packages\tfile:/mirror/debian/\tbookworm\tmain\t/k.gpg
";

    #[test]
    fn the_mirror_is_the_one_with_debian_suites() {
        let mirror = Mirror::from_index_targets(TARGETS).unwrap();
        assert_eq!(mirror.uri, "file:/mirror/debian/");
        assert_eq!(mirror.signed_by.as_deref(), Some("/k.gpg"));
    }

    #[test]
    fn an_unset_keyring_stays_unset() {
        let text = "Packages\tfile:/m/\tstable\tmain\t$(SIGNED_BY)\n";
        assert_eq!(Mirror::from_index_targets(text).unwrap().signed_by, None);
        assert_eq!(Mirror::from_index_targets("Packages\tfile:/m/\tjammy\tmain\t\n"), None);
    }

    #[test]
    fn of_the_hosts_configuration_only_transport_is_taken() {
        let dump = "APT::Update::Post-Invoke:: \"rm -f /var/cache/apt/archives/*.deb\";\n\
                    Acquire::http::Proxy \"proxy:1\";\nAcquire::AllowInsecureRepositories \"1\";\n\
                    Dir::State \"var/lib/apt\";\nAcquire::https::CAInfo \"/ca.pem\";\n";
        assert_eq!(
            host_acquire_settings(dump),
            "Acquire::http::Proxy \"proxy:1\";\nAcquire::https::CAInfo \"/ca.pem\";\n"
        );
    }
}
