//! The "newc" cpio format, which the kernel unpacks as its first root file system.
//!
//! Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

/// An archive being written in memory.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

const TRAILER: &str = "TRAILER!!!";
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

impl Archive {
    /// Adds a directory. Parents must be added first.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
    }

    /// Adds a file that may be executed.
    pub fn executable(&mut self, path: &str, content: &[u8]) {
        self.entry(path, FILE | 0o755, (0, 0), content);
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, FILE | 0o644, (0, 0), content);
    }

    /// Adds a symbolic link.
    pub fn symbolic_link(&mut self, path: &str, target: &[u8]) {
        self.entry(path, SYMBOLIC_LINK | 0o777, (0, 0), target);
    }

    /// Adds a character device.
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, CHARACTER_DEVICE | 0o600, (major, minor), &[]);
    }

    /// The finished archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let path = path.trim_start_matches('/');
        self.inode += 1;
        let size = u32::try_from(content.len()).expect("no file of an initramfs reaches 4 GiB");
        let name_size = path.len() as u32 + 1;
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads (path, mode, content) back, independently of the writer.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let field = |index: usize| {
                let text = std::str::from_utf8(&bytes[6 + index * 8..14 + index * 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            assert_eq!(&bytes[..6], b"070701", "at {at}");
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&bytes[110..110 + name_size - 1]).unwrap().to_owned();
            let start = (110 + name_size).next_multiple_of(4);
            let end = (start + size).next_multiple_of(4);
            if name == TRAILER {
                return entries;
            }
            entries.push((name, mode as u32, bytes[start..start + size].to_vec()));
            bytes = &bytes[end..];
            at += end;
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut archive = Archive::default();
        archive.directory("/bin");
        archive.executable("/bin/abc", b"12345");
        archive.symbolic_link("/sbin", b"usr/sbin");
        archive.character_device("dev/console", 5, 1);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(
            read(&bytes),
            [
                ("bin".to_owned(), 0o040_755, vec![]),
                ("bin/abc".to_owned(), 0o100_755, b"12345".to_vec()),
                ("sbin".to_owned(), 0o120_777, b"usr/sbin".to_vec()),
                ("dev/console".to_owned(), 0o020_600, vec![]),
            ]
        );
    }

    #[test]
    fn every_length_of_name_and_content_is_padded() {
        for name in 1..9 {
            for size in 0..9 {
                let mut archive = Archive::default();
                archive.file(&"n".repeat(name), &vec![7; size]);
                let entries = read(&archive.finish());
                assert_eq!((entries[0].0.len(), entries[0].2.len()), (name, size));
            }
        }
    }
}
