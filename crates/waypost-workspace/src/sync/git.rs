//! Sync with git.
//!
//! Commits are made from objects, without the user's index and files. The branch moves only if it is still at the
//! commit that was read, and only the ledger's entry in the index changes. So git status shows no other changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result, url_text};

use super::locks::OwnLocks;
use super::objects::{Objects, Record, Remote, TreeEntry};
use super::{Adapter, Push, Round, Work, no_commits_error};
use crate::vcs::git_layout::{self, OPERATIONS_IN_PROGRESS};
use crate::vcs::is_same_place;
use crate::vcs::run::Git;

/// The maximum time to wait for another git that holds the index lock.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct GitSync<'a> {
    objects: Objects<'a>,
    work: &'a Work<'a>,
    git_dir: PathBuf,
    locks: OwnLocks,
    /// The full name of the branch that is checked out.
    branch: String,
    remote: Option<Remote>,
    /// The commit of the remote branch.
    upstream: Option<String>,
}

/// The local state.
struct LocalState {
    /// The commit of the branch; none before the first one.
    head: Option<String>,
    /// The ledger's entry in that commit.
    entry: Option<TreeEntry>,
    /// The ledger's entry in the index.
    staged: Option<TreeEntry>,
}

/// How the commits of both sides are combined.
enum Combination {
    /// The branch and the remote get the same commit.
    Together {
        /// The commit whose tree it gets, except for the ledger.
        tree_of: Option<String>,
        /// Its parents.
        parents: Vec<String>,
    },
    /// The branch and the remote have different files, so each gets its own commit.
    Apart {
        head: String,
        upstream: String,
        /// Whether the remote's commits that the branch lacks change only the ledger. Then the branch's new commit
        /// merges the remote's, so that the branch does not diverge.
        joins: bool,
        /// Whether the branch has unpushed commits that change other files.
        has_own_commits: bool,
    },
}

/// Checks the preconditions, and reads the branch and its remote.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<GitSync<'a>> {
    let request = &work.request;
    let found = git_layout::open(request.root)?.and_then(|found| found.git_dir);
    if !matches!((&found, &request.checkout.git_dir), (Some(found), Some(known)) if is_same_place(found, known)) {
        return Err(Error::refused(format!("the git directory of {} is elsewhere", request.root.display()))
            .hint("unset GIT_DIR and GIT_WORK_TREE"));
    }
    let objects = Objects::new(Git::in_worktree(request.root)?, work);
    let git_dir = objects.offline().args(["rev-parse", "--absolute-git-dir"]).path()?;
    check_under_way(&git_dir)?;
    check_filter(&objects, request.path)?;
    let branch = branch_of(&objects)?;
    let common_dir = found.as_deref().unwrap_or(&git_dir);
    let locks = OwnLocks::new(&request.checkout.private_dir, request.root, &git_dir, common_dir, &branch);
    if !request.dry_run {
        objects.sweep(common_dir);
        locks.clear()?;
    }
    let mut sync = GitSync { objects, work, git_dir, locks, branch, remote: None, upstream: None };
    sync.read_state()?;
    sync.remote = sync.objects.find_remote(&sync.branch)?;
    Ok(sync)
}

/// Refuses during an unfinished operation, in which often no branch is checked out.
fn check_under_way(git_dir: &Path) -> Result<()> {
    match OPERATIONS_IN_PROGRESS.iter().find(|(mark, ..)| git_dir.join(mark).exists()) {
        Some((_, what, end)) => Err(Error::refused(format!("{what} is under way")).hint(*end)),
        None => Ok(()),
    }
}

/// Refuses a ledger that another program stores: sync pushes commits, not what they point to, and runs no filters of the
/// repository.
fn check_filter(objects: &Objects<'_>, path: &str) -> Result<()> {
    let answer = objects.offline().args(["check-attr", "-z", "filter", "--", path]).stdout()?;
    let problem = match answer.split('\0').nth(2).unwrap_or_default() {
        "lfs" => "Git LFS stores the ledger",
        filter if filter.starts_with("git-crypt") => "git-crypt encrypts the ledger",
        filter if objects.is_off(filter) => {
            "a filter of the repository changes the ledger, and way runs no such filters"
        }
        _ => return Ok(()),
    };
    Err(Error::refused(format!("{problem}, according to git's attributes; way sync would commit it as it is"))
        .hint(format!("commit and push with git, or add this line at the end of .gitattributes: /{path} !filter")))
}

