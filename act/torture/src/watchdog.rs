//! A process beside the test that notices when nothing goes on, says who waits where, and ends it.

use std::fs;
use std::time::{Duration, Instant};

use crate::sys;
use crate::world::World;

/// Starts the watchdog: a child made before any thread or mark.
pub fn start(world: &'static World, patience: Duration) {
    // SAFETY: the process has one thread yet.
    let child = unsafe {
        let test = libc::getpid();
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                watch(world, test, patience);
                sys::exit_now(0)
            }
            child => child,
        }
    };
    if child < 0 {
        sys::say("no watchdog: a hang will not be noticed\n");
    }
}

fn watch(world: &'static World, test: libc::pid_t, patience: Duration) {
    let (mut total, mut since) = (0, Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(200));
        // SAFETY: a query.
        if unsafe { libc::getppid() } != test {
            return;
        }
        let now = world.log.total();
        if now != total {
            (total, since) = (now, Instant::now());
        }
        if since.elapsed() > patience {
            eprintln!("HANG seed {}: nothing since operation {total}; now:", world.seed);
            world.log.say_all(6);
            let own = std::process::id() as i32;
            let family: Vec<_> = family(test).into_iter().filter(|pid| *pid != own).collect();
            family.iter().copied().for_each(describe);
            // A helper that hangs does not see that its program ends. Only what is below the test.
            let ours = |pid: &i32| *pid == test || parent(*pid) == Some(test);
            let ours: Vec<_> = family.into_iter().filter(ours).collect();
            for pid in ours {
                // SAFETY: the parent, which is alive (see above), and its children, which it has not
                // waited for: it hangs.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            return;
        }
    }
}

fn stat_of(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The test, its children and every helper.
fn family(test: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let is_helper = || stat_of(*pid).is_some_and(|stat| stat.contains("(quartier-helper)"));
        *pid == test || parent(*pid) == Some(test) || is_helper()
    })
    .collect()
}

fn parent(pid: i32) -> Option<i32> {
    stat_of(pid)?.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// Says of every thread of a process in which state it is and what it waits for.
fn describe(pid: i32) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let read = |name: &str| {
            let text = fs::read_to_string(task.path().join(name)).unwrap_or_default();
            text.split_whitespace()
                .take(if name == "stat" { 3 } else { 40 })
                .collect::<Vec<_>>()
                .join(" ")
        };
        eprintln!(
            "  {pid}: {} | {} | {} | {}",
            read("stat"),
            read("wchan"),
            read("syscall"),
            read("stack")
        );
    }
}
