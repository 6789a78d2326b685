//! The program that the kernel runs for each connection, on the CPU that received it.
//!
//! ```text
//! row    = row_of_cpu[this CPU]              which node, or part of one, this CPU belongs to
//! socket = rows[row][hash of the connection % SLOTS]
//! choose sockets[socket], and count it
//! ```
//! What cannot be looked up, or is closed by now, is left to the kernel's own hashing, and counted too.

use crate::insn::{Assembler, Insn, R0, R1, R2, R3, R4, R6, R7, R10};

/// Places in a row: a copy gets connections in parts of 1/256.
pub const SLOTS: usize = 256;

/// Bytes of a row: a socket's number for each place.
pub const ROW_BYTES: u32 = SLOTS as u32 * 4;

/// Bytes of a count: connections that were new, and ones that waited at a socket that was closed.
pub const COUNT_BYTES: u32 = 16;

const MAP_LOOKUP_ELEM: i32 = 1;
const GET_SMP_PROCESSOR_ID: i32 = 8;
const SK_SELECT_REUSEPORT: i32 = 82;
/// `struct sk_reuseport_md`.
const MD_HASH: i16 = 32;
const MD_MIGRATING_SK: i16 = 48;
const SK_PASS: i32 = 1;
/// The one word of stack.
const KEY: i16 = -4;

/// Descriptors of the maps, and where what was left to the kernel is counted.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    pub row_of_cpu: i32,
    pub rows: i32,
    pub sockets: i32,
    pub counts: i32,
    pub missed: u32,
}

/// The program for these maps.
pub fn assemble(maps: Maps) -> Vec<Insn> {
    let mut a = Assembler::default();
    let key_to = |a: &mut Assembler, register| {
        a.copy(register, R10).add_imm(register, KEY.into());
    };
    a.copy(R6, R1);
    a.load_u64(R7, R6, MD_MIGRATING_SK);
    a.call(GET_SMP_PROCESSOR_ID);
    a.store_u32(R10, KEY, R0);

    a.map(R1, maps.row_of_cpu);
    key_to(&mut a, R2);
    a.call(MAP_LOOKUP_ELEM).jump_if_zero(R0, "missed");
    a.load_u32(R0, R0, 0).store_u32(R10, KEY, R0);

    a.map(R1, maps.rows);
    key_to(&mut a, R2);
    a.call(MAP_LOOKUP_ELEM).jump_if_zero(R0, "missed");
    a.load_u32(R1, R6, MD_HASH).and(R1, SLOTS as i32 - 1).shift_left(R1, 2);
    a.add(R0, R1).load_u32(R0, R0, 0).store_u32(R10, KEY, R0);

    a.copy(R1, R6).map(R2, maps.sockets);
    key_to(&mut a, R3);
    a.set(R4, 0).call(SK_SELECT_REUSEPORT).jump_if_zero(R0, "count");

    a.label("missed");
    a.set(R0, maps.missed as i32).store_u32(R10, KEY, R0);

    a.label("count");
    a.map(R1, maps.counts);
    key_to(&mut a, R2);
    a.call(MAP_LOOKUP_ELEM).jump_if_zero(R0, "pass");
    a.jump_if_zero(R7, "new").add_imm(R0, 8);
    a.label("new");
    a.load_u64(R1, R0, 0).add_imm(R1, 1).store_u64(R0, 0, R1);

    a.label("pass");
    a.set(R0, SK_PASS).exit();
    a.finish()
}
