//! `quartier lab scale` on programs that wait for memory, for a reason that is known: which function waits, for what lies where,
//! and why; in real kernels, on a small machine's caches and memories.

mod common;
#[path = "../../../tests/programs/stops_scaling.rs"]
mod stops_scaling;

use std::path::Path;

use serde_json::Value;
use stops_scaling::{Named, OTHERS_PERCENT_MAX, Planted};

/// What is said of a reason; `None`: no guest can be booted here.
fn verdict(kernel: &str, planted: &Planted) -> Option<Value> {
    if !common::can_boot(kernel) {
        return None;
    }
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let options = planted.in_guest(&programs).unwrap();
    let options = options.into_iter().chain(["--slow-time=20".to_owned()]);
    let load = (planted.program(), planted.reason.as_str(), planted.units);
    Some(common::swept(kernel, options, load, &[])["verdict"].clone())
}

/// The culprit that is named first is the one that was planted, and next to nothing is laid upon others. Three runs each are few: that
/// they differ too much for a name is an answer, but not twice.
fn found(kernel: &str, reason: &str) {
    let planted = Planted::of(reason);
    for is_last in [false, true] {
        let Some(verdict) = verdict(kernel, &planted) else { return };
        let culprits: Vec<Named> = serde_json::from_value(verdict["culprits"].clone()).unwrap();
        let Some(first) = culprits.first() else {
            assert!(!is_last, "{reason}: nobody is named, twice: {verdict}");
            continue;
        };
        assert!(planted.is(first), "{planted:?}: {first:?}");
        assert!(planted.others_percent(&culprits) <= OTHERS_PERCENT_MAX, "another: {culprits:?}");
        return assert!(first.share_percent <= 110.0, "more than there is: {first:?}");
    }
}

#[test]
fn memory_that_one_thread_filled_for_all_is_found_on_6_1() {
    found("6.1", "first-touch");
}

#[test]
fn a_memory_that_is_asked_for_more_than_it_can_give_is_found_on_7_3() {
    found("7.3", "bandwidth");
}
