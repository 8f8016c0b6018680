//! `way where`

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Result, path_text};

use crate::CommandContext;
use crate::ui::{BOLD, Cell, DIM, cell, styled};
use waypost::issues::{Repos, Route, role};
use waypost::machine::place::{Location, Place, Source};

/// Show where everything is stored, and why
///
/// Creates nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way where
  way where --json")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _args: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    let store = place.store()?;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut data = json!({
        "workspace": workspace(&place, &mut rows),
        "repository": repository(&place, &mut rows)?,
        "worktree": worktree(&place, &mut rows)?,
    });

    let (path, exists) = match &store.location {
        Location::Sqlite(path) => (json!(path_text::to_text(path)), path.exists()),
        Location::UnnamedSqlite => (Value::Null, false),
        Location::Postgres(_) | Location::Server(_) => (json!(store.location.to_string()), true),
    };
    rows.push(row("store", &store.location, &store.source.to_string(), exists));
    data["store"] = json!({
        "path": path,
        "kind": store.location.kind(),
        "scope": store.scope,
        "source": store.source.source,
        "because": store.source.because,
        "exists": exists,
    });

    let reached = place.workspace.as_ref().filter(|workspace| workspace.unreachable.is_none());
    let in_repository = |rule: &str| {
        let source = Source { source: "default", because: rule.to_owned() };
        reached.map_or_else(|| source.clone(), |workspace| source.clone().of_owner(workspace))
    };
    let in_private = |name: &str| {
        let source = in_repository("private to this clone");
        place.checkout.as_ref().map(|checkout| (checkout.private_dir.join(name), source))
    };
    let shared = place.files.shared.clone().map(|path| (path, in_repository("tracked with the repository")));
    let user = place
        .files
        .user
        .clone()
        .map(|path| (path, Source { source: "default", because: "your settings for all repositories".to_owned() }));
    for (name, label, found) in [
        ("index", "index", in_private("index.db")),
        ("ledger", "ledger", place.ledger()),
        ("config_shared", "config, shared", shared),
        ("config_private", "config, private", in_private("config.toml")),
        ("config_user", "config, user", user),
        ("home", "home", place.home.clone()),
        ("workspaces", "workspaces", place.workspaces()?),
        ("mirrors", "mirrors", place.in_home("mirrors")),
        ("token", "token", place.in_home("token")),
    ] {
        data[name] = match found {
            Some((path, source)) => {
                rows.push(row(label, path.display(), &source.to_string(), path.exists()));
                to_json(&path, &source)
            }
            None => Value::Null,
        };
    }
    let unread = place.unread_files();
    rows.extend(unread.iter().map(|unread| vec![styled(BOLD, "not read"), cell(unread)]));
    data["not_read"] = json!(unread);
    if data["ledger"].is_object() {
        data["ledger"]["home"] = json!(place.ledger_home().0);
    }
    if place.checkout.is_some() {
        routing(&place, &mut rows, &mut data);
    }
    cx.ui.answer(&data, |text| text.table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the user's role, the other configured ledgers, and the ledger of new issues.
fn routing(place: &Place, rows: &mut Vec<Vec<Cell>>, data: &mut Value) {
    let (role, source) = role(place);
    rows.push(vec![styled(BOLD, "role"), cell(role), styled(DIM, &source)]);
    data["role"] = json!({ "role": role, "source": source.source, "because": source.because });
    let Ok(repos) = Repos::of(place) else { return };
    let named: Vec<Value> = repos.all.iter().map(|repo| json!(path_text::to_text(repo.path()))).collect();
    data["repos"] = json!({ "read": named, "unreachable": repos.unreachable });
    for repo in &repos.all[1..] {
        rows.push(row("also read", repo.file.path().display(), "configured", repo.file.path().exists()));
    }
    for warning in &repos.unreachable {
        rows.push(vec![styled(BOLD, "not read"), cell(warning)]);
    }
    match Route::of(place, &repos) {
        Ok(route) if route.needs_repo => {
            rows.push(vec![styled(BOLD, "new issues"), cell(&route.because)]);
            data["route"] = json!({
                "path": null,
                "because": route.because,
                "primary_protected": route.is_protected,
            });
        }
        Ok(route) => {
            let path = repos.all[route.number].path();
            rows.push(vec![styled(BOLD, "new issues"), cell(path.display()), styled(DIM, &route.because)]);
            data["route"] = json!({
                "path": path_text::to_text(path),
                "because": route.because,
                "primary_protected": route.is_protected,
            });
        }
        Err(error) => {
            rows.push(vec![styled(BOLD, "new issues"), cell(error.full_message())]);
            data["route"] = json!({ "path": null, "because": error.full_message() });
        }
    }
}

/// Adds the workspace that contains the current directory, and its owner.
fn workspace(place: &Place, rows: &mut Vec<Vec<Cell>>) -> Value {
    let Some(workspace) = &place.workspace else { return Value::Null };
    let registration = &workspace.registration;
    let why = match &workspace.unreachable {
        None => format!("{}, registered in {}", workspace.title(), workspace.file.display()),
        Some(reason) => format!("{}; its owner cannot be reached: {reason}", workspace.title()),
    };
    rows.push(vec![styled(BOLD, "workspace"), cell(registration.path.display()), styled(DIM, &why)]);
    json!({
        "id": registration.workspace,
        "job": registration.job,
        "path": path_text::to_text(&registration.path),
        "strategy": registration.strategy,
        "branch": registration.branch,
        "registered_in": path_text::to_text(&workspace.file),
        "owner": {
            "repository_id": registration.repository.id,
            "repository": path_text::to_text(&registration.repository.path),
            "worktree_id": registration.worktree.id,
            "worktree": path_text::to_text(&registration.worktree.path),
            "ledger": registration.ledger.as_ref().map(|path| path_text::to_text(path)),
            "store": registration.store,
        },
        "unreachable": workspace.unreachable,
        "because": why,
    })
}

fn repository(place: &Place, rows: &mut Vec<Vec<Cell>>) -> Result<Value> {
    let Some(checkout) = &place.checkout else { return Ok(Value::Null) };
    let id = place.repository_id()?;
    let what = format!("{}, {}", checkout.repository_name(), checkout.vcs);
    rows.push(vec![
        styled(BOLD, "repository"),
        cell(checkout.repository_path().display()),
        styled(DIM, id.as_ref().map_or_else(|| what.clone(), |id| format!("{what}, {id}"))),
    ]);
    Ok(json!({
        "id": id,
        "name": checkout.repository_name(),
        "vcs": checkout.vcs,
        "path": path_text::to_text(checkout.repository_path()),
        "shared_dir": path_text::to_text(&checkout.shared_dir),
        "private_dir": path_text::to_text(&checkout.private_dir),
        "remote_url": checkout.remote_url,
        "default_branch": checkout.default_branch,
    }))
}

fn worktree(place: &Place, rows: &mut Vec<Vec<Cell>>) -> Result<Value> {
    let Some(checkout) = &place.checkout else { return Ok(Value::Null) };
    let Some(root) = &checkout.root else { return Ok(Value::Null) };
    let id = place.worktree_id()?;
    let what = match (&checkout.branch, checkout.is_main()) {
        (Some(branch), true) => format!("main worktree, on {branch}"),
        (None, true) => "main worktree".to_owned(),
        (Some(branch), false) => format!("{}, on {branch}", checkout.name),
        (None, false) => checkout.name.clone(),
    };
    rows.push(vec![
        styled(BOLD, "worktree"),
        cell(root.display()),
        styled(DIM, id.as_ref().map_or_else(|| what.clone(), |id| format!("{what}, {id}"))),
    ]);
    Ok(json!({
        "id": id,
        "name": checkout.name,
        "path": path_text::to_text(root),
        "branch": checkout.branch,
        "main": checkout.is_main(),
    }))
}

fn row(label: &str, path: impl std::fmt::Display, why: &str, exists: bool) -> Vec<Cell> {
    let why = if exists { why.to_owned() } else { format!("{why}; does not exist yet") };
    vec![styled(BOLD, label), cell(path), styled(DIM, why)]
}

fn to_json(path: &Path, source: &Source) -> Value {
    json!({
        "path": path_text::to_text(path),
        "source": source.source,
        "because": source.because,
        "exists": path.exists(),
    })
}
