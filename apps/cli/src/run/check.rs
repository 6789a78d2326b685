//! Options of `quartier run` that cannot be meant together.

use anyhow::bail;
use quartier_session::{Pin, Policy};

use super::Args;
use super::options::{PinOption, RungOption};

const NOT_PLACED_BY_POLICY: &str = "--policy none only reports: threads are not placed";

/// An option, and whether it was given.
type Given = (&'static str, bool);

impl Args {
    /// Refuses what cannot be meant, before anything is done.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_together()?;
        self.check_blocks()
    }

    /// Why threads are not placed, if they are not.
    pub fn why_not_placed(&self) -> Option<&'static str> {
        match (self.policy.policy(), self.pin()) {
            (Policy::None, _) => Some(NOT_PLACED_BY_POLICY),
            (_, Pin::None) => Some("with --pin none threads are not placed"),
            _ => None,
        }
    }

    /// Refuses options that others leave nothing to say to.
    fn check_together(&self) -> anyhow::Result<()> {
        let is_held = self.pin.is_some_and(|pin| pin != PinOption::None);
        let is_caught = self.rung.is_some_and(|rung| rung != RungOption::None);
        let of_blocks: [Given; 4] = [
            ("--block", self.block.is_some()),
            ("--block-max", self.block_max.is_some()),
            ("--split-huge", self.split_huge),
            ("--always-copy", self.always_copy),
        ];
        if self.policy.policy() == Policy::None {
            refuse(&[("--pin", is_held)], NOT_PLACED_BY_POLICY)?;
        }
        if let Some(why) = self.why_not_placed() {
            let of_threads = [
                ("--strategy", self.strategy.is_some()),
                ("--tree", self.tree.is_some()),
                ("--balance", self.balance.is_some()),
            ];
            refuse(&of_threads, why)?;
        }
        if self.pin == Some(PinOption::Cpu) {
            let why = "with --pin cpu each thread stays on its CPU";
            refuse(&[("--balance", self.balance.is_some_and(|period| period > 0))], why)?;
        }
        if self.policy.policy() != Policy::NextTouch {
            let why = "only --policy next-touch pulls pages to threads";
            refuse(&of_blocks, why)?;
            refuse(&[("--rung", is_caught), ("--initial-share", self.initial_share > 0)], why)?;
        }
        if self.rung == Some(RungOption::None) {
            refuse(&of_blocks, "with --rung none pages are not pulled")?;
        }
        Ok(())
    }

    fn check_blocks(&self) -> anyhow::Result<()> {
        for (option, size) in [("--block", self.block()), ("--block-max", self.block_max())] {
            if !size.0.is_power_of_two() || !(4 << 10..=2 << 20).contains(&size.0) {
                bail!("{option} {size}: a block is a power of two between 4K and 2M; try 64K");
            }
        }
        let (block, block_max) = (self.block(), self.block_max());
        if block_max < block {
            bail!(
                "--block-max {block_max} is below --block {block}: blocks only grow; give at least \
                 that much"
            );
        }
        Ok(())
    }
}

fn refuse(options: &[Given], why: &str) -> anyhow::Result<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!("{option} says nothing here, because {why}; leave it out"),
        None => Ok(()),
    }
}
