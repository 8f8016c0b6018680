//! Reads the store for the screen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waypost::app::lazy_session::LazySession;
use waypost::app::session::Session;
use waypost::issues::Repo;
use waypost::ops::issue::{IssueContext, IssueDetails, ListIssues};
use waypost::work::{find_repository_id, jobs, survey_worktrees};
use waypost_core::id::WorktreeId;
use waypost_core::model::{
    AgentStatus, EventQuery, JobStatus, Role, TaskStatus, WorkflowQuery, WorkflowStatus, WorkspaceStatus,
};
use waypost_core::op::{
    AgentView, JobView, ListAgents, ListEvents, ListJobs, ListTasks, ListWorkflows, ListWorkspaces, MessageView,
    ShowAgent, ShowTask, ShowWorkStatus, ShowWorkflow, ShowWorkspace, WorkspaceView,
};
use waypost_core::work::attention::{self, GroupKind, SubjectKind};
use waypost_core::work::view::{TaskView, WorkflowView};
use waypost_core::{Error, Result, path_text};
use waypost_ledger::Summary;

use super::model::{ANSWER, Action, Detail, List, LogPart, Page, Record, Row, Tone};
use crate::commands::events::{Names, summary};
use crate::commands::job::Log;
use crate::commands::status::places;

/// Maximum number of rows of a list, or of a group. The screen says that there are more.
const MAX_ROWS: u32 = 1_000;
/// How long the names of worktrees are used before they are read again.
const NAMES_AGE: Duration = Duration::from_secs(30);
/// Most output of a job that is read at the beginning; what came before it is left out.
const MAX_LOG_BYTES: usize = 1 << 20;

