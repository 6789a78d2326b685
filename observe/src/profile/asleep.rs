//! What threads wait for, by looking at all of them now and then: for users who may not see what happens at switches.

use crate::Host;

/// A thread that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// The kernel's function that it waits in.
    pub waits_in: String,
    /// Where in user code.
    pub ip: u64,
    /// The first argument of the system call: of a futex call its word.
    pub word: u64,
    /// It waits for that word to be something else than 2.
    pub is_locked: bool,
}

impl Asleep {
    /// Looks at a thread; `None`: it runs, could run, has ended, or must not be looked at.
    pub fn look(host: &Host, pid: u32, tid: u32) -> Option<Self> {
        let read = |name: &str| host.read(&format!("proc/{pid}/task/{tid}/{name}")).ok().flatten();
        let mut asleep = Self::parse(&read("syscall")?)?;
        // `0`: it has woken up meanwhile, or the kernel was built without.
        let waits_in = read("wchan").filter(|name| !name.is_empty() && name != "0");
        asleep.waits_in = waits_in?;
        Some(asleep)
    }

    /// /proc/PID/task/TID/syscall: the call, its six arguments, stack and instruction pointer; or `-1` and those two; or
    /// `running`.
    fn parse(text: &str) -> Option<Self> {
        const FUTEX_COMMAND: u64 = 0x7f;
        let words: Vec<_> = text.split_whitespace().collect();
        let number = |at: usize| u64::from_str_radix(words.get(at)?.strip_prefix("0x")?, 16).ok();
        let ip = number(words.len().checked_sub(1)?)?;
        // In a page fault there are no arguments.
        let argument =
            |at: usize| if words.len() == 9 { number(at).unwrap_or_default() } else { 0 };
        Some(Self {
            waits_in: String::new(),
            ip,
            word: argument(1),
            is_locked: argument(2) & FUTEX_COMMAND == 0 && argument(3) == 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_says_where_and_for_what() {
        let locked = "202 0x5580 0x80 0x2 0x0 0x0 0x0 0x7ffc00 0x7f0012\n";
        let expected =
            Asleep { waits_in: String::new(), ip: 0x7f_0012, word: 0x5580, is_locked: true };
        assert_eq!(Asleep::parse(locked), Some(expected));
        let joins =
            Asleep::parse("202 0x5580 0x109 0x77 0x0 0x0 0xffffffff 0x7ffc00 0x7f0012").unwrap();
        assert!(!joins.is_locked);
        assert!(!Asleep::parse("-1 0x7ffc00 0x7f0012").unwrap().is_locked);
        for text in ["running\n", "", "202", "-1 x y"] {
            assert_eq!(Asleep::parse(text), None, "{text}");
        }
    }
}
