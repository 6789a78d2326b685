//! Instructions of the kernel's virtual machine, as few as `program` needs
//! (Linux Documentation/bpf/standardization/instruction-set.rst).

/// One of the eleven registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u8);

/// What a call returns.
pub const R0: Reg = Reg(0);
/// Arguments of a call; lost by it.
pub const R1: Reg = Reg(1);
/// The second.
pub const R2: Reg = Reg(2);
/// The third.
pub const R3: Reg = Reg(3);
/// The fourth.
pub const R4: Reg = Reg(4);
/// Kept over calls.
pub const R6: Reg = Reg(6);
/// Kept over calls.
pub const R7: Reg = Reg(7);
/// The end of the stack.
pub const R10: Reg = Reg(10);

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    code: u8,
    /// Destination in the low half, source in the high one.
    regs: u8,
    off: i16,
    imm: i32,
}

/// A program in the making: jumps name labels, which are resolved at the end.
#[derive(Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    labels: Vec<(&'static str, usize)>,
    jumps: Vec<(usize, &'static str)>,
}

impl Assembler {
    fn put(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) -> &mut Self {
        self.insns.push(Insn { code, regs: dst.0 | src.0 << 4, off, imm });
        self
    }

    /// `dst = src`
    pub fn copy(&mut self, dst: Reg, src: Reg) -> &mut Self {
        self.put(0xbf, dst, src, 0, 0)
    }

    /// `dst = imm`
    pub fn set(&mut self, dst: Reg, imm: i32) -> &mut Self {
        self.put(0xb7, dst, R0, 0, imm)
    }

    /// `dst += src`
    pub fn add(&mut self, dst: Reg, src: Reg) -> &mut Self {
        self.put(0x0f, dst, src, 0, 0)
    }

    /// `dst += imm`
    pub fn add_imm(&mut self, dst: Reg, imm: i32) -> &mut Self {
        self.put(0x07, dst, R0, 0, imm)
    }

    /// `dst &= imm`
    pub fn and(&mut self, dst: Reg, imm: i32) -> &mut Self {
        self.put(0x57, dst, R0, 0, imm)
    }

    /// `dst <<= imm`
    pub fn shift_left(&mut self, dst: Reg, imm: i32) -> &mut Self {
        self.put(0x67, dst, R0, 0, imm)
    }

    /// `dst = *(u32 *)(src + off)`
    pub fn load_u32(&mut self, dst: Reg, src: Reg, off: i16) -> &mut Self {
        self.put(0x61, dst, src, off, 0)
    }

    /// `dst = *(u64 *)(src + off)`
    pub fn load_u64(&mut self, dst: Reg, src: Reg, off: i16) -> &mut Self {
        self.put(0x79, dst, src, off, 0)
    }

    /// `*(u32 *)(dst + off) = src`
    pub fn store_u32(&mut self, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.put(0x63, dst, src, off, 0)
    }

    /// `*(u64 *)(dst + off) = src`
    pub fn store_u64(&mut self, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.put(0x7b, dst, src, off, 0)
    }

    /// `dst = ` the map with this descriptor (two instructions long, `BPF_PSEUDO_MAP_FD`).
    pub fn map(&mut self, dst: Reg, fd: i32) -> &mut Self {
        self.put(0x18, dst, R1, 0, fd);
        self.put(0, R0, R0, 0, 0)
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, function: i32) -> &mut Self {
        self.put(0x85, R0, R0, 0, function)
    }

    /// `if (reg == 0) goto to`
    pub fn jump_if_zero(&mut self, reg: Reg, to: &'static str) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.put(0x15, reg, R0, 0, 0)
    }

    /// Here is where jumps to `label` arrive.
    pub fn label(&mut self, label: &'static str) -> &mut Self {
        self.labels.push((label, self.insns.len()));
        self
    }

    /// `return r0`
    pub fn exit(&mut self) -> &mut Self {
        self.put(0x95, R0, R0, 0, 0)
    }

    /// The program.
    ///
    /// # Panics
    /// If a jump names a label that is nowhere: a mistake in the source.
    pub fn finish(&mut self) -> Vec<Insn> {
        for (at, to) in &self.jumps {
            let label = self.labels.iter().find(|(label, _)| label == to);
            let target = label.unwrap_or_else(|| panic!("no label {to}")).1;
            self.insns[*at].off = (target as i64 - *at as i64 - 1) as i16;
        }
        std::mem::take(&mut self.insns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_to_their_labels_both_ways() {
        let mut assembler = Assembler::default();
        assembler
            .label("start")
            .jump_if_zero(R0, "end")
            .jump_if_zero(R1, "start")
            .label("end")
            .exit();
        let offsets: Vec<_> = assembler.finish().iter().map(|insn| insn.off).collect();
        assert_eq!(offsets, [1, -2, 0]);
    }

    #[test]
    fn registers_lie_where_the_kernel_reads_them() {
        let mut assembler = Assembler::default();
        let insn = assembler.store_u32(R10, -4, R6).finish()[0];
        assert_eq!((insn.code, insn.regs, insn.off), (0x63, 0x6a, -4));
        assert_eq!(size_of::<Insn>(), 8);
    }
}
