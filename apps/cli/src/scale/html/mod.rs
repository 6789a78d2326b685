//! The report as one page: nothing in it is fetched, and nothing in it runs.

mod chart;
mod flame;
mod page;
mod profiles;

use quartier_decide::verdict::{Counted, Culprit, Part, Point, Rest, Run};

use super::report::Report;
use super::text::{certainty, duration, levels};
use crate::markup::escape;
use chart::{Chart, Mark, Series};
use page::Page;

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = Page::default();
    page.words("h1", &format!("What stops `{}` from scaling", report.command.join(" ")));
    for sentence in &report.verdict.sentences {
        page.words("p", sentence);
    }
    page.raw(&format!("<div class=\"pair\">{}{}</div>", throughput(report), time(report)));
    if report.study.is_modelled {
        page.raw(&format!("<div class=\"pair\">{}{}</div>", lines(report), remote(report)));
    }
    culprits(&mut page, report);
    rest(&mut page, report.verdict.rest.as_ref());
    if let (Some(from), Some(to)) = ends(report) {
        profiles::side_by_side(&mut page, report, from, to);
        profiles::waits(&mut page, report, from, to);
        flame::difference(&mut page, report, from, to);
    }
    let notes: Vec<_> = report.verdict.notes.iter().chain(&report.complaints).collect();
    if !notes.is_empty() {
        page.words("h2", "Notes");
        notes.into_iter().for_each(|note| page.words("p", note));
    }
    page.finish(report)
}

/// The points that are compared.
fn ends(report: &Report) -> (Option<&Point>, Option<&Point>) {
    let mut points = report.study.points.iter().filter(|point| !point.runs.is_empty());
    (points.next(), points.next_back())
}

fn series(
    report: &Report,
    name: &str,
    class: &'static str,
    of: impl Fn(&Point, &Run) -> Option<f64>,
) -> Series {
    let marks = report.study.points.iter().filter_map(|point| {
        let values: Vec<_> = point.runs.iter().filter_map(|run| of(point, run)).collect();
        (!values.is_empty()).then(|| Mark::of(f64::from(point.nr_cpus), &values))
    });
    Series { name: name.to_owned(), class, marks: marks.collect() }
}

fn throughput(report: &Report) -> String {
    let name = if report.study.is_modelled { "modelled" } else { "measured" };
    let measured = series(report, name, "s0", |_, run| Some(run.throughput()));
    let first = measured.marks.first().map(|mark| mark.middle / mark.x);
    let ideal = measured.marks.iter().filter_map(|mark| Some(Mark::of(mark.x, &[first? * mark.x])));
    let ideal =
        Series { name: "if nothing were lost".to_owned(), class: "s3", marks: ideal.collect() };
    let chart = Chart {
        title: format!("Throughput: {} each second", report.study.unit),
        series: vec![ideal, measured],
    };
    chart.draw(super::text::amount)
}

/// A number of what was counted in guests, for each unit.
fn counted(report: &Report, name: &str, class: &'static str, of: fn(&Counted) -> f64) -> Series {
    series(report, name, class, move |_, run| Some(of(run.counted.as_ref()?) / run.units))
}

fn lines(report: &Report) -> String {
    let taken = counted(report, "lines", "s0", |counted| counted.nr_taken as f64);
    let title = format!("Lines that CPUs take from each other, for each {}", report.study.unit);
    Chart { title, series: vec![taken] }.draw(super::text::amount)
}

fn remote(report: &Report) -> String {
    let remote = counted(report, "left their node", "s1", |counted| counted.nr_remote as f64);
    let local = counted(report, "stayed", "s0", |counted| counted.nr_local as f64);
    let title = format!("Memory commands for each {}", report.study.unit);
    Chart { title, series: vec![local, remote] }.draw(super::text::amount)
}

fn modelled_time(report: &Report) -> String {
    let unused =
        series(report, "unused", "s2", |_, run| Some(run.profile.as_ref()?.idle_s / run.units));
    let chart = Chart {
        title: format!("Modelled CPU time for each {}", report.study.unit),
        series: vec![
            counted(report, "instructions", "s0", |counted| counted.instructions_s),
            counted(report, "stalls", "s1", |counted| counted.stalls_s),
            unused,
        ],
    };
    chart.draw(duration)
}

fn time(report: &Report) -> String {
    if report.study.is_modelled {
        return modelled_time(report);
    }
    let chart = Chart {
        title: format!("CPU time for each {}", report.study.unit),
        series: vec![
            series(report, "user", "s0", |_, run| Some(run.user_s? / run.units)),
            series(report, "kernel", "s1", |_, run| Some(run.kernel_s? / run.units)),
            series(report, "idle", "s2", |point, run| Some(run.idle_s(point.nr_cpus)? / run.units)),
        ],
    };
    chart.draw(duration)
}

fn culprits(page: &mut Page, report: &Report) {
    let all: Vec<&Culprit> =
        report.verdict.culprits.iter().chain(&report.verdict.undetermined).collect();
    if all.is_empty() {
        return;
    }
    page.words("h2", "What grew");
    let rows = all.into_iter().map(|culprit| {
        let Culprit { class, function, line, object, .. } = culprit;
        let line = line.as_ref().map_or_else(String::new, |line| format!(" ({line})"));
        vec![
            class.map_or("cause not seen", |class| class.name()).to_owned(),
            format!("{function}{line}"),
            object.clone().unwrap_or_else(|| "–".to_owned()),
            format!("{:.0} % ±{:.0}", culprit.share_percent, culprit.share_error_percent),
            levels(&culprit.trend),
            certainty(culprit.confidence_percent),
            format!("{:.0e}", culprit.trend.p),
            contexts(culprit),
            class.map_or(String::new(), |class| class.cure().to_owned()),
        ]
    });
    let columns = [
        "class",
        "function",
        "object",
        "of the loss",
        "each unit, by CPUs",
        "certain",
        "p",
        "where it grew",
        "known cure",
    ];
    page.table(&columns, rows);
    page.raw(&format!(
        "<p class=\"more\">p: how probable such growth over the CPU counts is by chance (one contrast of their means, after Abelson and \
         Tukey, with the spread of the runs at each count, and at least the error of sampling); certain: what that leaves when it is \
         corrected for the number of places that were tested. {}</p>",
        escape(
            "Idle CPUs are charged to the locks that are waited for; of a server whose threads all wait at times, to its peers; then to what \
             runs meanwhile."
        )
    ));
}

fn rest(page: &mut Page, rest: Option<&Rest>) {
    let Some(Rest { share_percent, parts, others_percent }) = rest else { return };
    if parts.is_empty() {
        return;
    }
    page.words("h2", &format!("The rest, {share_percent:.0} % of the loss"));
    let row = |of: &Part| {
        let share = format!("{:.0} % ±{:.0}", of.share_percent, of.share_error_percent);
        vec![of.what.clone(), share, duration(of.per_unit_s.by())]
    };
    let others = vec!["all else".to_owned(), format!("{others_percent:.0} %"), String::new()];
    page.table(
        &["what", "of the loss", "more for each unit"],
        parts.iter().map(row).chain([others]),
    );
    page.words("p", "Not certain to grow, or less than a tenth of the loss.");
}

/// In which stacks, with their parts of the loss where there are several.
fn contexts(culprit: &Culprit) -> String {
    match &culprit.contexts[..] {
        [] => culprit.context.join(" → "),
        [one] => one.stack.join(" → "),
        several => {
            let of = several
                .iter()
                .map(|of| format!("{} ({:.0} %)", of.stack.join(" → "), of.share_percent));
            of.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests;
