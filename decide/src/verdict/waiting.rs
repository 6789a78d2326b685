//! Whether a server's threads wait at times, or one of them hardly ever does: then it is what the others wait for.

use std::collections::BTreeMap;

use quartier_model::{Event, Happening};

/// A server's thread that runs, or would if others had not taken its CPU, for this part of the time is one that others wait for.
const HARDLY_WAITS: f64 = 0.9;

/// How long threads have had nothing to do, of the time since any had something: a load takes a while to begin.
pub struct Waiting {
    window_ns: (u64, u64),
    /// When the first thing happened in that time.
    began_ns: Option<u64>,
    /// For how long, by thread,
    waited_ns: BTreeMap<u32, u64>,
    /// and since when, of those that wait.
    since_ns: BTreeMap<u32, u64>,
}

impl Waiting {
    /// In that time.
    pub fn within(window_ns: (u64, u64)) -> Self {
        let (waited_ns, since_ns) = (BTreeMap::new(), BTreeMap::new());
        Self { window_ns, began_ns: None, waited_ns, since_ns }
    }

    /// From when to when it counts, as far as that is known.
    fn counted_ns(&self) -> (u64, u64) {
        let (from_ns, to_ns) = self.window_ns;
        (self.began_ns.unwrap_or(from_ns), to_ns)
    }

    pub fn take(&mut self, event: &Event) {
        let Event { at_ns, tid, what } = *event;
        let (from_ns, to_ns) = self.window_ns;
        if (from_ns..to_ns).contains(&at_ns) {
            self.began_ns.get_or_insert(at_ns);
        }
        match what {
            // What it did before it was first seen to wait is work.
            Happening::Left { is_preempted: false } | Happening::Ended => {
                self.since_ns.entry(tid).or_insert(at_ns);
            }
            Happening::Came | Happening::Ran { .. } => {
                // One that was never seen before has not been there, or has slept.
                let since_ns = match self.since_ns.remove(&tid) {
                    Some(since_ns) => since_ns,
                    None if !self.waited_ns.contains_key(&tid) => 0,
                    None => at_ns,
                };
                let (began_ns, to_ns) = self.counted_ns();
                let within = |at_ns: u64| at_ns.clamp(began_ns, to_ns);
                let waited_ns = within(at_ns).saturating_sub(within(since_ns));
                *self.waited_ns.entry(tid).or_default() += waited_ns;
            }
            _ => {}
        }
    }

    /// Whether a thread has had something to do for nearly all of the time.
    pub fn is_hardly(&self) -> bool {
        let (began_ns, to_ns) = self.counted_ns();
        let most_ns = (1.0 - HARDLY_WAITS) * (to_ns - began_ns) as f64;
        self.waited_ns.iter().any(|(tid, waited_ns)| {
            let since_ns = self.since_ns.get(tid);
            let still_ns = since_ns.map_or(0, |since_ns| to_ns - since_ns.clamp(&began_ns, &to_ns));
            ((waited_ns + still_ns) as f64) < most_ns
        })
    }
}
