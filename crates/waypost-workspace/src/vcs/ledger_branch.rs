//! The branch of its own that a ledger can have, apart from the branches that the user checks out.
//!
//! The ledger's file is in Waypost's private directory, and the branch only keeps its versions: no worktree has it checked
//! out, so it appears in no status and no difference. Only git can hold it, also below jj: Mercurial and Sapling make
//! commits from a worktree.

use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Result};

use super::checkout::Checkout;
use super::git_layout;
use super::history::{offline, parents_in_jj};
use super::run::Git;

/// The full name of the branch.
pub const LEDGER_BRANCH: &str = "refs/heads/waypost";

/// The name that users see.
pub const LEDGER_BRANCH_NAME: &str = "waypost";

/// The ledger's path on the branch.
pub const LEDGER_PATH: &str = ".waypost/issues.jsonl";

/// The ref that an import of the history writes, until it is complete.
const IMPORT_REF: &str = "refs/waypost/import";

/// Returns the directory in which the branch's files are.
pub fn ledger_branch_root(checkout: &Checkout) -> PathBuf {
    checkout.private_dir.join("ledger")
}

/// Fails if the repository cannot have the branch, and says what is possible instead.
pub fn check_ledger_branch(checkout: &Checkout) -> Result<()> {
    require_ledger_branch(checkout).map(drop)
}

/// Returns the git repository that holds the branch.
pub(crate) fn require_ledger_branch(checkout: &Checkout) -> Result<Git> {
    let Some(git_dir) = &checkout.git_dir else {
        return Err(Error::refused(format!("ledger.home = separate needs git or jj, and this is {}", checkout.vcs))
            .hint("keep the ledger in the main worktree (main) or in each worktree (branch)")
            .hint("or in a repository of its own: way config set repos.primary PATH"));
    };
    Git::of_repository(git_dir)
}

/// Returns whether a ref may exist. Starts no process; with git's newer format for refs the answer is always yes.
fn may_have_ref(checkout: &Checkout, name: &str) -> bool {
    let Some(git_dir) = &checkout.git_dir else { return false };
    if git_dir.join("reftable").exists() || git_layout::has_loose_ref(git_dir, name).unwrap_or(true) {
        return true;
    }
    let packed = std::fs::read(git_dir.join("packed-refs")).unwrap_or_default();
    packed.split(|byte| *byte == b'\n').any(|line| line.ends_with(format!(" {name}").as_bytes()))
}

/// Returns the refs of the branch in this clone, the local one first.
fn known_refs(checkout: &Checkout) -> Vec<String> {
    let remotes = checkout.remotes();
    let (first, others): (Vec<_>, Vec<_>) = remotes.iter().partition(|remote| remote.name == "origin");
    let tracking =
        first.into_iter().chain(others).map(|remote| format!("refs/remotes/{}/{LEDGER_BRANCH_NAME}", remote.name));
    let all = std::iter::once(LEDGER_BRANCH.to_owned()).chain(tracking);
    all.filter(|name| may_have_ref(checkout, name)).collect()
}

/// Returns whether this clone may have the branch. Starts no process.
pub fn may_have_ledger_branch(checkout: &Checkout) -> bool {
    may_have_ref(checkout, LEDGER_BRANCH)
}

/// Returns whether this clone or one of its remotes, as of the last fetch, may have the branch.
pub fn is_ledger_branch_known(checkout: &Checkout) -> bool {
    !known_refs(checkout).is_empty()
}

/// Returns the ledger on the branch, as far as this clone knows it. A branch that only a remote has becomes a local one.
pub fn read_ledger_branch(checkout: &Checkout) -> Result<Option<Vec<u8>>> {
    let names = known_refs(checkout);
    if names.is_empty() {
        return Ok(None);
    }
    let git = require_ledger_branch(checkout)?;
    for name in names {
        let Some(commit) = resolve(&git, &name)? else { continue };
        let Some(content) = file_in(&git, &commit, LEDGER_PATH)? else { continue };
        if name != LEDGER_BRANCH {
            let make = ["update-ref", "-m", "way: the ledger's branch", "--", LEDGER_BRANCH, &commit, ""];
            // Another command may have been faster.
            if let Err(error) = offline(&git).args(make).stdout()
                && resolve(&git, LEDGER_BRANCH)?.is_none()
            {
                return Err(error);
            }
        }
        return Ok(Some(content));
    }
    Ok(None)
}

