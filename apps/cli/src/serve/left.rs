//! Copies that go on without us: a `serve` that was killed ends none of them. So each notes its process group beside its files, and
//! whoever comes next leaves these alone as long as it lives.

use std::fs;
use std::path::Path;

use quartier_act::scheduler::start_ticks;

use super::copy::write_whole;

const NOTE: &str = "group";

/// The copy of this directory lives from now on.
pub fn note(directory: &Path, group: u32) -> anyhow::Result<()> {
    let began = start_ticks(group).unwrap_or_default();
    write_whole(&directory.join(NOTE), &format!("{group} {began}\n"), 0o600)
}

/// None of it is left.
pub fn forget(directory: &Path) {
    let _ = fs::remove_file(directory.join(NOTE));
}

/// The groups that still live, of all copies of an instance.
pub fn living(instance: &Path) -> Vec<u32> {
    let copies = fs::read_dir(instance).into_iter().flatten().flatten();
    let mut groups: Vec<u32> = copies.filter_map(|copy| living_in(&copy.path())).collect();
    groups.sort_unstable();
    groups
}

fn living_in(directory: &Path) -> Option<u32> {
    let noted = fs::read_to_string(directory.join(NOTE)).ok()?;
    let (group, began) = noted.trim().split_once(' ')?;
    let (group, began): (u32, u64) = (group.parse().ok()?, began.parse().ok()?);
    // A number may be another's by now. If the first process is gone, the others have kept it from being given away.
    let is_same = start_ticks(group).is_none_or(|now| now == began);
    (is_same && has_members(group)).then_some(group)
}

/// Whether anybody is in the group who has not ended; those wait until somebody asks how.
fn has_members(group: u32) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok()).any(
        |stat| {
            // Behind the name, which may hold anything: state, parent, group.
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
            let state = fields.next();
            let of_group = fields.nth(1).and_then(|it| it.parse().ok()) == Some(group);
            of_group && !matches!(state, Some("Z" | "X"))
        },
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_number_that_was_given_to_another_is_not_the_copy() {
        let instance = tempfile::tempdir().unwrap();
        let copy = instance.path().join("copy-0");
        fs::create_dir(&copy).unwrap();
        let mut sleeps = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        note(&copy, sleeps.id()).unwrap();
        assert_eq!(living(instance.path()), [sleeps.id()]);
        fs::write(copy.join(NOTE), format!("{} 1\n", sleeps.id())).unwrap();
        assert!(living(instance.path()).is_empty(), "it began at another time");
        note(&copy, sleeps.id()).unwrap();
        sleeps.kill().unwrap();
        while !living(instance.path()).is_empty() {
            // It has not ended yet; that it has is asked last.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        sleeps.wait().unwrap();
        for wrong in ["", "x y", "1"] {
            fs::write(copy.join(NOTE), wrong).unwrap();
            assert!(living(instance.path()).is_empty(), "{wrong:?}");
        }
    }
}