/// Titles with texts, as the details of a record.
type Fields = Vec<(&'static str, String)>;

/// The records that the screen shows.
#[derive(Clone, Default)]
pub(crate) struct Wanted {
    /// Only records of this worktree.
    pub(crate) worktree_id: Option<WorktreeId>,
    /// Only lists of this repository, as `--repo` names it.
    pub(crate) repository: Option<String>,
    /// Only issues of this repository, as `--repo` names it.
    pub(crate) repo: Option<String>,
}

/// Reads the store, from one worktree or from all.
pub(super) struct Loader {
    session: Session,
    wanted: Wanted,
    /// The names of worktrees, and when they were read.
    places: Option<(BTreeMap<WorktreeId, String>, Instant)>,
    /// The messages for the user, as last read.
    messages: Vec<MessageView>,
    /// The log that is followed, with the position of the next part.
    followed: Option<(String, Log, u64)>,
}

impl Loader {
    pub(super) fn new(session: Session, wanted: Wanted) -> Loader {
        Loader { session, wanted, places: None, messages: Vec::new(), followed: None }
    }

    /// Reads a list.
    pub(super) fn page(&mut self, list: List) -> Result<Page> {
        self.read_places()?;
        let limit = if matches!(list, List::Now | List::Messages) { MAX_ROWS } else { 1 };
        let Wanted { worktree_id, repository, .. } = self.wanted.clone();
        let status = self.session.call(ShowWorkStatus { worktree_id, repository, limit })?;
        let totals: Vec<(GroupKind, u64)> = status.groups.iter().map(|group| (group.group, group.total)).collect();
        if limit > 1 {
            self.messages.clone_from(&status.messages);
        }
        let (rows, has_more) = match list {
            List::Now | List::Messages => self.attention_rows(&status.groups, list),
            List::Tasks => self.tasks()?,
            List::Workflows => self.workflows()?,
            List::Issues => self.issues()?,
            List::Agents => self.agents()?,
            List::Workspaces => self.workspaces()?,
            List::Jobs => self.jobs()?,
            List::Events => self.events()?,
        };
        let repository = self.session.repository().name.clone();
        let warnings = self.session.warnings().take();
        Ok(Page { list, rows, has_more, totals, repository, now: self.session.now()?, warnings })
    }

    /// Returns the number of the newest event.
    pub(super) fn last(&mut self) -> Result<u64> {
        let query = EventQuery { limit: 1, ..EventQuery::default() };
        Ok(self.session.call(ListEvents { query })?.last)
    }

    /// Waits for an event after this one.
    pub(super) fn wait(&mut self, last: u64, timeout: Duration) -> Result<()> {
        self.session.wait(last, timeout)
    }

    fn read_places(&mut self) -> Result<()> {
        let is_current = self.places.as_ref().is_some_and(|(_, read)| read.elapsed() < NAMES_AGE);
        if !is_current {
            let all = survey_worktrees(&mut self.session)?;
            self.places = Some((places(&all), Instant::now()));
        }
        Ok(())
    }

    /// Returns the name of a worktree, if there are several.
    fn place(&self, id: &WorktreeId) -> String {
        let known = self.places.as_ref().filter(|(places, _)| places.len() > 1).and_then(|(places, _)| places.get(id));
        known.cloned().unwrap_or_default()
    }

    /// Returns the rows of the groups, in the order that core decides.
    fn attention_rows(&self, groups: &[attention::Group], list: List) -> (Vec<Row>, bool) {
        let has_more = groups.iter().any(|group| group.total > group.rows.len() as u64);
        let rows = groups.iter().flat_map(|group| group.rows.iter().map(|row| (group.group, row)));
        let is_wanted = |row: &attention::Row| list == List::Now || row.kind == SubjectKind::Message;
        let rows = rows.filter(|(_, row)| is_wanted(row)).map(|(group, row)| self.attention_row(group, row));
        (rows.collect(), has_more)
    }

    fn attention_row(&self, group: GroupKind, row: &attention::Row) -> Row {
        let (record, actions) = match row.kind {
            SubjectKind::Task => (Record::Task, task_actions(&row.chip, &row.id, &row.name, row.agent.as_deref())),
            SubjectKind::Workflow => (Record::Workflow, workflow_actions(&row.chip, &row.id, &row.name)),
            SubjectKind::Workspace => (Record::Workspace, workspace_actions(&row.chip, &row.id)),
            SubjectKind::Message => (Record::Message, message_actions(&row.id)),
        };
        let tone = match (group, row.chip.as_str()) {
            (_, "dead") | (GroupKind::Stuck, _) => Tone::Bad,
            (GroupKind::NeedsYou, _) => Tone::Warn,
            (GroupKind::Working, _) => Tone::Good,
            (GroupKind::Queued, _) => Tone::Plain,
            (GroupKind::Done, _) => Tone::Dim,
        };
        Row {
            record,
            id: row.id.clone(),
            group: Some(group),
            chip: row.chip.clone(),
            tone,
            name: row.name.clone(),
            text: row.reason.clone(),
            place: self.place(&row.worktree_id),
            since: Some(row.since),
            actions,
        }
    }

    fn tasks(&mut self) -> Result<(Vec<Row>, bool)> {
        let list = self.session.call(ListTasks {
            workflow: None,
            statuses: Vec::new(),
            claimable: false,
            worktree_id: self.wanted.worktree_id.clone(),
            repository: self.wanted.repository.clone(),
            here: false,
            limit: MAX_ROWS,
            after: None,
        })?;
        Ok((list.tasks.iter().map(|view| self.task_row(view)).collect(), list.more > 0))
    }

    fn task_row(&self, view: &TaskView) -> Row {
        let task = &view.task;
        // The chip by which the status would show it.
        let (tone, chip) = match task.status {
            TaskStatus::WaitingInput => (Tone::Warn, "asks"),
            TaskStatus::Dead => (Tone::Bad, "dead"),
            TaskStatus::InProgress => (Tone::Good, "working"),
            TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::Cancelled => (Tone::Dim, "done"),
            TaskStatus::Failed | TaskStatus::Paused | TaskStatus::Pending => (Tone::Plain, "ready"),
        };
        let name = format!("{}/{}", view.workflow, task.name);
        let actions = task_actions(chip, task.id.as_str(), &name, view.holder.as_deref());
        let text = match (&view.holder, &task.question, &task.outcome) {
            (Some(holder), ..) => format!("{holder} works on it"),
            (None, Some(question), _) if task.status == TaskStatus::WaitingInput => question.clone(),
            _ if task.status == TaskStatus::Dead => task.error.clone().unwrap_or_default(),
            (None, _, Some(outcome)) => outcome.clone(),
            _ if !view.blocked_by.is_empty() => format!("waits for {}", view.blocked_by.join(", ")),
            _ => task.description.clone(),
        };
        Row {
            record: Record::Task,
            id: task.id.to_string(),
            group: None,
            chip: task.status.to_string(),
            tone,
            name,
            text: first_line(&text),
            place: self.place(&task.worktree_id),
            since: Some(task.updated_at),
            actions,
        }
    }

    fn workflows(&mut self) -> Result<(Vec<Row>, bool)> {
        let repository_id = find_repository_id(&mut self.session, self.wanted.repository.as_deref())?;
        let worktree_id = self.wanted.worktree_id.clone();
        let query = WorkflowQuery { worktree_id, repository_id, limit: MAX_ROWS, ..WorkflowQuery::default() };
        let list = self.session.call(ListWorkflows { query })?;
        Ok((list.workflows.iter().map(|view| self.workflow_row(view)).collect(), list.next.is_some()))
    }

    fn workflow_row(&self, view: &WorkflowView) -> Row {
        let workflow = &view.workflow;
        let (tone, chip) = match workflow.status {
            WorkflowStatus::InProgress => (Tone::Good, "running"),
            WorkflowStatus::Paused => (Tone::Warn, "paused"),
            WorkflowStatus::AwaitingMerge => (Tone::Warn, "approve"),
            WorkflowStatus::Ready => (Tone::Plain, "not started"),
            WorkflowStatus::Planning => (Tone::Plain, "planning"),
            WorkflowStatus::Failed => (Tone::Bad, "over"),
            _ => (Tone::Dim, "over"),
        };
        let counts = view.counts.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<String> = counts.map(|(status, count)| format!("{count} {status}")).collect();
        Row {
            record: Record::Workflow,
            id: workflow.id.to_string(),
            group: None,
            chip: workflow.status.to_string(),
            tone,
            name: workflow.name.clone(),
            text: format!("{}/{} done  {}", view.done, view.total, counts.join(", ")),
            place: self.place(&workflow.worktree_id),
            since: Some(workflow.updated_at),
            actions: workflow_actions(chip, workflow.id.as_str(), &workflow.name),
        }
    }

    fn workspaces(&mut self) -> Result<(Vec<Row>, bool)> {
        let list = self.session.call(ListWorkspaces {
            worktree_id: self.wanted.worktree_id.clone(),
            repository: self.wanted.repository.clone(),
            limit: Some(u32::MAX),
            ..ListWorkspaces::default()
        })?;
        let rows = list.workspaces.iter().map(|view| self.workspace_row(view)).collect();
        Ok(limited(rows))
    }

    fn workspace_row(&self, view: &WorkspaceView) -> Row {
        let workspace = &view.workspace;
        let note = workspace.note.clone().or_else(|| view.task.clone().map(|task| format!("task {task}")));
        Row {
            record: Record::Workspace,
            id: workspace.id.to_string(),
            group: None,
            chip: workspace.status.to_string(),
            tone: match workspace.status {
                WorkspaceStatus::Active => Tone::Good,
                WorkspaceStatus::Lost => Tone::Bad,
                _ => Tone::Plain,
            },
            name: workspace.branch.clone().unwrap_or_else(|| workspace.id.to_string()),
            text: first_line(&note.unwrap_or_else(|| path_text::to_text(&workspace.path))),
            place: self.place(&workspace.worktree_id),
            since: Some(workspace.updated_at),
            actions: workspace_actions(&workspace.status.to_string(), workspace.id.as_str()),
        }
    }

    fn agents(&mut self) -> Result<(Vec<Row>, bool)> {
        let list = self.session.call(ListAgents {
            role: None,
            capability: None,
            status: None,
            retired: false,
            worktree_id: self.wanted.worktree_id.clone(),
            repository: self.wanted.repository.clone(),
            after: None,
            limit: u32::MAX,
        })?;
        Ok(limited(list.agents.iter().map(|view| self.agent_row(view)).collect()))
    }

    fn agent_row(&self, view: &AgentView) -> Row {
        let agent = &view.agent;
        let holds: Vec<&str> = view.holds.iter().map(|held| held.name.as_str()).collect();
        let mut texts = Vec::new();
        texts.extend((!holds.is_empty()).then(|| format!("holds {}", holds.join(", "))));
        texts.extend((view.unread > 0).then(|| format!("{} unread", view.unread)));
        texts.extend((!agent.capabilities.is_empty()).then(|| agent.capabilities.join(", ")));
        let question = format!("Retire {}? Its claims end, and work that it has not reported is lost.", agent.name);
        let mut actions = vec![typed("message", "text", &["msg", "send", &agent.name])];
        if agent.role != Role::Human {
            actions.push(confirmed("retire", question, &["agent", "retire", &agent.name]));
        }
        Row {
            record: Record::Agent,
            id: agent.id.to_string(),
            group: None,
            chip: agent.status.to_string(),
            tone: match agent.status {
                AgentStatus::Offline => Tone::Dim,
                _ => Tone::Good,
            },
            name: agent.name.clone(),
            text: texts.join("; "),
            place: self.place(&agent.worktree_id),
            since: Some(agent.last_heartbeat),
            actions,
        }
    }

    fn issues(&self) -> Result<(Vec<Row>, bool)> {
        let context = self.issue_context()?;
        let query = ListIssues { limit: Some(MAX_ROWS as usize), ..ListIssues::default() };
        let found = context.find(&query, false)?;
        let repos: Vec<String> = context.ledger.repos().iter().map(Repo::name).collect();
        let repo = |issue: &Summary| repos.get(issue.ledger).filter(|_| repos.len() > 1).cloned().unwrap_or_default();
        let rows = found.summaries.iter().map(|issue| issue_row(issue, repo(issue)));
        Ok((rows.collect(), found.has_more))
    }

    fn jobs(&mut self) -> Result<(Vec<Row>, bool)> {
        let list = self.session.call(ListJobs {
            worktree_id: self.wanted.worktree_id.clone(),
            repository: self.wanted.repository.clone(),
            limit: Some(MAX_ROWS + 1),
            ..ListJobs::default()
        })?;
        let rows: Vec<Row> = list.jobs.iter().map(job_row).collect();
        Ok(limited(rows))
    }

    fn events(&mut self) -> Result<(Vec<Row>, bool)> {
        let worktree_id = self.wanted.worktree_id.clone();
        let query = EventQuery { worktree_id, limit: MAX_ROWS, ..EventQuery::default() };
        let list = self.session.call(ListEvents { query })?;
        let names = Names::of(&mut self.session)?;
        let rows: Vec<Row> = list
            .events
            .iter()
            .map(|event| Row {
                record: Record::Event,
                id: event.sequence.to_string(),
                group: None,
                chip: event.sequence.to_string(),
                tone: Tone::Dim,
                name: event.kind.clone(),
                text: Some(summary(event))
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| names.get(&event.subject).to_owned()),
                place: format!("by {}", event.actor),
                since: Some(event.time),
                actions: Vec::new(),
            })
            .collect();
        let has_more = rows.len() == MAX_ROWS as usize;
        Ok((rows, has_more))
    }

    /// Reads the details of a record.
    pub(super) fn detail(&mut self, record: Record, id: &str) -> Result<Detail> {
        let fields = match record {
            Record::Task => self.task_fields(id)?,
            Record::Workflow => self.workflow_fields(id)?,
            Record::Workspace => self.workspace_fields(id)?,
            Record::Message => self.message_fields(id),
            Record::Agent => self.agent_fields(id)?,
            Record::Issue => self.issue_fields(id)?,
            Record::Job => self.job_fields(id)?,
            Record::Event => self.event_fields(id)?,
        };
        Ok(Detail { id: id.to_owned(), fields })
    }

    fn task_fields(&mut self, id: &str) -> Result<Fields> {
        let page = self.session.call(ShowTask { task: id.to_owned(), ..ShowTask::default() })?;
        let now = self.session.now()?;
        let (view, task) = (&page.task, &page.task.task);
        let mut fields = Vec::new();
        let mut add = |title: &'static str, text: Option<String>| {
            fields.extend(text.filter(|text| !text.trim().is_empty()).map(|text| (title, text)));
        };
        add("asks", task.question.clone().filter(|_| task.status == TaskStatus::WaitingInput));
        add("error", task.error.clone());
        add("outcome", task.outcome.clone());
        add("", Some(task.description.clone()));
        add("done when", Some(task.acceptance.join("; ")));
        add("held by", view.holder.clone());
        add("waits for", Some(view.blocked_by.join(", ")));
        add("attempts", (task.attempts > 0).then(|| format!("{} of {}", task.attempts, task.max_attempts)));
        add("issue", task.issue.clone());
        for seen in &page.checkpoints {
            let checkpoint = &seen.checkpoint;
            add("checkpoint", Some(format!("{} ({})", checkpoint.summary, checkpoint.created_at.ago(now))));
        }
        if task.status != TaskStatus::WaitingInput {
            add("asked", task.question.clone());
            add("answered", task.answer.clone());
        }
        Ok(fields)
    }

    fn workflow_fields(&mut self, id: &str) -> Result<Fields> {
        let shown = self.session.call(ShowWorkflow { workflow: id.to_owned() })?;
        let view = &shown.workflow;
        let mut fields = vec![("", format!("{}, {} of {} tasks done", view.workflow.status, view.done, view.total))];
        fields.extend(view.workflow.summary.clone().map(|text| ("", text)));
        for seen in &shown.tasks {
            let holder = seen.holder.as_ref().map_or_else(String::new, |holder| format!(", {holder}"));
            fields.push(("task", format!("{}  {}{holder}", seen.task.name, seen.task.status)));
        }
        Ok(fields)
    }

    fn workspace_fields(&mut self, id: &str) -> Result<Fields> {
        let workspace = self.session.call(ShowWorkspace { workspace: id.to_owned() })?.workspace;
        let mut fields = vec![("directory", path_text::to_text(&workspace.path))];
        let mut add = |title: &'static str, text: Option<String>| fields.extend(text.map(|text| (title, text)));
        add("note", workspace.note);
        add("branch", workspace.branch);
        add("job", workspace.job_id.map(|id| id.to_string()));
        add("pull request", workspace.pr_url);
        add("pinned", workspace.is_pinned.then(|| "yes".to_owned()));
        Ok(fields)
    }

    fn agent_fields(&mut self, id: &str) -> Result<Fields> {
        let view = self.session.call(ShowAgent { agent: id.to_owned() })?;
        let agent = &view.agent;
        let mut fields = vec![("role", agent.role.to_string()), ("status", agent.status.to_string())];
        fields.extend(view.holds.iter().map(|held| ("holds", format!("{}  {}", held.name, held.subject))));
        fields.push(("unread", view.unread.to_string()));
        fields.push(("capabilities", agent.capabilities.join(", ")));
        fields.push(("worktree", self.place(&agent.worktree_id)));
        fields.push(("last heard", agent.last_heartbeat.to_string()));
        fields.retain(|(_, text)| !text.is_empty());
        Ok(fields)
    }

    fn message_fields(&self, id: &str) -> Fields {
        let found = self.messages.iter().find(|view| view.message.id.as_str() == id);
        let fields =
            |view: &MessageView| vec![("subject", view.message.subject.clone()), ("", view.message.body.clone())];
        found.map(fields).unwrap_or_default()
    }

    fn issue_context(&self) -> Result<IssueContext> {
        let session = LazySession::new(self.session.place.clone(), self.session.warnings().clone());
        IssueContext::open(session, self.wanted.repo.as_deref(), &[])
    }

    fn issue_fields(&self, id: &str) -> Result<Fields> {
        let IssueDetails { issue, reasons, .. } = self.issue_context()?.details(id)?;
        let mut fields = vec![
            ("", issue.title),
            ("", format!("P{} {}, {}", issue.priority, issue.issue_type, issue.status)),
            ("not ready", reasons.join("; ")),
            ("", issue.description),
            ("design", issue.design),
            ("done when", issue.acceptance_criteria),
            ("notes", issue.notes),
            ("labels", issue.labels.join(", ")),
            ("assignee", issue.assignee.unwrap_or_default()),
            ("part of", issue.parent_id.unwrap_or_default()),
        ];
        fields.extend(issue.comments.iter().map(|one| ("comment", format!("{}: {}", one.author, one.text))));
        fields.retain(|(_, text)| !text.is_empty());
        Ok(fields)
    }

    fn job_fields(&mut self, id: &str) -> Result<Fields> {
        let job = jobs::show(&mut self.session, id)?.job;
        let mut fields = vec![("command", job.command.join(" "))];
        let mut add = |title: &'static str, text: Option<String>| fields.extend(text.map(|text| (title, text)));
        add("error", job.error);
        add("exit code", job.exit_code.map(|code| code.to_string()));
        add(
            "phase",
            job.phases.last().map(|phase| format!("{} {}", phase.name, phase.detail.clone().unwrap_or_default())),
        );
        add("workspace", job.workspace_dir.map(|dir| path_text::to_text(&dir)));
        add("started from", job.started_from);
        add("output", job.output);
        for warning in job.warnings {
            add("warning", Some(warning));
        }
        Ok(fields)
    }

    fn event_fields(&mut self, id: &str) -> Result<Fields> {
        let number: u64 = id.parse().map_err(|_| Error::internal(format!("{id:?} is not the number of an event")))?;
        let query = EventQuery { since: Some(number.saturating_sub(1)), limit: 1, ..EventQuery::default() };
        let events = self.session.call(ListEvents { query })?.events;
        let Some(event) = events.first() else { return Ok(Vec::new()) };
        let data = serde_json::to_string_pretty(&event.data).unwrap_or_default();
        Ok(vec![("subject", event.subject.clone()), ("time", event.time.to_string()), ("", data)])
    }

    /// Begins to follow the log of a record's newest job.
    pub(super) fn follow(&mut self, record: Record, id: &str) -> Result<()> {
        self.followed = None;
        let job = match record {
            Record::Job => Some(id.to_owned()),
            Record::Workspace => {
                self.session.call(ShowWorkspace { workspace: id.to_owned() })?.workspace.job_id.map(|id| id.to_string())
            }
            _ => {
                let newest = ListJobs { task: Some(id.to_owned()), limit: Some(1), ..ListJobs::default() };
                self.session.call(newest)?.jobs.first().map(|view| view.job.id.to_string())
            }
        };
        let job = job.ok_or_else(|| Error::not_found("no job ran for it yet"))?;
        let (job, log) = Log::of(&mut self.session, &job)?;
        self.followed = Some((job, log, 0));
        Ok(())
    }

    pub(super) fn unfollow(&mut self) {
        self.followed = None;
    }

    pub(super) fn is_following(&self) -> bool {
        self.followed.is_some()
    }

    /// Reads the next part of the log that is followed. None if nothing is new.
    pub(super) fn log_part(&mut self, is_first: bool) -> Result<Option<LogPart>> {
        let Some((job, log, at)) = &mut self.followed else { return Ok(None) };
        // Read before the log: the output of an ended job is complete.
        let status = jobs::show(&mut self.session, job)?.job.status;
        let (mut bytes, begin) = (Vec::new(), *at);
        loop {
            let (part, next) = log.read_from(&mut self.session, job, *at)?;
            if next == *at {
                break;
            }
            *at = next;
            bytes.extend(part);
            bytes.drain(..bytes.len().saturating_sub(MAX_LOG_BYTES));
        }
        let end = status.is_final().then(|| format!("the job is {status}"));
        if *at == begin && !is_first && end.is_none() {
            return Ok(None);
        }
        let part = LogPart { job: job.clone(), text: String::from_utf8_lossy(&bytes).into_owned(), end };
        if part.end.is_some() {
            self.followed = None;
        }
        Ok(Some(part))
    }
}

