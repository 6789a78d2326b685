//! One run: a guest, servers in it, and what the recording says of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use quartier_count::{Lines, Moment, Phase, Recording, Report, Slice};
use serde_json::Value;

use super::{Counts, NR_NODES, Outcome, Run, Task};
use crate::guest_runs;

/// What runs in the guest.
const GUEST: &str = include_str!("guest.sh");

/// What makes the application, and has it make its data.
const PREPARE: &str = include_str!("prepare.sh");
const INSTALL: &str = include_str!("install.php");

/// Where the application goes, and where `xtask/deps.sh results` unpacks servers.
const FOLDER: &str = "target/served";
const SERVERS: &str = "target/servers";

/// For which a guest may be silent, or its servers not be ready: copies of Apache begin one after the other.
const HANG_TIMEOUT_S: u32 = 1_800;

/// Of this machine a guest has these, beside what is unpacked: programs,
const PROGRAMS: [&str; 20] = [
    "sh", "mount", "tar", "cp", "ln", "sed", "awk", "grep", "cat", "mkdir", "chmod", "chown",
    "seq", "sleep", "nproc", "taskset", "tail", "dirname", "tr", "rm",
];
/// and files.
const FILES: [&str; 5] =
    ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/mime.types", "/usr/share/zoneinfo"];

/// What it has of the unpacked packages, where they are not installed.
const UNPACKED: [&str; 12] = [
    "usr/sbin/apache2",
    "usr/sbin/nginx",
    "usr/sbin/php-fpm8.2",
    "usr/sbin/mariadbd",
    "usr/bin/siege",
    "usr/lib/apache2",
    "usr/lib/php",
    "usr/lib/x86_64-linux-gnu",
    "usr/share/mysql",
    "etc/apache2",
    "etc/php",
    "etc/nginx",
];

/// Pages that each client asks for before it is counted: each process has had one then.
const WARM_PAGES: u32 = 4;

/// Time is told in so many windows.
const NR_WINDOWS: usize = 20;

/// So many of the kernel's functions are kept.
const NR_FUNCTIONS: usize = 12;

/// Where guests are run.
#[derive(Debug)]
pub struct Guests {
    quartier: PathBuf,
    folder: PathBuf,
    servers: PathBuf,
    /// Where recordings stay; absent: nowhere.
    recordings: Option<PathBuf>,
}

impl Guests {
    /// Makes the application if it is not there; takes the given command, or the release build.
    pub fn new(quartier: Option<&Path>, recordings: Option<&Path>) -> anyhow::Result<Self> {
        let release = crate::release_build()?;
        let quartier = quartier.unwrap_or(&release);
        let quartier = quartier
            .canonicalize()
            .with_context(|| format!("{} is not there: run `make build`", quartier.display()))?;
        fs::create_dir_all(FOLDER).context("cannot make the folder for what is served")?;
        let folder = Path::new(FOLDER).canonicalize()?;
        let servers = Path::new(SERVERS).canonicalize();
        let servers = servers.context("no servers are there: run `sh xtask/deps.sh results`")?;
        if !folder.join("www.tar").exists() {
            eprintln!("served: making WordPress and its database");
            let status = Command::new("sh")
                .args(["-c", PREPARE])
                .env("FOLDER", &folder)
                .env("SERVERS", &servers)
                .env("INSTALL", INSTALL)
                .stdin(Stdio::null())
                .status()
                .context("cannot run sh")?;
            ensure!(status.success(), "WordPress was not made: it ended with {status}");
        }
        fs::write(folder.join("guest.sh"), GUEST).context("cannot write what runs in guests")?;
        if let Some(recordings) = recordings {
            fs::create_dir_all(recordings).context("cannot make the folder for recordings")?;
        }
        Ok(Self { quartier, folder, servers, recordings: recordings.map(Path::to_owned) })
    }

