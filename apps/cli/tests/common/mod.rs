//! What the tests of the command share.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The built command, with the runtime library beside it.
pub fn quartier() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let packages = ["--package", "quartier-cli", "--package", "quartier-runtime"];
        let mut build = Command::new(env!("CARGO"));
        let status = build.args(["build", "--quiet"]).args(packages).status().unwrap();
        assert!(status.success(), "quartier does not build");
        let command = PathBuf::from(env!("CARGO_BIN_EXE_quartier"));
        assert!(command.with_file_name("libquartier_preload.so").exists());
        command
    })
}
