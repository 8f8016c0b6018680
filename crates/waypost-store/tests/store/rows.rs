//! Random rows with edge-case values: empty, huge, negative, and unusual characters.

use std::path::PathBuf;

use serde_json::{Value, json};
use waypost_core::id::{
    AgentId, CheckpointId, Entropy, JobId, MessageId, RepositoryId, TaskId, TemplateId, WorkflowId, WorkspaceId,
    WorktreeId,
};
use waypost_core::model::{
    Agent, AgentStatus, Checkpoint, CheckpointKind, DeferredChanges, Dependency, DependencyKind, Identity, Job,
    JobStatus, Lease, LogPiece, Machine, Message, MessageKind, MessageState, NewEvent, News, Notice, Phase,
    ProcessIdentity, Reach, Repository, Role, SavedAnswer, Source, Strategy, Summary, SummaryKind, Task, TaskStatus,
    Template, Urgency, Variable, Vcs, Workflow, WorkflowStatus, Workspace, WorkspaceStatus, Worktree, kind,
};
use waypost_core::time::Timestamp;

/// A deterministic random number generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }

    pub(crate) fn maybe<T>(&mut self, draw: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.roll(2) == 0).then(|| draw(self))
    }

    fn some<T>(&mut self, draw: impl Fn(&mut Dice) -> T) -> Vec<T> {
        (0..self.roll(4)).map(|_| draw(self)).collect()
    }

    pub(crate) fn text(&mut self) -> String {
        let long = "ä".repeat(9_000);
        let odd = [
            "",
            " ",
            "plain",
            "a'b\"c",
            "%_\\",
            "\r\n\t\u{1}\u{7f}",
            "';--",
            "null",
            "{}",
            "?1 $1",
            "\u{10ffff}\u{feff}",
            "e\u{301}",
            "Z",
            "a",
            "É",
            "ß",
            "日本",
            "🦀",
            "\u{202e}",
            &long,
        ];
        self.pick(&odd).to_owned()
    }

    /// Returns a text that is unique with high probability.
    fn name(&mut self) -> String {
        let number = self.roll(usize::from(u16::MAX));
        format!("{}{number}", self.pick(&["x", "X", "é", "_", "-", " ", "日"]))
    }

    pub(crate) fn small(&mut self) -> u32 {
        self.pick(&[0, 1, 2, 7, u32::MAX])
    }

    fn large(&mut self) -> u64 {
        self.pick(&[0, 1, 600_000, i64::MAX.cast_unsigned()])
    }

    /// Returns one of a few times, so that some are equal.
    pub(crate) fn moment(&mut self) -> Timestamp {
        let millis = [i64::MIN, -1, 0, 1, 2, 3, 1_000, 1_767_225_600_000, i64::MAX];
        Timestamp::from_millis(self.pick(&millis))
    }

    fn value(&mut self) -> Value {
        let values = [
            json!(null),
            json!({}),
            json!([]),
            json!("\u{0}"),
            json!({ "z": 1, "a": [null, true, "ü"], "": { "deep": [[[[]]]] } }),
            json!([0.1, -0.0, 1e300, u64::MAX, i64::MIN, 1]),
        ];
        if self.roll(3) == 0 { json!({ "text": self.text() }) } else { self.pick(&values) }
    }
}

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = u8::try_from(self.roll(256)).unwrap();
        }
    }
}

/// Rows that refer to each other, as they were last written.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) repositories: Vec<Repository>,
    pub(crate) worktrees: Vec<Worktree>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) workflows: Vec<Workflow>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) messages: Vec<Message>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) templates: Vec<Template>,
    pub(crate) answers: Vec<SavedAnswer>,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) workspaces: Vec<Workspace>,
}

impl World {
    pub(crate) fn repository(dice: &mut Dice) -> Repository {
        Repository {
            id: RepositoryId::generate(dice),
            name: dice.text(),
            path: PathBuf::from(format!("/{}", dice.text())),
            vcs: dice.pick(&Vcs::ALL),
            remote_url: dice.maybe(Dice::text),
            default_branch: dice.maybe(Dice::text),
        }
    }

    pub(crate) fn worktree(&self, dice: &mut Dice) -> Worktree {
        Worktree {
            id: WorktreeId::generate(dice),
            repository_id: dice.pick(&self.repositories).id,
            name: dice.text(),
            path: PathBuf::from(format!("/{}", dice.text())),
            branch: dice.maybe(Dice::text),
            first_seen: dice.moment(),
            last_seen: dice.moment(),
            removed_at: dice.maybe(Dice::moment),
        }
    }

    fn worktree_id(&self, dice: &mut Dice) -> WorktreeId {
        dice.pick(&self.worktrees).id
    }