fn branch_of(objects: &Objects<'_>) -> Result<String> {
    let branch = objects.offline().args(["symbolic-ref", "--quiet", "HEAD"]).stdout_or_none()?;
    branch.filter(|branch| branch.starts_with("refs/heads/")).ok_or_else(|| {
        Error::refused("no branch is checked out, so there is no branch to sync").hint("git switch BRANCH")
    })
}

impl Adapter for GitSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        self.upstream = self.objects.fetch_upstream(remote)?;
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        let here = self.read_state()?;
        if here.head.is_none() && (self.upstream.is_some() || (self.work.ledger.read)()?.is_some()) {
            let upstream = self.upstream.as_ref().and(self.remote.as_ref()).map(Remote::shown);
            return Err(no_commits_error(upstream.as_deref(), "git pull"));
        }
        let theirs = self.upstream.as_deref().map(|commit| self.objects.entry(commit)).transpose()?.flatten();
        let base = self.objects.base(&self.branch, here.head.as_deref(), self.upstream.as_deref())?;
        let content = |entry: &Option<TreeEntry>| entry.as_ref().map(|entry| self.objects.content(entry)).transpose();
        let merged = self.work.merge(content(&base)?.as_deref(), content(&theirs)?.as_deref())?;
        let Some(merged) = merged else {
            self.work.note("there is no ledger yet".to_owned());
            return Ok(Round::Done { committed: None, pushed: None });
        };
        if here.entry.is_none() && theirs.is_none() {
            self.check_not_ignored()?;
        }
        let known = theirs.as_ref().or(here.entry.as_ref());
        let mode = known.map_or_else(|| "100644".to_owned(), |entry| entry.mode.clone());
        let ledger = TreeEntry { mode, blob: self.objects.store(&merged)? };
        self.commit(&here, theirs.as_ref(), &ledger)
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(Remote::shown)
    }
}

