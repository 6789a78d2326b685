//! Lines of several logs, in order of the times that they begin with.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Of which copy and file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub copy: usize,
    pub file: usize,
    pub text: String,
}

/// When a line was written; comparable with others of the same kind of log. Local time as numbers from the year on, or seconds since
/// 1970; then nanoseconds.
pub type When = ([u64; 6], u64);

/// Puts lines in order that come from several files, each of which is in order.
#[derive(Debug, Default)]
pub struct Merge {
    waiting: Vec<(When, Line)>,
    /// Of each file the time of its last line: a line without one belongs to that.
    last: Vec<When>,
}

impl Merge {
    /// Takes lines in that have just been written, and gives those that had waited since the last time, or are older than one that
    /// had.
    pub fn add(&mut self, lines: Vec<Line>) -> Vec<Line> {
        let newest = self.waiting.last().map(|(when, _)| *when);
        self.take_in(lines);
        newest.map_or_else(Vec::new, |newest| self.take(|when| when <= newest))
    }

    /// How far a file has been read.
    pub fn reached(&self, file: usize) -> When {
        self.last.get(file).copied().unwrap_or_default()
    }

    /// Gives all lines from before a time, or all.
    pub fn before(&mut self, limit: Option<When>) -> Vec<Line> {
        self.take(|when| limit.is_none_or(|limit| when < limit))
    }

    fn take(&mut self, is_ready: impl Fn(When) -> bool) -> Vec<Line> {
        let nr_ready = self.waiting.iter().take_while(|(when, _)| is_ready(*when)).count();
        self.waiting.drain(..nr_ready).map(|(_, line)| line).collect()
    }

    /// Of a file, in order.
    pub fn take_in(&mut self, lines: Vec<Line>) {
        for line in lines {
            if self.last.len() <= line.file {
                self.last.resize(line.file + 1, When::default());
            }
            // A clock that was put back is no reason to mix a file up.
            let last = &mut self.last[line.file];
            *last = when(&line.text).unwrap_or(*last).max(*last);
            self.waiting.push((*last, line));
        }
        // Stable: lines of one file stay in order, and those without a time behind the one that they belong to.
        self.waiting.sort_by_key(|(when, line)| (*when, line.file));
    }
}

/// What a recipe's access log has before the common format.
static SECONDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{9,12})\.(\d{3}) ").expect("a test reads it"));
/// nginx's complaints: `2026/11/29 08:12:06 [error] …`.
static NGINX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d) ").expect("a test reads it")
});
/// PHP-FPM's: `[29-Nov-2026 08:12:06] NOTICE: …`, also with microseconds.
static PHP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\[(\d\d)-(\w{3})-(\d{4}) (\d\d):(\d\d):(\d\d)(?:\.(\d{6}))?[^\]]*\]")
        .expect("a test reads it")
});
/// Apache's: `[Sun Nov 29 08:12:06.123456 2026] …`.
static APACHE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\[\w{3} (\w{3}) (\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{6}))? (\d{4})\]")
        .expect("a test reads it")
});

/// When a line was written, as it says; `None`: it does not.
fn when(text: &str) -> Option<When> {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(found) = SECONDS.captures(text) {
        let nanos = number(&found[2])? * 1_000_000;
        return Some(([0, 0, 0, 0, 0, number(&found[1])?], nanos));
    }
    if let Some(found) = NGINX.captures(text) {
        let mut at = [0; 6];
        for (nr, at) in at.iter_mut().enumerate() {
            *at = number(&found[nr + 1])?;
        }
        return Some((at, 0));
    }
    let micros =
        |found: Option<regex_lite::Match<'_>>| found.map_or(Some(0), |it| number(it.as_str()));
    if let Some(found) = PHP.captures(text) {
        let at = |nr: usize| number(&found[nr]);
        let time = [at(3)?, month(&found[2])?, at(1)?, at(4)?, at(5)?, at(6)?];
        return Some((time, 1_000 * micros(found.get(7))?));
    }
    let found = APACHE.captures(text)?;
    let at = |nr: usize| number(&found[nr]);
    let time = [at(7)?, month(&found[1])?, at(2)?, at(3)?, at(4)?, at(5)?];
    Some((time, 1_000 * micros(found.get(6))?))
}

