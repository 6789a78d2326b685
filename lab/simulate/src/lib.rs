//! The decision tree on made-up machines of up to 1024 nodes, in simulated time.
//!
//! A [`Trace`](trace::Trace) says which threads come and go when. A [`Stage`](clock::Stage) is a
//! machine with its tree, on which a [`Chooser`](choosers::Chooser) says where they run, and
//! [`Measures`](measures::Measures) are what came of it. A [`Plan`](report::Plan) compares all
//! choosers. The same seed gives the same result, to the last bit.
//!
//! ```
//! use quartier_simulate::loads::Load;
//! use quartier_simulate::period::Period;
//! use quartier_simulate::report::Plan;
//!
//! let plan = Plan {
//!     machines: vec!["8x8".parse()?],
//!     loads: vec![Load::Steady],
//!     periods: vec![Period::from_ms(10)],
//!     nr_events: 1000,
//!     seed: 1,
//! };
//! let report = plan.run(|_nr_done, _what| ())?;
//! assert_eq!(report.runs.len(), plan.nr_runs());
//! # Ok::<(), quartier_simulate::machines::MachineError>(())
//! ```
#![forbid(unsafe_code)]

pub mod chart;
pub mod choosers;
pub mod clock;
pub mod loads;
pub mod machines;
pub mod measures;
pub mod period;
pub mod random;
pub mod report;
pub mod text;
pub mod trace;
pub mod truth;
