//! The kernel's own description of its types (BTF), as much as it takes to find a member's place.

/// The kinds of types that have members.
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const HEADER_MAGIC: u16 = 0xeb9f;
/// How deep unnamed structures are searched in one another.
const DEPTH_MAX: usize = 8;

/// A kernel's types.
#[derive(Debug)]
pub struct Btf<'a> {
    strings: &'a [u8],
    /// Where each type begins; type 1 is the first.
    places: Vec<usize>,
    types: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Finds each type's beginning; `None` if these are not types of this format.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if word16(bytes, 0)? != HEADER_MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |offset, length| {
            let start = header.checked_add(word(bytes, offset)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, length)? as usize)?)
        };
        let (types, strings) = (part(8, 12)?, part(16, 20)?);
        let mut places = Vec::new();
        let mut place = 0;
        while place < types.len() {
            places.push(place);
            place += 12 + following(word(types, place + 4)?)?;
        }
        Some(Self { strings, places, types })
    }

    /// The offset in bytes of `member` in `structure`, in unnamed structures within it too.
    pub fn offset(&self, structure: &str, member: &str) -> Option<u64> {
        self.places
            .iter()
            .filter(|place| self.kind(**place) == Some(KIND_STRUCT))
            .filter(|place| self.name(**place) == Some(structure.as_bytes()))
            .find_map(|place| self.member(*place, member, DEPTH_MAX))
            .map(|bits| bits / 8)
    }

    /// In bits.
    fn member(&self, place: usize, wanted: &str, depth: usize) -> Option<u64> {
        let info = word(self.types, place + 4)?;
        let flagged = info >> 31 != 0;
        (0..info as usize & 0xffff).find_map(|index| {
            let entry = place + 12 + index * 12;
            let offset = word(self.types, entry + 8)?;
            // With the flag, the upper byte is a bit field's width.
            let bits = u64::from(if flagged { offset & 0xff_ffff } else { offset });
            let name = self.name(entry)?;
            if name == wanted.as_bytes() {
                return Some(bits);
            }
            let inner = self.place(word(self.types, entry + 4)?)?;
            let nested = matches!(self.kind(inner)?, KIND_STRUCT | KIND_UNION);
            if !name.is_empty() || !nested || depth == 0 {
                return None;
            }
            Some(bits + self.member(inner, wanted, depth - 1)?)
        })
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.places.get((id as usize).checked_sub(1)?).copied()
    }

    fn kind(&self, place: usize) -> Option<u32> {
        Some(word(self.types, place + 4)? >> 24 & 0x1f)
    }

    /// The name that the four bytes at `place` refer to.
    fn name(&self, place: usize) -> Option<&'a [u8]> {
        let text = self.strings.get(word(self.types, place)? as usize..)?;
        text.split(|byte| *byte == 0).next()
    }
}

/// How many bytes follow the first twelve of a type with this information word.
fn following(info: u32) -> Option<usize> {
    let count = info as usize & 0xffff;
    Some(match info >> 24 & 0x1f {
        // integers, variables, declaration tags
        1 | 14 | 17 => 4,
        // arrays; structures, unions, data sections and wide enumerations
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        // enumerations, function prototypes
        6 | 13 => 8 * count,
        // pointers, forwards, names, qualifiers, functions, floats, type tags
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct outer { long a; struct { long b; long c; }; }`, its types before it.
    fn sample() -> Vec<u8> {
        let strings = b"\0long\0outer\0a\0b\0c\0";
        let types: [u32; 28] = [
            1,
            1 << 24,
            8,
            64, // 1: long
            0,
            4 << 24 | 2,
            16,
            14,
            1,
            0,
            16,
            1,
            64, // 2: the unnamed one
            6,
            4 << 24 | 2,
            24,
            12,
            1,
            0,
            0,
            2,
            64, // 3: outer
            0,
            2 << 24,
            1,
            0,
            2 << 24,
            1, // 4, 5: pointers
        ];
        let mut bytes = Vec::new();
        bytes.extend(HEADER_MAGIC.to_le_bytes());
        bytes.extend([1, 0]);
        for value in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
            bytes.extend(value.to_le_bytes());
        }
        types.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_in_unnamed_structures_too() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.offset("outer", "a"), Some(0));
        assert_eq!(btf.offset("outer", "b"), Some(8));
        assert_eq!(btf.offset("outer", "c"), Some(16));
        assert_eq!(btf.offset("outer", "d"), None);
        assert_eq!(btf.offset("long", "a"), None);
    }

    #[test]
    fn torn_types_are_no_types() {
        let bytes = sample();
        for length in 0..bytes.len() {
            if let Some(btf) = Btf::parse(&bytes[..length]) {
                let _ = btf.offset("outer", "c");
            }
        }
        assert!(Btf::parse(b"").is_none());
    }
}
