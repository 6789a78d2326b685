//! Shares folders of the host with the guest by virtio-fs.
//!
//! The server is virtiofsd's library in a process of its own, with the rights of whoever runs
//! `quartier` and no more. Folders that are not shared for writing cannot be written whatever the
//! guest's root tries: the server refuses.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vhost::vhost_user::Listener;
use vhost_user_backend::VhostUserDaemon;
use virtiofsd::filesystem::{FileSystem, SerializableFileSystem};
use virtiofsd::limits::setup_rlimit_nofile;
use virtiofsd::passthrough::read_only::PassthroughFsRo;
use virtiofsd::passthrough::{CachePolicy, Config, PassthroughFs};
use virtiofsd::vhost_user::VhostUserFsBackendBuilder;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use crate::error::{Context, Error, Result};
use crate::tether;

/// Descriptors the server itself needs: one for each memory region it may be told of, and change.
const DESCRIPTORS_OWN: u64 = 700;
/// What the server raises its limit to where it may.
const OPEN_FILES_WANTED: u64 = 1_000_000;
/// How long the guest may believe what it knows of a file that only the host changes.
const READ_ONLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a folder that both may write.
const WRITABLE_TIMEOUT: Duration = Duration::from_secs(1);

fn files_max_of(open_files: u64, nr_shares: usize) -> u64 {
    open_files.saturating_sub(DESCRIPTORS_OWN) / nr_shares.max(1) as u64
}

/// How many files of each share the guest may know at once: the server keeps each of them open.
#[must_use]
pub fn files_max(nr_shares: usize) -> u64 {
    files_max_of(limit_of_server(), nr_shares)
}

/// What the server can raise its limit to. Root may raise it above the hard limit, but not in most containers: so it is tried.
fn limit_of_server() -> u64 {
    let own = getrlimit(Resource::Nofile);
    let Some(maximum) = own.maximum.filter(|maximum| *maximum < OPEN_FILES_WANTED) else {
        return OPEN_FILES_WANTED;
    };
    let raised = Rlimit { current: own.current, maximum: Some(OPEN_FILES_WANTED) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return maximum;
    }
    // It is the caller's, and the guest's command gets the same.
    let _ = setrlimit(Resource::Nofile, own);
    OPEN_FILES_WANTED
}

/// Serves folders until the guest is gone. The listening socket is standard input; the guest's
/// connections wait in it in the folders' order.
///
/// # Errors
/// When a folder cannot be shared.
pub fn serve(parent: u32, shares: &[(PathBuf, bool)]) -> Result<()> {
    tether::bind_to_parent(parent)?;
    let socket = rustix::stdio::stdin().try_clone_to_owned().doing("use the guest's socket")?;
    let mut listener = Listener::from(UnixListener::from(socket));
    let limit = setup_rlimit_nofile(None).map_err(Error::Refused)?;
    let descriptors = files_max_of(limit, shares.len());
    let mut waits: Vec<Box<dyn FnMut()>> = Vec::new();
    for (path, writable) in shares {
        let config = config(path, *writable, descriptors)?;
        let shared = "share a folder";
        waits.push(if *writable {
            serve_one(PassthroughFs::new(config).path(shared, path)?, &mut listener)?
        } else {
            serve_one(PassthroughFsRo::new(config).path(shared, path)?, &mut listener)?
        });
    }
    for mut wait in waits {
        wait();
    }
    Ok(())
}

fn config(path: &Path, writable: bool, descriptors: u64) -> Result<Config> {
    let root_dir = path.to_str().ok_or_else(|| {
        Error::refused(format!("{} cannot be shared: its name is not UTF-8", path.display()))
    })?;
    let timeout = if writable { WRITABLE_TIMEOUT } else { READ_ONLY_TIMEOUT };
    Ok(Config {
        root_dir: root_dir.to_owned(),
        entry_timeout: timeout,
        attr_timeout: timeout,
        // The guest may keep pages of a file across openings: libraries are opened by every
        // program. It drops them when it sees that the file changed.
        cache_policy: if writable { CachePolicy::Auto } else { CachePolicy::Always },
        readdirplus: true,
        allow_direct_io: false,
        clean_noatime: true,
        guest_fd_limit: descriptors,
        ..Config::default()
    })
}

/// Takes one connection and starts serving it; gives what waits for its end.
fn serve_one<F: FileSystem + SerializableFileSystem + Send + Sync + 'static>(
    fs: F,
    listener: &mut Listener,
) -> Result<Box<dyn FnMut()>> {
    let starting = "start the file server";
    let backend = VhostUserFsBackendBuilder::default()
        .build(fs)
        .map_err(|error| io::Error::other(error.to_string()))
        .doing(starting)?;
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let failed = |error: vhost_user_backend::Error| io::Error::other(error.to_string());
    let mut daemon = VhostUserDaemon::new("quartier-share".to_owned(), Arc::new(backend), memory)
        .map_err(failed)
        .doing(starting)?;
    daemon.start(listener).map_err(failed).doing(starting)?;
    // The end of the connection is the end of the guest: nothing to report.
    Ok(Box::new(move || drop(daemon.wait())))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn as_many_files_are_promised_as_a_server_can_open() {
        let before = getrlimit(Resource::Nofile);
        let limit = limit_of_server();
        assert_eq!(getrlimit(Resource::Nofile), before, "ours is as it was");
        let raises = format!("ulimit -n {limit}");
        assert!(Command::new("sh").args(["-c", &raises]).status().unwrap().success(), "{raises}");
        assert_eq!(files_max_of(limit, 1), files_max(1));
        assert_eq!((files_max_of(20_000, 2), files_max_of(10, 1)), (9_650, 0));
    }
}
