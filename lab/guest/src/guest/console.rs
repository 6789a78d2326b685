//! Keeps the end of what the guest's kernel says, for when it stops saying anything else.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How much is kept.
const KEPT_BYTES: usize = 64 << 10;
/// How much of it is shown with an error.
const TAIL_LINES: usize = 30;

/// Who gets all of a stream too.
type Copy = Option<Box<dyn Write + Send>>;

/// A reader of one stream to its end.
#[derive(Debug)]
pub struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<Copy>,
}

impl Tail {
    /// Reads `from` in the background; `copy` gets all of it too.
    pub fn start(mut from: impl Read + Send + 'static, mut copy: Copy) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let shared = kept.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let data = &buffer[..count];
                let failed = copy
                    .as_mut()
                    .is_some_and(|copy| copy.write_all(data).and_then(|()| copy.flush()).is_err());
                if failed {
                    copy = None; // Whoever watched the console went away; the run goes on.
                }
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(data);
                let surplus = kept.len().saturating_sub(KEPT_BYTES);
                kept.drain(..surplus);
            }
            copy
        });
        Self { kept, reader }
    }

    /// The last lines, once the stream has ended; and the copy, for another stream.
    pub fn finish(self) -> (String, Copy) {
        let copy = self.reader.join().unwrap_or_default();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (last_lines(&kept.iter().copied().collect::<Vec<_>>()), copy)
    }
}

/// The last lines without what would move a terminal's cursor.
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => {
                if characters.next_if(|&next| next == '[' || next == ']').is_some() {
                    // The sequence ends with its first letter.
                    while characters.next_if(|next| !next.is_ascii_alphabetic()).is_some() {}
                }
                characters.next();
            }
            '\n' | '\t' => clean.push(character),
            other if other.is_control() => {}
            other => clean.push(other),
        }
    }
    let lines: Vec<_> = clean.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = lines.len().saturating_sub(TAIL_LINES);
    // A panic's first line says why; the traces after it may be long.
    let panic = lines.iter().position(|line| line.contains("Kernel panic - not syncing"));
    let start = panic.map_or(end, |line| line.saturating_sub(TAIL_LINES / 3).min(end));
    let lines = &lines[start..];
    lines[..lines.len().min(TAIL_LINES * 2)].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_without_control_sequences() {
        let mut text = "\x1bc\x1b[?7l\x1b[2Jfirmware\r\n".to_owned();
        for line in 0..100 {
            text.push_str(&format!("[ 0.{line}] line\r\n"));
        }
        let tail = last_lines(text.as_bytes());
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("[ 0.99] line"), "{tail}");
        assert_eq!(last_lines(b"\x1b[1;31mred\x1b[0m\xff\x1b"), "red\u{fffd}");
    }

    #[test]
    fn much_output_keeps_little() {
        let tail = Tail::start(std::io::repeat(b'x').take(1 << 20), None);
        assert_eq!(tail.finish().0.len(), KEPT_BYTES);
    }
}
