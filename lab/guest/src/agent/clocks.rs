//! What the kernel does by the clock, as often as it would for a program that ran as fast as on a machine.

use std::fs;
use std::path::Path;

use crate::error::{Context, Result};

/// Milliseconds that the kernel waits, by file: NUMA balancing, and huge pages made in the background.
const WAITS_MS: [&str; 5] = [
    "sys/kernel/debug/sched/numa_balancing/scan_delay_ms",
    "sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
    "sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
    "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
    "sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs",
];

/// Makes all of them `times` as long. A kernel that does not have one does not wait for it either.
pub fn slow(root: &Path, times: u32) -> Result<()> {
    if times <= 1 {
        return Ok(());
    }
    // The longest first: the kernel wants the shortest period below it at any time.
    for file in WAITS_MS.iter().rev().map(|file| root.join(file)).filter(|file| file.exists()) {
        let text = fs::read_to_string(&file).path("read", &file)?;
        let Ok(ms) = text.trim().parse::<u32>() else { continue };
        fs::write(&file, ms.saturating_mul(times).to_string()).path("write", &file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_waits_longer() {
        let root = tempfile::TempDir::new().unwrap();
        let file = |name: &str| root.path().join(name);
        for name in &WAITS_MS[1..] {
            fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            fs::write(file(name), "1000\n").unwrap();
        }
        slow(root.path(), 1).unwrap();
        assert_eq!(fs::read_to_string(file(WAITS_MS[1])).unwrap(), "1000\n");
        slow(root.path(), 200).unwrap();
        assert_eq!(fs::read_to_string(file(WAITS_MS[2])).unwrap(), "200000");
        assert!(!file(WAITS_MS[0]).exists());
    }
}
