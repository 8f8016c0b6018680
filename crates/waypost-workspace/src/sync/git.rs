//! A ledger under git.
//!
//! Commits are made of objects, beside the user's index and files. The branch is moved only from where it was seen, and
//! of the index only the ledger's entry, so that git finds nothing changed that was not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::{Error, Result, url_text};

use super::locks::OwnLocks;
use super::objects::{Objects, Record, Remote, TreeEntry};
use super::{Adapter, Round, Work};
use crate::vcs::git_layout::{self, OPERATIONS_IN_PROGRESS};
use crate::vcs::is_same_place;
use crate::vcs::run::Git;

/// How long another git that has the index is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct GitSync<'a> {
    objects: Objects<'a>,
    work: &'a Work<'a>,
    git_dir: PathBuf,
    locks: OwnLocks,
    /// The branch that is checked out, by its whole name.
    branch: String,
    remote: Option<Remote>,
    /// The commit that the remote is at.
    upstream: Option<String>,
}

/// The user's side of it.
struct Here {
    /// The commit of the branch; none before the first one.
    head: Option<String>,
    /// What that has at the ledger's path.
    entry: Option<TreeEntry>,
    /// What the index has there.
    staged: Option<TreeEntry>,
}

/// What is to be done with the commits of both sides.
enum Plan {
    /// The branch and the remote get the same commit.
    Together {
        /// Whose tree it has, but for the ledger.
        tree_of: Option<String>,
        /// Its parents.
        parents: Vec<String>,
    },
    /// The branch and the remote have different files, so each gets a commit of its own.
    Apart { head: String, upstream: String },
}

/// Finds out whether it can be done at all.
pub(super) fn open<'a>(work: &'a Work<'a>) -> Result<GitSync<'a>> {
    let request = &work.request;
    let found = git_layout::open(request.root)?.and_then(|found| found.git_dir);
    if !matches!((&found, &request.checkout.git_dir), (Some(found), Some(known)) if is_same_place(found, known)) {
        return Err(Error::refused(format!("the git directory of {} is elsewhere", request.root.display()))
            .hint("unset GIT_DIR and GIT_WORK_TREE"));
    }
    let objects = Objects::new(Git::in_worktree(request.root)?, work);
    let git_dir = objects.look().args(["rev-parse", "--absolute-git-dir"]).path()?;
    check_under_way(&git_dir)?;
    let branch = branch_of(&objects)?;
    let common_dir = found.as_deref().unwrap_or(&git_dir);
    let locks = OwnLocks::new(&request.checkout.private_dir, request.root, &git_dir, common_dir, &branch);
    if !request.is_rehearsal {
        objects.sweep(common_dir);
        locks.clear()?;
    }
    let mut sync = GitSync { objects, work, git_dir, locks, branch, remote: None, upstream: None };
    sync.look()?;
    sync.remote = sync.find_remote()?;
    Ok(sync)
}

/// Refuses while something is under way. While it is, often no branch is checked out.
fn check_under_way(git_dir: &Path) -> Result<()> {
    match OPERATIONS_IN_PROGRESS.iter().find(|(mark, ..)| git_dir.join(mark).exists()) {
        Some((_, what, end)) => Err(Error::refused(format!("{what} is under way")).hint(*end)),
        None => Ok(()),
    }
}

fn branch_of(objects: &Objects<'_>) -> Result<String> {
    let branch = objects.look().args(["symbolic-ref", "--quiet", "HEAD"]).stdout_or_none()?;
    branch
        .filter(|branch| branch.starts_with("refs/heads/"))
        .ok_or_else(|| Error::refused("no branch is checked out, so there is none to sync").hint("git switch BRANCH"))
}

impl Adapter for GitSync<'_> {
    fn fetch(&mut self) -> Result<Option<String>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        if self.work.request.is_rehearsal {
            let known = remote.branch.strip_prefix("refs/heads/").unwrap_or(&remote.branch);
            self.upstream = self.objects.resolve(&format!("refs/remotes/{}/{known}", remote.name))?;
        }
        self.work.say(&format!("Fetching {}", remote.shown()));
        let fetched = self.objects.fetch(remote, &Objects::mark())?;
        if !self.work.request.is_rehearsal {
            self.upstream = fetched;
        }
        Ok(self.upstream.clone())
    }

    fn round(&mut self) -> Result<Round> {
        let here = self.look()?;
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
        let ledger = TreeEntry { mode, blob: self.objects.keep(&merged)? };
        self.commit(&here, theirs.as_ref(), &ledger)
    }

    fn upstream(&self) -> Option<String> {
        self.remote.as_ref().map(Remote::shown)
    }
}

