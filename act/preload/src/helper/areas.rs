//! What is known of larger parts of the program's memory, of 8 MiB each: whose touches come together, and whether
//! marking it is still worth it.
//!
//! As long as nothing is known of an area, moving is put off. Where threads of one node touch next to what they have touched
//! in the same round themselves, it is *plain*: what was put off is caught up with, and from then on each touch moves at
//! once. Where they touch next to what another node's have, it is *mixed*: data
//! that all threads read, or threads' parts that are small and alternate. Nothing of it moves until its *trial*, a
//! round in which only those blocks are marked whose toucher is known. Touched by others than before, it is *shared*, and
//! stays where it is. Touched by the same, it is in *parts*, and each block goes to who touches it.
//!
//! What a round leaves unknown is caught up with once all of it was touched, unless it looks mixed so far.
//!
//! An area that threads touch without anything being moved is left out of rounds for twice as long each time,
//! and for four times as long if it is shared.

use quartier_kernel::sys::SysResult;

use super::evidence::{By, Evidence, Weights};
use super::slots::Slots;

/// Areas remembered: the last of each that share an entry. 32 GiB.
const NR_AREAS: usize = 1 << 12;
const AREA: usize = 8 << 20;

/// Touches next to another node's where each thread has a large part of its own, at most; and touches by another node
/// than before where each has a small one, since parts meet within blocks.
const BESIDE_OTHERS_SHARE: f32 = 0.125;
const BEFORE_OTHERS_SHARE: f32 = 0.25;

/// Parts are large by now where so many touches in a row are beside one by the same node; a thread that is ahead of the
/// others makes fewer.
const SAME_IN_A_ROW: u8 = 128;

/// So many blocks are enough for a trial.
const SAMPLE_MIN: u8 = 16;

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Areas {
    slots: Slots<Area, NR_AREAS>,
    round: Round,
    beside: Weights,
    before: Weights,
}

/// A round of marking.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub now_ms: u32,
    /// The time between rounds, least and greatest.
    pub first_ms: u32,
    pub longest_ms: u32,
    pub nr_nodes: u32,
}

/// What the touches say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    /// Each thread has a part of its own.
    Plain,
    Mixed,
    Shared,
    Parts,
}

/// One area.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Area {
    /// Which of those that share an entry it is about.
    tag: u16,
    kind: Kind,
    /// Touches as seen from those beside them, and from those of the same block before.
    beside: Evidence,
    before: Evidence,
    /// The last so many were beside one by the same node.
    nr_same: u8,
    /// So many in this round.
    touches: u8,
    has_moved: bool,
    /// Something is to move in this round, once more is known.
    has_put_off: bool,
    /// Since it is mixed, enough blocks were touched for a trial.
    is_sampled: bool,
    is_on_trial: bool,
    /// It rests for the first wait, doubled so many times.
    doublings: u8,
    /// When it was marked last.
    marked_ms: u32,
}

impl Area {
    /// Only blocks whose toucher is known are marked in this round.
    pub(super) fn is_on_trial(&self) -> bool {
        self.is_on_trial
    }

    /// Whether the touches so far say how threads use it.
    pub(super) fn is_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// Whose the block next to a touch is, is anybody's guess.
    pub(super) fn is_mixed(&self) -> bool {
        !matches!(self.kind, Kind::Unknown | Kind::Plain)
    }

