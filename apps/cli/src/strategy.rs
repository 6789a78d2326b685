//! `--strategy`, of `run` and of `explain-decision`.

use quartier_decide::policy;
use quartier_session as session;

/// Which eligible clusters go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyOption {
    /// Near the creator, then the emptiest cluster
    Thesis,
    /// Near the creator, then the fullest cluster with an idle core
    Packed,
    /// The emptiest cluster of the whole machine
    Spread,
}

impl StrategyOption {
    /// What a policy is told.
    pub fn policy(self) -> policy::Strategy {
        match self {
            Self::Thesis => policy::Strategy::Thesis,
            Self::Packed => policy::Strategy::Packed,
            Self::Spread => policy::Strategy::Spread,
        }
    }

    /// What the runtime is told.
    pub fn session(self) -> session::Strategy {
        match self {
            Self::Thesis => session::Strategy::Thesis,
            Self::Packed => session::Strategy::Packed,
            Self::Spread => session::Strategy::Spread,
        }
    }
}
