//! A run that was counted in a guest, as one of a study: its time is modelled, and charged to the lines of memory that CPUs
//! took from each other, by who took them, to who waited for memory, and for what, and to the code that executed instructions or
//! stalled otherwise. CPUs without enough to do are charged to what another one does alone meanwhile, or the busiest
//! beyond the others.

mod busiest;
mod executed;

use std::collections::{BTreeMap, BTreeSet};

use quartier_count::{
    CodePlace, ContendedLine, INSTRUCTIONS_PER_LOOK, Nature, Report, StalledPlace,
};
use quartier_decide::verdict::{Cost, Counted, Memory, Profile, Run, Sharing, Spent, Study};
use quartier_memmodel::geometry::Geometry;
use quartier_model::{Frame, KERNEL_MODULE, PROGRAM_MODULE, Recording};

use executed::{Clock, Executed, places};

/// Of code that no file has a name for.
const UNKNOWN: &str = "unknown";

/// Adds a run, of so many units of work, to a point of the study.
pub fn add(study: &mut Study, at: usize, report: &Report, units: f64) {
    let counted = counted(report);
    let clock = Clock::of(report);
    let wall_s = clock.wall_s;
    let ran_s = counted.instructions_s + counted.stalls_s;
    let nr_cpus = study.points[at].nr_cpus;
    let idle_s = (f64::from(nr_cpus) * wall_s - ran_s).max(0.0);
    let mut charged = Charged::default();
    if let Some(lines) = &report.lines {
        for line in &lines.most {
            charged.line(line, &report.geometry);
        }
    }
    for place in report.stalls.iter().flat_map(|stalls| &stalls.most) {
        charged.stalled(place, &report.geometry);
    }
    charged.moved(report);
    let of_places_s: f64 = charged.costs.iter().map(|cost| cost.ran_s).sum();
    let rest_s = (counted.stalls_s - of_places_s).max(0.0);
    let executed = Executed::of(report, counted.instructions_s, rest_s);
    let all_idle_s = executed.idle_s(report, &clock, nr_cpus, idle_s);
    charged.executed(report, &executed, nr_cpus, &all_idle_s);
    charged.spent(Spent::Instructions, counted.instructions_s - executed.instructions_s, 0.0);
    charged.spent(Spent::Stalls, rest_s - executed.stalls_s, 0.0);
    charged.spent(Spent::Nothing, 0.0, idle_s - all_idle_s.iter().sum::<f64>());
    let profile = Profile { ran_s, idle_s, costs: charged.costs, ..Profile::default() };
    let profile = study.adopt(profile, &charged.names);
    study.points[at].runs.push(Run {
        units,
        wall_s,
        profile: Some(profile),
        counted: Some(counted),
        ..Run::default()
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
        memories_busy_percent: memories_busy_percent(report),
    }
}

/// What cycles take at a geometry's frequency.
fn seconds(cycles: f64, geometry: &Geometry) -> f64 {
    cycles / (f64::from(geometry.cost.frequency_mhz) * 1e6)
}

/// How busy that is which is busiest, a node's memory or a link: lines that went there, of those that could have.
fn busiest_percent(report: &Report) -> f64 {
    let matrix = &report.program.matrix;
    let per_cycle = report.geometry.cost.link_bytes_per_cycle;
    let links = matrix.iter().enumerate().flat_map(|(from, row)| {
        let others = row.iter().enumerate().filter(move |(to, _)| *to != from);
        others.map(|(_, nr)| busy_percent(report, *nr, per_cycle))
    });
    let memories = (0..matrix.len()).map(|node| memory_busy_percent(report, node));
    links.chain(memories).fold(0.0, f64::max)
}

/// How busy the memories are of those nodes whose CPUs ran the program, in the mean.
fn memories_busy_percent(report: &Report) -> Option<f64> {
    let ran = report.modelled.cpus.iter().filter(|cpu| cpu.instructions > 0);
    let nodes: BTreeSet<usize> = ran.map(|cpu| usize::from(cpu.node)).collect();
    let busy: f64 = nodes.iter().map(|node| memory_busy_percent(report, *node)).sum();
    (!nodes.is_empty()).then(|| busy / nodes.len() as f64)
}

/// What a node's memory was asked for, at most: caches in front of it may have served some.
fn memory_busy_percent(report: &Report, node: usize) -> f64 {
    let asked: u64 = report.program.matrix.iter().filter_map(|row| row.get(node)).sum();
    busy_percent(
        report,
        asked.min(report.service.memory),
        report.geometry.cost.memory_bytes_per_cycle,
    )
}

/// Of all the time, for so many lines.
fn busy_percent(report: &Report, nr_commands: u64, bytes_per_cycle: f64) -> f64 {
    let cycles = report.modelled.phase_cycles.max(1) as f64;
    let bytes = nr_commands as f64 * f64::from(report.geometry.line_bytes);
    100.0 * bytes / (cycles * bytes_per_cycle.max(f64::MIN_POSITIVE))
}

/// A function, its file, and who called it.
type Whose<'a> = (&'a Option<String>, &'a Option<String>, &'a [CodePlace]);

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
                let stack = self.stack(&taker.callers, (&taker.function, &taker.module));
                let sharing = Some(sharing);
                self.costs.push(Cost { stack, object, sharing, ran_s, ..Cost::default() });
            }
        }
    }

    /// For near memory and for far.
    fn stalled(&mut self, place: &StalledPlace, geometry: &Geometry) {
        let stack = self.stack(&place.callers, (&place.function, &place.module));
        let object = place.object.as_ref().map(|object| self.object(object));
        for (memory, waited) in [(Memory::Near, place.near), (Memory::Far, place.far)] {
            let ran_s = seconds(waited.modelled_stall_cycles as f64, geometry);
            if waited.asked > 0 {
                let (stack, memory) = (stack.clone(), Some(memory));
                self.costs.push(Cost { stack, object, memory, ran_s, ..Cost::default() });
            }
        }
    }

    /// Who takes lines that are none of those that are taken most, each of them seldom.
    fn moved(&mut self, report: &Report) {
        let mut charged: BTreeMap<Whose<'_>, u64> = BTreeMap::new();
        let words = report.lines.iter().flat_map(|lines| &lines.most).flat_map(|line| &line.words);
        for taker in words.flat_map(|word| &word.takers) {
            let whose = (&taker.function, &taker.module, &taker.callers[..]);
            *charged.entry(whose).or_default() += taker.modelled_stall_cycles;
        }
        for place in report.moves.iter().flat_map(|moves| &moves.most) {
            let whose = (&place.function, &place.module, &place.callers[..]);
            let known = charged.entry(whose).or_default();
            let of_lines = place.modelled_stall_cycles().min(*known);
            *known -= of_lines;
            let cycles = (place.modelled_stall_cycles() - of_lines) as f64;
            if cycles > 0.0 {
                let stack = self.stack(&place.callers, (&place.function, &place.module));
                let object = place.object.as_ref().map(|object| self.object(object));
                let ran_s = seconds(cycles, &report.geometry);
                self.costs.push(Cost { stack, object, ran_s, ..Cost::default() });
            }
        }
    }

    /// Which code executed the instructions and had the stalls that no other place explains, and what each place is charged with of the
    /// time that so many CPUs are idle.
    fn executed(&mut self, report: &Report, executed: &Executed, nr_cpus: u32, all_idle_s: &[f64]) {
        let nr_others = f64::from(nr_cpus).max(2.0) - 1.0;
        for (place, idle_s) in places(report).zip(all_idle_s) {
            let mut stack = self.stack(&place.callers, (&place.function, &place.module));
            if let Some(program) = &place.program {
                stack.insert(0, self.frame(program, PROGRAM_MODULE));
            }
            let ran_s = executed.ran_s(place);
            self.costs.push(Cost {
                stack,
                nr_samples: place.instructions / INSTRUCTIONS_PER_LOOK,
                ran_s,
                // As if all others were idle, for as long as that.
                ran_beside_idle_s: (idle_s / nr_others).min(ran_s),
                idle_s: *idle_s,
                ..Cost::default()
            });
        }
    }

    fn spent(&mut self, spent: Spent, ran_s: f64, idle_s: f64) {
        let stack = vec![self.frame(spent.name(), "modelled")];
        self.costs.push(Cost { stack, spent: Some(spent), ran_s, idle_s, ..Cost::default() });
    }

    /// From the outermost caller that is known to code that has a name, or its file's.
    fn stack(
        &mut self,
        callers: &[CodePlace],
        (function, module): (&Option<String>, &Option<String>),
    ) -> Vec<u32> {
        let mut stack: Vec<u32> = callers
            .iter()
            .rev()
            .map(|caller| self.frame(&caller.function, &caller.module))
            .collect();
        let module = module.as_deref().unwrap_or(UNKNOWN);
        let unknown = if module == KERNEL_MODULE { "kernel" } else { UNKNOWN };
        stack.push(self.frame(function.as_deref().unwrap_or(unknown), module));
        stack
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

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_count::{
        CountMode, CpuTime, ExecutedOn, ExecutedPlace, FORMAT, Lines, Machine, Mark, MemoryStalls,
        Moment, Phase, Recording as Counting, Taker, Waited, Word,
    };
    use quartier_decide::verdict::Point;
    use quartier_memmodel::geometry::Preset;
    use quartier_memmodel::{Access, Layout, System};

    /// Of two nodes with a CPU each, on which nothing ran yet.
    fn nothing_counted() -> Report {
        let layout = Layout::uniform(2, 1, 1 << 30);
        let system = System::new_sampled(Preset::Server.geometry(), layout, 1).unwrap();
        let mark =
            |at| Mark { at, instructions: 0, guest_seconds: None, snapshot: system.snapshot() };
        let recording = Counting {
            format: FORMAT,
            command: vec!["./a".to_owned()],
            kernel: "6.12".to_owned(),
            qemu: "10.0.2".to_owned(),
            machine: Machine { cpus_per_node: vec![1, 1] },
            mode: CountMode::Parallel,
            under_load: false,
            marks: vec![mark(Moment::Start), mark(Moment::End)],
            slices: Vec::new(),
            lines: None,
            stalls: None,
            moves: None,
            executed: None,
            parallel: None,
            units: None,
            notes: Vec::new(),
        };
        Report::new(&recording, Phase::Whole).unwrap()
    }

    fn taker(function: Option<&str>, module: &str, modelled_stall_cycles: u64) -> Taker {
        Taker {
            function: function.map(str::to_owned),
            module: Some(module.to_owned()),
            access: Access::Atomic,
            taken: 9,
            modelled_stall_cycles,
            callers: Vec::new(),
        }
    }

    /// A CPU with a million cycles, one with half of them; a line that cost them 80,000.
    fn report() -> Report {
        let mut report = nothing_counted();
        let cpu = |cpu, modelled_cycles, stall_cycles| CpuTime {
            cpu,
            node: cpu as u16,
            instructions: 1,
            modelled_cycles,
            stall_cycles,
        };
        report.modelled.phase_cycles = 1_000_000;
        report.modelled.cpus = vec![cpu(0, 1_000_000, 400_000), cpu(1, 500_000, 100_000)];
        let word = Word {
            address: 8,
            object: Some("total".to_owned()),
            taken: 18,
            cpus: vec![0, 1],
            threads: vec![7, 8],
            takers: vec![taker(Some("add"), "a", 50_000), taker(None, KERNEL_MODULE, 30_000)],
        };
        let line = ContendedLine {
            process: Some(7),
            address: 0,
            taken: 18,
            share: 1.0,
            nature: Nature::Shared,
            words: vec![word],
        };
        let most = vec![line];
        report.lines =
            Some(Lines { taken: 18, taken_by_the_rest: 0, modelled_stall_cycles: 80_000, most });
        report
    }

    fn study(report: &Report) -> Study {
        let point = Point { nr_cpus: 2, cpus: "0-1".to_owned(), runs: Vec::new() };
        let mut study = Study { is_modelled: true, points: vec![point], ..Study::default() };
        add(&mut study, 0, report, 10.0);
        study
    }

    fn cycles(report: &Report, seconds: f64) -> u64 {
        (seconds * f64::from(report.geometry.cost.frequency_mhz) * 1e6).round() as u64
    }

    /// How long it took and what was idle, cycles.
    fn study_of(report: &Report) -> (u64, u64) {
        let study = study(report);
        let run = &study.points[0].runs[0];
        let profile = run.profile.as_ref().unwrap();
        (cycles(report, run.wall_s), cycles(report, profile.idle_s))
    }

    #[test]
    fn all_the_time_of_all_cpus_is_charged_to_something_once() {
        let report = report();
        let study = study(&report);
        let run = &study.points[0].runs[0];
        let cycles = |seconds| cycles(&report, seconds) as f64;
        assert_eq!((cycles(run.wall_s), run.units), (1e6, 10.0));
        let costs = &run.profile.as_ref().unwrap().costs;
        let all: f64 = costs.iter().map(|cost| cost.ran_s + cost.idle_s).sum();
        assert_eq!(cycles(all), 2e6);
        let of = |spent| costs.iter().find(|cost| cost.spent == Some(spent)).unwrap();
        assert_eq!(cycles(of(Spent::Instructions).ran_s), 1e6);
        assert_eq!(cycles(of(Spent::Stalls).ran_s), 420_000.0);
        assert_eq!(cycles(of(Spent::Nothing).idle_s), 500_000.0);
    }

    #[test]
    fn a_lines_cost_has_who_takes_it_and_what_lies_there() {
        let study = study(&report());
        let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
        let lines: Vec<_> = costs
            .iter()
            .filter(|cost| cost.spent.is_none())
            .map(|cost| {
                let frame = study.stack(cost).next().unwrap();
                (frame.function.as_str(), study.objects[cost.object.unwrap() as usize].as_str())
            })
            .collect();
        assert_eq!(lines, [("add", "total"), ("kernel", "total")]);
        assert!(study.points[0].runs[0].counted.is_some_and(|counted| counted.nr_taken == 18));
    }

    #[test]
    fn who_waits_for_memory_is_charged_for_what_is_near_and_what_is_far() {
        let mut report = report();
        let waited = |modelled_stall_cycles| Waited { asked: 9, modelled_stall_cycles };
        let place = StalledPlace {
            function: Some("sum".to_owned()),
            module: Some("a".to_owned()),
            object: Some("table".to_owned()),
            callers: vec![CodePlace { function: "work".to_owned(), module: "a".to_owned() }],
            near: waited(100_000),
            far: waited(250_000),
        };
        let far_only = StalledPlace { function: None, near: Waited::default(), ..place.clone() };
        let most = vec![place, far_only];
        report.stalls = Some(MemoryStalls { asked: 30, modelled_stall_cycles: 600_000, most });
        // One CPU waits all the time, so that there is enough to charge.
        report.modelled.cpus[1].stall_cycles = 500_000;
        let study = study(&report);
        let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
        let cycles = |cost: &Cost| cycles(&report, cost.ran_s);
        let of_memory: Vec<_> = costs
            .iter()
            .filter_map(|cost| {
                let mut frames = study.stack(cost);
                let function = frames.next_back().unwrap().function.as_str();
                let memory = cost.memory?;
                assert_eq!(frames.next_back().unwrap().function, "work");
                Some((function, memory, cycles(cost)))
            })
            .collect();
        let expected = [
            ("sum", Memory::Near, 100_000),
            ("sum", Memory::Far, 250_000),
            (UNKNOWN, Memory::Far, 250_000),
        ];
        assert_eq!(of_memory, expected);
        let left = costs.iter().find(|cost| cost.spent == Some(Spent::Stalls)).unwrap();
        assert_eq!(cycles(left), 900_000 - 80_000 - 600_000);
    }

    #[test]
    fn who_takes_many_lines_each_of_them_seldom_is_charged_beside_those_that_are_taken_often() {
        let mut report = report();
        let place = |function: &str, cycles| StalledPlace {
            function: Some(function.to_owned()),
            module: Some("a".to_owned()),
            object: None,
            callers: Vec::new(),
            near: Waited { asked: 9, modelled_stall_cycles: cycles },
            far: Waited::default(),
        };
        // Of what `add` takes, 50,000 are its line's.
        let most = vec![place("add", 60_000), place("sort", 70_000)];
        report.moves = Some(MemoryStalls { asked: 30, modelled_stall_cycles: 160_000, most });
        let study = study(&report);
        let cycles = |seconds| cycles(&report, seconds);
        let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
        let of = |function: &str| -> Vec<_> {
            let own = costs.iter().filter(|cost| {
                study.stack(cost).next_back().is_some_and(|frame| frame.function == function)
            });
            own.map(|cost| (cycles(cost.ran_s), cost.sharing)).collect()
        };
        assert_eq!(of("add"), [(50_000, Some(Sharing::Word)), (10_000, None)]);
        assert_eq!(of("sort"), [(70_000, None)]);
        assert_eq!(of(Spent::Stalls.name()), [(500_000 - 80_000 - 80_000, None)]);
    }

    #[test]
    fn code_is_charged_with_the_instructions_and_the_stalls_that_it_was_found_with() {
        let mut report = report();
        report.instructions = 1_000;
        let place = |function: &str, instructions, modelled_stall_cycles| ExecutedPlace {
            program: None,
            function: Some(function.to_owned()),
            module: Some("a".to_owned()),
            callers: vec![CodePlace { function: "main".to_owned(), module: "a".to_owned() }],
            instructions,
            modelled_stall_cycles,
            cpus: Vec::new(),
        };
        let most = vec![place("parse", 600, 20_000), place("print", 300, 0)];
        report.executed =
            Some(quartier_count::Executed { looks: 4, most: most.clone(), ..Default::default() });
        let charged = |report: &Report| -> Vec<u64> {
            let study = study(report);
            let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
            let of = |function: &str| -> f64 {
                let own = costs.iter().filter(|cost| {
                    study.stack(cost).next_back().is_some_and(|frame| frame.function == function)
                });
                own.map(|cost| cost.ran_s).sum()
            };
            let names = ["parse", "print", Spent::Instructions.name(), Spent::Stalls.name()];
            names.map(|name| cycles(report, of(name))).to_vec()
        };
        // A million cycles are instructions, and 420,000 stalls that no line explains.
        assert_eq!(charged(&report), [620_000, 300_000, 100_000, 400_000]);
        // Looks are a sample, and may find more than there was.
        report.instructions = 800;
        let most = vec![ExecutedPlace { modelled_stall_cycles: 840_000, ..most[0].clone() }];
        report.executed = Some(quartier_count::Executed { looks: 4, most, ..Default::default() });
        assert_eq!(charged(&report), [750_000 + 420_000, 0, 250_000, 0]);
    }

    #[test]
    fn idle_cpus_are_charged_to_what_the_busiest_runs_meanwhile() {
        let mut report = report();
        report.lines = None;
        report.instructions = 1_000;
        let on = |cpu, instructions, alone| ExecutedOn {
            cpu,
            instructions,
            modelled_stall_cycles: 0,
            alone,
        };
        let place = |function: &str, cpus: &[ExecutedOn]| ExecutedPlace {
            program: None,
            function: Some(function.to_owned()),
            module: Some("a".to_owned()),
            callers: vec![CodePlace { function: "main".to_owned(), module: "a".to_owned() }],
            instructions: cpus.iter().map(|on| on.instructions).sum(),
            modelled_stall_cycles: 0,
            cpus: cpus.to_vec(),
        };
        // Of a CPU's 600 instructions 200 are run alone; of the other one's 400 none.
        let work = [on(0, 400, 0), on(1, 400, 0)];
        let most = vec![place("work", &work), place("read", &[on(0, 200, 200)])];
        let executed = |most, alone_cycles: &[(u16, u64)]| quartier_count::Executed {
            looks: 4,
            alone_cycles: alone_cycles.iter().copied().collect(),
            most,
        };
        report.executed = Some(executed(most, &[(0, 333_333)]));
        let study = study(&report);
        let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
        let cycles = |seconds| cycles(&report, seconds);
        let of = |function: &str| {
            let own = |cost: &&Cost| study.stack(cost).next_back().unwrap().function == function;
            let cost = costs.iter().find(own).unwrap();
            (cycles(cost.ran_s), cycles(cost.ran_beside_idle_s), cycles(cost.idle_s))
        };
        // A third of its million of cycles alone, and beside that 666,667 to 500,000 of the other one: with their stalls.
        assert_eq!(of("work"), (800_000, 0, 0));
        assert_eq!(of("read"), (200_000, 200_000, 333_333), "and never more than it ran");
        assert_eq!(of(Spent::Nothing.name()), (0, 0, 166_667), "its stalls are nobody's");
        // Whoever it is that runs alone: as long as before, though both have as much to do.
        let most = vec![place("work", &work), place("read", &[on(0, 100, 100), on(1, 100, 100)])];
        report.executed = Some(executed(most, &[(0, 200_000), (1, 200_000)]));
        report.modelled.cpus[1].modelled_cycles = 1_000_000;
        let both = study_of(&report);
        assert_eq!(both, (1_200_000, 400_000), "and what was idle beside it");
        // A server's clients may have had the other CPU.
        report.phase = Phase::Load;
        assert_eq!(study_of(&report), (1_000_000, 0));
    }

    #[test]
    fn code_is_below_its_program() {
        let mut report = report();
        let place = |program: &str, instructions| ExecutedPlace {
            program: (!program.is_empty()).then(|| program.to_owned()),
            function: Some("hash".to_owned()),
            module: Some("libc.so.6".to_owned()),
            callers: Vec::new(),
            instructions,
            modelled_stall_cycles: 0,
            cpus: Vec::new(),
        };
        let stacks = |report: &Report| {
            let study = study(report);
            let costs = &study.points[0].runs[0].profile.as_ref().unwrap().costs;
            let names = |cost: &Cost| {
                study.stack(cost).map(|frame| frame.function.clone()).collect::<Vec<_>>()
            };
            costs.iter().map(names).filter(|of| of.contains(&"hash".to_owned())).collect::<Vec<_>>()
        };
        let most = vec![place("cc1", 1_000), place("ld", 500), place("", 10)];
        report.executed = Some(quartier_count::Executed { looks: 4, most, ..Default::default() });
        assert_eq!(stacks(&report), [&["cc1", "hash"][..], &["ld", "hash"], &["hash"]]);
    }

    #[test]
    fn what_is_busiest_is_a_link_or_a_nodes_memory() {
        let mut report = report();
        assert_eq!(busiest_percent(&report), 0.0);
        let cost = report.geometry.cost;
        let lines = |bytes_per_cycle: f64, part: f64| {
            (part * 1e6 * bytes_per_cycle / f64::from(report.geometry.line_bytes)) as u64
        };
        let (half, most) =
            (lines(cost.link_bytes_per_cycle, 0.5), lines(cost.memory_bytes_per_cycle, 0.8));
        report.program.matrix = vec![vec![0, half], vec![0, 0]];
        assert!((busiest_percent(&report) - 50.0).abs() < 1.0);
        report.program.matrix = vec![vec![most, 0], vec![0, 0]];
        report.service.memory = most;
        assert!((busiest_percent(&report) - 80.0).abs() < 1.0);
        // Of two nodes one has nothing to do.
        assert!(memories_busy_percent(&report).is_some_and(|busy| (busy - 40.0).abs() < 1.0));
        report.modelled.cpus[1].instructions = 0;
        assert!(memories_busy_percent(&report).is_some_and(|busy| (busy - 80.0).abs() < 1.0));
        report.modelled.cpus[0].instructions = 0;
        assert_eq!(memories_busy_percent(&report), None, "nobody ran");
    }
}
