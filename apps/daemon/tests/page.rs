//! The page of a `quartierd` as a browser draws it: headless Chromium. Skipped where there is none, but in CI.

#[path = "../../cli/tests/made_up/mod.rs"]
mod made_up;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use made_up::explanation;
use quartier_decide::reporter::view::{LocalAt, View};
use quartier_model::NodeOsId;

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

/// Gives the page to whoever asks for it, and this as the data.
fn page_of(view: Option<View>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let answer = move |asked: &str| {
        let json = |text: String| ("application/json", text);
        match asked.split(' ').nth(1)? {
            "/" => Some(("text/html", include_str!("../src/web/page.html").to_owned())),
            "/view.json" => Some(json(serde_json::to_string(view.as_ref()?).unwrap())),
            "/processes/100" => Some(json(serde_json::to_string(&explanation(100)).unwrap())),
            _ => None,
        }
    };
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            let mut asked = [0; 4096];
            let length = connection.read(&mut asked).unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            if let Some((kind, body)) = answer(&asked) {
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
                let _ = connection.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    at
}

#[test]
fn a_page_whose_daemon_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // It ended just then.
    let Some(page) = drawn(folder.path(), &format!("http://{}/", page_of(None))) else { return };
    let state = between(&page, "id=\"state\"", "</p>");
    assert!(state.contains("no answer") && state.contains("ill"), "{state}");
}

#[test]
fn a_machine_of_four_nodes_is_drawn_with_the_kernels_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut view = made_up::view();
    // Nodes that are not there leave gaps.
    let numbers = [0, 2, 8, 9];
    for (node, number) in view.nodes.iter_mut().zip(numbers) {
        node.os_id = NodeOsId(number);
    }
    view.unix_ms = 1_800_000_000_000;
    view.history = [(10, Some(0.0)), (5, None), (1, Some(1.0))]
        .map(|(minutes, local)| LocalAt { unix_ms: view.unix_ms - minutes * 60_000, local })
        .to_vec();
    let flows = view.flows_cpus.clone();
    let Some(page) = drawn(folder.path(), &format!("http://{}/#100", page_of(Some(view)))) else {
        return;
    };
    let table = |id: &str| between(&page, &format!("id=\"{id}\""), "</table>").to_owned();
    let heads: Vec<String> = numbers.iter().map(|number| format!("<th>{number}</th>")).collect();
    let heat = table("flows");
    assert!(heat.contains(&heads.concat()), "{heat}");
    // One row for each node, whose cells are the hotter the more runs there with memory elsewhere.
    let rows: Vec<&str> = heat.split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 4);
    let most = flows.iter().flatten().fold(0.0, |most: f64, cpus| most.max(*cpus));
    for (from, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = row.split("<td").skip(2).collect();
        for (to, cell) in cells.iter().enumerate() {
            let cpus = flows[from][to];
            assert!(cell.contains(&format!(">{cpus:.2}<")), "{cell}");
            // As strong as a part of the most.
            let opacity = format!("{:.2}", 0.75 * cpus / most);
            let opacity = opacity.trim_end_matches('0').trim_end_matches('.');
            assert!(cell.contains(&format!(", {opacity})")), "{from} to {to}, {opacity}: {cell}");
        }
    }
    let points: Vec<&str> = between(&page, "<polyline points=\"", "\"").split(' ').collect();
    assert_eq!(points[..2], ["0.0,97.0", "540.0,3.0"], "what is unknown is no point");
    assert_eq!(points.len(), 3, "and now");
    let moves = table("events");
    assert!(moves.contains("threads held, 0.06 GiB moved"), "{moves}");
    assert!(between(&page, "id=\"explained\">", "<").contains("memory on nodes "), "{page}");
    assert!(table("processes").contains("unknown"), "what is unknown is said to be");
}
