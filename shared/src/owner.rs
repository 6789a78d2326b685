//! Who a process is, whether another one lives, and the clock that both agree on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use quartier_decide::dqdt::{Life, Owner};
use rustix::time::{ClockId, clock_gettime};

/// This process, as the ledger knows it. `None` where /proc cannot be read: then nothing is counted,
/// since nobody could ever tell whether to take it off again.
#[must_use]
pub fn own_identity() -> Option<Owner> {
    // By /proc/self, not by an id: in a new PID namespace /proc may still be the old one's.
    let stat = fs::read("/proc/self/stat").ok()?;
    let pid = std::str::from_utf8(stat.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()?;
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(Owner {
        pid,
        start_ticks: Some(start_ticks(&stat)?),
        pid_namespace: (namespace & 0xff_ffff) as u32,
    })
}

/// Whether an owner lives, as far as `own` can see.
#[must_use]
pub fn life(owner: &Owner, own: &Owner) -> Life {
    if owner.pid_namespace != own.pid_namespace {
        return Life::Unknown;
    }
    match fs::read(format!("/proc/{}/stat", owner.pid)) {
        Ok(stat) => match (start_ticks(&stat), owner.start_ticks) {
            (Some(now), Some(then)) if now != then => Life::Dead,
            _ if is_zombie(&stat) => Life::Dead,
            _ => Life::Alive,
        },
        // A reader may not see other users' processes (hidepid): then the file is not there either.
        // Signal 0 tells: a process that is there is refused (EPERM), not missing (ESRCH).
        Err(_) => match rustix::process::Pid::from_raw(owner.pid as i32)
            .map(rustix::process::test_kill_process)
        {
            Some(Err(rustix::io::Errno::SRCH)) => Life::Dead,
            Some(_) => Life::Alive,
            None => Life::Dead,
        },
    }
}

/// Field 22 of /proc/PID/stat. The name in field 2 may hold anything, parentheses too.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    field_after_name(stat, 19)?.parse().ok()
}

/// A zombie runs nothing, but its number is not free yet. One that has other threads has only lost
/// its first (`pthread_exit` in `main`).
fn is_zombie(stat: &[u8]) -> bool {
    let nr_threads = field_after_name(stat, 17).and_then(|field| field.parse::<u32>().ok());
    matches!(field_after_name(stat, 0), Some("Z" | "X")) && nr_threads.is_none_or(|nr| nr <= 1)
}

fn field_after_name(stat: &[u8], at: usize) -> Option<&str> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(at)
}

/// Since the machine was started, sleep included.
pub(crate) fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The kernel's boot id, as its 16 bytes. `None` where /proc does not say.
pub(crate) fn boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_nothing() {
        let stat = b"12 (a) R 1 (b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 777 20";
        assert!(is_zombie(stat));
        let leader = b"12 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 777 20";
        assert!(!is_zombie(leader), "its other threads run");
        assert_eq!(start_ticks(stat), Some(777));
        assert_eq!(start_ticks(b"12 (a"), None);
        assert_eq!(start_ticks(b""), None);
    }

    #[test]
    fn this_process_lives_and_its_number_with_another_start_does_not() {
        let own = own_identity().unwrap();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(life(&own, &own), Life::Alive);
        let earlier = Owner { start_ticks: own.start_ticks.map(|ticks| ticks - 1), ..own };
        assert_eq!(life(&earlier, &own), Life::Dead);
        let elsewhere = Owner { pid_namespace: own.pid_namespace ^ 1, ..own };
        assert_eq!(life(&elsewhere, &own), Life::Unknown);
    }

    #[test]
    fn a_process_that_ended_is_dead_before_and_after_it_is_waited_for() {
        let own = own_identity().unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let stat = fs::read(format!("/proc/{}/stat", child.id())).unwrap();
        let other = Owner { pid: child.id(), start_ticks: start_ticks(&stat), ..own };
        assert_eq!(life(&other, &own), Life::Alive);
        child.kill().unwrap();
        while life(&other, &own) != Life::Dead {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(life(&other, &own), Life::Dead);
    }
}
