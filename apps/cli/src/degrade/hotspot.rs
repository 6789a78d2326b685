//! HotSpot's attach protocol: a socket in the JVM's own /tmp, which it opens when a file there and a SIGQUIT ask for it;
//! then a version, a command and three arguments, each ended by a zero byte, and the answer until the socket is closed.
//!
//! Spoken from here rather than by a `java` of ours: none need be installed, and what the JVM refuses is told in its words.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::jvm::Jvm;

/// The version that every HotSpot since Java 6 knows.
const VERSION: &str = "1";
/// What a HotSpot takes as one argument.
const ARGUMENT_BYTES_MAX: usize = 1024;
/// A busy machine may let a JVM wait so long for its own thread to look.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Loads the agent, and with it tells it something.
///
/// # Errors
/// When the JVM does not answer, or refuses.
pub fn load(jvm: &Jvm, jar: &Path, told: &str, within: Duration) -> anyhow::Result<()> {
    let pid = jvm.pid();
    let name = jar.to_str().filter(|name| !name.contains('=')).with_context(|| {
        format!("{} is no path that can be told to a JVM (it has a = in it): install quartier elsewhere", jar.display())
    })?;
    let (code, text) =
        ask(jvm, "load", ["instrument", "false", &format!("{name}={told}")], within)?;
    let what = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason");
    if text.contains("Dynamic agent loading is not enabled") {
        bail!(
            "process {pid} runs with -XX:-EnableDynamicAgentLoading: start it without that, or with -javaagent"
        );
    }
    match what.strip_prefix("return code: ").map_or(code, |code| code.trim().parse().unwrap_or(-1))
    {
        0 => Ok(()),
        100 => bail!("process {pid} cannot read {name}: let its user read that file"),
        102 => bail!(
            "process {pid} could not start the agent: it needs Java 17 or newer, and its standard error stream says more"
        ),
        code => bail!(
            "process {pid} did not load the agent (code {code}, \"{what}\"): it needs the module java.instrument"
        ),
    }
}

/// The JVM's system properties, as it writes them.
pub fn properties(jvm: &Jvm, within: Duration) -> anyhow::Result<String> {
    match ask(jvm, "properties", ["", "", ""], within)? {
        (0, text) => Ok(text),
        (code, text) => bail!(
            "process {} did not tell its properties (code {code}): {}",
            jvm.pid(),
            text.trim()
        ),
    }
}

/// The code, and what follows it.
fn ask(
    jvm: &Jvm,
    command: &str,
    arguments: [&str; 3],
    within: Duration,
) -> anyhow::Result<(i32, String)> {
    let pid = jvm.pid();
    let mut request = Vec::new();
    for word in [VERSION, command].iter().chain(&arguments) {
        if word.len() > ARGUMENT_BYTES_MAX {
            bail!(
                "\"{word}\" is longer than the {ARGUMENT_BYTES_MAX} bytes that a JVM is told at once: use shorter paths"
            );
        }
        request.extend_from_slice(word.as_bytes());
        request.push(0);
    }
    let mut stream = connect(jvm)?;
    let mut answer = String::new();
    let exchanged = stream
        .set_read_timeout(Some(within))
        .and_then(|()| stream.write_all(&request))
        .and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer));
    match exchanged {
        Ok(0) => bail!(
            "process {pid} hung up without an answer: run this as its user and in its group, or as root"
        ),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            bail!(
                "process {pid} has not answered within {} s: it may be stopped, or very busy; try again",
                within.as_secs()
            )
        }
        Err(error) => Err(error).with_context(|| format!("process {pid} did not answer")),
        Ok(_) => {
            let (code, text) = answer.split_once('\n').unwrap_or((&answer, ""));
            let code = code.trim().parse().with_context(|| {
                format!("process {pid} answers \"{code}\", which is no HotSpot's answer")
            })?;
            Ok((code, text.to_owned()))
        }
    }
}

fn connect(jvm: &Jvm) -> anyhow::Result<UnixStream> {
    if !jvm.socket().exists() {
        make_listen(jvm)?;
    }
    let pid = jvm.pid();
    UnixStream::connect(jvm.socket()).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("process {pid} may not be attached to by this user: run this as its user, or as root")
        }
        _ => anyhow::Error::new(error).context(format!("process {pid} does not answer at {}", jvm.socket().display())),
    })
}

/// Taken away again, whatever happened.
struct Wish(PathBuf);

impl Drop for Wish {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn make_listen(jvm: &Jvm) -> anyhow::Result<()> {
    let pid = jvm.pid();
    let path = jvm.wish();
    // Never through a link that somebody has put there.
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        // Somebody else asks just now.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => drop(made.with_context(|| {
            format!("cannot write {}, by which process {pid} is asked to listen", path.display())
        })?),
    }
    let _wish = Wish(path);
    jvm.signal()?;
    let began = Instant::now();
    let mut asked = began;
    while !jvm.socket().exists() {
        if !jvm.is_alive() {
            bail!("process {pid} has ended meanwhile");
        }
        if began.elapsed() > LISTENS_WITHIN {
            bail!(
                "process {pid} has not listened within {} s: it is stopped, very busy, or runs with \
                 -XX:+DisableAttachMechanism (start it with -javaagent)",
                LISTENS_WITHIN.as_secs()
            );
        }
        if asked.elapsed() > ASK_AGAIN_AFTER {
            asked = Instant::now();
            jvm.signal()?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
