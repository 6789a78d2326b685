//! Latency and throughput by how many heavy requests there are, a curve for each variant.

use anyhow::anyhow;
use plotters::prelude::*;

use super::{Experiment, Value};
use crate::range;

const SIZE: (u32, u32) = (820, 460);

/// Told apart also by those who do not see red and green (Okabe and Ito); what is not ours is thinner.
fn style(variant: &str) -> ShapeStyle {
    let (colour, width) = match variant {
        "unmodified" => (RGBColor(0, 0, 0), 1),
        "priorities" => (RGBColor(150, 150, 150), 1),
        "limits" => (RGBColor(204, 121, 167), 1),
        "jetty" => (RGBColor(120, 80, 40), 1),
        "jetty-qos" => (RGBColor(213, 94, 0), 1),
        "fair" => (RGBColor(86, 180, 233), 2),
        "weighted" => (RGBColor(0, 158, 115), 2),
        "priority" => (RGBColor(240, 228, 66), 2),
        "protect" => (RGBColor(0, 114, 178), 3),
        "protect-queue" => (RGBColor(0, 114, 178), 1),
        _ => (RGBColor(230, 159, 0), 3),
    };
    colour.stroke_width(width)
}

/// As SVG, each with a name.
pub fn of(experiment: &Experiment, pace: &str) -> anyhow::Result<Vec<(&'static str, String)>> {
    let charts: [(&str, &str, &str, Value); 8] = [
        ("light-p50", "light, p50, ms", "light", |run| run.p50_ms),
        ("light-p95", "light, p95, ms", "light", |run| run.p95_ms),
        ("light-p99", "light, p99, ms", "light", |run| run.p99_ms),
        ("light", "light, answered each second", "light", |run| {
            Some(run.answered as f64 / run.seconds)
        }),
        ("heavy-p50", "heavy, p50, ms", "heavy", |run| run.p50_ms),
        ("heavy-p95", "heavy, p95, ms", "heavy", |run| run.p95_ms),
        ("heavy-p99", "heavy, p99, ms", "heavy", |run| run.p99_ms),
        ("heavy", "heavy, answered each second", "heavy", |run| {
            Some(run.answered as f64 / run.seconds)
        }),
    ];
    let mut drawn = Vec::new();
    for (name, title, class, value) in charts {
        let mut text = String::new();
        let caption = format!("{title} ({pace} loop)");
        let chart = Chart { experiment, pace, class, value, caption };
        chart
            .draw(SVGBackend::with_string(&mut text, SIZE))
            .map_err(|error| anyhow!("cannot draw: {error}"))?;
        drawn.push((name, text));
    }
    Ok(drawn)
}

struct Chart<'a> {
    experiment: &'a Experiment,
    pace: &'a str,
    class: &'a str,
    value: Value,
    caption: String,
}

impl Chart<'_> {
    /// The median of the rounds by heavy clients.
    fn curve(&self, variant: &str) -> Vec<(f64, f64)> {
        let point = |heavy: u32| {
            let runs = self.experiment.runs(self.pace, variant, self.class, heavy);
            let values: Vec<f64> = runs.filter_map(self.value).collect();
            Some((f64::from(heavy), range::median(&values)?))
        };
        self.experiment.heavy().into_iter().filter_map(point).collect()
    }

    fn draw(&self, backend: SVGBackend<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let variants = self.experiment.variants();
        let curves: Vec<_> =
            variants.iter().map(|variant| (*variant, self.curve(variant))).collect();
        let points = || curves.iter().flat_map(|(_, points)| points);
        let right = points().map(|point| point.0).fold(1.0, f64::max);
        let top = points().map(|point| point.1).fold(1.0, f64::max) * 1.05;
        let area = backend.into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.caption, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart.configure_mesh().x_desc("heavy clients").draw()?;
        for (variant, points) in &curves {
            if points.is_empty() {
                continue;
            }
            let style = style(variant);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))?
                .label(*variant)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    }
}
