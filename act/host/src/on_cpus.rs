//! Starting a program on some CPUs.

use std::io;
use std::process::{Child, Command};

use quartier_kernel::sys::SysResult;
use quartier_model::CpuList;
use quartier_session::CpuBits;

use crate::affinity;

/// Starts a command that may run on these CPUs only, as may all that it starts, unless they widen it themselves.
///
/// It is started by the calling thread, so what is set for that thread's children is set for it.
///
/// # Errors
/// When the CPUs are not there or not allowed, or the command could not be started.
pub fn start_on(command: &mut Command, cpus: &CpuList) -> io::Result<Child> {
    let mut bits = CpuBits::EMPTY;
    cpus.iter().for_each(|cpu| bits.insert(cpu));
    let own = checked(affinity::get(0))?;
    checked(affinity::set(0, &bits))?;
    let started = command.spawn();
    checked(affinity::set(0, &own))?;
    started
}

fn checked<T>(result: SysResult<T>) -> io::Result<T> {
    result.map_err(|errno| io::Error::from_raw_os_error(errno.into_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_runs_there_and_the_caller_stays_where_it_was() {
        let before = affinity::affinity_of(0).unwrap();
        let first: CpuList = before.iter().take(1).collect();
        let mut command = Command::new("nproc");
        let output = start_on(command.stdout(std::process::Stdio::piped()), &first).unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "1");
        assert_eq!(affinity::affinity_of(0), Some(before));
        assert!(start_on(&mut Command::new("nproc"), &CpuList::default()).is_err());
    }
}
