//! A program of the study's in guests of the lab: prepared and tried here, once, with less to do, and packed. Each guest unpacks
//! it at the same path, in its own memory, before anything of it is counted.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::bail;

use super::place::Place;
use super::{Prepared, Program, Size, command, head, quoted, text, write};

const SCRIPT: &str = include_str!("in_guests.sh");
/// A whole path, for whoever has no PATH.
const SH: &str = "/bin/sh";

/// What guests are given; all of it is gone when this is dropped.
#[derive(Debug)]
pub struct InGuests {
    prepared: Prepared,
    /// What packs, unpacks and begins.
    script: PathBuf,
    load: Option<OsString>,
    ready: Option<OsString>,
    /// Where guests see the script and what is packed.
    _shared: Place,
}

impl InGuests {
    /// # Errors
    /// One sentence: what is missing, with the remedy, or what it does wrong.
    pub fn new(program: Program, settings: &[String]) -> anyhow::Result<Self> {
        let this = Self::packed(program, settings)?;
        // What does wrong is not worth being counted. What it leaves here no guest sees.
        let nr_cpus = available_parallelism().map_or(1, NonZero::get);
        if let Err(why) = this.prepared.try_once(nr_cpus) {
            bail!("{} does not run as it should: {why}", program.word());
        }
        Ok(this)
    }

    fn packed(program: Program, settings: &[String]) -> anyhow::Result<Self> {
        let prepared = Prepared::of_size(program, Size::Guest, settings)?;
        let shared = Place::for_guests()?;
        let path = |name: &str| anyhow::Ok(text(&shared.path().join(name))?.to_owned());
        let (archive, pipe) = (path("packed.tar")?, path("unpacked")?);
        let head = head(prepared.place.path(), &[("ARCHIVE", archive), ("UNPACKED", pipe)])?;
        let script = shared.path().join("in_guests.sh");
        write(&script, &[&head, SCRIPT])?;
        if let Err(why) = prepared.printed_by(command(&script, "pack", 1), "pack") {
            bail!("{} cannot be packed for guests: {why}", program.word());
        }
        let line = format!("sh {} ", quoted(text(&script)?)?);
        let load = program.is_server().then(|| (line.clone() + "load").into());
        let ready = program.says_when_ready().then(|| (line + "ready").into());
        Ok(Self { prepared, script, load, ready, _shared: shared })
    }

    /// What is counted: the job, or the server.
    pub fn command(&self) -> Vec<OsString> {
        let action = if self.prepared.program.is_server() { "serve" } else { "job" };
        self.words("sh", action)
    }

    /// A shell's line that loads it, if it is a server.
    pub fn load(&self) -> Option<OsString> {
        self.load.clone()
    }

    /// Likewise, one that fails until the server may be loaded: if that is more than that it listens.
    pub fn ready(&self) -> Option<OsString> {
        self.ready.clone()
    }

    /// What a guest's root runs beside it, uncounted.
    pub fn beside(&self) -> Vec<OsString> {
        self.words(SH, "unpack")
    }

    fn words(&self, shell: &str, action: &str) -> Vec<OsString> {
        vec![shell.into(), self.script.clone().into(), action.into()]
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Output, Stdio};

    use clap::ValueEnum;

    use super::*;
    use crate::scale::metric::Metric;
    use crate::scale::programs::METRIC;

    fn started(words: &[OsString]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("QUARTIER_CPUS", "2").stdin(Stdio::null());
        command
    }

    /// As in a guest, where nothing is of what was prepared: one unpacks, the other waits for that.
    fn ran(program: &InGuests) -> Output {
        fs::remove_dir_all(program.prepared.place.path()).unwrap();
        let mut beside = started(&program.beside()).env_remove("PATH").spawn().unwrap();
        let output = started(&program.command()).output().unwrap();
        beside.wait().unwrap();
        output
    }

    #[test]
    fn a_job_does_its_work_from_what_was_packed() {
        let program = InGuests::new(Program::Mapreduce, &[]).unwrap();
        let output = ran(&program);
        let printed = String::from_utf8(output.stdout.clone()).unwrap();
        let units = Metric::count(METRIC).unwrap().units(&printed, 1.0);
        assert_eq!(units, Ok(32.0), "{output:?}");
        program.prepared.does("check", 1).unwrap();
        assert_eq!(program.load(), None);
    }

    /// With what guests have to do, which is made otherwise than what a machine's CPUs have.
    #[test]
    fn each_program_that_is_here_is_prepared_and_does_right() {
        for program in Program::value_variants() {
            match InGuests::new(*program, &[]) {
                Ok(_) => {}
                Err(why) if why.to_string().contains("apt-get install") => {
                    eprintln!("skipped: {why}");
                }
                Err(why) => panic!("{}: {why}", program.word()),
            }
        }
    }

    /// Or it would wait for ever.
    #[test]
    fn what_cannot_be_unpacked_is_said() {
        let program = InGuests::packed(Program::Mapreduce, &[]).unwrap();
        fs::remove_file(program.script.with_file_name("packed.tar")).unwrap();
        let output = ran(&program);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("not in the guest") && said.contains("packed.tar"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
