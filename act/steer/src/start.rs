//! Starting a copy where it belongs, and signals to all of it.

use std::process::{Child, Command};

use quartier_kernel::sys;
use quartier_model::{CpuList, NodeOsId};
use rustix::process::{Pid, Signal};

/// Where a copy runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// On these CPUs.
    pub cpus: CpuList,
    /// Its memory comes from this node while that has some; `None`: from wherever it runs.
    pub node: Option<NodeOsId>,
}

/// Starts a command as the first of a process group of its own. Whatever it starts is bound as it is.
///
/// # Errors
/// What the kernel says.
pub fn start(command: &mut Command, binding: &Binding) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // Affinity and memory policy are inherited from the thread that starts a process.
    bound(binding, || command.spawn())?
}

/// Does something in a thread of its own that is bound so.
///
/// # Errors
/// What the kernel says to that.
pub fn bound<T: Send>(binding: &Binding, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    let mut words = [0; quartier_model::CPUS_MAX / 64];
    for cpu in binding.cpus.iter() {
        words[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    std::thread::scope(|scope| {
        let bound = scope.spawn(|| {
            sys::set_affinity(0, &words).map_err(|error| os_error(error.into_raw()))?;
            sys::prefer_node(binding.node.map(|node| node.0))
                .map_err(|error| os_error(error.into_raw()))?;
            Ok(work())
        });
        bound.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread ended early")))
    })
}

fn os_error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// Sends a signal to a copy's first process.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to every process of a copy; `false`: there is none.
pub fn signal_all(pid: u32, signal: Option<Signal>) -> bool {
    let Some(pid) = Pid::from_raw(pid as i32) else { return false };
    let sent = match signal {
        Some(signal) => rustix::process::kill_process_group(pid, signal),
        None => rustix::process::test_kill_process_group(pid),
    };
    sent != Err(rustix::io::Errno::SRCH)
}
