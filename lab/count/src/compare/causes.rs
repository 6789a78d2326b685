//! Why `quartier run` does not help where it does not: what the counts show, and nothing else.
//!
//! What is said to be more or less is so in each run against each, beyond the margin and the error of
//! sampling. What is said to be no less is so in the middle of all runs, within the margin.

use super::verdict::{Judge, Outcome, in_brackets};
use super::{AS_IT_IS, Figures, MARGIN_PERCENT, Policy, Relation, Spread};
use crate::numbers::{mib, milliseconds, percent, significant};

/// Above this share, percent, loads of the program itself are most of what leaves its node.
const MOST_PERCENT: f64 = 50.0;

const NO_CAUSE: &str = "The counts do not show a cause.";

impl Judge<'_> {
    /// One sentence for each cause. None if there is nothing to explain.
    pub(super) fn causes(&self, outcome: Outcome) -> Vec<String> {
        if matches!(outcome, Outcome::Helps | Outcome::Unknown) {
            return Vec::new();
        }
        let causes = [
            self.moving_costs_more(),
            self.all_nodes_read_it(),
            self.one_cpu_has_more_to_do(),
            self.little_to_gain(),
            self.no_hand_is_better(),
        ];
        let causes: Vec<_> = causes.into_iter().flatten().collect();
        if causes.is_empty() { vec![NO_CAUSE.to_owned()] } else { causes }
    }

    /// The kernel moves more, as it copies pages, and the program not as much less.
    fn moving_costs_more(&self) -> Option<String> {
        let (_, base) = self.result(Policy::FirstTouch)?;
        let (_, ours) = self.result(Policy::Quartier)?;
        let [user, user_base] = [ours, base].map(|of| self.part(of.q_user_mib, of));
        let [kernel, kernel_base] = [ours, base].map(|of| self.part(of.q_kernel_mib, of));
        let rise_mib = kernel.least - kernel_base.greatest;
        let saving_mib = user_base.greatest - user.least;
        let margin_mib = base.q_mib.middle * MARGIN_PERCENT / 100.0;
        // Walks may save what the program's own accesses do not.
        let is_less_in_all = self.find(&ours.q_mib, &base.q_mib).relation == Relation::Less;
        let is_more = kernel.relation(&kernel_base) == Relation::More;
        if is_less_in_all || !is_more || rise_mib <= saving_mib.max(margin_mib) {
            return None;
        }
        let from_to = |from: Spread, to: Spread| {
            format!("from {} to {}", significant(from.middle), mib(to.middle))
        };
        let (own, copies) = (from_to(user_base, user), from_to(kernel_base, kernel));
        let what = "What the program's own accesses move between nodes";
        let change = match user.relation(&user_base) {
            Relation::Less => {
                format!("fell {own}, but the kernel's, which copies pages, rose {copies}")
            }
            Relation::Same => format!(
                "did not change beyond the spread ({own}), but the kernel's, which copies pages, rose \
                 {copies}"
            ),
            Relation::More => format!("rose {own}, and the kernel's, which copies pages, {copies}"),
        };
        let conclusion = match user.relation(&user_base) {
            Relation::Less if !is_faster(ours, base) => {
                "the program does not run long enough with its data to pay for moving them"
            }
            _ => "moving pages costs more bytes than it saves",
        };
        Some(format!("{what} {change}: {conclusion}."))
    }

    /// Threads of all nodes read the same data.
    fn all_nodes_read_it(&self) -> Option<String> {
        let (_, base) = self.result(Policy::FirstTouch)?;
        let (result, ours) = self.result(Policy::Quartier)?;
        let reads = ours.user_read_percent.filter(|reads| reads.least > MOST_PERCENT)?;
        let is_even = result.runs.iter().all(|run| run.are_reads_even == Some(true));
        // Where another placement is nearer, there is one.
        let others = [Policy::Interleave, Policy::NumaBalancing, Policy::Numad, Policy::Hand];
        let mut others = others.into_iter().filter_map(|policy| Some(self.result(policy)?.1));
        let is_nearer = others.any(|other| is_below(&other.q_user_mib, &ours.q_user_mib));
        let is_less = is_below(&ours.q_user_mib, &base.q_user_mib);
        (is_even && !is_less && !is_nearer).then(|| {
            format!(
                "Under quartier run {} of what leaves its node is lines that the program reads, from all \
                 nodes evenly, and its own accesses move no less than under first touch ({} and {}), as \
                 where threads of all nodes read the same data: no placement is near all of them.",
                percent(reads.middle),
                significant(ours.q_user_mib.middle),
                mib(base.q_user_mib.middle),
            )
        })
    }

    /// The phase is longer though the CPUs together work no longer.
    fn one_cpu_has_more_to_do(&self) -> Option<String> {
        let (_, base) = self.result(Policy::FirstTouch)?;
        let (_, ours) = self.result(Policy::Quartier)?;
        let (busiest, busiest_base) = ours.modelled_phase_ms.zip(base.modelled_phase_ms)?;
        let (mean, mean_base) = ours.modelled_mean_cpu_ms.zip(base.modelled_mean_cpu_ms)?;
        let is_longer = self.find(&busiest, &busiest_base).relation == Relation::More;
        let is_more = self.find(&mean, &mean_base).relation == Relation::More;
        (is_longer && !is_more).then(|| {
            format!(
                "All CPUs together work no longer ({} each in the mean, under first touch {}), but the \
                 busiest does ({} and {}): threads stay on their nodes, and those of one have more to do.",
                milliseconds(mean.middle),
                milliseconds(mean_base.middle),
                milliseconds(busiest.middle),
                milliseconds(busiest_base.middle),
            )
        })
    }

    /// The best by hand has no less than first touch, nor has any other that was tried.
    fn no_hand_is_better(&self) -> Option<String> {
        let (first, base) = self.result(Policy::FirstTouch)?;
        let (hand, figures) = self.result(Policy::Hand)?;
        let mut tried = hand.tried.iter().filter_map(|trial| Spread::of([trial.q_mib]));
        let is_better = is_below(&figures.q_mib, &base.q_mib)
            || is_faster(figures, base)
            || tried.any(|trial| is_below(&trial, &base.q_mib));
        let mut others = hand.tried.iter().filter(|trial| trial.detail != AS_IT_IS);
        let is_tried = !hand.is_best_as_it_is() || others.any(|trial| trial.q_mib.is_some());
        if is_better || !is_tried || !self.has_spread([first, hand]) {
            return None;
        }
        let either = "Placement by hand does not help this program either";
        Some(match hand.is_best_as_it_is() {
            true => format!("{either}: none that was tried moves clearly less than none."),
            false => format!(
                "{either}: the best{} moves {}, first touch {}.",
                in_brackets(hand.detail.as_deref()),
                mib(figures.q_mib.middle),
                mib(base.q_mib.middle),
            ),
        })
    }

    /// A part of Q. The error of sampling is known of all of it, so it may be all in the part.
    fn part(&self, part: Spread, of: &Figures) -> Spread {
        let error_mib = of.q_mib.greatest * self.mode.error_percent() / 100.0;
        let least = (part.least - error_mib).max(0.0);
        Spread { least, greatest: part.greatest + error_mib, ..part }
    }
}

