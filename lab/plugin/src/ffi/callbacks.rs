//! What QEMU calls while the guest runs.

use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;

use quartier_count::{Ending, Moment};
use quartier_memmodel::{Access, Mode, Owner};

use super::declarations as qemu;
use super::install::{machine, say};
use super::registers::{Register, Registers};
use super::translation::on_block;
use crate::code::Code;
use crate::machine::{Cpu, Machine, Phase};

/// No page of code has this number.
const NO_PAGE: u64 = 0;

static ID: OnceLock<u64> = OnceLock::new();

/// Bits of the word that [`on_data`] gets: the kernel accesses,
pub const KERNEL: usize = 1;
/// writes,
pub const STORE: usize = 2;
/// and nobody comes between.
pub const ATOMIC: usize = 4;

/// Asks QEMU for the callbacks that all others come from.
pub fn register(id: u64) {
    ID.get_or_init(|| id);
    // SAFETY: the functions are of the types that the interface has for them, and never unloaded.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_cpu);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
}

/// Has everything translated anew.
fn translate_again() {
    let Some(id) = ID.get() else { return };
    // SAFETY: the plugin's own id; `register` is called once nothing is translated any more.
    unsafe { qemu::qemu_plugin_reset(*id, register_again) };
}

extern "C" fn register_again(id: u64) {
    register(id);
}

/// Runs `f` with the CPU that this callback is for.
#[inline]
fn with_cpu(said: c_uint, f: impl FnOnce(&'static Machine, &mut Cpu)) {
    let Some(machine) = machine() else { return };
    // SAFETY: callbacks of a CPU come one at a time, this is one, and `f` cannot keep the reference.
    if let Some(cpu) = unsafe { machine.cpus.get(machine.index(said as usize)) } {
        f(machine, cpu);
    }
}

extern "C" fn on_cpu(_id: u64, index: c_uint) {
    let Some(machine) = machine() else { return };
    let index = index as usize;
    let added = Registers::of_this_cpu().and_then(|registers| machine.cpu(index, registers));
    // SAFETY: this is the CPU's first callback.
    match added.map(|cpu| unsafe { machine.cpus.set(index, cpu) }) {
        Ok(true) => {}
        Ok(false) => machine.refuse("QEMU has more CPUs than it said".to_owned()),
        Err(why) => machine.refuse(why),
    }
}

extern "C" fn on_exit(_id: u64, _data: *mut c_void) {
    let Some(machine) = machine() else { return };
    let counting = machine.phase() == Phase::Counting;
    machine.advance(Phase::After);
    write(machine, if counting { Ending::Guest } else { Ending::NeverBegan });
}

fn write(machine: &Machine, ending: Ending) {
    if let Err(why) = machine.write(ending) {
        say(&why);
    }
}

pub extern "C" fn on_start(said: c_uint, _word: *mut c_void) {
    let Some(machine) = machine().filter(|machine| machine.phase() == Phase::Before) else {
        return;
    };
    // SAFETY: as in `with_cpu`; where all CPUs run in one thread, any one's registers are the running
    // one's, and the reference ends before it is known which that is.
    let begun = unsafe { machine.cpus.get(said as usize) }
        .map(|cpu| machine.begin(&mut cpu.registers))
        .unwrap_or(Err("a CPU runs that never began".to_owned()));
    match begun {
        Ok(()) if machine.advance(Phase::Counting) => {
            machine.mark(Moment::Start);
            with_cpu(said, |_, cpu| cpu.model.attribute(Some(Owner::Program)));
            translate_again();
        }
        Ok(()) => {}
        Err(why) => {
            say(&why);
            machine.refuse(why);
        }
    }
}

pub extern "C" fn on_stop(_said: c_uint, _word: *mut c_void) {
    let Some(machine) = machine() else { return };
    if machine.advance(Phase::After) {
        machine.ends_work();
        write(machine, Ending::Marker);
        translate_again();
    }
}

pub extern "C" fn on_fetch(said: c_uint, word: *mut c_void) {
    let Some(machine) = machine() else { return };
    if machine.arguments.single
        && let Some(facts) = machine.tasks.facts()
        // SAFETY: as in `on_start`.
        && let Some(cpu) = unsafe { machine.cpus.get(said as usize) }
    {
        machine.identify(&mut cpu.registers, facts);
    }
    with_cpu(said, |machine, cpu| {
        cpu.refresh();
        // SAFETY: the word that `on_block` gave, a block that is never freed.
        let code = unsafe { &*word.cast::<Code>() };
        let registers = &mut cpu.registers;
        let vaddr = cpu.places.find(code, || registers.read(Register::Instruction));
        let mode = if vaddr >> 63 != 0 { Mode::Kernel } else { Mode::User };
        let Some(mut tables) = machine.tables(cpu) else { return };
        let (bytes, instructions) = (code.bytes(), code.nr_instructions());
        if mode == Mode::User {
            cpu.calls.at_user(vaddr);
        }
        if machine.is_sampled() {
            catch_up(machine, said, cpu);
            set_page(machine, said, if code.is_on_one_page() { code.page() } else { NO_PAGE });
            cpu.model.fetch_block(vaddr, bytes, 0, mode, &mut tables);
        } else {
            let stalled = machine.stalled_where_looked_at(cpu);
            cpu.model.fetch_block(vaddr, bytes, instructions, mode, &mut tables);
            if let Some(stalled) = stalled {
                machine.look_at_block((machine.index(said as usize), cpu), code, stalled);
            }
        }
        machine.tell_step((machine.index(said as usize), cpu));
        machine.tick(cpu);
    });
}

/// The model learns how many instructions translated code has counted, if it does.
fn catch_up(machine: &Machine, said: c_uint, cpu: &mut Cpu) {
    if machine.is_sampled() {
        // SAFETY: only called in callbacks of that CPU.
        cpu.catch_up(unsafe { machine.scores.of(said as usize) }.instructions.get());
    }
}

/// Blocks of `page` do not call from now on for being on another page than the last.
fn set_page(machine: &Machine, said: c_uint, page: u64) {
    if machine.is_sampled() {
        // SAFETY: only called in callbacks of that CPU.
        unsafe { machine.scores.of(said as usize) }.page.set(page);
    }
}

/// What an access does, by [`on_data`]'s word.
fn access(word: usize) -> Access {
    match (word & STORE != 0, word & ATOMIC != 0) {
        (false, _) => Access::Load,
        (true, false) => Access::Store,
        (true, true) => Access::Atomic,
    }
}

/// As [`on_data`], in a run that is sampled: most accesses end here.
pub extern "C" fn on_sampled_data(said: c_uint, info: u32, vaddr: u64, word: *mut c_void) {
    if let Some(machine) = machine()
        // SAFETY: as in `with_cpu`.
        && let Some(cpu) = unsafe { machine.cpus.get(said as usize) }
        && cpu.model.leaves_out(vaddr, access(word as usize))
    {
        return;
    }
    on_data(said, info, vaddr, word);
}

/// An instruction that accesses memory, and what [`on_data`] would get for it.
#[derive(Debug)]
pub struct Site {
    pub code: Code,
    pub word: usize,
    pub flow: Flow,
}

/// What the access means for who called whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing.
    GoesOn,
    /// Where a call comes back to is written there.
    Calls,
    /// Where a return goes is read there.
    Returns,
}