/// Returns a file of a local branch.
pub fn read_on_branch(checkout: &Checkout, branch: &str, path: &str) -> Result<Option<Vec<u8>>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    match resolve(&git, &format!("refs/heads/{branch}"))? {
        Some(commit) => file_in(&git, &commit, path),
        None => Ok(None),
    }
}

/// Creates the branch from the history of the ledger in a worktree: one commit for each that changed it, with the same
/// author, time and message, and no other file. Returns false if the branch exists or there is no history.
pub fn start_ledger_branch(checkout: &Checkout, root: &Path, paths: &[&str]) -> Result<bool> {
    let git = require_ledger_branch(checkout)?;
    let head = match checkout.vcs {
        Vcs::Jj => parents_in_jj(root)?.into_iter().next(),
        _ => resolve(&Git::in_worktree(root)?, "HEAD")?,
    };
    let Some(head) = head else { return Ok(false) };
    if resolve(&git, LEDGER_BRANCH)?.is_some() {
        return Ok(false);
    }
    let format = "--format=%x01%H%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B%x00";
    let options = ["log", "--reverse", "--date-order", "--date=raw", "--encoding=UTF-8", format, "--no-color"];
    let literal = paths.iter().map(|path| format!(":(top,literal){path}"));
    let log = offline(&git).args(options).args(["--no-show-signature", "--no-patch", &head, "--"]);
    let output = log.args(literal).bytes()?;
    let mut stream: Vec<u8> = Vec::new();
    let mut last: Option<String> = None;
    for entry in output.split(|byte| *byte == 1).skip(1) {
        let fields: Vec<&[u8]> = entry.split(|byte| *byte == 0).collect();
        let [commit, author, author_mail, author_date, committer, mail, date, message, ..] = fields.as_slice() else {
            return Err(Error::internal("git log ended in the middle of a commit"));
        };
        let commit = String::from_utf8_lossy(commit).into_owned();
        let mut blob = None;
        for path in paths {
            blob = blob.map_or_else(|| blob_in(&git, &commit, path), |found| Ok(Some(found)))?;
        }
        // The commit may have removed the file.
        let Some(blob) = blob.filter(|blob| last.as_ref() != Some(blob)) else { continue };
        let person = |role: &str, name: &[u8], mail: &[u8], date: &[u8]| {
            [role.as_bytes(), b" ", &plain(name), b" <", &plain(mail), b"> ", date, b"\n"].concat()
        };
        stream.extend(format!("commit {IMPORT_REF}\n").bytes());
        stream.extend(person("author", author, author_mail, author_date));
        stream.extend(person("committer", committer, mail, date));
        stream.extend(format!("data {}\n", message.len()).bytes());
        stream.extend_from_slice(message);
        stream.extend(format!("\nM 100644 {blob} {LEDGER_PATH}\n\n").bytes());
        last = Some(blob);
    }
    if last.is_none() {
        return Ok(false);
    }
    let delete = || offline(&git).args(["update-ref", "-d", "--", IMPORT_REF]).stdout();
    delete()?;
    stream.extend_from_slice(b"done\n");
    offline(&git).args(["fast-import", "--quiet", "--done", "--force"]).stdout_with_input(&stream)?;
    let commit = resolve(&git, IMPORT_REF)?.ok_or_else(|| Error::internal("git fast-import made no commit"))?;
    let make = ["update-ref", "-m", "way migrate: the ledger's history", "--", LEDGER_BRANCH, &commit, ""];
    offline(&git).args(make).stdout()?;
    delete()?;
    Ok(true)
}

/// Removes the characters that end a name or an address.
fn plain(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !b"<>\n".contains(byte)).collect()
}

fn resolve(git: &Git, name: &str) -> Result<Option<String>> {
    let commit = format!("{name}^{{commit}}");
    offline(git).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).stdout_or_none()
}

fn blob_in(git: &Git, commit: &str, path: &str) -> Result<Option<String>> {
    let listed = offline(git).args(["ls-tree", "-z", "--full-tree", commit, "--", path]).stdout()?;
    let Some((facts, _)) = listed.split_once('\t') else { return Ok(None) };
    Ok(facts.strip_prefix("100").and_then(|facts| facts.rsplit(' ').next()).map(str::to_owned))
}

fn file_in(git: &Git, commit: &str, path: &str) -> Result<Option<Vec<u8>>> {
    let Some(blob) = blob_in(git, commit, path)? else { return Ok(None) };
    offline(git).args(["cat-file", "blob", &blob]).bytes().map(Some)
}
