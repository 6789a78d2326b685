//! An affinity that is kept: as many words as its last CPU needs, written as the kernel's list of CPUs.

use quartier_model::{CpuList, CpuListError};
use quartier_session::CpuBits;
use serde::{Deserialize, Serialize};

/// An affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mask {
    /// Every CPU that there is or will be: nobody set anything.
    All,
    /// These.
    These(Box<[u64]>),
}

impl Mask {
    /// The set of CPUs.
    #[must_use]
    pub fn bits(&self) -> CpuBits {
        let Self::These(words) = self else { return CpuBits::ALL };
        let mut bits = CpuBits::EMPTY;
        bits.words.iter_mut().zip(words).for_each(|(word, kept)| *word = *kept);
        bits
    }
}

impl From<&CpuBits> for Mask {
    fn from(bits: &CpuBits) -> Self {
        let used = bits.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        if *bits == CpuBits::ALL { Self::All } else { Self::These(bits.words[..used].into()) }
    }
}

impl From<Mask> for String {
    fn from(mask: Mask) -> Self {
        match mask {
            Mask::All => "all".to_owned(),
            Mask::These(_) => mask.bits().iter().collect::<CpuList>().to_string(),
        }
    }
}

impl TryFrom<String> for Mask {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "all" {
            return Ok(Self::All);
        }
        let list: CpuList = text.parse()?;
        Ok(Self::from(&list.iter().collect::<CpuBits>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_written_and_read_as_it_was() {
        let of = |ids: &[u32]| Mask::from(&ids.iter().copied().collect::<CpuBits>());
        for (mask, text) in [
            (Mask::All, "all"),
            (of(&[]), ""),
            (of(&[0]), "0"),
            (of(&[2, 3, 64]), "2-3,64"),
            (of(&[8191]), "8191"),
        ] {
            assert_eq!(String::from(mask.clone()), text);
            assert_eq!(Mask::try_from(text.to_owned()).unwrap(), mask);
            assert_eq!(Mask::from(&mask.bits()), mask);
        }
        assert!(Mask::try_from("3-".to_owned()).is_err());
    }
}
