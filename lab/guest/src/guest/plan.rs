//! What the guest is told of the command: as a frame once it has booted, or in what it boots with.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::machine::check_kernel_arg;
use super::signals::window_size;
use super::{Input, Request, files, program};
use crate::error::{Context, Error, Result};
use crate::frame::{Load, Start};
use crate::initramfs::Alone;
use crate::limits;

/// Everything the guest is told about the command.
pub fn plan(request: &Request, input: &Input) -> Result<Start> {
    request.kernel_args.iter().try_for_each(|arg| check_kernel_arg(arg))?;
    if request.instrument.is_some() {
        request.qemu.check_counts()?;
    }
    let is_repeatable = request.is_repeatable();
    if is_repeatable && !request.writable.is_empty() {
        return Err(Error::refused(
            "a repeatable run sees no folder of this machine, so there is none to write to: leave --rw \
             out",
        ));
    }
    let name =
        request.command.first().ok_or_else(|| Error::refused("there is no command to run"))?;
    let search = request.environment.iter().find(|(name, _)| name == "PATH").map(|(_, v)| v);
    let path = program::resolve(name, &request.directory, search)?;
    let mut command = vec![path.into_os_string().into_vec()];
    command.extend(request.command.iter().skip(1).map(|arg| arg.as_bytes().to_vec()));
    for folder in &request.writable {
        if !folder.is_dir() || !folder.is_absolute() {
            return Err(Error::refused(format!(
                "--rw={} cannot be: it is not a folder on this machine",
                folder.display()
            )));
        }
    }
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let ids = if request.as_root {
        (0, 0, Vec::new())
    } else {
        let groups = rustix::process::getgroups().doing("find this process's groups")?;
        (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
            groups.iter().map(|gid| gid.as_raw()).collect(),
        )
    };
    let (terminal, terminal_stderr) = match input {
        Input::Terminal { file, stderr } if !is_repeatable => {
            (Some(window_size(file).unwrap_or((24, 80))), *stderr)
        }
        _ => (None, false),
    };
    let bytes = |text: &std::ffi::OsString| text.as_bytes().to_vec();
    Ok(Start {
        command,
        name: bytes(name),
        environment: request.environment.iter().map(|(n, v)| (bytes(n), bytes(v))).collect(),
        directory: request.directory.as_os_str().as_bytes().to_vec(),
        uid: ids.0,
        gid: ids.1,
        groups: ids.2,
        umask: umask.as_raw_mode(),
        beside: request.beside.iter().map(bytes).collect(),
        slow_clocks: request.slow_clocks,
        slower: request.slower(),
        follows_work: request.time_follows_work(),
        load: request.load.as_ref().map(|line| Load {
            line: bytes(line),
            ready: request.ready.as_ref().map(bytes),
            ready_limit_s: request.hang_limit.as_secs(),
        }),
        is_counted: request.instrument.is_some(),
        tells_spaces: request.instrument.as_ref().is_some_and(|of| of.tells_handovers),
        cpus: request.cpus.to_string(),
        limits: limits::current(),
        terminal,
        terminal_stderr,
        writable: request
            .writable
            .iter()
            .enumerate()
            .map(|(index, path)| (format!("rw{index}"), path.as_os_str().as_bytes().to_vec()))
            .collect(),
        binds: kernel_files(request),
        hostname: rustix::system::uname().nodename().to_bytes().to_vec(),
        is_repeatable,
        files_max: crate::share::files_max(1 + request.writable.len()),
        seed: if is_repeatable { Vec::new() } else { seed()? },
        time_ns: if is_repeatable { 0 } else { now_ns() },
    })
}

fn seed() -> Result<Vec<u8>> {
    let path = Path::new("/dev/urandom");
    let mut seed = vec![0; 64];
    File::open(path).and_then(|mut file| file.read_exact(&mut seed)).path("read", path)?;
    Ok(seed)
}

pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// The booted kernel's modules and configuration, where programs look for them.
fn kernel_files(request: &Request) -> Vec<(Vec<u8>, Vec<u8>)> {
    let kernel = &request.kernel;
    let places = [
        (&kernel.modules, format!("/lib/modules/{}", kernel.release)),
        (&kernel.config, format!("/boot/config-{}", kernel.release)),
    ];
    let elsewhere = |(path, place): (&Option<std::path::PathBuf>, String)| {
        let path = path.clone().filter(|path| path != Path::new(&place))?;
        Some((path.into_os_string().into_vec(), place.into_bytes()))
    };
    places.into_iter().filter_map(elsewhere).collect()
}

/// Everything that a guest needs which sees nothing of this machine, and is told nothing.
pub fn alone(request: &Request, start: &Start) -> Result<Alone> {
    let command: Vec<_> = start.command.iter().cloned().map(OsString::from_vec).collect();
    let files = files::of(request, &command)?;
    let start =
        postcard::to_stdvec(start).map_err(std::io::Error::other).doing("write the plan")?;
    Ok(Alone { start, files })
}
