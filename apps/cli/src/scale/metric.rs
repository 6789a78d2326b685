//! How much work a run did.

use anyhow::anyhow;
use regex_lite::Regex;

/// Where the number is from.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Each run is one unit.
    Job,
    /// Units, in what the command prints.
    Count(Regex),
    /// Units each second, likewise.
    Rate(Regex),
}

impl Metric {
    /// `--metric`.
    pub fn count(regex: &str) -> anyhow::Result<Self> {
        Ok(Self::Count(read("--metric", regex)?))
    }

    /// `--rate`.
    pub fn rate(regex: &str) -> anyhow::Result<Self> {
        Ok(Self::Rate(read("--rate", regex)?))
    }

    /// What a unit is called.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Job => "run",
            Self::Count(_) | Self::Rate(_) => "unit of work",
        }
    }

    /// Units of a run that printed this and took so long.
    pub fn units(&self, printed: &str, wall_s: f64) -> Result<f64, String> {
        let (option, regex) = match self {
            Self::Job => return Ok(1.0),
            Self::Count(regex) => ("--metric", regex),
            Self::Rate(regex) => ("--rate", regex),
        };
        let found = regex.captures_iter(printed).last().and_then(|found| found.get(1));
        let found = found.ok_or_else(|| {
            format!(
                "nothing it printed matches {option} `{regex}`: try the expression on its output"
            )
        })?;
        let number = found.as_str().replace([',', '_'], "").parse::<f64>().ok();
        let number =
            number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(|| {
                format!(
                    "`{}`, which {option} `{regex}` found, is no number above 0",
                    found.as_str()
                )
            })?;
        Ok(match self {
            Self::Rate(_) => number * wall_s,
            _ => number,
        })
    }
}

fn read(option: &str, text: &str) -> anyhow::Result<Regex> {
    let regex = Regex::new(text)
        .map_err(|error| anyhow!("{option} `{text}` is no regular expression: {error}"))?;
    if regex.captures_len() < 2 {
        return Err(anyhow!(
            "{option} `{text}` has no group, so it says no number: put the number in parentheses, such as \
             'done: ([0-9.]+)'"
        ));
    }
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let metric = Metric::count("did ([0-9,.]+)").unwrap();
        assert_eq!(metric.units("did 5\ndid 1,000.5 of it\n", 2.0), Ok(1000.5));
        let rate = Metric::rate("([0-9.]+)/s").unwrap();
        assert_eq!(rate.units("100/s", 2.5), Ok(250.0));
        assert_eq!(Metric::Job.units("", 9.0), Ok(1.0));
    }

    #[test]
    fn what_is_no_number_is_said() {
        let metric = Metric::count("did (.*)").unwrap();
        for (printed, words) in
            [("", "matches"), ("did nothing", "`nothing`"), ("did 0", "`0`"), ("did inf", "`inf`")]
        {
            let refused = metric.units(printed, 1.0).unwrap_err();
            assert!(refused.contains(words) && refused.contains("--metric"), "{refused}");
        }
        assert!(Metric::count("[0-9]+").unwrap_err().to_string().contains("parentheses"));
        assert!(Metric::rate("(").unwrap_err().to_string().contains("no regular expression"));
    }
}
