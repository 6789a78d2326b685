//! Signals that end what takes long: it ends where that can be, and what there is until then is not lost.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Whether one came.
#[derive(Debug)]
pub struct Interrupts(Arc<AtomicUsize>);

/// One came.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    pub signal: u8,
}

impl Interrupts {
    /// Of work that hears of signals itself, as a guest of the lab does.
    pub fn new() -> anyhow::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in ENDING {
            signal_hook::flag::register_usize(number, signal.clone(), number as usize)
                .context("cannot take this process's signals")?;
        }
        Ok(Self(signal))
    }

    /// Of work that is made to end by `end`, which is called when the first signal comes; the second one ends this process.
    pub fn during<T>(
        end: impl FnOnce() + Send,
        work: impl FnOnce(&Self) -> T,
    ) -> anyhow::Result<T> {
        let this = Self(Arc::default());
        let mut signals = Signals::new(ENDING).context("cannot take this process's signals")?;
        let closing = Closing(signals.handle());
        let came = &this.0;
        Ok(std::thread::scope(|scope| {
            // Before the scope waits for the thread, whatever becomes of the work.
            let _closing = closing;
            scope.spawn(move || {
                let mut end = Some(end);
                for signal in signals.forever() {
                    let Some(end) = end.take() else {
                        let _ = emulate_default_handler(signal);
                        continue;
                    };
                    came.store(signal as usize, Ordering::SeqCst);
                    end();
                }
            });
            work(&this)
        }))
    }

    /// Whether none came.
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(Interrupted { signal: signal as u8 }),
        }
    }
}

struct Closing(Handle);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}