/// As [`on_data`], where it is asked which instructions take lines from other CPUs, and which wait for memory.
pub extern "C" fn on_traced_data(said: c_uint, info: u32, vaddr: u64, site: *mut c_void) {
    // SAFETY: the word that `on_access` gave, a site that is never freed.
    let site = unsafe { &*site.cast::<Site>() };
    let mut stalled = 0;
    with_cpu(said, |machine, cpu| {
        machine.keep_in_step((machine.index(said as usize), cpu), vaddr);
        stalled = cpu.model.modelled_stall_millicycles();
    });
    on_data(said, info, vaddr, site.word as *mut c_void);
    with_cpu(said, |machine, cpu| {
        let index = machine.index(said as usize);
        let accessed = (vaddr, access(site.word));
        machine.note_place((index, cpu), &site.code, accessed, stalled);
        match site.flow {
            Flow::GoesOn => {}
            Flow::Calls => cpu.calls(&site.code, vaddr),
            Flow::Returns => cpu.calls.returns(vaddr),
        }
    });
}

#[inline(never)]
pub extern "C" fn on_data(said: c_uint, info: u32, vaddr: u64, word: *mut c_void) {
    let word = word as usize;
    let mode = if word & KERNEL != 0 { Mode::Kernel } else { Mode::User };
    let access = access(word);
    with_cpu(said, |machine, cpu| {
        // SAFETY: what QEMU says of this access, asked while it lasts.
        let bytes = 1 << unsafe { qemu::qemu_plugin_mem_size_shift(info) };
        let Some(mut tables) = machine.tables(cpu) else { return };
        cpu.model.data(vaddr, bytes, access, mode, &mut tables);
        if machine.arguments.checks_translations && cpu.turns.is_next(vaddr) {
            machine.check(cpu, vaddr, || where_it_went(info, vaddr));
        }
    });
}

/// The physical address of an access of memory by QEMU, asked while it lasts. Above a program's half,
/// QEMU 10.0 ends itself where the access was of a device.
fn where_it_went(info: u32, vaddr: u64) -> Option<u64> {
    // SAFETY: this is the access's own callback; what QEMU gives is good in it.
    unsafe {
        let place = qemu::qemu_plugin_get_hwaddr(info, vaddr);
        (!place.is_null() && !qemu::qemu_plugin_hwaddr_is_io(place))
            .then(|| qemu::qemu_plugin_hwaddr_phys_addr(place))
    }
}

pub extern "C" fn on_write_root(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        set_page(machine, said, NO_PAGE);
        cpu.stale();
    });
}

pub extern "C" fn on_flush_all(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        set_page(machine, said, NO_PAGE);
        cpu.stale();
        cpu.model.flush_all();
    });
}

pub extern "C" fn on_flush_page(said: c_uint, register: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        set_page(machine, said, NO_PAGE);
        let vaddr = cpu.registers.read(Register::General(register as usize as u8));
        cpu.places.forget();
        cpu.model.flush_page(vaddr);
    });
}

pub extern "C" fn on_switch(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        let task = cpu.registers.read(Register::ARGUMENTS[1]);
        catch_up(machine, said, cpu);
        machine.switched((machine.index(said as usize), cpu), task);
    });
}

pub extern "C" fn on_allocated(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| machine.allocated(&mut cpu.registers));
}

pub extern "C" fn on_pause(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| machine.pauses((machine.index(said as usize), cpu)));
}

pub extern "C" fn on_created(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        let task = cpu.registers.read(Register::ARGUMENTS[0]);
        machine.created(task);
    });
}

pub extern "C" fn on_wakes(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        let [task, states] = [0, 1].map(|nr| cpu.registers.read(Register::ARGUMENTS[nr]));
        machine.wakes(machine.index(said as usize), task, states as u32);
    });
}

pub extern "C" fn on_ended(said: c_uint, _word: *mut c_void) {
    with_cpu(said, |machine, cpu| {
        let task = cpu.registers.read(Register::ARGUMENTS[0]);
        machine.ended(task);
    });
}
