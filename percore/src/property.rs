//! How often random tests of this crate try.

use proptest::prelude::ProptestConfig;

/// So many cases; one where each step is interpreted. A failure prints its input, and nothing is written down.
pub(crate) fn tries(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 1 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