fn job_row(view: &JobView) -> Row {
    let job = &view.job;
    let id = job.id.as_str();
    let actions = if job.status.is_final() {
        vec![action("retry", &["job", "retry", "--detach", id]), action("deliver", &["job", "deliver", id])]
    } else {
        let question = format!("Cancel {id}? Its command is ended. Its files stay in the workspace.");
        vec![confirmed("cancel", question, &["job", "cancel", id])]
    };
    Row {
        record: Record::Job,
        id: id.to_owned(),
        group: None,
        chip: job.status.to_string(),
        tone: match job.status {
            JobStatus::Running => Tone::Good,
            JobStatus::Failed => Tone::Bad,
            JobStatus::Pending | JobStatus::Interrupted => Tone::Warn,
            JobStatus::Completed | JobStatus::Cancelled => Tone::Dim,
        },
        name: view.task.clone().unwrap_or_else(|| id.to_owned()),
        text: job.command.join(" "),
        place: view.agent.clone().unwrap_or_default(),
        since: Some(job.finished_at.or(job.started_at).unwrap_or(job.created_at)),
        actions,
    }
}

fn issue_row(issue: &Summary, repo: String) -> Row {
    let id = issue.id.as_str();
    let texts = [Some(repo), issue.visibility.clone(), issue.assignee.clone()];
    let place: Vec<String> = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    let mut actions = vec![
        typed("comment", "comment", &["comment", id]),
        typed("close", "reason", &["close", id, "--reason="]),
        typed("assign", "assignee", &["assign", id]),
    ];
    if issue.visibility.as_deref() == Some("proposed") {
        let question = format!("Accept {id}? It becomes an issue of the project.");
        actions.push(confirmed("accept", question, &["accept", id]));
        actions.push(typed("reject", "reason", &["reject", id, "--reason="]));
    }
    if let Some(assignee) = issue.assignee.as_ref().filter(|_| issue.status == "in_progress") {
        let question = format!("Take {id} away from {assignee}? Another agent can claim it then.");
        actions.push(confirmed("release", question, &["release", "--force", id]));
    }
    Row {
        record: Record::Issue,
        id: issue.id.clone(),
        group: None,
        chip: issue.status.clone(),
        tone: match issue.status.as_str() {
            "in_progress" => Tone::Good,
            "blocked" => Tone::Warn,
            _ => Tone::Plain,
        },
        name: issue.id.clone(),
        text: format!("P{} {}", issue.priority, issue.title),
        place: place.join(" "),
        since: issue.updated_at.or(issue.created_at),
        actions,
    }
}

