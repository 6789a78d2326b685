//! Where the libraries are that belong to this command.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Beside the command (built tree), or in `../lib/quartier` (installed).
pub fn library(name: &str, what: &str) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("cannot find out where quartier is")?;
    let beside = here.with_file_name(name);
    let installed =
        here.parent().and_then(Path::parent).map(|up| up.join("lib/quartier").join(name));
    [Some(beside), installed].into_iter().flatten().find(|path| path.exists()).with_context(|| {
        format!("{what} {name} is not beside {}; run `make build` or reinstall", here.display())
    })
}
