//! Cpusets of control groups (Linux Documentation/admin-guide/cgroup-v2.rst, "Cpuset"): which CPUs a group may use.
//!
//! Only `cpuset.cpus` of a group is written, of one for which nobody has, and that holds a process alone. Threads keep
//! their own affinities underneath and have them again afterwards. Linux 7.2 is the oldest of which both were seen that it takes
//! to take this back: before 6.2 threads' affinities were forgotten, and 6.12 and 6.16 do not let the list of a group be
//! emptied again while processes are in it (`ENOSPC`).

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quartier_model::{CpuList, NoCpuset, NodeId};
use quartier_session::CpuBits;
use serde::{Deserialize, Serialize};

use super::mask::Mask;
use super::task;
use crate::affinity;

/// A group of which we narrowed the CPUs, which nobody had set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrowed {
    /// Its path below the root of the groups.
    pub group: String,
    /// That of its directory: another one may have its path later.
    pub inode: u64,
    /// The node of the CPUs that we left to it.
    pub node: NodeId,
    /// What we set.
    pub set: Mask,
    /// What we had set before, while it is not known which of both is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Mask>,
}

/// The groups of a machine.
#[derive(Debug)]
pub struct Groups {
    root: PathBuf,
    /// Whether the kernel lets a group have its CPUs back.
    can_widen: bool,
}

