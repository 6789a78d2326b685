//! The copies' logs: on a disk, each copy's by itself, so that nobody waits for another's lines; and `quartier serve logs`, which
//! gives those of all as one, in order.

mod lines;
mod tail;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::unistd::Group;

use super::instance::{self, Which};
use lines::{Line, Merge, shown};
use tail::Tail;

/// A file that is larger is put aside, and the one that was aside before is gone.
pub const BYTES_MAX: u64 = 64 << 20;

/// What a file that was put aside is called, behind its name.
const ASIDE: &str = "1";

/// Between two looks of `--follow`; a line is told after two of them, so that those of other copies can come before it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Of one file, parts that are read in a look.
const PARTS_MAX: usize = 256;

/// Where all logs of a unit are: a folder for each copy.
#[derive(Clone, Debug)]
pub struct Logs(PathBuf);

impl Logs {
    /// Of the unit of this name, there or not.
    pub fn of(name: &str) -> Self {
        Self(base().join(name))
    }

    /// A copy's folder.
    pub fn of_copy(&self, copy: usize) -> PathBuf {
        self.0.join(format!("copy-{copy}"))
    }

    /// Makes a copy's folder. Who asked for what is nobody's business but the owner's: not of a program, either, that the server's user
    /// runs. `opens`: the group whose processes open logs by themselves, whose names they know.
    pub fn make(&self, copy: usize, opens: Option<&str>) -> anyhow::Result<()> {
        let path = self.of_copy(copy);
        let make = || -> anyhow::Result<()> {
            let base = self.0.parent().context("logs have no folder")?;
            fs::create_dir_all(base.parent().context("logs have no folder")?)?;
            own(base, 0o755)?;
            own(&self.0, 0o755)?;
            let mode = if opens.is_some() { 0o710 } else { 0o700 };
            own(&path, mode)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            if let Some(group) = opens {
                let found = Group::from_name(group)?.context("there is no such group")?;
                lchown(&path, None, Some(found.gid.as_raw()))?;
            }
            Ok(())
        };
        make().with_context(|| format!("cannot make {}, where a copy's logs go", path.display()))
    }

    /// Puts those of a copy aside that have got too large. Says whether there were any: they have to be opened anew.
    pub fn put_aside(&self, copy: usize, bytes_max: u64) -> std::io::Result<bool> {
        let mut is_any = false;
        let mut done = Ok(());
        for path in files(&self.of_copy(copy)) {
            match fs::metadata(&path).map(|file| file.len() > bytes_max) {
                Ok(false) => {}
                Ok(true) => match fs::rename(&path, aside(&path)) {
                    Ok(()) => is_any = true,
                    Err(error) => done = Err(error),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => done = Err(error),
            }
        }
        if is_any { Ok(true) } else { done.map(|()| false) }
    }

    /// Of each copy.
    fn folders(&self) -> Vec<(usize, PathBuf)> {
        let mut copies: Vec<(usize, PathBuf)> = fs::read_dir(&self.0)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("copy-")?.parse().ok()?;
                Some((number, entry.path()))
            })
            .collect();
        copies.sort();
        copies
    }
}

/// Where logs of this user's are.
fn base() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/log/quartier-serve");
    }
    let of = |variable| std::env::var_os(variable).filter(|path| !path.is_empty());
    let home = || Some(PathBuf::from(of("HOME")?).join(".local/state"));
    let state = of("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    match state.or_else(home) {
        Some(state) => state.join("quartier-serve"),
        None => {
            let uid = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("quartier-serve-logs-{uid}"))
        }
    }
}

/// A folder of ours: made with this mode whatever the umask is, or found, and then as open as somebody has left it.
fn own(path: &Path, mode: u32) -> anyhow::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode))?,
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        Err(_) => {}
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    ensure!(is_ours, "{} is another user's, or no folder: remove it", path.display());
    Ok(())
}

