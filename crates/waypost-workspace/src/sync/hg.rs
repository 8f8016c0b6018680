//! Sync with Mercurial, and with Sapling, whose commands differ slightly.
//!
//! Mercurial commits from the worktree, and pushes a commit with all its ancestors. So sync updates the worktree to
//! another commit only if nothing but the ledger differs. Users with other commits to push, or files to update, do that
//! first.

use std::path::PathBuf;

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result};
use waypost_fs::{FileIdentity, remove_tree};

use super::{Adapter, COMMIT_MESSAGE, Push, Round, Work, no_commits_error, unreachable};
use crate::vcs::hg_layout;
use crate::vcs::run::{Tool, hg, hg_network, sl, sl_network};

/// Unfinished operations: the entry in the tool's directory, and what it is.
const OPERATIONS_IN_PROGRESS: &[(&str, &str)] = &[
    ("rebasestate", "a rebase"),
    ("histedit-state", "a histedit"),
    ("graftstate", "a graft"),
    ("shelvedstate", "an unshelve"),
    ("updatestate", "an update"),
    ("updatemergestate", "an update"),
    ("bisect.state", "a bisection"),
];

pub(super) struct HgSync<'a> {
    work: &'a Work<'a>,
    is_sapling: bool,
    /// Settings that define the remote; none if there is no remote.
    remote: Option<Vec<String>>,
    /// The branch that is checked out; for Sapling, the remote bookmark.
    branch: String,
    /// The commit of the remote branch.
    upstream: Option<String>,
}

/// Checks the preconditions, and reads the branch and its remote.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<HgSync<'a>> {
    let is_sapling = work.request.checkout.vcs == Vcs::Sl;
    let mut sync = HgSync { work, is_sapling, remote: None, branch: String::new(), upstream: None };
    sync.check()?;
    sync.remote = hg_layout::remote(work.request.checkout, work.request.root, "default")?;
    if is_sapling {
        let followed = sync.log("last(::. and remotebookmark())", "{remotebookmarks}")?;
        sync.branch = followed.split_whitespace().next().map(str::to_owned).unwrap_or_default();
        if sync.branch.is_empty() {
            sync.remote = None;
        }
    } else {
        sync.branch = sync.tool()?.arg("branch").stdout()?;
    }
    if sync.remote.is_none() {
        work.note("there is no remote, so there is nothing to push to".to_owned());
    }
    if !work.request.dry_run {
        sync.delete_shares()?;
    }
    Ok(sync)
}

