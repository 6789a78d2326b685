//! What a comparison's numbers say, in sentences, by plain rules.
//!
//! A policy has *less* than another only where each of its runs has less than each of the other's, by
//! more than [`MARGIN_PERCENT`], with the error of sampling added to both. One run each has no known
//! spread, so nothing is concluded from it, unless counts are repeatable.

use serde::{Deserialize, Serialize};

use super::{Figures, MARGIN_PERCENT, Policy, PolicyResult, Relation, Spread};
use crate::numbers::{mib, of, percent, share, significant};
use crate::recording::CountMode;
use crate::words::main_kind;

/// Below this share of commands that leave their node, percent, no placement can gain much.
const LITTLE_TO_GAIN_PERCENT: f64 = 1.0;

/// What `quartier run` does for a program, against first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Less moves between nodes or the modelled phase is shorter, and neither is worse.
    Helps,
    /// No difference beyond the spread.
    DoesNotHelp,
    /// More moves between nodes or the modelled phase is longer, and neither is better.
    Hurts,
    /// One is better and the other worse.
    Mixed,
    /// One of the two was not run, or too seldom for a spread.
    Unknown,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// The sentence that everybody reads.
    pub headline: String,
    /// The others.
    pub sentences: Vec<String>,
}

/// Results, and how sure they are.
pub(super) struct Judge<'a> {
    pub(super) results: &'a [PolicyResult],
    pub(super) mode: CountMode,
}

/// One policy's number against another's.
pub(super) struct Finding {
    pub(super) relation: Relation,
    /// The number divided by the other's.
    ratio: Option<Spread>,
}

impl Verdict {
    pub(super) fn new(results: &[PolicyResult], mode: CountMode) -> Self {
        let judge = Judge { results, mode };
        let (outcome, headline) = judge.quartier();
        let mut sentences = judge.causes(outcome);
        let has_causes = !sentences.is_empty();
        sentences.extend(judge.to_hand());
        sentences.extend(judge.others());
        sentences.extend(judge.beside_balancing());
        sentences.extend(judge.what_is_left());
        sentences.extend(judge.little_to_gain().filter(|_| !has_causes));
        sentences.extend(judge.absent());
        sentences.extend(judge.error());
        Self { outcome, headline, sentences }
    }
}

impl Outcome {
    fn of(q: Relation, time: Relation) -> Self {
        use Relation::{Less, More, Same};
        match (q, time) {
            (Same, Same) => Self::DoesNotHelp,
            (Less, Less | Same) | (Same, Less) => Self::Helps,
            (More, More | Same) | (Same, More) => Self::Hurts,
            (Less, More) | (More, Less) => Self::Mixed,
        }
    }

    /// In a word or three.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Helps => "helps",
            Self::DoesNotHelp => "does not help",
            Self::Hurts => "hurts",
            Self::Mixed => "helps and hurts",
            Self::Unknown => "not known",
        }
    }
}

