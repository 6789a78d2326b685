//! Asks a running `quartierd` what it sees: on loopback, in bounded time, for a bounded answer.
//!
//! Whoever answers may be somebody else who got there first, so nothing of it is trusted but its types.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use quartier_decide::reporter::view::{Explanation, VIEW_FORMAT, View};
use quartier_observe::{json_complaint, printable};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use ureq::Agent;

/// Where `quartierd` is if nobody says otherwise.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7117);
/// An answer is no longer: a view of fifty thousand processes is half of it.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Of what is no answer so much is quoted.
const QUOTED_CHARS_MAX: usize = 200;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A daemon that cannot look says so after five seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// Which `quartierd`, as an option.
#[derive(Clone, Debug, clap::Args)]
pub struct Where {
    /// Where quartierd listens, on loopback
    #[arg(long, value_name = "ADDR", env = "QUARTIER_DAEMON", default_value_t = ADDRESS, value_parser = address)]
    pub daemon: SocketAddr,
}

/// An address and a port on loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    let localhost = text.strip_prefix("localhost:").map(|port| format!("{}:{port}", ADDRESS.ip()));
    let address: SocketAddr = localhost.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("give an address and a port on loopback, as {ADDRESS}, where quartierd listens")
    })?;
    if !address.ip().is_loopback() {
        return Err(
            "it is not on loopback, where alone quartierd answers; have another machine's brought here by \
             `ssh -L 7117:localhost:7117 HOST`"
                .to_owned(),
        );
    }
    Ok(address)
}

/// A daemon that may be asked.
#[derive(Debug)]
pub struct Daemon {
    at: SocketAddr,
    agent: Agent,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error(
        "no quartierd answers at {at} ({why}): start `quartierd`, or say with --daemon where it listens"
    )]
    NobodyThere { at: SocketAddr, why: String },
    #[error(
        "whoever listens at {at} did not answer within {} s ({why}): is it quartierd, and is it well?",
        ANSWER_WITHIN.as_secs()
    )]
    TooSlow { at: SocketAddr, why: String },
    #[error("quartierd at {at} refuses, with status {status}: {text}")]
    Refused { at: SocketAddr, status: u16, text: String },
    #[error(
        "what listens at {at} is no quartierd ({why}): say with --daemon where quartierd listens"
    )]
    NoDaemon { at: SocketAddr, why: String },
    #[error(
        "quartierd at {at} answers with more than {} MiB, which no machine needs: is it quartierd?",
        ANSWER_BYTES_MAX >> 20
    )]
    TooLong { at: SocketAddr },
    #[error(
        "quartierd at {at} speaks format {format}, and this quartier reads format {VIEW_FORMAT}: use those of one \
         version, and restart quartierd after an update"
    )]
    OtherFormat { at: SocketAddr, format: u32 },
}

/// What every answer has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Daemon {
    /// Asks nobody yet.
    pub fn new(at: SocketAddr) -> Self {
        assert!(at.ip().is_loopback(), "{at} is not on loopback");
        let config = Agent::config_builder()
            // Neither a proxy nor another server is told what runs here.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(ANSWER_WITHIN))
            .user_agent(concat!("quartier/", env!("CARGO_PKG_VERSION")));
        Self { at, agent: config.build().into() }
    }

    /// What it sees of the machine.
    pub fn view(&self) -> Result<View, AskError> {
        self.ask("/view.json", |view: &View| view.format)
    }

    /// What it knows of the process with this number, or of the process of the thread with it.
    pub fn explanation(&self, number: u32) -> Result<Explanation, AskError> {
        let path = format!("/processes/{number}");
        self.ask(&path, |explanation: &Explanation| explanation.format)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        format_of: impl Fn(&T) -> u32,
    ) -> Result<T, AskError> {
        let at = self.at;
        let text = self.fetch(path)?;
        let answer: Result<T, _> = serde_json::from_slice(&text);
        let format = match &answer {
            Ok(answer) => Some(format_of(answer)),
            Err(_) => serde_json::from_slice(&text).ok().map(|AnyFormat { format }| format),
        };
        match (answer, format) {
            (_, Some(format)) if format != VIEW_FORMAT => Err(AskError::OtherFormat { at, format }),
            (Ok(answer), _) => Ok(answer),
            (Err(error), _) => Err(AskError::NoDaemon { at, why: json_complaint(&error) }),
        }
    }

    fn fetch(&self, path: &str) -> Result<Vec<u8>, AskError> {
        let at = self.at;
        let failed = |error| failed(at, error);
        let asked = self.agent.get(format!("http://{at}{path}"));
        // It answers to this name at whatever address of loopback.
        let mut response = asked.header("host", "localhost").call().map_err(failed)?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body.read_to_vec().map_err(failed)?;
        if status.is_success() {
            return Ok(text);
        }
        let text = printable(String::from_utf8_lossy(&text).trim());
        let text = text.chars().take(QUOTED_CHARS_MAX).collect();
        Err(AskError::Refused { at, status: status.as_u16(), text })
    }
}

fn failed(at: SocketAddr, error: ureq::Error) -> AskError {
    use std::io::ErrorKind::{ConnectionRefused, TimedOut};
    match error {
        ureq::Error::BodyExceedsLimit(_) => AskError::TooLong { at },
        ureq::Error::Timeout(which) => AskError::TooSlow { at, why: which.to_string() },
        ureq::Error::Io(error) if error.kind() == TimedOut => {
            AskError::TooSlow { at, why: error.to_string() }
        }
        ureq::Error::Io(error) if error.kind() == ConnectionRefused => {
            AskError::NobodyThere { at, why: "nobody listens there".to_owned() }
        }
        ureq::Error::Io(error) => AskError::NobodyThere { at, why: error.to_string() },
        ureq::Error::ConnectionFailed => {
            AskError::NobodyThere { at, why: "cannot connect".to_owned() }
        }
        error => AskError::NoDaemon { at, why: printable(&error.to_string()) },
    }
}
