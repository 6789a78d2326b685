//! One counted run: a guest with the instrument in it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use quartier_count::{
    Allocation, Circumstances, CodePlace, CountMode, Machine, Moment, Naming, Noted, Phase, Places,
    Recording, Taken, most_contended, most_executed, most_stalled,
};
use quartier_lab::{Exit, Instrument, Report, Request, Spaces};
use quartier_memmodel::geometry::{Geometry, Preset, Topology};
use quartier_memmodel::{Layout, LayoutError, Owner, System};
use quartier_model::{Distance, Frame};
use quartier_observe::profile::Names;

use super::guest::GuestArgs;
use crate::installed;
use crate::scale::allocations;

/// Options of every command that counts.
#[derive(Debug, clap::Args)]
pub struct CountingArgs {
    #[command(flatten)]
    counted: Counted,
    /// Which part of a run the report is about
    #[arg(long, value_name = "PHASE", default_value = "whole")]
    phase: PhaseOption,
}

/// Of them, those that are of no use for what was counted before.
#[derive(Debug, clap::Args)]
struct Counted {
    /// What is modelled: `server`, `tsar`, or a file (docs/lab.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "server")]
    geometry: String,
    /// Model one in N sets of the caches (8, say): faster; the report says how far Q may be off
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    sample: u32,
    /// Compare translations with QEMU's own, for a note in the report
    #[arg(long, hide = true)]
    check_translations: bool,
    /// Tell which lines of memory CPUs take from each other and where they wait for memory, what lies there, and whose code it is
    #[arg(long, conflicts_with = "sample")]
    lines: bool,
    /// With --lines: name memory that was allocated, by the function that did; a library in the program tells of each call
    #[arg(long, requires = "lines")]
    allocations: bool,
    /// CMD is a server: once it listens, run this shell command line, count the server meanwhile, then
    /// stop it
    #[arg(long, value_name = "LINE")]
    load: Option<OsString>,
    /// With --load: the server can be loaded once this shell command line succeeds [default: once it listens]
    #[arg(long, value_name = "LINE", requires = "load")]
    ready: Option<OsString>,
    /// Count so that another run gives identical counts: CPUs take turns, in a guest that has of this
    /// machine only the files that CMD names, with their libraries
    #[arg(long, conflicts_with = "sample")]
    repeatable: bool,
    /// With --repeatable, one more file or folder that CMD needs; may be repeated
    #[arg(long, value_name = "PATH", requires = "repeatable")]
    with_file: Vec<PathBuf>,
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PhaseOption {
    /// From its begin to its end
    Whole,
    /// From its second thread on
    Parallel,
}

impl From<PhaseOption> for Phase {
    fn from(option: PhaseOption) -> Self {
        match option {
            PhaseOption::Whole => Self::Whole,
            PhaseOption::Parallel => Self::Parallel,
        }
    }
}

impl CountingArgs {
    /// Which part of a run the report is about.
    pub fn phase(&self) -> Phase {
        self.phase.into()
    }
}

/// How to count.
#[derive(Debug)]
pub struct Counting {
    library: PathBuf,
    /// A preset's name or a file's whole path.
    name: String,
    geometry: Geometry,
    /// For how many nodes it is, if not for any number.
    nr_nodes: Option<usize>,
    sets_one_in: u32,
    checks_translations: bool,
    tells_lines: bool,
    /// What is loaded into the program to tell who allocates, if that is asked for.
    allocations: Option<PathBuf>,
    load: Option<OsString>,
    ready: Option<OsString>,
    is_repeatable: bool,
    files: Vec<PathBuf>,
    /// Of places where CPUs wait for memory or execute code, which differ by who called, so many are told.
    places_max: usize,
}

impl Counting {
    /// Finds everything, before a guest boots.
    pub fn new(args: &CountingArgs, guest: &GuestArgs) -> anyhow::Result<Self> {
        let CountingArgs { counted: args, phase } = args;
        if guest.is_accelerated() {
            bail!(
                "--kvm runs the program on the processor, where nothing can be counted: leave it out"
            );
        }
        if args.load.is_some() && matches!(phase, PhaseOption::Parallel) {
            bail!(
                "--phase parallel cannot be with --load: a server's threads begin before its load, so \
                 leave --phase out"
            );
        }
        let library = installed::library("libquartier_plugin.so", "the instrument")?;
        let (name, geometry) = read_geometry(&args.geometry)?;
        let nr_nodes = match &geometry.topology {
            Topology::Matrix { hops } => Some(hops.len()),
            _ => None,
        };
        let sets_one_in = args.sample;
        System::new_sampled(
            geometry.clone(),
            Layout::uniform(
                nr_nodes.and_then(|nodes| nodes.try_into().ok()).unwrap_or(1),
                1,
                1 << 30,
            ),
            sets_one_in,
        )
        .with_context(|| format!("--sample {sets_one_in}"))?;
        Ok(Self {
            library,
            name,
            geometry,
            nr_nodes,
            sets_one_in,
            checks_translations: args.check_translations,
            tells_lines: args.lines,
            allocations: args.allocations.then(allocations::library).transpose()?,
            load: args.load.clone(),
            ready: args.ready.clone(),
            is_repeatable: args.repeatable,
            places_max: PLACES_MAX,
            files: args.with_file.clone(),
        })
    }

