//! Finding a program and seeing whether the runtime can be loaded into it.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use thiserror::Error;

/// A script's interpreter may itself be a script; the kernel follows this many (`bprm` depth).
const SCRIPT_DEPTH: usize = 5;

/// Enough of a file to hold any program headers.
const HEAD_BYTES: u64 = 64 << 10;

/// A larger file is not searched for the address sanitizer: starting it must stay quick.
const SEARCHED_BYTES_MAX: u64 = 1 << 20;

/// A program found on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Why the runtime cannot be loaded into it, if so.
    pub obstacle: Option<Obstacle>,
}

/// Why the runtime cannot be loaded into a program. It runs all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum Obstacle {
    #[error(
        "it is statically linked, so nothing can be loaded into it; use a dynamically linked build"
    )]
    Static,
    #[error(
        "it gains privileges when it starts, so the loader takes nothing from its user; start it from a root shell instead"
    )]
    Privileged,
    #[error(
        "it was built for another C library or processor than glibc on x86-64; use a build for those"
    )]
    OtherLoader,
    #[error(
        "it is linked with the address sanitizer, which must come first in a program; use a build without it"
    )]
    Sanitizer,
}

/// Why a program cannot be run at all.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum ProgramError {
    #[error("there is no command `{}`: check its name and PATH", .0.display())]
    NotFound(PathBuf),
    #[error("`{}` is not executable: check its permissions (chmod +x)", .0.display())]
    NotExecutable(PathBuf),
}

impl Program {
    /// Finds `name` as a shell would: by path if it has a slash, by `search` (the value of PATH) if
    /// not.
    ///
    /// # Errors
    /// When there is no such file, or it is not executable.
    pub fn find(name: &OsStr, search: Option<&OsStr>) -> Result<Self, ProgramError> {
        let path = if name.as_bytes().contains(&b'/') {
            PathBuf::from(name)
        } else {
            let directories = search.unwrap_or(OsStr::new("/usr/bin:/bin"));
            std::env::split_paths(directories)
                .map(|directory| directory.join(name))
                .find(|path| is_executable(path))
                .ok_or_else(|| ProgramError::NotFound(name.into()))?
        };
        if !path.exists() {
            return Err(ProgramError::NotFound(path));
        }
        if !is_executable(&path) {
            return Err(ProgramError::NotExecutable(path));
        }
        let obstacle = obstacle(&path, 0);
        Ok(Self { path, obstacle })
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Looks at the file, or at the interpreter of a script. What cannot be read is given a try.
fn obstacle(path: &Path, depth: usize) -> Option<Obstacle> {
    let file = std::fs::File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let (mode, root) = (metadata.mode(), rustix::process::geteuid().is_root());
    let gains = mode & 0o4000 != 0 && metadata.uid() != rustix::process::geteuid().as_raw()
        || mode & 0o2010 == 0o2010 && metadata.gid() != rustix::process::getegid().as_raw();
    if gains || !root && has_capabilities(path) {
        return Some(Obstacle::Privileged);
    }
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    if let Some(interpreter) = script_interpreter(&head) {
        return (depth < SCRIPT_DEPTH).then(|| obstacle(&interpreter, depth + 1))?;
    }
    elf_obstacle(&head).or_else(|| {
        let small = metadata.len() < SEARCHED_BYTES_MAX;
        (small && names_sanitizer(path)).then_some(Obstacle::Sanitizer)
    })
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(path, c"security.capability", &mut value[..]).is_ok()
}

fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// Reads the program headers; a file that is no ELF (a shell without `#!`) is given a try.
fn elf_obstacle(head: &[u8]) -> Option<Obstacle> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let Ok(header) = FileHeader64::<object::Endianness>::parse(head) else {
        return Some(Obstacle::OtherLoader);
    };
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let interpreter = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP);
    let Some(interpreter) = interpreter else { return Some(Obstacle::Static) };
    let name = interpreter.data(endian, head).ok()?;
    if !name.ends_with(b"ld-linux-x86-64.so.2\0") {
        return Some(Obstacle::OtherLoader);
    }
    None
}

/// Whether a dynamically linked program names the address sanitizer among its libraries. The names
/// stand in its dynamic string table, wherever that lies in the file.
fn names_sanitizer(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(11).any(|window| window == b"libasan.so."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8], mode: u32) -> tempfile::TempPath {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        file.into_temp_path()
    }

    fn find(path: &Path) -> Result<Program, ProgramError> {
        Program::find(path.as_os_str(), None)
    }

    #[test]
    fn a_program_is_found_by_name_and_takes_the_runtime() {
        let program = Program::find(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin"))).unwrap();
        assert_eq!((program.path.as_path(), program.obstacle), (Path::new("/bin/sh"), None));
    }

    #[test]
    fn what_is_not_there_or_not_executable_is_refused() {
        assert!(matches!(
            Program::find(OsStr::new("no-such-command"), Some(OsStr::new("/bin"))),
            Err(ProgramError::NotFound(_))
        ));
        let path = file(b"#!/bin/sh\n", 0o644);
        assert!(matches!(find(&path), Err(ProgramError::NotExecutable(_))));
        assert!(matches!(find(Path::new("/")), Err(ProgramError::NotExecutable(_))));
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        assert_eq!(find(&file(b"#! /bin/sh -e\n", 0o755)).unwrap().obstacle, None);
        assert_eq!(find(&file(b"#!\n", 0o755)).unwrap().obstacle, None);
        let itself = tempfile::NamedTempFile::new().unwrap();
        let text = format!("#!{}\n", itself.path().display());
        std::fs::write(itself.path(), text).unwrap();
        itself.as_file().set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(itself.path()).unwrap().obstacle, None);
    }

    #[test]
    fn static_foreign_and_damaged_programs_are_told_apart() {
        let mut elf = vec![0u8; 64];
        elf[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        elf[54] = 56; // e_phentsize
        assert_eq!(find(&file(&elf, 0o755)).unwrap().obstacle, Some(Obstacle::Static));
        elf[4] = 1; // 32 bits
        assert_eq!(find(&file(&elf, 0o755)).unwrap().obstacle, Some(Obstacle::OtherLoader));
        assert!(find(&file(b"\x7fELF", 0o755)).is_ok());
        let asan = file(b"\x00libasan.so.8\x00", 0o755);
        assert_eq!(find(&asan).unwrap().obstacle, Some(Obstacle::Sanitizer));
    }

    #[test]
    fn a_program_that_becomes_somebody_else_is_privileged() {
        let path = file(b"#!/bin/sh\n", 0o755);
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give a file away");
            return;
        }
        let owner = Some(rustix::fs::Uid::from_raw(65534));
        rustix::fs::chown(path.as_os_str(), owner, None).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(find(&path).unwrap().obstacle, Some(Obstacle::Privileged));
    }
}