    /// Whether its blocks go to who touches them.
    pub(super) fn follows(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Parts)
    }

    /// Whether all that this round is to tell of it is known, and nothing of it is to be moved.
    pub(super) fn is_done(&self) -> bool {
        match self.kind {
            Kind::Unknown | Kind::Plain => false,
            Kind::Mixed => !self.is_on_trial && self.touches >= SAMPLE_MIN,
            Kind::Shared => self.before.says() == Some(By::Other),
            Kind::Parts => self.is_on_trial,
        }
    }

    /// It was touched, and something of it moved or not.
    pub(super) fn note(&mut self, moved: bool) {
        self.touches = self.touches.saturating_add(1);
        self.has_moved |= moved;
        self.is_sampled |= self.is_mixed() && self.touches >= SAMPLE_MIN;
    }

    /// It was touched, and what was touched is to move if it turns out not to be mixed.
    pub(super) fn put_off(&mut self) {
        self.has_put_off = true;
    }

    /// Whether what was put off may move.
    pub(super) fn may_catch_up(&self) -> bool {
        self.has_put_off && (self.follows() || !self.is_known() && !self.beside.leans_to_other())
    }

    /// Something of what was put off has moved.
    pub(super) fn note_moved(&mut self) {
        self.has_moved = true;
    }

    /// A touch beside another; gives whether it is mixed from now on.
    fn compare_beside(&mut self, by: By, weights: Weights) -> bool {
        self.beside.add(by, weights);
        self.nr_same = if by == By::Same { self.nr_same.saturating_add(1) } else { 0 };
        match (self.kind, self.beside.says()) {
            (Kind::Unknown | Kind::Plain, Some(By::Other)) => {
                self.kind = Kind::Mixed;
                true
            }
            (Kind::Parts, _) if self.nr_same < SAME_IN_A_ROW => false,
            (_, Some(By::Same)) => {
                (self.kind, self.is_sampled) = (Kind::Plain, false);
                false
            }
            _ => false,
        }
    }

    fn compare_before(&mut self, by: By, weights: Weights) {
        self.before.add(by, weights);
        self.kind = match (self.kind, self.before.says()) {
            (Kind::Unknown | Kind::Plain, _) | (_, None) => return,
            (_, Some(By::Other)) => Kind::Shared,
            // Of many trials some are wrong.
            (Kind::Shared, Some(By::Same)) => {
                self.before = Evidence::default();
                Kind::Mixed
            }
            (_, Some(By::Same)) => Kind::Parts,
        };
    }

    /// How often its wait is doubled by now.
    fn doublings(&self) -> u8 {
        let more = match self.kind {
            _ if self.touches == 0 => 0,
            Kind::Shared => 2,
            _ if self.has_moved => return 0,
            // The next round says more.
            Kind::Unknown if self.beside.leans_to_other() => 0,
            Kind::Mixed if !self.is_on_trial => 0,
            Kind::Parts if self.is_on_trial => return 0,
            _ => 1,
        };
        // Then it is longer than any time.
        (self.doublings + more).min(u32::BITS as u8)
    }

    fn rests(&self, round: &Round) -> bool {
        let doublings = self.doublings();
        let wait = round.first_ms.checked_shl(doublings.into()).unwrap_or(u32::MAX);
        let waited = round.now_ms.wrapping_sub(self.marked_ms);
        doublings > 0 && waited != 0 && waited < wait.min(round.longest_ms)
    }

    /// It is marked.
    fn mark(&mut self, round: &Round) {
        if self.marked_ms == round.now_ms {
            return;
        }
        self.doublings = self.doublings();
        self.is_on_trial = self.is_sampled
            && match self.kind {
                Kind::Unknown | Kind::Plain | Kind::Parts => false,
                // What it did not tell, others may.
                Kind::Mixed => !self.is_on_trial,
                Kind::Shared => true,
            };
        self.before = Evidence::default();
        (self.marked_ms, self.touches) = (round.now_ms, 0);
        (self.has_moved, self.has_put_off) = (false, false);
    }
}

impl Areas {
    pub(super) fn new() -> SysResult<Self> {
        Ok(Self {
            // SAFETY: zeros are an area of which nothing is known.
            slots: unsafe { Slots::new() }?,
            round: Round::default(),
            beside: Weights::default(),
            before: Weights::default(),
        })
    }

    /// What is known of the area at an address.
    pub(super) fn at(&mut self, address: usize) -> &mut Area {
        let number = address / AREA;
        let tag = (number / NR_AREAS) as u16;
        let area = self.slots.at(number);
        if area.tag != tag {
            *area = Area { tag, ..Area::default() };
        }
        area
    }

    /// A touch at an address beside one by the same node or another; gives whether the area is mixed from now on.
    pub(super) fn compare_beside(&mut self, address: usize, by: By) -> bool {
        let weights = self.beside;
        self.at(address).compare_beside(by, weights)
    }

    /// A touch of a block that was touched in an earlier round.
    pub(super) fn compare_before(&mut self, address: usize, by: By) {
        let weights = self.before;
        self.at(address).compare_before(by, weights);
    }

    /// A round of marking begins.
    pub(super) fn begin(&mut self, round: Round) {
        self.round = round;
        self.beside = Weights::new(round.nr_nodes, BESIDE_OTHERS_SHARE);
        self.before = Weights::new(round.nr_nodes, BEFORE_OTHERS_SHARE);
    }

    /// The first part of `[start, end)` that is not marked in this round.
    pub(super) fn first_resting(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let round = self.round;
        let at = areas(start, end).find(|at| self.at(*at).rests(&round))?;
        Some((at.max(start), at.saturating_add(AREA).min(end)))
    }

    /// `[start, end)` is marked in this round.
    pub(super) fn mark(&mut self, start: usize, end: usize) {
        let round = self.round;
        areas(start, end).for_each(|at| self.at(at).mark(&round));
    }

    /// The program itself says that each thread of it has its own part of `[start, end)`.
    pub(super) fn take_for_plain(&mut self, start: usize, end: usize) {
        areas(start, end).take(NR_AREAS).for_each(|at| self.at(at).kind = Kind::Plain);
    }

    /// Nothing is known of `[start, end)` any more.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        areas(start, end).take(NR_AREAS).for_each(|at| *self.at(at) = Area::default());
    }
}

/// The area that holds an address.
pub(super) fn area_of(address: usize) -> (usize, usize) {
    let start = address & !(AREA - 1);
    (start, start.saturating_add(AREA))
}

