//! A recording, charged to code: every moment of every CPU.

use std::collections::{BTreeMap, BTreeSet};

use quartier_model::{Event, Happening, Recording, Touch};

use super::names::{Waits, waits_for};
use super::study::{Cost, Profile, Sharing};
use super::waiting::Waiting;

/// Bytes of a cache line, as a power of two.
const LINE_BITS: u32 = 6;
/// And of what is accessed at once.
const WORD_BITS: u32 = 3;
/// Looks at a thread on a line before it counts as one that uses it.
const LOOKS_MIN: u32 = 2;

/// What tells costs apart: stack, variable, use of its line, what is waited for.
type Key = (u32, Option<u32>, Option<Sharing>, Option<Waits>);

/// What each place of a run on so many CPUs cost. Stacks and variables have the recording's numbers.
///
/// `load_ns`: it is a server, and counts while its load ran, which was then. CPUs that idle beside its running threads while
/// others of them wait for peers are nobody's fault but the peers', unless a thread has so much to do that it hardly ever waits.
#[must_use]
pub fn fold(recording: &Recording, nr_cpus: u32, load_ns: Option<(u64, u64)>) -> Profile {
    let window_ns = load_ns.unwrap_or((0, u64::MAX));
    // Both have to be known before the first moment is charged.
    let (mut lines, mut waiting) = (BTreeMap::new(), load_ns.map(Waiting::within));
    for event in &recording.events {
        note_use(&mut lines, event);
        waiting.iter_mut().for_each(|waiting| waiting.take(event));
    }
    let lines = Lines::of(lines);
    let mut folding = Folding::new(recording, nr_cpus, window_ns);
    folding.blames_peers = waiting.is_some_and(|waiting| !waiting.is_hardly());
    for event in &recording.events {
        folding.pass_to(event.at_ns);
        folding.take(event, &lines);
    }
    folding.finish()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Where it is about to wait, if it does.
    Runs { about_to_wait: Option<Key> },
    /// Since when, and where; when it was woken, if it was and that is known.
    Waits { since_ns: u64, at: Option<Key>, woken_ns: Option<u64> },
    /// Others have its CPU, since then.
    Stopped { since_ns: u64 },
}

struct Folding<'a> {
    recording: &'a Recording,
    nr_cpus: f64,
    window_ns: (u64, u64),
    /// Whether whoever waits for a peer explains idle CPUs better than code that runs meanwhile.
    blames_peers: bool,
    now_ns: Option<u64>,
    threads: BTreeMap<u32, State>,
    costs: BTreeMap<Key, Cost>,
    /// Idle CPUs beside each look at running code.
    idle_at_looks: BTreeMap<Key, f64>,
    /// Who was seen waiting at the last moment when threads were looked at.
    seen: Vec<Key>,
    /// Idle CPUs at such moments, by who is to be blamed; `None`: whoever ran.
    idle_when_seen: BTreeMap<Option<Key>, f64>,
    /// Idle time while it was not known what threads wait for; shared out by these moments in the end.
    idle_unseen_s: f64,
    /// Idle time to be charged to running code, in all; shared out by these looks in the end.
    idle_beside_running_s: f64,
    profile: Profile,
}

impl<'a> Folding<'a> {
    fn new(recording: &'a Recording, nr_cpus: u32, window_ns: (u64, u64)) -> Self {
        Self {
            recording,
            nr_cpus: nr_cpus.into(),
            window_ns,
            blames_peers: false,
            now_ns: None,
            threads: BTreeMap::new(),
            costs: BTreeMap::new(),
            idle_at_looks: BTreeMap::new(),
            seen: Vec::new(),
            idle_when_seen: BTreeMap::new(),
            idle_unseen_s: 0.0,
            idle_beside_running_s: 0.0,
            profile: Profile {
                nr_lost: recording.nr_lost,
                queued_s: recording.has_wakeups.then_some(0.0),
                ..Profile::default()
            },
        }
    }