/// Returns the rows up to the limit, and whether there are others.
fn limited(mut rows: Vec<Row>) -> (Vec<Row>, bool) {
    let has_more = rows.len() > MAX_ROWS as usize;
    rows.truncate(MAX_ROWS as usize);
    (rows, has_more)
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().to_owned()
}

/// An action that runs at once.
fn action(label: &'static str, command: &[&str]) -> Action {
    Action { label, command: command.iter().map(|word| (*word).to_owned()).collect(), input: None, confirm: None }
}

/// An action that the user has to confirm.
fn confirmed(label: &'static str, question: String, command: &[&str]) -> Action {
    Action { confirm: Some(question), ..action(label, command) }
}

/// An action that needs a text.
fn typed(label: &'static str, input: &'static str, command: &[&str]) -> Action {
    Action { input: Some(input), ..action(label, command) }
}

/// Returns the actions of a task, by the reason for its group. They are those of the dashboard, with the same words.
fn task_actions(chip: &str, id: &str, name: &str, holder: Option<&str>) -> Vec<Action> {
    let skip = || {
        let question = format!("Skip {name}? Tasks that wait for it go on without it.");
        confirmed("skip", question, &["task", "skip", id])
    };
    let assign = || typed("assign", "agent", &["task", "assign", id]);
    match (chip, holder) {
        ("asks" | "conflict", _) => vec![typed(ANSWER, "answer", &["task", "answer", id]), assign(), skip()],
        ("dead", _) => vec![action("retry", &["task", "reopen", id]), skip()],
        ("done", _) => {
            let question =
                format!("Reopen {name}? Its outcome and evidence are removed from the task, and it is done again.");
            vec![confirmed("reopen", question, &["task", "reopen", id])]
        }
        (_, Some(holder)) => {
            let question = format!(
                "Take {name} away from {holder}? Another agent can claim it then. Work that {holder} has not reported is lost."
            );
            vec![
                confirmed("requeue", question, &["task", "release", "--force", id]),
                typed("message", "text", &["msg", "send", "--task", id, holder]),
            ]
        }
        _ => vec![assign(), skip()],
    }
}

