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
pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7117);
/// Who says otherwise for all commands.
pub const ADDRESS_VARIABLE: &str = "QUARTIER_DAEMON";
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
    #[arg(long, value_name = "ADDR", env = ADDRESS_VARIABLE, default_value_t = ADDRESS, value_parser = address)]
    pub daemon: SocketAddr,
}

/// An address and a port on loopback.
pub fn address(text: &str) -> Result<SocketAddr, String> {
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
    answer_bytes_max: u64,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error(
        "no quartierd answers at {at} ({why}): start `quartierd`, or say with --daemon where it listens"
    )]
    NobodyThere { at: SocketAddr, why: String },
    #[error(
        "what listens at {at} does not answer in time ({why}): is it quartierd, and is it well?"
    )]
    TooSlow { at: SocketAddr, why: String },
    #[error("what listens at {at} broke off ({why}): is it quartierd, and does it still run?")]
    BrokeOff { at: SocketAddr, why: String },
    #[error("quartierd at {at} refuses, with status {status}: {text}")]
    Refused { at: SocketAddr, status: u16, text: String },
    #[error(
        "what listens at {at} is no quartierd ({why}): say with --daemon where quartierd listens"
    )]
    NoDaemon { at: SocketAddr, why: String },
    #[error("what listens at {at} answers with more than a machine needs: is it quartierd?")]
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
        Self::bounded(at, ANSWER_WITHIN, ANSWER_BYTES_MAX)
    }

    /// Waits for no answer longer than this.
    pub fn within(at: SocketAddr, answer_within: Duration) -> Self {
        Self::bounded(at, answer_within, ANSWER_BYTES_MAX)
    }

    fn bounded(at: SocketAddr, answer_within: Duration, answer_bytes_max: u64) -> Self {
        assert!(at.ip().is_loopback(), "{at} is not on loopback");
        let config = Agent::config_builder()
            // Neither a proxy nor another server is told what runs here.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(answer_within))
            .user_agent(concat!("quartier/", env!("CARGO_PKG_VERSION")));
        Self { at, agent: config.build().into(), answer_bytes_max }
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
        let body = response.body_mut().with_config().limit(self.answer_bytes_max);
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
    use std::io::ErrorKind;
    let why = printable(&error.to_string());
    match error {
        ureq::Error::BodyExceedsLimit(_) => AskError::TooLong { at },
        ureq::Error::Timeout(_) => AskError::TooSlow { at, why },
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => AskError::TooSlow { at, why },
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => AskError::BrokeOff { at, why },
            ErrorKind::ConnectionRefused => {
                AskError::NobodyThere { at, why: "nobody listens there".to_owned() }
            }
            _ => AskError::NobodyThere { at, why },
        },
        ureq::Error::ConnectionFailed => AskError::NobodyThere { at, why },
        _ => AskError::NoDaemon { at, why },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::fake_daemon::{FakeDaemon, ok, with_status};
    use crate::made_up;

    const MIB: u64 = 1 << 20;

    fn why_not(daemon: &FakeDaemon) -> AskError {
        Daemon::bounded(daemon.at, Duration::from_secs(5), MIB).view().unwrap_err()
    }

    fn answered(answer: Vec<u8>) -> AskError {
        why_not(&FakeDaemon::answering(move |_| answer.clone()))
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let view = made_up::view();
        let text = serde_json::to_string(&view).unwrap();
        let explanation = made_up::explanation(100);
        let of_process = serde_json::to_string(&explanation).unwrap();
        let fake = FakeDaemon::answering(move |path| match path {
            "/view.json" => ok(&text),
            "/processes/101" => ok(&of_process),
            _ => with_status("404 Not Found", ""),
        });
        let daemon = Daemon::new(fake.at);
        assert_eq!(daemon.view().unwrap(), view);
        assert_eq!(daemon.explanation(101).unwrap(), explanation);
        let asked = fake.asked();
        assert!(
            asked.iter().all(|head| head.to_lowercase().contains("\r\nhost: localhost\r\n")),
            "{asked:?}"
        );
    }

    #[test]
    fn what_is_left_out_by_an_older_quartierd_is_unknown() {
        let mut view = serde_json::to_value(made_up::view()).unwrap();
        view.as_object_mut().unwrap().remove("settings").unwrap();
        let nodes = view["nodes"].as_array_mut().unwrap();
        nodes.iter_mut().for_each(|node| _ = node.as_object_mut().unwrap().remove("busy").unwrap());
        let fake = FakeDaemon::answering(move |_| ok(&view.to_string()));
        let view = Daemon::new(fake.at).view().unwrap();
        assert!(view.settings.is_none() && view.nodes.iter().all(|node| node.busy.is_none()));
    }

    #[test]
    fn where_nobody_listens_the_remedy_is_to_start_it() {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = Daemon::new(at).view().unwrap_err().to_string();
        assert!(why.contains("nobody listens there") && why.contains("start `quartierd`"), "{why}");
    }

    #[test]
    fn what_is_no_answer_is_told_from_one_of_another_version() {
        let mut other = serde_json::to_value(made_up::view()).unwrap();
        other["format"] = (VIEW_FORMAT + 1).into();
        assert!(matches!(answered(ok(&other.to_string())), AskError::OtherFormat { .. }));
        // Nothing else of it need be as it is now.
        assert!(matches!(answered(ok("{\"format\": 9}")), AskError::OtherFormat { format: 9, .. }));
        let only_the_format = format!("{{\"format\": {VIEW_FORMAT}}}");
        for text in ["", "\u{1b}[2J", "{}", "null", "[1, 2", &only_the_format, &"[".repeat(100_000)]
        {
            let why = answered(ok(text));
            assert!(matches!(why, AskError::NoDaemon { .. }), "{text:.20}: {why}");
            assert!(!why.to_string().contains('\u{1b}'));
        }
        assert!(matches!(
            answered(b"220 mail.example ESMTP\r\n".to_vec()),
            AskError::NoDaemon { .. }
        ));
    }

    #[test]
    fn what_is_refused_is_quoted_and_nobody_is_followed_elsewhere() {
        let why = answered(with_status("503 Service Unavailable", "not \u{1b}looked\n"));
        assert!(
            matches!(&why, AskError::Refused { status: 503, text, .. } if text == "not  looked")
        );
        let elsewhere = FakeDaemon::answering(|_| ok("{}"));
        let location = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n",
            elsewhere.at
        );
        assert!(matches!(answered(location.into()), AskError::Refused { status: 302, .. }));
        assert!(elsewhere.asked().is_empty());
    }

    #[test]
    fn half_an_answer_is_none() {
        let text = serde_json::to_string(&made_up::view()).unwrap();
        let whole = ok(&text);
        for len in [0, 10, whole.len() / 2, whole.len() - 1] {
            let why = answered(whole[..len].to_vec());
            let is_half = matches!(why, AskError::BrokeOff { .. } | AskError::NoDaemon { .. });
            assert!(is_half, "{len} bytes: {why:?}");
        }
    }

    #[test]
    fn an_endless_answer_is_not_waited_for_nor_one_that_never_begins() {
        let endless = FakeDaemon::writing(|_, to| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while to.write_all(&[b' '; 65536]).is_ok() {}
        });
        assert!(matches!(why_not(&endless), AskError::TooLong { .. }));
        // Until whoever asked hangs up.
        let silent = FakeDaemon::writing(|_, to| _ = to.read_to_end(&mut Vec::new()));
        let daemon = Daemon::bounded(silent.at, Duration::from_millis(100), MIB);
        let why = daemon.view().unwrap_err();
        assert!(matches!(why, AskError::TooSlow { .. }), "{why:?}");
    }

    #[test]
    fn only_loopback_is_asked() {
        for good in ["127.0.0.1:7117", "127.3.2.1:1", "[::1]:7117", "localhost:80"] {
            assert!(address(good).unwrap().ip().is_loopback(), "{good}");
        }
        for bad in
            ["10.0.0.1:7117", "0.0.0.0:7117", "[::]:1", "192.168.0.1:80", "[::ffff:10.0.0.1]:1"]
        {
            assert!(address(bad).unwrap_err().contains("not on loopback"), "{bad}");
        }
        for bad in [
            "",
            "7117",
            "localhost",
            "127.0.0.1",
            "example.org:80",
            "localhost:99999",
            "127.0.0.1:1/",
        ] {
            assert!(address(bad).unwrap_err().contains("give an address and a port"), "{bad}");
        }
    }
}
