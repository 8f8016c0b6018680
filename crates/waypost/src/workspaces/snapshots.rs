//! What was saved of workspaces, and how it comes back.

use std::path::Path;

use waypost_core::Result;
use waypost_core::id::WorkspaceId;
use waypost_core::model::{Strategy, Workspace};
use waypost_workspace::workspaces::{self as tools, Name, Places, Plan, Request, Restored, Snapshot, Source};

use super::known::{change, plan_of};
use super::places::{mirrors, own, root};
use crate::session::{Session, SystemEntropy};

/// Saves everything in a workspace.
pub fn snapshot(session: &mut Session, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let name = free_name(&plan, plan.name.as_str())?;
    let saved = tools::snapshot(&plan, &name)?;
    change(session, &workspace.id, |change| change.snapshot = Some(saved.id.to_string()))?;
    Ok(saved)
}

/// Returns the first name of snapshots that is not taken: the beginning, and a number.
fn free_name(plan: &Plan, beginning: &str) -> Result<Name> {
    let taken: Vec<_> = tools::snapshots(plan)?.into_iter().map(|snapshot| snapshot.id.to_string()).collect();
    let number = (1..=taken.len() + 1).find(|number| !taken.contains(&format!("{beginning}-{number}")));
    Name::try_from(format!("{beginning}-{}", number.unwrap_or_default()))
}

/// Brings a workspace to a state that was saved.
pub fn restore(workspace: &Workspace, snapshot: &Name) -> Result<Restored> {
    let plan = plan_of(workspace)?;
    let before = free_name(&plan, &format!("{}-before", plan.name))?;
    tools::restore(&plan, snapshot, &before)
}

/// Lists what was saved of workspaces of the repository we stand in.
pub fn snapshots(session: &mut Session) -> Result<Vec<Snapshot>> {
    tools::snapshots(&rehearsed(session)?)
}

/// Writes a snapshot with its whole history into one file, which git can clone and fetch from.
pub fn export(session: &mut Session, snapshot: &Name, file: &Path) -> Result<()> {
    tools::export(&rehearsed(session)?, snapshot, file)
}

/// A plan for a workspace that nobody makes: it knows the mirror.
pub(super) fn rehearsed(session: &mut Session) -> Result<Plan> {
    let (root, mirrors) = (root(session)?, mirrors(session)?);
    let name = Name::from(&WorkspaceId::generate(&mut SystemEntropy));
    let checkout = session.place.require_checkout()?;
    let places = Places { workspaces: &root, mirrors: &mirrors };
    let own = own(session);
    let source = Source::Checkout(checkout);
    tools::plan(&Request {
        places,
        name: &name,
        source,
        base: None,
        branch: None,
        strategy: Some(Strategy::Clone),
        own,
    })
}
