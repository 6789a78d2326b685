//! Text without a heap, for paths under /proc and /sys.

use std::ffi::CStr;

use quartier_kernel::sys;

/// Writes into a fixed buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// An empty text.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Adds bytes; `None` when they do not fit.
    pub fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.buffer.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    /// Adds a number in decimal.
    pub fn put_number(&mut self, mut number: u32) -> Option<()> {
        let mut digits = [0u8; 10];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return self.put(&digits[at..]);
            }
        }
    }

    /// The text, which must end with a NUL.
    pub fn finish(self) -> Option<&'a CStr> {
        CStr::from_bytes_with_nul(&self.buffer[..self.len]).ok()
    }
}

/// The first bytes of a file, as many as the buffer holds.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let fd = sys::open(path, libc::O_RDONLY).ok()?;
    let count = sys::pread(fd, buffer, 0);
    sys::close(fd);
    buffer.get(..count.ok()?)
}

/// The number after a key, in KiB, as `/proc/meminfo` and its like have it.
pub fn kib_of(text: &[u8], key: &[u8]) -> Option<u64> {
    let at = text.windows(key.len()).position(|window| window == key)?;
    let digits = text[at + key.len()..].iter().skip_while(|byte| **byte == b' ');
    let mut number = None;
    for digit in digits.take_while(|byte| byte.is_ascii_digit()) {
        number =
            Some(number.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_kernels_text() {
        let text = b"Node 0 MemTotal:       16384 kB\nNode 0 MemFree:         1024 kB\n";
        assert_eq!(kib_of(text, b"MemTotal:"), Some(16384));
        assert_eq!(kib_of(text, b"MemFree:"), Some(1024));
        for bad in [&b"MemFree:"[..], b"", b"MemFree: x", b"MemFree: 99999999999999999999999"] {
            assert_eq!(kib_of(bad, b"MemFree:"), None);
        }
    }

    #[test]
    fn what_fits_is_written_and_what_does_not_is_none() {
        let mut buffer = [0u8; 16];
        let mut writer = Writer::new(&mut buffer);
        assert_eq!(writer.put(b"/a/"), Some(()));
        assert_eq!(writer.put_number(u32::MAX), Some(()));
        assert_eq!(writer.put(b"1234"), None);
        assert_eq!(writer.put(b"\0"), Some(()));
        assert_eq!(writer.finish(), Some(c"/a/4294967295"));
    }
}
