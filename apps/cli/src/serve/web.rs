//! `--metrics ADDRESS`: what `quartier serve status` says, over HTTP to this machine alone. It tells what was last written down, so
//! whoever asks takes nothing from the copies.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quartier_loopback::OPENMETRICS;

/// It is written down every second; what is older is no answer.
const ILL_AFTER: Duration = Duration::from_secs(5);

const NO_SUCH: &str = "there is: /metrics /status.json /healthz\n";
const ILL: &str = "quartier serve has written nothing down yet, or not for 5 s\n";

/// `--metrics`: an address, or a port of this machine's.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address: Result<SocketAddr, _> = port.or_else(|_| text.parse());
    // Nobody would know which one 0 has become.
    let address = address.ok().filter(|address| address.port() != 0);
    address.ok_or_else(|| {
        format!("`{text}` is neither a port nor an address with one, such as [::1]:9117")
    })
}

/// Serves what is written in the directory.
pub fn serve(listener: TcpListener, directory: &Path) -> anyhow::Result<()> {
    quartier_loopback::serve(listener, router(directory.to_owned()))
}

fn router(directory: PathBuf) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/status.json", get(status))
        .route("/healthz", get(healthz))
        .fallback(|| async { (StatusCode::NOT_FOUND, NO_SUCH) })
        .with_state(directory)
}

async fn metrics(State(directory): State<PathBuf>) -> Response {
    told(&directory.join("metrics"), OPENMETRICS)
}

async fn status(State(directory): State<PathBuf>) -> Response {
    told(&directory.join("status.json"), "application/json")
}

async fn healthz(State(directory): State<PathBuf>) -> Response {
    match fresh(&directory.join("status.json")) {
        Some(_) => "ok\n".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, ILL).into_response(),
    }
}

fn told(path: &Path, kind: &'static str) -> Response {
    match fresh(path) {
        Some(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, ILL).into_response(),
    }
}

/// What was written down a moment ago.
fn fresh(path: &Path) -> Option<String> {
    let written = std::fs::metadata(path).and_then(|file| file.modified()).ok()?;
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    if age > ILL_AFTER { None } else { std::fs::read_to_string(path).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(address("9117"), Ok("127.0.0.1:9117".parse().unwrap()));
        assert_eq!(address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        for bad in ["", "0", "127.0.0.1:0", "localhost", "70000", "localhost:1", "127.0.0.1"] {
            assert!(address(bad).unwrap_err().contains("neither a port nor an address"), "{bad}");
        }
    }

    #[test]
    fn what_is_old_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        assert_eq!(fresh(&path), None);
        std::fs::write(&path, "x").unwrap();
        assert_eq!(fresh(&path).as_deref(), Some("x"));
        let then = SystemTime::now() - 2 * ILL_AFTER;
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        assert_eq!(fresh(&path), None);
    }
}
