//! Parts of a whole as places in a row.

/// Shares a row's places out among copies by the largest remainders; empty where nobody has a share.
#[must_use]
pub fn places(shares: &[f64], nr_places: usize) -> Vec<usize> {
    let sum: f64 = shares.iter().filter(|share| share.is_finite() && **share > 0.0).sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let exact = |share: &f64| {
        if share.is_finite() && *share > 0.0 { share / sum * nr_places as f64 } else { 0.0 }
    };
    let mut counts: Vec<usize> = shares.iter().map(|share| exact(share) as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let remainder = |at: usize| exact(&shares[at]).fract();
    order.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)));
    let left = nr_places.saturating_sub(counts.iter().sum());
    for at in order.into_iter().take(left) {
        counts[at] += 1;
    }
    let copies = counts.iter().enumerate();
    copies.flat_map(|(copy, count)| std::iter::repeat_n(copy, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_become_places() {
        assert_eq!(places(&[0.5, 0.0, 0.5], 4), [0, 0, 2, 2]);
        assert_eq!(places(&[1.0, 1.0, 1.0], 4).len(), 4);
        assert!(places(&[0.0, f64::NAN], 4).is_empty() && places(&[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn everybody_gets_what_is_due_give_or_take_one(
            shares in prop::collection::vec(0.0f64..1.0, 1..20)
        ) {
            let sum: f64 = shares.iter().sum();
            prop_assume!(sum > 0.01);
            let row = places(&shares, 256);
            prop_assert_eq!(row.len(), 256);
            for (at, share) in shares.iter().enumerate() {
                let has = row.iter().filter(|copy| **copy == at).count() as f64;
                prop_assert!((has - share / sum * 256.0).abs() <= 1.0);
            }
        }
    }
}
