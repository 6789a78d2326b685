//! Kernel modules: which a guest needs, in which order to load them.
//!
//! Packages ship no modules.dep (depmod writes it when they are installed), so dependencies are
//! read from the modules themselves.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use crate::error::{Context, Error, Result};

/// What the agent needs before it can reach the host's files.
pub const NEEDED: [&str; 4] = ["virtio_pci", "virtio_console", "virtiofs", "overlay"];

/// A module, ready to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Its ELF image, decompressed.
    pub image: Vec<u8>,
}

/// The modules of one kernel: a `/lib/modules/RELEASE` folder.
#[derive(Debug)]
pub struct ModuleTree {
    files: HashMap<String, PathBuf>,
}

/// Module names treat `-` and `_` as one.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// The module name of a file such as `virtio-rng.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.split_once(".ko").filter(|(_, rest)| matches!(*rest, "" | ".xz" | ".zst"))?.0;
    Some(canonical(stem))
}

impl ModuleTree {
    /// Lists the modules under `root`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open(root: &Path) -> Result<Self> {
        let mut files = HashMap::new();
        let mut folders = vec![root.join("kernel")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).path("read", &folder)? {
                let entry = entry.path("read", &folder)?;
                let path = entry.path();
                if entry.file_type().path("look at", &path)?.is_dir() {
                    folders.push(path);
                } else if let Some(name) = module_name(&path) {
                    files.insert(name, path);
                }
            }
        }
        Ok(Self { files })
    }

    /// The modules that have to be loaded for `names`, dependencies first. A name without a file
    /// is taken to be built in: should it not be, the guest says so.
    ///
    /// # Errors
    /// When a module cannot be read.
    pub fn load_order(&self, names: &[&str]) -> Result<Vec<Module>> {
        load_order(names, |name| self.files.get(name).map(|path| read_module(path)).transpose())
    }
}

/// Depth first, each module once; a cycle ends where it closes.
fn load_order(
    names: &[&str],
    mut image_of: impl FnMut(&str) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<Module>> {
    enum Step {
        Visit(String),
        Emit(Module),
    }
    let mut seen = Vec::new();
    let mut order = Vec::new();
    let mut stack: Vec<_> = names.iter().rev().map(|name| Step::Visit(canonical(name))).collect();
    while let Some(step) = stack.pop() {
        match step {
            Step::Emit(module) => order.push(module),
            Step::Visit(name) if seen.contains(&name) => {}
            Step::Visit(name) => {
                seen.push(name.clone());
                let Some(image) = image_of(&name)? else { continue };
                let dependencies = dependencies(&name, &image)?;
                stack.push(Step::Emit(Module { name, image }));
                stack.extend(dependencies.into_iter().rev().map(Step::Visit));
            }
        }
    }
    Ok(order)
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).path("read", path)?;
    let mut image = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => {
            let mut reader = lzma_rust2::XzReader::new(bytes.as_slice(), true);
            reader.read_to_end(&mut image).path("decompress", path)?;
        }
        Some("zst") => {
            let mut reader = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice())
                .map_err(std::io::Error::other)
                .path("decompress", path)?;
            reader.read_to_end(&mut image).path("decompress", path)?;
        }
        _ => image = bytes,
    }
    Ok(image)
}

/// The names in a module's `depends=` line and its soft dependencies to load before it.
fn dependencies(name: &str, image: &[u8]) -> Result<Vec<String>> {
    let section = object::File::parse(image)
        .ok()
        .and_then(|file| file.section_by_name(".modinfo")?.data().ok().map(<[u8]>::to_vec))
        .ok_or_else(|| {
            Error::refused(format!("the kernel module {name} is damaged: fetch the kernel again"))
        })?;
    Ok(parse_modinfo(&section))
}

fn parse_modinfo(section: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for line in section.split(|&byte| byte == 0).filter_map(|line| std::str::from_utf8(line).ok()) {
        if let Some(list) = line.strip_prefix("depends=") {
            names.extend(list.split(',').filter(|name| !name.is_empty()).map(canonical));
        } else if let Some(list) = line.strip_prefix("softdep=pre:") {
            let before = list.split("post:").next().unwrap_or_default();
            names.extend(before.split_whitespace().map(canonical));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_files() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("a/virtio-rng.ko.xz").as_deref(), Some("virtio_rng"));
        assert_eq!(name("fuse.ko").as_deref(), Some("fuse"));
        assert_eq!(name("x.ko.zst").as_deref(), Some("x"));
        assert_eq!(name("modules.order"), None);
        assert_eq!(name("x.ko.sig"), None);
    }

    #[test]
    fn dependencies_come_from_modinfo() {
        let section = b"license=GPL\0depends=virtio_ring,virtio\0softdep=pre: crc-x y post: z\0";
        assert_eq!(parse_modinfo(section), ["virtio_ring", "virtio", "crc_x", "y"]);
        assert!(parse_modinfo(b"depends=\0\0\xff\xfe").is_empty());
    }

    /// A relocatable object with nothing but a `.modinfo`.
    fn module(depends: &str) -> Vec<u8> {
        use object::write::{Object as Writer, StandardSegment};
        let mut file = Writer::new(
            object::BinaryFormat::Elf,
            object::Architecture::X86_64,
            object::Endianness::Little,
        );
        let segment = file.segment_name(StandardSegment::Data).to_vec();
        let section =
            file.add_section(segment, b".modinfo".to_vec(), object::SectionKind::ReadOnlyData);
        file.append_section_data(section, format!("depends={depends}\0").as_bytes(), 1);
        file.write().unwrap()
    }

    fn order(names: &[&str], graph: &[(&str, &str)]) -> Vec<String> {
        let find = |name: &str| {
            Ok(graph.iter().find(|(known, _)| *known == name).map(|(_, needs)| module(needs)))
        };
        load_order(names, find).unwrap().into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn dependencies_load_first_and_once() {
        let graph = [
            ("virtiofs", "fuse,virtio"),
            ("fuse", ""),
            ("virtio_pci", "virtio_ring,virtio"),
            ("virtio_ring", "virtio"),
            ("virtio", ""),
        ];
        assert_eq!(
            order(&["virtio-pci", "virtiofs", "overlay"], &graph),
            ["virtio", "virtio_ring", "virtio_pci", "fuse", "virtiofs"]
        );
    }

    #[test]
    fn a_cycle_ends() {
        assert_eq!(order(&["a"], &[("a", "b"), ("b", "a")]), ["b", "a"]);
    }

    #[test]
    fn a_damaged_module_is_an_error() {
        assert!(load_order(&["a"], |_| Ok(Some(b"junk".to_vec()))).is_err());
    }
}
