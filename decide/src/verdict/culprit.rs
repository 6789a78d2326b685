//! Who scaling is lost to, and how that is said.

use serde::{Deserialize, Serialize};

use super::cause::Class;
use super::growth::{Growth, Trend};
use super::study::Spent;

/// Who it was lost to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Culprit {
    /// Absent: what would tell is missing, so it is no culprit but a place to look at.
    pub class: Option<Class>,
    /// Function.
    pub function: String,
    /// Where in the source, as far as the program says.
    pub line: Option<String>,
    /// Variable; absent where there is none, or none with a name.
    pub object: Option<String>,
    /// The stack that costs most, from the outermost.
    pub context: Vec<String>,
    /// The stacks in which its cost grew, beyond the noise too and by a part of it that is worth telling; the one that grew most first.
    pub contexts: Vec<Context>,
    /// Seconds of CPU time for each unit, on the fewest CPUs and on the most.
    pub per_unit_s: Growth,
    /// The same at every CPU count, and how probable it is that it grows so by chance.
    pub trend: Trend,
    /// How certain it is that it grows with the CPUs, corrected for how many were tested.
    pub confidence_percent: f64,
    /// Part of the lost scaling that it explains, percent.
    pub share_percent: f64,
    /// And how far that may be off, with 95 %.
    pub share_error_percent: f64,
}

/// A calling context of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Functions, from the outermost.
    pub stack: Vec<String>,
    /// Seconds of CPU time for each unit, on the fewest CPUs and on the most.
    pub per_unit_s: Growth,
    /// The same at every CPU count.
    pub trend: Trend,
    /// Part of the lost scaling that it explains, percent.
    pub share_percent: f64,
}

/// Whether that is no function, but what time went into in all.
pub fn is_spent(function: &str) -> bool {
    [Spent::Instructions, Spent::Stalls, Spent::Nothing].iter().any(|of| of.words() == function)
}

impl Culprit {
    /// A lock without a name: in what the function calls.
    fn nameless_lock(&self) -> String {
        let at = self.context.iter().position(|name| *name == self.function);
        match at.and_then(|at| self.context.get(at + 1)) {
            Some(callee) => format!("a lock without a name in `{callee}`"),
            None => "a lock without a name".to_owned(),
        }
    }

    /// Who, why and how much.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { function, share_percent, share_error_percent, .. } = self;
        let at = self.line.as_ref().map_or_else(String::new, |line| format!(" ({line})"));
        let object = |before: &str, otherwise: &str| {
            self.object
                .as_ref()
                .map_or_else(|| otherwise.to_owned(), |object| format!("{before}`{object}`"))
        };
        let what = match self.class {
            Some(Class::Lock) => {
                let lock = object("the lock ", &self.nameless_lock());
                format!("`{function}`{at} waits for and hands over {lock}")
            }
            Some(Class::BouncingLine) => {
                format!(
                    "`{function}`{at}: threads write the same word, {}",
                    object("", "in memory without a name")
                )
            }
            Some(Class::FalseSharing) => format!(
                "`{function}`{at}: threads write words of their own in one cache line, {}",
                object("that of ", "in memory without a name")
            ),
            Some(Class::SerialPart) => {
                format!("`{function}`{at} runs while the other CPUs have nothing to do")
            }
            Some(Class::Imbalance) => format!(
                "the parts that threads get in `{function}`{at} are uneven: CPUs wait for the last"
            ),
            Some(Class::KernelPath) => format!("the kernel takes longer for {function}{at}"),
            Some(Class::NumaBalancing) => {
                "the kernel's NUMA balancing unmaps pages to see who uses them, and moves them"
                    .to_owned()
            }
            Some(Class::RemoteMemory) if is_spent(function) => {
                "CPUs wait longer for memory, and most of it is on other nodes".to_owned()
            }
            Some(Class::MemoryBandwidth) if is_spent(function) => {
                "CPUs wait longer for memory, as a node's or a link is busy all the time".to_owned()
            }
            Some(Class::RemoteMemory) => format!(
                "`{function}`{at} waits for memory of other nodes{}",
                object(", that of ", "")
            ),
            Some(Class::MemoryBandwidth) => format!(
                "`{function}`{at} waits for memory that is busy all the time{}",
                object(", that of ", "")
            ),
            Some(Class::ClientLimited | Class::Disk | Class::Sleep) | None => {
                format!("{function}{at}")
            }
        };
        format!("{share_percent:.0} % of that (±{share_error_percent:.0}): {what}.")
    }
}
