//! Lines that CPUs take from each other.

use super::table::Table;
use super::{heading, paragraph};
use crate::lines::{ContendedLine, Lines, Nature, Word};
use crate::numbers::{count, percent};
use crate::report::Phase;
use crate::words::{clean, shortened};

/// More stand in the JSON.
const LINES_LISTED: usize = 8;
const WORDS_LISTED: usize = 3;
const TAKERS_LISTED: usize = 2;
const CPUS_LISTED: usize = 4;
const NAME_LETTERS: usize = 20;

pub(super) fn lines(out: &mut String, lines: &Lines, phase: Phase) {
    let of = format!(", for the program, in the {}", phase.name());
    heading(out, "Lines that CPUs take from each other", &of);
    if lines.most.is_empty() {
        return paragraph(
            out,
            "  ",
            &format!("{} were taken, none often by one instruction", count(lines.taken)),
        );
    }
    let mut table =
        Table::new(&[">taken", ">of all", "<what lies there", "<why", "<who takes it", "<CPUs"]);
    for line in lines.most.iter().take(LINES_LISTED) {
        for (nr, word) in line.words.iter().take(WORDS_LISTED).enumerate() {
            table.row(row(line, word, nr == 0));
        }
    }
    table.print(out);
    let told: f64 = lines.most.iter().take(LINES_LISTED).map(|line| line.share).sum();
    let text = format!(
        "{} of {} that were taken for the program; {} were taken for others meanwhile",
        percent(100.0 * told),
        count(lines.taken),
        count(lines.taken_by_the_rest)
    );
    paragraph(out, "  ", &text);
}

fn row(line: &ContendedLine, word: &Word, is_first: bool) -> Vec<String> {
    let why = match line.nature {
        Nature::Shared => "one word",
        Nature::FalselyShared => "false sharing",
    };
    let of_line = |text: String| if is_first { text } else { String::new() };
    let mut takers: Vec<String> = Vec::new();
    for taker in &word.takers {
        let function = short(taker.function.as_deref().unwrap_or("?"));
        // It reads and it writes.
        if takers.len() < TAKERS_LISTED && !takers.contains(&function) {
            takers.push(function);
        }
    }
    let mut cpus: Vec<_> = word.cpus.iter().take(CPUS_LISTED).map(u16::to_string).collect();
    if word.cpus.len() > CPUS_LISTED {
        cpus.push(format!("and {}", word.cpus.len() - CPUS_LISTED));
    }
    vec![
        count(word.taken),
        of_line(percent(100.0 * line.share)),
        object(line, word),
        of_line(why.to_owned()),
        takers.join(", "),
        cpus.join(" "),
    ]
}

/// What fits beside the other columns.
pub(super) fn short(name: &str) -> String {
    shortened(&clean(name), NAME_LETTERS)
}

/// A name, or the place.
fn object(line: &ContendedLine, word: &Word) -> String {
    match (&word.object, line.process) {
        (Some(object), Some(_)) => short(object),
        (Some(object), None) => format!("{} (kernel)", short(object)),
        (None, Some(_)) => format!("{:#x}", word.address),
        (None, None) => format!("{:#x} (kernel)", word.address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Taker;
    use quartier_memmodel::Access;

    fn word(address: u64, object: Option<&str>, cpus: &[u16]) -> Word {
        let taker = |function: Option<&str>| Taker {
            function: function.map(str::to_owned),
            module: None,
            access: Access::Atomic,
            taken: 50,
            modelled_stall_cycles: 0,
            callers: Vec::new(),
        };
        Word {
            address,
            object: object.map(str::to_owned),
            taken: 100,
            cpus: cpus.to_vec(),
            threads: Vec::new(),
            takers: vec![taker(Some("count_up")), taker(None), taker(Some("left_out"))],
        }
    }

    #[test]
    fn a_line_is_told_with_what_lies_there_and_who_wants_it() {
        let line = |process, nature, words| ContendedLine {
            process,
            address: 0x1000,
            taken: 100,
            share: 0.4,
            nature,
            words,
        };
        let lines_found = Lines {
            taken: 500,
            taken_by_the_rest: 70,
            modelled_stall_cycles: 0,
            most: vec![
                line(
                    Some(1),
                    Nature::Shared,
                    vec![word(0x1000, Some("counter"), &[0, 1, 2, 3, 4, 5])],
                ),
                line(
                    None,
                    Nature::FalselyShared,
                    vec![word(0xffff, None, &[1]), word(0x1_0007, Some("jiffies"), &[2])],
                ),
            ],
        };
        let mut out = String::new();
        lines(&mut out, &lines_found, Phase::Whole);
        let told: Vec<_> =
            out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(
            told.iter()
                .any(|line| line.ends_with("100 40.0 % counter one word count_up, ? 0 1 2 3 and 2")),
            "{out}"
        );
        assert!(
            told.iter().any(|line| line.ends_with("0xffff (kernel) false sharing count_up, ? 1")),
            "{out}"
        );
        assert!(
            told.iter().any(|line| line.ends_with("100 jiffies (kernel) count_up, ? 2")),
            "{out}"
        );
        assert!(out.contains("80.0 % of 500"), "{out}");
        let mut none = String::new();
        let nothing =
            Lines { taken: 3, taken_by_the_rest: 0, modelled_stall_cycles: 0, most: Vec::new() };
        lines(&mut none, &nothing, Phase::Whole);
        assert!(none.contains("3 were taken, none often"), "{none}");
    }
}
