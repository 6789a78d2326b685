//! What the instrument inside QEMU writes: all that it knows, which is not what was run on what.

use quartier_memmodel::Snapshot;
use serde::{Deserialize, Serialize};

use crate::handovers::Handovers;
use crate::looks::Looks;
use crate::recording::{CountMode, FORMAT, Machine, Mark, Recording};
use crate::slices::Slice;
use crate::stalls::Stalls;

/// How counting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// At the marker after the command.
    Marker,
    /// With the guest: counting had begun, and the marker that ends it never came.
    Guest,
    /// It never began: the guest ended before the marker.
    NeverBegan,
    /// It could not begin.
    Refused,
}

/// The instrument's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// [`FORMAT`].
    pub format: u32,
    /// How counting ended.
    pub ending: Ending,
    /// Why it could not begin.
    pub refusal: Option<String>,
    /// Counts at moments, in order of time.
    pub marks: Vec<Mark>,
    /// The run over time.
    pub slices: Vec<Slice>,
    /// What became of the model's translations, where they were checked.
    pub translations: Option<Translations>,
    /// Which lines CPUs took from each other and where they waited for memory, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noted: Option<NotedByPhase>,
}

/// Which lines CPUs took from each other, and where they waited for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// Lines that CPUs took from each other.
    pub handovers: Handovers,
    /// What they waited for of memory.
    pub stalls: Stalls,
    /// What they waited for of each other, as for memory: whoever takes many lines, each of them seldom, is known by this alone.
    #[serde(default)]
    pub moves: Stalls,
    /// Which code they executed.
    #[serde(default)]
    pub looks: Looks,
}

/// What was noted, by whether the program had several threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotedByPhase {
    /// While the program had one thread.
    pub serial: Noted,
    /// While it had several.
    pub parallel: Noted,
    /// Blocks of memory of which a program told who asked for them.
    #[serde(default)]
    pub nr_allocations: u64,
}

impl NotedByPhase {
    /// Of the whole run.
    #[must_use]
    pub fn whole(&self) -> Noted {
        let mut whole = self.serial.clone();
        whole.handovers.add(self.parallel.handovers.clone());
        whole.stalls.add(self.parallel.stalls.clone());
        whole.moves.add(self.parallel.moves.clone());
        whole.looks.add(self.parallel.looks.clone());
        whole
    }
}

/// The model's translations of a program's data, compared with the emulator's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Translations {
    /// Accesses for which they were compared.
    pub compared: u64,
    /// Of them, those where they were not the same.
    pub different: u64,
}

/// What the instrument is not told.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The command that was measured, with its arguments.
    pub command: Vec<String>,
    /// Release of the guest's kernel.
    pub kernel: String,
    /// Version of QEMU.
    pub qemu: String,
    /// The guest's nodes.
    pub machine: Machine,
    /// How accesses were counted.
    pub mode: CountMode,
}

/// Why there is no recording.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakenError {
    /// The file is no instrument's.
    #[error(
        "the instrument's file cannot be read ({0}): quartier and its instrument are of different \
         builds, so build or install both again"
    )]
    Damaged(String),
    /// It could not begin.
    #[error("nothing was counted: {0}; {remedy}", remedy = remedy(.0))]
    Refused(String),
    /// The program died first, say.
    #[error(
        "nothing was counted: the guest ended before the command began; run it with `quartier lab run` \
         to see why"
    )]
    NeverBegan,
}

impl Taken {
    /// Reads the instrument's file.
    ///
    /// # Errors
    /// It is damaged, or of another build.
    pub fn parse(bytes: &[u8]) -> Result<Self, TakenError> {
        let taken: Self = serde_json::from_slice(bytes)
            .map_err(|error| TakenError::Damaged(error.to_string()))?;
        if taken.format != FORMAT {
            return Err(TakenError::Damaged(format!("format {}, not {FORMAT}", taken.format)));
        }
        Ok(taken)
    }

    /// A recording of it.
    ///
    /// # Errors
    /// Nothing was counted.
    pub fn recording(self, of: Circumstances) -> Result<Recording, TakenError> {
        let mut notes = Vec::new();
        match (self.ending, self.refusal) {
            (Ending::Refused, why) => {
                return Err(TakenError::Refused(
                    why.unwrap_or_else(|| "no reason given".to_owned()),
                ));
            }
            (Ending::NeverBegan, _) => return Err(TakenError::NeverBegan),
            (Ending::Guest, _) => notes.push(
                "The guest ended before the command did: what is counted is what came before."
                    .to_owned(),
            ),
            (Ending::Marker, _) => {}
        }
        if let Some(Translations { compared, different }) = self.translations {
            notes.push(format!(
                "{compared} translations were compared with QEMU's own: {different} were different."
            ));
        }
        let Circumstances { command, kernel, qemu, machine, mode } = of;
        let (marks, slices) = (self.marks, self.slices);
        Ok(Recording {
            format: FORMAT,
            command,
            kernel,
            qemu,
            machine,
            mode,
            under_load: false,
            marks,
            slices,
            lines: None,
            stalls: None,
            moves: None,
            executed: None,
            parallel: None,
            units: None,
            notes,
        })
    }
}