    /// Threads that run, CPUs that others took from us, and idle ones.
    fn now(&self) -> (usize, f64, f64) {
        let of = |is: fn(&State) -> bool| self.threads.values().filter(|state| is(state)).count();
        let nr_running = of(|state| matches!(state, State::Runs { .. }));
        let nr_stopped = of(|state| matches!(state, State::Stopped { .. }));
        // Of threads that could run no more are kept waiting by others than there are CPUs left.
        let free = (self.nr_cpus - nr_running as f64).max(0.0);
        let stolen = free.min(nr_stopped as f64);
        (nr_running, stolen, free - stolen)
    }

    /// Charges the time up to a moment, in which no thread changed its state.
    fn pass_to(&mut self, at_ns: u64) {
        let (from_ns, to_ns) = self.window_ns;
        let within = |at_ns: u64| at_ns.clamp(from_ns, to_ns);
        let past_ns = self.now_ns.map_or(0, |now| within(at_ns).saturating_sub(within(now)));
        let past_s = past_ns as f64 / 1e9;
        self.now_ns = Some(self.now_ns.map_or(at_ns, |now| now.max(at_ns)));
        if past_s == 0.0 || self.threads.is_empty() {
            return;
        }
        let (nr_running, stolen, idle) = self.now();
        self.profile.ran_s += nr_running as f64 * past_s;
        self.profile.stolen_s += stolen * past_s;
        self.profile.idle_s += idle * past_s;
        if self.recording.is_user_only {
            self.charge_seen(idle, nr_running);
            self.idle_unseen_s += idle * past_s;
            return;
        }
        let waiting = self.threads.values().filter_map(|state| match state {
            State::Waits { at, .. } => *at,
            _ => None,
        });
        let (blamed, rest) = self.blame(idle, waiting.collect(), nr_running);
        for (at, cpus) in blamed {
            cost(&mut self.costs, self.recording, at).idle_s += cpus * past_s;
        }
        self.idle_beside_running_s += rest * past_s;
    }

    /// The blame for the moment when threads were looked at.
    fn charge_seen(&mut self, idle: f64, nr_running: usize) {
        let seen = std::mem::take(&mut self.seen);
        if seen.is_empty() {
            return;
        }
        let (blamed, rest) = self.blame(idle, seen, nr_running);
        let blamed = blamed.into_iter().map(|(at, cpus)| (Some(at), cpus)).chain([(None, rest)]);
        for (at, cpus) in blamed {
            *self.idle_when_seen.entry(at).or_default() += cpus;
        }
    }

    /// Shares out idle time of which only moments are known.
    fn share_out_unseen(&mut self) {
        let all: f64 = self.idle_when_seen.values().sum();
        if all <= 0.0 {
            return;
        }
        for (at, cpus) in std::mem::take(&mut self.idle_when_seen) {
            let idle_s = self.idle_unseen_s * cpus / all;
            match at {
                Some(at) => cost(&mut self.costs, self.recording, at).idle_s += idle_s,
                None => self.idle_beside_running_s += idle_s,
            }
        }
    }