    /// Whatever goes wrong is what came of it.
    pub fn run(&self, task: Task) -> Run {
        let begun = Instant::now();
        let kept = self.recordings.as_ref().map(|folder| folder.join(task.name()));
        let is_kept = kept.as_ref().is_some_and(|kept| kept.with_extension("json").exists());
        let place = kept.clone().unwrap_or_else(|| self.folder.join("recording"));
        let told = if is_kept { Ok(()) } else { self.tell(&task, &place) };
        let outcome = match told.and_then(|()| taken(&place)) {
            Ok(counts) => Outcome::Counted(Box::new(counts)),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        if kept.is_none() {
            for file in ["json", "out"] {
                let _ = fs::remove_file(place.with_extension(file));
            }
        }
        let took_s = (!is_kept).then(|| begun.elapsed().as_secs_f64());
        Run { task, took_s, outcome }
    }

    /// Runs it, and leaves what was counted and what the load printed at a place.
    fn tell(&self, task: &Task, place: &Path) -> anyhow::Result<()> {
        // What was cut short is no recording.
        let recording = place.with_extension("new");
        let script = self.folder.join("guest.sh");
        let line = |what: &str, pages: u32| {
            format!(
                "sh {} {what} {} {} {} {} {pages} {} {}",
                script.display(),
                self.folder.display(),
                self.servers.display(),
                task.connections.word(),
                task.clients,
                self.quartier.display(),
                task.run
            )
        };
        // CPUs take turns there, so everything takes so many times as long.
        let slower = (NR_NODES * task.cpus_per_node).to_string();
        let mut command = Command::new(&self.quartier);
        command
            .args(["lab", "count", "--repeatable", "--root", "--mem", "6G"])
            .args(["--kernel", &task.kernel, "--hang-timeout", &HANG_TIMEOUT_S.to_string()])
            .args(["--nodes", &NR_NODES.to_string(), "--slow-clocks", &slower])
            .args(["--cpus-per-node", &task.cpus_per_node.to_string()])
            .args(["--ready", &line("ready", WARM_PAGES), "--load", &line("load", task.pages)])
            .args(["--metric", "pages ([0-9]+)", "--recording"])
            .arg(&recording);
        if task.tells_lines {
            command.arg("--lines");
        }
        for file in self.files() {
            command.arg("--with-file").arg(file);
        }
        // The libraries of what is unpacked are beside it.
        command.env("LD_LIBRARY_PATH", self.servers.join("usr/lib/x86_64-linux-gnu"));
        command.args(["--", "sh"]).arg(&script).arg("serve").args([&self.folder, &self.servers]);
        command.arg(task.variant.to_string()).arg(&self.quartier).stdin(Stdio::null());
        let output = command.output().context("cannot run quartier")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}",
            guest_runs::reason("served", &said, &output.status.to_string())
        );
        fs::write(place.with_extension("out"), &output.stdout)
            .context("cannot keep a recording")?;
        fs::rename(&recording, place.with_extension("json")).context("there is no recording")
    }

    /// All that a guest has: it sees nothing else of this machine.
    fn files(&self) -> Vec<PathBuf> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&search).collect();
        let program = |name: &&str| folders.iter().map(|it| it.join(name)).find(|it| it.is_file());
        let ours = ["www.tar", "data.tar", "urls"].map(|name| self.folder.join(name));
        let unpacked = UNPACKED.map(|name| {
            let installed = Path::new("/").join(name);
            Some(self.servers.join(name)).filter(|it| it.exists()).unwrap_or(installed)
        });
        let library = self.quartier.with_file_name("libquartier_reuseport.so");
        let mut files: Vec<PathBuf> = PROGRAMS.iter().filter_map(program).collect();
        files.extend(FILES.map(PathBuf::from).into_iter().chain(unpacked).chain(ours));
        files.push(library);
        files
    }
}

fn taken(place: &Path) -> anyhow::Result<Counts> {
    let bytes = fs::read(place.with_extension("json")).context("there is no recording")?;
    let printed = fs::read_to_string(place.with_extension("out"));
    let printed = printed.context("what the load printed is not there")?;
    counts(&Recording::parse(&bytes)?, &printed)
}

