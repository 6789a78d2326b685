//! Which of the guest's tasks are the program measured: those of its control group, whose pointer every
//! child inherits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use quartier_marker::Facts;

use crate::walk::Memory;

/// How the names of the launcher's and the helper's threads begin.
const OURS: &[u8; 8] = b"quartier";

/// The program among the guest's tasks.
#[derive(Debug, Default)]
pub struct Tasks {
    facts: OnceLock<Facts>,
    /// The group's pointer; 0, which no task has, before it is known.
    group: AtomicU64,
    /// Threads beside the first of each of its processes.
    nr_others: AtomicI64,
}

/// What a task's begin or end means for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has a second thread from now on.
    Parallel,
    /// Its last other thread has ended.
    Serial,
}

impl Tasks {
    /// What is known of the kernel, once counting has begun.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.get()
    }

    /// `task`'s control group is the program's.
    pub fn begin(&self, facts: Facts, task: u64, memory: &impl Memory) -> Result<(), String> {
        let group = field(memory, &facts, task, facts.cgroups).filter(|group| *group != 0);
        let group = group.ok_or("the running task has no control group")?;
        self.facts.set(facts).map_err(|_| "counting has begun before")?;
        self.group.store(group, Ordering::Relaxed);
        Ok(())
    }

    /// Whether `task` is the program's.
    pub fn is_measured(&self, task: u64, memory: &impl Memory) -> bool {
        let Some(facts) = self.facts.get() else { return false };
        let group = field(memory, facts, task, facts.cgroups);
        group.is_some_and(|group| group != 0 && group == self.group.load(Ordering::Relaxed))
    }

    /// Whether a task that leaves its CPU would go on if it could, and does not sleep.
    pub fn is_held_up(&self, task: u64, memory: &impl Memory) -> bool {
        let Some(facts) = self.facts.get() else { return false };
        half(memory, facts, task, facts.state) == Some(0)
    }

    /// Whether it sleeps in one of these states.
    pub fn sleeps(&self, task: u64, states: u32, memory: &impl Memory) -> bool {
        let Some(facts) = self.facts.get() else { return false };
        half(memory, facts, task, facts.state).is_some_and(|state| state & states != 0)
    }

    /// The process of a task, and its own number; 0, which is none, where it cannot be read.
    pub fn numbers(&self, task: u64, memory: &impl Memory) -> (u32, u32) {
        let Some(facts) = self.facts.get() else { return (0, 0) };
        let number = |offset| half(memory, facts, task, offset).unwrap_or(0);
        (number(facts.tgid), number(facts.pid))
    }

    /// A task begins.
    pub fn begins(&self, task: u64, memory: &impl Memory) -> Option<Turn> {
        let is_first = self.is_another_thread(task, memory)
            && self.nr_others.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then_some(Turn::Parallel)
    }

    /// A task has ended.
    pub fn ends(&self, task: u64, memory: &impl Memory) -> Option<Turn> {
        let is_last = self.is_another_thread(task, memory)
            && self.nr_others.fetch_sub(1, Ordering::Relaxed) == 1;
        is_last.then_some(Turn::Serial)
    }

    /// The first thread of a process has the process's number. Threads of `quartier run` itself are not
    /// the program's, though what they access is counted with it: it would not be without them.
    fn is_another_thread(&self, task: u64, memory: &impl Memory) -> bool {
        let Some(facts) = self.facts.get() else { return false };
        let number = |offset| half(memory, facts, task, offset);
        self.is_measured(task, memory)
            && number(facts.pid) != number(facts.tgid)
            && eight(memory, facts, task, facts.comm) != Some(*OURS)
    }
}

/// Eight bytes of a task, which lies where the kernel sees all memory in order.
fn field(memory: &impl Memory, facts: &Facts, task: u64, offset: u64) -> Option<u64> {
    memory.word(task.checked_sub(facts.direct_map)?.checked_add(offset)?)
}

/// Eight bytes wherever they lie.
fn eight(memory: &impl Memory, facts: &Facts, task: u64, offset: u64) -> Option<[u8; 8]> {
    let shift = offset % 8 * 8;
    let word = |offset| field(memory, facts, task, offset);
    let low = word(offset - offset % 8)?;
    let bytes = if shift == 0 {
        low
    } else {
        low >> shift | word(offset - offset % 8 + 8)? << (64 - shift)
    };
    Some(bytes.to_le_bytes())
}

