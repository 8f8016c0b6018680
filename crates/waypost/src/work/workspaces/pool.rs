//! The pool of workspaces that are created in advance or returned by jobs.

use waypost_core::Result;
use waypost_core::id::WorkspaceId;
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_fs::FileIdentity;
use waypost_workspace::workspaces::{self as tools, MakeOptions, Name, Places, Plan, Request, Slot, Source, Work};

use super::create::{registration, user_dir};
use super::places::{machine, mirror, mirrors, network_options, root};
use super::records::{IN_POOL, REMOVING, change, plan_of, record};
use super::remove::{Force, examine, keep_context, remove};
use crate::app::session::Session;
use crate::machine::registry::{self, Registration};
use crate::machine::system::SystemEntropy;

/// Fills the pool of the caller's repository up to a number. Returns its slots.
pub fn warm(session: &mut Session, number: usize, report: &mut dyn FnMut(&str)) -> Result<Vec<Slot>> {
    let machine = machine(session)?;
    let network = network_options(session);
    loop {
        let id = WorkspaceId::generate(&mut SystemEntropy);
        let plan = plan_slot(session, &id)?;
        let slots = tools::pool(&plan)?;
        if slots.len() >= number {
            return Ok(slots);
        }
        report(&format!("warming workspace {} of {number}", slots.len() + 1));
        let slot = tools::pooled(&plan)?;
        let recorded = record(session, &id, None, &machine, &slot, None)?;
        let (repository, checkout) = (session.repository().id.clone(), session.place.checkout.clone());
        let registration = registration(session, &recorded, None, &repository, checkout.as_ref())?;
        registry::register(&user_dir(session)?, &slot.name, &registration)?;
        let made = tools::warm(&plan, &MakeOptions { network, url: None });
        if let Err(error) = made {
            let gone = tools::abandon(&slot);
            change(session, &id, |change| {
                change.status = gone.is_ok().then_some(WorkspaceStatus::Removed);
                change.note = Some(error.full_message());
            })?;
            return Err(error);
        }
        record_slot(session, &id, &slot)?;
    }
}

/// Plans a workspace of the caller's repository, at the current commit.
fn plan_slot(session: &Session, id: &WorkspaceId) -> Result<Plan> {
    let (root, mirrors) = (root(session)?, mirrors(session)?);
    tools::plan(&Request {
        places: Places { workspaces: &root, mirrors: &mirrors },
        name: &Name::from(id),
        source: Source::Checkout(session.place.require_checkout()?),
        base: None,
        commit: None,
        branch: None,
        strategy: Some(Strategy::Clone),
        network: network_options(session),
    })
}

fn record_slot(session: &mut Session, id: &WorkspaceId, plan: &Plan) -> Result<()> {
    let identity = FileIdentity::of_entry(&plan.home()).ok().map(waypost_core::model::Identity::from);
    change(session, id, |change| {
        change.status = Some(WorkspaceStatus::Kept);
        change.identity = identity;
        change.note = Some(IN_POOL.to_owned());
    })?;
    Ok(())
}

/// Lists the pool of the caller's repository.
pub fn pool(session: &Session) -> Result<Vec<Slot>> {
    match mirror(session)? {
        Some(mirror) => tools::pool_of(&mirror, &root(session)?),
        None => Ok(Vec::new()),
    }
}

/// Returns the workspace of an ended job to the pool, or removes it.
///
/// If removing it would lose work, it stays, and the reason is returned.
pub fn clean_up(session: &mut Session, workspace: &Workspace) -> Result<Option<String>> {
    let examined = examine(workspace)?;
    if !examined.objections.is_empty() {
        return Ok(Some(examined.objections.join(", ")));
    }
    let plan = plan_of(workspace)?;
    let pool_size: usize =
        session.place.config.text("workspaces.pool").and_then(|text| text.parse().ok()).unwrap_or_default();
    if let (Strategy::Clone, Some(identity)) = (plan.strategy, workspace.identity)
        && tools::pool(&plan)?.len() < pool_size
    {
        let id = WorkspaceId::generate(&mut SystemEntropy);
        let slot = tools::returned(&plan, &Name::from(&id))?;
        let machine = machine(session)?;
        let recorded = record(session, &id, None, &machine, &slot, None)?;
        let home = user_dir(session)?;
        if let Some(registration) = registry::entry(&home, &plan.name)? {
            let path = slot.workspace.clone();
            let registration =
                Registration { path, workspace: id.clone(), job: None, record: Some(recorded), ..registration };
            registry::register(&home, &slot.name, &registration)?;
        }
        keep_context(&session.place, workspace)?;
        // If this process ends now, the next one finishes the removal and does not report the workspace as lost.
        let _files = tools::lock_files(&plan)?;
        change(session, &workspace.id, |change| change.note = Some(REMOVING.to_owned()))?;
        match tools::give_back(&plan, identity, &slot) {
            Ok(slot) => {
                record_slot(session, &id, &slot.plan)?;
                change(session, &workspace.id, |change| {
                    change.status = Some(WorkspaceStatus::Removed);
                    change.note = Some(format!("returned to the pool as {id}"));
                })?;
                return Ok(None);
            }
            Err(error) => {
                log::debug!("cannot return workspace {} to the pool: {}", workspace.id, error.full_message());
                tools::abandon(&slot)?;
                change(session, &id, |change| change.status = Some(WorkspaceStatus::Removed))?;
                if plan.home().symlink_metadata().is_err() {
                    tools::remove(&plan, identity, Work::MayGo)?;
                    change(session, &workspace.id, |change| change.status = Some(WorkspaceStatus::Removed))?;
                    return Ok(None);
                }
            }
        }
    }
    remove(session, workspace, Force::No).map(|_| None)
}
