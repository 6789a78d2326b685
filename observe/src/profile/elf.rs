//! What is needed of a program's or library's file: names of functions and variables, unwind tables, code.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

/// The smallest there are.
const PAGE_BYTES: u64 = 4096;

/// A file larger than this is left alone: its symbols would take as much memory again.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A loaded file. Addresses in it are those that the file states.
pub struct Elf {
    bytes: Vec<u8>,
    /// Place in memory and place in the file of each part that is loaded.
    segments: Vec<(Range<u64>, Range<u64>)>,
    /// Of those that are code.
    code: Vec<(Range<u64>, Range<u64>)>,
    functions: Symbols,
    variables: Symbols,
    sections: ExplicitModuleSectionInfo<Arc<[u8]>>,
}

/// Names of places, sorted.
#[derive(Default)]
struct Symbols(Vec<(Range<u64>, String)>);

impl Elf {
    /// Reads a file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let nr_bytes = std::fs::metadata(path)?.len();
        if nr_bytes > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "over 1 GiB"));
        }
        let bytes = std::fs::read(path)?;
        let file = object::File::parse(&*bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let place = |segment: &object::Segment<'_, '_>| {
            let (at, nr) = segment.file_range();
            (segment.address()..segment.address() + segment.size(), at..at + nr)
        };
        let segments = file.segments().map(|segment| place(&segment)).collect();
        let code = file.segments().filter(is_code).map(|segment| place(&segment)).collect();
        let (functions, variables) = symbols(&file);
        let functions = functions.with(unnamed(&file));
        let sections = sections(&file);
        Ok(Self { segments, code, functions, variables, sections, bytes })
    }

    /// The address that a place in the file has where its code is mapped, as the file states it. The kernel maps whole pages:
    /// the first one of the code may begin with the end of what is before it in the file.
    pub fn address_of_code(&self, offset: u64) -> Option<u64> {
        let has = |(_, file): &&(Range<u64>, Range<u64>)| {
            (file.start & !(PAGE_BYTES - 1)..file.end).contains(&offset)
        };
        let (memory, file) = self.code.iter().find(has)?;
        Some(memory.start.wrapping_add(offset).wrapping_sub(file.start))
    }

    /// Whether an address is in a part that is loaded.
    pub fn contains(&self, address: u64) -> bool {
        self.segments.iter().any(|(memory, _)| memory.contains(&address))
    }

    /// The function at an address: where it begins, and its name if it has one.
    pub fn function(&self, address: u64) -> Option<(u64, Option<&str>)> {
        let (range, name) = self.functions.at(address)?;
        Some((range.start, Some(name).filter(|name| !name.is_empty())))
    }

    /// The variable at an address.
    pub fn variable(&self, address: u64) -> Option<&str> {
        self.variables.at(address).map(|(_, name)| name)
    }

    /// The code around an address: where its function begins, the function up to there, and what comes then.
    pub fn code_around(&self, address: u64) -> Option<(u64, &[u8], &[u8])> {
        // No instruction is longer.
        const INSTRUCTION_BYTES_MAX: usize = 15;
        // The address may be the first one behind a function that ends with what was sampled.
        let (range, _) = self.functions.at(address.checked_sub(1)?)?;
        let (memory, file) =
            self.segments.iter().find(|(memory, _)| memory.contains(&range.start))?;
        let at = |address: u64| usize::try_from(file.start + (address - memory.start)).ok();
        let (start, here) = (at(range.start)?, at(address)?);
        let after = self.bytes.get(here..)?;
        let after = &after[..after.len().min(INSTRUCTION_BYTES_MAX)];
        Some((range.start, self.bytes.get(start..here)?, after))
    }

    /// For the unwinder.
    pub fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        self.sections.clone()
    }
}

fn is_code(segment: &object::Segment<'_, '_>) -> bool {
    matches!(segment.flags(), object::SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0)
}

impl Symbols {
    fn of(mut found: Vec<(Range<u64>, String)>) -> Self {
        // Of several names of a place the one with the fewest underscores in front: what people call it.
        let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
        found.sort_by(|(a, a_name), (b, b_name)| {
            let key = |range: &Range<u64>, name: &str| (range.start, underscores(name), range.end);
            key(a, a_name).cmp(&key(b, b_name)).then_with(|| a_name.cmp(b_name))
        });
        found.dedup_by(|later, first| later.0.start == first.0.start);
        Self(found)
    }

    /// With places that have no name, as far as none of ours is there.
    fn with(mut self, unnamed: Vec<Range<u64>>) -> Self {
        let new: Vec<_> =
            unnamed.into_iter().filter(|range| self.at(range.start).is_none()).collect();
        self.0.extend(new.into_iter().map(|range| (range, String::new())));
        self.0.sort_by_key(|(range, _)| range.start);
        self
    }

    fn at(&self, address: u64) -> Option<(Range<u64>, &str)> {
        let after = self.0.partition_point(|(range, _)| range.start <= address);
        let (range, name) = self.0.get(after.checked_sub(1)?)?;
        // No name is stretched over what has none: that would be a wrong one.
        range.contains(&address).then(|| (range.clone(), name.as_str()))
    }
}

fn symbols(file: &object::File<'_>) -> (Symbols, Symbols) {
    let (mut functions, mut variables) = (Vec::new(), Vec::new());
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        if name.is_empty() || symbol.size() == 0 || symbol.is_undefined() {
            continue;
        }
        let list = match symbol.kind() {
            SymbolKind::Text => &mut functions,
            SymbolKind::Data => &mut variables,
            _ => continue,
        };
        let range = symbol.address()..symbol.address().saturating_add(symbol.size());
        list.push((range, readable(name)));
    }
    (Symbols::of(functions), Symbols::of(variables))
}

/// Functions by the unwind tables: there without symbols too, but for names.
fn unnamed(file: &object::File<'_>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return found };
    let Ok(data) = section.uncompressed_data() else { return found };
    let tables = EhFrame::new(&data, NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = tables.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset) {
            found.push(entry.initial_address()..entry.end_address());
        }
    }
    found
}

/// As in the source: without what compilers add.
pub fn readable(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    let name = addr2line::demangle_auto(name.into(), None).into_owned();
    // Parts of a function that the compiler took out of it.
    for made in [".cold", ".part.", ".constprop.", ".isra.", ".llvm."] {
        if let Some(at) = name.find(made) {
            return name[..at].to_owned();
        }
    }
    name
}

fn sections(file: &object::File<'_>) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(Arc::from(&*section.uncompressed_data().ok()?))
    };
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_name_gets_none() {
        let symbols = Symbols::of(vec![
            (0x20..0x30, "b".to_owned()),
            (0x10..0x18, "__a".to_owned()),
            (0x10..0x18, "a".to_owned()),
        ]);
        let name = |at| symbols.at(at).map(|(_, name)| name.to_owned());
        assert_eq!(name(0x0f), None);
        assert_eq!(name(0x17).as_deref(), Some("a"));
        assert_eq!(name(0x18), None);
        assert_eq!(name(0x2f).as_deref(), Some("b"));
        assert_eq!(name(0x30), None);
    }

    #[test]
    fn names_are_those_of_the_source() {
        for (name, expected) in [
            ("count_up", "count_up"),
            ("pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock"),
            ("work.constprop.0", "work"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_Z3fooi", "foo(int)"),
        ] {
            assert_eq!(readable(name), expected);
        }
    }
}