/// Whether the middle of all runs is less, by more than the margin.
fn is_below(one: &Spread, other: &Spread) -> bool {
    one.middle < other.middle * (1.0 - MARGIN_PERCENT / 100.0)
}

fn is_faster(one: &Figures, other: &Figures) -> bool {
    let times = one.modelled_phase_ms.zip(other.modelled_phase_ms);
    times.is_some_and(|(one, other)| is_below(&one, &other))
}

#[cfg(test)]
mod tests {
    use super::super::{PolicyResult, RunFigures, Trial};
    use super::*;
    use crate::recording::CountMode;

    /// A run of user, kernel and walk MiB, whose reads are most of what leaves, and even.
    fn run([user, kernel, walk]: [f64; 3]) -> RunFigures {
        RunFigures {
            q_mib: user + kernel + walk,
            q_user_mib: user,
            q_kernel_mib: kernel,
            q_walk_mib: walk,
            q_rest_mib: 0.0,
            user_read_percent: Some(80.0),
            are_reads_even: Some(true),
            remote_percent: Some(50.0),
            mean_hops: None,
            modelled_phase_ms: Some(100.0),
            modelled_mean_cpu_ms: None,
        }
    }

    /// The same with reads that are not even.
    fn uneven(mib: [f64; 3]) -> RunFigures {
        RunFigures { are_reads_even: Some(false), ..run(mib) }
    }

    fn result(policy: Policy, runs: &[RunFigures]) -> PolicyResult {
        PolicyResult {
            policy,
            detail: None,
            runs: runs.to_vec(),
            absent: None,
            tried: Vec::new(),
            figures: Figures::new(runs),
            asked: Vec::new(),
        }
    }

    /// Under first touch and under quartier run, and by hand.
    fn causes_of(first: &[RunFigures], ours: &[RunFigures], hand: Option<PolicyResult>) -> String {
        let mut results = vec![result(Policy::FirstTouch, first), result(Policy::Quartier, ours)];
        results.extend(hand);
        let judge = Judge { results: &results, mode: CountMode::Parallel };
        judge.causes(Outcome::DoesNotHelp).join(" ")
    }

