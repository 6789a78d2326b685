//! Modelled speed-up over CPUs, a curve for each policy (thesis figure 5.11), and what would be ideal.

use super::WIDTH;
use super::canvas::{About, Canvas, Drawing, text_width};
use super::scale::{Plot, Scale};
use crate::compare::{Comparison, Sweep, SweepCurve};
use crate::numbers::{between, of, times};
use crate::words::modelled_with;

const LEFT: f64 = 64.0;
const TOP: f64 = 16.0;
const HEIGHT: f64 = 300.0;
/// Room for the curves' names.
const NAMES: f64 = 232.0;
/// Between two names, one below the other.
const NAME_HEIGHT: f64 = 16.0;

pub(super) fn draw(comparison: &Comparison) -> Option<Drawing> {
    let sweep = comparison.sweep.as_ref()?;
    let chart = Chart::new(sweep)?;
    let mut canvas = Canvas::new();
    chart.draw_axes(&mut canvas);
    chart.draw_ideal(&mut canvas);
    for curve in &sweep.curves {
        chart.draw_curve(&mut canvas, curve);
    }
    chart.draw_names(&mut canvas);
    let about = About {
        name: "speed-up",
        title: "Modelled speed-up".to_owned(),
        subtitle: format!(
            "{} against {} on {}; modelled, not measured",
            comparison.phase.name(),
            sweep.base_policy.name(),
            of(u64::from(sweep.base_cpus), "CPU"),
        ),
        description: description(sweep),
    };
    let drawing = canvas.finish(about, WIDTH, chart.plot.bottom() + 44.0);
    Some(drawing.with_parameters(modelled_with(&comparison.geometry)))
}

struct Chart<'a> {
    sweep: &'a Sweep,
    plot: Plot,
    cpus: Scale,
    speedup: Scale,
}

impl<'a> Chart<'a> {
    fn new(sweep: &'a Sweep) -> Option<Self> {
        let speedups = sweep.points().filter_map(|point| point.modelled_speedup);
        let most = speedups.map(|speedup| speedup.greatest).fold(0.0, f64::max);
        if most == 0.0 {
            return None;
        }
        let plot = Plot { left: LEFT, top: TOP, width: WIDTH - LEFT - NAMES, height: HEIGHT };
        let cpus = Scale::of_counts_to(u64::from(sweep.cpus_max()));
        let ideal = f64::from(sweep.cpus_max()) / f64::from(sweep.base_cpus.max(1));
        // The ideal is worth its room only where some curve comes near it.
        let speedup = Scale::up_to(if most * 3.0 > ideal { most.max(ideal) } else { most });
        Some(Self { sweep, plot, cpus, speedup })
    }

    fn at(&self, cpus: f64, speedup: f64) -> (f64, f64) {
        (self.plot.x(self.cpus.part(cpus)), self.plot.y(self.speedup.part(speedup)))
    }