impl GitSync<'_> {
    /// Reads the local state, and refuses changes that the user staged.
    fn read_state(&self) -> Result<LocalState> {
        check_under_way(&self.git_dir)?;
        if branch_of(&self.objects)? != self.branch {
            return Err(Error::refused("another branch was checked out meanwhile").hint("try again: way sync"));
        }
        let head = self.objects.resolve(&self.branch)?;
        let entry = head.as_deref().map(|head| self.objects.entry(head)).transpose()?.flatten();
        let staged = self.staged()?;
        let here = LocalState { head, entry, staged };
        self.check_staged(&here)?;
        Ok(here)
    }

    /// Returns the ledger's entry in the index.
    fn staged(&self) -> Result<Option<TreeEntry>> {
        let path = format!(":(top,literal){}", self.work.request.path);
        let listed = self.objects.offline().args(["ls-files", "--stage", "-z", "--", &path]).stdout()?;
        let mut entries = listed.split('\0').filter_map(|entry| entry.split_once('\t')).map(|(facts, _)| facts);
        let Some(facts) = entries.next() else { return Ok(None) };
        match facts.split(' ').collect::<Vec<_>>().as_slice() {
            [mode, blob, "0"] => Ok(Some(TreeEntry { mode: (*mode).to_owned(), blob: (*blob).to_owned() })),
            _ => Err(Error::refused(format!("{} has an unresolved conflict", self.work.request.path))
                .hint(format!("git add {} accepts the content of the file", self.work.request.path))),
        }
    }

    /// Refuses if the user staged a content of the ledger that is neither committed nor in the file.
    fn check_staged(&self, here: &LocalState) -> Result<()> {
        let Some(staged) = &here.staged else {
            if here.entry.is_some() {
                return Err(self.staged_error("its deletion is staged"));
            }
            return Ok(());
        };
        let is_committed = here.entry.as_ref().is_some_and(|entry| entry.blob == staged.blob);
        if is_committed || self.is_staged_by_sync(staged) {
            return Ok(());
        }
        let file = (self.work.ledger.read)()?.unwrap_or_default();
        // `git add --intent-to-add` stages an empty content.
        if self.objects.name_of(&file)? == staged.blob || self.objects.name_of(b"")? == staged.blob {
            return Ok(());
        }
        Err(self.staged_error("the staged content is neither committed nor in the file"))
    }

    /// Returns whether an interrupted sync staged this entry.
    fn is_staged_by_sync(&self, staged: &TreeEntry) -> bool {
        self.objects.read_record(&self.branch).is_some_and(|record| record.staged.contains(&staged.blob))
    }

    fn staged_error(&self, why: &str) -> Error {
        let path = self.work.request.path;
        Error::refused(format!("{path} has staged changes"))
            .because(why)
            .hint(format!("commit it, or unstage it: git restore --staged {path}"))
    }

    /// Refuses to commit a ledger that git ignores.
    fn check_not_ignored(&self) -> Result<()> {
        let path = self.work.request.path;
        if self.objects.offline().args(["check-ignore", "--quiet", "--", path]).succeeds()? {
            return Err(Error::refused(format!("{path} is ignored by git here, so it is not synced"))
                .hint(format!("if it should be: git add --force {path}")));
        }
        Ok(())
    }

    /// Returns whether sync may push to the remote that the branch follows.
    fn may_push(&self) -> bool {
        self.work.request.push != Push::Nothing && self.remote.as_ref().is_some_and(|remote| remote.pushes_to.is_none())
    }

    fn plan(&self, here: &LocalState) -> Result<Combination> {
        let (head, upstream) = match (&here.head, &self.upstream) {
            (Some(head), Some(upstream)) => (head, upstream),
            (head, _) => {
                let parents = head.iter().cloned().collect();
                return Ok(Combination::Together { tree_of: head.clone(), parents });
            }
        };
        let pushes_branch = self.work.request.push == Push::Branch;
        let is_ahead = self.objects.is_ancestor(upstream, head)?;
        // The user's own unpushed commits are pushed only if the user allows it.
        let is_ours = self.objects.are_of_ledger(upstream, head)? || seeded_bug("push_everything");
        if is_ahead && (is_ours || pushes_branch) {
            return Ok(Combination::Together { tree_of: Some(head.clone()), parents: vec![head.clone()] });
        }
        let is_behind = self.objects.is_ancestor(head, upstream)?;
        if (is_behind || is_ours) && self.objects.is_same_but_for_ledger(head, upstream)? {
            let mut parents = vec![upstream.clone()];
            if !is_behind {
                parents.insert(0, head.clone());
            }
            return Ok(Combination::Together { tree_of: Some(upstream.clone()), parents });
        }
        let joins = self.objects.are_of_ledger(head, upstream)?;
        if joins && pushes_branch {
            let parents = vec![head.clone(), upstream.clone()];
            return Ok(Combination::Together { tree_of: Some(head.clone()), parents });
        }
        Ok(Combination::Apart { head: head.clone(), upstream: upstream.clone(), joins, has_own_commits: !is_ours })
    }

    fn commit(&self, here: &LocalState, theirs: Option<&TreeEntry>, ledger: &TreeEntry) -> Result<Round> {
        let is_same = |entry: Option<&TreeEntry>| entry.is_some_and(|entry| entry.blob == ledger.blob);
        // Returns the ledger's entry in one of the two known commits.
        let entry_of = |commit: &str| if here.head.as_deref() == Some(commit) { here.entry.as_ref() } else { theirs };
        let (local, remote) = match self.plan(here)? {
            Combination::Together { tree_of, parents } => {
                let commit = match parents.as_slice() {
                    [only] if is_same(entry_of(only)) => only.clone(),
                    _ => {
                        self.work.say("Committing the ledger");
                        let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
                        self.objects.commit(tree_of.as_deref(), &parents, ledger)?
                    }
                };
                (commit.clone(), commit)
            }
            Combination::Apart { head, upstream, joins, has_own_commits } => {
                let make = |on: &str, parents: &[&str]| {
                    self.work.say("Committing the ledger");
                    self.objects.commit(Some(on), parents, ledger)
                };
                let pushes = self.may_push() && !is_same(theirs);
                let remote = if pushes { make(&upstream, &[&upstream])? } else { upstream.clone() };
                // The remote's commits change only the ledger, so a merge has the other files of the branch.
                let merges = joins && (pushes || !self.objects.is_ancestor(&upstream, &head)?);
                let local = if is_same(here.entry.as_ref()) && !(merges && pushes) {
                    head
                } else {
                    let parents = [head.as_str(), remote.as_str()];
                    make(&head, if merges { &parents } else { &parents[..1] })?
                };
                if pushes && has_own_commits {
                    let how = "way sync --push-commits pushes them too";
                    self.work.note(format!("your own unpushed commits are not pushed with the ledger; {how}"));
                }
                if !joins && here.head.as_ref() != Some(&local) {
                    let upstream = self.remote.as_ref().map(Remote::shown).unwrap_or_default();
                    self.work.note(format!("{upstream} has commits that this branch lacks; git pull joins the two"));
                }
                (local, remote)
            }
        };
        let mut pushed = None;
        if let Some(target) = &self.remote
            && (self.upstream.as_deref() != Some(remote.as_str()) || !is_same(theirs))
        {
            if self.work.request.push == Push::Nothing {
                self.work.note(format!("nothing was pushed to {}", target.shown()));
            } else if let Some(other) = &target.pushes_to {
                let other = url_text::without_password(other);
                let (from, how) = (target.shown(), "so nothing was pushed; use git push");
                self.work.note(format!("this branch follows {from} but is pushed to {other}, {how}"));
            } else if self.upstream.is_none() {
                self.work
                    .note(format!("{} is not there yet, so nothing was pushed; git push creates it", target.shown()));
            } else {
                self.work.say(&format!("Pushing to {}", target.shown()));
                if let Err(error) = self.objects.push(&target.name, &remote, &target.branch) {
                    return Ok(Round::Rejected(error));
                }
                pushed = Some(remote.clone());
            }
        }
        if here.head.as_deref() == Some(local.as_str()) {
            if here.staged.as_ref().is_some_and(|staged| self.is_staged_by_sync(staged)) {
                self.stage(here.entry.as_ref())?;
            }
            // Only record the merge.
            self.objects.write_record(&self.branch, &Record { local, upstream: remote, staged: Vec::new() })?;
            return Ok(Round::Done { committed: None, pushed });
        }
        // Until the branch has moved, the index has one of these contents, whatever fails meanwhile.
        let ours = here.staged.iter().filter(|staged| self.is_staged_by_sync(staged)).map(|staged| staged.blob.clone());
        let mut staged: Vec<String> = std::iter::once(ledger.blob.clone()).chain(ours).collect();
        staged.dedup();
        self.objects.write_record(&self.branch, &Record { local: local.clone(), upstream: remote, staged })?;
        if !self.move_branch(here, &local, ledger)? {
            return Ok(Round::Moved);
        }
        // The remote's own commit was not made by this sync.
        let committed = Some(local).filter(|local| self.upstream.as_ref() != Some(local));
        Ok(Round::Done { committed, pushed })
    }

    /// Moves the branch to a commit that differs only in the ledger. Returns false if the branch moved meanwhile.
    fn move_branch(&self, here: &LocalState, to: &str, ledger: &TreeEntry) -> Result<bool> {
        // Update the index first: a concurrent commit of the user then contains the new ledger, not the old one.
        self.stage(Some(ledger))?;
        let from = here.head.as_deref().unwrap_or_default();
        let moved =
            self.objects.offline().args(["update-ref", "-m", "way sync: the ledger", "--", &self.branch, to, from]);
        let Err(error) = self.locks.run_on_branch(to, || self.work.change(moved, "")) else { return Ok(true) };
        if self.objects.resolve(&self.branch)? == here.head {
            let _ = self.stage(here.staged.as_ref());
            return Err(error);
        }
        // The next attempt recognizes the staged entry by the record.
        Ok(false)
    }

    /// Replaces the ledger's entry in the user's index, and no other entry.
    fn stage(&self, entry: Option<&TreeEntry>) -> Result<()> {
        if self.staged()?.as_ref() == entry {
            return Ok(());
        }
        let path = self.work.request.path;
        let deadline = Instant::now() + INDEX_LOCK_TIMEOUT;
        loop {
            let update = self.objects.offline().arg("update-index");
            let update = match entry {
                Some(TreeEntry { mode, blob }) => {
                    update.args(["--add", "--cacheinfo", &format!("{mode},{blob},{path}")])
                }
                None => update.args(["--force-remove", "--", path]),
            };
            let written = self.locks.run_on_index(entry.map(|entry| entry.blob.as_str()).unwrap_or_default(), || {
                self.work.change(update, "")
            });
            let Err(error) = written else { return Ok(()) };
            let lock = self.git_dir.join("index.lock");
            if !lock.exists() || Instant::now() >= deadline {
                return Err(Error::unavailable("cannot write git's index")
                    .because(error.full_message())
                    .hint(format!("if no other git is running, delete {}", lock.display())));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}
