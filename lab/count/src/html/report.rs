//! One run as a page.

use quartier_memmodel::Kind;

use super::page::{Cell, Page, data, escape, maybe};
use super::{footer, notes, parameters};
use crate::numbers::{count, grouped, mib, milliseconds, or_none, percent, share, significant};
use crate::recording::Moment;
use crate::report::{ClassCommands, Report};
use crate::{svg, words};

/// A report as one HTML file.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut page = Page::new();
    head(&mut page, report);
    page.raw("<main>");
    lead(&mut page, report);
    kinds(&mut page, report);
    asked(&mut page, report);
    matrix(&mut page, report);
    timeline(&mut page, report);
    modelled(&mut page, report);
    levels(&mut page, report);
    how(&mut page, report);
    page.raw("</main>");
    footer(&mut page);
    page.finish(&format!("{} – quartier lab count", report.command_line()), report)
}

fn head(page: &mut Page, report: &Report) {
    page.raw("<header>");
    page.words("p", "eyebrow", "quartier lab count");
    page.raw(&format!("<h1><code>{}</code></h1>", escape(&report.command_line())));
    let instructions = data("/instructions", report.instructions, &count(report.instructions));
    page.raw(&format!(
        "<p class=\"facts\">{} · Linux {} · {}, {instructions} instructions · {}</p>",
        escape(&words::machine(&report.machine)),
        escape(&report.kernel),
        report.phase.name(),
        escape(&words::mode_short(report.mode)),
    ));
    page.raw("</header>");
}

fn lead(page: &mut Page, report: &Report) {
    let program = &report.program;
    page.raw("<section>");
    page.words("p", "headline", &words::headline(report));
    if let Some(remote) = program.remote_percent {
        if let Some(busiest) = words::busiest(program) {
            page.words("p", "", &busiest);
        }
        page.raw(&format!(
            "<div class=\"share\" role=\"img\" aria-label=\"{} of commands leave their node\">\
             <span style=\"width:{remote:.3}%\"></span></div>",
            escape(&percent(remote))
        ));
        page.raw(&format!(
            "<div class=\"key\"><span class=\"leave\"><i></i>{} leave their node</span>\
             <span><i></i>{} stay</span></div>",
            data(
                "/program/commands/remote",
                program.commands.remote,
                &count(program.commands.remote)
            ),
            data("/program/commands/local", program.commands.local, &count(program.commands.local)),
        ));
    }
    tiles(page, report);
    page.raw("</section>");
}

fn tiles(page: &mut Page, report: &Report) {
    let program = &report.program;
    let tiles = [
        (
            "leave their node",
            maybe("/program/remote_percent", program.remote_percent, percent),
            "of all commands",
        ),
        ("Q", data("/program/q_mib", program.q_mib, &mib(program.q_mib)), "between nodes"),
        (
            "mean distance",
            maybe("/program/mean_hops", program.mean_hops, significant),
            "hops, local ones 0",
        ),
        (
            "energy of transport",
            data(
                "/program/energy_mib_hops",
                program.energy_mib_hops,
                &significant(program.energy_mib_hops),
            ),
            "MiB × hops",
        ),
        (
            "modelled time",
            maybe("/modelled/phase_ms", report.modelled.phase_ms, milliseconds),
            "not measured",
        ),
    ];
    page.raw("<dl class=\"tiles\">");
    for (name, number, unit) in tiles {
        page.raw(&format!("<div><dt>{name}</dt><dd>{number}<small>{unit}</small></dd></div>"));
    }
    page.raw("</dl>");
}

/// A cell with a count at a place of the JSON.
fn counted(at: String, nr: u64) -> Cell {
    Cell::number(data(&at, nr, &count(nr)))
}

fn kinds(page: &mut Page, report: &Report) {
    if report.program.is_empty() {
        return;
    }
    page.raw("<section>");
    page.words("h2", "", "Which commands");
    let row = |at: &str, name: &str, local: u64, remote: u64, classes: &[ClassCommands]| {
        let mut cells = vec![Cell::words(name)];
        cells.push(counted(format!("{at}/local"), local));
        cells.push(counted(format!("{at}/remote"), remote));
        let leave = share(remote, local.saturating_add(remote));
        cells.push(Cell::rate(&escape(&or_none(leave, percent)), leave));
        let classes_at = at.replace("/commands", "");
        cells.extend(classes.iter().enumerate().map(|(class, commands)| {
            counted(format!("{classes_at}/classes/{class}/remote"), commands.remote)
        }));
        cells
    };
    let mut rows = Vec::new();
    for (at, of_kind) in report.program.kinds.iter().enumerate() {
        let at = format!("/program/kinds/{at}");
        let name = of_kind.kind.name();
        let mut cells = row(&at, name, of_kind.local, of_kind.remote, &of_kind.classes);
        cells.push(Cell::wide(words::kind(of_kind.kind)));
        rows.push(("", cells));
    }
    let all = report.program.commands;
    let mut total = row("/program/commands", "all", all.local, all.remote, &report.program.classes);
    total.push(Cell::words(""));
    rows.push(("total", total));
    let columns =
        ["<kind", "stay", "leave", "share that leaves", "user’s", "kernel’s", "table walks’", "<"];
    page.table(
        "Of those that leave their node, whose they are stands on the right.",
        &columns,
        &rows,
    );
    page.raw("</section>");
}

fn asked(page: &mut Page, report: &Report) {
    let Some(drawing) = svg::asked(report) else { return };
    page.raw("<section>");
    page.words("h2", "", "The nodes most asked");
    page.words(
        "p",
        "sub",
        "A node that is asked for much becomes a bottleneck, however fast it is. What its own CPUs ask for is \
         on the right, with an axis of its own.",
    );
    page.figure(&drawing, "");
    nodes_table(page, report);
    page.raw("</section>");
}

