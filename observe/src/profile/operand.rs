//! What an instruction accesses: its operand in memory, to be resolved with the registers of a sample.

use super::arch::Registers;

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    base: Option<usize>,
    index: Option<(usize, u64)>,
    displacement: u64,
    /// Its displacement is an address, as the file states it.
    is_stated: bool,
    /// It writes.
    pub is_write: bool,
}

impl Operand {
    /// The address, with the registers as they are behind the instruction, of a file whose addresses are so much more
    /// in memory.
    pub fn address(&self, registers: &Registers, bias: u64) -> u64 {
        let base = self.base.map_or(0, |number| registers.get(number));
        let index =
            self.index.map_or(0, |(number, scale)| registers.get(number).wrapping_mul(scale));
        let bias = if self.is_stated { bias } else { 0 };
        base.wrapping_add(index).wrapping_add(self.displacement).wrapping_add(bias)
    }

    /// That of the instruction that took long: the last one before a sample, or, if that accesses no memory, the one that
    /// the sample waits for. Absent: neither does, or its address was overwritten, or it is not understood.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn near(_start: u64, _before: &[u8], _after: &[u8]) -> Option<Self> {
        None
    }

    /// That of the instruction that took long: the last one before a sample, or, if that accesses no memory, the one that
    /// the sample waits for. Absent: neither does, or its address was overwritten, or it is not understood.
    #[cfg(target_arch = "x86_64")]
    pub fn near(start: u64, before: &[u8], after: &[u8]) -> Option<Self> {
        x86::near(start, before, after)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use iced_x86::{
        Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register,
    };

    use super::Operand;

    pub fn near(start: u64, before: &[u8], after: &[u8]) -> Option<Operand> {
        let end = start + before.len() as u64;
        let mut decoder = Decoder::with_ip(64, before, start, DecoderOptions::NONE);
        // From the beginning of the function, as instructions are read forwards only.
        let mut last = None;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            last =
                (instruction.next_ip() == end && !instruction.is_invalid()).then_some(instruction);
        }
        let last = last?;
        if accesses(&last) {
            return operand(&last, true);
        }
        let next = Decoder::with_ip(64, after, end, DecoderOptions::NONE).decode();
        if next.is_invalid() { None } else { operand(&next, false) }
    }

    /// Whether it accesses memory that is not its stack's.
    fn accesses(instruction: &Instruction) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let memory = factory.info(instruction).used_memory();
        memory.iter().any(|memory| memory.base() != Register::RSP)
    }

    /// The operand; of an instruction that is done the registers may have changed.
    fn operand(instruction: &Instruction, is_done: bool) -> Option<Operand> {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(instruction);
        let memory = info.used_memory().iter().find(|memory| memory.base() != Register::RSP)?;
        // Thread-local memory is nobody else's.
        if matches!(memory.segment(), Register::FS | Register::GS) {
            return None;
        }
        let is_lost = |register: Register| {
            info.used_registers()
                .iter()
                .any(|used| used.register().full_register() == register && writes(used.access()))
        };
        if is_done && (is_lost(memory.base()) || is_lost(memory.index())) {
            return None;
        }
        let base = match memory.base() {
            Register::None | Register::RIP => None,
            base => Some(number(base)?),
        };
        let index = match memory.index() {
            Register::None => None,
            index => Some((number(index)?, u64::from(memory.scale()))),
        };
        Some(Operand {
            base,
            index,
            // With the instruction pointer as its base it is the address already.
            displacement: memory.displacement(),
            is_stated: instruction.is_ip_rel_memory_operand(),
            is_write: writes(memory.access()),
        })
    }

    fn writes(access: OpAccess) -> bool {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
    }

    /// The kernel's number.
    fn number(register: Register) -> Option<usize> {
        const NUMBERS: [(Register, usize); 16] = [
            (Register::RAX, 0),
            (Register::RBX, 1),
            (Register::RCX, 2),
            (Register::RDX, 3),
            (Register::RSI, 4),
            (Register::RDI, 5),
            (Register::RBP, 6),
            (Register::RSP, 7),
            (Register::R8, 16),
            (Register::R9, 17),
            (Register::R10, 18),
            (Register::R11, 19),
            (Register::R12, 20),
            (Register::R13, 21),
            (Register::R14, 22),
            (Register::R15, 23),
        ];
        NUMBERS.iter().find(|(known, _)| *known == register).map(|(_, number)| *number)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Address, written.
    type Accessed = (u64, bool);

    #[test]
    fn operands_are_resolved_with_the_registers_behind_the_instruction() {
        let registers = Registers::default().with(0, 0x1000).with(2, 3).with(5, 0x2000);
        let cases: [(&[u8], Option<Accessed>); 8] = [
            // lock add qword [rip+0x100], 5; at 0x4001 after a nop, 9 bytes long
            (&[0x90, 0xf0, 0x48, 0x83, 0x05, 0, 1, 0, 0, 5], Some((0xb10a, true))),
            // lock cmpxchg [rdi], edx
            (&[0xf0, 0x0f, 0xb1, 0x17], Some((0x2000, true))),
            // xchg [rdi], edx
            (&[0x87, 0x17], Some((0x2000, true))),
            // mov rdx, [rax+rcx*8+16]
            (&[0x48, 0x8b, 0x54, 0xc8, 0x10], Some((0x1028, false))),
            // mov [rdi], rdx
            (&[0x48, 0x89, 0x17], Some((0x2000, true))),
            // mov rax, [rax]: where it was is forgotten
            (&[0x48, 0x8b, 0x00], None),
            // mov rdx, fs:[0x10]; a thread's own
            (&[0x64, 0x48, 0x8b, 0x14, 0x25, 0x10, 0, 0, 0], None),
            // add rax, rcx
            (&[0x48, 0x01, 0xc8], None),
        ];
        for (code, expected) in cases {
            let operand = Operand::near(0x4000, code, &[0x90]);
            let found = operand.map(|found| (found.address(&registers, 0x7000), found.is_write));
            assert_eq!(found, expected, "{code:x?}");
        }
        // Not at the boundary of an instruction.
        assert_eq!(Operand::near(0x4000, &[0x48, 0x89], &[0x90]), None);
        // add rax, rcx; and then mov rax, [rax], which has not happened yet.
        let waits = Operand::near(0x4000, &[0x48, 0x01, 0xc8], &[0x48, 0x8b, 0x00]).unwrap();
        assert_eq!((waits.address(&registers, 0), waits.is_write), (0x1000, false));
    }
}