impl Judge<'_> {
    pub(super) fn result(&self, policy: Policy) -> Option<(&PolicyResult, &Figures)> {
        let result = self.results.iter().find(|result| result.policy == policy)?;
        Some((result, result.figures.as_ref()?))
    }

    /// Whether two results have a spread at all.
    pub(super) fn has_spread(&self, results: [&PolicyResult; 2]) -> bool {
        let is_repeatable = self.mode == CountMode::Deterministic;
        is_repeatable || results.iter().all(|result| result.runs.len() > 1)
    }

    pub(super) fn find(&self, value: &Spread, base: &Spread) -> Finding {
        let error = self.mode.error_percent();
        let (value, base) = (value.widened(error), base.widened(error));
        Finding { relation: value.relation(&base), ratio: value.ratio(&base) }
    }

    /// Quartier against first touch.
    fn quartier(&self) -> (Outcome, String) {
        let Some((first, first_figures)) = self.result(Policy::FirstTouch) else {
            return (
                Outcome::Unknown,
                "There is no run under first touch to compare with.".to_owned(),
            );
        };
        let Some((quartier, figures)) = self.result(Policy::Quartier) else {
            return (Outcome::Unknown, "There is no run under quartier run to judge.".to_owned());
        };
        let (q, base) = (&figures.q_mib, &first_figures.q_mib);
        if !self.has_spread([first, quartier]) {
            let sentence = format!(
                "Not known: with one run each there is no spread. Q is {} under quartier run and {} \
                 under first touch; count each several times to know whether that holds.",
                mib(q.middle),
                mib(base.middle),
            );
            return (Outcome::Unknown, sentence);
        }
        let q = self.find(q, base);
        let times = figures.modelled_phase_ms.zip(first_figures.modelled_phase_ms);
        let time = times.map(|(time, base)| self.find(&time, &base));
        let relation = time.as_ref().map_or(Relation::Same, |time| time.relation);
        let outcome = Outcome::of(q.relation, relation);
        let runs = first.runs.len().min(quartier.runs.len());
        let sentence = format!(
            "quartier run {} this program: against first touch, {}, and {} ({}).",
            match outcome {
                Outcome::Mixed => "both helps and hurts",
                other => other.name(),
            },
            q.bytes(),
            time.map_or_else(|| "no time could be modelled".to_owned(), |time| time.time()),
            if self.mode == CountMode::Deterministic && runs == 1 {
                "repeatable counts".to_owned()
            } else {
                format!("{} each", of(runs as u64, "run"))
            },
        );
        (outcome, sentence)
    }

    /// How near quartier comes to the best placement by hand.
    fn to_hand(&self) -> Option<String> {
        let (hand, base) = self.result(Policy::Hand)?;
        let (quartier, figures) = self.result(Policy::Quartier)?;
        let ratio = figures.q_mib.ratio(&base.q_mib)?;
        let finding = self.find(&figures.q_mib, &base.q_mib);
        let certain = match finding.relation {
            _ if !self.has_spread([hand, quartier]) => "in one run each",
            Relation::Same => "no difference beyond the spread",
            Relation::Less => "less in every run",
            Relation::More => "more in every run",
        };
        let best = match hand.is_best_as_it_is() {
            true => "No placement by hand that was tried is faster than none, which".to_owned(),
            false => {
                format!("The best placement by hand{}", in_brackets(hand.detail.as_deref()))
            }
        };
        Some(format!(
            "{best} moves {}; quartier run moves {} times that ({certain}).",
            mib(base.q_mib.middle),
            range(&ratio),
        ))
    }

    /// The policies that are neither base nor ours.
    fn others(&self) -> Option<String> {
        let (first, base) = self.result(Policy::FirstTouch)?;
        let others = [Policy::Interleave, Policy::NumaBalancing, Policy::Numad];
        let mut parts = Vec::new();
        for (result, figures) in others.into_iter().filter_map(|policy| self.result(policy)) {
            let finding = self.find(&figures.q_mib, &base.q_mib);
            let what = match (finding.relation, figures.q_mib.ratio(&base.q_mib)) {
                _ if !self.has_spread([first, result]) => {
                    format!("{} in one run", mib(figures.q_mib.middle))
                }
                (Relation::Same, _) | (_, None) => "no different".to_owned(),
                (_, Some(ratio)) => format!("{} times that", range(&ratio)),
            };
            parts.push(format!("{}: {what}", result.policy.name()));
        }
        (!parts.is_empty()).then(|| {
            let base = mib(base.q_mib.middle);
            format!(
                "Under first touch {base} move between nodes. {}.",
                sentence_case(&parts.join("; "))
            )
        })
    }

    /// Whether the kernel's balancing, which most machines have on, undoes what Quartier does.
    fn beside_balancing(&self) -> Option<String> {
        let (alone, base) = self.result(Policy::Quartier)?;
        let (both, figures) = self.result(Policy::QuartierBalanced)?;
        let what = if self.has_spread([alone, both]) {
            let finding = self.find(&figures.q_mib, &base.q_mib);
            finding.bytes()
        } else {
            format!("{} in one run", mib(figures.q_mib.middle))
        };
        Some(format!("With the kernel's NUMA balancing on beside quartier run: {what}."))
    }

    /// What still leaves its node.
    fn what_is_left(&self) -> Option<String> {
        let (result, _) = self.result(Policy::Quartier)?;
        let busiest = result.asked.iter().max_by_key(|asked| asked.remote.total())?;
        let by_kind = result
            .asked
            .iter()
            .fold(Default::default(), |sum: crate::KindCounts, asked| sum.plus(&asked.remote));
        let (kind, kind_share) = main_kind(&by_kind.as_array())?;
        let of_node = share(busiest.remote.total(), result.remote())?;
        Some(format!(
            "Of what still leaves its node under quartier run, {} is {}, and {} goes to node {}.",
            percent(kind_share),
            kind.name(),
            percent(of_node),
            busiest.node,
        ))
    }

    pub(super) fn little_to_gain(&self) -> Option<String> {
        let (_, figures) = self.result(Policy::FirstTouch)?;
        let remote = figures.remote_percent?;
        (remote.greatest < LITTLE_TO_GAIN_PERCENT).then(|| {
            format!(
                "Already under first touch no more than {} of commands leave their node: there is \
                 little to gain.",
                percent(remote.greatest)
            )
        })
    }

    fn absent(&self) -> Option<String> {
        let absent = |result: &PolicyResult| {
            let why = result.absent.as_ref()?.trim_end_matches('.');
            Some(format!("{} ({why})", result.policy.name()))
        };
        let absent: Vec<_> = self.results.iter().filter_map(absent).collect();
        (!absent.is_empty()).then(|| format!("Not counted: {}.", absent.join("; ")))
    }

    fn error(&self) -> Option<String> {
        let CountMode::Sampled { error_percent, .. } = self.mode else { return None };
        Some(format!(
            "Counts are sampled; what is said above allows for an error of {} in each.",
            percent(error_percent)
        ))
    }
}