    pub(crate) fn event(&self, dice: &mut Dice) -> NewEvent {
        NewEvent {
            // A store's time does not go back, and the comparison with the reference includes it.
            time: Timestamp::from_millis(1_000),
            actor: dice.text(),
            worktree_id: self.worktree_id(dice),
            kind: dice.pick(kind::ALL),
            subject: dice.text(),
            data: dice.value(),
        }
    }

    pub(crate) fn agent(&self, dice: &mut Dice) -> Agent {
        Agent {
            id: AgentId::generate(dice),
            name: format!("{}{}", dice.name(), self.agents.len()),
            runtime: dice.maybe(Dice::text),
            role: dice.pick(Role::ALL),
            status: dice.pick(AgentStatus::ALL),
            capabilities: dice.some(Dice::text),
            workspace_id: dice.maybe(|dice| WorkspaceId::generate(dice)),
            metadata: dice.value(),
            process: dice.maybe(|dice| ProcessIdentity {
                boot_id: dice.text(),
                pid: dice.small(),
                start_time: dice.large(),
            }),
            timeout_ms: dice.large(),
            max_claims: dice.maybe(Dice::small),
            worktree_id: self.worktree_id(dice),
            registered_at: dice.moment(),
            last_heartbeat: dice.moment(),
            silent_at: dice.maybe(Dice::moment),
            retired_at: dice.maybe(Dice::moment),
        }
    }

    pub(crate) fn workflow(&self, dice: &mut Dice) -> Workflow {
        Workflow {
            id: WorkflowId::generate(dice),
            name: dice.text(),
            source: dice.pick(Source::ALL),
            source_ref: dice.maybe(Dice::text),
            source_content: dice.maybe(Dice::text),
            status: if dice.roll(2) == 0 { WorkflowStatus::InProgress } else { dice.pick(WorkflowStatus::ALL) },
            summary: dice.maybe(Dice::text),
            max_parallel: dice.maybe(|dice| dice.small().max(1)),
            base: dice.maybe(Dice::text),
            config: dice.value(),
            reason: dice.maybe(Dice::text),
            worktree_id: self.worktree_id(dice),
            reach: dice.pick(Reach::ALL),
            created_at: dice.moment(),
            updated_at: dice.moment(),
            started_at: dice.maybe(Dice::moment),
            finished_at: dice.maybe(Dice::moment),
        }
    }

    pub(crate) fn task(&self, dice: &mut Dice) -> Task {
        let status = if dice.roll(2) == 0 { TaskStatus::Pending } else { dice.pick(TaskStatus::ALL) };
        let max_attempts = dice.small();
        Task {
            id: TaskId::generate(dice),
            workflow_id: dice.pick(&self.workflows).id,
            name: format!("{}{}", dice.name(), self.tasks.len()),
            description: dice.text(),
            status,
            sequence: dice.small(),
            parallel_group: dice.maybe(Dice::text),
            priority: u32::try_from(dice.roll(5)).unwrap(),
            plan: dice.value(),
            acceptance: dice.some(Dice::text),
            context: dice.value(),
            context_from: dice.some(Dice::text),
            capabilities: dice.some(Dice::text),
            files: dice.some(Dice::text),
            repository_id: dice.maybe(|dice| dice.pick(&self.repositories).id),
            base: dice.maybe(Dice::text),
            workspace_id: dice.maybe(|dice| WorkspaceId::generate(dice)),
            issue: dice.maybe(Dice::text),
            assignee: dice.maybe(|dice| dice.pick(&self.agents).id),
            attempts: dice.small().min(max_attempts),
            max_attempts,
            backoff_ms: dice.large(),
            queue_timeout_ms: dice.maybe(Dice::large),
            run_timeout_ms: dice.maybe(Dice::large),
            stall_timeout_ms: dice.maybe(Dice::large),
            needs_evidence: dice.roll(2) == 0,
            outcome: if status == TaskStatus::Completed { Some(dice.text()) } else { dice.maybe(Dice::text) },
            evidence: if status == TaskStatus::Completed { Some(dice.text()) } else { dice.maybe(Dice::text) },
            error: if matches!(status, TaskStatus::Failed | TaskStatus::Dead) {
                Some(dice.text())
            } else {
                dice.maybe(Dice::text)
            },
            question: dice.maybe(Dice::text),
            answer: dice.maybe(Dice::text),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
            updated_at: dice.moment(),
            queued_at: dice.moment(),
            started_at: dice.maybe(Dice::moment),
            finished_at: dice.maybe(Dice::moment),
            due_at: dice.maybe(Dice::moment),
        }
    }

