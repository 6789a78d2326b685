//! The workspace as cargo and git see it: packages with their arrows, and tracked files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, TargetKind};

/// One package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Its folder, below the workspace's root.
    pub folder: String,
    /// The files in which its libraries and programs begin, below the workspace's root.
    pub roots: Vec<String>,
    pub dependencies: Vec<Dependency>,
}

/// What a package depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub is_dev: bool,
    /// Whether it comes from this workspace.
    pub is_ours: bool,
}

/// Everything the checks read.
#[derive(Debug)]
pub struct Workspace {
    pub root: PathBuf,
    pub packages: Vec<Package>,
    /// Text files that git tracks, with their contents, in order of their paths.
    pub files: Vec<File>,
}

/// A tracked text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Below the workspace's root.
    pub path: String,
    pub text: String,
}

impl Workspace {
    pub fn load() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let packages = packages(&metadata);
        let files = tracked_files(&root)?;
        Ok(Self { root, packages, files })
    }

    /// The tracked file or folder with this path exists.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

fn packages(metadata: &Metadata) -> Vec<Package> {
    let root = &metadata.workspace_root;
    let below_root = |path: &Path| {
        path.strip_prefix(root).unwrap_or(path).to_string_lossy().trim_matches('/').to_owned()
    };
    let begins = |kind: &TargetKind| !matches!(kind, TargetKind::Test | TargetKind::Bench);
    let package = |package: &cargo_metadata::Package| Package {
        name: package.name.to_string(),
        folder: package.manifest_path.parent().map_or_else(String::new, |p| below_root(p.as_ref())),
        roots: package
            .targets
            .iter()
            .filter(|target| target.kind.iter().all(begins))
            .map(|target| below_root(target.src_path.as_ref()))
            .collect(),
        dependencies: package
            .dependencies
            .iter()
            .map(|dependency| Dependency {
                name: dependency.name.clone(),
                is_dev: dependency.kind == DependencyKind::Development,
                is_ours: dependency.path.is_some(),
            })
            .collect(),
    };
    metadata.workspace_packages().into_iter().map(package).collect()
}

fn tracked_files(root: &Path) -> anyhow::Result<Vec<File>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .context("cannot run git: install it (apt-get install git)")?;
    ensure!(listing.status.success(), "git ls-files failed: tidy needs a git clone");
    let listing = String::from_utf8(listing.stdout).context("a tracked path is not UTF-8")?;
    let read = |path: &str| {
        // A file deleted and not yet committed is nobody's mistake; one that is no text is no prose.
        let text = String::from_utf8(std::fs::read(root.join(path)).ok()?).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    Ok(listing.split_terminator('\0').filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_seen_as_it_is() {
        let workspace = Workspace::load().unwrap();
        let own = workspace.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(
            (own.folder.as_str(), own.roots.as_slice()),
            ("xtask", &["xtask/src/main.rs".to_owned()][..])
        );
        let depends = |name: &str, is_dev, is_ours| {
            own.dependencies.contains(&Dependency { name: name.to_owned(), is_dev, is_ours })
        };
        assert!(depends("quartier-cli", false, true) && depends("clap", false, false));
        assert!(depends("tempfile", true, false));
        assert!(workspace.packages.len() >= 10 && workspace.exists("model/src/lib.rs"));
        assert!(workspace.files.iter().any(|file| file.path == "xtask/src/main.rs"));
    }
}
