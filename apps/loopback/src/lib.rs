//! What programs of Quartier show over HTTP, to this machine alone: nobody else can ask, and nothing can be changed from there.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, ensure};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

/// The content type of OpenMetrics 1.0.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens, but serves nobody yet. `option` is what asked for it, for a sentence.
///
/// # Errors
/// When others than this machine could ask, or the port is in use.
pub fn listen(option: &str, at: SocketAddr) -> anyhow::Result<TcpListener> {
    ensure!(
        at.ip().is_loopback(),
        "{option} is not on loopback: what is shown there has no password and names processes; listen at \
         127.0.0.1 and let ssh -L bring it to where you are"
    );
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves, in a thread of its own, as long as the process lives.
///
/// # Errors
/// When no thread can be begun.
pub fn serve(listener: TcpListener, router: Router) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot begin to serve the page")?;
    let router = router.layer(middleware::from_fn(guard));
    let run = move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        })
    };
    std::thread::Builder::new()
        .name("web".to_owned())
        .spawn(run)
        .context("cannot begin a thread")?;
    Ok(())
}

/// A page from elsewhere that has its name point to this machine (DNS rebinding) must not read this one.
async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_this_machine) {
        let why = "ask for localhost, 127.0.0.1 or [::1]: other names are not answered\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CACHE_CONTROL, "no-store");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    response
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for good in ["localhost", "localhost:7117", "127.0.0.1:1", "[::1]:7117", "[::1]"] {
            assert!(is_this_machine(good), "{good}");
        }
        for bad in ["", "evil.example:7117", "localhost.evil.example", "127.0.0.1.evil:80", "::1"] {
            assert!(!is_this_machine(bad), "{bad}");
        }
    }

    #[test]
    fn nobody_listens_for_other_machines() {
        let refused = listen("--x", "0.0.0.0:0".parse().unwrap()).unwrap_err().to_string();
        assert!(refused.starts_with("--x is not on loopback"), "{refused}");
        assert!(listen("--x", "127.0.0.1:0".parse().unwrap()).is_ok());
    }
}
