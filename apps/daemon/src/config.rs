//! `quartierd.toml`: what may be set, with its unit in its name.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use quartier_daemon::CONFIG;
use quartier_decide::reporter::Settings;
use quartier_model::{Bytes, Nanos};
use quartier_observe::tasks::{PAGES_PART, Rules};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::de::DeTable;

/// All of it. Whatever is not given is as it is here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub monitor: Monitor,
    pub reporter: Reporter,
    pub scheduler: Scheduler,
    pub tasks: Rules,
    pub web: Web,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Monitor {
    /// Between two looks at the tasks that run.
    pub period_ms: u64,
    /// What looking at pages takes of one CPU: which mappings there are, where pages lie, who touches them.
    pub pages_percent: f64,
    /// Files of tasks that are kept open.
    pub descriptors_max: usize,
    /// Whether working sets are watched through DAMON, of which a machine has but one.
    pub damon: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reporter {
    /// A process is not moved for less: it would run so many times as fast.
    pub speedup_min: f64,
    /// Nor for less than so many CPUs' worth of work.
    pub gain_min_cpus: f64,
    /// A move has to pay for itself within this time.
    pub payback_s: f64,
    /// What it costs to move a page of 4 KiB.
    pub page_cost_ns: u64,
    /// What was moved stays for this long, and twice as long each time,
    pub rest_s: f64,
    /// up to this.
    pub rest_max_s: f64,
    /// So long after a move it is asked whether it helped.
    pub trial_s: f64,
    /// What a move did not help is not moved again for this long.
    pub remember_s: f64,
    /// What a fetch costs that misses the last-level cache, from local memory.
    pub llc_miss_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduler {
    /// Pages are moved no faster than this.
    pub rate_mib_per_s: u64,
    /// By so many threads, while fewer do not reach that.
    pub threads_max: usize,
    /// Pages of a process are not moved if it has more of its own: to know whether somebody set a policy for some of
    /// them, the kernel walks them all, 5 ms a GiB, while the program can map no memory.
    pub resident_max_gib: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Where the page is served, on loopback. Read once, at the start; an empty text: nowhere.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
}

impl Default for Web {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7117))) }
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| D::Error::custom("give an address and a port, as \"127.0.0.1:7117\""))?;
    if !address.ip().is_loopback() {
        return Err(D::Error::custom(
            "not on loopback: the page has no password and names every process; listen at 127.0.0.1 and let \
             ssh -L bring it to where you are",
        ));
    }
    Ok(Some(address))
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            period_ms: 200,
            pages_percent: 100.0 * PAGES_PART,
            descriptors_max: 4096,
            damon: false,
        }
    }
}

impl Default for Reporter {
    fn default() -> Self {
        let Settings {
            speedup_min,
            gain_min,
            payback,
            page_cost,
            rest,
            rest_max,
            trial,
            remember,
            llc_miss,
            resident_max: _,
        } = Settings::default();
        let seconds = |time: Nanos| time.0 as f64 / 1e9;
        Self {
            speedup_min,
            gain_min_cpus: gain_min,
            payback_s: seconds(payback),
            page_cost_ns: page_cost.0,
            rest_s: seconds(rest),
            rest_max_s: seconds(rest_max),
            trial_s: seconds(trial),
            remember_s: seconds(remember),
            llc_miss_ns: llc_miss.0,
        }
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        let resident_max_gib = Settings::default().resident_max.0 >> 30;
        Self { rate_mib_per_s: 512, threads_max: 4, resident_max_gib }
    }
}

