//! Whether a task still is the one that was seen.

use std::io::Read;

use quartier_model::TaskId;

/// When a thread began, in clock ticks since the machine was started; `None`: it has ended.
pub fn start_ticks(tid: u32) -> Option<u64> {
    let mut text = [0; 1024];
    let mut file = std::fs::File::open(format!("/proc/{tid}/stat")).ok()?;
    let read = file.read(&mut text).ok()?;
    field_22(&text[..read])
}

/// Of proc(5) `stat`. The second, a name, may hold anything, so fields are counted from its last parenthesis.
fn field_22(text: &[u8]) -> Option<u64> {
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&text[after_name..]).ok()?;
    let mut fields = text.split_ascii_whitespace().skip(22 - 3);
    let field = fields.next()?;
    // It is whole only if another follows.
    fields.next()?;
    field.parse().ok()
}

/// Whether there is such a task.
pub fn is_there(task: TaskId) -> bool {
    start_ticks(task.id) == Some(task.start_ticks)
}

/// The numbers of a process's threads; none if it has ended.
pub fn tids_of(pid: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The threads of a process; none if it has ended.
pub fn threads_of(pid: u32) -> Vec<TaskId> {
    tids_of(pid).filter_map(|id| Some(TaskId { id, start_ticks: start_ticks(id)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_when_it_began() {
        let id = std::process::id();
        let start_ticks = start_ticks(id).unwrap();
        assert!(is_there(TaskId { id, start_ticks }));
        assert!(!is_there(TaskId { id, start_ticks: start_ticks + 1 }));
        assert!(!is_there(TaskId { id: (1 << 22) + 1, start_ticks }));
    }

    #[test]
    fn a_stat_that_was_read_by_half_says_nothing() {
        let whole = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 11 22 0 0 20 0 1 0 555 8192 1";
        assert_eq!(field_22(whole.as_bytes()), Some(555));
        let end = whole.find(" 8192").unwrap();
        for len in 0..=end {
            assert_eq!(field_22(&whole.as_bytes()[..len]), None, "{len}");
        }
    }
}
