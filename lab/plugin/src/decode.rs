//! Recognises the few instructions that mean more than their accesses. QEMU says how long each is.

use quartier_marker::{ALLOCATED, OPCODE, START, STOP};

/// What an instruction means to the instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing but its accesses.
    Plain,
    /// One read and one write of the same place that nobody comes between.
    Atomic,
    /// Writes where it comes back to.
    Call,
    /// Reads where it goes.
    Return,
    /// Counting begins.
    Start,
    /// Counting ends.
    Stop,
    /// A program was given memory.
    Allocated,
    /// It waits for another CPU, and looks again.
    Pause,
    /// Control register 3, the root of the page tables, is written.
    WriteRoot,
    /// Another control register that ends translations is written, or translations are ended by kind.
    FlushAll,
    /// The translation of the address in this register (0 is rax, 15 r15) ends.
    FlushPage(u8),
}

/// The meaning of the instruction with these bytes, in 64-bit mode.
pub fn meaning(bytes: &[u8]) -> Meaning {
    let (prefixes, rest) = prefixes(bytes);
    match *rest {
        [0x0f, 0x1f, 0x80, ref displacement @ ..] if bytes.len() == OPCODE.len() + 4 => {
            marker(displacement)
        }
        [0x0f, 0x22, modrm, ..] => match modrm >> 3 & 7 {
            3 => Meaning::WriteRoot,
            0 | 4 => Meaning::FlushAll,
            _ => Meaning::Plain,
        },
        [0x0f, 0x01, modrm, ..] if modrm >> 3 & 7 == 7 && modrm >> 6 != 3 => {
            // The kernel only ever has the address in one register. Another form ends more than it
            // has to.
            match (modrm >> 6, modrm & 7) {
                (0, base) if base != 4 && base != 5 => {
                    Meaning::FlushPage(base | prefixes.base_extension)
                }
                _ => Meaning::FlushAll,
            }
        }
        [0x0f, 0x38, 0x82, ..] if prefixes.operand_size => Meaning::FlushAll,
        [0xe8, ..] => Meaning::Call,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Meaning::Call,
        [0xc2 | 0xc3, ..] => Meaning::Return,
        // An exchange with memory is atomic without saying so.
        [0x86 | 0x87, modrm, ..] if modrm >> 6 != 3 => Meaning::Atomic,
        [0x90] if prefixes.repeat => Meaning::Pause,
        _ if prefixes.lock => Meaning::Atomic,
        _ => Meaning::Plain,
    }
}