    fn causes(first: [f64; 3], ours: [f64; 3]) -> String {
        causes_of(&[uneven(first); 2], &[uneven(ours); 2], None)
    }

    #[test]
    fn what_helps_or_is_not_known_has_no_causes() {
        let results = [Policy::FirstTouch, Policy::Quartier]
            .map(|policy| result(policy, &[run([10.0, 0.0, 0.0]); 2]));
        let judge = Judge { results: &results, mode: CountMode::Parallel };
        for (outcome, nr) in [
            (Outcome::Helps, 0),
            (Outcome::Unknown, 0),
            (Outcome::DoesNotHelp, 1),
            (Outcome::Hurts, 1),
            (Outcome::Mixed, 1),
        ] {
            assert_eq!(judge.causes(outcome).len(), nr, "{outcome:?}");
        }
    }

    #[test]
    fn moving_costs_where_the_kernel_moves_more_than_the_program_saves() {
        let fell = causes([100.0, 10.0, 1.0], [60.0, 80.0, 1.0]);
        let said = "move between nodes fell from 100 to 60.0 MiB, but the kernel's, which copies pages, \
                    rose from 10.0 to 80.0 MiB: the program does not run long enough";
        assert!(fell.contains(said), "{fell}");
        let same = causes([100.0, 10.0, 1.0], [101.0, 30.0, 1.0]);
        assert!(same.contains("did not change beyond the spread (from 100 to 101 MiB)"), "{same}");
        assert!(same.ends_with(": moving pages costs more bytes than it saves."), "{same}");
        let rose = causes([100.0, 10.0, 1.0], [120.0, 30.0, 1.0]);
        assert!(
            rose.contains(
                "rose from 100 to 120 MiB, and the kernel's, which copies pages, from 10.0"
            ),
            "{rose}"
        );
        // What pays in time pays.
        let first = [uneven([100.0, 10.0, 1.0]); 2];
        let faster = RunFigures { modelled_phase_ms: Some(50.0), ..uneven([60.0, 80.0, 1.0]) };
        let faster = causes_of(&first, &[faster; 2], None);
        assert!(faster.ends_with(": moving pages costs more bytes than it saves."), "{faster}");
        let from_nothing = causes([0.0, 0.0, 0.0], [0.0, 5.0, 0.0]);
        assert!(from_nothing.contains("rose from 0 to 5.00 MiB"), "{from_nothing}");
    }

    #[test]
    fn moving_is_no_cause_at_the_margin() {
        for (first, ours) in [
            // As much as is saved, and less.
            ([100.0, 10.0, 0.0], [60.0, 50.0, 0.0]),
            ([100.0, 10.0, 0.0], [60.0, 49.0, 0.0]),
            // 3 % of all, and of the kernel's.
            ([90.0, 10.0, 0.0], [90.0, 13.0, 0.0]),
            ([0.0, 100.0, 0.0], [0.0, 103.0, 0.0]),
            // All is less, by walks.
            ([100.0, 10.0, 100.0], [90.0, 25.0, 1.0]),
        ] {
            assert_eq!(causes(first, ours), NO_CAUSE, "{first:?} {ours:?}");
        }
        let just_more = causes([90.0, 10.0, 0.0], [90.0, 13.1, 0.0]);
        assert!(just_more.contains("costs more bytes than it saves"), "{just_more}");
        // In the worst case of the runs it saves what it costs.
        let spread = [uneven([100.0, 10.0, 0.0]), uneven([80.0, 10.0, 0.0])];
        assert_eq!(causes_of(&spread, &[uneven([80.0, 28.0, 0.0]); 2], None), NO_CAUSE);
    }

    #[test]
    fn a_sample_may_err_in_one_class_alone() {
        let results = [
            result(Policy::FirstTouch, &[uneven([90.0, 10.0, 0.0]); 2]),
            result(Policy::Quartier, &[uneven([90.0, 20.0, 0.0]); 2]),
        ];
        let of = |error_percent| {
            let mode = CountMode::Sampled { one_in: 8, error_percent };
            Judge { results: &results, mode }.causes(Outcome::Hurts).join(" ")
        };
        assert!(of(1.0).contains("costs more bytes than it saves"), "{}", of(1.0));
        assert_eq!(of(3.0), NO_CAUSE);
    }

