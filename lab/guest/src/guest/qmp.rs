//! QEMU's own way to be told things while it runs: QMP, a line of JSON for each command and each answer
//! (QEMU's `docs/interop/qmp-spec`). Four commands are all that is needed here.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Context, Error, Result};

/// A machine that many others make wait answers late.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How often it is asked whether a machine's state is written or read.
const LOOK: Duration = Duration::from_millis(5);
const TALKING: &str = "talk with QEMU";

/// A connection in which commands can be given.
#[derive(Debug)]
pub struct Qmp {
    answers: BufReader<UnixStream>,
    commands: UnixStream,
}

/// Where QEMU writes a machine's state to or reads it from. Memory is not in it: it stays in its files.
pub struct StateAt<'a>(pub &'a str);

impl Qmp {
    /// Waits for QEMU's greeting.
    ///
    /// # Errors
    /// When what is there does not speak QMP.
    pub fn open(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(ANSWER_LIMIT)).doing(TALKING)?;
        let commands = stream.try_clone().doing(TALKING)?;
        let mut qmp = Self { answers: BufReader::new(stream), commands };
        qmp.line()?;
        qmp.execute("qmp_capabilities", json!({}))?;
        let ignores = json!([{ "capability": "x-ignore-shared", "state": true }]);
        qmp.execute("migrate-set-capabilities", json!({ "capabilities": ignores }))?;
        Ok(qmp)
    }

    /// Stops the processors and writes the machine's state.
    ///
    /// # Errors
    /// When QEMU cannot; the processors may run or not.
    pub fn stop_and_write(&mut self, state: &StateAt<'_>) -> Result<()> {
        self.execute("stop", json!({}))?;
        self.execute("migrate", json!({ "uri": format!("file:{}", state.0) }))?;
        self.wait_for_state()
    }

    /// Reads a machine's state, in a QEMU that was started to do so.
    ///
    /// # Errors
    /// When it is none, or of another machine.
    pub fn read(&mut self, state: &StateAt<'_>) -> Result<()> {
        // Or a QEMU that cannot read it would be gone without a word here.
        let how = json!({ "uri": format!("file:{}", state.0), "exit-on-error": false });
        self.execute("migrate-incoming", how)?;
        self.wait_for_state()
    }

    /// Lets the processors run.
    ///
    /// # Errors
    /// When QEMU does not.
    pub fn go_on(&mut self) -> Result<()> {
        self.execute("cont", json!({})).map(drop)
    }

    /// Puts a device into the running machine.
    ///
    /// # Errors
    /// When QEMU has no such device, or no place for it.
    pub fn plug(&mut self, device: Value) -> Result<()> {
        self.execute("device_add", device).map(drop)
    }

    fn wait_for_state(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let about = self.execute("query-migrate", json!({}))?;
            match about["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    let why = about["error-desc"].as_str().unwrap_or("it does not say why");
                    return Err(failed("a machine's state", why));
                }
                _ if begun.elapsed() > ANSWER_LIMIT => {
                    return Err(failed("a machine's state", "it takes too long"));
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.commands.write_all(line.as_bytes()).doing(TALKING)?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                return Err(failed(
                    command,
                    error["desc"].as_str().unwrap_or("it does not say why"),
                ));
            }
            // All else is news of what happened meanwhile.
            if answer.get("return").is_some() {
                return Ok(answer["return"].take());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.answers.read_line(&mut line).doing(TALKING)? == 0 {
            return Err(failed("a command", "QEMU has ended"));
        }
        serde_json::from_str(&line).map_err(std::io::Error::from).doing(TALKING)
    }
}

fn failed(what: &str, why: &str) -> Error {
    Error::refused(format!("QEMU does not take `{what}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that says these lines, whatever it is asked.
    fn says(lines: &[&str]) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        lines.iter().for_each(|line| writeln!(theirs, "{line}").unwrap());
        let mut asked = BufReader::new(theirs);
        std::thread::spawn(move || std::io::copy(&mut asked, &mut std::io::sink()));
        ours
    }

    const GREETING: &str = r#"{"QMP": {"version": {}}}"#;
    const DONE: &str = r#"{"return": {}}"#;

    #[test]
    fn news_are_passed_over_and_refusals_are_told() {
        let news = r#"{"event": "STOP", "timestamp": {}}"#;
        let refusal = r#"{"error": {"class": "GenericError", "desc": "no bus `x`"}}"#;
        let mut qmp = Qmp::open(says(&[GREETING, DONE, DONE, news, DONE, refusal])).unwrap();
        qmp.go_on().unwrap();
        let why = qmp.plug(json!({ "driver": "y" })).unwrap_err().to_string();
        assert!(why.contains("device_add") && why.contains("no bus `x`"), "{why}");
    }

    #[test]
    fn a_state_that_is_none_is_told_and_one_that_takes_a_while_waited_for() {
        let active = r#"{"return": {"status": "active"}}"#;
        let completed = r#"{"return": {"status": "completed"}}"#;
        let no_state =
            r#"{"return": {"status": "failed", "error-desc": "not a migration stream"}}"#;
        let lines = [GREETING, DONE, DONE, DONE, active, completed, DONE, no_state];
        let mut qmp = Qmp::open(says(&lines)).unwrap();
        qmp.read(&StateAt("/x")).unwrap();
        let why = qmp.read(&StateAt("/x")).unwrap_err().to_string();
        assert!(why.contains("not a migration stream"), "{why}");
    }

    #[test]
    fn what_speaks_otherwise_is_an_error() {
        assert!(Qmp::open(says(&["hello"])).is_err());
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(Qmp::open(ours).is_err());
    }
}