fn marker(displacement: &[u8]) -> Meaning {
    match displacement.try_into().map(u32::from_le_bytes) {
        Ok(START) => Meaning::Start,
        Ok(STOP) => Meaning::Stop,
        Ok(ALLOCATED) => Meaning::Allocated,
        _ => Meaning::Plain,
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Prefixes {
    lock: bool,
    repeat: bool,
    operand_size: bool,
    /// What the REX prefix adds to the number of a base register.
    base_extension: u8,
}

/// The prefixes, and the instruction from its opcode on.
fn prefixes(bytes: &[u8]) -> (Prefixes, &[u8]) {
    let mut prefixes = Prefixes::default();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            0xf0 => prefixes.lock = true,
            0xf3 => prefixes.repeat = true,
            0x66 => prefixes.operand_size = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 | 0xf2 => {}
            // REX is the last prefix, or none.
            0x40..=0x4f => {
                prefixes.base_extension = (byte & 1) << 3;
                return (prefixes, &bytes[index + 1..]);
            }
            _ => return (prefixes, &bytes[index..]),
        }
    }
    (prefixes, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_from_other_long_no_operations() {
        let with = |displacement: u32| [&OPCODE[..], &displacement.to_le_bytes()].concat();
        assert_eq!(meaning(&with(START)), Meaning::Start);
        assert_eq!(meaning(&with(STOP)), Meaning::Stop);
        assert_eq!(meaning(&with(ALLOCATED)), Meaning::Allocated);
        assert_eq!(meaning(&with(0)), Meaning::Plain);
        assert_eq!(meaning(&with(START)[..6]), Meaning::Plain);
    }

    #[test]
    fn a_pause_is_told_from_what_does_nothing_else() {
        assert_eq!(meaning(&[0xf3, 0x90]), Meaning::Pause);
        assert_eq!(meaning(&[0x90]), Meaning::Plain); // nop
        assert_eq!(meaning(&[0xf3, 0x0f, 0x1e, 0xfa]), Meaning::Plain); // endbr64
    }

    #[test]
    fn what_ends_translations() {
        for (bytes, expected) in [
            (&[0x0f, 0x22, 0xd8][..], Meaning::WriteRoot), // mov cr3, rax
            (&[0x41, 0x0f, 0x22, 0xdc], Meaning::WriteRoot), // mov cr3, r12
            (&[0x0f, 0x20, 0xd8], Meaning::Plain),         // mov rax, cr3
            (&[0x0f, 0x22, 0xe0], Meaning::FlushAll),      // mov cr4, rax
            (&[0x0f, 0x22, 0xd0], Meaning::Plain),         // mov cr2, rax
            (&[0x0f, 0x01, 0x3f], Meaning::FlushPage(7)),  // invlpg [rdi]
            (&[0x41, 0x0f, 0x01, 0x38], Meaning::FlushPage(8)), // invlpg [r8]
            (&[0x0f, 0x01, 0x7f, 0x08], Meaning::FlushAll), // invlpg [rdi+8]
            (&[0x0f, 0x01, 0x3c, 0x24], Meaning::FlushAll), // invlpg [rsp]
            (&[0x0f, 0x01, 0xf8], Meaning::Plain),         // swapgs
            (&[0x66, 0x0f, 0x38, 0x82, 0x07], Meaning::FlushAll), // invpcid rax, [rdi]
        ] {
            assert_eq!(meaning(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn calls_and_returns_are_those_of_one_segment() {
        for (bytes, expected) in [
            (&[0xe8, 1, 0, 0, 0][..], Meaning::Call),      // call
            (&[0xff, 0xd0], Meaning::Call),                // call rax
            (&[0x41, 0xff, 0x54, 0x24, 8], Meaning::Call), // call [r12+8]
            (&[0xff, 0xe0], Meaning::Plain),               // jmp rax
            (&[0xff, 0x18], Meaning::Plain),               // call far [rax]
            (&[0xff, 0x30], Meaning::Plain),               // push [rax]
            (&[0xc3], Meaning::Return),                    // ret
            (&[0xf3, 0xc3], Meaning::Return),              // rep ret
            (&[0xc2, 8, 0], Meaning::Return),              // ret 8
            (&[0xcb], Meaning::Plain),                     // ret far
            (&[0x48, 0xcf], Meaning::Plain),               // iretq
        ] {
            assert_eq!(meaning(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn atomics_are_locked_or_exchange_with_memory() {
        for (bytes, expected) in [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f][..], Meaning::Atomic), // lock cmpxchg [rdi], rcx
            (&[0x48, 0x0f, 0xb1, 0x0f], Meaning::Plain),            // cmpxchg [rdi], rcx
            (&[0x87, 0x07], Meaning::Atomic),                       // xchg [rdi], eax
            (&[0x48, 0x87, 0xc3], Meaning::Plain),                  // xchg rbx, rax
            (&[0x2e, 0xf0, 0xff, 0x00], Meaning::Atomic),           // lock inc [rax]
            (&[0x48, 0x89, 0x07], Meaning::Plain),                  // mov [rdi], rax
            (&[], Meaning::Plain),
            (&[0xf0], Meaning::Atomic),
        ] {
            assert_eq!(meaning(bytes), expected, "{bytes:x?}");
        }
    }
}
