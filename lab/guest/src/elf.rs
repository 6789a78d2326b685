//! Programs and libraries of this machine: what they need to run elsewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::error::{Error, Result};

/// What is needed of a program to run it elsewhere.
pub struct Elf {
    pub loader: Option<PathBuf>,
    /// Debugging information follows what is loaded and only makes booting slow.
    pub loaded_bytes: usize,
}

impl Elf {
    /// `None` if it is no program or library for x86-64.
    pub fn parse(image: &[u8]) -> Option<Self> {
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
pub fn shared_libraries(loader: &Path, program: &Path) -> Result<BTreeSet<PathBuf>> {
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
}