impl Groups {
    /// Those of this machine.
    pub fn live() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self { root: PathBuf::from("/sys/fs/cgroup"), can_widen: can_widen(&release) }
    }

    /// Those below a directory.
    #[cfg(test)]
    pub fn at(root: &Path, can_widen: bool) -> Self {
        Self { root: root.to_owned(), can_widen }
    }

    /// What is to be written down before a group is narrowed to these CPUs. `earlier` is how we narrowed it before, and
    /// `is_ours` says of a thread's affinity whether nobody but us has set it.
    pub fn prepare(
        &self,
        pid: u32,
        (group, node): (&str, NodeId),
        cpus: &CpuBits,
        earlier: Option<&Narrowed>,
        mut is_ours: impl FnMut(u32, &CpuBits) -> bool,
    ) -> Result<Narrowed, NoCpuset> {
        if !self.can_widen {
            return Err(NoCpuset::TooOld);
        }
        let inode = self.inode(group)?;
        let earlier = earlier.filter(|narrowed| self.is_so(narrowed));
        if earlier.is_none() {
            self.check_unset(group)?;
        }
        self.check_alone(group, pid)?;
        // One that has ended meanwhile is no matter.
        let affinities = task::tids_of(pid).filter_map(|tid| Some((tid, affinity::get(tid).ok()?)));
        let mut affinities = affinities.peekable();
        affinities.peek().ok_or(NoCpuset::Gone)?;
        if !affinities.all(|(tid, now)| is_ours(tid, &now)) {
            return Err(NoCpuset::ThreadsLeft);
        }
        let (group, set) = (group.to_owned(), Mask::from(cpus));
        Ok(Narrowed { group, inode, node, set, earlier: earlier.map(|before| before.set.clone()) })
    }

    /// Narrows a group, after that was written down. Where that fails, nobody has set its CPUs again.
    pub fn narrow(&self, narrowed: &Narrowed) -> Result<(), NoCpuset> {
        let wanted = narrowed.set.bits();
        self.write(&narrowed.group, &wanted)?;
        // CPUs that are offline are not effective.
        let effective = self.effective(&narrowed.group);
        if effective.is_some_and(|now| !now.is_empty() && now.is_within(&wanted)) {
            return Ok(());
        }
        self.write(&narrowed.group, &CpuBits::EMPTY)?;
        Err(NoCpuset::NotEffective)
    }

    /// Whether a group still has what we set.
    pub fn is_so(&self, narrowed: &Narrowed) -> bool {
        let ours = [Some(&narrowed.set), narrowed.earlier.as_ref()];
        self.inode(&narrowed.group) == Ok(narrowed.inode)
            && self
                .list(&narrowed.group, "cpuset.cpus")
                .is_some_and(|now| ours.into_iter().flatten().any(|ours| ours.bits() == now))
    }

    /// Gives a group its CPUs back, unless somebody has set others since, or it is gone.
    pub fn widen(&self, narrowed: &Narrowed) -> Result<(), NoCpuset> {
        if self.is_so(narrowed) { self.write(&narrowed.group, &CpuBits::EMPTY) } else { Ok(()) }
    }

    /// Whether a process is alone in a group, and no group in that.
    pub fn check_alone(&self, group: &str, pid: u32) -> Result<(), NoCpuset> {
        let directory = self.directory(group)?;
        let has_groups = fs::read_dir(&directory)
            .map_err(|_| NoCpuset::Gone)?
            .flatten()
            .any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let processes = fs::read_to_string(directory.join("cgroup.procs"));
        let processes = processes.map_err(|_| NoCpuset::Shared)?;
        let is_alone = processes.lines().eq([pid.to_string().as_str()]);
        if is_alone && !has_groups { Ok(()) } else { Err(NoCpuset::Shared) }
    }

    /// The CPUs that the group above, or the nearest above that with a cpuset, leaves to this one.
    pub fn above(&self, group: &str) -> Option<CpuBits> {
        let mut at = group;
        loop {
            at = &at[..at.rfind('/')?];
            if let Some(cpus) = self.effective(at) {
                return Some(cpus);
            }
        }
    }

    /// The CPUs that its cpuset leaves to a thread, or all that are online; `None`: it is not known.
    pub fn left_to(&self, tid: u32) -> Option<CpuBits> {
        let groups = fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let by_cpuset = group.and_then(|group| {
            let group = group.trim_end_matches('/');
            self.effective(group).or_else(|| self.above(group))
        });
        by_cpuset.filter(|cpus| !cpus.is_empty()).or_else(online)
    }

    fn check_unset(&self, group: &str) -> Result<(), NoCpuset> {
        let cpus = self.list(group, "cpuset.cpus").ok_or(NoCpuset::NoController)?;
        let partition = self.read(group, "cpuset.cpus.partition");
        let is_member = partition.is_ok_and(|kind| kind.trim() == "member");
        if cpus.is_empty() && is_member { Ok(()) } else { Err(NoCpuset::SetBySomebody) }
    }

    /// The CPUs that it has; `None`: it has no cpuset.
    pub fn effective(&self, group: &str) -> Option<CpuBits> {
        self.list(group, "cpuset.cpus.effective")
    }

    fn list(&self, group: &str, file: &str) -> Option<CpuBits> {
        let list: CpuList = self.read(group, file).ok()?.trim().parse().ok()?;
        Some(list.iter().collect())
    }

    fn read(&self, group: &str, file: &str) -> io::Result<String> {
        let directory = self.directory(group).map_err(|_| ErrorKind::NotFound)?;
        fs::read_to_string(directory.join(file))
    }

    fn inode(&self, group: &str) -> Result<u64, NoCpuset> {
        fs::metadata(self.directory(group)?).map(|there| there.ino()).map_err(|_| NoCpuset::Gone)
    }

    /// In one piece, as the kernel wants it.
    fn write(&self, group: &str, cpus: &CpuBits) -> Result<(), NoCpuset> {
        let path = self.directory(group)?.join("cpuset.cpus");
        let text = format!("{}\n", cpus.iter().collect::<CpuList>());
        let written = OpenOptions::new().write(true).open(path);
        written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
            match error.kind() {
                ErrorKind::NotFound => NoCpuset::Gone,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    NoCpuset::NotPermitted
                }
                _ => NoCpuset::NotEffective,
            }
        })
    }

    /// A path that leaves the groups is none of them: that of a process in another namespace of groups.
    fn directory(&self, group: &str) -> Result<PathBuf, NoCpuset> {
        let below = group.strip_prefix('/').unwrap_or(group);
        let leaves = Path::new(below).components().any(|part| part.as_os_str() == "..");
        if leaves { Err(NoCpuset::Gone) } else { Ok(self.root.join(below)) }
    }
}

fn online() -> Option<CpuBits> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    Some(list.trim().parse::<CpuList>().ok()?.iter().collect())
}

