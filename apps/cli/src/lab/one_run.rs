//! One counted run of several: it becomes a result or a reason, and ends none of the others.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use quartier_count::Recording;
use quartier_lab::{Error, Input, Request, STATUS_REFUSED, Streams, resolve_program, run};

use super::counting::Counting;
use crate::scale::measure::last_line;

/// What is kept of what a command says on standard error.
const KEPT_BYTES: usize = 4096;

/// Of what a command prints, this much of the end is looked through for how much work was done.
pub const PRINTED_MAX: usize = 1 << 20;

/// Gives what was counted, or why this run failed; an error is one that all others would have too.
pub fn count_once(
    counting: &Counting,
    request: Request,
    output: Box<dyn Write>,
    console: Option<Box<dyn Write + Send>>,
) -> anyhow::Result<Result<Recording, String>> {
    let search = std::env::var_os("PATH");
    if let Some(name) = request.command.first()
        && let Err(error) = resolve_program(name, &request.directory, search.as_ref())
    {
        return Ok(Err(error.to_string()));
    }
    let errors = LastBytes::new(KEPT_BYTES);
    let streams = Streams { input: Input::Null, output, error: Box::new(errors.clone()), console };
    let mut status = 0;
    let counted = counting.count(request, |request| {
        let report = run(request, streams)?;
        status = report.exit_status;
        Ok(report)
    });
    match counted {
        _ if status != 0 => {
            Ok(Err(format!("the command ended with status {status}: {}", errors.last_line())))
        }
        Ok((recording, _)) => Ok(Ok(recording)),
        Err(error) => match error.downcast_ref::<Error>() {
            Some(refused) if refused.exit_status() == STATUS_REFUSED => Err(error),
            _ => Ok(Err(first_line(&format!("{error:#}")))),
        },
    }
}

/// Without the console's tail.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_suffix("; the end of its console:").unwrap_or(line).to_owned()
}

/// The end of a stream, of which a command may write any amount.
#[derive(Clone)]
pub struct LastBytes {
    kept: Rc<RefCell<Vec<u8>>>,
    bytes_max: usize,
}

impl LastBytes {
    /// So many of them.
    pub fn new(bytes_max: usize) -> Self {
        Self { kept: Rc::default(), bytes_max }
    }

    /// All of it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept.borrow()).into_owned()
    }

    /// What a program that failed said last.
    fn last_line(&self) -> String {
        last_line(&self.text()).unwrap_or("it said nothing").to_owned()
    }
}

impl Write for LastBytes {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut kept = self.kept.borrow_mut();
        kept.extend_from_slice(data);
        let surplus = kept.len().saturating_sub(self.bytes_max);
        kept.drain(..surplus);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_that_a_program_says_the_last_line_is_told() {
        let mut errors = LastBytes::new(KEPT_BYTES);
        assert_eq!(errors.last_line(), "it said nothing");
        for _ in 0..1000 {
            errors.write_all(b"much\n").unwrap();
        }
        errors.write_all(b"it broke\n \n").unwrap();
        assert_eq!(errors.last_line(), "it broke");
        assert_eq!(errors.kept.borrow().len(), KEPT_BYTES);
    }

    #[test]
    fn a_reason_is_one_line() {
        let died = "the guest hangs; the end of its console:\n[ 0.1] Linux";
        assert_eq!(first_line(died), "the guest hangs");
        assert_eq!(first_line("cannot read it"), "cannot read it");
    }
}
