//! `stat` and `schedstat` of a task: bytes in, numbers out, nothing allocated.

use quartier_model::{CpuOsId, Nanos};

use crate::ThreadTimes;

/// What is read of proc(5) `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    /// At most 15 bytes, which may be any.
    pub name: &'a [u8],
    /// `R` runs, `T` is stopped, `Z` has ended, and so on.
    pub state: u8,
    /// 0: the kernel's first two processes have none.
    pub parent: u32,
    pub is_kernel_thread: bool,
    pub faults: Faults,
    /// User and system time of all its threads, if this is a process's.
    pub cpu_ticks: u64,
    pub nr_threads: u32,
    pub start_ticks: u64,
    pub cpu: CpuOsId,
    pub class: Class,
}

/// Page faults since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub minor: u64,
    pub major: u64,
}

/// A scheduling class (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`, `SCHED_EXT`.
    Fair,
    /// `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`.
    RealTime,
}

/// `PF_KTHREAD` (Linux include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

impl<'a> Stat<'a> {
    /// `None`: this is not what the kernel writes, or not all of it.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (name, mut fields) = Fields::behind_name(text)?;
        let state = fields.field(3)?.first().copied()?;
        let parent = fields.number(4)?.try_into().ok()?;
        let flags = fields.number(9)?;
        let faults = Faults { minor: fields.number(10)?, major: fields.number(12)? };
        let cpu_ticks = fields.number(14)?.checked_add(fields.number(15)?)?;
        let nr_threads = fields.number(20)?.try_into().ok()?;
        let start_ticks = fields.number(22)?;
        let cpu = CpuOsId(fields.number(39)?.try_into().ok()?);
        let class = match fields.number(41)? {
            1 | 2 | 6 => Class::RealTime,
            _ => Class::Fair,
        };
        Some(Self {
            name,
            state,
            parent,
            is_kernel_thread: flags & KERNEL_THREAD != 0,
            faults,
            cpu_ticks,
            nr_threads,
            start_ticks,
            cpu,
            class,
        })
    }
}

/// What a process took so far, with those of its children that have ended and were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub faults: Faults,
    pub user_ticks: u64,
    pub kernel_ticks: u64,
}

impl Used {
    /// Of proc(5) `stat`; `None` as for [`Stat::parse`].
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (_, mut fields) = Fields::behind_name(text)?;
        // Each by itself, then of those that have ended.
        let mut pair = |at| fields.number(at)?.checked_add(fields.number(at + 1)?);
        let faults = Faults { minor: pair(10)?, major: pair(12)? };
        let [user, kernel, of_user, of_kernel] = [14, 15, 16, 17].map(|at| fields.number(at));
        let user_ticks = user?.checked_add(of_user?)?;
        let kernel_ticks = kernel?.checked_add(of_kernel?)?;
        Some(Self { faults, user_ticks, kernel_ticks })
    }
}

/// Fields by their number in proc(5), in rising order.
struct Fields<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// The name, and the fields that follow it.
    fn behind_name(text: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        // A name may hold parentheses itself.
        let close = text.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
        Some((&text[open + 1..close], Self { rest: &text[close + 1..], at: 2 }))
    }

    fn field(&mut self, number: usize) -> Option<&'a [u8]> {
        let mut field = &[][..];
        while self.at < number {
            let from = self.rest.iter().position(|byte| *byte != b' ')?;
            let len = self.rest[from..].iter().position(|byte| matches!(byte, b' ' | b'\n'));
            let end = len.map_or(self.rest.len(), |len| from + len);
            (field, self.rest) = (&self.rest[from..end], &self.rest[end..]);
            self.at += 1;
        }
        Some(field)
    }

    fn number(&mut self, number: usize) -> Option<u64> {
        unsigned(self.field(number)?)
    }
}

fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `ran_ns waited_ns times` (Linux Documentation/scheduler/sched-stats.rst).
pub fn times(text: &[u8]) -> Option<ThreadTimes> {
    let mut fields = text.split(|byte| byte.is_ascii_whitespace()).map(unsigned);
    Some(ThreadTimes { ran: Nanos(fields.next()??), waited: Nanos(fields.next()??) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(name: &str) -> String {
        let head = format!("7 ({name}) S 1 7 7 0 -1 4194560 9 0 4 0 11 22 0 0 20 0 3 0 555 ");
        let tail = "8192 100 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 ";
        format!("{head}{tail}12 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
    }

    #[test]
    fn fields_are_those_of_proc_whatever_the_name() {
        for name in ["cat", "a) (b", "", ") 1 2 3"] {
            let text = line(name);
            let stat = Stat::parse(text.as_bytes()).unwrap();
            assert_eq!(stat.name, name.as_bytes());
            assert_eq!((stat.cpu_ticks, stat.nr_threads, stat.start_ticks), (33, 3, 555));
            assert_eq!((stat.cpu, stat.class), (CpuOsId(12), Class::Fair));
            assert_eq!(stat.faults, Faults { minor: 9, major: 4 });
            assert!(!stat.is_kernel_thread && stat.state == b'S');
        }
    }

    #[test]
    fn what_children_took_that_have_ended_counts() {
        let text = line("a) b").replace(" 9 0 4 0 11 22 0 0 ", " 9 100 4 200 11 22 300 400 ");
        let faults = Faults { minor: 109, major: 204 };
        let expected = Used { faults, user_ticks: 311, kernel_ticks: 422 };
        assert_eq!(Used::parse(text.as_bytes()), Some(expected));
        assert_eq!(Used::parse(&text.as_bytes()[..20]), None);
    }

    #[test]
    fn what_is_read_by_half_is_not_read() {
        let text = line("cat");
        // All before the last field that is needed.
        let needed = text.rfind(" 12 0 0").unwrap() + 6;
        for len in 0..needed {
            assert_eq!(Stat::parse(&text.as_bytes()[..len]), None, "{len}");
        }
        assert!(Stat::parse(&text.as_bytes()[..=needed]).is_some());
        assert_eq!(times(b"12 34 5\n").unwrap().waited, Nanos(34));
        for bad in ["", "12", "12 x", "-1 2 3", "18446744073709551616 1 1"] {
            assert_eq!(times(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (Stat::parse(&bytes), times(&bytes));
        }

        #[test]
        fn any_numbers_are_read_or_refused(text in "[0-9]{1,5} \\([a-z()]{0,9}\\) [-0-9 ]{0,200}") {
            let _ = (Stat::parse(text.as_bytes()), Used::parse(text.as_bytes()));
        }
    }
}