/// Four bytes of it.
fn half(memory: &impl Memory, facts: &Facts, task: u64, offset: u64) -> Option<u32> {
    let word = field(memory, facts, task, offset & !7)?;
    Some(if offset & 4 == 0 { word as u32 } else { (word >> 32) as u32 })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const MAP: u64 = 0xffff_8880_0000_0000;
    const FACTS: Facts = Facts {
        switch_to: 1,
        wake_up_new_task: 2,
        release_task: 5,
        wake_up: 6,
        direct_map: MAP,
        current_task: 3,
        cpu_number: 4,
        cgroups: 16,
        pid: 0,
        tgid: 4,
        comm: 28,
        state: 44,
    };

    /// A task at a place in memory: process, thread, group.
    fn task(memory: &mut HashMap<u64, u64>, at: u64, process: u64, thread: u64, group: u64) -> u64 {
        memory.insert(at, process << 32 | thread);
        memory.insert(at + FACTS.cgroups, group);
        MAP + at
    }

    #[test]
    fn children_are_the_programs_and_others_are_not() {
        let mut memory = HashMap::new();
        let program = task(&mut memory, 0x1000, 7, 7, 0xabc);
        let child = task(&mut memory, 0x2000, 8, 8, 0xabc);
        let other = task(&mut memory, 0x3000, 1, 1, 0xdef);
        let tasks = Tasks::default();
        assert!(!tasks.is_measured(program, &memory));
        tasks.begin(FACTS, program, &memory).unwrap();
        assert!(tasks.is_measured(program, &memory) && tasks.is_measured(child, &memory));
        assert!(!tasks.is_measured(other, &memory));
        assert!(!tasks.is_measured(0, &memory) && !tasks.is_measured(MAP + 0x9000, &memory));
        memory.insert(0x1000 + 40, 7);
        memory.insert(0x2000 + 40, 1 << 32);
        assert!(tasks.is_held_up(program, &memory) && !tasks.is_held_up(child, &memory));
        assert!(!tasks.is_held_up(MAP + 0x9000, &memory), "nobody knows");
        assert!(tasks.sleeps(child, 3, &memory) && !tasks.sleeps(child, 2, &memory));
        assert!(!tasks.sleeps(program, 3, &memory));
    }

    #[test]
    fn the_parallel_phase_is_from_the_second_thread_to_the_last_others_end() {
        let mut memory = HashMap::new();
        let program = task(&mut memory, 0x1000, 7, 7, 0xabc);
        let child = task(&mut memory, 0x2000, 8, 8, 0xabc);
        let thread = task(&mut memory, 0x3000, 7, 9, 0xabc);
        let foreign = task(&mut memory, 0x4000, 1, 2, 0xdef);
        let tasks = Tasks::default();
        tasks.begin(FACTS, program, &memory).unwrap();
        let begins = |task| tasks.begins(task, &memory);
        let ends = |task| tasks.ends(task, &memory);
        assert_eq!((begins(child), begins(foreign)), (None, None));
        assert_eq!((begins(thread), begins(thread)), (Some(Turn::Parallel), None));
        assert_eq!((ends(child), ends(foreign), ends(thread)), (None, None, None));
        assert_eq!(ends(thread), Some(Turn::Serial));
        assert_eq!((begins(thread), ends(thread)), (Some(Turn::Parallel), Some(Turn::Serial)));
    }

    #[test]
    fn threads_of_the_launcher_and_the_helper_are_not_the_programs() {
        let mut memory = HashMap::new();
        let launcher = task(&mut memory, 0x1000, 7, 7, 0xabc);
        let own = task(&mut memory, 0x2000, 7, 8, 0xabc);
        // Eight bytes at offset 28: half of one word and half of the next.
        memory.insert(0x2000 + 24, u64::from_le_bytes(*b"....quar"));
        memory.insert(0x2000 + 32, u64::from_le_bytes(*b"tier-hel"));
        let thread = task(&mut memory, 0x3000, 9, 10, 0xabc);
        memory.insert(0x3000 + 24, u64::from_le_bytes(*b"....quar"));
        memory.insert(0x3000 + 32, u64::from_le_bytes(*b"ry\0\0\0\0\0\0"));
        let tasks = Tasks::default();
        tasks.begin(FACTS, launcher, &memory).unwrap();
        assert_eq!(tasks.begins(own, &memory), None);
        assert_eq!(tasks.begins(thread, &memory), Some(Turn::Parallel));
        assert_eq!(
            (tasks.ends(own, &memory), tasks.ends(thread, &memory)),
            (None, Some(Turn::Serial))
        );
    }

    #[test]
    fn a_task_without_group_is_refused() {
        let mut memory = HashMap::new();
        let program = task(&mut memory, 0x1000, 7, 7, 0);
        assert!(Tasks::default().begin(FACTS, program, &memory).is_err());
        assert!(Tasks::default().begin(FACTS, 12, &memory).is_err());
    }
}
