//! Reads the header of a Linux x86 boot image (Documentation/arch/x86/boot.rst of the kernel).

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::error::{Context, Error, Result};

/// How much of the image holds the setup header and the version text.
const HEADER_BYTES: u64 = 64 << 10;

/// The release (`uname -r`) of a boot image.
///
/// # Errors
/// When the file cannot be read or is not a boot image.
pub fn release(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).path("open", path)?;
    file.take(HEADER_BYTES).read_to_end(&mut bytes).path("read", path)?;
    parse(&bytes).ok_or_else(|| {
        Error::refused(format!(
            "{} is not a Linux x86-64 kernel: it has no boot header; give the path of a vmlinuz \
             or bzImage",
            path.display()
        ))
    })
}

/// The kernel itself, of an image that has it compressed by zstd, if a machine can begin with it (PVH): an emulated
/// processor would unpack it for seconds at each boot. `None`: the image has to be booted.
///
/// # Errors
/// When the file cannot be read.
pub fn unpacked(path: &Path) -> Result<Option<Vec<u8>>> {
    let bytes = fs::read(path).path("read", path)?;
    Ok(unpack(&bytes).filter(|kernel| begins_by_pvh(kernel)))
}

fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    // The payload's place is told from protocol 2.08 on, and counts from the end of the setup code.
    if !is_image(bytes)? || u16_at(bytes, 0x206)? < 0x208 {
        return None;
    }
    let nr_sectors = match *bytes.get(0x1f1)? {
        0 => 4,
        nr => usize::from(nr),
    };
    let begin = (nr_sectors + 1) * 512 + u32_at(0x248)? as usize;
    let payload = bytes.get(begin..)?.get(..u32_at(0x24c)? as usize)?;
    let mut kernel = Vec::new();
    // What is packed otherwise is refused by its first bytes. It ends with its frame; what follows is the size, for the
    // kernel's own use.
    ruzstd::decoding::StreamingDecoder::new(payload).ok()?.read_to_end(&mut kernel).ok()?;
    Some(kernel)
}

/// Whether it tells where to begin in 32 bits without a boot loader: QEMU and Xen look for this note.
fn begins_by_pvh(kernel: &[u8]) -> bool {
    /// `XEN_ELFNOTE_PHYS32_ENTRY`.
    const ENTRY: u32 = 18;
    let Ok(header) = FileHeader64::<LittleEndian>::parse(kernel) else { return false };
    let Ok(segments) = header.program_headers(LittleEndian, kernel) else { return false };
    segments.iter().filter_map(|segment| segment.notes(LittleEndian, kernel).ok()?).any(
        |mut notes| {
            std::iter::from_fn(|| notes.next().ok()?)
                .any(|note| note.name() == b"Xen" && note.n_type(LittleEndian) == ENTRY)
        },
    )
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn is_image(bytes: &[u8]) -> Option<bool> {
    Some(u16_at(bytes, 0x1fe)? == 0xaa55 && bytes.get(0x202..0x206)? == b"HdrS")
}

fn parse(bytes: &[u8]) -> Option<String> {
    let version_at = usize::from(u16_at(bytes, 0x20e)?) + 0x200;
    if !is_image(bytes)? || version_at == 0x200 {
        return None;
    }
    let text = bytes.get(version_at..)?;
    let text = &text[..text.iter().position(|&byte| byte == 0)?];
    let release = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    Some(release.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&[0x00, 0x01]);
        bytes[0x300..0x312].copy_from_slice(b"6.12.95-x (build@)");
        bytes
    }

    #[test]
    fn the_release_is_in_the_header() {
        assert_eq!(parse(&image()).as_deref(), Some("6.12.95-x"));
    }

    /// What is no kernel, is not packed, is cut or ends somewhere else is booted as it is.
    #[test]
    fn an_image_that_cannot_be_unpacked_is_left() {
        let mut bytes = image();
        bytes[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
        assert_eq!(unpack(&bytes), None, "no payload");
        bytes[0x1f1] = 1;
        bytes[0x24c..0x250].copy_from_slice(&13_u32.to_le_bytes());
        assert_eq!(unpack(&bytes), None, "nothing there");
        // A frame of one raw block of four bytes, and the size.
        bytes.extend(b"\x28\xb5\x2f\xfd\x20\x04\x21\x00\x00\x7fELF");
        assert_eq!(unpack(&bytes).as_deref(), Some(&b"\x7fELF"[..]));
        assert!(!begins_by_pvh(b"\x7fELF"));
        for end in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..end]), None, "{end}");
        }
        bytes[0x248..0x24c].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpack(&bytes), None, "outside");
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(parse(b"\x7fELF"), None);
        let mut without_magic = image();
        without_magic[0x202] = 0;
        assert_eq!(parse(&without_magic), None);
        let mut outside = image();
        outside[0x20e..0x210].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(parse(&outside), None);
        let path = Path::new("/etc/hostname");
        assert!(release(path).unwrap_err().to_string().contains("not a Linux"));
    }
}
