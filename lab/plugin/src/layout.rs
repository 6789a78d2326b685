//! Which node a physical address is on, and where in QEMU's memory files its bytes are.

use std::fmt;

use quartier_memmodel::MemoryRange;

/// A piece of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The node.
    pub node: u16,
    /// Its first physical address.
    pub start: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The open file that holds it.
    pub file: i32,
    /// Where in that file it begins, in bytes.
    pub offset: u64,
}

impl Range {
    /// The first address after it.
    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Why ranges are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange(pub String);

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Range {
    type Err = BadRange;

    /// `NODE:START:BYTES:FILE:OFFSET`, in decimal.
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(format!("`{text}` is not NODE:START:BYTES:FILE:OFFSET"));
        let numbers: Vec<u64> = text
            .split(':')
            .map(|word| word.parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        let [node, start, bytes, file, offset] = numbers[..] else { return Err(bad()) };
        let fits = bytes > 0 && start.checked_add(bytes).is_some();
        if !fits || offset.checked_add(bytes).is_none() {
            return Err(bad());
        }
        let (node, file) = (u16::try_from(node), i32::try_from(file));
        Ok(Self {
            node: node.map_err(|_| bad())?,
            start,
            bytes,
            file: file.map_err(|_| bad())?,
            offset,
        })
    }
}

/// All memory of a guest, in the order of addresses.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    ranges: Vec<Range>,
}

impl Layout {
    /// Checks that no byte is in two ranges.
    pub fn new(mut ranges: Vec<Range>) -> Result<Self, BadRange> {
        ranges.sort_by_key(|range| range.start);
        if ranges.is_empty() {
            return Err(BadRange("the guest's memory is missing: give range=…".to_owned()));
        }
        match ranges.windows(2).find(|pair| pair[0].end() > pair[1].start) {
            None => Ok(Self { ranges }),
            Some(pair) => Err(BadRange(format!(
                "memory at {} is on node {} and on node {}",
                pair[1].start, pair[0].node, pair[1].node
            ))),
        }
    }

    /// The range of a physical address, by its place in [`Self::ranges`]; `None` for devices.
    pub fn find(&self, address: u64) -> Option<usize> {
        let index = self.ranges.partition_point(|range| range.start <= address).checked_sub(1)?;
        (address < self.ranges[index].end()).then_some(index)
    }

    /// All ranges by address.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The same for the model.
    pub fn memory(&self) -> Vec<MemoryRange> {
        let range =
            |range: &Range| MemoryRange { start: range.start, end: range.end(), node: range.node };
        self.ranges.iter().map(range).collect()
    }

    /// One more than the largest node's number.
    pub fn nr_nodes(&self) -> usize {
        self.ranges.iter().map(|range| range.node as usize + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn layout(texts: &[String]) -> Result<Layout, BadRange> {
        Layout::new(texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
    }

    #[test]
    fn a_node_may_lie_on_both_sides_of_the_hole() {
        let texts = [
            format!("0:0:{GIB}:20:0"),
            format!("1:{GIB}:{GIB}:21:0"),
            format!("1:{}:{GIB}:21:{GIB}", 4 * GIB),
        ];
        let layout = layout(&texts).unwrap();
        assert_eq!(layout.nr_nodes(), 2);
        let nodes = [0, GIB - 1, GIB, 2 * GIB - 1, 2 * GIB, 4 * GIB, 5 * GIB - 1, 5 * GIB]
            .map(|address| layout.find(address).map(|index| layout.ranges()[index].node));
        let (zero, one) = (Some(0), Some(1));
        assert_eq!(nodes, [zero, zero, one, one, None, one, one, None]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for texts in [
            &["0:0:4096:3"][..],
            &["0:0:0:3:0"],
            &["0:1:18446744073709551615:3:0"],
            &["0:0:x:3:0"],
            &["0:0:8192:3:0", "1:4096:8192:4:0"],
            &[],
        ] {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert!(!layout(&texts).unwrap_err().to_string().contains('\n'));
        }
    }
}
