//! `--steer`: packets are received on all nodes while copies run, and as before afterwards.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::bail;
use quartier_decide::steer::{Queues, Setting, receiving};
use quartier_observe::Host;
use quartier_steer::receive::{self, SettingError};

use super::places::Places;
use crate::say;

/// Where the journal is, in an instance's directory.
pub const JOURNAL: &str = "receiving.journal";

/// All interfaces, as the option's value.
pub const ALL: &str = "all";

/// Settings that are taken back in the end.
#[derive(Debug)]
pub struct Receiving {
    journal: PathBuf,
}

impl Receiving {
    /// Sets what is to be set for the interfaces that are named. Gives notes, too: what could not be set.
    pub fn set(
        host: &Host,
        places: &Places,
        names: &[String],
        directory: &Path,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let there = host.interfaces()?;
        let is_there =
            |name: &&String| *name == ALL || there.iter().any(|interface| interface.name == **name);
        if let Some(missing) = names.iter().find(|name| !is_there(name)) {
            let all: Vec<_> = there.iter().map(|interface| interface.name.as_str()).collect();
            bail!(
                "--steer {missing}: there is no such interface that is up; there are: {}",
                if all.is_empty() { "none".to_owned() } else { all.join(", ") }
            );
        }
        let mut settings: Vec<(String, String)> = Vec::new();
        for interface in &there {
            if names.iter().any(|name| name == ALL || *name == interface.name) {
                let queues = Queues {
                    name: &interface.name,
                    interrupts: &interface.interrupts,
                    nr_send: interface.nr_send,
                };
                let receivers = places.receivers(interface.interrupts.len());
                let wanted = receiving(queues, &receivers).into_iter();
                let wanted = wanted.filter(|setting| !has_more(host, setting));
                settings.extend(wanted.map(|setting| (setting.path, setting.value)));
            }
        }
        settings.sort();
        settings.dedup();
        let journal = directory.join(JOURNAL);
        let mut notes = Vec::new();
        let mut forbidden = Vec::new();
        let complain = |error| match error {
            SettingError::Set { path, cause, .. } if is_forbidden(cause.kind()) => {
                forbidden.push(path);
            }
            error => notes.push(format!("--steer: {error}")),
        };
        let nr_set = receive::apply(Path::new("/"), &settings, &journal, complain)?;
        notes.extend(not_permitted(&forbidden));
        say::sentence(&format!("--steer: {nr_set} settings changed, until it stops"));
        Ok((Self { journal }, notes))
    }

    /// Takes back what one that was killed has left.
    pub fn undo_left(directory: &Path) {
        undo(&directory.join(JOURNAL));
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        undo(&self.journal);
    }
}

/// A table that is larger already stays as large.
fn has_more(host: &Host, setting: &Setting) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let has = host.receiving(&setting.path);
    let is_table = setting.path.ends_with("_flow_entries") || setting.path.ends_with("_flow_cnt");
    is_table && has.and_then(|has| number(&has)) >= number(&setting.value)
}

fn is_forbidden(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// One sentence for all of them: it is the same reason, and the same remedy.
fn not_permitted(paths: &[PathBuf]) -> Option<String> {
    let first = paths.first()?.display();
    Some(format!(
        "--steer: {} settings stay as they are ({first} and the like), for only root with CAP_NET_ADMIN may change them, and a container \
         often not even he: start as root, outside of one",
        paths.len()
    ))
}

fn undo(journal: &Path) {
    let result = receive::undo(journal, |error| say::sentence(&format!("--steer: {error}")));
    match result {
        Ok(0) => {}
        Ok(nr_undone) => say::sentence(&format!("--steer: {nr_undone} settings taken back")),
        Err(error) => say::sentence(&format!("--steer: {error}")),
    }
}
