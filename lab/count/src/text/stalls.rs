//! Where CPUs wait for memory.

use super::lines::short;
use super::table::Table;
use super::{heading, merged, paragraph};
use crate::numbers::{count, or_none, percent, share};
use crate::report::Phase;
use crate::stalls::{MemoryStalls, StalledPlace};

/// More stand in the JSON.
const PLACES_LISTED: usize = 8;

pub(super) fn stalls(out: &mut String, stalls: &MemoryStalls, phase: Phase) {
    let of = format!(", for the program, in the {}; modelled", phase.name());
    heading(out, "Where CPUs wait for memory that no other CPU has", &of);
    if stalls.most.is_empty() {
        return paragraph(
            out,
            "  ",
            &format!(
                "nodes were asked for {} lines, none often by one instruction",
                count(stalls.asked)
            ),
        );
    }
    let mut table =
        Table::new(&[">stalls", ">asked", ">of other nodes", "<what lies there", "<who waits"]);
    for place in by_function(&stalls.most).iter().take(PLACES_LISTED) {
        table.row(row(stalls, place));
    }
    table.print(out);
    let text = format!(
        "stalls: of {} cycles in all, for {} lines; lines that another CPU had are above",
        count(stalls.modelled_stall_cycles),
        count(stalls.asked)
    );
    paragraph(out, "  ", &text);
}

/// Whoever called it: who that is stands in the JSON.
fn by_function(places: &[StalledPlace]) -> Vec<StalledPlace> {
    let is_same = |a: &StalledPlace, b: &StalledPlace| {
        (&a.function, &a.module, &a.object) == (&b.function, &b.module, &b.object)
    };
    let add = |known: &mut StalledPlace, place: &StalledPlace| {
        known.near = known.near.plus(place.near);
        known.far = known.far.plus(place.far);
    };
    merged(places, is_same, add, StalledPlace::modelled_stall_cycles)
}

fn row(stalls: &MemoryStalls, place: &StalledPlace) -> Vec<String> {
    let asked = place.near.asked + place.far.asked;
    vec![
        or_none(share(place.modelled_stall_cycles(), stalls.modelled_stall_cycles), percent),
        count(asked),
        or_none(share(place.far.asked, asked), percent),
        place.object.as_deref().map_or_else(|| "?".to_owned(), short),
        place.function.as_deref().map_or_else(|| "?".to_owned(), short),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::CodePlace;
    use crate::stalls::Waited;

    #[test]
    fn who_waits_is_told_with_what_for_and_how_much_is_far() {
        let waited = |asked| Waited { asked, modelled_stall_cycles: asked * 30 };
        let place = StalledPlace {
            function: Some("sum_table".to_owned()),
            module: Some("a".to_owned()),
            object: Some("table".to_owned()),
            callers: Vec::new(),
            near: waited(25),
            far: waited(75),
        };
        let nameless = StalledPlace { function: None, object: None, ..place.clone() };
        // Of one function a part by another caller.
        let caller = CodePlace { function: "main".to_owned(), module: "a".to_owned() };
        let (near, far) = (waited(5), waited(15));
        let called = StalledPlace { callers: vec![caller], near, far, ..place.clone() };
        let place = StalledPlace { near: waited(20), far: waited(60), ..place };
        let most = vec![place, called, nameless];
        let found = MemoryStalls { asked: 400, modelled_stall_cycles: 6_000, most };
        let mut out = String::new();
        stalls(&mut out, &found, Phase::Parallel);
        let told: Vec<_> =
            out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(told.contains(&"50.0 % 100 75.0 % table sum_table".to_owned()), "{out}");
        assert!(told.contains(&"50.0 % 100 75.0 % ? ?".to_owned()), "{out}");
        assert!(out.contains("parallel phase"), "{out}");
        let mut none = String::new();
        stalls(&mut none, &MemoryStalls { most: Vec::new(), ..found }, Phase::Whole);
        assert!(none.contains("400 lines, none often"), "{none}");
    }
}
