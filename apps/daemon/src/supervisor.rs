//! What systemd is told: that the daemon is ready, reads its configuration again, is alive, and stops. Where nobody
//! asks (`NOTIFY_SOCKET`) nobody is told; that somebody cannot be told is no reason to end.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Taking back the pages of one process takes no longer; systemd kills whoever says nothing for so long.
const STOPPING_ONE_MAX: Duration = Duration::from_secs(60);

/// Who looks after the daemon.
#[derive(Debug)]
pub struct Supervisor {
    /// It wants to hear that the daemon is alive this often.
    heartbeat: Option<Duration>,
    next: Option<Instant>,
}

impl Supervisor {
    /// That of this process, if it has one.
    pub fn new() -> Self {
        Self::of(sd_notify::watchdog_enabled())
    }

    /// Twice more often than it must be: one message may come late.
    fn of(watchdog: Option<Duration>) -> Self {
        Self { heartbeat: watchdog.map(|watchdog| watchdog / 3), next: None }
    }

    /// The daemon looks after the machine, from now on or again.
    pub fn ready(&self, what_it_does: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(what_it_does)]);
    }

    /// It reads its configuration again; [`Self::ready`] follows.
    pub fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// It is alive.
    pub fn alive(&mut self, now: Instant) {
        let Some(heartbeat) = self.heartbeat else { return };
        if self.next.is_none_or(|next| now >= next) {
            tell(&[NotifyState::Watchdog]);
            self.next = Some(now + heartbeat);
        }
    }

    /// As much of a pause as it may make before it has to say again that it is alive.
    pub fn pause(&self, now: Instant, pause: Duration) -> Duration {
        self.next.map_or(pause, |next| pause.min(next.saturating_duration_since(now)))
    }
}

/// It takes everything back, and goes on with that.
pub fn stopping() {
    let most = u32::try_from(STOPPING_ONE_MAX.as_micros()).unwrap_or(u32::MAX);
    tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(most)]);
}

fn tell(what: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_periods_do_not_look_like_death() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let mut alone = Supervisor::of(None);
        alone.alive(now);
        assert_eq!(alone.pause(now, minute), minute);
        let mut watched = Supervisor::of(Some(Duration::from_secs(30)));
        watched.alive(now);
        assert_eq!(watched.pause(now, minute), Duration::from_secs(10));
        assert_eq!(watched.pause(now + minute, minute), Duration::ZERO, "it is late: at once");
        assert_eq!(watched.pause(now, Duration::from_millis(20)), Duration::from_millis(20));
    }
}
