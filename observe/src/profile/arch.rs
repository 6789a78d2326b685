//! What differs between processors: the registers of a sample, and how stacks are unwound with them.

/// Registers that the kernel is asked for (bits of `PERF_REG_X86_*`): all general ones and the instruction pointer.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: u64 = 0xff_01ff;
/// Elsewhere stacks are those of frame pointers, and operands are not looked at.
#[cfg(not(target_arch = "x86_64"))]
pub const REGISTERS: u64 = 0;

/// Registers of user code, by the kernel's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    values: [u64; 24],
}

/// The kernel's numbers.
pub const BP: usize = 6;
pub const SP: usize = 7;
pub const IP: usize = 8;
const DX: usize = 3;
const SI: usize = 4;
const DI: usize = 5;

impl Registers {
    /// From the values that were asked for, in the order of their numbers.
    pub fn of(values: &[u64]) -> Self {
        let numbers = (0..24).filter(|number| REGISTERS >> number & 1 == 1);
        let mut registers = Self::default();
        numbers.zip(values).for_each(|(number, value)| registers.values[number] = *value);
        registers
    }

    /// By the kernel's number.
    pub fn get(&self, number: usize) -> u64 {
        self.values[number]
    }

    /// The word of a futex call in progress.
    pub fn futex(&self) -> u64 {
        self.values[DI]
    }

    /// Whether that call waits while the word is 2.
    pub fn is_futex_locked(&self) -> bool {
        const FUTEX_WAIT: u64 = 0;
        const COMMAND: u64 = 0x7f;
        self.values[SI] & COMMAND == FUTEX_WAIT && self.values[DX] as u32 == 2
    }

    #[cfg(test)]
    pub fn with(mut self, number: usize, value: u64) -> Self {
        self.values[number] = value;
        self
    }
}
