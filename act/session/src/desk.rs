//! What a process says at the launcher's desk: eight bytes a message.

/// A message to the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeskRequest {
    /// A descriptor of `/dev/userfaultfd`, please.
    Lend,
    /// Keep this userfaultfd (it comes with the message) while I hold the data of `program`.
    Guard {
        /// Its process id.
        program: u32,
    },
    /// I hold no data any more.
    Goodbye,
    /// The session's memory, please: I may not open it by its path.
    Session,
    /// The decision tree's topology, U and M, please.
    Tree,
    /// The decision tree's T, please.
    Threads,
}

impl DeskRequest {
    /// Length of a message.
    pub const BYTES: usize = 8;

    /// The message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, program) = match self {
            Self::Lend => (1u32, 0),
            Self::Guard { program } => (2, program),
            Self::Goodbye => (3, 0),
            Self::Session => (4, 0),
            Self::Tree => (5, 0),
            Self::Threads => (6, 0),
        };
        (u64::from(kind) << 32 | u64::from(program)).to_ne_bytes()
    }

    /// Reads a message; `None` if it is none.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let word = u64::from_ne_bytes(bytes);
        match (word >> 32, word as u32) {
            (1, 0) => Some(Self::Lend),
            (2, program) => Some(Self::Guard { program }),
            (3, 0) => Some(Self::Goodbye),
            (4, 0) => Some(Self::Session),
            (5, 0) => Some(Self::Tree),
            (6, 0) => Some(Self::Threads),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire_and_garbage_is_none() {
        for request in [
            DeskRequest::Lend,
            DeskRequest::Guard { program: 77 },
            DeskRequest::Goodbye,
            DeskRequest::Session,
            DeskRequest::Tree,
            DeskRequest::Threads,
        ] {
            assert_eq!(DeskRequest::from_bytes(request.to_bytes()), Some(request));
        }
        for garbage in [[0; 8], [0xff; 8]] {
            assert_eq!(DeskRequest::from_bytes(garbage), None);
        }
    }
}
