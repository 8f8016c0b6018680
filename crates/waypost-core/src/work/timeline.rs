//! Where the time of tasks went: queued, in preparation of a workspace, running, or waiting for a person.
//!
//! `replay` is pure. It follows the recorded changes of status, so that every span has real times.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::TaskView;
use crate::context::OpContext;
use crate::error::Result;
use crate::id::{JobId, TaskId};
use crate::model::text_enum::text_enum;
use crate::model::{Event, EventQuery, Job, TaskStatus, Workflow, WorkflowStatus};
use crate::time::Timestamp;

/// Maximum number of events that are read about one record, the newest ones.
const MAX_EVENTS: u32 = 1_000;

text_enum! {
    /// What a task spent time on.
    SpanKind: "a kind of span" {
        /// It could be claimed, and no agent had claimed it.
        Queued = "queued",
        /// An agent held it, and the workspace of its job was made.
        Workspace = "workspace",
        /// An agent worked on it.
        Running = "running",
        /// It waited for the answer of a person.
        Waiting = "waiting",
    }
}

/// A part of the time of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// What the task spent it on.
    pub kind: SpanKind,
    /// When it began.
    pub from: Timestamp,
    /// When it ended; null if it goes on.
    pub until: Option<Timestamp>,
    /// The agent that held the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The job that worked on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// The spans of a task. Between them it waited for other tasks, or was paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTimes {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: String,
    /// Its spans, in order.
    pub spans: Vec<Span>,
}

/// Returns the spans of all tasks of a workflow, in plan order.
pub(crate) fn of_workflow(cx: &mut OpContext<'_>, workflow: &Workflow, tasks: &[TaskView]) -> Result<Vec<TaskTimes>> {
    let subjects: Vec<String> =
        tasks.iter().map(|view| view.task.id.to_string()).chain([workflow.id.to_string()]).collect();
    let query =
        |subject: &String| EventQuery { subject: Some(subject.clone()), limit: MAX_EVENTS, ..EventQuery::default() };
    cx.tx.prefetch(&mut |tx| subjects.iter().try_for_each(|subject| tx.event_list(&query(subject)).map(drop)))?;
    let mut events = Vec::new();
    for subject in &subjects {
        events.extend(cx.tx.event_list(&query(subject))?);
    }
    let jobs = cx.tx.job_list_in_workflows(std::slice::from_ref(&workflow.id))?;
    Ok(replay(workflow, tasks, events, &jobs))
}

/// A change of status.
struct Change {
    sequence: u64,
    time: Timestamp,
    actor: String,
    epoch: Option<u64>,
    /// The number of the task; none for the workflow.
    task: Option<usize>,
    was: String,
    now: String,
}

/// A task while its history is replayed.
struct Replayed<'a> {
    view: &'a TaskView,
    status: TaskStatus,
    spans: Vec<(Span, Option<u64>)>,
    /// The tasks that it waits for, and those that wait for it.
    before: Vec<usize>,
    after: Vec<usize>,
}

fn replay(workflow: &Workflow, tasks: &[TaskView], events: Vec<Event>, jobs: &[Job]) -> Vec<TaskTimes> {
    let changes = changes_of_status(tasks, events);
    let mut replayed = begin(tasks, &changes);
    let first_of_workflow = changes.iter().find(|change| change.task.is_none());
    let mut status = first_of_workflow.and_then(|change| change.was.parse().ok()).unwrap_or(workflow.status);
    for number in 0..replayed.len() {
        let at = replayed[number].view.task.created_at;
        requeue(&mut replayed, number, status, at);
    }
    for change in &changes {
        let Some(number) = change.task else {
            if let Ok(now) = change.now.parse() {
                status = now;
                (0..replayed.len()).for_each(|number| requeue(&mut replayed, number, status, change.time));
            }
            continue;
        };
        let Ok(now) = change.now.parse() else { continue };
        let task = &mut replayed[number];
        task.end(change.time);
        task.status = now;
        match now {
            TaskStatus::InProgress => task.begin(SpanKind::Running, change),
            TaskStatus::WaitingInput => task.begin(SpanKind::Waiting, change),
            _ => {}
        }
        let after = task.after.clone();
        for number in after.into_iter().chain([number]) {
            requeue(&mut replayed, number, status, change.time);
        }
    }
    replayed.into_iter().map(|task| task.finish(jobs)).collect()
}

