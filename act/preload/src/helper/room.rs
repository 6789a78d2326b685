//! How much room there is for our bookkeeping in what the kernel allows the program: it must not run
//! into a limit because of us.

use std::ffi::CStr;

use quartier_kernel::sys::PAGE;
use syscalls::{Sysno, syscall};

use super::regions::Region;
use super::serve::Server;
use crate::maps;
use crate::text::{kib_of, read_file};

/// Mappings that a region costs the process at most: its side mapping, which is two while pages are
/// taken out, and two because its own mapping is cut before and after it.
const MAPPINGS_PER_REGION: usize = 4;

/// We take so much of what the kernel allows and the program has not used, of mappings and of memory: one
/// part of this many.
const SHARE: usize = 4;

const MAX_MAP_COUNT: &CStr = c"/proc/sys/vm/max_map_count";

/// What there may be of ours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Regions.
    pub regions: usize,
    /// Bytes of side mappings, besides those that there are.
    pub side_bytes: usize,
}

impl Server {
    pub(super) fn room_allowed(&mut self) -> Room {
        let left = bytes_left(self.program_pid);
        let ours: usize = self.regions.all().iter().map(Region::side_bytes).sum();
        let more = |left: usize| ((left + ours) / SHARE).saturating_sub(ours);
        Room { regions: self.regions_allowed(), side_bytes: left.map_or(usize::MAX, more) }
    }

    /// As many as `vm.max_map_count` leaves.
    fn regions_allowed(&self) -> usize {
        let mut nr_mappings = 0usize;
        let counted = maps::for_each(|_| {
            nr_mappings += 1;
            true
        });
        let (Some(limit), Ok(())) = (number_in(MAX_MAP_COUNT), counted) else { return 0 };
        let ours = self.regions.len() * MAPPINGS_PER_REGION;
        let left = (limit + ours).saturating_sub(nr_mappings);
        left / SHARE / MAPPINGS_PER_REGION
    }
}

/// How many bytes the program may still map (`RLIMIT_AS`, `RLIMIT_DATA`, and what the machine can commit
/// itself to where it does not promise more than it has); `None` without a limit.
fn bytes_left(program_pid: i32) -> Option<usize> {
    let mut text = [0u8; 128];
    let mapped = read_file(c"/proc/self/statm", &mut text).and_then(bytes_of_statm);
    let (mapped, data) = mapped.unwrap_or_default();
    let below = |limit: Option<usize>, used: usize| limit.map(|limit| limit.saturating_sub(used));
    let limits = [
        below(limit_of(program_pid, libc::RLIMIT_AS), mapped),
        below(limit_of(program_pid, libc::RLIMIT_DATA), data),
        commit_left(mapped),
    ];
    limits.into_iter().flatten().min()
}

/// All that is mapped, and what of it is private and writable, by `/proc/PID/statm`.
fn bytes_of_statm(text: &[u8]) -> Option<(usize, usize)> {
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut pages = |skip| fields.nth(skip)?.parse::<usize>().ok();
    Some((pages(0)?.checked_mul(PAGE)?, pages(4)?.checked_mul(PAGE)?))
}

/// The program's limit, or ours where we may not ask (it is another user by now): ours is the limit that
/// the program had. `None` where there is none.
fn limit_of(program_pid: i32, resource: libc::__rlimit_resource_t) -> Option<usize> {
    let ask = |pid: i32| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: the kernel writes one limit.
        unsafe { syscall!(Sysno::prlimit64, pid, resource, 0, &raw mut limit) }
            .map(|_| limit.rlim_cur)
    };
    let limit = ask(program_pid).or_else(|_| ask(0)).unwrap_or(libc::RLIM_INFINITY);
    (limit != libc::RLIM_INFINITY).then_some(limit as usize)
}

/// `vm.overcommit_memory` 2: mappings count as if they were full, ours too. The kernel keeps something
/// back: for an administrator, and from each process a part of what it has mapped.
fn commit_left(mapped: usize) -> Option<usize> {
    let mut digits = [0u8; 8];
    if !read_file(c"/proc/sys/vm/overcommit_memory", &mut digits)?.starts_with(b"2") {
        return None;
    }
    let mut text = [0u8; 4096];
    let left = commit_left_of(read_file(c"/proc/meminfo", &mut text)?)?;
    let for_user = number_in(c"/proc/sys/vm/user_reserve_kbytes").unwrap_or(usize::MAX);
    let for_admin = number_in(c"/proc/sys/vm/admin_reserve_kbytes").unwrap_or(0);
    let reserve = for_admin.saturating_mul(1024);
    let reserve = reserve.saturating_add(for_user.saturating_mul(1024).min(mapped / 32));
    Some(left.saturating_sub(reserve))
}

fn commit_left_of(meminfo: &[u8]) -> Option<usize> {
    let limit = kib_of(meminfo, b"CommitLimit:")?;
    let used = kib_of(meminfo, b"Committed_AS:")?;
    usize::try_from(limit.saturating_sub(used)).ok()?.checked_mul(1024)
}

fn number_in(path: &CStr) -> Option<usize> {
    let mut digits = [0u8; 32];
    let digits = read_file(path, &mut digits)?;
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_kernel::sys;

    #[test]
    fn the_limit_on_mappings_is_read() {
        assert!(number_in(MAX_MAP_COUNT).is_some_and(|limit| limit > 1000));
    }

    #[test]
    fn what_is_mapped_is_read_from_any_statm() {
        let expected = Some((900 * PAGE, 99 * PAGE));
        assert_eq!(bytes_of_statm(b"900 500 120 7 0 99 0\n"), expected);
        for bad in
            [&b""[..], b"900 1 2 3 4", b"x 1 2 3 4 5", b"\xff", b"1 1 1 1 1 99999999999999999999"]
        {
            assert_eq!(bytes_of_statm(bad), None);
        }
    }

    #[test]
    fn what_may_be_committed_is_read_from_any_meminfo() {
        let text = b"MemFree:  9 kB\nCommitLimit:    2000 kB\nCommitted_AS:   500 kB\n";
        assert_eq!(commit_left_of(text), Some(1500 * 1024));
        assert_eq!(commit_left_of(b"CommitLimit: 5 kB\nCommitted_AS: 9 kB\n"), Some(0));
        for bad in [&b""[..], b"CommitLimit: 5 kB", b"Committed_AS: 5 kB\nCommitLimit: x kB"] {
            assert_eq!(commit_left_of(bad), None);
        }
    }

    #[test]
    fn a_limit_of_this_process_leaves_less_than_itself() {
        let unlimited = bytes_left(sys::pid());
        let limit = libc::rlimit { rlim_cur: 64 << 40, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: far above what the tests need.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let left = bytes_left(sys::pid()).unwrap();
        assert!(left < 64 << 40 && left > 1 << 40, "{left} of {unlimited:?}");
    }
}
