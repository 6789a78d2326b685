//! A running JVM, as far as it is known from outside before it is asked anything. The signal that makes a JVM listen ends
//! any other process, so whatever is not surely one that expects it is refused.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Bit of SIGQUIT in the kernel's sets of signals.
const QUIT_BIT: u64 = 1 << 2;

/// A HotSpot.
#[derive(Debug)]
pub struct Jvm {
    pid: u32,
    /// Its number in its own namespace.
    inside_pid: u32,
    /// Where its root is, seen from here.
    root: PathBuf,
    catches_quit: bool,
    attach_is_disabled: bool,
}

impl Jvm {
    /// # Errors
    /// When there is no such process, it is no HotSpot, or it is not ours to ask.
    pub fn find(proc: &Path, pid: u32) -> anyhow::Result<Self> {
        let folder = proc.join(pid.to_string());
        let status = match fs::read_to_string(folder.join("status")) {
            Ok(status) => status,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("there is no process {pid}: `pgrep -a java` lists what runs here")
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot look at process {pid}"));
            }
        };
        let field = |name: &str| field(&status, name);
        let owner = field("Tgid").first().copied().unwrap_or_default().to_owned();
        if owner != pid.to_string() {
            bail!("{pid} is a thread of process {owner}: give {owner}");
        }
        if field("State").first() == Some(&"Z") {
            bail!(
                "process {pid} has ended, and its parent has not noticed yet: nothing can be asked of it"
            );
        }
        refuse_another_users(pid, &field("Uid"))?;
        refuse_no_hotspot(&folder, pid, field("Name").first().copied().unwrap_or("?"))?;
        let inside = field("NSpid").last().and_then(|inside| inside.parse().ok()).unwrap_or(pid);
        let caught = field("SigCgt").first().and_then(|set| u64::from_str_radix(set, 16).ok());
        Ok(Self {
            pid,
            inside_pid: inside,
            root: folder.join("root"),
            catches_quit: caught.is_some_and(|set| set & QUIT_BIT != 0),
            attach_is_disabled: attach_is_disabled(&options(&folder)),
        })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the kernel calls its threads as it does itself.
    pub fn shares_numbers(&self) -> bool {
        self.pid == self.inside_pid
    }

    /// A path of the JVM's, seen from here.
    pub fn outside(&self, path: &Path) -> PathBuf {
        let beside = || PathBuf::from(path);
        let below = path.strip_prefix("/").map_or_else(|_| beside(), |path| self.root.join(path));
        // A JVM that has more rights than others of this user hides its root; mostly it is the same one.
        match fs::metadata(&self.root) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => beside(),
            _ => below,
        }
    }

    /// Where HotSpot listens; it ignores every setting of a folder for temporary files.
    pub fn socket(&self) -> PathBuf {
        self.outside(Path::new("/tmp")).join(format!(".java_pid{}", self.inside_pid))
    }

    /// What says that a SIGQUIT asks it to listen.
    pub fn wish(&self) -> PathBuf {
        self.outside(Path::new("/tmp")).join(format!(".attach_pid{}", self.inside_pid))
    }

    /// Asks it to listen.
    ///
    /// # Errors
    /// When it would not, or the signal would end it.
    pub fn signal(&self) -> anyhow::Result<()> {
        let pid = self.pid;
        if self.attach_is_disabled {
            bail!(
                "process {pid} runs with -XX:+DisableAttachMechanism: start it without that, or with -javaagent"
            );
        }
        if !self.catches_quit {
            bail!("process {pid} does not listen yet: it has only just begun, so try again");
        }
        let target = Pid::from_raw(self.pid as i32).context("no process has the number 0")?;
        kill_process(target, Signal::QUIT).with_context(|| {
            format!("process {pid} may not be signalled: run this as its user, or as root")
        })
    }

    pub fn is_alive(&self) -> bool {
        self.root.parent().is_some_and(|folder| folder.join("status").exists())
    }
}

/// The words behind a name in `status`.
fn field<'a>(status: &'a str, name: &str) -> Vec<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().collect()
}

/// HotSpot answers its own user and root.
fn refuse_another_users(pid: u32, ids: &[&str]) -> anyhow::Result<()> {
    let effective = ids.get(1).and_then(|id| id.parse::<u32>().ok());
    let ours = geteuid();
    match effective {
        Some(theirs) if !ours.is_root() && ours.as_raw() != theirs => {
            bail!(
                "process {pid} is of user {theirs}, and this is user {}: run this as that user, or as root",
                ours.as_raw()
            )
        }
        _ => Ok(()),
    }
}

