//! The program's mappings: a reader of `/proc/self/maps` that needs no heap.

use crate::own;

use crate::sys::{self, SysResult};

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Whether it is private, writable and anonymous: data that only this process has.
    pub private_data: bool,
}

/// Calls `visit` for every mapping whose data is private to the process (thesis 4.4.3: heap, `mmap`
/// memory and zero-filled data; not stacks, not files, not shared memory), but for our own. `false`
/// stops.
pub fn for_each_private(mut visit: impl FnMut(Range) -> bool) -> SysResult<()> {
    let theirs = |mapping: &Range| mapping.private_data && !own::ZONE.contains(&mapping.start);
    for_each(|mapping| !theirs(&mapping) || visit(mapping))
}

/// Calls `visit` for every mapping, in the order of their addresses. `false` stops.
pub fn for_each(mut visit: impl FnMut(Range) -> bool) -> SysResult<()> {
    let fd = sys::open(c"/proc/self/maps", libc::O_RDONLY)?;
    let mut buffer = [0u8; 8192];
    let mut filled = 0;
    let result = loop {
        match sys::read(fd, &mut buffer[filled..]) {
            Ok(0) => break Ok(()),
            Ok(count) => filled += count,
            Err(error) => break Err(error),
        }
        let Some(last) = buffer[..filled].iter().rposition(|byte| *byte == b'\n') else {
            filled = 0;
            continue;
        };
        let go_on =
            buffer[..last].split(|byte| *byte == b'\n').filter_map(parse_line).all(&mut visit);
        if !go_on {
            break Ok(());
        }
        buffer.copy_within(last + 1..filled, 0);
        filled -= last + 1;
    };
    sys::close(fd);
    result
}

/// Reads `start-end perms offset device inode [name]`.
fn parse_line(line: &[u8]) -> Option<Range> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let range = fields.next()?;
    let permissions = fields.next()?;
    let (_offset, _device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or(b"");
    let anonymous =
        inode == b"0" && (name.is_empty() || name == b"[heap]" || name.starts_with(b"[anon:"));
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (start, end) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let private_data = permissions == b"rw-p" && anonymous;
    (start < end).then_some(Range { start, end, private_data })
}

fn hex(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0usize, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        Some(value << 4 | digit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_and_anonymous_memory_are_private_data_and_nothing_else_is() {
        let private = [
            "5581c000-5582d000 rw-p 00000000 00:00 0          [heap]",
            "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ",
            "7f0000000000-7f0000021000 rw-p 00000000 00:00 0  [anon: glibc: malloc arena]",
        ];
        let other = [
            "7ffe0000-7fff0000 rw-p 00000000 00:00 0          [stack]",
            "7f0000000000-7f0000021000 ---p 00000000 00:00 0 ",
            "7f0000000000-7f0000021000 rwxp 00000000 00:00 0 ",
            "7f0000000000-7f0000021000 rw-s 00000000 00:05 12 /dev/zero (deleted)",
            "7f0000000000-7f0000021000 rw-p 00000000 fe:01 77 /usr/lib/libc.so.6",
            "7f0000000000-7f0000021000 rw-p 00000000 00:00 0  [vvar]",
        ];
        let is_private =
            |line: &&str| parse_line(line.as_bytes()).is_some_and(|range| range.private_data);
        assert!(private.iter().all(is_private));
        assert!(!other.iter().any(is_private));
        for damaged in
            ["", "x", "1-2", "2-1 rw-p 0 0 0", "-1 rw-p 0 0 0", "00000000000000001-2 rw-p 0 0 0"]
        {
            assert_eq!(parse_line(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn the_programs_mappings_are_found_and_ours_are_not() {
        let memory = vec![1u8; 64 << 20];
        let theirs = memory.as_ptr() as usize;
        let ours = own::map(1 << 20).unwrap();
        let mut found = [false; 2];
        for_each_private(|range| {
            for (found, address) in found.iter_mut().zip([theirs, ours]) {
                *found |= range.start <= address && address < range.end;
            }
            true
        })
        .unwrap();
        assert_eq!(found, [true, false]);
    }
}