/// Where each area begins that overlaps `[start, end)`.
pub(super) fn areas(start: usize, end: usize) -> impl Iterator<Item = usize> {
    (start / AREA..end.div_ceil(AREA)).map(|number| number * AREA)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 0x7f12_3450_0000;

    fn round(areas: &mut Areas, now_ms: u32) -> bool {
        areas.begin(Round { now_ms, first_ms: 25, longest_ms: 60_000, nr_nodes: 4 });
        let is_marked = areas.first_resting(AT, AT + 1).is_none();
        if is_marked {
            areas.mark(AT, AT + 1);
        }
        is_marked
    }

    /// When it is marked, in rounds 25 ms apart, if `touch` happens after each.
    fn marked(touch: impl Fn(&mut Areas)) -> Vec<u32> {
        let mut areas = Areas::new().unwrap();
        let at = |now_ms: &u32| {
            let is_marked = round(&mut areas, *now_ms);
            if is_marked {
                touch(&mut areas);
            }
            is_marked
        };
        (100..1000).step_by(25).filter(at).collect()
    }

    /// Touches beside another's; on trial, each of a block that was touched by the same before, or another.
    fn mixed(areas: &mut Areas, before: By, moved: bool) {
        for _ in 0..SAMPLE_MIN {
            areas.compare_beside(AT, By::Other);
            if areas.at(AT).is_on_trial() {
                areas.compare_before(AT, before);
            }
            if areas.at(AT).is_done() {
                return areas.at(AT).note(false);
            }
            let follows = areas.at(AT).follows();
            areas.at(AT).note(moved && follows);
        }
    }

    #[test]
    fn what_moves_is_marked_in_each_round_and_what_does_not_ever_less_often() {
        assert_eq!(marked(|areas| areas.at(AT).note(true)).len(), 36);
        assert_eq!(marked(|_| ()).len(), 36, "nobody touched it yet");
        assert_eq!(marked(|areas| areas.at(AT).note(false)), [100, 150, 250, 450, 850]);
    }

    #[test]
    fn after_its_trial_shared_data_rests_and_parts_follow() {
        // The second round is the trial.
        assert_eq!(marked(|areas| mixed(areas, By::Other, true)), [100, 125, 225, 625]);
        assert_eq!(marked(|areas| mixed(areas, By::Same, true)).len(), 36);
        assert_eq!(
            marked(|areas| mixed(areas, By::Same, false)),
            [100, 125, 150, 200, 300, 500, 900]
        );
    }

    #[test]
    fn a_trial_that_tells_nothing_is_repeated_with_more_blocks() {
        let mut areas = Areas::new().unwrap();
        let mut on_trial = |now_ms, touches| {
            assert!(round(&mut areas, now_ms));
            (0..touches).for_each(|_| {
                areas.compare_beside(AT, By::Other);
                areas.at(AT).note(false);
            });
            areas.at(AT).is_on_trial()
        };
        let few = usize::from(SAMPLE_MIN) - 1;
        let rounds = [(0, few), (100, few + 1), (200, 2), (300, few), (400, 0)];
        let on_trial = rounds.map(|(now_ms, touches)| on_trial(now_ms, touches));
        assert_eq!(on_trial, [false, false, true, false, true]);
    }

    #[test]
    fn what_was_taken_for_shared_and_is_in_parts_follows() {
        let mut areas = Areas::new().unwrap();
        for now_ms in [0, 100] {
            round(&mut areas, now_ms);
            mixed(&mut areas, By::Other, false);
        }
        assert!(!areas.at(AT).follows() && areas.at(AT).is_done());
        assert!(round(&mut areas, 1000) && !areas.at(AT).is_done());
        mixed(&mut areas, By::Same, false);
        assert!(areas.at(AT).follows() && areas.at(AT).is_done());
        assert!(round(&mut areas, 1025) && !areas.at(AT).is_done());
        (1..SAME_IN_A_ROW).for_each(|_| _ = areas.compare_beside(AT, By::Same));
        assert!(areas.at(AT).is_mixed());
        areas.compare_beside(AT, By::Same);
        assert!(areas.at(AT).follows() && !areas.at(AT).is_mixed(), "larger parts by now");
    }

    #[test]
    fn an_area_is_marked_as_a_whole_and_rests_as_a_whole() {
        let mut areas = Areas::new().unwrap();
        assert!(round(&mut areas, 7));
        areas.at(AT).note(false);
        assert!(round(&mut areas, 7), "another part of it in the same round");
        areas.begin(Round { now_ms: 8, first_ms: 25, longest_ms: 60_000, nr_nodes: 4 });
        let (start, end) = area_of(AT);
        assert_eq!(areas.first_resting(start - AREA, end + AREA), Some((start, end)));
        assert_eq!(areas.first_resting(AT, AT + 5), Some((AT, AT + 5)));
        areas.forget(start, start + 1);
        assert_eq!(areas.first_resting(start - AREA, end + AREA), None);
    }

    #[test]
    fn an_area_whose_entry_another_took_is_as_new() {
        let mut areas = Areas::new().unwrap();
        assert!(round(&mut areas, 1));
        (0..9).for_each(|_| _ = areas.compare_beside(AT, By::Other));
        let other = AT + NR_AREAS * AREA;
        assert!(areas.at(AT).is_mixed() && !areas.at(other).is_mixed());
        assert!(!areas.at(AT).is_mixed());
        areas.forget(0, usize::MAX);
    }
}
