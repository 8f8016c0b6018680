//! Resolves references to repositories of the store that users type: an id, a name, or a path, relative or not.

use serde_json::Value;
use waypost_core::id::RepositoryId;
use waypost_core::model::Repository;
use waypost_core::op::{AddRepository, ListRepositories};
use waypost_core::{Error, Result, path_text, url_text};
use waypost_workspace::repository_id as stored_id;

use crate::app::session::Session;
use crate::issues::repos::Repo;
use crate::machine::place::expand;
use crate::machine::system::SystemEntropy;

/// The name that stands for all repositories.
pub const ALL_REPOSITORIES: &str = "all";

/// What to do with a repository that the store does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRepository {
    /// Nothing: the operation refuses it.
    Keep,
    /// Add it to the store.
    Register,
}

/// Returns the id of the repository that a filter names; none for all.
pub fn find_repository_id(session: &mut Session, reference: Option<&str>) -> Result<Option<RepositoryId>> {
    let Some(reference) = reference.filter(|reference| *reference != ALL_REPOSITORIES) else { return Ok(None) };
    let reference = find_repository(session, reference, UnknownRepository::Keep)?;
    let known = session.call(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository);
    let found: Vec<_> = known.filter(|one| is_meant(one, &reference)).collect();
    let own = found.iter().find(|one| session.caller().is_of(one));
    match (found.as_slice(), own) {
        ([one], _) | (_, Some(one)) => Ok(Some(one.id.clone())),
        _ => Err(Error::ambiguous(format!("several repositories are called {reference:?}")).hint("name it by its id")),
    }
}

/// Returns the ids of all repositories that a reference means: several clones may have one name. None if any is meant.
pub(crate) fn repository_ids(session: &mut Session, reference: Option<&str>) -> Result<Option<Vec<RepositoryId>>> {
    let Some(reference) = reference.filter(|reference| *reference != ALL_REPOSITORIES) else { return Ok(None) };
    let known = session.call(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository);
    Ok(Some(known.filter(|one| is_meant(one, reference)).map(|one| one.id).collect()))
}

/// Returns the repository that the input of a job names by `provider`, `owner` and `repo`. None if it has not all of them.
pub(crate) fn named_in(session: &mut Session, input: &Value) -> Result<Option<RepositoryId>> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let (Some(provider), Some(owner), Some(repo)) = (text("provider"), text("owner"), text("repo")) else {
        return Ok(None);
    };
    // `github` stands for github.com.
    let is_host = |host: &str| {
        let rest = host.strip_prefix(&provider.to_lowercase());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_named = |known: &Repository| {
        let project = known.remote_url.as_deref().map(url_text::project).unwrap_or_default();
        let (host, path) = project.split_once('/').unwrap_or_default();
        is_host(host) && path.eq_ignore_ascii_case(&format!("{owner}/{repo}"))
    };
    let known = session.call(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository);
    let found: Vec<_> = known.filter(is_named).collect();
    // Several clones of it may be known.
    let own = found.iter().find(|one| session.caller().is_of(one)).or(found.first());
    let unknown = || {
        Error::not_found(format!("no repository {owner}/{repo} of {provider} in this store"))
            .hint("way repo list; to add one, run way repo add PATH")
    };
    own.map(|one| Some(one.id.clone())).ok_or_else(unknown)
}

fn is_meant(repository: &Repository, reference: &str) -> bool {
    repository.id.as_str() == reference
        || repository.name == reference
        || path_text::to_text(&repository.path) == reference
}

/// Returns a reference to a repository as operations take it. A path becomes the id of the repository that it is in.
pub fn find_repository(session: &mut Session, reference: &str, unknown: UnknownRepository) -> Result<String> {
    if reference == ALL_REPOSITORIES {
        return Ok(reference.to_owned());
    }
    let known = session.call(ListRepositories::all())?.repositories;
    if known.iter().any(|seen| is_meant(&seen.repository, reference)) {
        return Ok(reference.to_owned());
    }
    let path = expand(reference, &session.place.cwd, &session.place.variables)?;
    if !path.is_dir() {
        return Err(Error::not_found(format!("no repository {reference:?} in this store, and no such directory"))
            .hint("way repo list shows the known repositories"));
    }
    let found = Repo::open(&path, &session.place.variables).map_err(|error| error.within(path.display()))?;
    let id = stored_id(&found.checkout.private_dir)?;
    let is_known = id.as_ref().is_some_and(|id| known.iter().any(|seen| seen.repository.id == *id));
    match (id, unknown) {
        (Some(id), _) if is_known => Ok(id.to_string()),
        (_, UnknownRepository::Keep) => {
            Err(Error::not_found(format!("repository {} is not in this store", path.display()))
                .hint(format!("way repo add {reference}")))
        }
        (_, UnknownRepository::Register) => {
            let id = found.checkout.ensure_repository_id(&mut SystemEntropy)?;
            Ok(session.call(AddRepository { repository: found.as_known(id) })?.id.to_string())
        }
    }
}