    #[test]
    fn what_threads_of_all_nodes_read_is_near_to_none() {
        let base = [run([100.0, 5.0, 1.0]); 2];
        let said = "80.0 % of what leaves its node is lines that the program reads, from all nodes evenly, \
                    and its own accesses move no less than under first touch (98.0 and 100 MiB)";
        let told = |ours: [RunFigures; 2]| causes_of(&base, &ours, None);
        let ours = run([98.0, 5.0, 1.0]);
        assert!(told([ours; 2]).contains(said), "{}", told([ours; 2]));
        assert!(told([run([130.0, 5.0, 1.0]); 2]).contains("threads of all nodes"));
        let with_reads = |percent| RunFigures { user_read_percent: percent, ..ours };
        assert!(told([with_reads(Some(50.1)); 2]).contains("threads of all nodes"));
        // Less than the margin; no more than half; uneven in one run; nothing leaves in one.
        for ours in [
            [run([96.9, 5.0, 1.0]); 2],
            [run([90.0, 5.0, 1.0]), run([102.0, 5.0, 1.0])],
            [with_reads(Some(50.0)), ours],
            [uneven([98.0, 5.0, 1.0]), ours],
            [with_reads(None), ours],
            [RunFigures { are_reads_even: None, ..ours }, ours],
        ] {
            assert_eq!(told(ours), NO_CAUSE);
        }
        // By hand the program reads less from elsewhere: there is a nearer placement.
        let hand = |user| Some(result(Policy::Hand, &[run([user, 20.0, 1.0]); 2]));
        assert!(!causes_of(&base, &[ours; 2], hand(95.0)).contains("threads of all nodes"));
        assert!(causes_of(&base, &[ours; 2], hand(95.1)).contains("threads of all nodes"));
    }

    #[test]
    fn one_cpu_has_more_to_do_where_the_others_have_not() {
        let with = |phase_ms, mean_ms| RunFigures {
            modelled_phase_ms: Some(phase_ms),
            modelled_mean_cpu_ms: Some(mean_ms),
            ..uneven([100.0, 0.0, 0.0])
        };
        let told = |ours| causes_of(&[with(100.0, 90.0); 2], &[ours; 2], None);
        let said = "(91.0 ms each in the mean, under first touch 90.0 ms), but the busiest does (112 ms and \
                    100 ms)";
        assert!(told(with(112.0, 91.0)).contains(said), "{}", told(with(112.0, 91.0)));
        // All have; none has.
        assert_eq!(told(with(112.0, 93.0)), NO_CAUSE);
        assert_eq!(told(with(103.0, 90.0)), NO_CAUSE);
    }

    #[test]
    fn little_to_gain_is_a_cause() {
        let of = |remote_percent| {
            let run = RunFigures { remote_percent, ..uneven([1.0, 0.0, 0.0]) };
            causes_of(&[run; 2], &[run; 2], None)
        };
        assert!(of(Some(0.99)).contains("little to gain"));
        assert_eq!((of(Some(1.0)).as_str(), of(None).as_str()), (NO_CAUSE, NO_CAUSE));
    }

    #[test]
    fn no_hand_is_better_only_where_none_is() {
        let base = [uneven([100.0, 0.0, 0.0]); 2];
        let with = |hand: PolicyResult| causes_of(&base, &base, Some(hand));
        let by_hand = |mib, ms: f64| {
            let run = RunFigures { modelled_phase_ms: Some(ms), ..uneven([mib, 0.0, 0.0]) };
            PolicyResult { detail: Some("one node".to_owned()), ..result(Policy::Hand, &[run; 2]) }
        };
        let either = "Placement by hand does not help this program either: ";
        let told = with(by_hand(97.5, 97.5));
        assert_eq!(
            told,
            format!("{either}the best (one node) moves 97.5 MiB, first touch 100 MiB.")
        );
        let trial = |detail: &str, q_mib| Trial {
            detail: detail.to_owned(),
            q_mib,
            modelled_phase_ms: Some(120.0),
            failed: None,
        };
        let tried = |others: Vec<Trial>| PolicyResult { tried: others, ..by_hand(100.0, 100.0) };
        assert!(with(tried(vec![trial("x", Some(97.5)), trial("y", None)])).starts_with(either));
        // It moves less; it is faster; another that was tried moves less; one run has no spread.
        for better in [
            by_hand(96.9, 100.0),
            by_hand(100.0, 96.9),
            tried(vec![trial("x", Some(96.9))]),
            result(Policy::Hand, &[uneven([100.0, 0.0, 0.0])]),
        ] {
            assert_eq!(with(better), NO_CAUSE);
        }
        let none = |trials: Vec<Trial>| PolicyResult {
            detail: Some(AS_IT_IS.to_owned()),
            ..tried(trials)
        };
        let as_it_is = || trial(AS_IT_IS, Some(100.0));
        // All others failed.
        assert_eq!(with(none(vec![as_it_is(), trial("x", None)])), NO_CAUSE);
        let none = none(vec![as_it_is(), trial("x", Some(99.0))]);
        assert_eq!(
            with(none),
            format!("{either}none that was tried moves clearly less than none.")
        );
    }
}
