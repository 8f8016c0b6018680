//! Which store a directory uses, and why.

use std::ffi::OsString;
use std::path::Path;

use waypost::machine::Variables;
use waypost::machine::place::{Location, Place, Request, Scope};
use waypost::{Error, Kind};

use crate::harness::Office;

/// Resolves the place of a directory with further variables.
fn resolved(office: &Office, dir: &Path, further: &[(&str, &Path)]) -> Result<Place, Error> {
    let own =
        ["HOME", "USER", "WAYPOST_TEST_CLOCK"].map(|name| (name, office.variables().get(name).unwrap().to_owned()));
    let further = further.iter().map(|(name, value)| (*name, value.as_os_str().to_owned()));
    let variables: Variables = own.into_iter().chain(further).collect();
    Place::resolve(Request { variables, ..office.request(dir) })
}

/// Returns the file of the store that a place chose, and the reason.
fn store(place: &Place) -> (OsString, &'static str, String) {
    let choice = place.store().unwrap();
    let Location::Sqlite(path) = choice.location else { panic!("{:?}", choice.location) };
    (path.into_os_string(), choice.source.source, choice.source.because)
}

#[test]
fn a13_global_and_db_report_their_store_and_the_reason() {
    let office = Office::new();
    let flag = |path: &Path, name: &str| (path.as_os_str().to_owned(), "flag", name.to_owned());
    let global = office.shared(&office.repo);
    assert_eq!(store(&global), flag(&office.sandbox.path("home/.waypost/state.db"), "--global"));
    let named = office.with_store(&office.repo, Path::new("x.db"));
    assert_eq!(store(&named), flag(&office.repo.join("x.db"), "--db"));
}

#[test]
fn the_variable_overrides_scope_flags_with_a_note() {
    let office = Office::new();
    let own = office.variables();
    let variables: Variables = ["HOME", "USER"]
        .into_iter()
        .map(|name| (name, own.get(name).unwrap().to_owned()))
        .chain([("WAYPOST_DB", "x.db".into())])
        .collect();
    let scope = Some((Scope::Global, "--global"));
    let place = Place::resolve(Request { variables, scope, ..office.request(&office.repo) }).unwrap();
    let (path, source, because) = store(&place);
    assert_eq!((path, source), (office.repo.join("x.db").into_os_string(), "env"), "{because}");
    let warnings = place.warnings.join("\n");
    assert!(warnings.contains("--global has no effect"), "{warnings}");
}

#[test]
fn git_environment_variables_are_honoured_as_git_does() {
    let office = Office::new();
    let (repo, tree) = (office.repo.clone(), office.worktree("tree"));
    let nowhere = office.sandbox.dir("nowhere");
    let own = repo.join(".git/waypost/state.db").into_os_string();
    let with = |dir: &Path, variables: &[(&str, &Path)]| resolved(&office, dir, variables).unwrap();
    let (git, admin) = (repo.join(".git"), repo.join(".git/worktrees/tree"));

    assert_eq!(store(&with(&nowhere, &[("GIT_DIR", &git)])).0, own);
    // The environment of a hook in a linked worktree.
    let place = with(&nowhere, &[("GIT_DIR", &admin)]);
    assert_eq!((store(&place).0, &place.checkout.unwrap().root), (own.clone(), &Some(tree.clone())));
    let place = with(&repo, &[("GIT_DIR", Path::new(".git")), ("GIT_WORK_TREE", Path::new("."))]);
    assert_eq!(place.checkout.unwrap().root.as_ref(), Some(&repo));
    assert_eq!(store(&with(&nowhere, &[("GIT_DIR", &admin), ("GIT_COMMON_DIR", &git)])).0, own);
    let error = resolved(&office, &repo, &[("GIT_DIR", &nowhere)]).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("is not a git repository"), "{error}");
    // From elsewhere, tracked files still belong to the repository's own tree.
    let place = with(&nowhere, &[("GIT_DIR", &git)]);
    assert_eq!(place.ledger().unwrap().0, repo.join(".waypost/issues.jsonl"));
    assert_eq!(place.home_worktree.as_deref(), Some(repo.as_path()));
}

#[test]
fn a_ceiling_stops_the_search() {
    let office = Office::new();
    let sub = office.sandbox.dir("repo/sub/dir");
    let place = resolved(&office, &sub, &[("GIT_CEILING_DIRECTORIES", &office.repo)]).unwrap();
    assert!(place.checkout.is_none());
    assert_eq!(place.store().unwrap_err().kind(), Kind::Invalid);
}