/// The numbers of the bars: those of the nodes that are drawn.
fn nodes_table(page: &mut Page, report: &Report) {
    const NODES_MAX: usize = 8;
    let asked = report.program.most_asked();
    let row = |asked: &crate::Asked| {
        let at = format!("/program/asked/{}", asked.node);
        let mut cells = vec![Cell::words(&format!("node {}", asked.node))];
        for (kind, nr) in Kind::ALL.into_iter().zip(asked.remote.as_array()) {
            // `/` within a name of a JSON pointer.
            let name = kind.name().replace('/', "~1");
            cells.push(counted(format!("{at}/remote/{name}"), nr));
        }
        cells.push(Cell::number(count(asked.remote.total())));
        cells.push(Cell::number(count(asked.local.total())));
        ("", cells)
    };
    let rows: Vec<_> = asked.iter().take(NODES_MAX).map(row).collect();
    let mut columns = vec!["<"];
    columns.extend(Kind::ALL.map(Kind::name));
    columns.extend(["all from elsewhere", "own CPUs"]);
    let caption = if asked.len() > NODES_MAX {
        format!("Commands from other nodes, the {NODES_MAX} most asked of {}.", asked.len())
    } else {
        "Commands from other nodes.".to_owned()
    };
    page.table(&caption, &columns, &rows);
}

fn matrix(page: &mut Page, report: &Report) {
    let Some(drawing) = svg::matrix(report) else { return };
    page.raw("<section>");
    page.words("h2", "", "Who asks whom");
    page.words(
        "p",
        "sub",
        "A column that stands out is a node that everybody asks; a row, CPUs whose data is elsewhere. Each \
         square has its number as a tooltip.",
    );
    page.figure(&drawing, "");
    page.raw("</section>");
}

fn timeline(page: &mut Page, report: &Report) {
    let Some(drawing) = svg::timeline(report) else { return };
    page.raw("<section>");
    page.words("h2", "", "Over time");
    page.words(
        "p",
        "sub",
        "Commands per 1,000 instructions, over the instructions of the whole run. What this report is not \
         about is shaded.",
    );
    page.figure(&drawing, "");
    page.raw("</section>");
}

fn modelled(page: &mut Page, report: &Report) {
    page.raw("<section>");
    page.words("h2", "", "Modelled time");
    let modelled = &report.modelled;
    let peak = modelled.peak_utilisation;
    match (modelled.slowest(), svg::cpus(report)) {
        (Some(slowest), Some(drawing)) => {
            page.raw(&format!(
                "<p>The modelled {} takes {}: the {} modelled cycles of CPU {} on node {}, which has \
                 most. Waiting for other threads is not in it.</p>",
                report.phase.name(),
                maybe("/modelled/phase_ms", modelled.phase_ms, milliseconds),
                data("/modelled/phase_cycles", modelled.phase_cycles, &count(modelled.phase_cycles)),
                slowest.cpu,
                slowest.node,
            ));
            page.figure(&drawing, "Modelled from the counts; no time was measured.");
        }
        _ => page.words("p", "", "None: no CPU executed any of the program."),
    }
    let at = "/modelled/peak_utilisation";
    let share = |name: &str, part: f64| data(&format!("{at}/{name}"), part, &percent(100.0 * part));
    page.raw(&format!(
        "<p class=\"more\">In its busiest modelled moment since the guest began, a last level was used to \
         {}, a memory to {}, a link to {}. Above 100 %, more was asked for than can be done: CPUs \
         waited.</p>",
        share("last_level", peak.last_level),
        share("memory", peak.memory),
        share("link", peak.link),
    ));
    parameters(page, &report.geometry);
    page.raw("</section>");
}

fn levels(page: &mut Page, report: &Report) {
    page.raw("<section>");
    page.words("h2", "", "Caches and TLBs");
    let row = |(at, level): (usize, &crate::Level)| {
        let at = format!("/levels/{at}");
        let rate = maybe(&format!("{at}/hit_percent"), level.hit_percent, percent);
        let cells = vec![
            Cell::words(level.name.name()),
            counted(format!("{at}/lookups"), level.lookups),
            counted(format!("{at}/hits"), level.hits),
            Cell::rate(&rate, level.hit_percent),
        ];
        ("", cells)
    };
    let rows: Vec<_> = report.levels.iter().enumerate().map(row).collect();
    page.table("", &["<", "looked up", "found", "rate"], &rows);
    page.words("p", "more", &words::service(&report.service));
    page.raw("</section>");
}

fn how(page: &mut Page, report: &Report) {
    page.raw("<section class=\"how\">");
    page.words("h2", "", "How it was counted");
    page.words("p", "", &words::mode(report.mode));
    page.raw(&format!(
        "<p>In a guest of QEMU {} with Linux {}: {}. {}</p>",
        escape(&report.qemu),
        escape(&report.kernel),
        escape(&words::machine(&report.machine)),
        escape(&words::rest(&report.rest)),
    ));
    let row = |(at, moment): (usize, &crate::MomentAt)| {
        let name = match moment.at {
            Moment::Start => "begins",
            Moment::FirstThread => "second thread begins",
            Moment::LastThreadEnded => "last other thread has ended",
            Moment::End => "has ended",
        };
        let at = format!("/moments/{at}/instructions");
        let number = data(&at, moment.instructions, &grouped(moment.instructions));
        ("", vec![Cell::words(name), Cell::number(number)])
    };
    let rows: Vec<_> = report.moments.iter().enumerate().map(row).collect();
    page.table("", &["<the program", "after instructions"], &rows);
    notes(page, &report.notes);
    page.raw("</section>");
}
