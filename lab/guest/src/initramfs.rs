//! The guest's first root file system: the `quartier` program as first process, its shared libraries and
//! the kernel modules that lead to the host's files. Made in memory; nothing is left on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::cpio::Archive;
use crate::error::{Context, Error, Result};
use crate::modules::Module;

/// Where modules are in it, in loading order.
pub const MODULES: &str = "/modules";

/// Makes it from `program` and the modules.
///
/// # Errors
/// When the program or its libraries cannot be read.
pub fn build(program: &Path, modules: &[Module]) -> Result<Vec<u8>> {
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
            let content = fs::read(&library).path("read", &library)?;
            tree.executable(&library, &content);
        }
        if let Ok(cache) = fs::read("/etc/ld.so.cache") {
            tree.directory(Path::new("/etc"));
            tree.archive.file("/etc/ld.so.cache", &cache);
        }
    }
    for (index, module) in modules.iter().enumerate() {
        tree.archive.file(&format!("{MODULES}/{index:02}-{}.ko", module.name), &module.image);
    }
    Ok(tree.archive.finish())
}

#[derive(Default)]
struct Tree {
    archive: Archive,
    directories: BTreeSet<PathBuf>,
}

impl Tree {
    fn directory(&mut self, path: &Path) {
        let mut missing: Vec<_> = path.ancestors().filter(|p| p.parent().is_some()).collect();
        while let Some(folder) = missing.pop() {
            if self.directories.insert(folder.to_owned()) {
                self.archive.directory(&folder.to_string_lossy());
            }
        }
    }

    fn executable(&mut self, path: &Path, content: &[u8]) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.archive.executable(&path.to_string_lossy(), content);
    }
}

/// What is needed of a program to run it elsewhere.
struct Elf {
    loader: Option<PathBuf>,
    /// Debugging information follows what is loaded and only makes booting slow.
    loaded_bytes: usize,
}

impl Elf {
    fn parse(image: &[u8]) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(image).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, image).ok()?;
        let mut elf = Self { loader: None, loaded_bytes: 0 };
        for segment in segments {
            let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian))?;
            elf.loaded_bytes = elf.loaded_bytes.max(usize::try_from(end).ok()?);
            if segment.p_type(endian) == PT_INTERP {
                let bytes = segment.data(endian, image).ok()?;
                let text = std::str::from_utf8(bytes).ok()?;
                elf.loader = Some(text.trim_end_matches('\0').into());
            }
        }
        Some(elf)
    }
}

/// The program's shared libraries and its loader, as the loader itself finds them.
fn shared_libraries(loader: &Path, program: &Path) -> Result<BTreeSet<PathBuf>> {
    let name = loader.display().to_string();
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Program {
            program: name.clone(),
            source,
            remedy: "this system's dynamic loader must run",
        })?;
    if !output.status.success() {
        return Err(Error::ProgramFailed {
            program: name,
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    let mut libraries = parse_library_list(&String::from_utf8_lossy(&output.stdout));
    libraries.insert(loader.to_owned());
    Ok(libraries)
}

/// Paths in lines such as `libc.so.6 => /lib/libc.so.6 (0x7f…)`.
fn parse_library_list(text: &str) -> BTreeSet<PathBuf> {
    text.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_listed_by_path() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse_library_list(text), BTreeSet::from(expected));
    }

    #[test]
    fn this_test_program_can_be_an_init() {
        let program = std::env::current_exe().unwrap();
        let modules = [Module { name: "overlay".to_owned(), image: b"elf".to_vec() }];
        let bytes = build(&program, &modules).unwrap();
        assert!(bytes.len() < fs::metadata(&program).unwrap().len() as usize * 2 + (8 << 20));
        let text = String::from_utf8_lossy(&bytes);
        for name in ["init\0", "modules/00-overlay.ko\0", "libc.so.6\0", "dev/console\0"] {
            assert!(text.contains(name), "{name}");
        }
    }

    #[test]
    fn a_script_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert!(build(file.path(), &[]).unwrap_err().to_string().contains("not an x86-64"));
    }
}
