//! Where the daemon puts what it sees for others to look at, while somebody does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quartier_decide::reporter::view::View;
use quartier_model::{NodeOsId, Snapshot, TaskId};
use tokio::sync::watch;

/// What nobody has asked for so long is not made.
const WANTED_FOR: Duration = Duration::from_secs(5);

/// A view with what it was made from.
#[derive(Debug)]
pub struct Sheet {
    pub view: View,
    pub snapshot: Snapshot,
    /// All processes that are looked at, sleeping ones too.
    pub watched: BTreeSet<TaskId>,
    /// On which nodes threads of processes are held.
    pub held: Held,
    made: Instant,
}

/// By the number of a process.
pub type Held = BTreeMap<u32, BTreeSet<NodeOsId>>;

/// Both sides of it.
#[derive(Clone, Debug)]
pub struct Board {
    sheet: watch::Sender<Option<Arc<Sheet>>>,
    asked: watch::Sender<Option<Instant>>,
    period: watch::Sender<Duration>,
}

impl Board {
    pub fn new() -> Self {
        let period = watch::Sender::new(Duration::ZERO);
        Self { sheet: watch::Sender::new(None), asked: watch::Sender::new(None), period }
    }

    /// Whether somebody looks.
    pub fn is_wanted(&self) -> bool {
        self.asked.borrow().is_some_and(|asked| asked.elapsed() < WANTED_FOR + self.period())
    }

    /// Puts up what there is now.
    pub fn put(&self, view: View, snapshot: Snapshot, watched: BTreeSet<TaskId>, held: Held) {
        let sheet = Sheet { view, snapshot, watched, held, made: Instant::now() };
        self.sheet.send_replace(Some(Arc::new(sheet)));
    }

    /// How long somebody may have to wait for it, beside the time that a look takes.
    pub fn set_period(&self, period: Duration) {
        self.period.send_replace(period);
    }

    /// The same.
    pub fn period(&self) -> Duration {
        *self.period.borrow()
    }

    /// What there is, not older than this; waits for it.
    pub async fn get(&self, not_older: Duration) -> Option<Arc<Sheet>> {
        let now = Instant::now();
        self.asked.send_replace(Some(now));
        let is_new = |sheet: &Option<Arc<Sheet>>| {
            sheet.as_ref().is_some_and(|sheet| sheet.made + not_older >= now)
        };
        self.sheet.subscribe().wait_for(is_new).await.ok()?.clone()
    }
}