    fn draw_axes(&self, canvas: &mut Canvas) {
        self.plot.draw_y_axis(canvas, &self.speedup);
        let mut cpus: Vec<_> = self.sweep.points().map(|point| point.nr_cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut free_from = f64::MIN;
        for cpus in cpus {
            let (x, bottom) = self.at(f64::from(cpus), 0.0);
            canvas.line((x, bottom), (x, bottom + 5.0), "axis");
            let half = text_width(&cpus.to_string(), 11.5) / 2.0;
            if x - half > free_from {
                canvas.text(x, bottom + 18.0, "mid muted", &cpus.to_string());
                free_from = x + half + 4.0;
            }
        }
        let (middle, bottom) = (self.plot.x(0.5), self.plot.bottom());
        canvas.text(middle, bottom + 36.0, "mid muted", "CPUs that the program had");
        canvas.upward_text(14.0, self.plot.y(0.5), "mid muted", "modelled speed-up, times");
    }

    fn draw_ideal(&self, canvas: &mut Canvas) {
        let base = f64::from(self.sweep.base_cpus.max(1));
        let most = f64::from(self.sweep.cpus_max());
        // As far as the plot goes.
        let end = most.min(base * self.speedup.max());
        let (from, to) = (self.at(base, 1.0), self.at(end, end / base));
        canvas.line(from, to, "mark dashed");
        // Beside the line's middle, above it.
        let (x, y) = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        canvas.text(x - 8.0, y - 6.0, "end muted", "ideal");
    }

    fn draw_curve(&self, canvas: &mut Canvas, curve: &SweepCurve) {
        let number = curve.policy as usize;
        let points: Vec<_> = curve
            .points
            .iter()
            .filter_map(|point| Some((point, point.modelled_speedup?)))
            .collect();
        let places: Vec<_> = points
            .iter()
            .map(|(point, speedup)| self.at(f64::from(point.nr_cpus), speedup.middle))
            .collect();
        let width = if curve.policy.is_ours() { " bold-curve" } else { "" };
        canvas.path(&places, false, &format!("curve p{number}{width}"), None);
        for ((point, speedup), place) in points.iter().zip(places) {
            let cpus = f64::from(point.nr_cpus);
            let (low, high) = (self.at(cpus, speedup.least), self.at(cpus, speedup.greatest));
            canvas.line(low, high, "whisker");
            let hint = format!(
                "{} on {}: {} ({})",
                curve.policy.name(),
                of(u64::from(point.nr_cpus), "CPU"),
                times(speedup.middle),
                between(&times(speedup.least), &times(speedup.greatest)),
            );
            canvas.circle(place, 4.5, &format!("spot d{number}"), Some(&hint));
        }
    }

    /// Names at the curves' ends, moved apart where they would meet.
    fn draw_names(&self, canvas: &mut Canvas) {
        let end = |curve: &SweepCurve| {
            let point = curve.points.iter().rev().find(|point| point.modelled_speedup.is_some())?;
            let speedup = point.modelled_speedup?.middle;
            let (x, y) = self.at(f64::from(point.nr_cpus), speedup);
            Some((curve.policy, speedup, x, y))
        };
        let mut ends: Vec<_> = self.sweep.curves.iter().filter_map(end).collect();
        ends.sort_by(|a, b| a.3.total_cmp(&b.3));
        let wanted: Vec<_> = ends.iter().map(|&(.., y)| y).collect();
        let places = spread_out(&wanted, NAME_HEIGHT, self.plot.bottom());
        let x = self.plot.right() + 22.0;
        for (&(policy, speedup, from, y), place) in ends.iter().zip(places) {
            let number = policy as usize;
            let line = [(from + 6.0, y), (self.plot.right() + 10.0, y), (x - 3.0, place)];
            canvas.path(&line, false, "none grid", None);
            canvas.circle((x + 4.0, place), 4.0, &format!("d{number}"), None);
            let class = if policy.is_ours() { "strong" } else { "" };
            let name = format!("{}, {}", policy.name(), times(speedup));
            canvas.text(x + 13.0, place + 4.0, class, &name);
        }
    }
}

/// Places at least `gap` apart, near those wanted (in order), the last no lower than `lowest`.
fn spread_out(wanted: &[f64], gap: f64, lowest: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + gap);
    }
    let mut limit = lowest;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - gap;
    }
    places
}

fn description(sweep: &Sweep) -> String {
    let of_curve = |curve: &SweepCurve| {
        let points = curve.points.iter().filter_map(|point| {
            Some(format!("{} on {}", times(point.modelled_speedup?.middle), point.nr_cpus))
        });
        format!("{}: {}", curve.policy.name(), points.collect::<Vec<_>>().join(", "))
    };
    let curves: Vec<_> = sweep.curves.iter().map(of_curve).collect();
    format!("Modelled speed-up by CPUs. {}.", curves.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_meet_are_moved_apart() {
        assert_eq!(spread_out(&[10.0, 50.0], 16.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread_out(&[10.0, 12.0, 13.0], 16.0, 100.0), [10.0, 26.0, 42.0]);
        assert_eq!(spread_out(&[96.0, 98.0, 99.0], 16.0, 100.0), [68.0, 84.0, 100.0]);
        assert!(spread_out(&[], 16.0, 100.0).is_empty());
    }
}
