//! A JVM with `tests/programs/Serves.java`, clients, and the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common;

const JAR: &str = "quartier-degrade.jar";
const PATIENCE: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Another JDK than the one on the path: `QUARTIER_TEST_JAVA_HOME`.
pub fn java(tool: &str) -> PathBuf {
    let home = std::env::var_os("QUARTIER_TEST_JAVA_HOME").map(PathBuf::from);
    home.map_or_else(|| tool.into(), |home| home.join("bin").join(tool))
}

/// The command with the jar beside it, and the program's classes. `None`: there is no jar.
fn built() -> Option<&'static PathBuf> {
    static CLASSES: OnceLock<Option<PathBuf>> = OnceLock::new();
    CLASSES
        .get_or_init(|| {
            let jar = root().join("degrade/agent/target").join(JAR);
            if !jar.exists() {
                assert!(
                    std::env::var_os("CI").is_none(),
                    "the agent must be built in CI: `make degrade`"
                );
                println!("skipped: no {}: run `make degrade-jar`", jar.display());
                return None;
            }
            // As a whole: another test may be using the one that is there.
            let beside = common::quartier().with_file_name(JAR);
            let fresh = beside.with_extension(std::process::id().to_string());
            std::fs::copy(&jar, &fresh).unwrap();
            std::fs::rename(fresh, beside).unwrap();
            let classes = common::quartier().with_file_name("java-programs");
            let compiled = Command::new(java("javac"))
                .args(["--release", "17", "-d"])
                .args([&classes, &root().join("tests/programs/Serves.java")])
                .output()
                .unwrap();
            assert!(compiled.status.success(), "{compiled:?}");
            Some(classes)
        })
        .as_ref()
}

/// A program that does nothing, with the agent from the start; gives whether it has ended by itself.
pub fn ends_by_itself(config: &str) -> Option<bool> {
    let classes = built()?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("degrade.toml");
    std::fs::write(&file, config).unwrap();
    let jar = common::quartier().with_file_name(JAR);
    let agent = format!("-javaagent:{}={}", jar.display(), file.display());
    let mut program = Command::new(java("java"))
        .arg(agent)
        .arg("-cp")
        .arg(classes)
        .args(["Serves", "nothing"])
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = program.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return Some(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    Some(false)
}

fn serves(java: &Path, options: &[&str], classes: &Path) -> Command {
    let mut command = Command::new(java);
    command.args(options).arg("-cp").arg(classes).arg("Serves");
    command
}

/// Ended when dropped, whatever happened.
pub struct Jvm {
    process: Child,
    /// The JVM, which may be a child of the process.
    pid: u32,
    port: u16,
    folder: tempfile::TempDir,
    /// The Java that was made for it.
    image: Option<tempfile::TempDir>,
}

impl Drop for Jvm {
    fn drop(&mut self) {
        if self.pid != self.process.id() {
            let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).status();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Jvm {
    pub fn start(options: &[&str]) -> Option<Self> {
        let classes = built()?;
        Some(Self::run(serves(&java("java"), options, classes)))
    }

    /// On a Java of these modules and no others; `None` where none can be made.
    pub fn start_of_modules(modules: &str) -> Option<Self> {
        let classes = built()?;
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let made = Command::new(java("jlink"))
            .arg("--output")
            .arg(&image)
            .args(["--add-modules", modules])
            .output();
        if !made.as_ref().is_ok_and(|output| output.status.success()) {
            println!("skipped: this JDK makes no images: {made:?}");
            return None;
        }
        let mut jvm = Self::run(serves(&image.join("bin/java"), &[], classes));
        jvm.image = Some(folder);
        Some(jvm)
    }

    /// In namespaces of its own; `None` where none may be made.
    pub fn start_apart() -> Option<Self> {
        let classes = built()?;
        let may = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            println!("skipped: no namespaces may be made here");
            return None;
        }
        // The agent's jar may be below /tmp or not.
        let script = "mount -t tmpfs tmpfs /mnt && cp \"$2\"/*.class /mnt && mount -t tmpfs tmpfs /tmp && \
                      { [ ! -d \"$1\" ] || mount -t tmpfs tmpfs \"$1\"; } && exec \"$3\" -cp /mnt Serves";
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.args([common::quartier().parent().unwrap(), classes, &java("java")]);
        Some(Self::run(command))
    }

    fn run(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let said = std::fs::File::create(folder.path().join("said")).unwrap();
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let mut jvm = Self { pid: process.id(), process, port: 0, folder, image: None };
        let mut first = String::new();
        BufReader::new(jvm.process.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let port = first
            .trim()
            .strip_prefix("port ")
            .unwrap_or_else(|| panic!("no port: {first}{}", jvm.said()));
        jvm.port = port.parse().unwrap();
        let children = Command::new("pgrep").args(["-P", &jvm.pid.to_string()]).output().unwrap();
        if let Ok(child) = String::from_utf8_lossy(&children.stdout).trim().parse() {
            jvm.pid = child;
        }
        jvm
    }

    pub fn pid(&self) -> String {
        self.pid.to_string()
    }

    /// On its standard error stream.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).unwrap()
    }

    /// Writes a file, and gives its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&ok(&degrade(&["status", &self.pid(), "--json"]))).unwrap()
    }

    pub fn get(&self, path: &str) -> std::io::Result<u16> {
        get(self.port, path, "localhost").map(|(code, _)| code)
    }

    /// So many clients of each path, each asking again as soon as it is answered.
    pub fn load(&self, clients: &[(&'static str, usize)]) -> Load {
        let mut load = Load::default();
        for (path, nr) in clients {
            for _ in 0..*nr {
                let (port, path) = (self.port, *path);
                let (stopped, answered, failures) =
                    (load.stopped.clone(), load.nr_answered.clone(), load.failures.clone());
                load.threads.push(std::thread::spawn(move || {
                    while !stopped.load(Ordering::Relaxed) {
                        match get(port, path, "localhost") {
                            Ok((200, _)) => _ = answered.fetch_add(1, Ordering::Relaxed),
                            Ok((code, _)) => {
                                failures.lock().unwrap().push(format!("{path}: {code}"))
                            }
                            Err(error) => failures.lock().unwrap().push(format!("{path}: {error}")),
                        }
                    }
                }));
            }
        }
        load
    }
}

#[derive(Default)]
pub struct Load {
    stopped: Arc<AtomicBool>,
    pub nr_answered: Arc<AtomicU64>,
    failures: Arc<Mutex<Vec<String>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Gives what went wrong.
    pub fn stop(mut self) -> Vec<String> {
        self.stopped.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.failures.lock().unwrap().clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Code and body.
pub fn get(port: u16, path: &str, host: &str) -> std::io::Result<(u16, String)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((code, body.to_owned()))
}

pub fn degrade(arguments: &[&str]) -> Output {
    Command::new(common::quartier())
        .arg("degrade")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Refused with one sentence that has this in it.
pub fn refused(arguments: &[&str], why: &str) {
    is_refusal(&degrade(arguments), why);
}

pub fn is_refusal(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said.contains(why), "not \"{why}\": {said}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < until, "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
