//! The files of a command that runs without the rest of this machine: programs with their interpreters
//! and libraries, and whatever its words name.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Request, program};
use crate::elf::{Elf, shared_libraries};
use crate::error::{Context, Result};

/// What loads a library that is given by itself.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Everything that `command`, whose first word is a whole path, needs of this machine as far as can be
/// seen.
///
/// # Errors
/// A file that was asked for cannot be read.
pub fn of(request: &Request, command: &[OsString]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let (program, words) = command.split_at(command.len().min(1));
    for path in program {
        add(request, Path::new(path), &mut found)?;
    }
    let lines = request.load.iter().chain(&request.ready).map(|line| line.as_bytes());
    let of_load = lines.flat_map(words_of).map(OsStr::from_bytes);
    let shell = request.load.is_some().then_some(OsStr::new("/bin/sh"));
    let words = words.iter().chain(&request.beside).map(OsString::as_os_str);
    for word in words.chain(shell).chain(of_load) {
        if let Some(path) = named(request, word) {
            add(request, &path, &mut found)?;
        }
    }
    let preloaded = request.environment.iter().filter(|(name, _)| name == "LD_PRELOAD");
    for library in preloaded.flat_map(|(_, list)| std::env::split_paths(list).collect::<Vec<_>>()) {
        if library.is_file() {
            add(request, &library, &mut found)?;
        }
    }
    for path in &request.files {
        add_all(request, &request.directory.join(path), &mut found)?;
    }
    Ok(found)
}

/// What may be words of a line for a shell.
fn words_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| b" \t\n'\";|&()<>".contains(byte))
}

/// The file that a word names, by itself or as `--option=FILE`, or the program of that name.
fn named(request: &Request, word: &OsStr) -> Option<PathBuf> {
    let value = word.as_bytes().iter().position(|byte| *byte == b'=');
    let value = value.map(|at| OsStr::from_bytes(&word.as_bytes()[at + 1..]));
    let of_words = [Some(word), value].into_iter().flatten().filter(|word| !word.is_empty());
    let mut files = of_words.map(|word| request.directory.join(word));
    files.find(|path| path.is_file()).or_else(|| find_program(request, word).ok())
}

fn find_program(request: &Request, name: &OsStr) -> Result<PathBuf> {
    let search =
        request.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    program::resolve(name, &request.directory, search)
}

/// A file, or a folder with all that is in it.
fn add_all(request: &Request, path: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        return add(request, path, found);
    }
    found.insert(path.to_owned());
    for entry in fs::read_dir(path).path("read", path)? {
        let entry = entry.path("read", path)?;
        // A link may lead back here: what it leads to comes along if it is a file.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder || entry.path().is_file() {
            add_all(request, &entry.path(), found)?;
        }
    }
    Ok(())
}

/// A file with what it needs to run, if it is a program or a library.
fn add(request: &Request, path: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !found.insert(path.to_owned()) {
        return Ok(());
    }
    let image = fs::read(path).path("read", path)?;
    if let Some(interpreter) = image.strip_prefix(b"#!") {
        let line = interpreter.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        // `#!/usr/bin/env python3` has two.
        for path in words.filter_map(|word| named(request, OsStr::from_bytes(word))) {
            add(request, &path, found)?;
        }
    } else if let Some(elf) = Elf::parse(&image) {
        let loader = elf.loader.unwrap_or_else(|| PathBuf::from(LOADER));
        // One that is linked statically has none, and its loader says so.
        found.extend(shared_libraries(&loader, path).unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{CpusPerNode, Topology};
    use crate::{Kernel, Qemu};

    fn request(folder: &Path) -> Request {
        let topology = Topology::new(Some(1), &CpusPerNode::Same(1), None, None).unwrap();
        let kernel = Kernel {
            release: "6.1".to_owned(),
            image: "/boot/image".into(),
            unpacked: None,
            modules: None,
            config: None,
        };
        let qemu = Qemu { program: "q".into(), version: "10.0".to_owned(), prefix: None };
        let mut request = Request::new(topology, kernel, qemu, Vec::new()).unwrap();
        request.directory = folder.to_owned();
        request.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        request
    }

    #[test]
    fn what_the_words_name_comes_along_with_what_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("script", "#!/usr/bin/env sh\nexit\n");
        write("data", "1");
        write("more", "2");
        fs::create_dir(folder.path().join("all")).unwrap();
        write("all/x", "3");
        let mut request = request(folder.path());
        request.files = vec!["all".into()];
        request.load = Some("cat 'more'; no-such-thing".into());
        let words =
            [folder.path().join("script").into_os_string(), "-x".into(), "--in=data".into()];
        let found = of(&request, &words).unwrap();
        for name in ["script", "data", "more", "all", "all/x"] {
            assert!(found.contains(&folder.path().join(name)), "{name}: {found:?}");
        }
        let has = |name: &str| found.iter().any(|path| path.ends_with(name));
        assert!(["env", "sh", "cat", "libc.so.6"].into_iter().all(has), "{found:?}");
        assert!(!has("no-such-thing") && !has("-x"));
        request.files = vec!["nowhere".into()];
        assert!(of(&request, &words).unwrap_err().to_string().contains("nowhere"));
    }
}
