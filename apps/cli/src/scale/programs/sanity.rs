//! Each program once: whether it runs here, and what it answers is right.

use std::fmt::Write;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::{METRIC, Prepared, Program};
use crate::scale::measure;
use crate::scale::metric::Metric;
use crate::scale::serve::{ASKED_EVERY, READY_WITHIN, end};

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Tried {
    pub program: Program,
    /// None: it could not be run, or did wrong.
    pub done: Option<Done>,
    /// One sentence.
    pub refused: Option<String>,
}

/// So much work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Done {
    pub units: f64,
    pub unit: &'static str,
    pub seconds: f64,
}

impl Tried {
    pub fn of(program: Program, nr_cpus: usize) -> Self {
        let done = Prepared::new(program, &[])
            .map_err(|why| format!("{why:#}"))
            .and_then(|prepared| prepared.try_once(nr_cpus));
        match done {
            Ok(done) => Self { program, done: Some(done), refused: None },
            Err(why) => Self { program, done: None, refused: Some(why) },
        }
    }
}

impl Prepared {
    /// Runs it once on all CPUs, and looks whether what it does is right.
    pub fn try_once(&self, nr_cpus: usize) -> Result<Done, String> {
        if !self.program.is_server() {
            let done = self.timed("job", nr_cpus)?;
            self.does("check", nr_cpus)?;
            return Ok(done);
        }
        let mut command = self.command("serve", nr_cpus);
        let cannot = |error| format!("could not be started: {error}");
        let said = tempfile::tempfile().map_err(cannot)?;
        command.stdout(Stdio::null()).stderr(said.try_clone().map_err(cannot)?);
        let mut server = self.guard().start(&mut command, Command::spawn).map_err(cannot)?;
        let done = self.answers(&mut server, said, nr_cpus);
        let done = done.and_then(|()| self.timed("load", nr_cpus));
        end(&mut server, self.guard())?;
        done
    }

    fn answers(&self, server: &mut Child, said: File, nr_cpus: usize) -> Result<(), String> {
        let began = Instant::now();
        while let Err(why) = self.does("check", nr_cpus) {
            if let Ok(Some(status)) = server.try_wait() {
                let said = measure::text(said).unwrap_or_default();
                let last = measure::last_line(&said);
                let last = last.map_or_else(String::new, |last| format!(": {last}"));
                return Err(format!("it ended before it answered ({status}){last}"));
            }
            if began.elapsed() > READY_WITHIN {
                return Err(why);
            }
            std::thread::sleep(ASKED_EVERY);
        }
        Ok(())
    }

    fn timed(&self, action: &str, nr_cpus: usize) -> Result<Done, String> {
        let began = Instant::now();
        let printed = self.does(action, nr_cpus)?;
        let seconds = began.elapsed().as_secs_f64();
        let metric = Metric::count(METRIC).map_err(|error| error.to_string())?;
        Ok(Done { units: metric.units(&printed, seconds)?, unit: self.program.unit(), seconds })
    }
}

/// For people.
pub fn text(all: &[Tried]) -> String {
    let mut text = String::from("program           work                    s\n");
    for tried in all {
        let word = tried.program.word();
        let _ = match (&tried.done, &tried.refused) {
            (Some(Done { units, unit, seconds }), _) => {
                writeln!(text, "{word:<12}{units:>10} {unit:<10}{seconds:>10.2}  right")
            }
            (None, why) => writeln!(
                text,
                "{word:<12}{:>10} {:<10}{:>10}  {}",
                "-",
                "",
                "-",
                why.as_deref().unwrap_or("?")
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_run_has_no_numbers() {
        let done = Done { units: 800.0, unit: "messages", seconds: 1.234 };
        let all = [
            Tried { program: Program::Exim, done: Some(done), refused: None },
            Tried {
                program: Program::Apache,
                done: None,
                refused: Some("it is not here".to_owned()),
            },
        ];
        let text = text(&all);
        let words: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["exim", "800", "messages", "1.23", "right"]);
        assert_eq!(words[2], ["apache", "-", "-", "it", "is", "not", "here"]);
        let json = serde_json::to_value(&all[1]).unwrap();
        assert_eq!((&json["program"], json["done"].is_null()), (&"apache".into(), true));
    }
}
