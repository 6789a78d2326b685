//! `quartier degrade`: the Java agent into a running JVM and out of it, and what it knows there.

mod agent;
mod hotspot;
mod jvm;
mod properties;
mod scheduler;
mod status;
mod why;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};

use crate::topo::source::print;
use agent::Agent;

const EXAMPLES: &str = "\
Examples:
  quartier degrade attach 4711 --config degrade.toml
      From now on the file says which requests wait when there are too many
  quartier degrade status 4711
  quartier degrade why 4711 --seconds 20
      Where the time of each class goes: CPU, run queue, locks, input and output, our own gate
  quartier degrade mode 4711 off
  quartier degrade detach 4711
  java -javaagent:quartier-degrade.jar=degrade.toml -jar server.jar
      The same from the start, without this command; the jar is in lib/quartier beside the folder of this command

What the file may say is in degrade.md, among Quartier's documents.";

/// Weaving what is loaded stops the JVM's threads for a moment each time; a large server on a busy machine takes longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(180);

/// Options of `quartier degrade`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the agent into a running JVM
    Attach(AttachArgs),
    /// Take it out again
    Detach(DetachArgs),
    /// Switch it off, on, or to say only what it would do
    Mode(ModeArgs),
    /// What it does there: classes of requests, their latencies, who waits
    Status(status::Args),
    /// Where the time of requests goes in a running JVM
    Why(why::Args),
    /// List its yield points, as a configuration can fix them
    Points(PointsArgs),
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Attach(args) => args.run(),
            Command::Detach(args) => args.run(),
            Command::Mode(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Why(args) => args.run(),
            Command::Points(args) => args.run(),
        }
    }
}

const ATTACH_EXAMPLES: &str = "\
Examples:
  quartier degrade attach 4711 --config degrade.toml
  quartier degrade attach $(pgrep -f petclinic) --json | jq -r .page
      Without a file: fair between requests, and a page on a free port

Exit status: 0 when it is active; 2 if it was refused, with the reason.";

/// Options of `quartier degrade attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = ATTACH_EXAMPLES)]
struct AttachArgs {
    #[command(flatten)]
    process: Process,
    /// What is to be done, in TOML, as the JVM sees the file; it is read again whenever it is written [default: fair
    /// between requests]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Say what `quartier degrade status --json` would
    #[arg(long)]
    json: bool,
}

const DETACH_EXAMPLES: &str = "\
Examples:
  quartier degrade detach 4711

Requests that wait run on at once, and the classes are what they were. The JVM keeps the agent's jar open.
Exit status: 0 when it is out; 2 if it was refused, with the reason.";

/// Options of `quartier degrade detach`.
#[derive(Debug, clap::Args)]
#[command(after_help = DETACH_EXAMPLES)]
struct DetachArgs {
    #[command(flatten)]
    process: Process,
    /// As JSON
    #[arg(long)]
    json: bool,
}

const MODE_EXAMPLES: &str = "\
Examples:
  quartier degrade mode 4711 off
      At once everybody runs who waits, and nobody waits any more; the classes of requests are counted on
  quartier degrade mode 4711 on

It holds until the configuration file is written again. `mode` there is what it is from the start.
Exit status: 0 when it is so; 2 if it was refused, or no agent is active there.";

/// Options of `quartier degrade mode`.
#[derive(Debug, clap::Args)]
#[command(after_help = MODE_EXAMPLES)]
struct ModeArgs {
    #[command(flatten)]
    process: Process,
    /// What is done from now on
    #[arg(value_enum)]
    mode: Mode,
    /// Say what `quartier degrade status --json` would
    #[arg(long)]
    json: bool,
}

/// As the configuration calls it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    /// As the policy says
    On,
    /// Nothing is done, and it is counted what would be
    DryRun,
    /// Nothing is done
    Off,
}

const POINTS_EXAMPLES: &str = "\
Examples:
  quartier degrade points 4711
      Where threads may hand the CPU to each other, how often they pass, and what a profile has left out
  quartier degrade points 4711 >points.txt
      To fix them: its list goes into [weave], which has profile_s = 0 then

Exit status: 0; 2 if it was refused, or no agent is active there.";

/// Options of `quartier degrade points`.
#[derive(Debug, clap::Args)]
#[command(after_help = POINTS_EXAMPLES)]
struct PointsArgs {
    #[command(flatten)]
    process: Process,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Which JVM.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Process {
    /// The JVM's process
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = crate::numbers::number(1..=i32::MAX as u32))]
    pid: u32,
}

impl Process {
    fn agent(self) -> anyhow::Result<Agent> {
        Agent::of(self.pid)
    }

    /// Refuses where none is active: nothing is loaded into a JVM to ask it, to switch it off or to take it out again.
    fn active_agent(self) -> anyhow::Result<Agent> {
        let agent = self.agent()?;
        agent.status()?;
        Ok(agent)
    }
}

impl AttachArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let agent = self.process.agent()?;
        agent.refuse_second()?;
        let config = self.config.as_deref().map(|file| seen_inside(&agent, file)).transpose()?;
        let words = match config {
            Some(file) => format!("attach {file}"),
            None => "attach".to_owned(),
        };
        let said = agent.ask(&words, ANSWER_WITHIN)?;
        let text = if self.json {
            serde_json::to_string_pretty(&agent.status()?)? + "\n"
        } else {
            let pid = self.process.pid;
            format!("process {pid}: {said}; `quartier degrade detach {pid}` takes it out\n")
        };
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl DetachArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let pid = self.process.pid;
        let agent = self.process.active_agent()?;
        agent.ask("detach", ANSWER_WITHIN)?;
        print(&match self.json {
            true => {
                serde_json::to_string_pretty(&serde_json::json!({ "pid": pid, "active": false }))?
                    + "\n"
            }
            false => format!("process {pid}: the agent is out\n"),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ModeArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let pid = self.process.pid;
        let agent = self.process.active_agent()?;
        let word = self.mode.to_possible_value().expect("every mode has a word");
        let said = agent.ask(&format!("mode {}", word.get_name()), ANSWER_WITHIN)?;
        print(&match self.json {
            true => serde_json::to_string_pretty(&agent.status()?)? + "\n",
            false => format!("process {pid}: {said}\n"),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl PointsArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        let agent = self.process.active_agent()?;
        print(&if self.json {
            let answer = agent.ask("points-json", ANSWER_WITHIN)?;
            let points: serde_json::Value = serde_json::from_str(&answer)
                .context("the agent's list of points is not as this command knows it")?;
            serde_json::to_string_pretty(&points)? + "\n"
        } else {
            agent.ask("points", ANSWER_WITHIN)?
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The file's name in the JVM's own file system, where a container may have others.
fn seen_inside(agent: &Agent, file: &Path) -> anyhow::Result<String> {
    let pid = agent.pid();
    let absolute =
        std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    if !agent.sees(&absolute) {
        bail!(
            "{} is not there for process {pid}: give a file that this process can read, by the name it has there",
            absolute.display()
        );
    }
    match absolute.to_str() {
        Some(name) if !name.contains('\n') => Ok(name.to_owned()),
        _ => bail!("{} is no name that can be told to a JVM: give another", absolute.display()),
    }
}