    fn take(&mut self, event: &Event, lines: &Lines) {
        let Event { at_ns, tid, what } = *event;
        let state = match what {
            Happening::Ended => {
                self.threads.remove(&tid);
                return;
            }
            Happening::Came => {
                self.came(tid, at_ns);
                State::Runs { about_to_wait: None }
            }
            Happening::Woken => {
                // Who is woken while it still runs never slept.
                if let Some(State::Waits { woken_ns, .. }) = self.threads.get_mut(&tid) {
                    woken_ns.get_or_insert(at_ns);
                }
                return;
            }
            Happening::Ran { stack, touch } => {
                let object = touch.and_then(|touch| touch.object);
                let at = (stack, object, lines.sharing(touch), None);
                self.threads.insert(tid, State::Runs { about_to_wait: None });
                if (self.window_ns.0..self.window_ns.1).contains(&at_ns) {
                    self.look(at);
                }
                return;
            }
            Happening::Waits { stack, word, is_locked } => {
                State::Runs { about_to_wait: Some(self.wait(stack, word, is_locked)) }
            }
            Happening::Asleep { stack, word, is_locked } => {
                // Or it has come back meanwhile.
                if let Some(State::Waits { .. }) = self.threads.get(&tid) {
                    let at = self.wait(stack, word, is_locked);
                    self.seen.push(at);
                }
                return;
            }
            Happening::Made | Happening::Left { is_preempted: true } => {
                State::Stopped { since_ns: at_ns }
            }
            Happening::Left { is_preempted: false } => {
                let at = match self.threads.get(&tid) {
                    Some(State::Runs { about_to_wait }) => *about_to_wait,
                    _ => None,
                };
                State::Waits { since_ns: at_ns, at, woken_ns: None }
            }
        };
        self.threads.insert(tid, state);
    }

    /// A thread has a CPU: what it did until then is over.
    fn came(&mut self, tid: u32, at_ns: u64) {
        let (from_ns, to_ns) = self.window_ns;
        let within = |at_ns: u64| at_ns.clamp(from_ns, to_ns);
        let seconds =
            |since_ns, until_ns| within(until_ns).saturating_sub(within(since_ns)) as f64 / 1e9;
        let queued_s = match self.threads.get(&tid) {
            Some(State::Waits { since_ns, at, woken_ns }) => {
                let until_ns = woken_ns.unwrap_or(at_ns);
                if let Some(at) = at {
                    let waited_s = seconds(*since_ns, until_ns);
                    cost(&mut self.costs, self.recording, *at).waited_s += waited_s;
                }
                seconds(until_ns, at_ns)
            }
            Some(State::Stopped { since_ns }) => seconds(*since_ns, at_ns),
            Some(State::Runs { .. }) | None => 0.0,
        };
        if let Some(all_s) = &mut self.profile.queued_s {
            *all_s += queued_s;
        }
    }

    fn wait(&self, stack: u32, word: Option<Touch>, is_locked: bool) -> Key {
        let frames = self.recording.stacks[stack as usize].iter();
        let frames = frames.map(|at| &self.recording.frames[*at as usize]);
        let waits = waits_for(frames, is_locked);
        (stack, word.and_then(|word| word.object), None, Some(waits))
    }

    /// A look at running code: for now in numbers of looks, which become seconds in the end.
    fn look(&mut self, at: Key) {
        let (nr_running, _, idle) = self.now();
        let waiting = |is: Waits| {
            let waits = self.threads.values().filter(|state| match state {
                State::Waits { at: Some(at), .. } => at.3 == Some(is),
                _ => false,
            });
            waits.count()
        };
        let is_excused = self.blames_peers && waiting(Waits::Peer) > 0;
        let charged = if is_excused { 0.0 } else { (idle - waiting(Waits::Lock) as f64).max(0.0) };
        let cost = cost(&mut self.costs, self.recording, at);
        cost.nr_samples += 1;
        cost.ran_s += 1.0;
        cost.ran_beside_idle_s += if charged > 0.0 { 1.0 } else { 0.0 };
        self.profile.nr_samples += 1;
        *self.idle_at_looks.entry(at).or_default() += charged / nr_running.max(1) as f64;
    }

