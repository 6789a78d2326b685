//! The programs and libraries that were seen, each read once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use quartier_model::Frame;

use super::elf::Elf;
use super::operand::Operand;

/// Which module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);

/// Every module.
pub struct Modules {
    /// Where their paths begin.
    root: PathBuf,
    ids: BTreeMap<String, ModuleId>,
    all: Vec<Module>,
}

struct Module {
    /// As the kernel calls it.
    path: String,
    /// Absent: no file, or none that can be read.
    elf: Option<Elf>,
    /// Lines in the source, read when they are first asked for.
    lines: Option<Option<Loader>>,
    operands: BTreeMap<u64, Option<Operand>>,
}

impl Modules {
    /// None yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), ids: BTreeMap::new(), all: Vec::new() }
    }

    /// The module of a path.
    pub fn of(&mut self, path: &str) -> ModuleId {
        if let Some(id) = self.ids.get(path) {
            return *id;
        }
        let file = full_path(&self.root, path);
        let elf = file.and_then(|file| Elf::read(&file).ok());
        let id = ModuleId(self.all.len() as u32);
        let module = Module { path: path.to_owned(), elf, lines: None, operands: BTreeMap::new() };
        self.all.push(module);
        self.ids.insert(path.to_owned(), id);
        id
    }

    /// What is known of its file.
    pub fn elf(&self, id: ModuleId) -> Option<&Elf> {
        self.all[id.0 as usize].elf.as_ref()
    }

    /// Its file's name.
    pub fn name(&self, id: ModuleId) -> &str {
        file_name(&self.all[id.0 as usize].path)
    }

    /// What the code at a sampled address accesses.
    pub fn operand_near(&mut self, id: ModuleId, address: u64) -> Option<Operand> {
        let Module { elf, operands, .. } = &mut self.all[id.0 as usize];
        *operands.entry(address).or_insert_with(|| {
            let (start, before, after) = elf.as_ref()?.code_around(address)?;
            Operand::near(start, before, after)
        })
    }

    /// The places of an address, from the outermost function to what was inlined into it.
    pub fn frames(&mut self, id: ModuleId, address: u64) -> Vec<Frame> {
        let root = self.root.clone();
        let module = &mut self.all[id.0 as usize];
        let name = file_name(&module.path).to_owned();
        let lines = module.lines.get_or_insert_with(|| {
            // Without an ELF file there are no lines either.
            module.elf.as_ref()?;
            Loader::new(full_path(&root, &module.path)?).ok()
        });
        let mut frames =
            lines.as_ref().map_or_else(Vec::new, |lines| inlined(lines, address, &name));
        if frames.is_empty() {
            let known = module.elf.as_ref().and_then(|elf| elf.function(address));
            let function = match known {
                Some((_, Some(function))) => function.to_owned(),
                Some((start, None)) => format!("{name}+{start:#x}"),
                None => format!("{name}+{address:#x}"),
            };
            frames.push(Frame { function, module: name, line: None });
        }
        frames
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn full_path(root: &Path, path: &str) -> Option<PathBuf> {
    Some(root.join(path.strip_prefix('/')?))
}

/// What the file's debugging information says of an address; nothing if it says nothing.
fn inlined(lines: &Loader, address: u64, module: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Ok(mut found) = lines.find_frames(address) else { return frames };
    while let Ok(Some(frame)) = found.next() {
        let Some(function) = frame.function else { return Vec::new() };
        let Ok(name) = function.demangle() else { return Vec::new() };
        let line = frame.location.and_then(|at| Some((at.file?, at.line?)));
        let line =
            line.map(|(file, line)| format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)));
        let module = module.to_owned();
        frames.push(Frame { function: super::elf::readable(&name), module, line });
    }
    frames.reverse();
    frames
}
