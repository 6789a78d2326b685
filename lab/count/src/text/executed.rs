//! Which code is executed.

use super::lines::short;
use super::table::Table;
use super::{heading, merged, paragraph};
use crate::looks::{CYCLES_PER_LOOK, Executed, ExecutedPlace, INSTRUCTIONS_PER_LOOK};
use crate::numbers::{count, or_none, percent, share};
use crate::report::Phase;

/// More stand in the JSON.
const PLACES_LISTED: usize = 8;

pub(super) fn executed(out: &mut String, executed: &Executed, phase: Phase) {
    if executed.most.is_empty() {
        return;
    }
    heading(out, "Which code is executed", &format!(", for the program, in the {}", phase.name()));
    let all: u64 = executed.most.iter().map(|place| place.instructions).sum();
    let mut table = Table::new(&[">instructions", ">other stalls", "<function", "<file"]);
    for place in by_function(&executed.most).iter().take(PLACES_LISTED) {
        table.row(row(all, place));
    }
    table.print(out);
    let text = format!(
        "instructions: of those with a place, looked at every {INSTRUCTIONS_PER_LOOK}; other stalls: cycles for what is near, modelled and \
         looked at every {CYCLES_PER_LOOK}; {} looks",
        count(executed.looks)
    );
    paragraph(out, "  ", &text);
}

/// Whoever called it: who that is stands in the JSON.
fn by_function(places: &[ExecutedPlace]) -> Vec<ExecutedPlace> {
    let is_same =
        |a: &ExecutedPlace, b: &ExecutedPlace| (&a.function, &a.module) == (&b.function, &b.module);
    let add = |known: &mut ExecutedPlace, place: &ExecutedPlace| {
        known.instructions += place.instructions;
        known.modelled_stall_cycles += place.modelled_stall_cycles;
    };
    merged(places, is_same, add, |place| place.instructions + place.modelled_stall_cycles)
}

fn row(all: u64, place: &ExecutedPlace) -> Vec<String> {
    vec![
        or_none(share(place.instructions, all), percent),
        count(place.modelled_stall_cycles),
        place.function.as_deref().map_or_else(|| "?".to_owned(), short),
        place.module.as_deref().map_or_else(|| "?".to_owned(), short),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::CodePlace;

    #[test]
    fn a_function_is_told_once_whoever_called_it() {
        let place = |function: Option<&str>, instructions| ExecutedPlace {
            program: None,
            function: function.map(str::to_owned),
            module: Some("a".to_owned()),
            callers: Vec::new(),
            instructions,
            modelled_stall_cycles: 10,
            cpus: Vec::new(),
        };
        let caller = CodePlace { function: "main".to_owned(), module: "a".to_owned() };
        let called = ExecutedPlace { callers: vec![caller], ..place(Some("work"), 300) };
        let most = vec![place(None, 250), place(Some("work"), 450), called];
        let mut out = String::new();
        executed(&mut out, &Executed { looks: 7, most, ..Executed::default() }, Phase::Whole);
        let told: Vec<_> =
            out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let place = |wanted: &str| told.iter().position(|line| line == wanted);
        assert!(place("75.0 % 20 work a") < place("25.0 % 10 ? a"), "{out}");
        assert!(place("75.0 % 20 work a").is_some(), "{out}");
        let mut none = String::new();
        executed(&mut none, &Executed::default(), Phase::Whole);
        assert!(none.is_empty());
    }
}
