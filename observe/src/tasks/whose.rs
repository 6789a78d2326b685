//! Which process a number belongs to, and what that comes from.

use std::path::Path;

use quartier_model::{CpuList, TaskId};

use super::files::Files;
use super::standing::{Cpuset, cgroup};
use super::stat::Stat;
use crate::parse;

/// A process that has a number, or a thread with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whose {
    /// Which.
    pub process: TaskId,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Whether it is the kernel's.
    pub is_kernel_thread: bool,
}

/// The process with this number, or that of the thread with it; `None`: there is none, or it has ended and only waits
/// for its parent to notice.
#[must_use]
pub fn whose(root: &Path, number: u32) -> Option<Whose> {
    let mut files = Files::below(root);
    let text = files.read(&format!("proc/{number}/status")).ok()??;
    let text = String::from_utf8_lossy(text);
    let is_dead =
        parse::status_field(&text, "State").is_some_and(|state| state.starts_with(['Z', 'X']));
    let pid: u32 = parse::status_field(&text, "Tgid")?.parse().ok().filter(|_| !is_dead)?;
    let text = files.read(&format!("proc/{pid}/stat")).ok()??;
    let stat = Stat::parse(text)?;
    Some(Whose {
        process: TaskId { id: pid, start_ticks: stat.start_ticks },
        name: String::from_utf8_lossy(stat.name).into_owned(),
        is_kernel_thread: stat.is_kernel_thread,
    })
}

/// A process's parent, of which `proc/PID/stat` tells; `None`: there is no such process, or it has none that can be seen.
#[must_use]
pub fn parent(root: &Path, pid: u32) -> Option<u32> {
    let mut files = Files::below(root);
    let stat = Stat::parse(files.read(&format!("proc/{pid}/stat")).ok()??)?;
    Some(stat.parent).filter(|parent| *parent > 0)
}

/// The CPUs that the cpuset of a process leaves to it; `None`: it has none, or it is not known.
#[must_use]
pub fn cpus_left_to(root: &Path, pid: u32) -> Option<CpuList> {
    let mut files = Files::below(root);
    let group = cgroup(files.read(&format!("proc/{pid}/cgroup")).ok()??)?;
    Cpuset::of(&mut files, &group).cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_from_its_process_and_who_is_gone_from_both() {
        let root = tempfile::tempdir().unwrap();
        let write = |number: u32, status: &str, flags: u32| {
            let folder = root.path().join(format!("proc/{number}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("status"), status).unwrap();
            let stat = format!(
                "{number} (a) b) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0 0 0 0 \
                 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0\n",
                10 * number
            );
            std::fs::write(folder.join("stat"), stat).unwrap();
        };
        write(40, "Name:\tTgid: 9\nState:\tS (sleeping)\nTgid:\t40\n", 0);
        write(41, "Name:\tx\nState:\tR (running)\nTgid:\t40\n", 0);
        write(42, "Name:\tx\nState:\tZ (zombie)\nTgid:\t42\n", 0);
        write(2, "Name:\tkthreadd\nState:\tS (sleeping)\nTgid:\t2\n", 0x0020_0000);
        let whose = |number| whose(root.path(), number);
        let process = TaskId { id: 40, start_ticks: 400 };
        let expected = Whose { process, name: "a) b".to_owned(), is_kernel_thread: false };
        assert_eq!(whose(40), Some(expected.clone()));
        assert_eq!(whose(41), Some(expected));
        assert_eq!((whose(42), whose(43)), (None, None));
        assert!(whose(2).unwrap().is_kernel_thread);
        let parents = [40, 43].map(|number| parent(root.path(), number));
        assert_eq!(parents, [Some(1), None]);
    }
}
