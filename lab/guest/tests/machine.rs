//! The guest is the machine that was asked for, on every kernel, and needs no privilege.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use common::{FAST, alone, asks_for_all_kernels, assert_status, lab, quartier, ready, text};

const DESCRIBE: &str = r#"
    for node in 0 1 2 3; do
        folder=/sys/devices/system/node/node$node
        awk -v node=$node '/MemTotal/ { memory = $4 > 0 ? "memory" : "none" }
            END { print node, memory }' $folder/meminfo
        echo "$(cat $folder/cpulist) | $(cat $folder/distance)"
    done
    cat /sys/devices/system/cpu/possible
    cat /sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list
    uname -r
"#;

#[test]
fn every_kernel_sees_the_topology_asked_for() {
    let between = asks_for_all_kernels().then_some(["6.12", "7.2"]);
    for kernel in ["6.1", "7.3"].into_iter().chain(between.into_iter().flatten()) {
        if !ready(kernel) {
            return;
        }
        let options =
            ["--cpus-per-node=2,0,4,2", "--mem=256M,128M,0,256M", "--distance=ring", "--json"];
        let guard = alone();
        let output = lab(kernel, &options, &["sh", "-c", DESCRIBE]).output().unwrap();
        drop(guard);
        assert_status(&output, 0);
        let expected = "0 memory\n0-1 | 10 20 30 20\n1 memory\n | 20 10 20 30\n\
                        2 none\n2-5 | 30 20 10 20\n3 memory\n6-7 | 20 30 20 10\n0-7\n2-3\n";
        let stdout = text(&output.stdout);
        assert!(stdout.starts_with(expected), "{kernel}: {stdout}");
        assert!(stdout[expected.len()..].starts_with(kernel), "{kernel}: {stdout}");
    }
}

/// Every file below the folders in which apt and dpkg keep their state, and when it changed.
fn package_state() -> BTreeMap<std::path::PathBuf, (i64, i64, u64)> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<_> =
        ["/etc/apt", "/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg"].map(Into::into).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let data = entry.path().symlink_metadata().unwrap();
            found.insert(entry.path(), (data.ctime(), data.ctime_nsec(), data.size()));
            if data.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// A folder whose apt-get always fails, as without a network.
fn broken_apt(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("apt-get");
    fs::write(&path, "#!/bin/sh\necho there is no network >&2\nexit 100\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_was_fetched_once_boots_offline_for_an_ordinary_user() {
    if !ready(FAST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let before = package_state();
    let fetch = Command::new(quartier())
        .args(["lab", "fetch", "--kernel", FAST])
        .env("QUARTIER_CACHE", &cache)
        .output()
        .unwrap();
    if !fetch.status.success() && std::env::var_os("CI").is_none() {
        println!("skipped: nothing can be fetched here: {}", text(&fetch.stderr));
        return;
    }
    assert_status(&fetch, 0);
    let after = package_state();
    let changed: Vec<_> =
        after.iter().filter(|(path, data)| before.get(*path) != Some(*data)).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "fetching changed {changed:?}");

    broken_apt(folder.path());
    let program = folder.path().join("quartier");
    fs::copy(quartier(), &program).unwrap();
    let open = Command::new("chmod").arg("-R").arg("a+rX").arg(folder.path()).status().unwrap();
    assert!(open.success());
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    // The server keeps a file open for each that the guest knows, and may keep few.
    let mut command = Command::new(if is_root { "runuser" } else { "env" });
    command.args(if is_root { &["-u", "nobody", "--"][..] } else { &[] });
    command.args(["sh", "-c", "ulimit -n 4096; exec \"$@\"", "sh"]).arg(&program);
    let script = "id -un; touch /etc/quartier-was-here 2>/dev/null || echo refused; \
                  ls /root >/dev/null 2>&1; echo x > /tmp/mine && cat /tmp/mine; \
                  find /usr/share /usr/lib 2>&1 | head -n 9000 | grep -c 'Too many open files'";
    let path = std::env::join_paths(
        std::iter::once(folder.path().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    command.args(["lab", "run", "--kernel", FAST, "--nodes=1", "--", "sh", "-c", script]);
    command.current_dir("/").env("QUARTIER_CACHE", &cache).env("PATH", path);
    let _alone = alone();
    let output = command.output().unwrap();
    assert_status(&output, 1); // grep found none.
    let user =
        if is_root { "nobody".to_owned() } else { std::env::var("USER").unwrap_or_default() };
    assert_eq!(
        text(&output.stdout),
        format!("{user}\nrefused\nx\n0\n"),
        "{}",
        text(&output.stderr)
    );
}
