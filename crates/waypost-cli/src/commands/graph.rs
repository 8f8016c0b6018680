//! `way graph`

use std::collections::BTreeMap;
use std::process::ExitCode;

use waypost_core::ledger::vocabulary::{Category, DependencyKind};
use waypost_core::model::TaskStatus;
use waypost_core::op::{ShowWorkflow, WorkflowPage};
use waypost_core::work::view::TaskView;
use waypost_core::{Kind, Result};
use waypost_ledger::Index;

use crate::CommandContext;
use crate::draw::{Drawing, Format, Node, State};

/// Draw the dependencies of a workflow or an issue
///
/// In text, each line is below those it waits for. The critical path is the longest chain of what is left to do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way graph release
  way graph way-1a2b
  way graph release --format svg > release.svg
  way graph release --format mermaid")]
pub(crate) struct Args {
    /// Workflow: an id or a name; or an issue: an id or a unique prefix of it
    #[arg(value_name = "WORKFLOW|ISSUE")]
    subject: String,
    /// Format of the drawing
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let drawing = match workflow(cx, &args.subject)? {
        Some(page) => of_workflow(&page),
        None => of_issue(cx, &args.subject)?,
    };
    cx.ui.answer(&drawing, |text| drawing.write(text, args.format))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the workflow of this name, if there is one.
fn workflow(cx: &mut CommandContext, subject: &str) -> Result<Option<WorkflowPage>> {
    let (_, Some(mut session)) = cx.session_if_any()? else { return Ok(None) };
    match session.call(ShowWorkflow { workflow: subject.to_owned() }) {
        Ok(page) => Ok(Some(page)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_workflow(page: &WorkflowPage) -> Drawing {
    let number: BTreeMap<&str, usize> =
        page.tasks.iter().enumerate().map(|(number, view)| (view.task.name.as_str(), number)).collect();
    let edges = page.tasks.iter().enumerate().flat_map(|(to, view)| {
        view.depends_on
            .iter()
            .filter_map(|name| number.get(name.as_str()))
            .map(move |from| (*from, to))
            .collect::<Vec<_>>()
    });
    let edges = edges.collect();
    let node = |view: &TaskView| {
        let task = &view.task;
        let state = match task.status {
            status if status.satisfies() => State::Done,
            TaskStatus::Dead | TaskStatus::Cancelled => State::Failed,
            _ if view.holder.is_some() => State::Working,
            _ if view.is_claimable => State::Ready,
            _ => State::Waiting,
        };
        let status = match &view.holder {
            Some(holder) => format!("{} by {holder}", task.status),
            None => task.status.to_string(),
        };
        Node::new(task.id.to_string(), task.name.clone(), status, state)
    };
    Drawing::new(page.tasks.iter().map(node).collect(), edges)
}

/// Draws an issue, and everything that it waits for or consists of.
fn of_issue(cx: &mut CommandContext, subject: &str) -> Result<Drawing> {
    let ledger_cx = cx.open_ledgers()?;
    let now = ledger_cx.now;
    ledger_cx.with_index(|index| {
        let not_found = |error: waypost_core::Error| match error.kind() {
            Kind::NotFound => error.hint("way workflow list shows the workflows"),
            _ => error,
        };
        let mut ids = vec![index.find(subject).map_err(not_found)?];
        let mut number: BTreeMap<String, usize> = BTreeMap::from([(ids[0].clone(), 0)]);
        let mut edges = Vec::new();
        let mut at = 0;
        while at < ids.len() {
            for before in waits_for(index, &ids[at])? {
                let next = ids.len();
                let from = *number.entry(before.clone()).or_insert(next);
                if from == next {
                    ids.push(before);
                }
                edges.push((from, at));
            }
            at += 1;
        }
        let ready: Vec<String> = index.ready(now, None)?.into_iter().map(|issue| issue.id).collect();
        let statuses = &index.terms().statuses;
        let node = |id: &String| -> Result<Node> {
            let Some(issue) = index.summary(id)? else {
                return Ok(Node::new(id.clone(), id.clone(), "in no ledger".to_owned(), State::Waiting));
            };
            let state = match statuses.category(&issue.status) {
                category if category.is_over() => State::Done,
                Category::Wip => State::Working,
                _ if ready.contains(id) => State::Ready,
                _ => State::Waiting,
            };
            Ok(Node::new(id.clone(), format!("{id} {}", issue.title), issue.status, state))
        };
        Ok(Drawing::new(ids.iter().map(node).collect::<Result<_>>()?, edges))
    })
}

/// Returns the issues that must be done before an issue: its blockers and its parts.
fn waits_for(index: &Index, id: &str) -> Result<Vec<String>> {
    let blockers = index.dependencies(id)?.into_iter().filter(|(_, kind)| kind == DependencyKind::Blocks.as_str());
    Ok(blockers.map(|(other, _)| other).chain(index.parts(id)?).collect())
}
