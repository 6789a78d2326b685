//! Something to hold in tests.

use std::process::{Child, Command};

use quartier_model::{Task, TaskId};
use quartier_session::CpuBits;

use super::task;
use crate::affinity;

/// A process that sleeps, and ends with its test.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    pub fn task(&self) -> Task {
        let id = self.0.id();
        let task = TaskId { id, start_ticks: task::start_ticks(id).unwrap() };
        Task { thread: task, process: task, parent: std::process::id() }
    }

    pub fn affinity(&self) -> CpuBits {
        affinity::get(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
