//! What a row of each table is, read in the order of the columns in `sql.rs`.

use waypost_core::model::{
    Agent, Checkpoint, Dependency, Event, Job, Lease, Message, Notice, Repository, SavedAnswer, Task, Template,
    Workflow, Workspace, Worktree,
};
use waypost_core::{Result, path_text};

use crate::cell::Row;

pub(crate) fn repository(row: &mut Row) -> Result<Repository> {
    Ok(Repository {
        id: row.parsed()?,
        name: row.text()?,
        path: path_text::from_text(&row.text()?),
        vcs: row.parsed()?,
        remote_url: row.maybe_text()?,
        default_branch: row.maybe_text()?,
    })
}

pub(crate) fn worktree(row: &mut Row) -> Result<Worktree> {
    Ok(Worktree {
        id: row.parsed()?,
        repository_id: row.parsed()?,
        name: row.text()?,
        path: path_text::from_text(&row.text()?),
        branch: row.maybe_text()?,
        first_seen: row.moment()?,
        last_seen: row.moment()?,
        removed_at: row.maybe_moment()?,
    })
}

pub(crate) fn event(row: &mut Row) -> Result<Event> {
    Ok(Event {
        sequence: row.number()?,
        time: row.moment()?,
        actor: row.text()?,
        worktree_id: row.parsed()?,
        kind: row.text()?,
        subject: row.text()?,
        data: row.json()?,
    })
}

pub(crate) fn workflow(row: &mut Row) -> Result<Workflow> {
    Ok(Workflow {
        id: row.parsed()?,
        name: row.text()?,
        source: row.parsed()?,
        source_ref: row.maybe_text()?,
        source_content: row.maybe_text()?,
        status: row.parsed()?,
        summary: row.maybe_text()?,
        max_parallel: row.maybe_number()?,
        config: row.json()?,
        reason: row.maybe_text()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
        updated_at: row.moment()?,
        started_at: row.maybe_moment()?,
        finished_at: row.maybe_moment()?,
    })
}

pub(crate) fn task(row: &mut Row) -> Result<Task> {
    Ok(Task {
        id: row.parsed()?,
        workflow_id: row.parsed()?,
        name: row.text()?,
        description: row.text()?,
        status: row.parsed()?,
        sequence: row.number()?,
        parallel_group: row.maybe_text()?,
        priority: row.number()?,
        plan: row.json()?,
        acceptance: row.json()?,
        context: row.json()?,
        context_from: row.json()?,
        capabilities: row.json()?,
        files: row.json()?,
        repository_id: row.maybe_parsed()?,
        workspace_id: row.maybe_parsed()?,
        issue: row.maybe_text()?,
        assignee: row.maybe_parsed()?,
        attempts: row.number()?,
        max_attempts: row.number()?,
        backoff_ms: row.number()?,
        queue_timeout_ms: row.maybe_number()?,
        run_timeout_ms: row.maybe_number()?,
        stall_timeout_ms: row.maybe_number()?,
        needs_evidence: row.flag()?,
        outcome: row.maybe_text()?,
        evidence: row.maybe_text()?,
        error: row.maybe_text()?,
        question: row.maybe_text()?,
        answer: row.maybe_text()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
        updated_at: row.moment()?,
        queued_at: row.moment()?,
        started_at: row.maybe_moment()?,
        finished_at: row.maybe_moment()?,
        due_at: row.maybe_moment()?,
    })
}

pub(crate) fn dependency(row: &mut Row) -> Result<Dependency> {
    Ok(Dependency { task_id: row.parsed()?, depends_on: row.parsed()?, kind: row.parsed()? })
}

pub(crate) fn checkpoint(row: &mut Row) -> Result<Checkpoint> {
    Ok(Checkpoint {
        id: row.parsed()?,
        task_id: row.parsed()?,
        sequence: row.number()?,
        kind: row.parsed()?,
        summary: row.text()?,
        detail: row.json()?,
        files: row.json()?,
        tokens: row.maybe_number()?,
        cost: row.maybe_real()?,
        agent_id: row.parsed()?,
        epoch: row.number()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
    })
}

pub(crate) fn agent(row: &mut Row) -> Result<Agent> {
    Ok(Agent {
        id: row.parsed()?,
        name: row.text()?,
        runtime: row.maybe_text()?,
        role: row.parsed()?,
        status: row.parsed()?,
        capabilities: row.json()?,
        workspace_id: row.maybe_parsed()?,
        metadata: row.json()?,
        process: row.maybe_json()?,
        timeout_ms: row.number()?,
        max_claims: row.maybe_number()?,
        worktree_id: row.parsed()?,
        registered_at: row.moment()?,
        last_heartbeat: row.moment()?,
        silent_at: row.maybe_moment()?,
        retired_at: row.maybe_moment()?,
    })
}