    /// To tell the lines that CPUs take from each other, and if asked for who allocated what lies there.
    pub fn of_lines(
        (geometry, allocations): (String, bool),
        load: Option<OsString>,
        phase: PhaseOption,
        guest: &GuestArgs,
    ) -> anyhow::Result<Self> {
        let counted = Counted {
            geometry,
            sample: 1,
            check_translations: false,
            lines: true,
            allocations,
            load,
            ready: None,
            repeatable: false,
            with_file: Vec::new(),
        };
        let counting = Self::new(&CountingArgs { counted, phase }, guest)?;
        // What a sweep names is put together from all of them.
        Ok(Self { places_max: usize::MAX, ..counting })
    }

    /// A server that listens before it can be loaded is ready when this shell command line succeeds.
    pub fn once_ready(mut self, line: Option<OsString>) -> Self {
        self.ready = line;
        self
    }

    /// Whether an instruction is a nanosecond.
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Runs a request with `run` and gives what was counted of its command, with how the run went.
    pub fn count(
        &self,
        mut request: Request,
        run: impl FnOnce(&Request) -> anyhow::Result<Report>,
    ) -> anyhow::Result<(Recording, Report)> {
        let folder = tempfile::tempdir().context("cannot make a folder for what is counted")?;
        let out = folder.path().join("counted.json");
        if self.is_repeatable && request.slow_time.is_some() {
            bail!(
                "--repeatable has a time of its own, that of instructions: leave --slow-time out"
            );
        }
        self.prepare(&mut request, &out)?;
        let report = run(&request)?;
        let counted = std::fs::read(&out).map_err(|_| nothing_counted(&report, folder.path()))?;
        let mut taken = Taken::parse(&counted)?;
        let noted = taken.noted.take();
        let mode = self.mode(&taken);
        let mut recording = taken.recording(Circumstances {
            command: words(&request.command),
            kernel: report.kernel.clone(),
            qemu: report.qemu.clone(),
            machine: Machine { cpus_per_node: report.cpus.clone() },
            mode,
        })?;
        if let Some(noted) = noted {
            if self.allocations.is_some() && noted.nr_allocations == 0 {
                recording.notes.push(NOTHING_TOLD.to_owned());
            }
            let mut names = Named::of(&report.spaces);
            let whole = self.places(&noted.whole(), &mut names);
            (recording.lines, recording.stalls) = (Some(whole.lines), Some(whole.stalls));
            (recording.moves, recording.executed) = (whole.moves, whole.executed);
            recording.parallel = Some(self.places(&noted.parallel, &mut names));
        }
        if self.is_repeatable {
            // An instruction is a nanosecond there.
            recording.marks.iter_mut().for_each(|mark| mark.guest_seconds = None);
        }
        if let Some(line) = &self.load {
            recording.under_load = true;
            // Of a server's threads, those that begin meanwhile are no phase of it.
            recording.marks.retain(|mark| matches!(mark.at, Moment::Start | Moment::End));
            recording.notes.push(format!(
                "Only the time of the load was counted, and of that the server alone; the load: {}",
                line.to_string_lossy()
            ));
        }
        if request.slow_clocks > 1 {
            recording.notes.push(format!(
                "What acts by the clock waited {} times as long, because the guest works so much slower \
                 than a machine",
                request.slow_clocks
            ));
        }
        if let Some(slow) = &request.slow_time {
            recording.notes.push(if request.time_follows_work() {
                format!(
                    "Time passed in the guest as its work did, by modelled time, and {} times slower than here \
                     while it had none.",
                    slow.times
                )
            } else {
                format!("Time passed {} times slower in the guest.", slow.times)
            });
        }
        Ok((recording, report))
    }

