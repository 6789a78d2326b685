//! How much memory is local over time, a curve for each run.

use anyhow::anyhow;
use plotters::prelude::*;

use super::{GOAL, Policy, Run};

const SIZE: (u32, u32) = (820, 420);

impl Policy {
    fn colour(self) -> RGBColor {
        // Told apart also by those who do not see red and green (Okabe and Ito).
        match self {
            Self::Nothing => RGBColor(120, 120, 120),
            Self::NumaBalancing => RGBColor(230, 159, 0),
            Self::Numad => RGBColor(204, 121, 167),
            Self::Quartierd => RGBColor(0, 114, 178),
        }
    }
}

/// As SVG.
pub fn of(runs: &[Run], machine: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    draw(SVGBackend::with_string(&mut text, SIZE), runs, machine)
        .map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(text)
}

fn draw(
    backend: SVGBackend<'_>,
    runs: &[Run],
    machine: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let ends = runs.iter().filter_map(|run| run.looks.last()).map(|look| look.seconds);
    let longest = ends.fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Memory beside its threads, {machine}"), ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..longest, 0.0..100.0)?;
    chart.configure_mesh().x_desc("seconds").y_desc("percent of resident bytes").draw()?;
    chart.draw_series(LineSeries::new(
        [(0.0, 100.0 * GOAL), (longest, 100.0 * GOAL)],
        BLACK.mix(0.3),
    ))?;
    let mut named = Vec::new();
    for run in runs {
        let colour = run.policy().colour();
        let points =
            run.looks.iter().filter_map(|look| Some((look.seconds, 100.0 * look.local()?)));
        let series = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        if !named.contains(&run.policy()) {
            named.push(run.policy());
            series.label(run.policy().name()).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
            });
        }
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
