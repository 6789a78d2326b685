//! Lines over CPU counts, with the spread of the runs.

use std::fmt::Write;

use crate::markup::escape;
use crate::scale::text::median;

/// A line.
pub struct Series {
    pub name: String,
    pub class: &'static str,
    pub marks: Vec<Mark>,
}

/// A point of it: the median of runs, the least and the greatest.
pub struct Mark {
    pub x: f64,
    pub middle: f64,
    least: f64,
    greatest: f64,
}

/// A drawing.
pub struct Chart {
    pub title: String,
    pub series: Vec<Series>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 58.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 40.0;

impl Mark {
    /// Of runs on so many CPUs.
    pub fn of(x: f64, values: &[f64]) -> Self {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { x, middle: median(values.to_vec()).unwrap_or(f64::NAN), least, greatest }
    }
}

impl Chart {
    /// As SVG; `words` writes a value.
    pub fn draw(&self, words: fn(f64) -> String) -> String {
        let marks = || self.series.iter().flat_map(|series| &series.marks);
        let x_max = marks().map(|mark| mark.x).fold(1.0, f64::max);
        let top = marks().map(|mark| mark.greatest).fold(0.0, f64::max);
        let step = step(top);
        let y_max = ((top / step).ceil() * step).max(step);
        let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / x_max;
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / y_max;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
             aria-label=\"{0}\"><text class=\"title\" x=\"0\" y=\"16\">{0}</text>",
            escape(&self.title)
        );
        self.legend(&mut svg);
        for tick in 0..=(y_max / step).round() as u32 {
            let (value, left, right) = (f64::from(tick) * step, x(0.0), x(x_max));
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
                 <text class=\"muted end\" x=\"{1:.1}\" y=\"{2:.1}\">{3}</text>",
                y(value),
                left - 6.0,
                y(value) + 4.0,
                escape(&words(value))
            );
        }
        let counts: std::collections::BTreeSet<u64> = marks().map(|mark| mark.x as u64).collect();
        for count in counts {
            let at = x(count as f64);
            let _ = write!(
                svg,
                "<text class=\"muted mid\" x=\"{at:.1}\" y=\"{:.1}\">{count}</text>",
                HEIGHT - 22.0
            );
        }
        let _ = write!(
            svg,
            "<text class=\"muted end\" x=\"{:.1}\" y=\"{:.1}\">CPUs</text>",
            x(x_max),
            HEIGHT - 6.0
        );
        for series in &self.series {
            series.draw(&mut svg, x, y, words);
        }
        svg + "</svg>"
    }

    fn legend(&self, svg: &mut String) {
        let mut at = 0.0;
        for series in &self.series {
            let _ = write!(
                svg,
                "<line class=\"{}\" x1=\"{at:.1}\" x2=\"{:.1}\" y1=\"36\" y2=\"36\" stroke-width=\"2\"/>\
                 <text x=\"{:.1}\" y=\"40\">{}</text>",
                series.class,
                at + 18.0,
                at + 23.0,
                escape(&series.name)
            );
            at += 40.0 + series.name.chars().count() as f64 * 6.5;
        }
    }
}

impl Series {
    fn draw(
        &self,
        svg: &mut String,
        x: impl Fn(f64) -> f64,
        y: impl Fn(f64) -> f64,
        words: fn(f64) -> String,
    ) {
        if self.marks.is_empty() {
            return;
        }
        let place = |mark: &Mark| format!("{:.1} {:.1}", x(mark.x), y(mark.middle));
        let path: Vec<_> = self.marks.iter().map(place).collect();
        let _ = write!(svg, "<path class=\"{}\" d=\"M{}\"/>", self.class, path.join("L"));
        for mark in &self.marks {
            let (at, class) = (x(mark.x), self.class);
            let said = format!("{} on {} CPUs: {}", self.name, mark.x, words(mark.middle));
            let _ = write!(
                svg,
                "<line class=\"{class} bar\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}</title></circle>",
                y(mark.least),
                y(mark.greatest),
                y(mark.middle),
                escape(&said)
            );
        }
    }
}

/// Between the values at an axis: 1, 2 or 5 times a power of ten.
fn step(max: f64) -> f64 {
    if max <= 0.0 || !max.is_finite() {
        return 1.0;
    }
    let rough = max / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough)
}
