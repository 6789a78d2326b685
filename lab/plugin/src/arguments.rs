//! The plugin's arguments, which `quartier lab` gives it.

use std::path::PathBuf;

use quartier_marker::INTERFACE;
use quartier_memmodel::geometry::{Geometry, Preset};

use crate::layout::{Layout, Range};

/// What is to be counted, and where the result goes.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// `range=NODE:START:BYTES:FILE:OFFSET`, once for each: the guest's memory.
    pub layout: Layout,
    /// `cpus=0+0+1+…`: the node of each CPU.
    pub node_of_cpu: Vec<u16>,
    /// `geometry=NAME` or `geometry=FILE`: what is modelled.
    pub geometry: Geometry,
    /// `out=FILE`: where the result goes.
    pub out: PathBuf,
    /// `threads=single`: QEMU runs all CPUs in one thread.
    pub single: bool,
    /// `sets=N`: one of N sets of each cache is modelled.
    pub sets_one_in: u32,
    /// `check=translations`: some are compared with QEMU's own.
    pub checks_translations: bool,
    /// `lines=handed-over`: which instructions take lines from other CPUs.
    pub tells_handovers: bool,
}

impl Arguments {
    /// Reads `NAME=VALUE` words. What has parts has `+` or `:` between them: QEMU splits at commas.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut ranges, mut node_of_cpu) = (Vec::new(), Vec::new());
        let (mut geometry, mut out) = (None, None);
        let (mut single, mut sets_one_in, mut checks_translations) = (false, 1, false);
        let mut tells_handovers = false;
        for word in words {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("`{word}` is not NAME=VALUE"))?;
            match name {
                "range" => ranges.push(value.parse::<Range>().map_err(|why| why.to_string())?),
                "cpus" => node_of_cpu = nodes(value)?,
                "geometry" => geometry = Some(read_geometry(value)?),
                "interface" => same_interface(value)?,
                "out" => out = Some(PathBuf::from(value)),
                "threads" => single = is_single(value)?,
                "check" if value == "translations" => checks_translations = true,
                "lines" if value == "handed-over" => tells_handovers = true,
                "sets" => {
                    let bad = |_| format!("sets={value} is no number");
                    sets_one_in = value.parse().map_err(bad)?;
                }
                _ => return Err(format!("`{name}` is not an argument of this plugin")),
            }
        }
        Ok(Self {
            layout: Layout::new(ranges).map_err(|why| why.to_string())?,
            node_of_cpu,
            geometry: geometry.ok_or("the geometry is missing: give geometry=…")?,
            out: out.ok_or("the file for the result is missing: give out=…")?,
            single,
            sets_one_in,
            checks_translations,
            tells_handovers,
        })
    }
}

/// `interface=HEX`: what the marker will say is what this plugin understands.
fn same_interface(text: &str) -> Result<(), String> {
    if u64::from_str_radix(text, 16) == Ok(INTERFACE) {
        return Ok(());
    }
    Err("it is of another build than quartier: build or install them together".to_owned())
}

fn nodes(text: &str) -> Result<Vec<u16>, String> {
    text.split('+')
        .map(|word| word.parse().map_err(|_| format!("`{word}` is not a node's number")))
        .collect()
}

fn is_single(text: &str) -> Result<bool, String> {
    match text {
        "single" => Ok(true),
        "multi" => Ok(false),
        _ => Err(format!("threads={text} is neither threads=single nor threads=multi")),
    }
}

fn read_geometry(text: &str) -> Result<Geometry, String> {
    if let Some(preset) = Preset::ALL.into_iter().find(|preset| preset.name() == text) {
        return Ok(preset.geometry());
    }
    let bytes = std::fs::read(text).map_err(|error| format!("cannot read {text}: {error}"))?;
    Geometry::from_bytes(&bytes).map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: &str = "range=0:0:4096:3:0";

    #[test]
    fn all_words_are_understood() {
        let interface = format!("interface={INTERFACE:x}");
        let words = [
            interface.as_str(),
            RANGE,
            "range=1:4096:4096:4:0",
            "out=/x",
            "cpus=0+1",
            "geometry=tsar",
            "threads=single",
            "sets=8",
            "check=translations",
            "lines=handed-over",
        ];
        let arguments = Arguments::parse(words).unwrap();
        assert_eq!(arguments.layout.nr_nodes(), 2);
        assert_eq!(arguments.node_of_cpu, [0, 1]);
        assert_eq!(arguments.out, PathBuf::from("/x"));
        assert!(arguments.single);
        assert_eq!(arguments.sets_one_in, 8);
        assert!(arguments.checks_translations && arguments.tells_handovers);
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for (words, part) in [
            (&["out=/x"][..], "memory is missing"),
            (&[RANGE, "out=/x"], "geometry="),
            (&[RANGE, "geometry=tsar"], "out="),
            (&["range=0"], "NODE:"),
            (&["verbose"], "NAME=VALUE"),
            (&["interface=1"], "of another build than quartier"),
            (&["interface=one"], "of another build than quartier"),
            (&["colour=red"], "not an argument"),
            (&["cpus=a"], "node's number"),
            (&["threads=2"], "threads=single"),
            (&["sets=x"], "is no number"),
            (&["check=all"], "not an argument"),
            (&["lines=all"], "not an argument"),
            (&["geometry=/nowhere"], "cannot read /nowhere"),
        ] {
            let why = Arguments::parse(words.iter().copied()).unwrap_err();
            assert!(why.contains(part) && !why.contains('\n'), "{why}");
        }
    }
}
