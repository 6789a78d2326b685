//! What QEMU calls when it translates a block: chooses what is heard of when it runs.

use std::ffi::c_void;

use super::callbacks::{self, ATOMIC, Flow, KERNEL, STORE, Site};
use super::declarations::{self as qemu, Block, Instruction};
use super::install::machine;
use crate::code::Code;
use crate::decode::{self, Meaning};
use crate::machine::{Machine, Phase};

const INSTRUCTION_BYTES_MAX: usize = 15;

/// A block is translated.
pub extern "C" fn on_block(_id: u64, block: *mut Block) {
    let Some(machine) = machine() else { return };
    let phase = machine.phase();
    if phase == Phase::After {
        return;
    }
    // SAFETY: the block is good in this callback.
    let count = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    let mut code = None;
    for index in 0..count {
        // SAFETY: as above; the index is below the count.
        let instruction = unsafe { qemu::qemu_plugin_tb_get_insn(block, index) };
        let mut buffer = [0; INSTRUCTION_BYTES_MAX];
        let meaning = decode::meaning(bytes_of(instruction, &mut buffer));
        if phase == Phase::Before {
            match meaning {
                Meaning::Start => on_execution(instruction, callbacks::on_start, 0),
                Meaning::Allocated => on_allocated(machine, instruction),
                _ => {}
            }
        } else {
            let place = place_of(instruction);
            code.get_or_insert(place).extend(&place);
            instrument(machine, instruction, meaning, place);
        }
    }
    if let Some(code) = code {
        on_fetch(machine, block, code);
    }
}

/// Has a block call when it is executed. In a run that is sampled it counts its instructions itself, and
/// calls only if a line of it is modelled or it is on another page than the last.
fn on_fetch(machine: &Machine, block: *mut Block, code: Code) {
    // QEMU may call back with it until it ends, and does not say when it no longer will.
    let word: *mut Code = Box::leak(Box::new(code));
    if machine.is_sampled() {
        machine.scores.count(block, code.nr_instructions());
        if !machine.models(&code) {
            return machine.scores.call_on_new_page(
                block,
                callbacks::on_fetch,
                code.page(),
                word.cast(),
            );
        }
    }
    // SAFETY: the block is good in this callback; the word is what `on_fetch` expects.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(
            block,
            callbacks::on_fetch,
            qemu::REGISTERS_READ,
            word.cast(),
        );
    }
}

fn bytes_of(instruction: *mut Instruction, buffer: &mut [u8; INSTRUCTION_BYTES_MAX]) -> &[u8] {
    // SAFETY: the instruction is good in the callback that it was got in; there is room for that many.
    let size = unsafe {
        qemu::qemu_plugin_insn_data(instruction, buffer.as_mut_ptr().cast(), buffer.len())
    };
    &buffer[..size.min(INSTRUCTION_BYTES_MAX)]
}

fn place_of(instruction: *const Instruction) -> Code {
    // SAFETY: the instruction is good in the callback that it was got in.
    unsafe {
        let host = qemu::qemu_plugin_insn_haddr(instruction) as u64;
        let bytes = qemu::qemu_plugin_insn_size(instruction) as u32;
        Code::new(qemu::qemu_plugin_insn_vaddr(instruction), host, bytes)
    }
}

fn instrument(machine: &Machine, instruction: *mut Instruction, meaning: Meaning, place: Code) {
    let vaddr = place.vaddr();
    match meaning {
        Meaning::Stop => on_execution(instruction, callbacks::on_stop, 0),
        Meaning::Allocated => on_allocated(machine, instruction),
        Meaning::WriteRoot => on_execution(instruction, callbacks::on_write_root, 0),
        Meaning::FlushAll => on_execution(instruction, callbacks::on_flush_all, 0),
        Meaning::FlushPage(register) => {
            on_execution(instruction, callbacks::on_flush_page, usize::from(register));
        }
        Meaning::Pause if machine.keeps_in_step() => {
            on_execution(instruction, callbacks::on_pause, 0);
        }
        Meaning::Plain
        | Meaning::Atomic
        | Meaning::Call
        | Meaning::Return
        | Meaning::Start
        | Meaning::Pause => {}
    }
    if let Some(facts) = machine.tasks.facts() {
        if vaddr == facts.switch_to {
            on_execution(instruction, callbacks::on_switch, 0);
        } else if vaddr == facts.wake_up_new_task {
            on_execution(instruction, callbacks::on_created, 0);
        } else if vaddr == facts.release_task {
            on_execution(instruction, callbacks::on_ended, 0);
        } else if vaddr == facts.wake_up && machine.keeps_in_step() {
            on_execution(instruction, callbacks::on_wakes, 0);
        }
    }
    let mode = if vaddr >> 63 != 0 { KERNEL } else { 0 };
    if meaning == Meaning::Atomic {
        // QEMU tells of its read and of its write; it is one access.
        let site = Site { code: place, word: mode | STORE | ATOMIC, flow: Flow::GoesOn };
        return on_access(machine, instruction, qemu::ACCESS_WRITE, site);
    }
    // A call through memory reads where it goes as well.
    let [reads, writes] = match meaning {
        Meaning::Call => [Flow::GoesOn, Flow::Calls],
        Meaning::Return => [Flow::Returns, Flow::GoesOn],
        _ => [Flow::GoesOn; 2],
    };
    let site = Site { code: place, word: mode, flow: reads };
    on_access(machine, instruction, qemu::ACCESS_READ, site);
    let site = Site { code: place, word: mode | STORE, flow: writes };
    on_access(machine, instruction, qemu::ACCESS_WRITE, site);
}

/// Of a server most is allocated before counting begins.
fn on_allocated(machine: &Machine, instruction: *mut Instruction) {
    if machine.arguments.tells_handovers {
        on_execution(instruction, callbacks::on_allocated, 0);
    }
}

fn on_execution(instruction: *mut Instruction, callback: qemu::OnExecution, word: usize) {
    let (registers, word) = (qemu::REGISTERS_READ, word as *mut c_void);
    // SAFETY: the instruction is good in the callback that it was got in; the word is only a number.
    unsafe { qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, registers, word) };
}

fn on_access(machine: &Machine, instruction: *mut Instruction, accesses: i32, site: Site) {
    let is_traced = machine.arguments.tells_handovers;
    let (callback, word): (qemu::OnAccess, *mut c_void) = if is_traced {
        // As for blocks: QEMU does not say when it no longer calls back.
        (callbacks::on_traced_data, Box::into_raw(Box::new(site)).cast())
    } else if machine.is_sampled() {
        (callbacks::on_sampled_data, site.word as *mut c_void)
    } else {
        (callbacks::on_data, site.word as *mut c_void)
    };
    let registers = qemu::REGISTERS_NONE;
    // SAFETY: as for `on_execution`.
    unsafe {
        qemu::qemu_plugin_register_vcpu_mem_cb(instruction, callback, registers, accesses, word);
    }
}
