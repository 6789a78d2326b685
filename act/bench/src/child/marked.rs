//! Quartier's next-touch, by `quartier_next_touch` of the runtime that is loaded.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use quartier_kernel::sys::HUGE;

use super::helper::Helper;
use super::region::{Region, cpu_ns, kernel_can_read, warm_up};
use super::{Other, Sample, Shape};

type Mark = extern "C" fn(*const c_void, usize) -> c_int;

pub fn measure(shape: Shape) -> anyhow::Result<Sample> {
    let mark = runtime()?;
    let cold_ns = warm_up(2 * shape.bytes())?;
    let region = Region::map(shape.bytes())?;
    let (mark_ns, helper) = (Cell::new(0.0), Cell::new(None));
    let sweep = region.sweep(shape.threads, || {
        region.fill();
        helper.set(Helper::find());
        mark_ns.set(timed_mark(mark, region)?);
        Ok(())
    })?;
    let used = helper.get().and_then(Helper::used);
    region.check(2)?;
    let small = Region::map(4 * HUGE)?;
    small.fill();
    timed_mark(mark, small)?;
    let kernel_access = Some(kernel_can_read(small.range().0)?);
    let pages = region.nr_pages() as f64;
    Ok(Sample {
        mark_ns: mark_ns.get(),
        touch_ns: sweep.touch_ns,
        again_ns: sweep.again_ns,
        cold_ns,
        cpu_ns: sweep.cpu_ns + used.map_or(f64::NAN, |used| used.cpu_ns / pages),
        helper_sleeps: used.map(|used| used.sleeps / pages),
        kernel_access,
    })
}

/// A process that is marked and does nothing for a second.
pub fn idle(shape: Shape) -> anyhow::Result<Other> {
    let mark = runtime()?;
    let region = Region::map(shape.bytes())?;
    region.fill();
    timed_mark(mark, region)?;
    let helper = Helper::find();
    let before = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    std::thread::sleep(Duration::from_secs(1));
    let idle_cpu_ns = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
    let used = helper.and_then(Helper::used);
    Ok(Other { idle_cpu_ns, idle_helper_cpu_ns: used.map(|used| used.cpu_ns), ..Other::default() })
}

/// Marks a region; nanoseconds per page.
fn timed_mark(mark: Mark, region: Region) -> anyhow::Result<f64> {
    let (start, len) = region.range();
    let began = Instant::now();
    let status = mark(start as *const c_void, len);
    let took = began.elapsed().as_nanos() as f64 / region.nr_pages() as f64;
    ensure!(status == 0, "the runtime did not mark: is this under `quartier run --force`?");
    Ok(took)
}

fn runtime() -> anyhow::Result<Mark> {
    // SAFETY: a look-up by name.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"quartier_next_touch".as_ptr()) };
    let symbol = std::ptr::NonNull::new(symbol);
    let symbol = symbol.context("no runtime is loaded: run this under `quartier run --force`")?;
    // SAFETY: the runtime's function of this name has this type.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Mark>(symbol.as_ptr()) })
}
