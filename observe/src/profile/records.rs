//! What the kernel writes into its rings, as far as we asked for it (perf_event_open(2)).

use super::arch::Registers;
use super::asleep::Asleep;

/// A record with the moment and the thread that it is of.
#[derive(Debug)]
pub struct Record {
    pub at_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub what: What,
}

/// What it says.
#[derive(Debug)]
pub enum What {
    Sample(Box<Sample>),
    /// The thread has something to do again.
    Woken,
    /// The thread came onto a CPU, or left it.
    Came,
    Left {
        is_preempted: bool,
    },
    /// A file's code was mapped.
    Mapped {
        start: u64,
        bytes: u64,
        offset: u64,
        path: String,
    },
    /// Another program took over the process.
    Executed,
    /// A thread or process was made, by a process.
    Made {
        pid: u32,
        tid: u32,
        parent: u32,
    },
    Ended,
    /// It was seen waiting.
    Asleep(Box<Asleep>),
    Lost(u64),
}

/// Where a thread was.
#[derive(Debug)]
pub struct Sample {
    /// In user code, not in the kernel.
    pub is_user: bool,
    /// About to wait, rather than at a tick of the clock.
    pub waits: bool,
    /// In the kernel, innermost first.
    pub kernel: Vec<u64>,
    /// By frame pointers, innermost first: where there are no registers.
    pub user: Vec<u64>,
    pub registers: Option<Registers>,
    pub stack: Vec<u8>,
}

const TYPE_LOST: u32 = 2;
const TYPE_COMM: u32 = 3;
const TYPE_EXIT: u32 = 4;
const TYPE_FORK: u32 = 7;
const TYPE_MMAP2: u32 = 10;
const TYPE_LOST_SAMPLES: u32 = 13;
const TYPE_SWITCH: u32 = 14;
/// The same bit means these two of records of different types.
const MISC_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Thread and time, at the end of every record that is no sample.
const TRAILER: usize = 16;

/// Reads a record that is no sample; `None`: it is of no interest.
pub fn parse(kind: u32, misc: u16, bytes: &[u8]) -> Option<Record> {
    let trailer = bytes.len().checked_sub(TRAILER)?;
    let body = &bytes[..trailer];
    let what = match kind {
        TYPE_SWITCH if misc & MISC_SWITCH_OUT == 0 => What::Came,
        TYPE_SWITCH => What::Left { is_preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0 },
        TYPE_COMM if misc & MISC_EXEC != 0 => What::Executed,
        TYPE_FORK => {
            What::Made { pid: u32_at(body, 0)?, parent: u32_at(body, 4)?, tid: u32_at(body, 8)? }
        }
        TYPE_EXIT => What::Ended,
        TYPE_LOST => What::Lost(u64_at(body, 8)?),
        TYPE_LOST_SAMPLES => What::Lost(u64_at(body, 0)?),
        TYPE_MMAP2 => {
            let path = body.get(64..)?.split(|byte| *byte == 0).next()?;
            What::Mapped {
                start: u64_at(body, 8)?,
                bytes: u64_at(body, 16)?,
                offset: u64_at(body, 24)?,
                path: String::from_utf8_lossy(path).into_owned(),
            }
        }
        _ => return None,
    };
    let (mut pid, mut tid) = (u32_at(bytes, trailer)?, u32_at(bytes, trailer + 4)?);
    // Who ends may have no id any more; the record says it.
    if let What::Ended = what {
        (pid, tid) = (u32_at(body, 0)?, u32_at(body, 8)?);
    }
    Some(Record { at_ns: u64_at(bytes, trailer + 8)?, pid, tid, what })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn switches_say_why_a_thread_left() {
        let body = bytes(&[7, 8, 99, 0]);
        let left = |misc| parse(TYPE_SWITCH, misc, &body).unwrap();
        assert!(matches!(left(0).what, What::Came));
        assert!(matches!(left(MISC_SWITCH_OUT).what, What::Left { is_preempted: false }));
        let preempted = left(MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT);
        assert!(matches!(preempted.what, What::Left { is_preempted: true }));
        assert_eq!((preempted.pid, preempted.tid, preempted.at_ns), (7, 8, 99));
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let whole = bytes(&[
            1, 2, 0x1000, 0, 0x2000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x612f, 0, 1, 2, 5, 0,
        ]);
        let record = parse(TYPE_MMAP2, 0, &whole).unwrap();
        let What::Mapped { start, bytes, offset, path } = record.what else { panic!() };
        assert_eq!((start, bytes, offset, path.as_str()), (0x1000, 0x2000, 0, "/a"));
        for length in 0..whole.len() {
            // Whatever is left of it, it is read without a panic.
            let _ = parse(TYPE_MMAP2, 0, &whole[..length]);
            let _ = parse(TYPE_EXIT, 0, &whole[..length]);
        }
        assert!(parse(TYPE_EXIT, 0, &whole[..12]).is_none());
        assert!(parse(99, 0, &whole).is_none());
    }
}
