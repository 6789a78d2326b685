//! Copying: what lies on another node is allocated anew on the right one.

use quartier_kernel::sys::{self, PAGE};
use syscalls::Errno;

use super::mates::{self, Job};
use super::regions::Region;
use super::serve::Server;

/// Bytes copied before their old pages are freed. Fewer pages than 34 are flushed from the TLB one by
/// one, which costs more than all at once; many more leave the cache before they are used again.
pub(super) const COPY_CHUNK: usize = 256 << 10;

impl Server {
    /// Copies `[first, last)` of the shadow to the program, allocating on `node`, and empties it.
    pub(super) fn copy_back(
        &mut self,
        region: &Region,
        first: usize,
        last: usize,
        node: u32,
    ) -> Result<(), Errno> {
        self.station.go_to(node);
        if self.nr_mates == 0 || last - first <= COPY_CHUNK {
            return self.copy_alone(region, first, last);
        }
        let to_program = region.shadow_delta.wrapping_neg();
        let job = Job { uffd: self.uffd, first, last, to_program, node };
        // SAFETY: the shadow holds what the program has there.
        let lefts = unsafe { mates::copy(job, self.nr_mates) };
        self.uffd.wake(first.wrapping_add(to_program), last - first);
        for left in lefts.into_iter().flatten() {
            if left.error == Errno::EAGAIN {
                return Err(Errno::EAGAIN);
            }
            // What mates could not copy is left to one who knows every case.
            self.copy_alone(region, left.from, left.to)?;
        }
        Ok(())
    }

    /// Chunk by chunk, so that pages just freed are used again while they are in the cache; who waits
    /// is woken once, after the last, since a sweep would only wait for the next chunk again.
    fn copy_alone(&mut self, region: &Region, first: usize, last: usize) -> Result<(), Errno> {
        let start = first.wrapping_sub(region.shadow_delta);
        let (mut at, mut chunk) = (first, COPY_CHUNK);
        let in_one = last - first <= COPY_CHUNK;
        let mut woken = in_one;
        let mut result = Ok(());
        while at < last {
            let len = chunk.min(last - at);
            let dst = start + (at - first);
            // SAFETY: the shadow holds what the program has at `dst`.
            let (done, copied) = unsafe {
                match in_one {
                    true => self.uffd.copy(dst, at, len),
                    false => self.uffd.copy_quietly(dst, at, len),
                }
            };
            at += done;
            if at == last && !woken {
                // Before the last pages are freed, which takes as long as to wake somebody.
                self.uffd.wake(start, last - first);
                woken = true;
            }
            self.drop_shadow(at - done, done);
            match copied {
                Ok(_) => {}
                Err(Errno::EAGAIN) if done > 0 => {}
                Err(error) if self.uffd.is_change(error) => {
                    result = Err(Errno::EAGAIN);
                    break;
                }
                // No memory anywhere for a copy: the page itself is still there.
                Err(Errno::ENOMEM) => {
                    result = self.move_back(region, at, last);
                    break;
                }
                Err(_) if len > PAGE => chunk = PAGE,
                Err(_) => {
                    self.leave(dst);
                    at += PAGE;
                }
            }
        }
        if at > first && !woken {
            self.uffd.wake(start, at - first);
        }
        result
    }

    pub(super) fn copy_or_leave(&mut self, region: &Region, shadow: usize) -> Result<(), Errno> {
        let dst = shadow.wrapping_sub(region.shadow_delta);
        // SAFETY: the shadow holds what the program has at `dst`.
        match unsafe { self.uffd.copy(dst, shadow, PAGE) }.1 {
            Ok(_) => self.drop_shadow(shadow, PAGE),
            Err(error) if self.uffd.is_change(error) => return Err(Errno::EAGAIN),
            Err(_) => self.leave(dst),
        }
        Ok(())
    }

    /// The address is no longer the program's (unmapped meanwhile), or the page is there already.
    fn leave(&mut self, address: usize) {
        self.uffd.wake(address, PAGE);
    }

    pub(super) fn drop_shadow(&mut self, start: usize, len: usize) {
        if len > 0 {
            if self.taking_since.is_some() {
                // Still registered: dropping it would make us wait for ourselves to read the event.
                // SAFETY: the shadow is ours; nobody waits there.
                let _ = unsafe { self.uffd.unregister(start, len) };
            }
            // SAFETY: the shadow is ours, and its contents have arrived in the program.
            let _ = unsafe { sys::madvise(start, len, libc::MADV_DONTNEED) };
        }
    }
}