fn changes_of_status(tasks: &[TaskView], events: Vec<Event>) -> Vec<Change> {
    let numbers: BTreeMap<&str, usize> =
        tasks.iter().enumerate().map(|(number, view)| (view.task.id.as_str(), number)).collect();
    let mut changes: Vec<Change> = events
        .into_iter()
        .filter_map(|event| {
            let status = event.data.pointer("/changed/status")?;
            Some(Change {
                sequence: event.sequence,
                time: event.time,
                epoch: event.data["epoch"].as_u64(),
                task: numbers.get(event.subject.as_str()).copied(),
                was: status.get(0)?.as_str()?.to_owned(),
                now: status.get(1)?.as_str()?.to_owned(),
                actor: event.actor,
            })
        })
        .collect();
    changes.sort_by_key(|change| change.sequence);
    changes
}

/// Returns all tasks as they were before the first change.
fn begin<'a>(tasks: &'a [TaskView], changes: &[Change]) -> Vec<Replayed<'a>> {
    let numbers: BTreeMap<&str, usize> =
        tasks.iter().enumerate().map(|(number, view)| (view.task.name.as_str(), number)).collect();
    let mut first: BTreeMap<usize, TaskStatus> = BTreeMap::new();
    for change in changes {
        if let (Some(number), Ok(status)) = (change.task, change.was.parse()) {
            first.entry(number).or_insert(status);
        }
    }
    let mut replayed: Vec<Replayed<'_>> = tasks
        .iter()
        .enumerate()
        .map(|(number, view)| Replayed {
            view,
            status: first.get(&number).copied().unwrap_or(view.task.status),
            spans: Vec::new(),
            before: view.depends_on.iter().filter_map(|name| numbers.get(name.as_str()).copied()).collect(),
            after: Vec::new(),
        })
        .collect();
    for number in 0..replayed.len() {
        for before in replayed[number].before.clone() {
            replayed[before].after.push(number);
        }
    }
    replayed
}

/// Begins or ends the time in the queue, as the statuses of the workflow and of other tasks say.
fn requeue(tasks: &mut [Replayed<'_>], number: usize, workflow: WorkflowStatus, at: Timestamp) {
    let is_free = tasks[number].before.iter().all(|before| tasks[*before].status.satisfies());
    let task = &mut tasks[number];
    let is_queued = task.status == TaskStatus::Pending && workflow == WorkflowStatus::InProgress && is_free;
    let is_open = matches!(task.spans.last(), Some((span, _)) if span.until.is_none());
    let was_queued = is_open && matches!(task.spans.last(), Some((span, _)) if span.kind == SpanKind::Queued);
    if is_queued && !is_open {
        let span = Span { kind: SpanKind::Queued, from: at, until: None, agent: None, job: None };
        task.spans.push((span, None));
    } else if was_queued && !is_queued {
        task.end(at);
    }
}

impl Replayed<'_> {
    fn begin(&mut self, kind: SpanKind, change: &Change) {
        let agent = (kind == SpanKind::Running).then(|| change.actor.clone());
        self.spans.push((Span { kind, from: change.time, until: None, agent, job: None }, change.epoch));
    }

    fn end(&mut self, at: Timestamp) {
        if let Some((span, _)) = self.spans.last_mut().filter(|(span, _)| span.until.is_none()) {
            span.until = Some(at);
        }
    }

    /// Returns the spans. The time until the command of a job started is that of its workspace.
    fn finish(self, jobs: &[Job]) -> TaskTimes {
        let task = &self.view.task;
        let mut spans = Vec::with_capacity(self.spans.len());
        for (span, epoch) in self.spans {
            let is_of_span = |job: &&Job| job.task_id.as_ref() == Some(&task.id) && job.epoch == epoch;
            let job = jobs.iter().filter(is_of_span).min_by_key(|job| job.created_at);
            match job.filter(|_| span.kind == SpanKind::Running && epoch.is_some()) {
                Some(job) => spans.extend(with_job(span, job)),
                None => spans.push(span),
            }
        }
        // Time that was too short to be measured is left out.
        spans.retain(|span| span.until != Some(span.from));
        TaskTimes { id: task.id.clone(), name: task.name.clone(), spans }
    }
}

/// Divides the time of an attempt into that of the workspace and that of the command.
fn with_job(span: Span, job: &Job) -> Vec<Span> {
    let span = Span { job: Some(job.id.clone()), ..span };
    let until_of = |moment: Timestamp| span.until.map_or(moment, |until| until.min(moment)).max(span.from);
    match job.started_at {
        Some(started) => {
            let started = until_of(started);
            let made = Span { kind: SpanKind::Workspace, until: Some(started), ..span.clone() };
            vec![made, Span { from: started, ..span }]
        }
        None => vec![Span { kind: SpanKind::Workspace, ..span }],
    }
}
