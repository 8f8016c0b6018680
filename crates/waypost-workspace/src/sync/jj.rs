//! A ledger under jj, which keeps its commits in a git repository.
//!
//! Commits are made there, of objects, and the working copy's commit is put on top of them: its files are the same then,
//! and its other changes stay in it. Where others are between, the ledger's change alone moves out of it.

use waypost_core::{Error, Result};

use super::objects::{Objects, Record, Remote, TreeEntry};
use super::{Adapter, MESSAGE, Round, Work};
use crate::vcs::run::{Git, Tool, jj_with_user_settings};

/// A commit that jj has before all others, and git has not.
const ROOT: &str = "0000000000000000000000000000000000000000";

pub(super) struct JjSync<'a> {
    objects: Objects<'a>,
    work: &'a Work<'a>,
    remote: Option<Remote>,
    /// The commit that the remote is at.
    upstream: Option<String>,
}

/// What is to be done with the commits of both sides.
enum Plan {
    /// The working copy goes on top of what the remote gets.
    Together { on: String },
    /// The remote gets a commit, and the ledger's change moves out of the working copy below it.
    Apart,
}

/// Finds out whether it can be done at all.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<JjSync<'a>> {
    let request = &work.request;
    let Some(git_dir) = &request.checkout.git_dir else {
        return Err(Error::refused("this jj keeps its commits elsewhere than in git, so they cannot be synced"));
    };
    let mut objects = Objects::new(Git::of_repository(git_dir)?, work);
    let setting = |key: &str| jj_with_user_settings(request.root).args(["config", "get", key]).stdout().ok();
    if let (Some(name), Some(address)) = (setting("user.name"), setting("user.email")) {
        objects = objects.with_author(name, address);
    }
    let mut sync = JjSync { objects, work, remote: None, upstream: None };
    sync.parent()?;
    sync.remote = sync.find_remote()?;
    if sync.remote.is_none() {
        work.note("no bookmark of a remote is followed, so there is nothing to push to".to_owned());
    }
    Ok(sync)
}

impl Adapter for JjSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let followed = followed(remote);
        if self.work.request.is_rehearsal {
            self.upstream = self.objects.resolve(&followed)?;
        }
        self.work.say(&format!("Fetching {}", remote.shown()));
        // Where jj looks for it.
        let fetched = self.objects.fetch(remote, &followed)?;
        if !self.work.request.is_rehearsal {
            self.upstream = fetched;
        }
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        let parent = self.parent()?;
        let entry = |commit: Option<&str>| commit.map(|commit| self.objects.entry(commit)).transpose();
        let theirs = entry(self.upstream.as_deref())?.flatten();
        let base = self.objects.base(&self.key(), parent.as_deref(), self.upstream.as_deref())?;
        let content = |entry: &Option<TreeEntry>| entry.as_ref().map(|entry| self.objects.content(entry)).transpose();
        let plan = self.plan(parent.as_deref())?;
        let Some(merged) = self.work.merge(content(&base)?.as_deref(), content(&theirs)?.as_deref())? else {
            self.work.note("there is no ledger yet".to_owned());
            return Ok(Round::Done { committed: None, pushed: None });
        };
        let ledger = TreeEntry { mode: "100644".to_owned(), blob: self.objects.keep(&merged)? };
        let pushed = match self.push(&plan, theirs.as_ref(), &ledger)? {
            Ok(pushed) => pushed,
            Err(error) => return Ok(Round::NotTaken(error)),
        };
        let remote = pushed.clone().or_else(|| self.upstream.clone());
        let moved = self.under_lock(&merged, || self.move_to_merged(&plan, parent.as_deref(), remote.as_deref()))?;
        let Some(made) = moved else { return Ok(Round::Moved) };
        if let (Plan::Apart, Some(local), Some(upstream)) = (&plan, made.as_ref().or(parent.as_ref()), remote) {
            let record = Record { local: local.clone(), upstream, staged: Vec::new() };
            self.objects.remember(&self.key(), &record)?;
        }
        Ok(Round::Done { committed: made.or_else(|| pushed.clone()), pushed })
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(Remote::shown)
    }
}