impl Adapter for HgSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        if self.remote.is_none() {
            return Ok(None);
        }
        let unreachable = |error: &Error| unreachable("cannot pull from the default path", error);
        self.work.say("Pulling");
        if self.is_sapling {
            self.work
                .change(self.network_tool()?.args(["pull", "--quiet"]), "")
                .map_err(|error| unreachable(&error))?;
            self.upstream = Some(self.log(&self.branch, "{node}")?).filter(|node| !node.is_empty());
            return Ok(self.upstream.clone());
        }
        let rev = format!("--rev={}", self.branch);
        let known = self.network_tool()?.args(["identify", "--template={id}", &rev, "default"]).stdout();
        let tip = match known {
            Ok(tip) => tip,
            Err(error) if error.kind() == Kind::Unavailable => return Err(unreachable(&error)),
            Err(_) => {
                // The remote may not have the branch yet.
                self.network_tool()?.args(["identify", "default"]).stdout().map_err(|error| unreachable(&error))?;
                self.upstream = None;
                return Ok(None);
            }
        };
        let pull = self.network_tool()?.args(["pull", "--quiet", &format!("--rev={tip}"), "default"]);
        self.work.change(pull, "").map_err(|error| unreachable(&error))?;
        let is_known = !self.work.request.dry_run || self.tool()?.args(["log", &format!("--rev={tip}")]).succeeds()?;
        self.upstream = Some(tip).filter(|_| is_known);
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        self.check()?;
        let parent = self.parent()?;
        if is_null(&parent) && (self.upstream.is_some() || (self.work.ledger.read)()?.is_some()) {
            let upstream = self.upstream.is_some().then_some("the remote");
            return Err(no_commits_error(upstream, &self.update_command()));
        }
        let plan = self.plan(&parent)?;
        let theirs = self.content(self.upstream.as_deref())?;
        let base = match &self.upstream {
            Some(upstream) => self.log(&format!("ancestor({parent}, {upstream})"), "{node}")?,
            None => String::new(),
        };
        let base = self.content(Some(base.as_str()).filter(|base| !base.is_empty()))?;
        let Some(merged) = self.work.merge(base.as_deref(), theirs.as_deref())? else {
            self.work.note("there is no ledger yet".to_owned());
            return Ok(Round::Done { committed: None, pushed: None });
        };
        self.ensure_tracked(theirs.is_some())?;
        let mut committed = None;
        if let (Some(upstream), Some(is_merge)) = (&self.upstream, plan) {
            // Sapling users rebase instead of merging.
            let target = if is_merge && !self.is_sapling {
                let merge = self.merge(&parent, upstream, &merged)?;
                committed = Some(merge.clone());
                merge
            } else {
                upstream.clone()
            };
            self.update_to(&target, &merged)?;
        }
        if self.is_changed()? {
            self.work.say("Committing the ledger");
            let message = format!("--message={}", COMMIT_MESSAGE.trim_end());
            self.work.change(self.tool()?.args(["commit", &message, "--", &self.pattern()]), "")?;
            committed = Some(if self.work.request.dry_run { "COMMIT".to_owned() } else { self.parent()? });
        }
        if let (Some(upstream), Some(true), true) = (&self.upstream, plan, self.is_sapling) {
            self.hide(&parent, upstream)?;
        }
        let tip = match &committed {
            Some(commit) => commit.clone(),
            None if self.work.request.dry_run => self.upstream.clone().unwrap_or_default(),
            None => self.parent()?,
        };
        let mut pushed = None;
        if self.remote.is_some() && self.upstream.as_deref() != Some(tip.as_str()) {
            if self.work.request.push == Push::Nothing {
                self.work.note("nothing was pushed".to_owned());
            } else if self.upstream.is_none() {
                self.work.note(format!("the remote has no {} yet, so nothing was pushed; push it once", self.branch));
            } else {
                self.work.say("Pushing");
                if let Err(error) = self.push(&tip) {
                    return Ok(Round::Rejected(error));
                }
                pushed = Some(tip);
            }
        }
        Ok(Round::Done { committed, pushed })
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(|_| self.branch.clone())
    }
}

