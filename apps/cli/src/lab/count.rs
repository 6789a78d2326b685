//! `quartier lab count`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use quartier_count::{Recording, Report, html, svg, text};
use quartier_lab::run;

use super::counting::{Counting, CountingArgs};
use super::guest::GuestArgs;
use super::one_run::{LastBytes, PRINTED_MAX};
use super::outputs::{OutputArgs, Shown, open};
use crate::scale::metric::Metric;
use crate::topo::source::print;

const EXAMPLES: &str = "\
Examples:
  quartier lab count --kernel 6.12 -- ./program
      Every memory command of the program on four nodes: kinds, local and remote, who asks whom
  quartier lab count --phase parallel --html report.html -- quartier run -- ./program
      From its second thread on, under Quartier, as a page to show
  quartier lab count --load 'redis-benchmark -q -n 10000' -- redis-server --save ''
      A server while it is loaded: started, loaded once it listens, stopped
  quartier lab count --ready 'curl -fs localhost:8080' --load 'ab -n 200 localhost:8080/' --metric 'Complete requests: *([0-9]+)' -- ./site
      The same for one that listens before it can answer; and commands of each request
  quartier lab count --repeatable --with-file input -- ./program input/small
      CPUs take turns: another run gives identical counts
  quartier lab count --lines -- ./program
      Which lines CPUs take from each other, who waits for memory, what lies there, and whose code it is
  quartier lab count --lines --allocations -- ./program
      The same; memory that was allocated is called by the function that allocated it
  quartier lab count --geometry tsar --recording run.json -- ./program
  quartier lab count --from run.json --json
      Count once, look at it again later";

/// Options of `quartier lab count`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    counting: CountingArgs,
    /// The command, or with --load the load, prints how much work was done: the first group of this regular expression, the last
    /// time it matches. Commands are told for each unit of it, too
    #[arg(long, value_name = "REGEX", conflicts_with = "from")]
    metric: Option<String>,
    /// Write everything that was counted to this file, for --from
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    recording: Option<PathBuf>,
    /// Report on this recording; nothing is run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "GuestArgs", "Counted"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "from", value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (recorded, outputs) = (open(self.recording.as_deref())?, self.outputs.open()?);
        let (recording, status) = match &self.from {
            Some(file) => (read(file)?, 0),
            None => self.count()?,
        };
        // Counting may have taken long: what was counted is kept, whatever there is to say of it.
        if let Some(output) = recorded {
            output.write(&String::from_utf8_lossy(&recording.to_json()))?;
        }
        let report = &Report::new(&recording, self.counting.phase())?;
        let (page, drawings, text) = (html::report, svg::report, text::report);
        let print: fn(&str) -> _ = if self.from.is_some() { print } else { print_aside };
        outputs.write(&Shown { report, page, drawings, text }, print)?;
        Ok(ExitCode::from(status))
    }

    /// Boots a guest, runs the command in it, and gives what was counted with the command's status.
    fn count(&self) -> anyhow::Result<(Recording, u8)> {
        let metric = self.metric.as_deref().map(Metric::count).transpose()?;
        let counting = Counting::new(&self.counting, &self.guest)?;
        let request = self.guest.request(&self.command)?;
        let printed = LastBytes::new(PRINTED_MAX);
        let mut streams = self.guest.streams()?;
        if metric.is_some() {
            streams.output = Box::new(Both(streams.output, printed.clone()));
        }
        let (mut recording, ran) = counting.count(request, |request| Ok(run(request, streams)?))?;
        match metric.map(|metric| metric.units(&printed.text(), 0.0)) {
            None => {}
            Some(Ok(units)) => recording.units = Some(units),
            // What was counted is worth telling all the same.
            Some(Err(why)) => {
                recording.notes.push(format!("Nothing is told for each unit: the run {why}."))
            }
        }
        Ok((recording, ran.exit_status))
    }
}

/// Where a command's output goes, and what keeps the end of it.
struct Both(Box<dyn Write>, LastBytes);

impl Write for Both {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let nr_written = self.0.write(data)?;
        self.1.write_all(&data[..nr_written])?;
        Ok(nr_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// On standard error: the command's own output is on the standard output.
fn print_aside(text: &str) -> anyhow::Result<()> {
    let mut errors = anstream::stderr().lock();
    errors.write_all(text.as_bytes()).context("cannot write to standard error")
}

fn read(file: &Path) -> anyhow::Result<Recording> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Recording::parse(&bytes).with_context(|| file.display().to_string())
}