/// What helps against a refusal, of which there are three kinds: by what it says, as the instrument knows
/// no more of it.
fn remedy(refusal: &str) -> &'static str {
    let is_about = |words: &[&str]| words.iter().any(|word| refusal.contains(word));
    if is_about(&["BTF", "the running task"]) {
        "try another kernel (`quartier lab kernels`)"
    } else if is_about(&["marker"]) {
        "quartier and its instrument are of different builds, so build or install both again"
    } else if is_about(&["QEMU", "CPU", "the guest's memory"]) {
        "try another QEMU (9.2 or newer): install one, or take this one off the PATH and the lab fetches one"
    } else {
        "`quartier lab doctor` says whether guests run here at all"
    }
}

/// Instructions of the program in a snapshot, on all CPUs.
#[must_use]
pub fn instructions(snapshot: &Snapshot) -> u64 {
    snapshot.program.totals().instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circumstances() -> Circumstances {
        Circumstances {
            command: vec!["true".to_owned()],
            kernel: "6.1".to_owned(),
            qemu: "10.0.2".to_owned(),
            machine: Machine { cpus_per_node: vec![1] },
            mode: CountMode::Parallel,
        }
    }

    fn taken(ending: Ending, refusal: Option<&str>) -> Taken {
        let refusal = refusal.map(str::to_owned);
        let (marks, slices) = (Vec::new(), Vec::new());
        Taken { format: FORMAT, ending, refusal, marks, slices, translations: None, noted: None }
    }

    #[test]
    fn a_guest_that_ended_early_is_told_in_a_note() {
        let recording = taken(Ending::Guest, None).recording(circumstances()).unwrap();
        assert!(recording.notes[0].contains("before the command did"));
        let recording = taken(Ending::Marker, None).recording(circumstances()).unwrap();
        assert!(recording.notes.is_empty());
    }

    #[test]
    fn translations_that_were_checked_are_told_in_a_note() {
        let translations = Some(Translations { compared: 12, different: 0 });
        let taken = Taken { translations, ..taken(Ending::Marker, None) };
        let notes = taken.recording(circumstances()).unwrap().notes;
        assert_eq!(notes, ["12 translations were compared with QEMU's own: 0 were different."]);
    }

    #[test]
    fn nothing_counted_is_no_recording() {
        let refused = taken(Ending::Refused, Some("there is no BTF")).recording(circumstances());
        assert!(refused.unwrap_err().to_string().contains("there is no BTF"));
        let unsaid = taken(Ending::Refused, None).recording(circumstances());
        assert!(unsaid.unwrap_err().to_string().contains("no reason given; `quartier lab doctor`"));
        let never = taken(Ending::NeverBegan, None).recording(circumstances());
        assert_eq!(never.unwrap_err(), TakenError::NeverBegan);
    }

    #[test]
    fn a_remedy_fits_its_refusal() {
        // All that the instrument says.
        for (refusal, part) in [
            ("there is no BTF", "another kernel"),
            ("the running task cannot be found", "another kernel"),
            ("the running task has no control group", "another kernel"),
            ("the marker came without its words", "both again"),
            ("the marker's words are of another version", "both again"),
            ("the guest's memory is not where the arguments say", "another QEMU"),
            ("QEMU has more CPUs than it said", "another QEMU"),
            ("this QEMU does not let plugins read the register rax", "another QEMU"),
            ("a CPU runs that never began", "another QEMU"),
            ("counting has begun before", "quartier lab doctor"),
        ] {
            let sentence = TakenError::Refused(refusal.to_owned()).to_string();
            assert!(sentence.contains(refusal) && sentence.contains(part), "{sentence}");
            assert_eq!(sentence.contains("kernel"), part.contains("kernel"), "{sentence}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let bytes = serde_json::to_vec(&taken(Ending::Marker, None)).unwrap();
        assert_eq!(Taken::parse(&bytes).unwrap().ending, Ending::Marker);
        let other = String::from_utf8(bytes)
            .unwrap()
            .replace(&format!("\"format\":{FORMAT}"), "\"format\":99");
        for damaged in ["", "{}", other.as_str()] {
            let error = Taken::parse(damaged.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("different builds") && !error.contains('\n'), "{error}");
        }
    }
}
