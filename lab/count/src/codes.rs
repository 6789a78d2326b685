//! Places in code by number: of very many addresses few are in different functions.

use std::collections::HashMap;

use crate::lines::{CodePlace, Naming};

/// Those that have come.
pub struct Codes<'a> {
    names: &'a mut dyn Naming,
    /// By whose they are and where.
    known: HashMap<(Option<u32>, u64), Option<u32>>,
    programs: HashMap<u32, Option<u32>>,
    numbers: HashMap<CodePlace, u32>,
    places: Vec<CodePlace>,
}

impl<'a> Codes<'a> {
    /// None yet.
    pub fn new(names: &'a mut dyn Naming) -> Self {
        Self {
            names,
            known: HashMap::new(),
            programs: HashMap::new(),
            numbers: HashMap::new(),
            places: Vec::new(),
        }
    }

    /// Where an instruction is, if anybody has a name for it.
    pub fn number(&mut self, process: Option<u32>, address: u64) -> Option<u32> {
        if let Some(known) = self.known.get(&(process, address)) {
            return *known;
        }
        let number = self.names.code(process, address).map(|place| self.number_of(place));
        self.known.insert((process, address), number);
        number
    }

    fn number_of(&mut self, place: CodePlace) -> u32 {
        let next = self.places.len() as u32;
        *self.numbers.entry(place).or_insert_with_key(|place| {
            self.places.push(place.clone());
            next
        })
    }

    /// The program that a process is, as if it were a function of its own file.
    pub fn program(&mut self, process: u32) -> Option<u32> {
        if let Some(known) = self.programs.get(&process) {
            return *known;
        }
        let program = self.names.program(process);
        let number = program.map(|program| {
            self.number_of(CodePlace { function: program.clone(), module: program })
        });
        self.programs.insert(process, number);
        number
    }

    /// Who called, by what is behind each call; those without a name are left out.
    pub fn callers(&mut self, process: u32, behind: &[u64]) -> Vec<u32> {
        behind.iter().filter_map(|address| self.number(Some(process), address - 1)).collect()
    }

    /// What names everything else.
    pub fn names(&mut self) -> &mut dyn Naming {
        self.names
    }

    /// Function and file.
    pub fn told(&self, number: Option<u32>) -> (Option<String>, Option<String>) {
        let place = number.and_then(|number| self.places.get(number as usize)).cloned();
        place.map(|place| (place.function, place.module)).unzip()
    }

    /// The same of several.
    pub fn all_told(&self, numbers: &[u32]) -> Vec<CodePlace> {
        numbers.iter().filter_map(|number| self.places.get(*number as usize)).cloned().collect()
    }
}

/// Those that cost most, so many at most; of two that cost the same the first that has a number, in every run.
pub fn dearest<K: Ord, V: Ord>(
    places: HashMap<K, V>,
    nr_max: usize,
    cost: impl Fn(&V) -> u64,
) -> Vec<(K, V)> {
    let mut places: Vec<_> = places.into_iter().collect();
    keep_dearest(&mut places, nr_max, |(_, of)| cost(of));
    places
}

/// Leaves those that cost most, so many at most; of two that cost the same the same comes first in every run.
pub fn keep_dearest<T: Ord>(all: &mut Vec<T>, nr_max: usize, cost: impl Fn(&T) -> u64) {
    all.sort_unstable_by(|a, b| cost(b).cmp(&cost(a)).then_with(|| a.cmp(b)));
    all.truncate(nr_max);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::Made;

    #[test]
    fn what_is_in_one_function_has_one_number() {
        let mut names = Made(0);
        let mut codes = Codes::new(&mut names);
        let first = codes.number(Some(1), 0x1000);
        assert_eq!(codes.number(Some(1), 0x1ff0), first);
        assert_eq!(codes.number(Some(2), 0x1ff0), first, "by its name, whoever's");
        assert_ne!(codes.number(Some(1), 0x2000), first);
        assert_eq!(codes.number(Some(1), 0), None);
        let callers = codes.callers(1, &[0x2001, 1, 0x1001]);
        let told: Vec<_> = codes.all_told(&callers).into_iter().map(|of| of.function).collect();
        assert_eq!(told, ["f2", "f1"], "who has no name is left out");
        assert_eq!(codes.told(first).0.as_deref(), Some("f1"));
        assert_eq!(codes.told(None), (None, None));
    }
}
