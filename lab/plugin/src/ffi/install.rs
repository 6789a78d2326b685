//! How QEMU loads the plugin.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use super::callbacks;
use super::declarations::{API_VERSION, Info};
use crate::arguments::Arguments;
use crate::machine::Machine;

/// The interface that the plugin was written for; QEMU refuses one that it does not have.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = API_VERSION;

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The guest, once the plugin is loaded.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

/// Says something to whoever started QEMU.
pub fn say(sentence: &str) {
    use std::io::Write;
    // Nobody is left to be told that nobody listens.
    let _ = writeln!(std::io::stderr(), "quartier-plugin: {sentence}");
}

/// Loads the plugin; QEMU ends if this gives anything but 0.
///
/// # Safety
/// QEMU calls it, with `argc` texts at `argv` and what it says of itself at `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as the interface promises.
    let (info, words) = unsafe { (&*info, texts(argc, argv)) };
    match prepare(info, &words) {
        Ok(machine) => {
            MACHINE.get_or_init(|| machine);
            callbacks::register(id);
            0
        }
        Err(why) => {
            say(&why);
            1
        }
    }
}

/// # Safety
/// `argv` has `argc` texts.
unsafe fn texts(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: as the caller promises.
    let text = |index| unsafe { CStr::from_ptr(*argv.add(index)) };
    (0..count).map(|index| text(index).to_string_lossy().into_owned()).collect()
}

fn prepare(info: &Info, words: &[String]) -> Result<Machine, String> {
    if !(info.version_min..=info.version_now).contains(&API_VERSION) {
        return Err(format!(
            "this QEMU has plugin interfaces {} to {}, and the plugin needs {API_VERSION}",
            info.version_min, info.version_now
        ));
    }
    // SAFETY: the target's name is a text.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if !info.system_emulation || target != c"x86_64" {
        return Err("only a whole x86-64 machine can be counted".to_owned());
    }
    let arguments = Arguments::parse(words.iter().map(String::as_str))?;
    Machine::new(arguments, usize::try_from(info.max_vcpus).unwrap_or(0))
}
