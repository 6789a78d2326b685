//! What a page moves between nodes, pages per modelled second, and how uneven nodes are over time.

use anyhow::anyhow;
use plotters::coord::CoordTranslate;
use plotters::prelude::*;

use super::table::Figures;
use super::{Connections, NR_NODES, Run, Variant};
use crate::range;

const SIZE: (u32, u32) = (820, 420);

type Error = Box<dyn std::error::Error>;

/// What is told of a run.
type Told = fn(&Figures) -> f64;

impl Variant {
    /// Told apart also by those who do not see red and green (Okabe and Ito).
    fn colour(self) -> RGBColor {
        match self {
            Self::ApachePreforkModPhp => RGBColor(0, 0, 0),
            Self::ApacheBuckets => RGBColor(150, 150, 150),
            Self::ApacheEventFpm => RGBColor(120, 80, 40),
            Self::NginxFpm => RGBColor(204, 121, 167),
            Self::Copies => RGBColor(230, 159, 0),
            Self::CopiesSteered => RGBColor(86, 180, 233),
            Self::CopiesSteeredRoots => RGBColor(0, 114, 178),
        }
    }
}

/// As SVG, each with a name: of each machine and way of loading two.
pub fn of(runs: &[Run]) -> anyhow::Result<Vec<(String, String)>> {
    let mut sets: Vec<(u32, Connections)> = runs
        .iter()
        .filter(|run| !run.task.tells_lines)
        .map(|run| (run.task.cpus_per_node, run.task.connections))
        .collect();
    sets.sort_unstable();
    sets.dedup();
    let mut drawn = Vec::new();
    for (cpus_per_node, connections) in sets {
        let chart = Chart { runs, cpus_per_node, connections };
        let name = |what: &str| format!("{what}-4x{cpus_per_node}-{}.svg", connections.word());
        let failed = |error: Error| anyhow!("cannot draw: {error}");
        let mut text = String::new();
        chart.bars(SVGBackend::with_string(&mut text, SIZE)).map_err(failed)?;
        drawn.push((name("pages"), text));
        let mut text = String::new();
        chart.over_time(SVGBackend::with_string(&mut text, SIZE)).map_err(failed)?;
        drawn.push((name("uneven"), text));
    }
    Ok(drawn)
}

struct Chart<'a> {
    runs: &'a [Run],
    cpus_per_node: u32,
    connections: Connections,
}

impl Chart<'_> {
    fn caption(&self, what: &str) -> String {
        let Self { cpus_per_node, connections, .. } = self;
        format!("{what}, {NR_NODES} × {cpus_per_node} CPUs, {}", connections.name())
    }

    fn of(&self, variant: Variant) -> impl Iterator<Item = &super::Counts> {
        let task = move |run: &&Run| {
            run.task.cpus_per_node == self.cpus_per_node
                && run.task.connections == self.connections
                && !run.task.tells_lines
                && run.task.variant == variant
        };
        self.runs.iter().filter(task).filter_map(Run::counts)
    }

    /// Of the middle run, in times the stock server's.
    fn bars(&self, backend: SVGBackend<'_>) -> Result<(), Error> {
        let median = |variant: Variant, of: Told| {
            let numbers: Vec<f64> =
                self.of(variant).filter_map(Figures::of).map(|figures| of(&figures)).collect();
            range::median(&numbers)
        };
        let stock = Variant::ApachePreforkModPhp;
        let of: [(&str, Told); 2] = [
            ("pages per modelled second", |it| it.pages_per_modelled_s),
            ("remote commands of a page", |it| it.remote_commands),
        ];
        let mut bars = Vec::new();
        for (group, (_, of)) in of.iter().enumerate() {
            for (at, variant) in Variant::ALL.into_iter().enumerate() {
                let times = median(variant, *of).zip(median(stock, *of));
                bars.extend(times.map(|(own, first)| (group, at, variant, own / first)));
            }
        }
        let top = bars.iter().map(|bar| bar.3).fold(1.0, f64::max) * 1.1;
        let width = Variant::ALL.len() as f64 + 1.0;
        let area = backend.into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.caption("Times stock Apache and PHP"), ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(24)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..2.0 * width, 0.0..top)?;
        chart.configure_mesh().disable_x_mesh().disable_x_axis().draw()?;
        chart.draw_series(LineSeries::new([(0.0, 1.0), (2.0 * width, 1.0)], BLACK.mix(0.4)))?;
        let mut named = Vec::new();
        for (group, at, variant, times) in bars {
            let left = group as f64 * width + at as f64 + 0.5;
            let colour = variant.colour();
            let bar = Rectangle::new([(left + 0.1, 0.0), (left + 0.9, times)], colour.filled());
            let series = chart.draw_series([bar])?;
            if !named.contains(&variant) {
                named.push(variant);
                series.label(variant.name()).legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
                });
            }
        }
        for (group, (what, _)) in of.iter().enumerate() {
            let place = (group as f64 * width + 0.6, top * 0.98);
            chart.draw_series([Text::new(*what, place, ("sans-serif", 14))])?;
        }
        name_series(&mut chart)?;
        area.present()?;
        Ok(())
    }

    /// A curve for each server: of its first run.
    fn over_time(&self, backend: SVGBackend<'_>) -> Result<(), Error> {
        let curve = |variant: Variant| {
            let counts = self.of(variant).next()?;
            let length = counts.windows.len().max(1) as f64;
            let percent = |(at, window): (usize, &Vec<u64>)| {
                let mean = window.iter().sum::<u64>() as f64 / window.len().max(1) as f64;
                let most = window.iter().copied().max()? as f64;
                let when = 100.0 * (at as f64 + 0.5) / length;
                (mean > 0.0).then_some((when, 100.0 * (most / mean - 1.0)))
            };
            Some(counts.windows.iter().enumerate().filter_map(percent).collect::<Vec<_>>())
        };
        let curves: Vec<_> = Variant::ALL
            .into_iter()
            .filter_map(|variant| Some((variant, curve(variant)?)))
            .collect();
        let points = curves.iter().flat_map(|(_, points)| points);
        let top = points.map(|point| point.1).fold(10.0, f64::max) * 1.05;
        let area = backend.into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.caption("The busiest node above the mean"), ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..100.0, 0.0..top)?;
        chart.configure_mesh().x_desc("instructions, percent").y_desc("percent").draw()?;
        for (variant, points) in curves {
            let style = variant.colour().stroke_width(2);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(variant.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        name_series(&mut chart)?;
        area.present()?;
        Ok(())
    }
}

/// Which colour is whose.
fn name_series<'a, D, C>(chart: &mut ChartContext<'a, D, C>) -> Result<(), Error>
where
    D: DrawingBackend + 'a,
    D::ErrorType: 'static,
    C: CoordTranslate,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
