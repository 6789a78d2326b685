//! Which blocks of a process's memory go where its threads go: those that threads of one node use.
//!
//! A block goes to a node if at least three quarters of the touches that were seen of it are of threads there, and
//! if so many of so few would hardly be of them by chance, were the block used by all alike: at most once in ten
//! times. So of data that all threads use a tenth moves at most, to where it is as near to all of them as before; what
//! was touched too seldom to tell stays.

use std::collections::BTreeMap;

use quartier_model::{BLOCK, BlockSeen, Bytes, NodeId, TaskId, Touches, Unseen, Users};

use super::terms::{SAMPLE_MIN, Shares, Terms, ThreadTerms, shares};

/// One in so many blocks that all use may look like one node's.
const MISTAKEN_MAX: f64 = 0.1;
/// Of more touches it is clear without counting them all.
const TOUCHES_MAX: u64 = 64;

/// A block by its index, and where it goes.
pub type Goal = (u64, NodeId);

/// Whether it is known of most threads of a process which pages they use, or why not.
pub fn are_known(process: &Terms<'_>) -> Result<(), Unseen> {
    let is_known = |thread: &&ThreadTerms<'_>| thread.pages.is_some();
    let (known, all) = (process.to_place().filter(is_known).count(), process.to_place().count());
    match &process.seen.users {
        Some(Users::Seen(seen)) if seen.lost > nr_touches(seen) => Err(Unseen::Lost),
        _ if 2 * known >= all => Ok(()),
        Some(Users::Seen(_)) => Err(Unseen::TooFew),
        Some(Users::Unknown(unseen)) => Err(*unseen),
        None => Err(Unseen::NotWatched),
    }
}

fn nr_touches(touches: &Touches) -> u64 {
    touches.blocks.iter().flat_map(|block| block.by.values()).sum()
}

fn blocks<'a>(process: &Terms<'a>) -> &'a [BlockSeen] {
    match &process.seen.users {
        Some(Users::Seen(touches)) => &touches.blocks,
        _ => &[],
    }
}

/// How many blocks of a process were seen.
pub fn nr_blocks(process: &Terms<'_>) -> u32 {
    blocks(process).len() as u32
}

/// The blocks that go elsewhere if threads go to these homes, in rising order.
pub fn goals(process: &Terms<'_>, homes: &[(TaskId, NodeId)]) -> Vec<Goal> {
    let home_of: BTreeMap<u32, NodeId> = homes.iter().map(|(id, node)| (id.id, *node)).collect();
    let part_of = |node: NodeId| {
        let there = homes.iter().filter(|(_, home)| *home == node).count();
        there as f64 / homes.len() as f64
    };
    let goal = |block: &BlockSeen| {
        let mut touches = BTreeMap::<NodeId, u64>::new();
        for (thread, times) in &block.by {
            if let Some(node) = home_of.get(thread) {
                *touches.entry(*node).or_default() += times;
            }
        }
        let all: u64 = block.by.values().sum();
        let (node, most) = touches.into_iter().max_by_key(|(node, times)| (*times, *node))?;
        let is_its = 4 * u128::from(most) >= 3 * u128::from(all)
            && chance(all, most, part_of(node)) <= MISTAKEN_MAX;
        (is_its && block.on != Some(node)).then_some((block.index, node))
    };
    blocks(process).iter().filter_map(goal).collect()
}

/// How likely at least `most` of `all` touches are of threads that make up this part of all.
fn chance(all: u64, most: u64, part: f64) -> f64 {
    let (all, most) = match all {
        ..=TOUCHES_MAX => (all, most),
        _ => (TOUCHES_MAX, (u128::from(most) * u128::from(TOUCHES_MAX) / u128::from(all)) as u64),
    };
    // Of exactly `all`, then of one less each time. Multiplied out: powers differ from machine to machine.
    let mut exactly = (0..all).fold(1.0, |product, _| product * part);
    let mut sum = exactly;
    for times in (most + 1..=all).rev() {
        exactly *= times as f64 / (all - times + 1) as f64 * (1.0 - part) / part;
        sum += exactly;
    }
    sum
}

/// What moves at most.
pub fn bytes_of(process: &Terms<'_>, goals: &[Goal]) -> Bytes {
    Bytes(BLOCK.0.saturating_mul(goals.len() as u64)).min(process.resident)
}

/// Where the pages lie that a thread uses, once these blocks have moved; `None`: unknown.
pub fn pages_then(process: &Terms<'_>, thread: &ThreadTerms<'_>, goals: &[Goal]) -> Option<Shares> {
    let Some(touched) = thread.seen.touched.as_ref().filter(|_| thread.pages.is_some()) else {
        return process.pages_of(thread).cloned();
    };
    let mut then = touched.clone();
    for block in blocks(process) {
        let Some(times) = block.by.get(&thread.seen.id.id) else { continue };
        let Ok(at) = goals.binary_search_by_key(&block.index, |(index, _)| *index) else {
            continue;
        };
        let Some(here) = block.on.and_then(|node| then.get_mut(&node)) else { continue };
        let moves = (*times).min(*here);
        *here -= moves;
        *then.entry(goals[at].1).or_default() += moves;
    }
    shares(&then, SAMPLE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_what_counting_all_cases_gives() {
        // Of two nodes alike: all of four touches by one in a sixteenth of all cases; three or more in five.
        assert_eq!(chance(4, 4, 0.5), 1.0 / 16.0);
        assert_eq!(chance(4, 3, 0.5), 5.0 / 16.0);
        assert_eq!(chance(2, 2, 0.25), 1.0 / 16.0);
        assert!((chance(3, 0, 0.25) - 1.0).abs() < 1e-12);
        // Where all threads are on one node nothing is by chance.
        assert_eq!(chance(9, 9, 1.0), 1.0);
        assert!(chance(u64::MAX, u64::MAX, 0.25) < 1e-30);
        assert_eq!(chance(u64::MAX, u64::MAX / 4, 0.25), chance(64, 15, 0.25));
    }
}
