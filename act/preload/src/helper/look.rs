//! What the helper looks up about the program under `/proc`, without a heap.

use std::sync::atomic::Ordering;

use quartier_kernel::sys::{self, SysResult};

use super::letterbox::BOX;
use crate::text::{Writer, read_file};
use crate::threads::Thread;

/// Whether any thread of the program is as `test` says; `true` also when they cannot be listed.
pub(super) fn any_thread(mut test: impl FnMut(i32) -> bool) -> bool {
    let mut path = [0u8; 64];
    let mut open = || {
        let mut writer = Writer::new(&mut path);
        writer.put(b"/proc/")?;
        writer.put_number(BOX.program.load(Ordering::Relaxed))?;
        writer.put(b"/task\0")?;
        sys::open(writer.finish()?, libc::O_RDONLY | libc::O_DIRECTORY).ok()
    };
    let Some(fd) = open() else { return true };
    let mut entries = [0u8; 4096];
    let mut found = false;
    while let Ok(count @ 1..) = sys::read_directory(fd, &mut entries) {
        found = found || names(&entries[..count]).filter_map(number).any(&mut test);
    }
    sys::close(fd);
    found
}

/// The names in a buffer of `getdents64`: each entry has its length at byte 16, its name from 19.
fn names(mut entries: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]));
        let entry = entries.get(..len).filter(|entry| entry.len() > 19)?;
        entries = &entries[len..];
        entry[19..].split(|byte| *byte == 0).next()
    })
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether every thread of the program is in our table, but for workers of the kernel's (`io_uring`).
/// One that is not may be a raw `clone` whose stack we do not know; the kernel's last write there cannot
/// wait for us.
pub(super) fn knows_all_threads() -> bool {
    !any_thread(|tid| Thread::find(tid).is_none() && !is_kernel_worker(tid))
}

fn is_kernel_worker(tid: i32) -> bool {
    let mut stat = [0u8; 64];
    let name = read_stat(tid, &mut stat).and_then(|stat| stat.split(|byte| *byte == b'(').nth(1));
    name.is_some_and(|name| name.starts_with(b"iou-"))
}

/// `/proc/self/statm`, open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statm(i32);

impl Statm {
    pub(super) fn open() -> SysResult<Self> {
        sys::open(c"/proc/self/statm", libc::O_RDONLY).map(Self)
    }

    /// Pages of private memory that the program has: resident less shared; 0 where it is not said.
    pub(super) fn resident_pages(self) -> u64 {
        let mut text = [0u8; 128];
        let count = sys::pread(self.0, &mut text, 0).unwrap_or(0);
        private_pages_of_statm(&text[..count]).unwrap_or(0)
    }
}

fn private_pages_of_statm(text: &[u8]) -> Option<u64> {
    let mut fields = std::str::from_utf8(text).ok()?.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

/// Whether somebody traces the program (`TracerPid` of `/proc/PID/status`).
pub(super) fn is_traced() -> bool {
    let mut path = [0u8; 64];
    let mut status = [0u8; 2048];
    let mut read = || {
        let mut writer = Writer::new(&mut path);
        writer.put(b"/proc/")?;
        writer.put_number(BOX.program.load(Ordering::Relaxed))?;
        writer.put(b"/status\0")?;
        tracer_of_status(read_file(writer.finish()?, &mut status)?).map(|tracer| tracer != b"0")
    };
    read() == Some(true)
}

fn tracer_of_status(status: &[u8]) -> Option<&[u8]> {
    let line = status.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"TracerPid:"))?;
    line.split(|byte| *byte == b'\t').nth(1)
}

/// Whether the kernel makes huge pages of anonymous memory unasked. Where it only does so on advice, the
/// program wants what it gets.
pub(super) fn huge_pages_are_made() -> bool {
    let mut choices = [0u8; 64];
    let mut says = |path, word: &[u8]| {
        read_file(path, &mut choices)
            .map(|choices| choices.windows(word.len()).any(|choice| choice == word))
    };
    // From Linux 6.8 on each size has its own setting.
    let own = c"/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
    let all = c"/sys/kernel/mm/transparent_hugepage/enabled";
    says(own, b"[always]") == Some(true)
        || says(own, b"[inherit]") != Some(false) && says(all, b"[always]") == Some(true)
}

/// The CPU that a thread of this process last ran on, by `/proc/PID/task/TID/stat` (field 39).
pub(super) fn last_cpu_of(tid: i32) -> Option<u32> {
    let mut stat = [0u8; 1024];
    cpu_of_stat(read_stat(tid, &mut stat)?)
}

/// The first bytes of `/proc/PID/task/TID/stat`.
fn read_stat(tid: i32, stat: &mut [u8]) -> Option<&[u8]> {
    let mut path = [0u8; 64];
    read_file(stat_path(&mut path, tid)?, stat)
}

fn stat_path(buffer: &mut [u8; 64], tid: i32) -> Option<&std::ffi::CStr> {
    let mut writer = Writer::new(buffer);
    writer.put(b"/proc/")?;
    writer.put_number(BOX.program.load(Ordering::Relaxed))?;
    writer.put(b"/task/")?;
    writer.put_number(u32::try_from(tid).ok()?)?;
    writer.put(b"/stat\0")?;
    writer.finish()
}

/// Field 39 counted from the last `)`, since a thread's name may hold anything.
fn cpu_of_stat(stat: &[u8]) -> Option<u32> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let field =
        stat[close + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(36)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_entries_and_nothing_from_garbage() {
        let mut entries = Vec::new();
        for name in [&b"."[..], b"..", b"4194304"] {
            let mut entry = vec![0u8; 19];
            entry.extend_from_slice(name);
            entry.resize(entry.len().next_multiple_of(8) + 8, 0);
            let len = (entry.len() as u16).to_ne_bytes();
            entry[16..18].copy_from_slice(&len);
            entries.extend(entry);
        }
        assert_eq!(names(&entries).filter_map(number).collect::<Vec<_>>(), [4_194_304]);
        for garbage in [&[][..], &[0; 40], &[0xff; 40], &entries[..20]] {
            assert_eq!(names(garbage).count(), 0);
        }
    }

    #[test]
    fn a_tracer_is_read_from_any_status() {
        assert_eq!(tracer_of_status(b"Name:\tx\nTracerPid:\t77\nUid:\t0\n"), Some(&b"77"[..]));
        assert_eq!(tracer_of_status(b"TracerPid:\t0"), Some(&b"0"[..]));
        for bad in [&b""[..], b"TracerPid:", b"Name:\tTracerPid:\t5"] {
            assert_eq!(tracer_of_status(bad), None);
        }
    }

    #[test]
    fn private_pages_are_read_from_any_statm() {
        assert_eq!(private_pages_of_statm(b"900 500 120 7 0 99 0\n"), Some(380));
        assert_eq!(private_pages_of_statm(b"1 2 3\n"), None);
        assert!(Statm::open().unwrap().resident_pages() > 10);
        for bad in [&b""[..], b"1 2", b"1 x 3 4", b"\xff 1 1 "] {
            assert_eq!(private_pages_of_statm(bad), None);
        }
    }

    #[test]
    fn the_cpu_is_read_from_any_stat_line() {
        let mut line = String::from("12 (a) b (c)) S");
        for field in 4..=52 {
            line.push_str(&format!(" {}", if field == 39 { 5 } else { 1000 + field }));
        }
        assert_eq!(cpu_of_stat(line.as_bytes()), Some(5));
        for bad in ["", ")", "1 (x) S 2", "no parenthesis at all"] {
            assert_eq!(cpu_of_stat(bad.as_bytes()), None);
        }
    }
}
