//! How many descriptors there are: what watches tasks must not take those that everything else needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For files that are opened for a moment, the journal, the log and who looks at the page.
const RESERVE: usize = 128;

/// So many as are wanted for tasks, or as many as there can be. Raises the limit as far as is permitted.
pub fn left_of(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let needed = (wanted + RESERVE) as u64;
    let soft = raised(limit, needed);
    if soft != limit.current {
        // Whoever may not has what there was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: soft, maximum: limit.maximum });
    }
    let left = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |soft| soft as usize);
    wanted.min(left.saturating_sub(RESERVE))
}

/// `None`: no limit.
fn raised(limit: Rlimit, needed: u64) -> Option<u64> {
    let soft = limit.current?;
    let most = limit.maximum.map_or(needed, |hard| needed.min(hard));
    Some(soft.max(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_as_far_as_it_may_be_and_never_lowered() {
        for (soft, hard, expected) in [
            (Some(1024), Some(4096), Some(4096)),
            (Some(1024), Some(1 << 20), Some(5000)),
            (Some(1024), None, Some(5000)),
            (Some(9000), Some(9000), Some(9000)),
            (None, None, None),
        ] {
            let limit = Rlimit { current: soft, maximum: hard };
            assert_eq!(raised(limit, 5000), expected);
        }
    }
}
