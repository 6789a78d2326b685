//! The page of a `quartierd` as a browser draws it: headless Chromium. Skipped where there is none, but in CI.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ended when dropped, whatever happened.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that only says what it would do, and where its page is.
fn quartierd(folder: &Path) -> (Ends, SocketAddr) {
    // Free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = folder.join("config.toml");
    std::fs::write(&config, format!("web.listen = \"{at}\"\n")).unwrap();
    let daemon = Command::new(env!("CARGO_BIN_EXE_quartierd"))
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let daemon = Ends(daemon);
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(at).is_err() {
        assert!(Instant::now() < until, "nobody listens at {at}");
        std::thread::sleep(Duration::from_millis(50));
    }
    (daemon, at)
}

/// Waits until the daemon has seen a process run.
fn wait_until_seen(at: SocketAddr, id: u32) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let mut connection = TcpStream::connect(at).unwrap();
        let ask =
            format!("GET /processes/{id} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
        connection.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        if answer.contains("\"process\":{") {
            return;
        }
        assert!(Instant::now() < until, "it is not seen to run: {answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Something that runs, so that there is a process to show.
fn busy() -> Ends {
    let spins = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
    Ends(spins.unwrap())
}

/// The elements of a page after some seconds of its script.
fn drawn(folder: &Path, address: &str) -> Option<String> {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom", address])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "a browser must be there in CI: {why}");
            println!("skipped: no chromium here: {why}");
            None
        }
    }
}

/// What is between the first `from` and what follows it.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, after) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}"));
    after.split_once(to).unwrap_or_else(|| panic!("no {to} after {from} in {text}")).0
}

#[test]
fn a_browser_shows_nodes_processes_and_why_one_is_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (_daemon, at) = quartierd(folder.path());
    let spins = busy();
    let id = spins.0.id();
    wait_until_seen(at, id);
    let Some(page) = drawn(folder.path(), &format!("http://{at}/#{id}")) else { return };
    let state = between(&page, "id=\"state\"", "</p>");
    assert!(state.contains("only says what it would do"), "{state}");
    let kernel = between(&page, "id=\"kernel\">", "<");
    let has_psi = std::fs::read("/proc/pressure/cpu").is_ok();
    assert_eq!(kernel.contains("some task waited for a CPU "), has_psi, "{kernel}");
    // Every table has rows, the process among them, and it is the one that is explained.
    for table in ["nodes", "flows", "processes"] {
        let rows = between(&page, &format!("id=\"{table}\""), "</table>").matches("<tr").count();
        assert!(rows >= 2, "{table}: {page}");
    }
    let processes = between(&page, "id=\"processes\"", "</table>");
    assert!(processes.contains(&format!("<td>{id}</td>")), "{processes}");
    assert!(processes.contains("chosen"), "{processes}");
    assert!(between(&page, "id=\"whose\">", "<").starts_with(&format!("Process {id}: ")), "{page}");
    assert!(between(&page, "id=\"explained\">", "<").contains("runs "), "{page}");
    assert!(between(&page, "<polyline points=\"", "\"").contains(','), "no history: {page}");
}

/// Gives the page to whoever asks for it, and nothing else: a daemon that ended just then.
fn only_the_page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            let mut asked = [0; 4096];
            let length = connection.read(&mut asked).unwrap_or(0);
            if asked[..length].starts_with(b"GET / ") {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n";
                let page = include_str!("../src/web/page.html");
                let _ = connection.write_all(format!("{head}{page}").as_bytes());
            }
        }
    });
    at
}

#[test]
fn a_page_whose_daemon_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(page) = drawn(folder.path(), &format!("http://{}/", only_the_page())) else { return };
    let state = between(&page, "id=\"state\"", "</p>");
    assert!(state.contains("no answer") && state.contains("ill"), "{state}");
}