    /// What CPUs took from each other and what they waited for, with names.
    fn places(&self, noted: &Noted, names: &mut Named) -> Places {
        let line_bytes = u64::from(self.geometry.line_bytes);
        Places {
            lines: most_contended(&noted.handovers, line_bytes, LINES_MAX, names),
            stalls: most_stalled(&noted.stalls, self.places_max, names),
            moves: Some(most_stalled(&noted.moves, self.places_max, names)),
            executed: Some(most_executed(&noted.looks, self.places_max, names)),
        }
    }

    /// How it was counted; a sample's error is two standard errors of the whole run's Q.
    fn mode(&self, taken: &Taken) -> CountMode {
        if self.is_repeatable {
            return CountMode::Deterministic;
        }
        let one_in = self.sets_one_in;
        if one_in <= 1 {
            return CountMode::Parallel;
        }
        let end = taken.marks.last().map(|mark| &mark.snapshot);
        let error = end.and_then(|end| end.q_standard_error(Owner::Program)).unwrap_or(0.0);
        CountMode::Sampled { one_in, error_percent: (200.0 * error).min(100.0) }
    }

    /// What the instrument is to model: as far apart as the guest's nodes are, where distances are asked for and
    /// the geometry has none of its own; in a file beside `out` then.
    fn geometry_for(&self, guest: &quartier_lab::Topology, out: &Path) -> anyhow::Result<String> {
        if !guest.has_distances() || self.nr_nodes.is_some() {
            return Ok(self.name.clone());
        }
        let topology = Topology::Matrix { hops: hops(guest.machine()) };
        let geometry = Geometry { topology, ..self.geometry.clone() };
        geometry.check().context("--distance")?;
        let path = out.with_file_name("geometry.toml");
        std::fs::write(&path, geometry.to_toml())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Puts the instrument into a guest.
    fn prepare(&self, request: &mut Request, out: &Path) -> anyhow::Result<()> {
        let nodes = request.topology.machine().nodes().len();
        if let Some(topology) = self.nr_nodes.filter(|topology| *topology != nodes) {
            bail!("{}: {}", self.name, LayoutError::Topology { topology, nodes });
        }
        request.instrument = Some(Instrument {
            library: self.library.clone(),
            out: out.to_owned(),
            geometry: self.geometry_for(&request.topology, out)?,
            sets_one_in: self.sets_one_in,
            checks_translations: self.checks_translations,
            tells_handovers: self.tells_lines,
            repeatable: self.is_repeatable,
        });
        if let Some(library) = &self.allocations {
            preload(&mut request.environment, library);
        }
        request.load.clone_from(&self.load);
        request.ready.clone_from(&self.ready);
        request.files.clone_from(&self.files);
        let is_ours = |word: &OsString| Path::new(word).file_name() == Some("quartier".as_ref());
        if request.command.iter().any(is_ours) {
            // `quartier run` names its library nowhere.
            request.files.extend(installed::library("libquartier_preload.so", "the runtime").ok());
        }
        Ok(())
    }
}

/// What is said if no program told who allocates.
pub const NOTHING_TOLD: &str = "Memory that was allocated has no names, as no program told who allocated it: each is static, has \
     privileges, or an allocator of its own; a dynamic build that calls the C library's tells it.";

/// The library will be in all that a command starts.
fn preload(environment: &mut Vec<(OsString, OsString)>, library: &Path) {
    const NAME: &str = "LD_PRELOAD";
    let others = environment.iter().position(|(name, _)| name == NAME);
    let others = others.map(|at| environment.swap_remove(at).1);
    environment.push((NAME.into(), allocations::preloads(others, library)));
}

/// Of lines that CPUs take from each other so many are named,
const LINES_MAX: usize = 64;
/// and of places where they wait for memory or execute code, in a report.
const PLACES_MAX: usize = 2048;

/// What names the addresses of a guest, whose programs are this machine's.
struct Named {
    names: Names,
    /// Code that was asked for: callers come again and again.
    codes: HashMap<(Option<u32>, u64), Option<CodePlace>>,
    /// And calls that gave memory: of one there may be many blocks.
    memories: HashMap<(u32, Allocation), Option<String>>,
}

impl Named {
    fn of(spaces: &Spaces) -> Self {
        let names = Names::new(Path::new("/"), &spaces.maps, &spaces.kernel_names);
        Self { names, codes: HashMap::new(), memories: HashMap::new() }
    }
}

impl Naming for Named {
    fn code(&mut self, process: Option<u32>, address: u64) -> Option<CodePlace> {
        let find = || {
            let Frame { function, module, .. } = self.names.function(process, address)?;
            Some(CodePlace { function, module })
        };
        self.codes.entry((process, address)).or_insert_with(find).clone()
    }