    pub(crate) fn dependency(&self, dice: &mut Dice) -> Option<Dependency> {
        let (task_id, depends_on) = (dice.pick(&self.tasks).id, dice.pick(&self.tasks).id);
        let kind = dice.pick(DependencyKind::ALL);
        (task_id != depends_on).then_some(Dependency { task_id, depends_on, kind })
    }

    pub(crate) fn checkpoint(&self, dice: &mut Dice) -> Checkpoint {
        Checkpoint {
            id: CheckpointId::generate(dice),
            task_id: dice.pick(&self.tasks).id,
            sequence: u32::try_from(self.checkpoints.len() + 1).unwrap(),
            kind: dice.pick(CheckpointKind::ALL),
            summary: dice.text(),
            detail: dice.value(),
            files: dice.some(Dice::text),
            tokens: dice.maybe(Dice::large),
            cost: dice.maybe(|dice| dice.pick(&[0.0, 0.1, -1.5, f64::MAX, f64::MIN_POSITIVE])),
            agent_id: dice.pick(&self.agents).id,
            epoch: dice.large(),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
        }
    }

    pub(crate) fn lease(&self, dice: &mut Dice) -> Lease {
        Lease {
            subject: dice.pick(&self.tasks).id.to_string(),
            holder: dice.maybe(|dice| dice.pick(&self.agents).id),
            epoch: dice.large().max(1),
            granted_at: dice.moment(),
            expires_at: dice.moment(),
            ttl_ms: dice.large(),
            run_until: dice.maybe(Dice::moment),
            stall_at: dice.maybe(Dice::moment),
            worktree_id: self.worktree_id(dice),
        }
    }

    pub(crate) fn message(&self, dice: &mut Dice) -> Message {
        let id = MessageId::generate(dice);
        let reply_to = if self.messages.is_empty() { None } else { dice.maybe(|dice| dice.pick(&self.messages)) };
        Message {
            number: u64::try_from(self.messages.len() + 1).unwrap(),
            sender: dice.pick(&self.agents).id,
            recipient: dice.pick(&self.agents).id,
            thread: reply_to.as_ref().map_or_else(|| id.clone(), |first| first.thread.clone()),
            reply_to: reply_to.map(|first| first.id),
            id,
            kind: dice.pick(MessageKind::ALL),
            priority: dice.pick(Urgency::ALL),
            subject: dice.text(),
            body: dice.text(),
            workflow_id: dice.maybe(|dice| dice.pick(&self.workflows).id),
            task_id: dice.maybe(|dice| dice.pick(&self.tasks).id),
            expires_at: dice.maybe(Dice::moment),
            state: dice.pick(MessageState::ALL),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
            updated_at: dice.moment(),
        }
    }

    pub(crate) fn template(&self, dice: &mut Dice) -> Template {
        Template {
            id: TemplateId::generate(dice),
            name: dice.text(),
            version: u32::try_from(self.templates.len() + 1).unwrap(),
            description: dice.text(),
            body: dice.value(),
            variables: dice.some(|dice| Variable {
                name: dice.text(),
                description: dice.maybe(Dice::text),
                default: dice.maybe(Dice::text),
            }),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
        }
    }

    pub(crate) fn answer(&self, dice: &mut Dice) -> SavedAnswer {
        SavedAnswer {
            key: format!("{}{}", dice.name(), self.answers.len()),
            operation: dice.text(),
            request: dice.text(),
            answer: dice.value(),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
        }
    }

    pub(crate) fn notice(&self, dice: &mut Dice) -> Notice {
        Notice {
            issue: dice.text(),
            news: dice.pick(News::ALL),
            reason: dice.text(),
            actor: dice.text(),
            task_id: dice.maybe(|dice| dice.pick(&self.tasks).id),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
        }
    }

    pub(crate) fn deferred(&self, dice: &mut Dice) -> DeferredChanges {
        DeferredChanges {
            key: dice.text(),
            number: u64::from(dice.small()),
            actor: dice.text(),
            changes: dice.value(),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
        }
    }

    pub(crate) fn log_piece(&self, dice: &mut Dice) -> LogPiece {
        LogPiece { job_id: dice.pick(&self.jobs).id, first_byte: u64::from(dice.small()), text: dice.text() }
    }

    pub(crate) fn machine(&self, dice: &mut Dice) -> Machine {
        Machine {
            name: dice.pick(&self.agents).name,
            first_seen: dice.moment(),
            last_seen: dice.moment(),
            worker_seen: dice.maybe(Dice::moment),
        }
    }

    pub(crate) fn summary(&self, dice: &mut Dice) -> Summary {
        Summary {
            subject: dice.text(),
            kind: dice.pick(SummaryKind::ALL),
            name: dice.text(),
            status: dice.maybe(Dice::text),
            detail: dice.value(),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
            finished_at: dice.moment(),
            removed_at: dice.moment(),
        }
    }

