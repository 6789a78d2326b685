//! A C program that is linked with the library and uses all of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use quartier_decide::dqdt::{FreeMemory, Tree, Usage};
use quartier_observe::Host;
use quartier_shared::{Create, SharedTree};
use tempfile::TempDir;

/// The static library lies where cargo puts it for tests of this package: beside the test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libquartier.a")
}

fn compile(into: &TempDir, compiler: &str, standard: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.path().join(format!("program-{standard}"));
    let output = Command::new(compiler)
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            &format!("-std={standard}"),
            "-O1",
            "-g",
            "-x",
        ])
        .arg(if compiler == "c++" { "c++" } else { "c" })
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("tests/program.c"))
        .args(["-x", "none"])
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path, directory: Option<&Path>) {
    let output = Command::new(program).args(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "ok\n");
}

#[test]
fn a_c_program_uses_a_tree_that_others_share() {
    let folder = TempDir::new().unwrap();
    let program = compile(&folder, "cc", "c11");
    let machine = Host::live().machine().unwrap();
    let directory = TempDir::new().unwrap();
    let tree = Tree::build(&machine);
    let shared = SharedTree::create(directory.path(), &tree, &Create::default()).unwrap();
    run(&program, Some(directory.path()));
    let free = FreeMemory { pages: 1000, blocks: [1; 10] };
    shared.refresher().unwrap().tick(|_| Some(Usage::FULL), |_| Some(free));
    run(&program, Some(directory.path()));
    let nr_threads = shared.estimates().nr_threads(quartier_decide::dqdt::ClusterId::ROOT);
    assert_eq!(nr_threads, 0, "the program took its threads off");
    // The user's own, or the machine's.
    run(&program, None);
}

#[test]
fn the_header_is_c99_and_cplusplus_too() {
    let folder = TempDir::new().unwrap();
    let directory = TempDir::new().unwrap();
    let tree = Tree::build(&Host::live().machine().unwrap());
    let _shared = SharedTree::create(directory.path(), &tree, &Create::default()).unwrap();
    run(&compile(&folder, "cc", "c99"), Some(directory.path()));
    run(&compile(&folder, "c++", "c++17"), Some(directory.path()));
}
