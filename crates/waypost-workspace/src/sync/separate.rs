//! Sync of a ledger that has a branch of its own, with git, also below jj.
//!
//! No worktree has the branch checked out, so there is no index and there are no other files. All its commits are sync's,
//! and all are pushed.

use waypost_core::model::Vcs;
use waypost_core::{Error, Result, url_text};

use super::locks::OwnLocks;
use super::objects::{Objects, Remote, TreeEntry};
use super::{Adapter, Push, Round, Work};
use crate::vcs::checkout::Checkout;
use crate::vcs::git_layout;
use crate::vcs::ledger_branch::{LEDGER_BRANCH, LEDGER_BRANCH_NAME, require_ledger_branch};
use crate::vcs::run::jj_with_user_settings;

pub(super) struct SeparateSync<'a> {
    objects: Objects<'a>,
    work: &'a Work<'a>,
    locks: OwnLocks,
    remote: Option<Remote>,
    /// The commit of the remote branch.
    upstream: Option<String>,
}

/// Checks the preconditions, and reads the remote.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<SeparateSync<'a>> {
    let checkout = work.request.checkout;
    let mut objects = Objects::new(require_ledger_branch(checkout)?, work);
    if checkout.vcs == Vcs::Jj
        && let Some(root) = &checkout.root
    {
        let setting = |key: &str| jj_with_user_settings(root).ok()?.args(["config", "get", key]).stdout().ok();
        if let (Some(name), Some(address)) = (setting("user.name"), setting("user.email")) {
            objects = objects.with_author(name, address);
        }
    }
    check_not_checked_out(checkout)?;
    let common_dir = objects.common_dir().to_owned();
    let locks = OwnLocks::new(&checkout.private_dir, work.request.root, &common_dir, &common_dir, LEDGER_BRANCH);
    if !work.request.dry_run {
        objects.sweep(&common_dir);
        locks.clear()?;
    }
    let remote = objects.find_remote(LEDGER_BRANCH)?;
    Ok(SeparateSync { objects, work, locks, remote, upstream: None })
}

/// Refuses if a worktree has the branch checked out: its files would no longer match its branch.
fn check_not_checked_out(checkout: &Checkout) -> Result<()> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(()) };
    let listed = git_layout::worktrees(git_dir, checkout.main_root.as_deref());
    match listed.iter().find(|listed| listed.branch.as_deref() == Some(LEDGER_BRANCH_NAME) && listed.path.exists()) {
        Some(listed) => Err(Error::refused(format!(
            "the ledger's branch {LEDGER_BRANCH_NAME} is checked out in {}",
            listed.path.display()
        ))
        .hint("git switch to another branch there")),
        None => Ok(()),
    }
}

impl Adapter for SeparateSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        self.upstream = self.objects.fetch_upstream(remote)?;
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        check_not_checked_out(self.work.request.checkout)?;
        let head = self.objects.resolve(LEDGER_BRANCH)?;
        let entry = |commit: Option<&String>| commit.map(|commit| self.objects.entry(commit)).transpose();
        let (ours, theirs) = (entry(head.as_ref())?.flatten(), entry(self.upstream.as_ref())?.flatten());
        if self.upstream.is_some() && theirs.is_none() {
            let shown = self.upstream().unwrap_or_default();
            return Err(Error::refused(format!("{shown} has no ledger, so it is another branch of that name"))
                .hint("rename it, or keep the ledger in the main worktree: way migrate --home main"));
        }
        let base = self.objects.base(LEDGER_BRANCH, head.as_deref(), self.upstream.as_deref())?;
        let content = |entry: &Option<TreeEntry>| entry.as_ref().map(|entry| self.objects.content(entry)).transpose();
        let Some(merged) = self.work.merge(content(&base)?.as_deref(), content(&theirs)?.as_deref())? else {
            self.work.note("there is no ledger yet".to_owned());
            return Ok(Round::Done { committed: None, pushed: None });
        };
        let ledger = TreeEntry { mode: "100644".to_owned(), blob: self.objects.store(&merged)? };
        let parents = self.parents(head.as_ref())?;
        let known = if head.as_ref() == parents.first() { &ours } else { &theirs };
        let commit = match parents.as_slice() {
            [only] if known.as_ref().is_some_and(|known| known.blob == ledger.blob) => only.clone(),
            _ => {
                self.work.say("Committing the ledger");
                let named: Vec<&str> = parents.iter().map(String::as_str).collect();
                self.objects.commit(named.first().copied(), &named, &ledger)?
            }
        };
        let pushed = match self.push(&commit) {
            Ok(is_pushed) => is_pushed.then(|| commit.clone()),
            Err(error) => return Ok(Round::Rejected(error)),
        };
        if head.as_ref() == Some(&commit) {
            return Ok(Round::Done { committed: None, pushed });
        }
        if !self.move_branch(head.as_deref(), &commit)? {
            return Ok(Round::Moved);
        }
        // The remote's own commit was not made by this sync.
        let committed = Some(commit).filter(|commit| self.upstream.as_ref() != Some(commit));
        Ok(Round::Done { committed, pushed })
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(Remote::shown)
    }
}

impl SeparateSync<'_> {
    /// Returns the parents of the next commit, without those that another one contains.
    fn parents(&self, head: Option<&String>) -> Result<Vec<String>> {
        Ok(match (head, &self.upstream) {
            (Some(head), Some(upstream)) if self.objects.is_ancestor(upstream, head)? => vec![head.clone()],
            (Some(head), Some(upstream)) if !self.objects.is_ancestor(head, upstream)? => {
                vec![head.clone(), upstream.clone()]
            }
            (_, Some(upstream)) => vec![upstream.clone()],
            (head, None) => head.into_iter().cloned().collect(),
        })
    }

    /// Pushes a commit, if the user allows it. Returns whether it did, or the error with which the remote rejected it.
    fn push(&self, commit: &str) -> Result<bool> {
        let Some(target) = self.remote.as_ref().filter(|_| self.upstream.as_deref() != Some(commit)) else {
            return Ok(false);
        };
        if self.work.request.push == Push::Nothing {
            self.work.note(format!("nothing was pushed to {}", target.shown()));
            return Ok(false);
        }
        if let Some(other) = &target.pushes_to {
            let (from, other) = (target.shown(), url_text::without_password(other));
            let how = format!("so nothing was pushed; use git push {other} {LEDGER_BRANCH_NAME}");
            self.work.note(format!("the ledger follows {from} but is pushed to {other}, {how}"));
            return Ok(false);
        }
        self.work.say(&format!("Pushing to {}", target.shown()));
        self.objects.push(&target.name, commit, &target.branch).map(|()| true)
    }

    /// Moves the branch. Returns false if it moved meanwhile.
    fn move_branch(&self, from: Option<&str>, to: &str) -> Result<bool> {
        let command = ["update-ref", "-m", "way sync: the ledger", "--", LEDGER_BRANCH, to, from.unwrap_or_default()];
        let moved = self.objects.offline().args(command);
        let Err(error) = self.locks.run_on_branch(to, || self.work.change(moved, "")) else { return Ok(true) };
        if self.objects.resolve(LEDGER_BRANCH)?.as_deref() == from { Err(error) } else { Ok(false) }
    }
}
