//! Axes: from values to pixels, and the values that are written at them.

use super::canvas::Canvas;
use crate::numbers::grouped;

/// Ticks of a scale, about.
const NR_TICKS: f64 = 4.0;

/// A linear scale that begins at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    max: f64,
    step: f64,
    /// Values are written as 2 M rather than 2,000,000.
    has_letters: bool,
}

/// Values from here on are written with letters on any scale.
const IN_FULL_MAX: f64 = 1e6;

impl Scale {
    /// From 0 to at least `max`, which becomes a tick.
    pub(super) fn up_to(max: f64) -> Self {
        if max.is_nan() || max <= 0.0 || !max.is_finite() {
            return Self { max: 1.0, step: 1.0, has_letters: false };
        }
        let rough = max / NR_TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * power);
        let max = (max / step * 0.999_999).ceil() * step;
        Self { max, step, has_letters: max >= IN_FULL_MAX }
    }

    /// Of things that there are no halves of.
    pub(super) fn of_counts(max: u64) -> Self {
        let Self { max, step, .. } = Self::up_to(max as f64);
        Self { max, step: step.max(1.0), has_letters: true }
    }

    /// Of counts, that ends at `max` itself: along a line that ends there, an empty rest would be odd.
    pub(super) fn of_counts_to(max: u64) -> Self {
        let Self { step, .. } = Self::of_counts(max);
        Self { max: (max as f64).max(1.0), step, has_letters: true }
    }

    /// The value at its end.
    pub(super) fn max(&self) -> f64 {
        self.max
    }

    /// From 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        (value / self.max).clamp(0.0, 1.0)
    }

    /// Values to be written, with their texts.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let nr = (self.max / self.step + 1e-6).floor() as usize;
        (0..=nr.min(20))
            .map(|tick| tick as f64 * self.step)
            .map(|tick| (tick, self.text(tick)))
            .collect()
    }

    fn text(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        if !self.has_letters && self.step >= 1.0 && self.step.fract() == 0.0 {
            return grouped(value.round() as u64);
        }
        let letters =
            [(1e18, " E"), (1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
        let (unit, letter) =
            letters.into_iter().find(|(unit, _)| self.max >= *unit).unwrap_or((1.0, ""));
        // As many decimals as the step has, or they would all look alike.
        let decimals = (0..6)
            .find(|&decimals| {
                let step = self.step / unit * 10_f64.powi(decimals);
                (step - step.round()).abs() < 1e-6
            })
            .unwrap_or(6);
        format!("{:.*}{letter}", decimals as usize, value / unit)
    }
}

/// A plot's place, pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Plot {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn x(&self, part: f64) -> f64 {
        self.left + self.width * part
    }

    pub(super) fn y(&self, part: f64) -> f64 {
        self.bottom() - self.height * part
    }

    /// Lines upwards at the ticks of an axis along the bottom, and its unit.
    pub(super) fn draw_x_axis(&self, canvas: &mut Canvas, scale: &Scale, unit: &str) {
        for (value, text) in scale.ticks() {
            let x = self.x(scale.part(value));
            canvas.line((x, self.top), (x, self.bottom()), "grid");
            canvas.text(x, self.bottom() + 15.0, "mid muted", &text);
        }
        canvas.line((self.left, self.top), (self.left, self.bottom()), "axis");
        let middle = self.left + self.width / 2.0;
        canvas.text(middle, self.bottom() + 32.0, "mid muted", unit);
    }

    /// Lines across at the ticks of an axis along the left.
    pub(super) fn draw_y_axis(&self, canvas: &mut Canvas, scale: &Scale) {
        for (value, text) in scale.ticks() {
            let y = self.y(scale.part(value));
            let class = if value == 0.0 { "axis" } else { "grid" };
            canvas.line((self.left, y), (self.right(), y), class);
            canvas.text(self.left - 7.0, y + 4.0, "end muted", &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_end() {
        let ticks = |max: f64| -> Vec<String> {
            Scale::up_to(max).ticks().into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(ticks(6.1e6), ["0", "2 M", "4 M", "6 M", "8 M"]);
        assert_eq!(ticks(1.0), ["0", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(ticks(0.004), ["0", "0.001", "0.002", "0.003", "0.004"]);
        assert_eq!(ticks(9.2e18), ["0", "2.5 E", "5.0 E", "7.5 E", "10.0 E"]);
        assert_eq!(ticks(1430.0), ["0", "500", "1,000", "1,500"]);
        assert_eq!(ticks(9.0), ["0", "2.5", "5.0", "7.5", "10.0"]);
        assert_eq!(ticks(0.0), ["0", "1"]);
        assert_eq!(ticks(f64::NAN), ["0", "1"]);
        for max in [1e-9, 3.0, 7.77, 12_345.6, 1e300] {
            let scale = Scale::up_to(max);
            assert!(scale.part(max) <= 1.0 && scale.part(max) > 0.4, "{max}");
            assert!((2..=7).contains(&scale.ticks().len()), "{max}: {:?}", scale.ticks());
        }
    }

    #[test]
    fn there_is_no_half_command_and_many_are_short() {
        let ticks = Scale::of_counts(4000).ticks();
        assert_eq!(ticks.last().unwrap().1, "4 k");
        let ticks = Scale::of_counts(1).ticks();
        assert_eq!(ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["0", "1"]);
    }
}
