//! Recipes of `quartier serve` with Debian's servers: PHP is answered by both copies, and nothing fails while all of it
//! is reloaded. Where the servers are neither installed nor fetched (`make results` does, and `make test` where CI is set) these tests are
//! skipped.

mod common;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PHP: &str = r#"<?php echo "copy ", getenv("QUARTIER_COPY"), " ", $_SERVER["REQUEST_URI"];"#;

/// Where servers are unpacked by `xtask/deps.sh`, if they are not installed: the folder before `/usr`. `None`: they are nowhere.
fn servers(web: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers");
    let has = |name: &str| {
        let is_it = |it: std::fs::DirEntry| it.file_name().to_string_lossy().starts_with(name);
        let programs = [PathBuf::from("/"), root.clone()].map(|folder| folder.join("usr/sbin"));
        let files = programs.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        files.flatten().flatten().any(is_it)
    };
    let found = (has(web) && has("php-fpm")).then(|| root.clone());
    if found.is_none() {
        // There `xtask/deps.sh` has them fetched: a test that is skipped tests nothing.
        let is_fetched = std::env::var_os("CI").is_some() && Path::new("/usr/bin/apt-get").exists();
        assert!(!is_fetched, "{web} and PHP-FPM were not fetched");
        println!("skipped: {web} and PHP-FPM are not here (apt-get install {web} php-fpm)");
    }
    found
}