    pub(crate) fn job(&self, dice: &mut Dice) -> Job {
        let status = dice.pick(JobStatus::ALL);
        let needs_error = matches!(status, JobStatus::Failed | JobStatus::Interrupted);
        let process = |dice: &mut Dice| ProcessIdentity { boot_id: dice.text(), pid: dice.small(), start_time: 7 };
        let path = |dice: &mut Dice| PathBuf::from(format!("/{}", dice.text()));
        Job {
            id: JobId::generate(dice),
            kind: dice.text(),
            description: dice.text(),
            input: dice.value(),
            status,
            command: dice.some(Dice::text),
            settings: dice.value(),
            repository_id: dice.pick(&self.repositories).id,
            task_id: dice.maybe(|dice| dice.pick(&self.tasks).id),
            epoch: dice.maybe(Dice::large),
            agent_id: dice.maybe(|dice| dice.pick(&self.agents).id),
            workspace_id: dice.maybe(|dice| WorkspaceId::generate(dice)),
            started_from: dice.maybe(Dice::text),
            result: dice.maybe(Dice::text),
            work_dir: path(dice),
            workspace_dir: dice.maybe(path),
            context_dir: dice.maybe(path),
            log: dice.maybe(path),
            machine: dice.maybe(Dice::text),
            supervisor: dice.maybe(process),
            process: dice.maybe(process),
            token_hash: dice.maybe(Dice::text),
            phases: dice.some(|dice| Phase { name: dice.text(), detail: dice.maybe(Dice::text), at: dice.moment() }),
            output: dice.maybe(Dice::text),
            exit_code: dice.maybe(|dice| dice.pick(&[i32::MIN, -1, 0, 1, 255, i32::MAX])),
            error: if needs_error { Some(dice.text()) } else { dice.maybe(Dice::text) },
            warnings: dice.some(Dice::text),
            tokens: dice.maybe(Dice::large),
            cost: dice.maybe(|dice| dice.pick(&[0.0, 0.1, -1.5, f64::MAX])),
            retry_of: dice.maybe(|dice| JobId::generate(dice)),
            cancelled_at: dice.maybe(Dice::moment),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
            updated_at: dice.moment(),
            started_at: dice.maybe(Dice::moment),
            finished_at: status.is_final().then(|| dice.moment()),
        }
    }

    pub(crate) fn workspace(&self, dice: &mut Dice) -> Workspace {
        let status = dice.pick(WorkspaceStatus::ALL);
        let is_gone = matches!(status, WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted);
        Workspace {
            id: WorkspaceId::generate(dice),
            repository_id: dice.pick(&self.repositories).id,
            job_id: if self.jobs.is_empty() { None } else { dice.maybe(|dice| dice.pick(&self.jobs).id) },
            machine: dice.pick(&["one", "other"]).to_owned(),
            path: PathBuf::from(format!("/{}", dice.text())),
            strategy: dice.pick(Strategy::ALL),
            branch: dice.maybe(Dice::text),
            base: dice.maybe(Dice::text),
            status,
            size: dice.maybe(Dice::large),
            identity: dice.maybe(|dice| Identity { device: dice.large(), inode: dice.pick(&[0, 1, u64::MAX]) }),
            is_pinned: dice.roll(2) == 0,
            snapshot: dice.maybe(Dice::text),
            merge_commit: dice.maybe(Dice::text),
            pr_url: dice.maybe(Dice::text),
            note: dice.maybe(Dice::text),
            plan: dice.value(),
            worktree_id: self.worktree_id(dice),
            created_at: dice.moment(),
            updated_at: dice.moment(),
            removed_at: is_gone.then(|| dice.moment()),
        }
    }

    /// Returns one row of each kind that others refer to.
    pub(crate) fn small(dice: &mut Dice) -> World {
        let mut world = World::default();
        world.repositories.push(World::repository(dice));
        world.worktrees.push(world.worktree(dice));
        world.agents.push(world.agent(dice));
        world.workflows.push(Workflow { status: WorkflowStatus::InProgress, ..world.workflow(dice) });
        for _ in 0..2 {
            world.tasks.push(Task { status: TaskStatus::Pending, ..world.task(dice) });
        }
        world
    }

    /// Writes the rows of [`World::small`].
    pub(crate) fn put(&self, tx: &mut dyn waypost_core::store::Tx) {
        self.repositories.iter().for_each(|row| tx.repository_put(row).unwrap());
        self.worktrees.iter().for_each(|row| tx.worktree_put(row).unwrap());
        self.agents.iter().for_each(|row| tx.agent_put(row).unwrap());
        self.workflows.iter().for_each(|row| tx.workflow_put(row).unwrap());
        self.tasks.iter().for_each(|row| tx.task_put(row).unwrap());
    }
}
