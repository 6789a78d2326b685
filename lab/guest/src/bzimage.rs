//! Reads the header of a Linux x86 boot image (Documentation/arch/x86/boot.rst of the kernel).

use std::fs::File;
use std::io::Read;
use std::path::Path;

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

fn parse(bytes: &[u8]) -> Option<String> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let is_kernel = u16_at(0x1fe)? == 0xaa55 && bytes.get(0x202..0x206)? == b"HdrS";
    let version_at = usize::from(u16_at(0x20e)?) + 0x200;
    if !is_kernel || version_at == 0x200 {
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