/// The logs in a folder that are written now, or were before they were put aside.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_aside = |path: &PathBuf| path.extension().is_some_and(|extension| extension == ASIDE);
    let names = entries.map(|path| if is_aside(&path) { path.with_extension("") } else { path });
    let mut logs: Vec<_> = names.filter(|path| is_log(path)).collect();
    logs.sort();
    logs.dedup();
    logs
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Where a log is put.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ASIDE);
    PathBuf::from(name)
}

const EXAMPLES: &str = "\
Examples:
  quartier serve logs
      What was asked of all copies, in order
  quartier serve logs --follow | grep ' 500 '
  quartier serve logs --errors --name wiki
      What the servers of the one with this name complain about, with the copy's number first

They are there after a stop, too. A log that has got larger than 64 MiB is put aside (.1), in place of the one before.

Exit status: 0; 2 if there are no logs, or of several and none is named.";

/// Options of `quartier serve logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// What the servers complain about, instead of what was asked of them
    #[arg(long)]
    errors: bool,
    /// Go on with what comes
    #[arg(long)]
    follow: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let logs = find(&base(), self.which.name.as_deref())?;
        let mut told = Told {
            logs,
            errors: self.errors,
            known: BTreeSet::new(),
            files: Vec::new(),
            merge: Merge::default(),
        };
        told.find();
        // Whoever reads no more, as `head` does, has had enough.
        match told.all().and_then(|()| if self.follow { told.follow() } else { Ok(()) }) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            done => done.map(|()| ExitCode::SUCCESS).context("cannot tell the logs"),
        }
    }
}

/// Logs that are told as one.
struct Told {
    logs: Logs,
    /// What servers complain about; else what was asked of them.
    errors: bool,
    known: BTreeSet<PathBuf>,
    /// With the copy's number.
    files: Vec<(usize, Tail)>,
    merge: Merge,
}

impl Told {
    /// Those that are there by now.
    fn find(&mut self) {
        for (copy, folder) in self.logs.folders() {
            for path in files(&folder) {
                let is_asked = path.ends_with("access.log") != self.errors;
                if is_asked && self.known.insert(path.clone()) {
                    self.files.push((copy, Tail::new(&path, &aside(&path))));
                }
            }
        }
    }

    /// What is there. The file that has been told least of is read next, so only parts of them are in memory.
    fn all(&mut self) -> io::Result<()> {
        let mut left: BTreeSet<usize> = (0..self.files.len()).collect();
        while let Some(nr) = left.iter().copied().min_by_key(|nr| self.merge.reached(*nr)) {
            let lines = self.read(nr)?;
            // More may come faster than it is told.
            if lines.is_empty() || self.files[nr].1.has_told_first() {
                left.remove(&nr);
            }
            self.merge.take_in(lines);
            let limit = left.iter().map(|nr| self.merge.reached(*nr)).min();
            let ready = self.merge.before(limit);
            self.print(&ready)?;
        }
        Ok(())
    }

    /// What comes.
    fn follow(&mut self) -> io::Result<()> {
        loop {
            std::thread::sleep(LOOK_EVERY);
            self.find();
            let mut fresh = Vec::new();
            for nr in 0..self.files.len() {
                for _ in 0..PARTS_MAX {
                    let lines = self.read(nr)?;
                    if lines.is_empty() {
                        break;
                    }
                    fresh.extend(lines);
                }
            }
            let ready = self.merge.add(fresh);
            self.print(&ready)?;
        }
    }

    /// What a file has more, or a part of that.
    fn read(&mut self, file: usize) -> io::Result<Vec<Line>> {
        let (copy, tail) = &mut self.files[file];
        let copy = *copy;
        Ok(tail.read()?.into_iter().map(|text| Line { copy, file, text }).collect())
    }

    fn print(&self, lines: &[Line]) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for line in lines {
            writeln!(out, "{}", shown(line, self.errors))?;
        }
        out.flush()
    }
}

