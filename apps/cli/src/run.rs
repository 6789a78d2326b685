//! `quartier run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use quartier_act::{Program, Request, launch};
use quartier_decide::dqdt::Tree;
use quartier_observe::Host;
use quartier_session::{Config, CpuBits, Policy};

/// Options of `quartier run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the report here, as JSON, instead of the summary on standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Which rung at most
    #[arg(long, default_value = "rwp")]
    rung: String,
    /// Policy
    #[arg(long, default_value = "next-touch")]
    policy: String,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let program = Program::find(&self.command[0], std::env::var_os("PATH").as_deref())?;
        let host = Host::live();
        let machine = host.machine()?;
        let tree = Tree::build(&machine);
        let limits = host.process_limits(quartier_observe::Pid::Own)?;
        let online =
            |os_id: &u32| machine.cpus().iter().any(|cpu| cpu.online && cpu.os_id.0 == *os_id);
        let allowed: CpuBits = limits.cpus.iter().filter(online).collect();
        let policy = match self.policy.as_str() {
            "next-touch" => Policy::NextTouch,
            "first-touch" => Policy::FirstTouch,
            _ => Policy::None,
        };
        let mut config = Config::new(policy, allowed);
        config.rung_max = match self.rung.as_str() {
            "rwp" => 2,
            "move" => 1,
            _ => 0,
        };
        let runtime = std::env::current_exe()?.with_file_name("libquartier_preload.so");
        let launched = launch(&Request {
            program: &program,
            command: &self.command,
            runtime,
            machine: &machine,
            nr_tree_slots: tree.nr_slots(),
            config,
            memory_policy: None,
        })?;
        let json = serde_json::to_string_pretty(&launched.report)?;
        match &self.report {
            Some(path) => std::fs::write(path, json).context("report")?,
            None => eprintln!("{json}"),
        }
        Ok(ExitCode::from(launched.shell_status()))
    }
}
