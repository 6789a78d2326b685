//! Model-checked tests: `tests/loom.rs` of crates that depend on loom, built with `--cfg loom` in a
//! folder of their own.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace::{Package, Workspace};

/// Runs them all; says so when there are none.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let names = with_loom(&workspace.packages);
    if names.is_empty() {
        println!("loom: no crate has model-checked tests");
        return Ok(());
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Optimised: loom runs every interleaving.
    cargo.args(["test", "--release", "--test", "loom", "--no-fail-fast"]);
    for name in names {
        cargo.args(["--package", name]);
    }
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default() + " --cfg loom";
    let folder = workspace.root.join("target/loom");
    let status = cargo
        .env("RUSTFLAGS", flags)
        .env("CARGO_TARGET_DIR", folder)
        .current_dir(&workspace.root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "loom tests failed");
    Ok(())
}

fn with_loom(packages: &[Package]) -> Vec<&str> {
    let uses_loom = |package: &&Package| package.dependencies.iter().any(|dep| dep.name == "loom");
    packages.iter().filter(uses_loom).map(|package| package.name.as_str()).collect()
}