    fn program(&mut self, process: u32) -> Option<String> {
        self.names.program(process).map(str::to_owned)
    }

    fn object(&mut self, process: Option<u32>, address: u64) -> Option<String> {
        self.names.object(process, address)
    }

    fn memory(&mut self, process: Option<u32>, allocated: &Allocation) -> Option<String> {
        let process = process?;
        let find = || self.names.memory(process, allocated.returns_to, &allocated.stack);
        self.memories.entry((process, allocated.clone())).or_insert_with(find).clone()
    }
}

/// How many hops apart nodes are that have such distances: those that are nearest to each other one, those at the
/// next larger distance two.
fn hops(machine: &quartier_model::Machine) -> Vec<Vec<u16>> {
    let rows = &machine.distances().rows;
    let mut steps: Vec<_> = rows.iter().flatten().copied().collect();
    steps.push(Distance::LOCAL);
    steps.sort_unstable();
    steps.dedup();
    let hops = |distance: &Distance| steps.partition_point(|step| step < distance) as u16;
    rows.iter().map(|row| row.iter().map(hops).collect()).collect()
}

/// Why the instrument left no file.
fn nothing_counted(report: &Report, folder: &Path) -> anyhow::Error {
    match report.exit {
        Exit::Signal(_) => {
            anyhow!("nothing was counted: a signal ended the guest while its command ran")
        }
        Exit::Status(_) => anyhow!(
            "nothing was counted: the instrument wrote nothing to {}; see whether there is room, and \
             build or install quartier and its instrument together",
            folder.display()
        ),
    }
}

/// A command as reports show it.
pub fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A preset by name, or a file by its whole path: QEMU runs elsewhere. Read here first, so that what
/// is wrong is told before a guest boots.
fn read_geometry(text: &str) -> anyhow::Result<(String, Geometry)> {
    if let Some(preset) = Preset::ALL.iter().find(|preset| preset.name() == text) {
        return Ok((text.to_owned(), preset.geometry()));
    }
    let names: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
    let path = std::fs::canonicalize(text).with_context(|| {
        format!("--geometry {text} is neither {} nor a file that can be read", names.join(", "))
    })?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {text}"))?;
    let geometry = Geometry::from_bytes(&bytes).with_context(|| text.to_owned())?;
    Ok((path.to_string_lossy().into_owned(), geometry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_lab::Topology as Guest;

    #[test]
    fn what_is_preloaded_anyway_stays() {
        let mut environment = vec![("LD_PRELOAD".into(), "/a.so".into()), ("A".into(), "b".into())];
        preload(&mut environment, Path::new("/sites.so"));
        let of = |name: &str| {
            let found = environment.iter().filter(|(known, _)| known == name);
            found.map(|(_, value)| value.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((of("LD_PRELOAD"), of("A")), (vec!["/a.so:/sites.so"], vec!["b"]));
    }

    #[test]
    fn nodes_that_are_farther_apart_are_more_hops_apart() {
        let hops_of = |distance: &str| {
            let distances = distance.parse().unwrap();
            let guest = Guest::new(Some(4), &"1".parse().unwrap(), None, Some(&distances));
            hops(guest.unwrap().machine())
        };
        assert_eq!(hops_of("ring")[0], [0, 1, 2, 1]);
        assert_eq!(hops_of("21")[3], [1, 1, 1, 0]);
        let twins = "10,12,40,40;12,10,40,40;40,40,10,12;40,255,12,10";
        assert_eq!(hops_of(twins), [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 3, 1, 0]]);
    }
}
