//! Sync with jj, which stores its commits in a git repository.
//!
//! Sync makes commits there from objects, and rebases the working-copy commit onto them: its files and its other
//! changes stay the same. If other commits are in between, only the change of the ledger is moved out of the working
//! copy.

use waypost_core::{Error, Result};

use super::objects::{Objects, Record, Remote, TreeEntry};
use super::{Adapter, COMMIT_MESSAGE, Push, Round, Work, no_commits_error};
use crate::vcs::run::{Git, Tool, jj_with_user_settings};

/// jj's virtual root commit, which git does not have.
const ROOT_COMMIT: &str = "0000000000000000000000000000000000000000";

pub(super) struct JjSync<'a> {
    objects: Objects<'a>,
    work: &'a Work<'a>,
    remote: Option<Remote>,
    /// The commit of the remote branch.
    upstream: Option<String>,
}

/// How the commits of both sides are combined.
enum Combination {
    /// The working copy is rebased onto the commit that is pushed.
    Together { on: String },
    /// The remote gets its own commit, and the ledger's change is moved out of the working copy into a commit below it.
    Apart,
}

/// Checks the preconditions, and reads the remote.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<JjSync<'a>> {
    let request = &work.request;
    let Some(git_dir) = &request.checkout.git_dir else {
        return Err(Error::refused("this jj repository does not store its commits in git, so it cannot be synced"));
    };
    let mut objects = Objects::new(Git::of_repository(git_dir)?, work);
    let setting = |key: &str| jj_with_user_settings(request.root).ok()?.args(["config", "get", key]).stdout().ok();
    if let (Some(name), Some(address)) = (setting("user.name"), setting("user.email")) {
        objects = objects.with_author(name, address);
    }
    let mut sync = JjSync { objects, work, remote: None, upstream: None };
    sync.parent()?;
    sync.remote = sync.find_remote()?;
    if sync.remote.is_none() {
        work.note("no remote bookmark is tracked, so there is nothing to push to".to_owned());
    }
    Ok(sync)
}

impl Adapter for JjSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let tracking_ref = tracking_ref(remote);
        if self.work.request.dry_run {
            self.upstream = self.objects.resolve(&tracking_ref)?;
        }
        self.work.say(&format!("Fetching {}", remote.shown()));
        // Fetch into the ref that `jj git import` reads.
        let fetched = self.objects.fetch(remote, &tracking_ref)?;
        if !self.work.request.dry_run {
            self.upstream = fetched;
        }
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        let parent = self.parent()?;
        if parent.is_none() && (self.upstream.is_some() || (self.work.ledger.read)()?.is_some()) {
            let upstream = self.upstream.as_ref().and(self.remote.as_ref()).map(Remote::shown);
            return Err(no_commits_error(upstream.as_deref(), "jj new 'trunk()'"));
        }
        let entry = |commit: Option<&str>| commit.map(|commit| self.objects.entry(commit)).transpose();
        let theirs = entry(self.upstream.as_deref())?.flatten();
        let base = self.objects.base(&self.key(), parent.as_deref(), self.upstream.as_deref())?;
        let content = |entry: &Option<TreeEntry>| entry.as_ref().map(|entry| self.objects.content(entry)).transpose();
        let plan = self.plan(parent.as_deref())?;
        let Some(merged) = self.work.merge(content(&base)?.as_deref(), content(&theirs)?.as_deref())? else {
            self.work.note("there is no ledger yet".to_owned());
            return Ok(Round::Done { committed: None, pushed: None });
        };
        let ledger = TreeEntry { mode: "100644".to_owned(), blob: self.objects.store(&merged)? };
        let pushed = match self.push(&plan, theirs.as_ref(), &ledger)? {
            Ok(pushed) => pushed,
            Err(error) => return Ok(Round::Rejected(error)),
        };
        let remote = pushed.clone().or_else(|| self.upstream.clone());
        let moved = self.under_lock(&merged, || self.move_to_merged(&plan, parent.as_deref(), remote.as_deref()))?;
        let Some(made) = moved else { return Ok(Round::Moved) };
        if let (Combination::Apart, Some(local), Some(upstream)) = (&plan, made.as_ref().or(parent.as_ref()), remote) {
            let record = Record { local: local.clone(), upstream, staged: Vec::new() };
            self.objects.write_record(&self.key(), &record)?;
        }
        Ok(Round::Done { committed: made.or_else(|| pushed.clone()), pushed })
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(Remote::shown)
    }
}