pub(crate) fn lease(row: &mut Row) -> Result<Lease> {
    Ok(Lease {
        subject: row.text()?,
        holder: row.maybe_parsed()?,
        epoch: row.number()?,
        granted_at: row.moment()?,
        expires_at: row.moment()?,
        ttl_ms: row.number()?,
        run_until: row.maybe_moment()?,
        stall_at: row.maybe_moment()?,
        worktree_id: row.parsed()?,
    })
}

pub(crate) fn message(row: &mut Row) -> Result<Message> {
    Ok(Message {
        id: row.parsed()?,
        number: row.number()?,
        sender: row.parsed()?,
        recipient: row.parsed()?,
        thread: row.parsed()?,
        reply_to: row.maybe_parsed()?,
        kind: row.parsed()?,
        priority: row.parsed()?,
        subject: row.text()?,
        body: row.text()?,
        workflow_id: row.maybe_parsed()?,
        task_id: row.maybe_parsed()?,
        expires_at: row.maybe_moment()?,
        state: row.parsed()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
        updated_at: row.moment()?,
    })
}

pub(crate) fn template(row: &mut Row) -> Result<Template> {
    Ok(Template {
        id: row.parsed()?,
        name: row.text()?,
        version: row.number()?,
        description: row.text()?,
        body: row.json()?,
        variables: row.json()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
    })
}

pub(crate) fn answer(row: &mut Row) -> Result<SavedAnswer> {
    Ok(SavedAnswer {
        key: row.text()?,
        operation: row.text()?,
        request: row.text()?,
        answer: row.json()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
    })
}

pub(crate) fn notice(row: &mut Row) -> Result<Notice> {
    Ok(Notice {
        issue: row.text()?,
        news: row.parsed()?,
        reason: row.text()?,
        actor: row.text()?,
        task_id: row.maybe_parsed()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
    })
}

pub(crate) fn job(row: &mut Row) -> Result<Job> {
    Ok(Job {
        id: row.parsed()?,
        kind: row.text()?,
        description: row.text()?,
        input: row.json()?,
        status: row.parsed()?,
        command: row.json()?,
        settings: row.json()?,
        repository_id: row.parsed()?,
        task_id: row.maybe_parsed()?,
        epoch: row.maybe_number()?,
        agent_id: row.maybe_parsed()?,
        workspace_id: row.maybe_parsed()?,
        work_dir: path_text::from_text(&row.text()?),
        workspace_dir: row.maybe_text()?.map(|text| path_text::from_text(&text)),
        context_dir: row.maybe_text()?.map(|text| path_text::from_text(&text)),
        log: row.maybe_text()?.map(|text| path_text::from_text(&text)),
        machine: row.maybe_text()?,
        supervisor: row.maybe_json()?,
        process: row.maybe_json()?,
        token_hash: row.maybe_text()?,
        phases: row.json()?,
        output: row.maybe_text()?,
        exit_code: row.maybe_number()?,
        error: row.maybe_text()?,
        warnings: row.json()?,
        tokens: row.maybe_number()?,
        cost: row.maybe_real()?,
        retry_of: row.maybe_parsed()?,
        cancelled_at: row.maybe_moment()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
        updated_at: row.moment()?,
        started_at: row.maybe_moment()?,
        finished_at: row.maybe_moment()?,
    })
}

pub(crate) fn workspace(row: &mut Row) -> Result<Workspace> {
    Ok(Workspace {
        id: row.parsed()?,
        repository_id: row.parsed()?,
        job_id: row.maybe_parsed()?,
        machine: row.text()?,
        path: path_text::from_text(&row.text()?),
        strategy: row.parsed()?,
        branch: row.maybe_text()?,
        base: row.maybe_text()?,
        status: row.parsed()?,
        size: row.maybe_number()?,
        identity: row.maybe_json()?,
        is_pinned: row.flag()?,
        snapshot: row.maybe_text()?,
        merge_commit: row.maybe_text()?,
        pr_url: row.maybe_text()?,
        note: row.maybe_text()?,
        plan: row.json()?,
        worktree_id: row.parsed()?,
        created_at: row.moment()?,
        updated_at: row.moment()?,
        removed_at: row.maybe_moment()?,
    })
}
