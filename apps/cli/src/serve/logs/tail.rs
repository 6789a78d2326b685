//! A log that grows, and is put aside at times.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is read at once.
const PART_BYTES: usize = 64 << 10;
/// Longer lines are cut there: nobody writes such.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Servers are told that a log was put aside, and processes that finish what they have write to it for some time.
const WRITTEN_AFTER: Duration = Duration::from_secs(30);

/// Where it has been read to.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// What was put aside, and until when more may come to that.
    before: Option<(Open, Instant)>,
    now: Option<Open>,
    /// How long the log was at first.
    bytes_at_first: u64,
}

/// A file, and what it ends with, without its line's end.
#[derive(Debug)]
struct Open {
    file: File,
    rest: Vec<u8>,
}

impl Tail {
    /// From the beginning of what is aside.
    pub fn new(path: &Path, aside: &Path) -> Self {
        // In this order: what is put aside in between is there twice, and not never.
        let now = Open::of(path).ok();
        let is_same = |aside: &Open| {
            now.as_ref().is_some_and(|now| now.id().is_ok_and(|id| Some(id) == aside.id().ok()))
        };
        let before = Open::of(aside).ok().filter(|aside| !is_same(aside));
        let bytes_at_first =
            now.as_ref().and_then(|now| now.file.metadata().ok()).map_or(0, |file| file.len());
        let before = before.map(|open| (open, Instant::now()));
        Self { path: path.to_owned(), before, now, bytes_at_first }
    }

    /// Whether all has been read that was there at first.
    pub fn has_told_first(&mut self) -> bool {
        let read = |open: &mut Open| open.file.stream_position().unwrap_or(u64::MAX);
        self.before.is_none()
            && self.now.as_mut().is_none_or(|now| read(now) >= self.bytes_at_first)
    }

    /// Whole lines that came since the last time, or a part of them: none if there are no more now.
    pub fn read(&mut self) -> io::Result<Vec<String>> {
        if let Some((before, until)) = &mut self.before {
            let mut lines = before.read()?;
            let is_over = lines.is_empty() && *until <= Instant::now();
            if is_over {
                lines.extend((!before.rest.is_empty()).then(|| text(&before.rest)));
                self.before = None;
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
        if self.now.is_none() {
            self.now = or_absent(Open::of(&self.path))?;
        }
        let Some(now) = &mut self.now else { return Ok(Vec::new()) };
        let lines = now.read()?;
        if !lines.is_empty() {
            return Ok(lines);
        }
        // Read to the end: is there another by now?
        let Some(file) = or_absent(std::fs::metadata(&self.path))? else { return Ok(lines) };
        if id(&file) != now.id()? {
            let fresh = or_absent(Open::of(&self.path))?;
            let old = std::mem::replace(&mut self.now, fresh);
            self.before = old.map(|old| (old, Instant::now() + WRITTEN_AFTER));
            self.bytes_at_first = 0;
        } else if file.len() < now.file.stream_position()? {
            // It was cut.
            now.file.seek(SeekFrom::Start(0))?;
            now.rest.clear();
        }
        self.now.as_mut().map_or_else(|| Ok(Vec::new()), Open::read)
    }
}

impl Open {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, rest: Vec::new() })
    }

    fn id(&self) -> io::Result<(u64, u64)> {
        Ok(id(&self.file.metadata()?))
    }

    fn read(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut part = vec![0; PART_BYTES];
        while lines.is_empty() {
            let nr = self.file.read(&mut part)?;
            if nr == 0 {
                break;
            }
            let mut rest = &part[..nr];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(&rest[..end]);
                lines.push(text(&self.rest));
                self.rest.clear();
                rest = &rest[end + 1..];
            }
            self.rest.extend_from_slice(rest);
            if self.rest.len() > LINE_BYTES_MAX {
                lines.push(text(&std::mem::take(&mut self.rest)));
            }
        }
        Ok(lines)
    }
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn or_absent<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A terminal is told nothing but letters, and those in the order in which they were written.
fn text(bytes: &[u8]) -> String {
    let is_odd = |c: char| {
        let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || c.is_control() && c != '\t'
    };
    String::from_utf8_lossy(bytes).replace(is_odd, "?")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    fn append(path: &Path, what: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(what.as_bytes()).unwrap();
    }

    #[test]
    fn nothing_is_lost_or_told_twice_when_a_log_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        append(&aside, "old\n");
        let mut tail = Tail::new(&path, &aside);
        assert_eq!(tail.read().unwrap(), ["old"]);
        assert!(tail.read().unwrap().is_empty(), "the log itself is not there yet");
        assert!(tail.has_told_first());
        append(&path, "one\ntw");
        assert_eq!(tail.read().unwrap(), ["one"]);
        assert!(tail.read().unwrap().is_empty(), "half a line is none");
        append(&path, "o\n");
        assert_eq!(tail.read().unwrap(), ["two"]);
        append(&path, "three\n");
        fs::rename(&path, &aside).unwrap();
        append(&path, "five\n");
        assert_eq!(tail.read().unwrap(), ["three"]);
        assert_eq!(tail.read().unwrap(), ["five"]);
        // The server has the old one open still.
        append(&aside, "four\n");
        append(&path, "six\n");
        assert_eq!(tail.read().unwrap(), ["four"]);
        assert_eq!(tail.read().unwrap(), ["six"]);
    }

    #[test]
    fn what_is_put_aside_as_it_begins_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        append(&path, "one\n");
        fs::hard_link(&path, &aside).unwrap();
        let mut tail = Tail::new(&path, &aside);
        assert!(!tail.has_told_first());
        assert_eq!(tail.read().unwrap(), ["one"]);
        assert!(tail.has_told_first());
        assert!(tail.read().unwrap().is_empty());
    }

    #[test]
    fn a_log_that_was_cut_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        append(&path, "one\ntwo\n");
        let mut tail = Tail::new(&path, &folder.path().join("none"));
        assert_eq!(tail.read().unwrap(), ["one", "two"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(tail.read().unwrap(), ["new"]);
    }

    #[test]
    fn what_is_no_text_is_told_without_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        fs::write(&path, b"\x1b[2J\xff\n\n\xe2\x80\xae\n").unwrap();
        let mut tail = Tail::new(&path, &folder.path().join("none"));
        assert_eq!(tail.read().unwrap(), ["?[2J\u{fffd}", "", "?"]);
    }
}