/// The logs that are asked for, or the only ones.
fn find(base: &Path, name: Option<&str>) -> anyhow::Result<Logs> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let has_some = |name: &String| {
        let folders = Logs(base.join(name)).folders();
        folders.iter().any(|(_, folder)| !files(folder).is_empty())
    };
    let mut names: Vec<_> = names.filter(has_some).collect();
    names.sort();
    let running = |name: &&String| instance::is_running(&instance::base().join(name));
    let mut running = names.iter().filter(running);
    if let (None, Some(only), None) = (name, running.next(), running.next()) {
        return Ok(Logs(base.join(only)));
    }
    let remedy = "recipes have some, and whoever is told to write below {logs}";
    match (name, &names[..]) {
        (Some(name), _) if names.iter().any(|it| it == name) => Ok(Logs(base.join(name))),
        (Some(name), _) => bail!("there are no logs of a `serve` named {name}: {remedy}"),
        (None, [only]) => Ok(Logs(base.join(only))),
        (None, []) => bail!("there are no logs in {}: {remedy}", base.display()),
        (None, _) => {
            bail!("there are logs of several: say which with --name: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_put_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs(folder.path().join("wiki"));
        logs.make(1, None).unwrap();
        let log = logs.of_copy(1).join("access.log");
        fs::write(&log, "a\n").unwrap();
        assert!(!logs.put_aside(1, 2).unwrap());
        fs::write(&log, "b\nc\n").unwrap();
        assert!(logs.put_aside(1, 2).unwrap());
        assert!(!log.exists() && aside(&log).exists());
        fs::write(&log, "later\n").unwrap();
        assert!(logs.put_aside(1, 2).unwrap());
        assert_eq!(fs::read_to_string(aside(&log)).unwrap(), "later\n");
        assert!(!logs.put_aside(1, 2).unwrap(), "what is aside stays there");
        assert!(!logs.put_aside(7, 2).unwrap(), "a copy without logs");
    }

    #[test]
    fn a_folder_that_is_found_stays_as_open_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        let logs = Logs(base.join("wiki"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, PermissionsExt::from_mode(0o1777)).unwrap();
        logs.make(0, None).unwrap();
        assert_eq!([&base, &logs.0].map(|path| mode(path)), [0o1777, 0o755]);
        fs::set_permissions(&logs.0, PermissionsExt::from_mode(0o750)).unwrap();
        fs::set_permissions(logs.of_copy(0), PermissionsExt::from_mode(0o755)).unwrap();
        logs.make(0, None).unwrap();
        assert_eq!([&base, &logs.0].map(|path| mode(path)), [0o1777, 0o750]);
        assert_eq!(mode(&logs.of_copy(0)), 0o700, "who asked for what is nobody else's business");
    }

    #[test]
    fn what_is_another_users_is_not_written_to() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let logs = Logs(base.path().join("wiki"));
        std::os::unix::fs::symlink(elsewhere.path(), &logs.0).unwrap();
        let refused = format!("{:#}", logs.make(0, None).unwrap_err());
        assert!(refused.contains("is another user's, or no folder"), "{refused}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_logs_that_are_meant_are_found_or_asked_for() {
        let base = tempfile::tempdir().unwrap();
        let said = |name| find(base.path(), name).unwrap_err().to_string();
        assert!(said(None).contains("there are no logs in"));
        let make = |name| {
            let logs = Logs(base.path().join(name));
            logs.make(0, None).unwrap();
            assert!(find(base.path(), Some(name)).is_err(), "there is nothing in it");
            fs::write(logs.of_copy(0).join("access.log"), "").unwrap();
        };
        make("wiki");
        assert!(find(base.path(), None).is_ok());
        make("blog");
        assert!(said(None).ends_with("say which with --name: blog, wiki"));
        assert!(said(Some("shop")).contains("no logs of a `serve` named shop"));
        assert_eq!(find(base.path(), Some("wiki")).unwrap().folders().len(), 1);
    }
}
