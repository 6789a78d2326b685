//! A run that was counted in a guest, as one of a study: its time is modelled, and charged to the lines of memory that CPUs
//! took from each other, by who took them; what is left to instructions, to other stalls, and to CPUs without enough to do.

use quartier_count::{ContendedLine, Nature, Report, Taker};
use quartier_decide::verdict::{Cost, Counted, Profile, Run, Sharing, Spent, Study};
use quartier_memmodel::geometry::Geometry;
use quartier_model::{Frame, KERNEL_MODULE, Recording};

/// Of code that no file has a name for.
const UNKNOWN: &str = "unknown";

/// Adds a run, of so many units of work, to a point of the study.
pub fn add(study: &mut Study, at: usize, report: &Report, units: f64) {
    let counted = counted(report);
    let wall_s = seconds(report.modelled.phase_cycles as f64, &report.geometry);
    let ran_s = counted.instructions_s + counted.stalls_s;
    let idle_s = (f64::from(study.points[at].nr_cpus) * wall_s - ran_s).max(0.0);
    let mut charged = Charged::default();
    if let Some(lines) = &report.lines {
        for line in &lines.most {
            charged.line(line, &report.geometry);
        }
    }
    let of_lines_s: f64 = charged.costs.iter().map(|cost| cost.ran_s).sum();
    charged.spent(Spent::Instructions, counted.instructions_s, 0.0);
    charged.spent(Spent::Stalls, (counted.stalls_s - of_lines_s).max(0.0), 0.0);
    charged.spent(Spent::Nothing, 0.0, idle_s);
    let profile = Profile { ran_s, idle_s, costs: charged.costs, ..Profile::default() };
    let profile = study.adopt(profile, &charged.names);
    study.points[at].runs.push(Run {
        units,
        wall_s,
        user_s: ran_s,
        kernel_s: 0.0,
        nr_waits: 0,
        nr_preemptions: 0,
        nr_faults: None,
        nr_disk_faults: None,
        profile: Some(profile),
        counted: Some(counted),
    });
}

fn counted(report: &Report) -> Counted {
    let cpus = &report.modelled.cpus;
    let stall_cycles: u64 = cpus.iter().map(|cpu| cpu.stall_cycles).sum();
    let cycles: u64 = cpus.iter().map(|cpu| cpu.modelled_cycles).sum();
    Counted {
        nr_instructions: report.instructions,
        instructions_s: seconds((cycles - stall_cycles) as f64, &report.geometry),
        stalls_s: seconds(stall_cycles as f64, &report.geometry),
        nr_local: report.program.commands.local,
        nr_remote: report.program.commands.remote,
        nr_taken: report.lines.as_ref().map_or(0, |lines| lines.taken),
        busiest_percent: busiest_percent(report),
    }
}

/// What cycles take at a geometry's frequency.
fn seconds(cycles: f64, geometry: &Geometry) -> f64 {
    cycles / (f64::from(geometry.cost.frequency_mhz) * 1e6)
}

/// How busy that is which is busiest, a node's memory or a link: lines that went there, of those that could have.
fn busiest_percent(report: &Report) -> f64 {
    let (geometry, matrix) = (&report.geometry, &report.program.matrix);
    let cycles = report.modelled.phase_cycles.max(1) as f64;
    let busy = |nr_commands: u64, bytes_per_cycle: f64| {
        let bytes = nr_commands as f64 * f64::from(geometry.line_bytes);
        100.0 * bytes / (cycles * bytes_per_cycle.max(f64::MIN_POSITIVE))
    };
    let links = matrix.iter().enumerate().flat_map(|(from, row)| {
        let others = row.iter().enumerate().filter(move |(to, _)| *to != from);
        others.map(|(_, nr)| busy(*nr, geometry.cost.link_bytes_per_cycle))
    });
    // What each node's memory was asked for, at most: caches in front of it may have served some.
    let asked = |to: usize| matrix.iter().filter_map(|row| row.get(to)).sum::<u64>();
    let most = report.service.memory;
    let memory = (0..matrix.len())
        .map(|node| busy(asked(node).min(most), geometry.cost.memory_bytes_per_cycle));
    links.chain(memory).fold(0.0, f64::max)
}

/// Costs, with their names.
#[derive(Default)]
struct Charged {
    costs: Vec<Cost>,
    names: Recording,
}

impl Charged {
    fn line(&mut self, line: &ContendedLine, geometry: &Geometry) {
        let sharing = match line.nature {
            Nature::Shared => Sharing::Word,
            Nature::FalselyShared => Sharing::Line,
        };
        for word in &line.words {
            for taker in &word.takers {
                let object = word.object.as_ref().map(|object| self.object(object));
                let ran_s = seconds(taker.modelled_stall_cycles as f64, geometry);
                let stack = vec![self.taker(taker)];
                let sharing = Some(sharing);
                self.costs.push(Cost { stack, object, sharing, ran_s, ..nothing() });
            }
        }
    }

    fn spent(&mut self, spent: Spent, ran_s: f64, idle_s: f64) {
        let stack = vec![self.frame(spent.name(), "modelled")];
        self.costs.push(Cost { stack, spent: Some(spent), ran_s, idle_s, ..nothing() });
    }

    fn taker(&mut self, taker: &Taker) -> u32 {
        let module = taker.module.as_deref().unwrap_or(UNKNOWN);
        let unknown = if module == KERNEL_MODULE { "kernel" } else { UNKNOWN };
        self.frame(taker.function.as_deref().unwrap_or(unknown), module)
    }

    fn frame(&mut self, function: &str, module: &str) -> u32 {
        let (function, module) = (function.to_owned(), module.to_owned());
        self.names.frames.push(Frame { function, module, line: None });
        self.names.frames.len() as u32 - 1
    }

    fn object(&mut self, object: &str) -> u32 {
        self.names.objects.push(object.to_owned());
        self.names.objects.len() as u32 - 1
    }
}

fn nothing() -> Cost {
    Cost {
        stack: Vec::new(),
        object: None,
        sharing: None,
        waits: None,
        spent: None,
        nr_samples: 0,
        ran_s: 0.0,
        ran_beside_idle_s: 0.0,
        idle_s: 0.0,
        waited_s: 0.0,
    }
}
