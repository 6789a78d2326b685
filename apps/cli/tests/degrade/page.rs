//! The agent's page: its data, who may read it, and how a browser draws it.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::jvm::{self, Jvm, degrade, ok};

const CONFIG: &str = "\
policy = \"curve\"
permits = 1
metrics_port = 0

[curve]
class = \"light\"
load = \"burning\"
points = [[0, 5], [10, 80]]

[[class]]
name = \"light\"
paths = \"/light\"

[[class]]
name = \"burning\"
paths = \"/burn\"
";

fn class<'a>(view: &'a Value, name: &str) -> &'a Value {
    let classes = view["classes"].as_array().unwrap();
    classes
        .iter()
        .find(|class| class["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {view}"))
}

#[test]
fn the_page_has_what_the_server_does() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let config = jvm.file("degrade.toml", CONFIG);
    let status: Value =
        serde_json::from_str(&ok(&degrade(&["attach", &jvm.pid(), "--config", &config, "--json"])))
            .unwrap();
    let page = status["page"].as_str().unwrap().to_owned();
    let port: u16 = page.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let load = jvm.load(&[("/light", 1), ("/burn", 3)]);
    let view = || {
        serde_json::from_str::<Value>(&jvm::get(port, "/view.json", "localhost").unwrap().1)
            .unwrap()
    };
    jvm::wait_for("requests of both classes", || {
        let view = view();
        view["aim"]["load"].as_f64().unwrap() > 0.5
            && ["light", "burning"]
                .iter()
                .all(|name| class(&view, name)["answered_per_s"].as_f64() > Some(0.0))
    });
    let view = view();
    let light = class(&view, "light");
    // On the line between the two points, where the load is now.
    let (load_now, target) =
        (view["aim"]["load"].as_f64().unwrap(), light["target_ms"].as_f64().unwrap());
    // A tick may have come between the two.
    assert!((target - (5.0 + 7.5 * load_now)).abs() < 1.0, "{view}");
    assert!(light["p50_ms"].as_f64() <= light["p95_ms"].as_f64(), "{view}");
    assert!(class(&view, "burning")["target_ms"].is_null(), "{view}");
    assert!(class(&view, "burning")["running"].as_u64() <= Some(1), "one permit: {view}");
    jvm::wait_for("history", || {
        let history: Value =
            serde_json::from_str(&jvm::get(port, "/history.json", "localhost").unwrap().1).unwrap();
        history.as_array().unwrap().len() >= 3
    });
    assert_eq!(jvm::get(port, "/view.json", "evil.example").unwrap().0, 403);
    assert_eq!(jvm::get(port, "/nothing", "127.0.0.1:1").unwrap().0, 404);
    assert!(jvm::get(port, "/metrics", "localhost").unwrap().1.ends_with("# EOF\n"));
    let html = jvm::get(port, "/", "localhost").unwrap().1;
    assert!(
        !html.contains("src=") && !html.contains("<link"),
        "the page needs nothing from elsewhere"
    );
    drawn(&jvm, &page);
    assert!(load.stop().is_empty());
}

/// In headless Chromium, where there is one.
fn drawn(jvm: &Jvm, address: &str) {
    let profile = jvm.file("profile", "");
    std::fs::remove_file(&profile).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={profile}"))
        .args(["--virtual-time-budget=5000", "--dump-dom", address])
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "a browser must be there in CI: {why}");
            println!("skipped: no chromium here: {why}");
            return;
        }
    };
    let page = String::from_utf8_lossy(&output.stdout);
    let part = |from: &str, to: &str| {
        let (_, after) = page.split_once(from).unwrap_or_else(|| panic!("no {from} in {page}"));
        after
            .split_once(to)
            .unwrap_or_else(|| panic!("no {to} after {from} in {page}"))
            .0
            .to_owned()
    };
    assert!(part("id=\"state\"", "</p>").contains("policy curve, mode on"), "{page}");
    assert!(part("id=\"classes\"", "</table>").contains("burning"), "{page}");
    assert!(part("id=\"held\">", "<").starts_with("light is held to "), "{page}");
    assert!(part("id=\"curve\"", "</svg>").contains("<circle"), "{page}");
    assert!(part("id=\"p95\"", "</svg>").contains("<polyline"), "{page}");
}