fn with_path(variable: &str, first: &Path) -> OsString {
    let mut value = first.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(variable) {
        value.push(":");
        value.push(rest);
    }
    value
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// What an application does: it writes where it may, and where it must not.
const WRITES: &str = r#"<?php
echo @file_put_contents(__DIR__ . "/uploads/x", "upload"), " ",
    var_export(@file_put_contents(__DIR__ . "/y", "lost"), true);"#;

/// `options`: beside those that every recipe needs.
fn check(recipe: &str, web: &str, options: &[&str]) {
    let Some(folder) = servers(web) else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the unpacked servers' user is another's, and only root may become it");
        return;
    }
    let [root, aside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let may = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    may(root.path(), 0o755);
    std::fs::create_dir(root.path().join("uploads")).unwrap();
    may(&root.path().join("uploads"), 0o777);
    std::fs::write(root.path().join("writes.php"), WRITES).unwrap();
    std::fs::write(root.path().join("index.php"), PHP).unwrap();
    std::fs::write(root.path().join("plain.txt"), "plain").unwrap();
    for (file, text) in [(".env", "secret"), (".git/config", "secret"), (".well-known/it", "known")]
    {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let said = aside.path().join("said");
    let libraries = folder.join("usr/lib/x86_64-linux-gnu");
    // Whatever this is, the web server's user goes through folders of root's to its socket.
    let mut unit = Command::new("sh")
        .args(["-c", "umask 077; exec \"$@\"", "sh"])
        .arg(common::quartier())
        .args(["serve", "--copies", "2", "--name", &format!("test-{recipe}-{port}")])
        .args(["--recipe", recipe, "--port", &port.to_string(), "--root"])
        .arg(root.path())
        .args(options)
        .env("PATH", with_path("PATH", &folder.join("usr/sbin")))
        .env("LD_LIBRARY_PATH", with_path("LD_LIBRARY_PATH", &libraries))
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&said).unwrap_or_default();
    let mut both_answer = |path: &str, first: &str| {
        let began = Instant::now();
        let mut copies = [false; 2];
        while !copies.iter().all(|has| *has) {
            if let Ok(answer) = get(port, path) {
                for (copy, has) in copies.iter_mut().enumerate() {
                    *has |= answer.ends_with(&format!("{first}copy {copy} {path}"));
                }
            }
            let runs = unit.try_wait().unwrap().is_none();
            assert!(runs && began.elapsed().as_secs() < 60, "{}", said());
        }
    };
    both_answer("/page?x=1", "\n");
    check_sockets(&Path::new("/run/quartier-serve").join(format!("test-{recipe}-{port}")));
    assert!(get(port, "/plain.txt").unwrap().ends_with("plain"));
    for hidden in ["/.env", "/.git/config", "/later/.x.php"] {
        let answer = get(port, hidden).unwrap();
        assert!(answer.contains(" 403 ") || answer.contains(" 404 "), "{answer}");
    }
    assert!(get(port, "/.well-known/it").unwrap().ends_with("known"));
    assert!(get(port, "/writes.php").unwrap().ends_with("6 false"), "{}", said());
    assert_eq!(std::fs::read_to_string(root.path().join("uploads/x")).unwrap(), "upload");
    // A script that comes later, in a folder that does.
    let later = root.path().join("later");
    std::fs::create_dir(&later).unwrap();
    std::fs::write(later.join("new.php"), PHP.replacen("copy", "later copy", 1)).unwrap();
    both_answer("/later/new.php?x=2", "later ");
    // And one that has been run before.
    std::fs::write(root.path().join("index.php"), PHP.replacen("copy", "other copy", 1)).unwrap();
    both_answer("/?x=3", "other ");
    let _ = Command::new("kill").args(["-HUP", &unit.id().to_string()]).status();
    let began = Instant::now();
    let mut nr_answers = 0;
    while began.elapsed() < Duration::from_secs(5) {
        let answer = get(port, "/").unwrap();
        assert!(answer.contains(" 200 OK") && answer.ends_with(" /"), "{answer}\n{}", said());
        nr_answers += 1;
    }
    println!("{recipe}: {nr_answers} answers");
    check_put_aside(&format!("test-{recipe}-{port}"), port);
    let _ = Command::new("kill").arg(unit.id().to_string()).status();
    assert!(unit.wait().unwrap().success(), "{}", said());
    check_logs(&format!("test-{recipe}-{port}"), nr_answers);
}

/// PHP answers whoever may write to its socket: the web server's user, and nobody else.
fn check_sockets(folder: &Path) {
    let user = nix::unistd::User::from_name("www-data").unwrap().unwrap();
    let mut nr_sockets = 0;
    for copy in ["copy-0", "copy-1"] {
        for entry in std::fs::read_dir(folder.join(copy)).unwrap().flatten() {
            let file = std::fs::symlink_metadata(entry.path()).unwrap();
            if file.file_type().is_socket() {
                let is_closed = (file.mode() & 0o7777, file.uid()) == (0o600, user.uid.as_raw());
                assert!(is_closed, "{}: {file:?}", entry.path().display());
                nr_sockets += 1;
            }
        }
    }
    assert_eq!(nr_sockets, 2, "one for each copy");
}

/// What was asked of both copies, as one and in order, also when they have ended.
fn check_logs(name: &str, nr_answers: usize) {
    let logs = |options: &[&str]| {
        let mut command = Command::new(common::quartier());
        command.args(["serve", "logs", "--name", name]).args(options);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let asked = logs(&[]);
    assert!(asked.lines().count() >= nr_answers, "{} lines", asked.lines().count());
    assert!(asked.contains("\"GET /page?x=1 HTTP/1.0\" 200 "), "{asked}");
    // The common format, with nothing before it.
    assert!(asked.lines().all(|line| line.starts_with("127.0.0.1 - - [")), "{asked}");
    let folder = Path::new("/var/log/quartier-serve").join(name);
    let of_copies: Vec<_> = ["copy-0", "copy-1"]
        .map(|copy| {
            let read = |name| std::fs::read_to_string(folder.join(copy).join(name));
            read("access.log.1").unwrap_or_default() + &read("access.log").unwrap()
        })
        .to_vec();
    let nr_lines: Vec<_> = of_copies.iter().map(|text| text.lines().count()).collect();
    assert_eq!(
        nr_lines.iter().sum::<usize>(),
        asked.lines().count(),
        "each line once: {nr_lines:?}"
    );
    assert!(nr_lines.iter().all(|nr| *nr > 0), "{nr_lines:?}");
    // By the milliseconds that are left out when they are told.
    let all = of_copies.iter().enumerate().flat_map(|(copy, text)| {
        let mut last = String::new();
        let with_time: Vec<_> = text
            .lines()
            .map(|line| {
                let (time, told) = line.split_once(' ').unwrap();
                last = last.clone().max(time.to_owned());
                ((last.clone(), copy), told)
            })
            .collect();
        with_time
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let expected: Vec<_> = all.iter().map(|(_, told)| *told).collect();
    assert!(asked.lines().eq(expected), "they are not in order");
    let complaints = logs(&["--errors"]);
    assert!(complaints.lines().all(|line| line.starts_with("copy ")), "{complaints}");
    for copy in ["copy 0: ", "copy 1: "] {
        assert!(complaints.contains(copy), "PHP says that it begins: {complaints}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// One that has got too large: servers go on in a new one, whoever they are. (What is before their lines takes no room.)
fn check_put_aside(name: &str, port: u16) {
    let log = Path::new("/var/log/quartier-serve").join(name).join("copy-0/access.log");
    let aside = log.with_file_name("access.log.1");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::File::options().write(true).open(&log).unwrap().set_len(65 << 20).unwrap();
    let began = Instant::now();
    while !(aside.exists() && std::fs::metadata(&log).is_ok_and(|it| it.len() > 0)) {
        assert!(began.elapsed().as_secs() < 30, "it is not put aside, or not opened anew");
        get(port, "/").unwrap();
    }
    // As if it had not been.
    let later = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&aside, text).unwrap();
    assert!(later.lines().all(|line| line.contains("\"GET / HTTP/1.0\" 200 ")), "{later}");
}

#[test]
fn nginx_with_php_needs_no_file_of_ours() {
    check("nginx-php", "nginx", &["--copy-root", "--keep-one", "uploads"]);
}

#[test]
fn apache_with_php_needs_no_file_of_ours() {
    check("apache-php", "apache2", &["--copy-root", "--keep-one", "uploads"]);
}

#[test]
fn apache_may_have_a_process_for_each_connection() {
    check("apache-prefork-php", "apache2", &[]);
}

#[test]
fn memcached_is_refused_with_the_reason() {
    let output =
        Command::new(common::quartier()).args(["serve", "--recipe", "memcached"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("memcached must not be copied: each copy would know a part"), "{said}");
}
