//! `quartier tree`: the decision tree that programs share.

mod serve;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use quartier_shared::{directory_of_user, system_directory};

const EXAMPLES: &str = "\
Examples:
  sudo quartier tree serve --threads-mode 666
      One tree for all programs of this machine, while it runs; every user may place threads
  quartier tree serve --directory /dev/shm/batch --period 100ms
      One for those who name it: quartier run --tree /dev/shm/batch -- CMD
  quartier tree show
      Threads, utilisation and free memory of each node, as programs see them now

Programs find the machine's tree by themselves, and decide without asking anybody: when `serve` ends,
U and M grow old and everything else goes on.";

/// Options of `quartier tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a tree (or go on with the one that is there) and renew U and M until stopped
    Serve(serve::Args),
    /// Show what a tree knows
    Show(show::Args),
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve(args) => args.run(),
            Command::Show(args) => args.run(),
        }
    }
}

/// Where to look without being told: the machine's tree, else the user's.
fn default_directory() -> anyhow::Result<PathBuf> {
    let places = [system_directory(), directory_of_user()];
    match places.iter().find(|place| place.join("tree").exists()) {
        Some(place) => Ok(place.clone()),
        None => bail!(
            "there is no decision tree at {} or {}: `quartier tree serve` makes the first, and \
             `quartier run` the second while it runs",
            places[0].display(),
            places[1].display()
        ),
    }
}
