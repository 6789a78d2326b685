//! How a program in a guest tells the instrument around it that counting begins and ends, and what the
//! instrument must know of the guest's kernel to tell tasks apart.
//!
//! A marker is an instruction that does nothing: a long no-operation with a displacement that no
//! compiler makes. The instrument recognises it when QEMU translates it; on a machine without
//! instrument it stays without effect.

mod btf;
mod facts;

pub use facts::{Facts, FactsError, INTERFACE, WORDS};

/// The instruction before its displacement: `nop dword ptr [rax + …]`.
pub const OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];
/// The displacement of the marker that begins counting, little endian after [`OPCODE`].
pub const START: u32 = 0x5155_4101;
/// The displacement of the marker that ends it.
pub const STOP: u32 = 0x5155_4102;
/// The displacement of the marker by which a program says that it was given memory: `act/sites/src/note.rs` executes it, with the
/// block's address in `rdi`, its size in `rsi`, where the call returns to in `rdx`, what the stack pointer is then in `rcx`, and the
/// process's number in `r8`.
pub const ALLOCATED: u32 = 0x5155_4103;

/// In the environment of a QEMU: how many times slower its clock is to pass (`lab/plugin/clock/`).
pub const CLOCK_SLOWER: &str = "QUARTIER_CLOCK_SLOWER";

/// Begins counting: this process, and whatever it starts, is what is measured.
pub fn start(facts: &Facts) {
    let words = facts.words();
    // SAFETY: the instruction neither reads nor writes memory or registers, whatever its operand says;
    // the instrument only reads the words, which outlive it.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {displacement}",
            displacement = const START,
            in("rdi") words.as_ptr(),
            in("rsi") words.len(),
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// Ends counting.
pub fn stop() {
    // SAFETY: as in `start`, without operands.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {displacement}",
            displacement = const STOP,
            options(nostack, preserves_flags, nomem),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `act/sites/src/note.rs` has this number too.
    #[test]
    fn the_marker_of_blocks_is_that_of_those_who_tell_of_them() {
        assert_eq!(ALLOCATED, 0x5155_4103);
    }

    #[test]
    fn markers_do_nothing_on_their_own() {
        start(&Facts::default());
        stop();
    }
}