    /// Who is to be blamed for idle CPUs: the locks that threads wait for, one CPU for each of them; then a server's disks likewise, and its peers;
    /// then whoever runs, and where nobody does, what is waited for. Gives CPUs by place, and those left for whoever runs.
    fn blame(&self, idle: f64, waiting: Vec<Key>, nr_running: usize) -> (Vec<(Key, f64)>, f64) {
        let of = |is: Waits, from: Vec<Key>| -> (Vec<Key>, Vec<Key>) {
            from.into_iter().partition(|at| at.3 == Some(is))
        };
        let share = |places: &[Key], cpus: f64| -> Vec<(Key, f64)> {
            places.iter().map(|at| (*at, cpus / places.len() as f64)).collect()
        };
        let (locks, others) = of(Waits::Lock, waiting);
        let of_locks = idle.min(locks.len() as f64);
        let rest = idle - of_locks;
        let mut blamed = share(&locks, of_locks);
        let (peers, mut others) = of(Waits::Peer, others);
        if self.blames_peers && !peers.is_empty() {
            let (disks, _) = of(Waits::Disk, others);
            let of_disks = rest.min(disks.len() as f64);
            blamed.extend(share(&disks, of_disks));
            blamed.extend(share(&peers, rest - of_disks));
            return (blamed, 0.0);
        }
        if nr_running > 0 {
            return (blamed, rest);
        }
        others.extend(peers);
        // Waiting for other threads explains nothing while none of them runs.
        let (waits, causes) = of(Waits::Others, others);
        blamed.extend(share(if causes.is_empty() { &waits } else { &causes }, rest));
        (blamed, 0.0)
    }

    fn finish(mut self) -> Profile {
        self.share_out_unseen();
        let look_s = self.profile.ran_s / self.profile.nr_samples.max(1) as f64;
        let idle_at_looks: f64 = self.idle_at_looks.values().sum();
        for (at, cost) in &mut self.costs {
            cost.ran_s *= look_s;
            cost.ran_beside_idle_s *= look_s;
            if let Some(idle) = self.idle_at_looks.get(at).filter(|idle| **idle > 0.0) {
                cost.idle_s += self.idle_beside_running_s * idle / idle_at_looks;
            }
        }
        self.profile.costs = self.costs.into_values().collect();
        self.profile
    }
}

fn cost<'a>(costs: &'a mut BTreeMap<Key, Cost>, recording: &Recording, at: Key) -> &'a mut Cost {
    let (stack, object, sharing, waits) = at;
    costs.entry(at).or_insert_with(|| Cost {
        stack: recording.stacks[stack as usize].clone(),
        object,
        sharing,
        waits,
        ..Cost::default()
    })
}

/// Who uses which cache line.
struct Lines(BTreeMap<u64, Sharing>);

#[derive(Default)]
struct Uses {
    /// By thread: how often it was seen there, and on which words.
    threads: BTreeMap<u32, (u32, BTreeSet<u64>)>,
    is_written: bool,
}

/// What an event tells of who uses which line.
fn note_use(lines: &mut BTreeMap<u64, Uses>, event: &Event) {
    let Happening::Ran { touch: Some(touch), .. } = event.what else { return };
    let uses = lines.entry(touch.address >> LINE_BITS).or_default();
    let (nr_looks, words) = uses.threads.entry(event.tid).or_default();
    *nr_looks += 1;
    words.insert(touch.address >> WORD_BITS);
    uses.is_written |= touch.is_write;
}

impl Lines {
    fn of(lines: BTreeMap<u64, Uses>) -> Self {
        Self(lines.into_iter().map(|(line, uses)| (line, uses.sharing())).collect())
    }

    fn sharing(&self, touch: Option<Touch>) -> Option<Sharing> {
        self.0.get(&(touch?.address >> LINE_BITS)).copied()
    }
}

impl Uses {
    fn sharing(&self) -> Sharing {
        let users: Vec<_> =
            self.threads.values().filter(|(nr_looks, _)| *nr_looks >= LOOKS_MIN).collect();
        if users.len() < 2 || !self.is_written {
            return Sharing::None;
        }
        let nr_words: usize = users.iter().map(|(_, words)| words.len()).sum();
        let together: BTreeSet<_> = users.iter().flat_map(|(_, words)| words).collect();
        if together.len() < nr_words { Sharing::Word } else { Sharing::Line }
    }
}