/// The file that is read: the one that is given, or the usual one if there is one.
pub fn file(given: Option<&Path>) -> Option<&Path> {
    let usual = Path::new(CONFIG);
    // If it cannot be told whether it is there, reading it says why.
    given.or_else(|| usual.try_exists().unwrap_or(true).then_some(usual))
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        Self::parse(&text).map_err(|complaint| anyhow!("{}: {complaint}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| complaint(text, &error))?;
        config.check().map_err(|complaint| with_its_place(text, &complaint))?;
        Ok(config)
    }

    /// Complaints begin with the name of the key that they are about.
    fn check(&self) -> Result<(), String> {
        let Reporter {
            speedup_min,
            gain_min_cpus,
            payback_s,
            rest_s,
            rest_max_s,
            trial_s,
            remember_s,
            ..
        } = self.reporter;
        let seconds = [
            ("reporter.payback_s", payback_s),
            ("reporter.rest_s", rest_s),
            ("reporter.rest_max_s", rest_max_s),
            ("reporter.trial_s", trial_s),
            ("reporter.remember_s", remember_s),
        ];
        for (name, seconds) in seconds {
            if !(0.0..=1e6).contains(&seconds) {
                return Err(format!("{name} = {seconds}: give seconds from 0 to 1000000"));
            }
        }
        if !(1.0..=1000.0).contains(&speedup_min) {
            return Err(format!(
                "reporter.speedup_min = {speedup_min}: give a factor from 1 to 1000"
            ));
        }
        if !(0.0..=1000.0).contains(&gain_min_cpus) {
            return Err(format!(
                "reporter.gain_min_cpus = {gain_min_cpus}: give CPUs from 0 to 1000"
            ));
        }
        let period_ms = self.monitor.period_ms;
        if !(20..=60_000).contains(&period_ms) {
            return Err(format!("monitor.period_ms = {period_ms}: give 20 to 60000"));
        }
        let pages_percent = self.monitor.pages_percent;
        if !(0.01..=100.0).contains(&pages_percent) {
            return Err(format!("monitor.pages_percent = {pages_percent}: give 0.01 to 100"));
        }
        if self.scheduler.rate_mib_per_s == 0 {
            return Err("scheduler.rate_mib_per_s = 0: give at least 1".to_owned());
        }
        let threads_max = self.scheduler.threads_max;
        if !(1..=16).contains(&threads_max) {
            return Err(format!("scheduler.threads_max = {threads_max}: give 1 to 16"));
        }
        Ok(())
    }

    pub fn period(&self) -> Duration {
        Duration::from_millis(self.monitor.period_ms)
    }

    /// What looking at pages takes of one CPU.
    pub fn pages_part(&self) -> f64 {
        self.monitor.pages_percent / 100.0
    }

    pub fn settings(&self) -> Settings {
        let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
        Settings {
            speedup_min: self.reporter.speedup_min,
            gain_min: self.reporter.gain_min_cpus,
            payback: nanos(self.reporter.payback_s),
            page_cost: Nanos(self.reporter.page_cost_ns),
            rest: nanos(self.reporter.rest_s),
            rest_max: nanos(self.reporter.rest_max_s),
            trial: nanos(self.reporter.trial_s),
            remember: nanos(self.reporter.remember_s),
            llc_miss: Nanos(self.reporter.llc_miss_ns),
            resident_max: self.resident_max(),
        }
    }

    pub fn resident_max(&self) -> Bytes {
        Bytes(self.scheduler.resident_max_gib.saturating_mul(1 << 30))
    }

    /// Pages that may be moved in so much time.
    pub fn pages_in(&self, time: Duration) -> u64 {
        let pages_per_second = u128::from(self.scheduler.rate_mib_per_s) << 8;
        (pages_per_second * time.as_micros() / 1_000_000).try_into().unwrap_or(u64::MAX)
    }
}

/// What is wrong, with its line and column.
fn complaint(text: &str, error: &toml::de::Error) -> String {
    match error.span() {
        Some(span) => format!("{}: {}", place(text, span.start), error.message()),
        None => error.message().to_owned(),
    }
}

/// The same for a complaint about a key: that of its value.
fn with_its_place(text: &str, complaint: &str) -> String {
    let key = complaint.split(' ').next().unwrap_or_default();
    let start = || {
        let (section, name) = key.split_once('.')?;
        let tables = DeTable::parse(text).ok()?;
        let value = tables.get_ref().get(section)?.get_ref().as_table()?.get(name)?;
        Some(value.span().start)
    };
    start().map_or_else(|| complaint.to_owned(), |at| format!("{}: {complaint}", place(text, at)))
}

fn place(text: &str, at: usize) -> String {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

#[cfg(test)]
mod tests {
    use quartier_observe::tasks::Who;

    use super::*;

    #[test]
    fn an_empty_file_is_what_is_meant_by_default() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.settings(), Settings::default());
        assert_eq!(config.period(), Duration::from_millis(200));
        assert_eq!(config.pages_in(Duration::from_millis(20)), 2621);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_column() {
        for (text, expected) in [
            ("[monitor]\nperiod_ms = \"x\"\n", "line 2, column 13: "),
            ("[monitor]\nperiod = 5\n", "line 2, column 1: unknown field `period`"),
            (
                "monitor.pages_percent = 0",
                "line 1, column 25: monitor.pages_percent = 0: give 0.01",
            ),
            ("\n\n[[tasks.pin]]\nnode = 3\n", "line 3, column 1: missing field `who`"),
            (
                "[monitor]\nperiod_ms = 1\n",
                "line 2, column 13: monitor.period_ms = 1: give 20 to 60000",
            ),
            ("[reporter]\n\nrest_s=nan\n", "line 3, column 8: reporter.rest_s = NaN"),
            ("reporter.speedup_min = 0.5", "line 1, column 24: reporter.speedup_min = 0.5"),
            ("scheduler = { rate_mib_per_s = 0 }", "line 1, column 32: scheduler.rate"),
            ("scheduler.threads_max = 0", "line 1, column 25: scheduler.threads_max = 0: give 1"),
            ("[web]\nlisten = \"0.0.0.0:7117\"\n", "line 2, column 10: not on loopback"),
            ("[web]\nlisten = \"localhost\"\n", "line 2, column 10: give an address"),
            ("[web\n", "line 1, column 5: "),
        ] {
            let complaint = Config::parse(text).unwrap_err();
            assert!(complaint.starts_with(expected), "{complaint}");
        }
    }

    #[test]
    fn a_file_that_is_given_must_be_there() {
        let missing = Path::new("/nonexistent/quartierd.toml");
        let file = file(Some(missing)).unwrap();
        let complaint = format!("{:#}", Config::read(file).unwrap_err());
        assert!(complaint.contains("/nonexistent/quartierd.toml: No such file"), "{complaint}");
    }

    /// What is installed as /etc/quartier/quartierd.toml: all of it is commented out, `#key = value` being the
    /// default and `# words` words.
    const EXAMPLE: &str = include_str!("../quartierd.toml");

    fn example() -> String {
        let settings = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => setting,
            _ => "",
        });
        settings.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn the_example_says_every_key_with_its_default() {
        assert_eq!(Config::parse(EXAMPLE).unwrap(), Config::default());
        let given = Config::parse(&example()).unwrap();
        let tasks = Rules::default();
        assert_eq!(Config { tasks, ..given }, Config::default());
        let given: toml::Table = example().parse().unwrap();
        let all = toml::Table::try_from(Config::default()).unwrap();
        for (section, keys) in &all {
            for key in keys.as_table().unwrap().keys() {
                assert!(given[section].get(key).is_some(), "{section}.{key} is not in the example");
            }
        }
    }

    #[test]
    fn the_example_shows_every_way_to_name_tasks() {
        let Rules { only, never, pin, cpuset } = Config::parse(&example()).unwrap().tasks;
        let all: Vec<_> = only.iter().chain(&never).chain(pin.iter().map(|pin| &pin.who)).collect();
        let shows = |is_so: fn(&Who) -> bool| all.iter().any(|who| is_so(who));
        let Who { name: _, uid: _, cgroup: _, environment: _ } = Who::default();
        assert!(shows(|who| who.name.is_some()) && shows(|who| who.uid.is_some()));
        assert!(shows(|who| who.cgroup.is_some()) && shows(|who| who.environment.is_some()));
        assert!(!only.is_empty() && !never.is_empty() && !pin.is_empty() && !cpuset.is_empty());
    }

    #[test]
    fn rules_are_lists_of_tables() {
        let text =
            "[[tasks.never]]\nname = \"postgres*\"\n[[tasks.pin]]\nwho = { uid = 5 }\nnode = 1\n";
        let rules = Config::parse(text).unwrap().tasks;
        assert_eq!((rules.never.len(), rules.pin[0].node.0), (1, 1));
    }
}