fn refuse_no_hotspot(folder: &Path, pid: u32, name: &str) -> anyhow::Result<()> {
    let maps = fs::read_to_string(folder.join("maps")).with_context(|| {
        format!("process {pid} ({name}) does not let anybody look at it: run this as root")
    })?;
    if maps.contains("/libj9vm") {
        bail!(
            "process {pid} ({name}) is an OpenJ9, which is attached to in another way: start it with -javaagent"
        );
    }
    if !maps.lines().any(|line| line.ends_with("/libjvm.so")) {
        bail!(
            "process {pid} ({name}) is not a JVM: no libjvm.so is in it; `pgrep -a java` lists what runs here"
        );
    }
    Ok(())
}

/// Everything that the JVM took options from, as far as it may be read.
fn options(folder: &Path) -> Vec<String> {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let environment = read("environ");
    let named = ["JDK_JAVA_OPTIONS=", "JAVA_TOOL_OPTIONS=", "_JAVA_OPTIONS="];
    let from_environment = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let text = String::from_utf8_lossy(variable).into_owned();
        named.iter().find_map(|name| text.strip_prefix(name)).map(str::to_owned)
    });
    let command = read("cmdline");
    let words =
        command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words
        .chain(
            from_environment
                .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()),
        )
        .collect()
}

/// The last word counts.
fn attach_is_disabled(options: &[String]) -> bool {
    let last = options.iter().rev().find(|option| option.ends_with("DisableAttachMechanism"));
    last.is_some_and(|option| option == "-XX:+DisableAttachMechanism")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process as /proc shows it.
    fn process(proc: &Path, pid: u32, status: &str, maps: &str) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("root/tmp")).unwrap();
        fs::write(folder.join("status"), status).unwrap();
        fs::write(folder.join("maps"), maps).unwrap();
        fs::write(folder.join("cmdline"), "java\0-jar\0x.jar\0").unwrap();
    }

    fn status(tgid: u32, uid: u32, caught: &str) -> String {
        format!(
            "Name:\tjava\nState:\tS (sleeping)\nTgid:\t{tgid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{tgid}\t7\nSigCgt:\t{caught}\n"
        )
    }

    const MAPS: &str = "7f00-7f01 r-xp 0 08:01 1 /usr/lib/jvm/lib/server/libjvm.so\n";

    #[test]
    fn what_is_no_jvm_of_ours_is_refused_and_told_why() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let ours = geteuid().as_raw();
        process(proc, 10, &status(10, ours, "4"), MAPS);
        process(proc, 11, &status(10, ours, "4"), MAPS);
        process(
            proc,
            12,
            &status(12, ours, "4"),
            "7f00-7f01 r-xp 0 08:01 1 /usr/bin/libjvm.so.txt\n",
        );
        process(proc, 13, &status(13, ours, "4").replace('S', "Z"), MAPS);
        process(
            proc,
            14,
            &status(14, ours, "4"),
            "7f00-7f01 r-xp 0 08:01 1 /opt/lib/default/libj9vm29.so\n",
        );
        for (pid, why) in [
            (9, "there is no process 9"),
            (11, "a thread of process 10: give 10"),
            (12, "is not a JVM"),
            (14, "OpenJ9"),
        ] {
            let refused = Jvm::find(proc, pid).unwrap_err().to_string();
            assert!(refused.contains(why), "{pid}: {refused}");
        }
        let jvm = Jvm::find(proc, 10).unwrap();
        assert!(jvm.socket().ends_with("10/root/tmp/.java_pid7"), "{:?}", jvm.socket());
    }

    #[test]
    fn another_users_is_refused_unless_by_root() {
        let other = geteuid().as_raw() + 1;
        let refused = refuse_another_users(1, &["0", &other.to_string(), "0", "0"]);
        assert_eq!(refused.is_ok(), geteuid().is_root(), "{refused:?}");
        if let Err(refused) = refused {
            assert!(refused.to_string().contains(&format!("is of user {other}")), "{refused}");
        }
    }

    #[test]
    fn nobody_is_signalled_whom_that_would_end() {
        let folder = tempfile::tempdir().unwrap();
        let ours = geteuid().as_raw();
        process(folder.path(), 10, &status(10, ours, "3"), MAPS);
        let refused = Jvm::find(folder.path(), 10).unwrap().signal().unwrap_err().to_string();
        assert!(refused.contains("only just begun"), "{refused}");
        process(folder.path(), 10, &status(10, ours, "3"), MAPS);
        fs::write(folder.path().join("10/cmdline"), "java\0-XX:+DisableAttachMechanism\0").unwrap();
        let refused = Jvm::find(folder.path(), 10).unwrap().signal().unwrap_err().to_string();
        assert!(refused.contains("-XX:+DisableAttachMechanism"), "{refused}");
    }

    #[test]
    fn the_last_option_counts() {
        let all = |options: &[&str]| {
            options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>()
        };
        assert!(attach_is_disabled(&all(&["-jar", "-XX:+DisableAttachMechanism"])));
        assert!(!attach_is_disabled(&all(&[
            "-XX:+DisableAttachMechanism",
            "-XX:-DisableAttachMechanism"
        ])));
        assert!(!attach_is_disabled(&all(&["-jar"])));
    }
}