impl JjSync<'_> {
    fn jj(&self) -> Tool {
        jj_with_user_settings(self.work.request.root)
    }

    fn log(&self, revisions: &str, template: &str) -> Result<String> {
        let revisions = format!("--revisions={revisions}");
        self.jj().args(["log", "--ignore-working-copy", "--no-graph", &revisions, "--template", template]).stdout()
    }

    /// Names what is remembered.
    fn key(&self) -> String {
        format!("jj {}", self.work.request.checkout.name)
    }

    /// Names the ledger's file, whatever is in its name.
    fn fileset(&self) -> String {
        format!("root-file:{:?}", self.work.request.path)
    }

    /// Returns the commit that the working copy is based on; none before the first one.
    fn parent(&self) -> Result<Option<String>> {
        let said = self.log("@-", r#"commit_id ++ "\n""#)?;
        let parents: Vec<&str> = said.lines().collect();
        match parents.as_slice() {
            [ROOT] => Ok(None),
            [only] => Ok(Some((*only).to_owned())),
            _ => Err(Error::refused("the working copy is based on several commits")
                .hint("jj new makes one commit of them to go on from")),
        }
    }

    /// Finds the bookmark that the working copy's parent is at, else the one that others build on.
    fn find_remote(&self) -> Result<Option<Remote>> {
        let names = self.objects.look().arg("remote").stdout()?;
        let Some(name) = names.lines().find(|name| *name == "origin").or_else(|| names.lines().next()) else {
            return Ok(None);
        };
        if name.starts_with('-') || name.chars().any(char::is_control) {
            return Err(Error::refused(format!("{name:?} is no name for a remote")));
        }
        let template =
            r#"remote_bookmarks.map(|bookmark| bookmark.remote() ++ "\t" ++ bookmark.name()).join("\n") ++ "\n""#;
        for revisions in ["@-", "trunk()"] {
            let said = self.log(revisions, template)?;
            let mut bookmarks =
                said.lines().filter_map(|line| line.split_once('\t')).filter(|(remote, _)| *remote == name);
            if let Some((_, bookmark)) = bookmarks.next() {
                let branch = format!("refs/heads/{bookmark}");
                return Ok(Some(Remote { name: name.to_owned(), branch, is_configured: true, pushes_to: None }));
            }
        }
        Ok(None)
    }

    fn plan(&self, parent: Option<&str>) -> Result<Plan> {
        let (parent, upstream) = match (parent, self.upstream.as_deref()) {
            (Some(parent), Some(upstream)) => (parent, upstream),
            (None, Some(_)) => {
                return Err(Error::refused("there is no commit here yet, but the remote has some")
                    .hint("jj new 'trunk()', and then way sync"));
            }
            (_, None) => return Ok(Plan::Apart),
        };
        if self.objects.is_ancestor(upstream, parent)? && self.objects.are_of_ledger(upstream, parent)? {
            return Ok(Plan::Together { on: parent.to_owned() });
        }
        if self.objects.is_ancestor(parent, upstream)? && self.objects.is_same_but_for_ledger(parent, upstream)? {
            return Ok(Plan::Together { on: upstream.to_owned() });
        }
        Ok(Plan::Apart)
    }

    /// Makes the commit that the remote gets, and pushes it. Returns it, or why the remote did not take it.
    fn push(&self, plan: &Plan, theirs: Option<&TreeEntry>, ledger: &TreeEntry) -> Result<Result<Option<String>>> {
        let (Some(target), Some(upstream)) = (&self.remote, &self.upstream) else { return Ok(Ok(None)) };
        let on = match plan {
            Plan::Together { on } => on,
            Plan::Apart => upstream,
        };
        let known = if on == upstream { theirs.cloned() } else { self.objects.entry(on)? };
        let is_same = known.is_some_and(|known| known.blob == ledger.blob);
        if is_same && on == upstream {
            return Ok(Ok(None));
        }
        if !self.work.request.push {
            self.work.note(format!("nothing was pushed to {}", target.shown()));
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
        self.work.change(self.objects.look().args(["update-ref", "--", &followed(target), &commit]), "")?;
        Ok(Ok(Some(commit)))
    }

    /// Puts the working copy where it belongs. Returns the commit that was made of its change of the ledger, if one was.
    fn move_to_merged(&self, plan: &Plan, parent: Option<&str>, remote: Option<&str>) -> Result<Option<String>> {
        self.work.change(self.jj().args(["file", "track", "--quiet", "--", &self.fileset()]), "")?;
        if remote.is_some() {
            // What git has got, jj has not seen yet.
            self.work.change(self.jj().args(["git", "import", "--quiet"]), "")?;
        }
        if let (Plan::Together { on }, Some(remote)) = (plan, remote)
            && Some(remote) != parent
            && (self.work.request.push || Some(on.as_str()) != parent)
        {
            let onto = format!("--onto={remote}");
            self.work.change(self.jj().args(["rebase", "--quiet", "--source=@", &onto]), "")?;
        }
        if !self.has_ledger_changes()? {
            return Ok(None);
        }
        self.work.say("Moving the ledger out of the working copy");
        let message = format!("--message={}", MESSAGE.trim_end());
        self.work.change(self.jj().args(["new", "--quiet", "--no-edit", "--insert-before=@", &message]), "")?;
        let squash =
            ["squash", "--quiet", "--from=@", "--into=@-", "--use-destination-message", "--keep-emptied", "--"];
        self.work.change(self.jj().args(squash).arg(self.fileset()), "")?;
        if self.work.request.is_rehearsal { Ok(Some("COMMIT".to_owned())) } else { self.parent() }
    }

    /// Returns whether the working copy's commit changes the ledger.
    fn has_ledger_changes(&self) -> Result<bool> {
        if self.work.request.is_rehearsal {
            return Ok(false);
        }
        Ok(!self.jj().args(["diff", "--name-only", "--", &self.fileset()]).stdout()?.is_empty())
    }

    /// Does something while nobody else writes the ledger. None if that does not say any more what it should.
    fn under_lock<T>(&self, merged: &[u8], act: impl Fn() -> Result<T>) -> Result<Option<T>> {
        if self.work.request.is_rehearsal {
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

/// Names where jj looks for what a remote has.
fn followed(remote: &Remote) -> String {
    let branch = remote.branch.strip_prefix("refs/heads/").unwrap_or(&remote.branch);
    format!("refs/remotes/{}/{branch}", remote.name)
}
