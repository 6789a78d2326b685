//! What systemd is told: that the first copy listens, that copies reload, that all finish what they have. Where nobody asks
//! (`NOTIFY_SOCKET`) nobody is told; that somebody cannot be told is no reason to end.

use std::time::Duration;

use sd_notify::NotifyState;

/// Meant for us: copies that have them too would tell in our place.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Beside what copies may take to finish: orphans end, settings and folders are taken back.
const STOPPING_BESIDE: Duration = Duration::from_secs(10);

/// Who looks after all of it.
#[derive(Debug, Default)]
pub struct Supervisor {
    is_told_of_reload: bool,
    status: String,
}

impl Supervisor {
    /// It serves, from now on.
    pub fn ready(&mut self, status: String) {
        self.status = status;
        tell(&[NotifyState::Ready, NotifyState::Status(&self.status)]);
    }

    /// Copies reload, one after the other; [`Self::follow`] says when that is over.
    pub fn reloading(&mut self) {
        self.is_told_of_reload = true;
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// How it stands, said when it is another than before.
    pub fn follow(&mut self, reloads: bool, status: String) {
        if self.is_told_of_reload && !reloads {
            self.is_told_of_reload = false;
            self.ready(status);
        } else if self.status != status {
            self.status = status;
            tell(&[NotifyState::Status(&self.status)]);
        }
    }

    /// All finish what they have, which may take so long.
    pub fn stopping(&mut self, drain: Duration) {
        self.is_told_of_reload = false;
        let most = u32::try_from((drain + STOPPING_BESIDE).as_micros()).unwrap_or(u32::MAX);
        tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(most)]);
    }
}

fn tell(what: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(what);
}