impl HgSync<'_> {
    fn tool(&self) -> Result<Tool> {
        let root = self.work.request.root;
        if self.is_sapling { sl(root) } else { Ok(hg(root)) }
    }

    /// A command with the remote's settings. Mercurial does not read the repository's own configuration, which has
    /// them.
    fn network_tool(&self) -> Result<Tool> {
        let settings = self.remote.iter().flatten().map(|setting| format!("--config={setting}"));
        let root = self.work.request.root;
        let own = self.work.request.network;
        let tool = if self.is_sapling { sl_network(root, own)? } else { hg_network(root, own) };
        Ok(tool.args(settings))
    }

    /// Returns a pattern that matches the ledger's file literally.
    fn pattern(&self) -> String {
        format!("path:{}", self.work.request.path)
    }

    fn log(&self, revisions: &str, template: &str) -> Result<String> {
        self.tool()?.args(["log", &format!("--rev={revisions}"), &format!("--template={template}")]).stdout()
    }

    /// Returns the commit that the worktree is based on.
    fn parent(&self) -> Result<String> {
        self.log(".", "{node}")
    }

    /// Returns the ledger's content in a commit.
    fn content(&self, commit: Option<&str>) -> Result<Option<Vec<u8>>> {
        let Some(commit) = commit.filter(|commit| !is_null(commit)) else { return Ok(None) };
        self.tool()?.args(["cat", &format!("--rev={commit}"), "--", &self.pattern()]).bytes_or_none()
    }

    /// Refuses during an unfinished operation or conflict.
    fn check(&self) -> Result<()> {
        let own = self.work.request.root.join(if self.is_sapling { ".sl" } else { ".hg" });
        let under_way = OPERATIONS_IN_PROGRESS.iter().find(|(mark, _)| own.join(mark).exists()).map(|(_, what)| *what);
        let parents = self.log("parents()", r"{node}\n")?;
        let under_way = under_way.or_else(|| (parents.lines().count() > 1).then_some("a merge"));
        if let Some(what) = under_way {
            return Err(Error::refused(format!("{what} is under way")).hint("finish or abort it"));
        }
        // An update or another operation may have left conflicts.
        if own.join("merge").exists() {
            let files = self.tool()?.args(["resolve", "--list"]).stdout()?;
            if let Some(file) = files.lines().find_map(|line| line.strip_prefix("U ")) {
                return Err(Error::refused(format!("{file} has an unresolved conflict"))
                    .hint(format!("{} resolve --mark {file} accepts the content of the file", self.name())));
            }
        }
        Ok(())
    }

    /// Decides whether the worktree must move to another commit, and whether that is a merge. Refuses if any file but
    /// the ledger would be changed or pushed.
    fn plan(&self, parent: &str) -> Result<Option<bool>> {
        let Some(upstream) = &self.upstream else { return Ok(None) };
        let is_of_ledger = |files: &str| {
            let mut files = files.split('\0').filter(|file| !file.is_empty()).peekable();
            files.peek().is_some() && files.all(|file| file == self.work.request.path)
        };
        let own = self.log(&format!("only({parent}, {upstream})"), r"{join(files, '\0')}\0\n")?;
        if self.work.request.push != Push::Branch && !own.lines().all(is_of_ledger) {
            return Err(Error::refused(
                "there are unpushed commits of other files, which would be pushed with the ledger",
            )
            .hint(format!("push them first: {} push; or push both: way sync --push-commits", self.name())));
        }
        if self.log(&format!("{upstream} and ::{parent}"), "x")? == "x" {
            return Ok(None);
        }
        let between = [format!("--rev={parent}"), format!("--rev={upstream}")];
        let differ = self.tool()?.args(["status", "--no-status", "--print0"]).args(between).stdout()?;
        if !differ.is_empty() && !is_of_ledger(&differ) {
            return Err(Error::refused("the remote changed other files, so the worktree would have to be updated")
                .hint(format!("update first: {}", self.update_command())));
        }
        Ok(Some(!own.is_empty()))
    }

    /// Returns the command that updates the worktree to the remote's files.
    fn update_command(&self) -> String {
        if self.is_sapling { format!("sl goto {}", self.branch) } else { "hg update".to_owned() }
    }

    fn name(&self) -> &'static str {
        if self.is_sapling { "sl" } else { "hg" }
    }

    /// Returns the status letter of the ledger's file.
    fn status(&self) -> Result<Option<char>> {
        let status = self.tool()?.args(["status", "--all", "--", &self.pattern()]).stdout()?;
        Ok(status.chars().next())
    }

    fn is_changed(&self) -> Result<bool> {
        Ok(matches!(self.status()?, Some('M' | 'A')) || (self.work.request.dry_run && self.status()? != Some('C')))
    }

    /// Adds the ledger to version control, if it is not tracked yet.
    fn ensure_tracked(&self, is_known: bool) -> Result<()> {
        let path = self.work.request.path;
        match self.status()? {
            Some('I') if !is_known => {
                Err(Error::refused(format!("{path} is ignored by {} here, so it is not synced", self.name()))
                    .hint(format!("if it should be: {} add {path}", self.name())))
            }
            Some('R') => Err(Error::refused(format!("{path} is marked as removed"))
                .hint(format!("commit that, or undo it: {} add {path}", self.name()))),
            Some('?' | 'I') => self.work.change(self.tool()?.args(["add", "--", &self.pattern()]), "").map(drop),
            _ => Ok(()),
        }
    }

    /// Updates the worktree to a commit that differs only in the ledger, and keeps the ledger's file.
    fn update_to(&self, commit: &str, merged: &[u8]) -> Result<()> {
        let verb = if self.is_sapling { "goto" } else { "update" };
        let options = ["--quiet", "--merge", "--tool=:local"];
        let update = || Ok(self.tool()?.arg(verb).args(options).arg(format!("--rev={commit}")));
        if self.work.request.dry_run {
            return self.work.change(update()?, "").map(drop);
        }
        // Under the ledger's lock, so that no other process writes the file while it is replaced.
        (self.work.ledger.change)(&|now| update()?.stdout().map(|_| now.to_vec()))?;
        let there = self.content(Some(commit))?;
        (self.work.ledger.change)(&|now| (self.work.ledger.merge)(there.as_deref(), now, merged)).map(drop)
    }

    /// Merges two commits that differ only in the ledger, in a separate share, because the user's worktree may have
    /// changes.
    fn merge(&self, parent: &str, upstream: &str, merged: &[u8]) -> Result<String> {
        let share = self.work.request.checkout.private_dir.join(format!("sync-share-{}", std::process::id()));
        let make = ["share", "--config", "extensions.share=", "--quiet", "--noupdate", "--"];
        self.work.change(self.tool()?.args(make).arg(self.work.request.root).arg(&share), "")?;
        let there = |args: &[&str]| self.work.change(hg(&share).args(args), "COMMIT");
        there(&["update", "--quiet", &format!("--rev={parent}")])?;
        there(&["merge", "--quiet", "--tool=:local", &format!("--rev={upstream}")])?;
        if self.work.request.dry_run {
            return Ok("COMMIT".to_owned());
        }
        let file = share.join(self.work.request.path);
        waypost_fs::replace(&file, merged, 0o644)
            .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
        there(&["commit", &format!("--message={}", COMMIT_MESSAGE.trim_end())])?;
        let commit = there(&["log", "--rev=.", "--template={node}"])?;
        self.delete_shares()?;
        Ok(commit)
    }

    /// Hides ledger commits that a newer one replaces, except those below bookmarks or other commits.
    fn hide(&self, from: &str, upstream: &str) -> Result<()> {
        let own = format!("only({from}, {upstream})");
        let unused = format!("{own} - ::(bookmark() + (descendants({own}) - {own}))");
        let unused = if self.work.request.dry_run { own } else { self.log(&unused, r"{node}\n")? };
        if unused.is_empty() {
            return Ok(());
        }
        let revisions = unused.lines().map(|commit| format!("--rev={commit}"));
        self.work.change(self.tool()?.args(["hide", "--quiet"]).args(revisions), "").map(drop)
    }

    fn push(&self, commit: &str) -> Result<()> {
        let rev = format!("--rev={commit}");
        let push = self.network_tool()?.args(["push", "--quiet", &rev]);
        let push = if self.is_sapling {
            let bookmark = self.branch.split_once('/').map_or(self.branch.as_str(), |(_, bookmark)| bookmark);
            push.arg(format!("--to={bookmark}"))
        } else {
            push.arg("default")
        };
        self.work.change(push, "").map(drop)
    }

    /// Deletes the shares of interrupted syncs.
    fn delete_shares(&self) -> Result<()> {
        let dir = &self.work.request.checkout.private_dir;
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let is_share = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sync-share-")) && path.is_dir()
        };
        for share in entries.map(|entry| entry.path()).filter(is_share) {
            let identity = FileIdentity::of(&share)
                .map_err(|error| Error::unavailable(format!("cannot read {}", share.display())).because(error))?;
            remove_tree(&share, identity)?;
        }
        Ok(())
    }
}

fn is_null(commit: &str) -> bool {
    commit.bytes().all(|byte| byte == b'0')
}
