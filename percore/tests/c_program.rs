//! A C program that is linked with the library and uses all of it.
#![cfg(not(any(loom, miri)))]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The static library lies where cargo puts it for tests of this package: beside the test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libquartier_percore.a")
}

fn compile(into: &TempDir, compiler: &str, standard: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.path().join(format!("program-{standard}"));
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"])
        .arg(format!("-std={standard}"))
        .args(["-x", if compiler == "c++" { "c++" } else { "c" }])
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

fn run(program: &mut Command) {
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "ok\n");
}

#[test]
fn a_c_program_uses_all_of_it() {
    let folder = TempDir::new().unwrap();
    let program = compile(&folder, "cc", "c11");
    run(Command::new(&program).env_remove("GLIBC_TUNABLES"));
    // And so where there are no restartable sequences.
    run(Command::new(&program).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
}

#[test]
fn the_header_is_c99_and_cplusplus_too() {
    let folder = TempDir::new().unwrap();
    run(&mut Command::new(compile(&folder, "cc", "c99")));
    run(&mut Command::new(compile(&folder, "c++", "c++17")));
}

/// What is called, declared or defined in a text: `quartier_NAME(`.
fn functions(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.match_indices("quartier_").filter_map(|(at, _)| {
        let rest = &text[at..];
        let name = &rest[..rest.find(|c| !is_word(c))?];
        let is_whole = !text[..at].ends_with(is_word);
        (is_whole && rest[name.len()..].starts_with('(')).then_some(name)
    });
    words.collect()
}

#[test]
fn the_header_the_library_and_the_program_have_the_same_functions() {
    let declared = functions(include_str!("../include/quartier_percore.h"));
    let defined = [
        include_str!("../src/capi/counter.rs"),
        include_str!("../src/capi/tables.rs"),
        include_str!("../src/capi/lock.rs"),
        include_str!("../src/capi/events.rs"),
    ];
    assert!(declared.len() > 25, "{declared:?}");
    assert_eq!(declared, defined.into_iter().flat_map(functions).collect());
    assert_eq!(declared, functions(include_str!("program.c")));
}
