//! `quartier lab fetch` and `quartier lab kernels`.

use std::io::{self, Write};
use std::process::ExitCode;

use quartier_lab::{Cache, Kernel, KernelSpec, Qemu, available};
use serde_json::json;

const FETCH_EXAMPLES: &str = "\
Examples:
  quartier lab fetch
      The newest stable kernel and QEMU, for use without a network later
  quartier lab fetch --kernel 6.1 --kernel 7.3
      Two kernels to compare";

const KERNELS_EXAMPLES: &str = "\
Examples:
  quartier lab kernels
      What `quartier lab run --kernel` finds without a network
  quartier lab kernels --available --json
      What could be fetched, for a script";

/// Options of `quartier lab fetch`.
#[derive(Debug, clap::Args)]
#[command(after_help = FETCH_EXAMPLES)]
pub struct FetchArgs {
    /// A kernel to fetch (6.12); may be repeated [default: the newest stable one]
    #[arg(long, value_name = "V")]
    kernel: Vec<KernelSpec>,
}

impl FetchArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cache = Cache::from_environment()?;
        let specs = if self.kernel.is_empty() { vec![KernelSpec::Newest] } else { self.kernel };
        let mut out = io::stdout();
        for spec in specs {
            let kernel = Kernel::fetch(&spec, &cache, &super::progress)?;
            writeln!(out, "Linux {}: {}", kernel.release, kernel.image.display())?;
        }
        let qemu = Qemu::find(&cache, &super::progress)?;
        writeln!(out, "QEMU {}: {}", qemu.version, qemu.program.display())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Options of `quartier lab kernels`.
#[derive(Debug, clap::Args)]
#[command(after_help = KERNELS_EXAMPLES)]
pub struct KernelsArgs {
    /// List what can be fetched instead of what is in the cache
    #[arg(long)]
    available: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl KernelsArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cache = Cache::from_environment()?;
        let mut out = io::stdout();
        if self.available {
            let suites = available(&cache, &super::progress)?;
            if self.json {
                let object: serde_json::Map<_, _> = suites
                    .into_iter()
                    .map(|(suite, found)| match found {
                        Ok(releases) => (suite.to_owned(), json!(releases)),
                        Err(why) => (suite.to_owned(), json!({ "error": why })),
                    })
                    .collect();
                writeln!(out, "{}", serde_json::Value::from(object))?;
                return Ok(ExitCode::SUCCESS);
            }
            for (suite, found) in suites {
                match found {
                    Ok(releases) => {
                        for release in releases {
                            writeln!(out, "{release}\t{suite}")?;
                        }
                    }
                    Err(why) => super::progress(&format!("{suite} cannot be read: {why}")),
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        let kernels = Kernel::cached(&cache)?;
        if self.json {
            let list: Vec<_> = kernels
                .iter()
                .map(|kernel| {
                    json!({
                        "release": kernel.release,
                        "image": kernel.image,
                        "origin": kernel.provenance(),
                    })
                })
                .collect();
            writeln!(out, "{}", serde_json::Value::from(list))?;
            return Ok(ExitCode::SUCCESS);
        }
        if kernels.is_empty() {
            super::progress("no kernel is in the cache; `quartier lab fetch` gets one");
        }
        for kernel in kernels {
            let suite = kernel.provenance().map(|origin| origin.suite).unwrap_or_default();
            writeln!(out, "{}\t{suite}", kernel.release)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
