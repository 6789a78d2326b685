//! What root may do and this never does is laid down before anything is served, so that a mistake of ours does less. It is no wall
//! against code that runs in here: that may take it up again. The copies have all of it: whatever root starts has (capabilities(7),
//! "Capabilities and execution of programs by root").

use rustix::io::Result;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits, no_new_privs,
    set_capabilities,
};

/// Sockets and processes of another user's are looked into and told to end; what servers leave behind in their folders is removed.
const ALWAYS: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER);
/// Programs and tables in the kernel, and `--steer`.
const FOR_STEERING: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::NET_ADMIN);
/// Files of `--copy-root` have the owners that the originals have.
const FOR_FOLDERS: CapabilitySet = CapabilitySet::CHOWN.union(CapabilitySet::FSETID);

/// Lays down what is not needed, for this thread and those that it begins. Only what is in effect changes: of a program that gains
/// rights as it is started there are no core dumps, and nobody's perf events follow it. Where copies would not have all rights,
/// nothing is laid down.
pub fn lay_down(steers: bool, has_folders: bool) -> Result<()> {
    let is_got_back = rustix::process::geteuid().is_root()
        && !no_new_privs()?
        && capabilities_secure_bits()?.is_empty();
    if !is_got_back {
        return Ok(());
    }
    let mine = capabilities(None)?;
    let mut kept = kept(steers, has_folders);
    // Without it only processes may be looked into that have no rights which we lack.
    if !mine.effective.contains(CapabilitySet::SYS_PTRACE) {
        return Ok(());
    }
    // What older container runtimes give instead.
    kept.set(CapabilitySet::SYS_ADMIN, steers && !mine.effective.contains(CapabilitySet::BPF));
    set_capabilities(None, CapabilitySets { effective: mine.effective & kept, ..mine })
}

fn kept(steers: bool, has_folders: bool) -> CapabilitySet {
    let mut kept = ALWAYS;
    kept.set(FOR_STEERING, steers);
    kept.set(FOR_FOLDERS, has_folders);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_is_asked_for() {
        assert!(!kept(false, false).intersects(FOR_STEERING | FOR_FOLDERS));
        assert!(kept(true, false).contains(CapabilitySet::BPF));
        assert!(kept(false, true).contains(CapabilitySet::CHOWN));
        let never = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_MODULE | CapabilitySet::SETUID;
        assert!(!kept(true, true).intersects(never));
    }

    #[test]
    fn it_is_gone_for_this_thread_and_those_that_it_begins() {
        let mine = capabilities(None).unwrap().effective;
        let is_possible = rustix::process::geteuid().is_root()
            && mine.contains(ALWAYS | CapabilitySet::SYS_ADMIN)
            && !no_new_privs().unwrap()
            && capabilities_secure_bits().unwrap().is_empty();
        if !is_possible {
            return println!("skipped: there is nothing to lay down, or copies would not have it");
        }
        // A thread of its own: the others keep theirs.
        let left = std::thread::spawn(|| {
            lay_down(false, false).unwrap();
            let begun = std::thread::spawn(|| capabilities(None).unwrap().effective);
            (capabilities(None).unwrap().effective, begun.join().unwrap())
        });
        let (own, begun) = left.join().unwrap();
        assert_eq!((own, begun), (ALWAYS, ALWAYS));
    }
}
