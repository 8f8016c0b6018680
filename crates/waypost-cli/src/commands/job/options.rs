//! The options that say how a job runs, which workers have, too.

use waypost_core::model::{SandboxMode, Strategy};

use crate::commands::ws::parse_bytes;
use crate::spans::parse_duration;
use crate::work::parse_enum;
use waypost::app::session::Session;
use waypost::work::jobs::{self, Settings};

/// The options that say how a job runs.
#[derive(clap::Args)]
pub(crate) struct HowArgs {
    /// Kind of workspace: clone, overlay, worktree, jj or copy; in-place runs in the checkout itself [default:
    /// configured, else chosen for the repository]
    #[arg(long, value_parser = parse_enum::<Strategy>)]
    pub(super) strategy: Option<Strategy>,
    /// What to start from: plan (the work of the tasks that the task depends on), head, or a revision [default: as the
    /// task or its workflow says, else plan]
    #[arg(long, value_name = "BASE")]
    pub(super) base: Option<String>,
    /// Branch to work on [default: waypost/ and the id]
    #[arg(long)]
    branch: Option<String>,
    /// Existing workspace of an earlier job to run in, as it is; with --base it is fast-forwarded first, which fails if it
    /// has diverged
    #[arg(long, value_name = "WORKSPACE", conflicts_with_all = ["strategy", "branch"])]
    pub(super) workspace: Option<String>,
    /// Maximum run time, e.g. 1h
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// Maximum size of the workspace
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    size_limit: Option<u64>,
    /// Remove the workspace after the job, unless work in it would be lost
    #[arg(long, conflicts_with = "keep")]
    cleanup: bool,
    /// Keep the workspace after the job
    #[arg(long)]
    keep: bool,
    /// Variable of your environment to pass to the job; may be given repeatedly
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Let the job use only its own files: on, off, landlock or bubblewrap. It can change its workspace and read
    /// programs; jobs.sandbox_read and jobs.sandbox_write name further paths [default: configured, else off]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "on",
        value_parser = parse_enum::<SandboxMode>)]
    sandbox: Option<SandboxMode>,
    /// Give the job a network of its own, with nothing but a loopback interface
    #[arg(long)]
    no_network: bool,
    /// Maximum memory of the processes of the job together
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_limit: Option<u64>,
    /// Maximum number of processes and threads of the job
    #[arg(long, value_name = "N")]
    process_limit: Option<u32>,
}

impl HowArgs {
    pub(crate) fn strategy(&self) -> Option<Strategy> {
        self.strategy
    }

    /// Returns the settings of the job: the options, else the configuration.
    pub(crate) fn settings(&self, session: &Session) -> Settings {
        let defaults = jobs::default_settings(session);
        let cleanup = match (self.cleanup, self.keep) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => defaults.cleanup,
        };
        Settings {
            strategy: self.strategy,
            base: self.base.clone(),
            branch: self.branch.clone(),
            workspace: self.workspace.clone(),
            timeout_ms: self.timeout.or(defaults.timeout_ms),
            size_limit: self.size_limit.or(defaults.size_limit),
            cleanup,
            sandbox: self.sandbox.or(defaults.sandbox),
            network: if self.no_network { Some(false) } else { defaults.network },
            memory_limit: self.memory_limit.or(defaults.memory_limit),
            process_limit: self.process_limit.or(defaults.process_limit),
            env: defaults.env.into_iter().chain(self.env.clone()).collect(),
            ..defaults
        }
    }
}