/// Earlier kernels than were tried are taken not to.
fn can_widen(release: &str) -> bool {
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (7, 2),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups as files: what is set is not effective until the test says so.
    struct Scene(tempfile::TempDir);

    const PID: u32 = 1;

    impl Scene {
        fn new() -> Self {
            let scene = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(scene.0.path().join("a/b")).unwrap();
            scene.put("cpuset.cpus.effective", "0-7");
            scene.put("a/b/cpuset.cpus", "");
            scene.put("a/b/cpuset.cpus.partition", "member");
            scene.put("a/b/cpuset.cpus.effective", "0-7");
            scene.put("a/b/cgroup.procs", &PID.to_string());
            scene
        }

        fn put(&self, file: &str, text: &str) {
            fs::write(self.0.path().join(file), format!("{text}\n")).unwrap();
        }

        fn groups(&self) -> Groups {
            Groups::at(self.0.path(), true)
        }

        fn prepare(&self, earlier: Option<&Narrowed>) -> Result<Narrowed, NoCpuset> {
            let cpus = [2, 3].into_iter().collect();
            self.groups().prepare(PID, ("/a/b", NodeId(1)), &cpus, earlier, |_, _| true)
        }

        fn cpus(&self) -> String {
            fs::read_to_string(self.0.path().join("a/b/cpuset.cpus")).unwrap().trim().to_owned()
        }
    }

    #[test]
    fn a_group_is_narrowed_and_widened_as_it_was() {
        let scene = Scene::new();
        let narrowed = scene.prepare(None).unwrap();
        // The files of a test do not follow, so this one is too wide still.
        assert_eq!(scene.groups().narrow(&narrowed), Err(NoCpuset::NotEffective));
        scene.put("a/b/cpuset.cpus.effective", "3");
        scene.groups().narrow(&narrowed).unwrap();
        assert!(scene.groups().is_so(&narrowed) && scene.cpus().starts_with("2-3"));
        let again = scene.prepare(Some(&narrowed)).unwrap();
        assert_eq!(again.earlier, Some(narrowed.set.clone()), "ours, so it may be narrowed anew");
        scene.groups().widen(&narrowed).unwrap();
        assert!(!scene.groups().is_so(&narrowed));
        assert_eq!(scene.groups().above("/a/b"), Some((0..8).collect()));
        assert_eq!(scene.groups().above(""), None);
    }

    #[test]
    fn what_is_somebodys_is_left_alone() {
        let scene = Scene::new();
        let narrowed = scene.prepare(None).unwrap();
        scene.put("a/b/cpuset.cpus", "0-1");
        assert_eq!(scene.prepare(None), Err(NoCpuset::SetBySomebody));
        scene.groups().widen(&narrowed).unwrap();
        assert_eq!(scene.cpus(), "0-1", "his from then on");
        scene.put("a/b/cpuset.cpus", "");
        scene.put("a/b/cpuset.cpus.partition", "root");
        assert_eq!(scene.prepare(None), Err(NoCpuset::SetBySomebody));
        scene.put("a/b/cpuset.cpus.partition", "member");
        scene.put("a/b/cgroup.procs", "1\n7");
        assert_eq!(scene.prepare(None), Err(NoCpuset::Shared));
        scene.put("a/b/cgroup.procs", "1");
        fs::create_dir(scene.0.path().join("a/b/c")).unwrap();
        assert_eq!(scene.prepare(None), Err(NoCpuset::Shared));
        let cpus = (0..2).collect();
        let prepare = |group, is_ours| {
            let groups = scene.groups();
            groups.prepare(PID, (group, NodeId(0)), &cpus, None, |_, _| is_ours)
        };
        fs::remove_dir(scene.0.path().join("a/b/c")).unwrap();
        assert_eq!(prepare("/a/b", false), Err(NoCpuset::ThreadsLeft));
        assert_eq!(prepare("/a", true), Err(NoCpuset::NoController));
        assert_eq!(prepare("/x", true), Err(NoCpuset::Gone));
        assert_eq!(prepare("/../../etc", true), Err(NoCpuset::Gone));
    }

    #[test]
    fn another_group_with_its_path_is_not_widened() {
        let scene = Scene::new();
        let narrowed = Narrowed { inode: 1, ..scene.prepare(None).unwrap() };
        scene.put("a/b/cpuset.cpus", "2-3");
        scene.groups().widen(&narrowed).unwrap();
        assert_eq!(scene.cpus(), "2-3");
    }

    #[test]
    fn only_kernels_that_can_take_it_back_are_asked() {
        for (release, expected) in [
            ("6.1.0-41-amd64", false),
            ("6.16.12+deb13-cloud-amd64", false),
            ("7.2.12+deb13-cloud-amd64", true),
            ("7.3-rc7", true),
            ("5.19.1", false),
            ("", false),
            ("x.y", false),
        ] {
            assert_eq!(can_widen(release), expected, "{release}");
        }
        let scene = Scene::new();
        let groups = Groups::at(scene.0.path(), false);
        let prepared = groups.prepare(PID, ("/a/b", NodeId(0)), &CpuBits::EMPTY, None, |_, _| true);
        assert_eq!(prepared, Err(NoCpuset::TooOld));
    }
}
