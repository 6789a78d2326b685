//! From the kernel's records to a recording: stacks unwound and named, in the order of time.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use quartier_model::{Event, Frame, Happening, KERNEL_MODULE, Recording, Touch};

use super::asleep::Asleep;
use super::kernel::Kernel;
use super::modules::Modules;
use super::records::{Record, Sample, What};
use super::sites::{self, Block, Lives, Sites};
use super::space::{Place, Space, UnwindCache};

/// Puts a recording together.
pub struct Assembler {
    kernel: Kernel,
    modules: Modules,
    spaces: BTreeMap<u32, Space>,
    cache: UnwindCache,
    stacks: HashMap<Vec<Place>, u32>,
    objects: HashMap<String, u32>,
    /// Functions of the kernel in which threads were seen waiting.
    waits_in: HashMap<String, u32>,
    /// Where it is noted who allocates what, if it is.
    allocations: Option<PathBuf>,
    lives: Lives,
    /// Events with an address that no file has a name for, and the process: what is allocated has one in the end.
    nameless: Vec<(usize, u32)>,
    recording: Recording,
}

impl Assembler {
    /// Paths of programs and libraries begin at `root`.
    pub fn new(root: &Path, kernel: Kernel, is_user_only: bool) -> Self {
        Self {
            kernel,
            modules: Modules::new(root),
            spaces: BTreeMap::new(),
            cache: UnwindCache::new(),
            stacks: HashMap::new(),
            objects: HashMap::new(),
            waits_in: HashMap::new(),
            allocations: None,
            lives: Lives::default(),
            nameless: Vec::new(),
            recording: Recording { is_user_only, ..Recording::default() },
        }
    }

    /// Names memory by a table of who allocated it.
    pub fn naming_allocations(self, allocations: Option<PathBuf>) -> Self {
        Self { allocations, ..self }
    }

    /// Takes a record; those of a moment before an earlier one's come too late.
    pub fn take(&mut self, record: Record) {
        let Record { at_ns, pid, tid, what } = record;
        let mut what = match what {
            What::Came => Happening::Came,
            What::Woken => Happening::Woken,
            What::Left { is_preempted } => Happening::Left { is_preempted },
            What::Ended => Happening::Ended,
            What::Sample(sample) => self.sample(pid, &sample),
            What::Asleep(asleep) => self.asleep(pid, &asleep),
            What::Mapped { start, bytes, offset, path } => {
                let space = self.spaces.entry(pid).or_insert_with(Space::new);
                return space.map(start, bytes, offset, &path, &mut self.modules);
            }
            What::Executed => {
                self.lives.executed(pid, at_ns);
                return drop(self.spaces.insert(pid, Space::new()));
            }
            What::Made { pid, tid, parent } => {
                if pid == tid && pid != parent {
                    self.lives.made(pid, parent, at_ns);
                    if let Some(space) = self.spaces.get(&parent).cloned() {
                        self.spaces.insert(pid, space);
                    }
                }
                return self.recording.events.push(Event { at_ns, tid, what: Happening::Made });
            }
            What::Lost(nr) => return self.recording.nr_lost += nr,
        };
        let is_nameless = touch(&mut what).is_some_and(|touch| touch.object.is_none());
        if is_nameless && self.allocations.is_some() {
            self.nameless.push((self.recording.events.len(), pid));
        }
        self.recording.events.push(Event { at_ns, tid, what });
    }

    fn sample(&mut self, pid: u32, sample: &Sample) -> Happening {
        let space = self.spaces.entry(pid).or_insert_with(Space::new);
        let mut places: Vec<_> = sample.kernel.iter().map(|at| Place::Kernel(*at)).collect();
        match &sample.registers {
            Some(registers) => {
                places.extend(space.unwind(registers, &sample.stack, &mut self.cache));
            }
            // Return addresses but for the first.
            None => places.extend(sample.user.iter().map(|at| space.place(at.saturating_sub(1)))),
        }
        let touch = sample.registers.as_ref().and_then(|registers| {
            let (address, is_write) = if sample.is_user {
                let Some(Place::Module(module, ip)) = places.first() else { return None };
                if self.modules.name(*module) == sites::LIBRARY {
                    return None;
                }
                let operand = self.modules.operand_near(*module, *ip)?;
                let address = operand.address(registers, space.bias(*module)?);
                (address, operand.is_write)
            } else if places.iter().any(|place| self.kernel.is_futex(*place)) {
                (registers.futex(), true)
            } else {
                return None;
            };
            let object = object(&mut self.objects, &self.modules, space, address);
            Some(Touch { address, object, is_write })
        });
        places.reverse();
        let stack = intern(&mut self.stacks, places);
        if !sample.waits {
            return Happening::Ran { stack, touch };
        }
        let is_locked = touch.is_some() && sample.registers.is_some_and(|of| of.is_futex_locked());
        Happening::Waits { stack, word: touch, is_locked }
    }

