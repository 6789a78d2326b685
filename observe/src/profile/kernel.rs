//! Names of functions and variables in the kernel.

use crate::Host;

/// What the last variable is taken to be long.
const LAST_BYTES: u64 = 4096;

/// /proc/kallsyms, sorted; empty: the kernel hides its addresses.
#[derive(Debug, Default)]
pub struct Kernel {
    symbols: Vec<(u64, String)>,
    /// Variables, each up to the next one.
    variables: Vec<(u64, String)>,
}

impl Kernel {
    /// Reads what a host's kernel says.
    pub fn read(host: &Host) -> Self {
        // Some MiB, so not by the reader of small files.
        let text = host.read_large("proc/kallsyms").unwrap_or_default();
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Self {
        let (mut symbols, mut variables) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let [Some(address), Some(kind), Some(name)] = [(); 3].map(|()| words.next()) else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).ok().filter(|at| *at != 0);
            let Some(address) = address else { continue };
            match kind {
                "t" | "T" | "w" | "W" => symbols.push((address, name.to_owned())),
                "d" | "D" | "b" | "B" | "r" | "R" => variables.push((address, name.to_owned())),
                // What is absolute.
                _ => {}
            }
        }
        symbols.sort();
        variables.sort();
        Self { symbols, variables }
    }

    /// The variable at an address. How long the last one is, nobody says.
    pub fn variable(&self, address: u64) -> Option<&str> {
        let at = last(&self.variables, address)?;
        let (start, name) = &self.variables[at];
        // Of these there are as many as types of data, and what follows them has no name of its own.
        if name.starts_with("__BTF_ID__") {
            return None;
        }
        let end = self.variables.get(at + 1).map_or(start + LAST_BYTES, |(next, _)| *next);
        (address < end).then_some(name.as_str())
    }

    /// The function at an address. What lies behind something that is no code is none that we know: a module's, say.
    pub fn function(&self, address: u64) -> Option<&str> {
        let (start, name) = &self.symbols[last(&self.symbols, address)?];
        let other = last(&self.variables, address).map_or(0, |at| self.variables[at].0);
        (*start >= other).then_some(name.as_str())
    }
}

/// The last one that begins there or before.
fn last(symbols: &[(u64, String)], address: u64) -> Option<usize> {
    symbols.partition_point(|(start, _)| *start <= address).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_addresses_are_no_names() {
        let kernel = Kernel::parse(
            "ffffffff81000000 T _text\nffffffff81000100 t futex_wait\nffffffff81000200 d data\n",
        );
        assert_eq!(kernel.symbols.len(), 2);
        assert_eq!(kernel.function(0xffff_ffff_8100_0180), Some("futex_wait"));
        assert_eq!(kernel.function(0x1000), None);
        assert_eq!(kernel.function(0xffff_ffff_c000_1000), None, "of a module, perhaps");
        let modules = "ffffffff81000100 t futex_wait\nffffffff81000200 B _end\nffffffffc0001000 t ext4_map [ext4]\n";
        assert_eq!(Kernel::parse(modules).function(0xffff_ffff_c000_1010), Some("ext4_map"));
        let hidden = Kernel::parse("0000000000000000 T _text\n0000000000000000 t futex_wait\n");
        assert!(hidden.function(u64::MAX).is_none());
    }
}
