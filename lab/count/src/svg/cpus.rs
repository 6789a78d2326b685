//! Modelled time of each CPU, by node: what instructions take, and what they wait for memory.

use super::WIDTH;
use super::canvas::{About, Canvas, Drawing, text_width};
use super::scale::{Plot, Scale};
use crate::numbers::{count, grouped, milliseconds, or_none};
use crate::report::{CpuTime, Report};
use crate::words::modelled_with;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 200.0;
const BAR_MAX: f64 = 46.0;

pub(super) fn draw(report: &Report) -> Option<Drawing> {
    let modelled = &report.modelled;
    let slowest = modelled.slowest()?;
    let groups = groups(&modelled.cpus);
    // Half a bar between two nodes.
    let slots = modelled.cpus.len() as f64 + 0.5 * groups.len() as f64;
    let width = (WIDTH - LEFT - RIGHT).min((slots * BAR_MAX).max(WIDTH / 3.0));
    let plot = Plot { left: LEFT, top: TOP, width, height: HEIGHT };
    let scale = Scale::of_counts(modelled.phase_cycles);
    let mut canvas = Canvas::new();
    let legend = [("work", "instructions".to_owned()), ("stall", "waiting for memory".to_owned())];
    canvas.legend(LEFT, 14.0, &legend);
    plot.draw_y_axis(&mut canvas, &scale);
    draw_bars(&mut canvas, plot, &scale, &groups, (width / slots).min(BAR_MAX));
    canvas.upward_text(12.0, plot.y(0.5), "mid muted", "modelled cycles");
    canvas.text(plot.x(0.5), plot.bottom() + 36.0, "mid muted", "CPUs, by node");
    let about = About {
        name: "modelled-time",
        title: "Modelled time of each CPU".to_owned(),
        subtitle: format!("cycles in the {}; modelled, not measured", report.phase.name()),
        description: format!(
            "CPU {} of node {} has most modelled cycles: {}, or {}. {} of {} CPUs worked.",
            slowest.cpu,
            slowest.node,
            count(slowest.modelled_cycles),
            or_none(modelled.phase_ms, milliseconds),
            modelled.nr_busy(),
            modelled.cpus.len(),
        ),
    };
    let drawing = canvas.finish(about, WIDTH, plot.bottom() + 48.0);
    Some(drawing.with_parameters(modelled_with(&report.geometry)))
}

/// CPUs of each node.
fn groups(cpus: &[CpuTime]) -> Vec<Vec<&CpuTime>> {
    let mut by_node: Vec<_> = cpus.iter().collect();
    by_node.sort_by_key(|cpu| (cpu.node, cpu.cpu));
    by_node.chunk_by(|a, b| a.node == b.node).map(<[_]>::to_vec).collect()
}

fn draw_bars(canvas: &mut Canvas, plot: Plot, scale: &Scale, groups: &[Vec<&CpuTime>], slot: f64) {
    let gap = if slot > 6.0 { 2.0 } else { 0.2 };
    let mut x = plot.left + slot * 0.25;
    let mut name_from = plot.left - 20.0;
    for group in groups {
        let from = x;
        for cpu in group {
            draw_bar(canvas, plot, scale, (x, slot - gap), cpu);
            x += slot;
        }
        let middle = f64::midpoint(from, x - gap);
        let long = format!("node {}", group[0].node);
        let name =
            if text_width(&long, 11.5) < x - from { long } else { group[0].node.to_string() };
        let half = text_width(&name, 11.5) / 2.0;
        if middle - half >= name_from {
            canvas.text(middle, plot.bottom() + 17.0, "mid muted", &name);
            name_from = middle + half + 6.0;
        }
        x += slot * 0.5;
    }
}

fn draw_bar(canvas: &mut Canvas, plot: Plot, scale: &Scale, (x, width): (f64, f64), cpu: &CpuTime) {
    let work = cpu.modelled_cycles.saturating_sub(cpu.stall_cycles);
    let hint = format!(
        "CPU {} of node {}: {} modelled cycles, {} of them waiting",
        cpu.cpu,
        cpu.node,
        grouped(cpu.modelled_cycles),
        grouped(cpu.stall_cycles),
    );
    let (low, high) =
        (plot.y(scale.part(work as f64)), plot.y(scale.part(cpu.modelled_cycles as f64)));
    canvas.rect((x, low), (width, plot.bottom() - low), "work", Some(&hint));
    canvas.rect((x, high), (width, low - high), "stall", Some(&hint));
}