impl JjSync<'_> {
    fn jj(&self) -> Result<Tool> {
        jj_with_user_settings(self.work.request.root)
    }

    fn log(&self, revisions: &str, template: &str) -> Result<String> {
        let revisions = format!("--revisions={revisions}");
        self.jj()?.args(["log", "--ignore-working-copy", "--no-graph", &revisions, "--template", template]).stdout()
    }

    /// The key of the sync record.
    fn key(&self) -> String {
        format!("jj {}", self.work.request.checkout.name)
    }

    /// Returns a fileset that matches the ledger's file literally.
    fn fileset(&self) -> String {
        format!("root-file:{:?}", self.work.request.path)
    }

    /// Returns the commit that the working copy is based on; none before the first one.
    fn parent(&self) -> Result<Option<String>> {
        let output = self.log("@-", r#"commit_id ++ "\n""#)?;
        let parents: Vec<&str> = output.lines().collect();
        match parents.as_slice() {
            [ROOT_COMMIT] => Ok(None),
            [only] => Ok(Some((*only).to_owned())),
            _ => Err(Error::refused("the working copy is based on several commits")
                .hint("merge them into one commit with jj new")),
        }
    }

    /// Finds the remote bookmark of the working copy's parent, else of the trunk.
    fn find_remote(&self) -> Result<Option<Remote>> {
        let names = self.objects.offline().arg("remote").stdout()?;
        let Some(name) = names.lines().find(|name| *name == "origin").or_else(|| names.lines().next()) else {
            return Ok(None);
        };
        if name.starts_with('-') || name.chars().any(char::is_control) {
            return Err(Error::refused(format!("{name:?} is not a valid name of a remote")));
        }
        let template =
            r#"remote_bookmarks.map(|bookmark| bookmark.remote() ++ "\t" ++ bookmark.name()).join("\n") ++ "\n""#;
        for revisions in ["@-", "trunk()"] {
            let output = self.log(revisions, template)?;
            let mut bookmarks =
                output.lines().filter_map(|line| line.split_once('\t')).filter(|(remote, _)| *remote == name);
            if let Some((_, bookmark)) = bookmarks.next() {
                let branch = format!("refs/heads/{bookmark}");
                return Ok(Some(Remote { name: name.to_owned(), branch, pushes_to: None }));
            }
        }
        Ok(None)
    }

    fn plan(&self, parent: Option<&str>) -> Result<Combination> {
        let (Some(parent), Some(upstream)) = (parent, self.upstream.as_deref()) else {
            return Ok(Combination::Apart);
        };
        let pushes_branch = self.work.request.push == Push::Branch;
        if self.objects.is_ancestor(upstream, parent)?
            && (pushes_branch || self.objects.are_of_ledger(upstream, parent)?)
        {
            return Ok(Combination::Together { on: parent.to_owned() });
        }
        if self.objects.is_ancestor(parent, upstream)? && self.objects.is_same_but_for_ledger(parent, upstream)? {
            return Ok(Combination::Together { on: upstream.to_owned() });
        }
        Ok(Combination::Apart)
    }

    /// Returns whether the local bookmark has commits that the remote's lacks. A push to the remote's bookmark would leave
    /// the local one with two targets.
    fn is_bookmark_ahead(&self, target: &Remote) -> Result<bool> {
        let (bookmark, remote) = (target.bookmark(), &target.name);
        let ahead = format!("bookmarks(exact:{bookmark:?}) ~ ::remote_bookmarks(exact:{bookmark:?}, exact:{remote:?})");
        Ok(!self.log(&ahead, r#""x""#)?.is_empty())
    }

    /// Makes a commit for the remote and pushes it. Returns it, or the error with which the remote rejected it.
    fn push(
        &self,
        plan: &Combination,
        theirs: Option<&TreeEntry>,
        ledger: &TreeEntry,
    ) -> Result<Result<Option<String>>> {
        let (Some(target), Some(upstream)) = (&self.remote, &self.upstream) else { return Ok(Ok(None)) };
        let on = match plan {
            Combination::Together { on } => on,
            Combination::Apart => upstream,
        };
        let known = if on == upstream { theirs.cloned() } else { self.objects.entry(on)? };
        let is_same = known.is_some_and(|known| known.blob == ledger.blob);
        if is_same && on == upstream {
            return Ok(Ok(None));
        }
        if self.work.request.push == Push::Nothing {
            self.work.note(format!("nothing was pushed to {}", target.shown()));
            return Ok(Ok(None));
        }
        if matches!(plan, Combination::Apart) && self.is_bookmark_ahead(target)? {
            let (bookmark, how) = (target.bookmark(), "way sync --push-commits pushes them with the ledger");
            self.work.note(format!("the bookmark {bookmark} has unpushed commits, so nothing was pushed; {how}"));
            return Ok(Ok(None));
        }
        let commit = if is_same {
            on.clone()
        } else {
            self.work.say("Committing the ledger");
            self.objects.commit(Some(on), &[on], ledger)?
        };
        self.work.say(&format!("Pushing to {}", target.shown()));
        if let Err(error) = self.objects.push(&target.name, &commit, &target.branch) {
            return Ok(Err(error));
        }
        self.work.change(self.objects.offline().args(["update-ref", "--", &tracking_ref(target), &commit]), "")?;
        Ok(Ok(Some(commit)))
    }

    /// Moves the working copy onto the merged commit. Returns the local commit of the ledger's change, if one was made.
    fn move_to_merged(&self, plan: &Combination, parent: Option<&str>, remote: Option<&str>) -> Result<Option<String>> {
        self.work.change(self.jj()?.args(["file", "track", "--quiet", "--", &self.fileset()]), "")?;
        if remote.is_some() {
            // Make the new git commits visible to jj.
            self.work.change(self.jj()?.args(["git", "import", "--quiet"]), "")?;
        }
        if let (Combination::Together { on }, Some(remote)) = (plan, remote)
            && Some(remote) != parent
            && (self.work.request.push != Push::Nothing || Some(on.as_str()) != parent)
        {
            let onto = format!("--onto={remote}");
            self.work.change(self.jj()?.args(["rebase", "--quiet", "--source=@", &onto]), "")?;
        }
        if !self.has_ledger_changes()? {
            return Ok(None);
        }
        self.work.say("Moving the ledger out of the working copy");
        let message = format!("--message={}", COMMIT_MESSAGE.trim_end());
        self.work.change(self.jj()?.args(["new", "--quiet", "--no-edit", "--insert-before=@", &message]), "")?;
        let squash =
            ["squash", "--quiet", "--from=@", "--into=@-", "--use-destination-message", "--keep-emptied", "--"];
        self.work.change(self.jj()?.args(squash).arg(self.fileset()), "")?;
        if self.work.request.dry_run { Ok(Some("COMMIT".to_owned())) } else { self.parent() }
    }

    /// Returns whether the working-copy commit changes the ledger.
    fn has_ledger_changes(&self) -> Result<bool> {
        if self.work.request.dry_run {
            return Ok(false);
        }
        Ok(!self.jj()?.args(["diff", "--name-only", "--", &self.fileset()]).stdout()?.is_empty())
    }

    /// Runs `act` under the ledger's lock. None if the ledger's content is not `merged` any more.
    fn under_lock<T>(&self, merged: &[u8], act: impl Fn() -> Result<T>) -> Result<Option<T>> {
        if self.work.request.dry_run {
            return act().map(Some);
        }
        let done = std::cell::RefCell::new(None);
        (self.work.ledger.change)(&|now| {
            if now == merged && done.borrow().is_none() {
                *done.borrow_mut() = Some(act()?);
            }
            Ok(now.to_vec())
        })?;
        Ok(done.into_inner())
    }
}

/// Returns the remote-tracking ref of a remote's branch.
fn tracking_ref(remote: &Remote) -> String {
    format!("refs/remotes/{}/{}", remote.name, remote.bookmark())
}