fn counts(recording: &Recording, printed: &str) -> anyhow::Result<Counts> {
    let report = Report::new(recording, Phase::Whole)?;
    let each = report.per_unit.context("it is not told how many pages came")?;
    let begin = recording.mark(Moment::Start).context("it has no begin")?;
    let end = recording.mark(Moment::End).context("it has no end")?;
    let whole = end.snapshot.since(&begin.snapshot).context("its counts go backwards")?;
    let kinds = &report.program.kinds;
    let of_kinds = |of: fn(&quartier_count::KindCommands) -> u64| {
        kinds.iter().map(|kind| (kind.kind.name().to_owned(), of(kind))).collect()
    };
    // In their order: the programs' own, the kernel's, walks.
    let kernel = report.program.classes.get(1);
    Ok(Counts {
        pages: each.units as u64,
        instructions: report.instructions,
        local: of_kinds(|kind| kind.local),
        remote: of_kinds(|kind| kind.remote),
        remote_of_kernel: kernel.map_or(0, |kernel| kernel.remote),
        owner_changes: whole.program.totals().invalidations,
        taken_by_kernel: report.lines.as_ref().map(taken_by_kernel),
        cpus: report.modelled.cpus.iter().map(|cpu| (cpu.node, cpu.modelled_cycles)).collect(),
        frequency_mhz: report.geometry.cost.frequency_mhz,
        windows: windows(&report.slices, NR_WINDOWS),
        listeners: number(printed, "listeners "),
        given: given(printed),
        kernel: report.kernel,
        qemu: report.qemu,
    })
}

/// By function; an instruction of the kernel's is the kernel's, whoever asked for it. What has no name is `?`.
pub(super) fn taken_by_kernel(lines: &Lines) -> BTreeMap<String, u64> {
    let mut by_function = BTreeMap::<String, u64>::new();
    let takers = lines.most.iter().flat_map(|line| &line.words).flat_map(|word| &word.takers);
    for taker in takers.filter(|taker| taker.module.as_deref() == Some("[kernel]")) {
        let function = taker.function.clone().unwrap_or_else(|| "?".to_owned());
        *by_function.entry(function).or_default() += taker.taken;
    }
    let mut most: Vec<_> = by_function.into_iter().collect();
    most.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
    most.truncate(NR_FUNCTIONS);
    most.into_iter().collect()
}

/// Of as many instructions each, as far as slices can be cut; the last has what is left.
pub(super) fn windows(slices: &[Slice], nr_windows: usize) -> Vec<Vec<u64>> {
    let Some(last) = slices.last() else { return Vec::new() };
    let length = (last.instructions / nr_windows as u64).max(1);
    let mut windows = vec![Vec::<u64>::new(); nr_windows];
    for slice in slices {
        // A slice is where it ends.
        let at = (slice.instructions.saturating_sub(1) / length) as usize;
        let window = &mut windows[at.min(nr_windows - 1)];
        window.resize(window.len().max(slice.modelled_cycles.len()), 0);
        for (sum, cycles) in window.iter_mut().zip(&slice.modelled_cycles) {
            *sum += cycles;
        }
    }
    windows.retain(|window| window.iter().any(|cycles| *cycles > 0));
    windows
}

/// In the line that begins with a word.
fn number(printed: &str, word: &str) -> Option<u64> {
    printed.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// What copies were given under load, and of that from their own nodes: what they had afterwards less what they had before.
pub(super) fn given(printed: &str) -> Option<(u64, u64)> {
    let of = |word: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(word));
        let status: Value = serde_json::from_str(line?.trim()).ok()?;
        let copies = status["copies"].as_array()?;
        let sum = |name: &str| copies.iter().map(|copy| copy[name].as_u64()).sum::<Option<u64>>();
        Some((sum("given")?, sum("given_local")?))
    };
    let (before, after) = (of("before ")?, of("after ")?);
    Some((after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?))
}