fn workflow_actions(chip: &str, id: &str, name: &str) -> Vec<Action> {
    let question = format!("Cancel {name}? Its open tasks are cancelled, and it cannot be resumed.");
    let cancel = confirmed("cancel", question, &["workflow", "cancel", id]);
    match chip {
        "approve" => vec![action("mark as merged", &["workflow", "merged", id]), cancel],
        "paused" => vec![action("resume", &["workflow", "resume", id]), cancel],
        "running" => vec![action("pause", &["workflow", "pause", id]), cancel],
        "not started" => vec![action("start", &["workflow", "start", id]), cancel],
        "planning" => vec![cancel],
        _ => Vec::new(),
    }
}

/// Returns the actions of a workspace, by its status or by the reason why it needs a person.
fn workspace_actions(chip: &str, id: &str) -> Vec<Action> {
    let remove = confirmed("remove", format!("Remove the directory of {id}?"), &["ws", "rm", id]);
    let snapshot = action("snapshot", &["ws", "snapshot", id]);
    match chip {
        "lost" => vec![remove],
        "active" => vec![snapshot],
        "creating" => Vec::new(),
        _ => vec![snapshot, action("deliver", &["ws", "push", id]), remove],
    }
}

fn message_actions(id: &str) -> Vec<Action> {
    vec![typed("reply", "reply", &["msg", "send", "--reply-to", id]), action("mark as dealt with", &["msg", "ack", id])]
}
