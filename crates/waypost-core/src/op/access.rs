//! The roles that may run an operation.

use super::Effect;

/// The access of agents and jobs to an operation. Admins may run every operation, observers every one that only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Access with the token of an agent.
    pub agents: AgentAccess,
    /// Access with the token of a job.
    pub jobs: JobAccess,
}

/// Whether agents may run an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAccess {
    /// Not at all: it is for people.
    None,
    /// With any arguments.
    All,
    /// But not with `force`, which overrides the claims of others.
    WithoutForce,
    /// Only if this argument is their own name, and not with another role than worker. Limits, which are these fields,
    /// are set by people.
    OwnName(&'static str, &'static [&'static str]),
    /// Only on work that the agent planned or holds, unless it is a coordinator. The arguments `task` and `workflow` name
    /// the work. The engine checks it, in the transaction of the operation.
    OwnWork,
    /// Only coordinators, to which people gave this role. The engine checks it.
    Coordinators,
}

/// Whether jobs may run an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAccess {
    /// Not at all.
    None,
    /// Only on their own task.
    OwnTask,
    /// Only on themselves.
    OwnJob,
    /// But not with `force`, which overrides the claims of others.
    WithoutForce,
    /// With any arguments.
    All,
}

impl Access {
    /// Only admins.
    pub const ADMINS: Access = Access::of(AgentAccess::None);
    /// Agents too.
    pub const AGENTS: Access = Access::of(AgentAccess::All);
    /// Agents too, but not with `force`.
    pub const AGENTS_WITHOUT_FORCE: Access = Access::of(AgentAccess::WithoutForce);

    /// Agents too, on their own work.
    pub const OWN_WORK: Access = Access::of(AgentAccess::OwnWork);
    /// Agents too, if they are coordinators.
    pub const COORDINATORS: Access = Access::of(AgentAccess::Coordinators);

    const fn of(agents: AgentAccess) -> Access {
        Access { agents, jobs: JobAccess::None }
    }

    /// Agents too, if this argument is their own name. They cannot set the limits.
    pub const fn own_name(argument: &'static str, limits: &'static [&'static str]) -> Access {
        Access::of(AgentAccess::OwnName(argument, limits))
    }

    /// Adds the access of jobs.
    #[must_use]
    pub const fn with_jobs(self, jobs: JobAccess) -> Access {
        Access { jobs, ..self }
    }

    /// The access of operations that state none: agents and jobs may read; writes are for admins.
    pub const fn default_for(effect: Effect) -> Access {
        match effect {
            Effect::Read => Access::AGENTS.with_jobs(JobAccess::All),
            Effect::Write => Access::ADMINS,
        }
    }
}
