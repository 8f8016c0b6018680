//! Lists workflows.

use waypost_core::Result;
use waypost_core::model::{WorkflowQuery, WorkflowStatus};
use waypost_core::op::ListWorkflows;
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::view::WorkflowView;

use crate::CommandContext;
use crate::places::PlaceColumns;
use crate::ui::{BOLD, Cell, DIM, header, number, styled};
use crate::work::{first_line, humanize, parse_enum, workflow_style};
use waypost::work::find_repository_id;

/// List workflows, newest first; by default those that have not ended
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only workflows with this status; may be given repeatedly
    #[arg(long, value_name = "STATUS", value_parser = parse_enum::<WorkflowStatus>)]
    status: Vec<WorkflowStatus>,
    /// Include workflows that have ended
    #[arg(long, conflicts_with = "status")]
    all: bool,
    /// Maximum number of workflows; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

pub(super) fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<()> {
    let mut session = cx.session()?;
    let statuses = match (args.all, args.status.as_slice()) {
        (true, _) => Vec::new(),
        (false, []) => WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
        (false, some) => some.to_vec(),
    };
    let query = WorkflowQuery {
        statuses,
        worktree_id: cx.worktree_filter(&mut session)?,
        repository_id: find_repository_id(&mut session, cx.global.repo.as_deref())?,
        // Reads one more than it shows, to detect that there are more.
        limit: if args.limit == 0 { u32::MAX >> 1 } else { args.limit.saturating_add(1) },
        ..WorkflowQuery::default()
    };
    let mut found = session.call(ListWorkflows { query })?.workflows;
    let has_more = args.limit > 0 && found.len() > args.limit as usize;
    if has_more {
        found.truncate(args.limit as usize);
    }
    let more = format!("more than {}; to list all: --limit 0", count(args.limit, "workflow"));
    if has_more && cx.ui.json {
        cx.ui.warn(&more);
    }
    let now = session.now()?;
    let places = PlaceColumns::of(&session, &found);
    cx.ui.answer(&found, |text| text.table(&workflow_table(&found, now, places)))?;
    if has_more {
        cx.ui.note(&more);
    }
    if found.is_empty() {
        cx.ui.note(if args.all {
            "no workflows yet; to create one: way workflow create NAME --plan FILE"
        } else {
            "no live workflows; to create one: way workflow create NAME --plan FILE; to list ended ones: --all"
        });
    }
    Ok(())
}

fn workflow_table(workflows: &[WorkflowView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    if workflows.is_empty() {
        return Vec::new();
    }
    let titles = header(["ID", "NAME", "STATUS", "DONE", "UPDATED"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "ABOUT")]).collect();
    let rows = workflows.iter().map(|view| {
        let workflow = &view.workflow;
        let about = workflow.reason.as_ref().or(workflow.summary.as_ref());
        let cells = [
            styled(DIM, &workflow.id),
            styled(BOLD, &workflow.name),
            styled(workflow_style(workflow.status), humanize(workflow.status.as_str())),
            number(format!("{}/{}", view.done, view.total)),
            styled(DIM, workflow.updated_at.ago(now)),
        ];
        let about = styled(DIM, about.map(|text| first_line(text)).unwrap_or_default()).cuttable();
        cells.into_iter().chain(places.cells(view)).chain([about]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}