    fn asleep(&mut self, pid: u32, asleep: &Asleep) -> Happening {
        let space = self.spaces.entry(pid).or_insert_with(Space::new);
        let waits_in = Place::Waits(intern(&mut self.waits_in, asleep.waits_in.clone()));
        let stack = intern(&mut self.stacks, vec![space.place(asleep.ip), waits_in]);
        let address = asleep.word;
        let word = asleep.waits_in.contains("futex").then(|| {
            let object = object(&mut self.objects, &self.modules, space, address);
            Touch { address, object, is_write: true }
        });
        Happening::Asleep { stack, word, is_locked: word.is_some() && asleep.is_locked }
    }

    /// The recording, with names.
    pub fn finish(mut self) -> Recording {
        self.name_allocations();
        let mut recording = std::mem::take(&mut self.recording);
        let mut ids = HashMap::new();
        let mut named = HashMap::new();
        for places in in_order(std::mem::take(&mut self.stacks)) {
            let mut stack = Vec::new();
            for place in places {
                let frames = named.entry(place).or_insert_with(|| self.frames(place));
                stack.extend(frames.iter().map(|frame: &Frame| intern(&mut ids, frame.clone())));
            }
            recording.stacks.push(stack);
        }
        recording.frames = in_order(ids);
        recording.objects = in_order(self.objects);
        recording
    }

    /// Memory that no file has a name for gets that of whoever allocated it.
    fn name_allocations(&mut self) {
        let Some(table) = self.allocations.take() else { return };
        // What cannot be read has no names.
        let Ok(sites) = Sites::read(&table) else { return };
        let spaces = std::mem::take(&mut self.spaces);
        let mut events = std::mem::take(&mut self.recording.events);
        let mut known: HashMap<(u32, u32, u64), Option<(u32, bool)>> = HashMap::new();
        for (at, pid) in std::mem::take(&mut self.nameless) {
            let Event { at_ns, what, .. } = &mut events[at];
            let (Some(touch), Some(space)) = (touch(what), spaces.get(&pid)) else { continue };
            let Some(found) = sites.find(&self.lives, pid, touch.address, *at_ns) else { continue };
            let site = known
                .entry((pid, found.process, found.start))
                .or_insert_with(|| self.site(space, found.block));
            if let Some((object, is_alone)) = *site
                && found.block.was_there(found.until_ns, is_alone)
            {
                touch.object = Some(object);
            }
        }
        self.recording.events = events;
    }

    /// The name of a block, and whether that follows from its call alone, and not from who called before.
    fn site(&mut self, space: &Space, block: &Block) -> Option<(u32, bool)> {
        let places = space.callers(block.returns_to, &block.stack, &mut self.cache);
        let (site, is_alone) = sites::site(places, |place| self.frames(place))?;
        Some((intern(&mut self.objects, sites::name(&site)), is_alone))
    }

    fn frames(&mut self, place: Place) -> Vec<Frame> {
        let module = KERNEL_MODULE.to_owned();
        let (function, module) = match place {
            // What it does is its caller's.
            Place::Module(module, _) if self.modules.name(module) == sites::LIBRARY => {
                return Vec::new();
            }
            Place::Module(module, address) => return self.modules.frames(module, address),
            Place::Kernel(address) => {
                (self.kernel.function(address).unwrap_or("kernel").to_owned(), module)
            }
            Place::Waits(name) => {
                let known = self.waits_in.iter().find(|(_, number)| **number == name);
                (known.map_or_else(String::new, |(name, _)| name.clone()), module)
            }
            Place::Made => ("code without a file".to_owned(), "[made]".to_owned()),
        };
        vec![Frame { function, module, line: None }]
    }
}

impl Kernel {
    fn is_futex(&self, place: Place) -> bool {
        let Place::Kernel(address) = place else { return false };
        self.function(address).is_some_and(|name| name.starts_with("futex_"))
    }
}

/// The address of an event.
fn touch(what: &mut Happening) -> Option<&mut Touch> {
    match what {
        Happening::Ran { touch, .. } => touch.as_mut(),
        Happening::Waits { word, .. } | Happening::Asleep { word, .. } => word.as_mut(),
        _ => None,
    }
}

/// The variable at an address.
fn object(
    objects: &mut HashMap<String, u32>,
    modules: &Modules,
    space: &Space,
    address: u64,
) -> Option<u32> {
    let (module, at) = space.data(address, modules)?;
    let name = modules.elf(module)?.variable(at)?.to_owned();
    Some(intern(objects, name))
}

fn intern<T: std::hash::Hash + Eq>(known: &mut HashMap<T, u32>, new: T) -> u32 {
    let next = known.len() as u32;
    *known.entry(new).or_insert(next)
}

/// By their numbers.
fn in_order<T>(known: HashMap<T, u32>) -> Vec<T> {
    let mut all: Vec<_> = known.into_iter().collect();
    all.sort_by_key(|(_, number)| *number);
    all.into_iter().map(|(thing, _)| thing).collect()
}
