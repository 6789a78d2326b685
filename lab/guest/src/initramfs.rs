//! The guest's first root file system: the `quartier` program as first process, its shared libraries and
//! the kernel modules that lead to the host's files. Made in memory; nothing is left on disk.
//!
//! A guest that is to do the same again has no way to the host's files: what it needs of them is here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::cpio::Archive;
use crate::elf::{Elf, shared_libraries};
use crate::error::{Context, Error, Result};
use crate::modules::Module;

/// Where modules are in it, in loading order.
pub const MODULES: &str = "/modules";

/// Where the plan is in it, if the guest is told nothing later.
pub const START: &str = "/start";

/// What a guest has of the host that sees nothing else of it.
#[derive(Debug, Default)]
pub struct Alone {
    /// The plan, as the agent reads it.
    pub start: Vec<u8>,
    /// Files, at their own places.
    pub files: BTreeSet<PathBuf>,
}

/// Makes it from `program` and the modules.
///
/// # Errors
/// When the program or its libraries cannot be read.
pub fn build(program: &Path, modules: &[Module], alone: Option<&Alone>) -> Result<Vec<u8>> {
    let image = fs::read(program).path("read", program)?;
    let elf = Elf::parse(&image)
        .ok_or_else(|| Error::refused(format!("{} is not an x86-64 program", program.display())))?;
    let mut tree = Tree::default();
    for folder in ["/dev", "/proc", "/sys", "/run", "/tmp", MODULES] {
        tree.directory(Path::new(folder));
    }
    tree.archive.character_device("/dev/console", 5, 1);
    tree.archive.executable("/quartier", &image[..elf.loaded_bytes.min(image.len())]);
    // The kernel gives the first process every word of its command line that it does not know.
    // Through this script they come after `lab /init`, where they can be told from ours.
    tree.archive.executable("/init", b"#!/quartier lab\n");
    if let Some(loader) = &elf.loader {
        for library in shared_libraries(loader, program)? {
            tree.copy(&library)?;
        }
        let _ = tree.copy(Path::new("/etc/ld.so.cache"));
    }
    if let Some(alone) = alone {
        tree.archive.file(START, &alone.start);
        alone.files.iter().try_for_each(|file| tree.copy(file))?;
    }
    for (index, module) in modules.iter().enumerate() {
        tree.archive.file(&format!("{MODULES}/{index:02}-{}.ko", module.name), &module.image);
    }
    Ok(tree.archive.finish())
}

#[derive(Default)]
struct Tree {
    archive: Archive,
    /// What it has.
    paths: BTreeSet<PathBuf>,
}

impl Tree {
    fn directory(&mut self, path: &Path) {
        let mut missing: Vec<_> = path.ancestors().filter(|p| p.parent().is_some()).collect();
        while let Some(folder) = missing.pop() {
            if self.paths.insert(folder.to_owned()) {
                self.archive.directory(&folder.to_string_lossy());
            }
        }
    }

    /// A file or folder of the host at its own place, with the symbolic links that lead to it.
    fn copy(&mut self, path: &Path) -> Result<()> {
        /// As the kernel has it.
        const LINKS_MAX: usize = 40;
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let Some((link, target)) = first_link(&path) else {
                return self.copy_plainly(&path);
            };
            if let Some(parent) = link.parent() {
                self.directory(parent);
            }
            if self.paths.insert(link.clone()) {
                let name = link.to_string_lossy();
                self.archive.symbolic_link(&name, target.as_os_str().as_bytes());
            }
            // Both exist on this machine: `path` begins with `link`, which is below a folder.
            let rest = path.strip_prefix(&link).unwrap_or(Path::new("")).to_owned();
            path = without_dots(&link.parent().unwrap_or(Path::new("/")).join(target).join(rest));
        }
        Err(Error::refused(format!("{} has too many symbolic links", path.display())))
    }

    /// A path without symbolic links.
    fn copy_plainly(&mut self, path: &Path) -> Result<()> {
        let about = fs::metadata(path).path("read", path)?;
        if about.is_dir() {
            self.directory(path);
            return Ok(());
        }
        if !self.paths.insert(path.to_owned()) {
            return Ok(());
        }
        self.directory(path.parent().unwrap_or(path));
        let content = fs::read(path).path("read", path)?;
        let name = path.to_string_lossy();
        if about.permissions().mode() & 0o111 == 0 {
            self.archive.file(&name, &content);
        } else {
            self.archive.executable(&name, &content);
        }
        Ok(())
    }
}

/// The first part of a path that is a symbolic link, and where that leads.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    parts.into_iter().find_map(|part| Some((part.to_owned(), fs::read_link(part).ok()?)))
}

/// Without `.` and `..`, in a path whose parts before each `..` are no symbolic links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_can_be_an_init() {
        let program = std::env::current_exe().unwrap();
        let modules = [Module { name: "overlay".to_owned(), image: b"elf".to_vec() }];
        let bytes = build(&program, &modules, None).unwrap();
        assert!(bytes.len() < fs::metadata(&program).unwrap().len() as usize * 2 + (8 << 20));
        let text = String::from_utf8_lossy(&bytes);
        for name in ["init\0", "modules/00-overlay.ko\0", "libc.so.6\0", "dev/console\0"] {
            assert!(text.contains(name), "{name}");
        }
    }

    #[test]
    fn files_are_at_their_places_with_the_links_that_lead_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/deep/file"), "content").unwrap();
        std::os::unix::fs::symlink("real", root.join("short")).unwrap();
        std::os::unix::fs::symlink("../short/deep/file", root.join("real/again")).unwrap();
        let mut tree = Tree::default();
        tree.copy(&root.join("short/again")).unwrap();
        tree.copy(&root.join("short/deep")).unwrap();
        let places: Vec<_> =
            tree.paths.iter().filter_map(|path| path.strip_prefix(&root).ok()).collect();
        let expected = ["", "real", "real/again", "real/deep", "real/deep/file", "short"];
        assert_eq!(places, expected.map(Path::new));
        std::os::unix::fs::symlink("round", root.join("round")).unwrap();
        assert!(tree.copy(&root.join("round")).is_err());
        assert!(tree.copy(&root.join("nothing")).is_err());
    }

    #[test]
    fn a_script_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert!(build(file.path(), &[], None).unwrap_err().to_string().contains("not an x86-64"));
    }
}