impl GitSync<'_> {
    /// Looks at the user's side, and refuses what is not ours to touch.
    fn look(&self) -> Result<Here> {
        check_under_way(&self.git_dir)?;
        if branch_of(&self.objects)? != self.branch {
            return Err(Error::refused("another branch was checked out meanwhile").hint("try again: way sync"));
        }
        let head = self.objects.resolve(&self.branch)?;
        let entry = head.as_deref().map(|head| self.objects.entry(head)).transpose()?.flatten();
        let staged = self.staged()?;
        let here = Here { head, entry, staged };
        self.check_staged(&here)?;
        Ok(here)
    }

    /// Returns what the index has at the ledger's path.
    fn staged(&self) -> Result<Option<TreeEntry>> {
        let path = format!(":(top,literal){}", self.work.request.path);
        let said = self.objects.look().args(["ls-files", "--stage", "-z", "--", &path]).stdout()?;
        let mut entries = said.split('\0').filter_map(|entry| entry.split_once('\t')).map(|(facts, _)| facts);
        let Some(facts) = entries.next() else { return Ok(None) };
        match facts.split(' ').collect::<Vec<_>>().as_slice() {
            [mode, blob, "0"] => Ok(Some(TreeEntry { mode: (*mode).to_owned(), blob: (*blob).to_owned() })),
            _ => Err(Error::refused(format!("{} has a conflict that waits to be resolved", self.work.request.path))
                .hint(format!("git add {} takes what is in the file", self.work.request.path))),
        }
    }

    /// Refuses a ledger of which the user staged something that is neither committed nor in the file.
    fn check_staged(&self, here: &Here) -> Result<()> {
        let Some(staged) = &here.staged else {
            if here.entry.is_some() {
                return Err(self.staged_otherwise("its deletion is staged"));
            }
            return Ok(());
        };
        let is_committed = here.entry.as_ref().is_some_and(|entry| entry.blob == staged.blob);
        if is_committed || self.is_staged_by_us(staged) {
            return Ok(());
        }
        let file = (self.work.ledger.read)()?.unwrap_or_default();
        // Nothing at all is staged when git was told of the file and not of what is in it.
        if self.objects.name_of(&file)? == staged.blob || self.objects.name_of(b"")? == staged.blob {
            return Ok(());
        }
        Err(self.staged_otherwise("what is staged of it is neither committed nor in the file"))
    }

    /// Returns whether a sync that did not come to its end staged this.
    fn is_staged_by_us(&self, staged: &TreeEntry) -> bool {
        self.objects.record(&self.branch).is_some_and(|record| record.staged.contains(&staged.blob))
    }

    fn staged_otherwise(&self, why: &str) -> Error {
        let path = self.work.request.path;
        Error::refused(format!("{path} is staged by somebody"))
            .because(why)
            .hint(format!("commit it, or unstage it: git restore --staged {path}"))
    }

    /// Refuses to commit a ledger that is kept out of version control here.
    fn check_not_ignored(&self) -> Result<()> {
        let path = self.work.request.path;
        if self.objects.look().args(["check-ignore", "--quiet", "--", path]).succeeds()? {
            return Err(Error::refused(format!("{path} is ignored by git here, so it is not synced"))
                .hint(format!("if it should be: git add --force {path}")));
        }
        Ok(())
    }

    /// Finds out where the branch is pushed to.
    fn find_remote(&self) -> Result<Option<Remote>> {
        let name = self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch);
        // All at once: a file that git cannot read must not hide one setting and not another.
        let wanted = r"^(branch\..*\.(remote|merge|pushremote)|remote\.(origin\.url|pushdefault))$";
        let settings =
            self.objects.look().args(["config", "-z", "--get-regexp", wanted]).stdout_or_none()?.unwrap_or_default();
        let setting = |key: &str| -> Option<String> {
            let values = settings.split('\0').filter_map(|setting| setting.split_once('\n'));
            let value = values.rev().find(|(known, _)| *known == key);
            value.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
        };
        let configured = setting(&format!("branch.{name}.remote")).zip(setting(&format!("branch.{name}.merge")));
        let is_configured = configured.is_some();
        let found = match configured {
            None => setting("remote.origin.url").map(|_| ("origin".to_owned(), self.branch.clone())),
            configured => configured,
        };
        // Git takes a file that it cannot read for one that says nothing.
        if found.is_none() && git_layout::names_remote(self.objects.common_dir(), name)? {
            return Err(Error::unavailable("git cannot read the configuration of the repository")
                .because("it does not see the remote that is named there")
                .hint("try again: way sync"));
        }
        // A branch may follow another one of the same repository; then there is nobody to talk to.
        let Some((remote, branch)) = found.filter(|(remote, _)| remote != ".") else {
            self.work.note("there is no remote, so there is nothing to push to".to_owned());
            return Ok(None);
        };
        let is_sound = !remote.starts_with('-') && !remote.chars().any(char::is_control);
        if !is_sound || !self.objects.look().args(["check-ref-format", &branch]).succeeds()? {
            return Err(Error::refused(format!("branch {name} follows {branch:?} of the remote {remote:?}"))
                .because("that is no name for a remote and a branch")
                .hint("git branch --set-upstream-to REMOTE/BRANCH"));
        }
        let pushes_to = setting(&format!("branch.{name}.pushremote")).or_else(|| setting("remote.pushdefault"));
        let pushes_to = pushes_to.filter(|other| *other != remote);
        Ok(Some(Remote { name: remote, branch, is_configured, pushes_to }))
    }

    /// Returns whether the remote that is followed gets anything.
    fn may_push(&self) -> bool {
        self.work.request.push && self.remote.as_ref().is_some_and(|remote| remote.pushes_to.is_none())
    }

    fn plan(&self, here: &Here) -> Result<Plan> {
        let (head, upstream) = match (&here.head, &self.upstream) {
            (Some(head), Some(upstream)) => (head, upstream),
            (None, Some(_)) => {
                let upstream = self.remote.as_ref().map(Remote::shown).unwrap_or_default();
                return Err(Error::refused(format!("there is no commit here yet, but {upstream} has some"))
                    .hint("git pull, and then way sync"));
            }
            (head, None) => {
                let parents = head.iter().cloned().collect();
                return Ok(Plan::Together { tree_of: head.clone(), parents });
            }
        };
        let is_ahead = self.objects.is_ancestor(upstream, head)?;
        // What the user has not pushed is not pushed with the ledger.
        let is_ours = self.objects.are_of_ledger(upstream, head)?;
        if is_ahead && is_ours {
            return Ok(Plan::Together { tree_of: Some(head.clone()), parents: vec![head.clone()] });
        }
        let is_behind = self.objects.is_ancestor(head, upstream)?;
        if (is_behind || is_ours) && self.objects.is_same_but_for_ledger(head, upstream)? {
            let mut parents = vec![upstream.clone()];
            if !is_behind {
                parents.insert(0, head.clone());
            }
            return Ok(Plan::Together { tree_of: Some(upstream.clone()), parents });
        }
        Ok(Plan::Apart { head: head.clone(), upstream: upstream.clone() })
    }

    fn commit(&self, here: &Here, theirs: Option<&TreeEntry>, ledger: &TreeEntry) -> Result<Round> {
        let is_same = |entry: Option<&TreeEntry>| entry.is_some_and(|entry| entry.blob == ledger.blob);
        // The ledger of a commit that we know already.
        let entry_of = |commit: &str| if here.head.as_deref() == Some(commit) { here.entry.as_ref() } else { theirs };
        let (local, remote) = match self.plan(here)? {
            Plan::Together { tree_of, parents } => {
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
            Plan::Apart { head, upstream } => {
                let make = |on: String, entry: Option<&TreeEntry>| {
                    if is_same(entry) {
                        return Ok(on);
                    }
                    self.work.say("Committing the ledger");
                    self.objects.commit(Some(&on), &[&on], ledger)
                };
                let local = make(head, here.entry.as_ref())?;
                let remote = if self.may_push() { make(upstream, theirs)? } else { upstream };
                (local, remote)
            }
        };
        let mut pushed = None;
        if let Some(target) = &self.remote
            && (self.upstream.as_deref() != Some(remote.as_str()) || !is_same(theirs))
        {
            if !self.work.request.push {
                self.work.note(format!("nothing was pushed to {}", target.shown()));
            } else if let Some(other) = &target.pushes_to {
                let other = url_text::without_password(other);
                let (from, how) = (target.shown(), "so nothing was pushed; git push does it");
                self.work.note(format!("this branch follows {from} but is pushed to {other}, {how}"));
            } else if self.upstream.is_none() && !(target.is_configured && here.head.is_none()) {
                self.work
                    .note(format!("{} is not there yet, so nothing was pushed; git push makes it", target.shown()));
            } else {
                self.work.say(&format!("Pushing to {}", target.shown()));
                if let Err(error) = self.objects.push(&target.name, &remote, &target.branch) {
                    return Ok(Round::NotTaken(error));
                }
                pushed = Some(remote.clone());
            }
        }
        if here.head.as_deref() == Some(local.as_str()) {
            if here.staged.as_ref().is_some_and(|staged| self.is_staged_by_us(staged)) {
                self.stage(here.entry.as_ref())?;
            }
            // Only that it was merged is to be remembered.
            self.objects.remember(&self.branch, &Record { local, upstream: remote, staged: Vec::new() })?;
            return Ok(Round::Done { committed: None, pushed });
        }
        // The index has one of them until the branch is there, whatever fails on the way.
        let ours = here.staged.iter().filter(|staged| self.is_staged_by_us(staged)).map(|staged| staged.blob.clone());
        let mut staged: Vec<String> = std::iter::once(ledger.blob.clone()).chain(ours).collect();
        staged.dedup();
        self.objects.remember(&self.branch, &Record { local: local.clone(), upstream: remote, staged })?;
        if !self.move_branch(here, &local, ledger)? {
            return Ok(Round::Moved);
        }
        // The remote's own commit was not made here.
        let committed = Some(local).filter(|local| self.upstream.as_ref() != Some(local));
        Ok(Round::Done { committed, pushed })
    }

    /// Moves the branch to a commit whose files are the same but for the ledger. Returns whether it was where it was seen.
    fn move_branch(&self, here: &Here, to: &str, ledger: &TreeEntry) -> Result<bool> {
        // The index first: whoever commits in this moment commits the ledger as it should be, and not as it was.
        self.stage(Some(ledger))?;
        let from = here.head.as_deref().unwrap_or_default();
        let moved =
            self.objects.look().args(["update-ref", "-m", "way sync: the ledger", "--", &self.branch, to, from]);
        let Err(error) = self.locks.around(to, || self.work.change(moved, "")) else { return Ok(true) };
        if self.objects.resolve(&self.branch)? == here.head {
            let _ = self.stage(here.staged.as_ref());
            return Err(error);
        }
        // What is staged now is ours, and the next round knows that.
        Ok(false)
    }

    /// Gives the ledger's path another entry in the user's index, and touches no other.
    fn stage(&self, entry: Option<&TreeEntry>) -> Result<()> {
        if self.staged()?.as_ref() == entry {
            return Ok(());
        }
        let path = self.work.request.path;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let update = self.objects.look().arg("update-index");
            let update = match entry {
                Some(TreeEntry { mode, blob }) => {
                    update.args(["--add", "--cacheinfo", &format!("{mode},{blob},{path}")])
                }
                None => update.args(["--force-remove", "--", path]),
            };
            let written = self
                .locks
                .around(entry.map(|entry| entry.blob.as_str()).unwrap_or_default(), || self.work.change(update, ""));
            let Err(error) = written else { return Ok(()) };
            let lock = self.git_dir.join("index.lock");
            if !lock.exists() || Instant::now() >= deadline {
                return Err(Error::unavailable("git's index cannot be written")
                    .because(error.full_message())
                    .hint(format!("if no other git is at work, delete {}", lock.display())));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}