impl Finding {
    fn bytes(&self) -> String {
        match self.difference(["fewer", "more", "as many"]) {
            Some(difference) => format!("{difference} bytes move between nodes"),
            None => format!("as many bytes move between nodes (within {})", tolerance()),
        }
    }

    fn time(&self) -> String {
        match self.difference(["shorter", "longer", "as long"]) {
            Some(difference) => format!("the modelled phase is {difference}"),
            None => format!("the modelled phase takes as long (within {})", tolerance()),
        }
    }

    /// `8.1 to 8.6 times fewer`, `5.2 to 8.1 % more`; absent if there is none.
    fn difference(&self, [less, more, as_much]: [&str; 3]) -> Option<String> {
        let change = |ratio: &Spread, word: &str| {
            let percent = |ratio: f64| 100.0 * (ratio - 1.0).abs();
            let (one, other) = (percent(ratio.least), percent(ratio.greatest));
            let middle = percent(ratio.middle);
            let change = Spread { middle, least: one.min(other), greatest: one.max(other) };
            format!("{} % {word}", range(&change))
        };
        Some(match (self.relation, &self.ratio) {
            (Relation::Same, _) => return None,
            (Relation::Less, Some(ratio)) if ratio.middle > 0.5 => change(ratio, less),
            (Relation::Less, ratio) => match ratio.as_ref().and_then(inverse) {
                Some(times) => format!("{} times {less}", range(&times)),
                None => less.to_owned(),
            },
            (Relation::More, Some(ratio)) if ratio.middle < 2.0 => change(ratio, more),
            (Relation::More, Some(ratio)) => format!("{} times {as_much}", range(ratio)),
            (Relation::More, None) => more.to_owned(),
        })
    }
}

/// How a policy was set, behind its name.
pub(super) fn in_brackets(detail: Option<&str>) -> String {
    detail.map_or(String::new(), |detail| format!(" ({detail})"))
}

/// What a difference has to exceed.
fn tolerance() -> String {
    format!("the spread of runs or {MARGIN_PERCENT} %")
}

fn inverse(ratio: &Spread) -> Option<Spread> {
    (ratio.least > 0.0).then(|| Spread {
        middle: 1.0 / ratio.middle,
        least: 1.0 / ratio.greatest,
        greatest: 1.0 / ratio.least,
    })
}

/// `8.1 to 8.6`, or one number where both look the same.
fn range(spread: &Spread) -> String {
    let (least, greatest) = (significant(spread.least), significant(spread.greatest));
    if least == greatest { least } else { format!("{least} to {greatest}") }
}

/// The first letter large; names of programs are what they are.
fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