fn month(name: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    MONTHS.iter().position(|month| *month == name).map(|at| at as u64 + 1)
}

/// As it is told: what was asked is in the common format, without the time that is for us; complaints are told with the copy.
pub fn shown(line: &Line, with_copy: bool) -> String {
    let text = match SECONDS.find(&line.text) {
        Some(found) => &line.text[found.end()..],
        None => &line.text,
    };
    if with_copy { format!("copy {}: {text}", line.copy) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(file: usize, text: &str) -> Line {
        Line { copy: file, file, text: text.to_owned() }
    }

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.iter().map(|line| shown(line, false)).collect()
    }

    #[test]
    fn times_of_all_three_servers_are_read() {
        let at = [2026, 11, 29, 8, 12, 6];
        for (text, expected) in [
            ("1764403926.042 127.0.0.1 - - x", Some(([0, 0, 0, 0, 0, 1_764_403_926], 42_000_000))),
            ("2026/11/29 08:12:06 [error] 7#7: x", Some((at, 0))),
            ("[29-Nov-2026 08:12:06] NOTICE: x", Some((at, 0))),
            ("[29-Nov-2026 08:12:06.000250] NOTICE: x", Some((at, 250_000))),
            ("[Sun Nov 29 08:12:06.123456 2026] [core] x", Some((at, 123_456_000))),
            ("[Sun Xyz 29 08:12:06 2026] x", None),
            ("PHP message: Stack trace:", None),
            ("", None),
        ] {
            assert_eq!(when(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_of_several_files_come_in_order_and_continuations_stay_where_they_belong() {
        let mut merge = Merge::default();
        let lines = vec![
            line(0, "[29-Nov-2026 08:12:06] one"),
            line(0, "  continued"),
            line(0, "[29-Nov-2026 08:12:09] four"),
            line(1, "[29-Nov-2026 08:12:07] two"),
            line(1, "[29-Nov-2026 08:12:08] three"),
        ];
        let expected = ["one", "  continued", "two", "three", "four"];
        merge.take_in(lines);
        let told = texts(merge.before(None));
        let told: Vec<_> = told.iter().map(|text| text.rsplit("] ").next().unwrap()).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_line_waits_until_those_of_others_have_had_their_time() {
        let mut merge = Merge::default();
        assert!(merge.add(vec![line(0, "1764403926.200 b")]).is_empty());
        assert_eq!(texts(merge.add(vec![line(1, "1764403926.100 a")])), ["a", "b"]);
        assert!(merge.add(vec![line(1, "1764403926.300 c")]).is_empty());
        assert_eq!(texts(merge.add(Vec::new())), ["c"]);
        assert!(merge.add(Vec::new()).is_empty());
    }

    proptest! {
        #[test]
        fn every_line_is_told_once_and_each_file_in_order(
            lines in proptest::collection::vec((0..3_usize, 0..50_u64), 0..60),
        ) {
            let mut merge = Merge::default();
            let mut told = Vec::new();
            for (nr, (file, millis)) in lines.iter().enumerate() {
                let text = format!("1764403926.{millis:03} {nr}");
                told.extend(merge.add(vec![line(*file, &text)]));
            }
            told.extend(merge.before(None));
            prop_assert_eq!(told.len(), lines.len());
            for file in 0..3 {
                let of: Vec<usize> = told
                    .iter()
                    .filter(|line| line.file == file)
                    .map(|line| shown(line, false).parse().unwrap())
                    .collect();
                prop_assert!(of.is_sorted(), "{:?}", of);
            }
        }

        #[test]
        fn any_line_has_a_time_or_none(text in "[\\[\\]0-9A-Za-z/:. ]{0,60}") {
            let _ = when(&text);
        }
    }
}
