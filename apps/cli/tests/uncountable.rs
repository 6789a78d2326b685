//! What `quartier lab count` cannot count: one sentence, status 2, and no guest is left.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A small guest: none of this depends on its size.
const SMALL: [&str; 7] =
    ["lab", "count", "--kernel=6.1", "--nodes=2", "--cpus-per-node=1", "--timeout=300", "--"];

fn count(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Asserts one sentence with this in it, and that whatever was started has ended.
fn assert_refused(output: &Output, part: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with("quartier: ") && said.contains(part), "{said}");
}

/// Runs a count in a folder for temporary files of its own, by which its guest can be found.
fn refused(mut count: Command, part: &str) {
    let temporary = TempDir::new().unwrap();
    assert_refused(&count.env("TMPDIR", temporary.path()).output().unwrap(), part);
    let name = temporary.path().to_str().unwrap();
    let left = Command::new("pgrep").args(["--full", name]).output().unwrap();
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
    assert!(fs::read_dir(temporary.path()).unwrap().next().is_none(), "files are left in {name}");
}

/// A copy of the command with another instrument beside it.
fn with_instrument(definition: &str) -> (TempDir, PathBuf) {
    static SOURCE: &str = r#"
        #include <stdio.h>
        #include <string.h>
        #include <stdlib.h>
        int qemu_plugin_version = VERSION;
        int qemu_plugin_install(unsigned long id, const void *info, int argc, char **argv) {
            (void)id, (void)info;
            for (int i = 0; ANSWER && i < argc; i++)
                if (strncmp(argv[i], "out=", 4) == 0) {
                    FILE *file = fopen(argv[i] + 4, "w");
                    fputs("{\"format\": 9}", file);
                    fclose(file);
                    return 0;
                }
            fputs("quartier-plugin: `range` is not an argument of this plugin\n", stderr);
            return 1;
        }
    "#;
    // Beside the command, which a link cannot leave the disk of.
    let folder = TempDir::new_in(common::quartier().parent().unwrap()).unwrap();
    let (source, library) =
        (folder.path().join("plugin.c"), folder.path().join("libquartier_plugin.so"));
    fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compile.args(definition.split(' ')).status().unwrap().success());
    let program = folder.path().join("quartier");
    fs::hard_link(common::quartier(), &program).unwrap();
    (folder, program)
}

#[test]
fn an_instrument_of_another_build_is_told() {
    if !common::can_boot("6.1") {
        return;
    }
    for (definition, part) in [
        // Of an interface that no QEMU has yet.
        ("-DVERSION=99 -DANSWER=0", "plugin requires API version 99"),
        // Of another version of ours, which takes other arguments,
        (
            "-DVERSION=4 -DANSWER=0",
            "with the instrument: `range` is not an argument of this plugin",
        ),
        // or writes another file.
        ("-DVERSION=4 -DANSWER=1", "of different builds"),
    ] {
        let (_folder, program) = with_instrument(definition);
        let mut count = count(&program);
        count.args(SMALL).arg("true");
        refused(count, part);
    }
}

#[test]
fn a_qemu_without_the_plugins_interface_is_told() {
    let folder = TempDir::new().unwrap();
    let qemu = folder.path().join("qemu-system-x86_64");
    fs::write(&qemu, "#!/bin/sh\necho 'QEMU emulator version 9.1.0 (old)'\n").unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    // The kernel is never read, and there is nothing to fetch a newer QEMU with.
    let kernel = kernel_of_the_cache();
    let mut count = count(common::quartier());
    count.env("PATH", folder.path()).env("QUARTIER_CACHE", folder.path().join("cache"));
    count.args(["lab", "count", "--kernel", kernel, "--", "/bin/true"]);
    let Some(output) = (!kernel.is_empty()).then(|| count.output().unwrap()) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().contains("QEMU 9.1.0"), "{said}");
    assert!(said.contains("too old to count: install 9.2 or newer"), "{said}");
}

/// The boot image of some kernel, or nothing where there is none.
fn kernel_of_the_cache() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| {
        if !common::can_boot("6.1") {
            return String::new();
        }
        let list = Command::new(common::quartier()).args(["lab", "kernels", "--json"]).output();
        let list: serde_json::Value = serde_json::from_slice(&list.unwrap().stdout).unwrap();
        list[0]["image"].as_str().unwrap().to_owned()
    })
}

#[test]
fn a_geometry_for_another_number_of_nodes_is_told() {
    if !common::can_boot("6.1") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("three.toml");
    let preset = include_str!("../../../lab/memmodel/presets/tsar.toml");
    let start = preset.find("[topology]").unwrap();
    let end = preset[start + 1..].find("\n[").map_or(preset.len(), |end| start + 1 + end);
    let hops = "[topology]\nkind = \"matrix\"\nhops = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]\n";
    fs::write(&file, preset.replace(&preset[start..end], hops)).unwrap();
    let mut count = count(common::quartier());
    count.args(&SMALL[..6]).args(["--geometry", file.to_str().unwrap(), "--", "true"]);
    refused(count, "the topology has 3 nodes and the machine 2");
}

#[test]
fn a_program_that_never_begins_is_told() {
    if !common::can_boot("6.1") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut after_the_marker = count(common::quartier());
    after_the_marker.args(SMALL).arg(&program);
    refused(after_the_marker, "nothing was counted: cannot run ");
    // A folder of this machine that the guest has not: it dies before the marker.
    let nowhere = TempDir::new_in("/dev/shm").unwrap();
    let mut before_the_marker = count(common::quartier());
    before_the_marker.args(SMALL).arg("true").current_dir(nowhere.path());
    refused(before_the_marker, "nothing was counted: cannot enter /dev/shm/");
}

#[test]
fn a_guest_that_dies_is_told_and_nothing_is_reported() {
    if !common::can_boot("6.1") {
        return;
    }
    let mut count = count(common::quartier());
    let crash = "echo c > /proc/sysrq-trigger; sleep 100";
    count.args(&SMALL[..6]).args(["--root", "--", "sh", "-c", crash]);
    let output = count.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.starts_with("quartier: the guest's kernel panicked"), "{said}");
    assert!(!said.contains("quartier lab count"), "{said}");
}

#[test]
fn a_kernel_that_does_not_say_enough_of_itself_is_told() {
    if !common::can_boot("6.1") {
        return;
    }
    // It hides its symbols from everybody.
    let mut count = count(common::quartier());
    count.args(&SMALL[..6]).args(["--kernel-arg", "sysctl.kernel.kptr_restrict=2", "--", "true"]);
    refused(count, "nothing can be counted under this kernel: the kernel does not say where its");
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_a_guest_boots() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let below_a_file = file.path().join("x");
    for option in ["--html", "--report", "--recording", "--svg"] {
        for place in [below_a_file.to_str().unwrap(), "/proc/x"] {
            let mut count = count(common::quartier());
            count.args(["lab", "count", option, place, "--", "true"]);
            assert_refused(&count.output().unwrap(), "cannot ");
        }
    }
}

#[test]
fn how_much_slower_a_guest_is_cannot_be_found_out_without_a_run_before() {
    for verb in ["run", "count"] {
        let mut command = Command::new(common::quartier());
        command.args(["lab", verb, "--slow-clocks", "auto", "--", "true"]).stdin(Stdio::null());
        assert_refused(&command.output().unwrap(), "is for `lab compare`");
    }
}
