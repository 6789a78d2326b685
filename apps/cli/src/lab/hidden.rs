//! What `quartier` runs of itself: in the guest, and beside it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The guest's first process
    ///
    /// Named as the script that starts it, because that is the argument the kernel gives.
    #[command(name = "/init", hide = true)]
    Init {
        /// The words of the kernel's command line that the kernel does not know
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _kernel_words: Vec<OsString>,
    },
    /// In the guest: become the command
    #[command(hide = true)]
    Enter { plan: PathBuf },
    /// On the host: become a program that ends with its parent
    #[command(hide = true)]
    Tether {
        #[arg(long)]
        parent: u32,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// On the host: serve folders (ro:PATH, rw:PATH) to the guest
    #[command(hide = true)]
    Share {
        #[arg(long)]
        parent: u32,
        #[arg(last = true)]
        shares: Vec<OsString>,
    },
}

impl Command {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let never: Infallible = match self {
            Self::Init { .. } => quartier_lab::agent::main()?,
            Self::Enter { plan } => quartier_lab::agent::enter(&plan)?,
            Self::Tether { parent, command } => {
                quartier_lab::tether::become_program(parent, &command)?
            }
            Self::Share { parent, shares } => {
                let shares = shares.iter().map(share).collect::<anyhow::Result<Vec<_>>>()?;
                quartier_lab::share::serve(parent, &shares)?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        match never {}
    }
}

fn share(text: &OsString) -> anyhow::Result<(PathBuf, bool)> {
    let bytes = text.as_bytes();
    let path = |rest: &[u8]| PathBuf::from(OsString::from_vec(rest.to_vec()));
    match (bytes.strip_prefix(b"ro:"), bytes.strip_prefix(b"rw:")) {
        (Some(rest), _) => Ok((path(rest), false)),
        (_, Some(rest)) => Ok((path(rest), true)),
        _ => anyhow::bail!("a share is ro:PATH or rw:PATH"),
    }
}
