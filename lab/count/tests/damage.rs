//! Files that are no recordings, another format's, cut short or changed: one sentence, and no panic.

mod made_up;

use std::sync::LazyLock;

use made_up::MadeUp;
use proptest::prelude::*;
use quartier_count::{FORMAT, Phase, Recording, RecordingError, Report, html, svg, text};

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| MadeUp::new(2, 1).recording().to_json());

fn refusal(bytes: &[u8]) -> String {
    let sentence = Recording::parse(bytes).unwrap_err().to_string();
    assert!(!sentence.contains('\n') && sentence.len() < 400, "{sentence}");
    assert!(sentence.contains("count again"), "{sentence}");
    sentence
}

/// A change of the file as text.
fn changed(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(GOOD.clone()).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn a_recording_is_read_again_as_it_was() {
    let recording = MadeUp::new(4, 2).recording();
    assert_eq!(Recording::parse(&recording.to_json()).unwrap(), recording);
}

#[test]
fn another_format_is_named() {
    let [ours, next] = [FORMAT, FORMAT + 1].map(|format| format!("\"format\":{format}"));
    let sentence = refusal(&changed(&ours, &next));
    for format in [FORMAT, FORMAT + 1] {
        assert!(sentence.contains(&format!("format {format}")), "{sentence}");
    }
    // Whatever else it has in it.
    let error = Recording::parse(b"{\"format\": 7, \"pages\": []}").unwrap_err();
    assert!(matches!(error, RecordingError::Format { found: 7 }), "{error}");
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let ours_alone = format!("{{\"format\":{FORMAT}}}");
    let of_text = format!("{{\"format\":\"{FORMAT}\"}}");
    for bytes in
        [&b""[..], b"{}", b"[]", b"null", b"\xff\xfe", of_text.as_bytes(), ours_alone.as_bytes()]
    {
        let sentence = refusal(bytes);
        assert!(sentence.starts_with("this is no recording"), "{sentence}");
    }
    let long = format!("{{\"format\":{FORMAT},\"{}\\n\":2}}", "x".repeat(5000));
    refusal(long.as_bytes());
    for length in (0..GOOD.len()).step_by(97) {
        refusal(&GOOD[..length]);
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (from, to, part) in [
        ("\"cpus_per_node\":[1,1]", "\"cpus_per_node\":[1,1,1]", "nodes"),
        ("\"cpus_per_node\":[1,1]", "\"cpus_per_node\":[2,1]", "CPUs"),
        ("\"cpus_per_node\":[1,1]", "\"cpus_per_node\":[]", "0 nodes"),
        ("\"cpus_per_node\":[1,1]", "\"cpus_per_node\":[4294967295,1]", "CPUs"),
        ("\"initiator\":1,\"target\":1", "\"initiator\":1,\"target\":9", "not there"),
        ("\"initiator\":0,\"target\":0", "\"initiator\":0,\"target\":1", "order"),
        ("\"hops\":0", "\"hops\":3", "0 hops"),
        ("\"line_bytes\":64", "\"line_bytes\":63", "cannot be"),
        ("\"words\":", "\"words\":99999999999999", "words"),
        ("\"sets_one_in\":1", "\"sets_one_in\":0", "sets"),
        (
            "{\"kind\":\"parallel\"}",
            "{\"kind\":\"sampled\",\"one_in\":0,\"error_percent\":1}",
            "sample",
        ),
    ] {
        let sentence = refusal(&changed(from, to));
        assert!(sentence.contains(part), "{from} -> {to}: {sentence}");
    }
    let huge = MadeUp::new(2, 1).with(|made_up| made_up.commands = u64::MAX);
    assert!(refusal(&huge.recording().to_json()).contains("more commands"));
}

/// Reads what may be damaged, and makes everything of it that there is to make.
fn use_all(bytes: &[u8]) {
    let Ok(recording) = Recording::parse(bytes) else { return };
    for phase in [Phase::Whole, Phase::Parallel] {
        let Ok(report) = Report::new(&recording, phase) else { continue };
        let text = text::report(&report);
        assert!(!text.contains("NaN"), "{text}");
        let page = html::report(&report);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
        for drawing in svg::report(&report) {
            roxmltree::Document::parse(&drawing.to_svg()).unwrap();
        }
    }
}

/// Values that are often too much for somebody.
const EXTREMES: [&str; 9] = [
    "0",
    "1",
    "65535",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "-1",
    "1e300",
    "\"\\u0000<&\\uffff\"",
];

/// Where numbers are in the text.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, c) in text.char_indices() {
        if !c.is_ascii_digit() {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        use_all(&bytes);
    }

    #[test]
    fn changed_bytes_are_refused_or_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut bytes = GOOD.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        use_all(&bytes);
    }

    #[test]
    fn changed_numbers_are_refused_or_read(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..EXTREMES.len()), 1..4,
        )
    ) {
        let mut text = String::from_utf8(GOOD.clone()).unwrap();
        for (at, extreme) in changes {
            let numbers = numbers(&text);
            text.replace_range(numbers[at.index(numbers.len())].clone(), EXTREMES[extreme]);
        }
        use_all(text.as_bytes());
    }

    #[test]
    fn the_same_extreme_everywhere_is_refused_or_read(
        name in prop::sample::select(vec![
            "\"instructions\":", "\"modelled_stall_millicycles\":", "\"memory_reads\":", "\"modelled_cycles\":",
            "\"sets_one_in\":", "\"l1d_read_misses\":", "\"link\":", "\"frequency_mhz\":",
            "\"fetches\":",
        ]),
        extreme in 0..EXTREMES.len(),
    ) {
        let text = String::from_utf8(GOOD.clone()).unwrap();
        let parts: Vec<_> = text.split(name).collect();
        let mut changed = parts[0].to_owned();
        for part in &parts[1..] {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            changed += &format!("{name}{}{rest}", EXTREMES[extreme]);
        }
        use_all(changed.as_bytes());
    }
}
