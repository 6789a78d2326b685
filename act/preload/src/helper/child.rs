//! Children of forks that the C library did not make: the kernel tells us of them (`CAP_SYS_PTRACE`).

use quartier_kernel::sys::{self, PAGE};
use quartier_kernel::uffd::{MESSAGE_BYTES, Message, Uffd};
use syscalls::Errno;

use super::serve::Server;

impl Server {
    /// A child was forked past the C library: it gets a copy of all that it would miss.
    pub(super) fn serve_child(&mut self, child: Uffd) {
        // What has arrived first: the rest may have left from there.
        for at in (0..self.regions.len()).rev() {
            let region = self.regions.nth(at);
            let (first, last) = (region.shadow_of(region.start), region.shadow_of(region.end));
            for run in self.pagemap.runs(first, last).map_while(Result::ok) {
                self.copy_to_child(child, region.shadow_delta, run.start(), run.end());
            }
        }
        sys::close(child.0);
    }

    fn copy_to_child(&mut self, child: Uffd, shadow_delta: usize, first: usize, last: usize) {
        let mut at = first;
        let mut whole = true;
        while at < last {
            let len = if whole { last - at } else { PAGE };
            // SAFETY: the shadow holds what the child believes is at that address.
            let (done, result) = unsafe { child.copy(at.wrapping_sub(shadow_delta), at, len) };
            at += done;
            match result {
                Ok(_) => {}
                Err(Errno::EAGAIN) if done > 0 => {}
                Err(Errno::EAGAIN) => self.read_child(child),
                Err(Errno::ESRCH) => return,
                // Several mappings, or a page that is there: page by page.
                Err(_) if whole => whole = false,
                Err(_) => at += PAGE,
            }
        }
    }

    /// The child changes its own mappings before it has all its data. Its own children are served
    /// too; what it unmaps it does not miss.
    fn read_child(&mut self, child: Uffd) {
        let mut message = [0u8; MESSAGE_BYTES];
        while sys::read(child.0, &mut message) == Ok(MESSAGE_BYTES) {
            if let Message::Fork { uffd } = Message::parse(&message) {
                self.serve_child(Uffd(uffd));
            }
        }
    }
}
