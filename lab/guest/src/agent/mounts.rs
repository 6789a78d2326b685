//! The guest's file systems: the host's root read-only below, memory above, the kernel's own on top.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;

use crate::error::{Context, Error, Result};
use crate::frame::Start;

/// The virtio-fs tag of the host's root.
pub const ROOT_TAG: &str = "root";

const LOWER: &str = "/lower";
const UPPER: &str = "/upper";
const NEW_ROOT: &str = "/newroot";

fn mount(kind: &str, source: &str, target: &Path, flags: MountFlags, data: &str) -> Result<()> {
    let data = CString::new(data).map_err(std::io::Error::other).path("mount", target)?;
    rustix::mount::mount(source, target, kind, flags, data.as_c_str()).path("mount", target)
}

/// A folder of the host. Its device may have been plugged in a moment ago: until its driver has found it there is no such tag (EINVAL).
fn mount_share(tag: &str, target: &Path, flags: MountFlags) -> Result<()> {
    const WAIT: Duration = Duration::from_secs(60);
    const LOOK: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    loop {
        match rustix::mount::mount(tag, target, "virtiofs", flags, c"") {
            Err(rustix::io::Errno::INVAL) if begun.elapsed() < WAIT => thread::sleep(LOOK),
            ended => return ended.path("mount", target),
        }
    }
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).path("create", folder)
}

/// What is needed to find the host.
pub fn early() -> Result<()> {
    mount("proc", "proc", Path::new("/proc"), MountFlags::empty(), "")?;
    mount("sysfs", "sysfs", Path::new("/sys"), MountFlags::empty(), "")?;
    mount("devtmpfs", "devtmpfs", Path::new("/dev"), MountFlags::empty(), "mode=755")
}

/// The host's files, with everything written to them kept in memory, become `/`.
pub fn root(start: &Start) -> Result<()> {
    let [lower, upper, root] = [LOWER, UPPER, NEW_ROOT].map(Path::new);
    for folder in [lower, upper, root] {
        create(folder)?;
    }
    mount_share(ROOT_TAG, lower, MountFlags::RDONLY)?;
    mount("tmpfs", "quartier", upper, MountFlags::empty(), "mode=755")?;
    let (changes, work) = (upper.join("changes"), upper.join("work"));
    create(&changes)?;
    create(&work)?;
    let options = format!(
        "lowerdir={LOWER},upperdir={},workdir={},redirect_dir=on",
        changes.display(),
        work.display()
    );
    mount("overlay", "quartier", root, MountFlags::empty(), &options)?;
    take_along(root)?;
    more_file_systems(root)?;
    for (tag, path) in &start.writable {
        let target = below(root, path);
        create(&target)?;
        mount_share(tag, &target, MountFlags::empty())?;
    }
    for (what, place) in &start.binds {
        bind(&below(root, what), &below(root, place))?;
    }
    switch_root(root)
}

/// What the guest booted with stays `/`.
pub fn stay(start: &Start) -> Result<()> {
    let root = Path::new("/");
    more_file_systems(root)?;
    create(&below(root, &start.directory))?;
    let temporary = Path::new("/tmp");
    fs::set_permissions(temporary, PermissionsExt::from_mode(0o1777)).path("open up", temporary)
}

/// `path` of the host as seen below `root`.
fn below(root: &Path, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The kernel's own file systems move to the new root.
fn take_along(root: &Path) -> Result<()> {
    for name in ["proc", "sys", "dev"] {
        let target = root.join(name);
        create(&target)?;
        let source = Path::new("/").join(name);
        rustix::mount::mount_move(&source, &target).path("move", &source)?;
    }
    Ok(())
}

fn more_file_systems(root: &Path) -> Result<()> {
    let needed: [(&str, &str, &str); 2] =
        [("devpts", "dev/pts", "gid=5,mode=620,ptmxmode=666"), ("tmpfs", "dev/shm", "mode=1777")];
    for (kind, folder, options) in needed {
        let target = root.join(folder);
        create(&target)?;
        mount(kind, kind, &target, MountFlags::NOSUID | MountFlags::NODEV, options)?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        let link = root.join("dev").join(link);
        std::os::unix::fs::symlink(target, &link).path("create", &link)?;
    }
    // Not every kernel has these, and few programs need them.
    for (kind, folder) in [
        ("cgroup2", "sys/fs/cgroup"),
        ("bpf", "sys/fs/bpf"),
        ("debugfs", "sys/kernel/debug"),
        ("tracefs", "sys/kernel/tracing"),
        ("mqueue", "dev/mqueue"),
        ("hugetlbfs", "dev/hugepages"),
    ] {
        let target = root.join(folder);
        if folder.starts_with("dev/") {
            create(&target)?;
        }
        if target.exists() {
            let _ = mount(kind, kind, &target, MountFlags::empty(), "");
        }
    }
    Ok(())
}

/// Shows `what` at `place` too, making the place.
fn bind(what: &Path, place: &Path) -> Result<()> {
    if what.is_dir() {
        create(place)?;
    } else {
        create(place.parent().unwrap_or(place))?;
        fs::write(place, "").path("create", place)?;
        fs::set_permissions(place, PermissionsExt::from_mode(0o644)).path("create", place)?;
    }
    rustix::mount::mount_bind(what, place).path("mount", place)
}

/// Makes the kernel forget files it does not use before it knows more than the host can keep open.
/// By itself it forgets them only when memory runs out.
pub fn forget_unused_files(start: &Start) {
    /// By the host's clock, which counts.
    const LOOK: Duration = Duration::from_millis(20);
    /// Where forgetting did not help, the files are in use.
    const REST: Duration = Duration::from_secs(1);
    /// Guests that know this many files run out of memory first.
    const ENOUGH: u64 = 900_000;
    let (files_max, look) = (start.files_max, start.look(LOOK));
    if files_max >= ENOUGH {
        return;
    }
    let others = nr_inodes();
    thread::spawn(move || {
        loop {
            thread::sleep(look);
            // A file may count twice, in the overlay and below it: half the room is left.
            let is_full = || nr_inodes() > others + files_max / 2;
            if is_full() {
                // The second time is for what the first has let go of.
                for _ in 0..2 {
                    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
                }
                if is_full() {
                    thread::sleep(REST);
                }
            }
        }
    });
}

/// Files and everything like them that the kernel has in memory.
fn nr_inodes() -> u64 {
    let text = fs::read_to_string("/proc/sys/fs/inode-nr").unwrap_or_default();
    text.split_whitespace().next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn switch_root(root: &Path) -> Result<()> {
    std::env::set_current_dir(root).path("enter", root)?;
    rustix::mount::mount_move(".", "/").path("move", root)?;
    rustix::process::chroot(".").path("make the root", root)?;
    std::env::set_current_dir("/")
        .map_err(|source| Error::System { operation: "enter the new root", source })
}
