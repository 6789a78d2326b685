//! Names of functions in the kernel.

use crate::Host;

/// /proc/kallsyms, sorted; empty: the kernel hides its addresses.
#[derive(Debug, Default)]
pub struct Kernel {
    symbols: Vec<(u64, String)>,
}

impl Kernel {
    /// Reads what a host's kernel says.
    pub fn read(host: &Host) -> Self {
        // Some MiB, so not by the reader of small files.
        let text = host.read_large("proc/kallsyms").unwrap_or_default();
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut symbols: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at != 0)?;
                // Code; the rest is variables and what is absolute.
                words.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
                Some((address, words.next()?.to_owned()))
            })
            .collect();
        symbols.sort();
        Self { symbols }
    }

    /// The function at an address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(start, _)| *start <= address);
        self.symbols.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
    }
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
        let hidden = Kernel::parse("0000000000000000 T _text\n0000000000000000 t futex_wait\n");
        assert!(hidden.function(u64::MAX).is_none());
    }
}
