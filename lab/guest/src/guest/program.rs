//! Finds the command on the host before anything is booted for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The file that `name` means, as a shell would have it.
///
/// # Errors
/// When there is no such program, or it may not be executed.
pub fn resolve(name: &OsStr, directory: &Path, search: Option<&OsString>) -> Result<PathBuf> {
    let shown = name.to_string_lossy();
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.as_bytes().contains(&b'/') {
        let path = directory.join(name);
        return match (path.exists(), executable(&path)) {
            (_, true) => Ok(path),
            (true, false) => Err(Error::refused(format!(
                "`{shown}` cannot be run: it is not an executable file; `chmod +x` makes one"
            ))),
            (false, _) => Err(Error::refused(format!(
                "`{shown}` cannot be run: there is no such file on this machine"
            ))),
        };
    }
    let folders = search.map(std::env::split_paths).into_iter().flatten();
    folders
        .map(|folder| directory.join(folder).join(name))
        .find(|path| executable(path))
        .ok_or_else(|| {
            Error::refused(format!(
                "`{shown}` cannot be run: no folder of the PATH has such a program; give its path \
                 or install it"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let search = OsString::from("/nowhere:/bin:/usr/bin");
        let find = |name: &str| resolve(OsStr::new(name), Path::new("/bin"), Some(&search));
        assert_eq!(find("sh").unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("./sh").unwrap(), Path::new("/bin/./sh"));
        assert!(find("no-such-program").unwrap_err().to_string().contains("PATH"));
        let plain = tempfile::NamedTempFile::new().unwrap();
        let plain = plain.path().to_str().unwrap();
        assert!(find(plain).unwrap_err().to_string().contains("executable"));
        assert!(find("/no/such").unwrap_err().to_string().contains("no such file"));
        assert!(find("/bin").is_err() && find("").is_err());
    }
}
