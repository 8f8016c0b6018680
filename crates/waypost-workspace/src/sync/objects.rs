//! Commits of the ledger alone, made of git's objects. No index, no branch and no file of anybody is used for it.

use std::path::PathBuf;

use waypost_core::{Error, Result};

use super::{MESSAGE, Work};
use crate::run::{Git, Tool};

/// Unpushed commits beyond this are taken for the user's, unseen.
const MANY: usize = 50;

/// The objects of a repository of git.
pub(super) struct Objects<'a> {
    git: Git,
    work: &'a Work<'a>,
    /// An index of our own. Deleted when dropped.
    index: PathBuf,
}

/// What a commit has at the ledger's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) blob: String,
}

impl<'a> Objects<'a> {
    pub(super) fn new(git: Git, work: &'a Work<'a>) -> Self {
        let index = work.request.checkout.private_dir.join(format!("sync-{}.index", std::process::id()));
        Objects { git, work, index }
    }

    /// A git command that uses no network.
    pub(super) fn look(&self) -> Tool {
        self.git.command().env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none")
    }

    /// A git command that may use the network.
    pub(super) fn network(&self) -> Tool {
        self.git.network(self.work.request.own)
    }

    /// Returns the commit of a name.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>> {
        let commit = format!("{name}^{{commit}}");
        self.look().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).answer()
    }

    /// Tells whether there is an object of this name.
    pub(super) fn has(&self, object: &str) -> Result<bool> {
        self.look().args(["cat-file", "-e", object]).succeeds()
    }

    /// Returns what a commit has at the ledger's path.
    pub(super) fn entry(&self, commit: &str) -> Result<Option<Entry>> {
        let path = self.work.request.path;
        let said = self.look().args(["ls-tree", "-z", "--full-tree", commit, "--", path]).stdout()?;
        let Some((facts, _)) = said.trim_end_matches('\0').split_once('\t') else { return Ok(None) };
        let words: Vec<&str> = facts.split(' ').collect();
        match words.as_slice() {
            [mode @ ("100644" | "100755"), "blob", blob] => {
                Ok(Some(Entry { mode: (*mode).to_owned(), blob: (*blob).to_owned() }))
            }
            _ => Err(Error::refused(format!("in commit {commit} {path} is not a file"))),
        }
    }

    /// Returns what a file with this entry says.
    pub(super) fn content(&self, entry: &Entry) -> Result<Vec<u8>> {
        let path = format!("--path={}", self.work.request.path);
        self.look().args(["cat-file", "--filters", &path, &entry.blob]).bytes()
    }

    /// Returns the name of a content of the ledger.
    pub(super) fn name_of(&self, content: &[u8]) -> Result<String> {
        let path = format!("--path={}", self.work.request.path);
        self.look().args(["hash-object", "--stdin", &path]).fed(content)
    }

    /// Keeps a content of the ledger, and returns its name.
    pub(super) fn keep(&self, content: &[u8]) -> Result<String> {
        let path = format!("--path={}", self.work.request.path);
        let name = self.name_of(content)?;
        if self.has(&name)? {
            return Ok(name);
        }
        self.work.change_fed(self.look().args(["hash-object", "-w", "--stdin", &path]), Some(content), &name)
    }

    /// Tells whether one commit is the other, or comes before it.
    pub(super) fn is_ancestor(&self, one: &str, other: &str) -> Result<bool> {
        Ok(one == other || self.look().args(["merge-base", "--is-ancestor", one, other]).answer()?.is_some())
    }

    /// Returns the last commit that the upstream and all of these come from.
    pub(super) fn merge_base(&self, upstream: &str, ours: &[&str]) -> Result<Option<String>> {
        self.look().args(["merge-base", upstream]).args(ours).answer()
    }

    /// Tells whether two commits differ in nothing but the ledger.
    pub(super) fn is_same_but_for_ledger(&self, one: &str, other: &str) -> Result<bool> {
        Ok(self.paths(&[one, other])?.iter().all(|path| path == self.work.request.path))
    }

    /// Tells whether all commits from one to the other touch nothing but the ledger.
    pub(super) fn are_of_ledger(&self, from: &str, to: &str) -> Result<bool> {
        let range = format!("{from}..{to}");
        let commits = self.look().args(["rev-list", "--max-count", &(MANY + 1).to_string(), &range]).stdout()?;
        if commits.lines().count() > MANY {
            return Ok(false);
        }
        for commit in commits.lines() {
            let paths = self.paths(&[commit])?;
            if paths.is_empty() || paths.iter().any(|path| path != self.work.request.path) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a commit that differs from a tree in the ledger alone.
    pub(super) fn commit(&self, tree_of: Option<&str>, parents: &[&str], ledger: &Entry) -> Result<String> {
        let index = |tool: Tool| tool.env("GIT_INDEX_FILE", &self.index);
        let _ = std::fs::remove_file(&self.index);
        let read = index(self.look()).arg("read-tree").arg(tree_of.unwrap_or("--empty"));
        self.work.change(read, "")?;
        let entry = format!("{},{},{}", ledger.mode, ledger.blob, self.work.request.path);
        self.work.change(index(self.look()).args(["update-index", "--add", "--cacheinfo", &entry]), "")?;
        let tree = self.work.change(index(self.look()).arg("write-tree"), "TREE")?;
        if let (Some(before), false) = (tree_of, self.work.request.is_rehearsal) {
            let paths = self.paths(&[before, &tree])?;
            if paths.iter().any(|path| path != self.work.request.path) {
                return Err(Error::internal(format!("a commit of the ledger would change {paths:?}")));
            }
        }
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let commit = self.look().args(["commit-tree", "--no-gpg-sign", &tree, "-F", "-"]).args(parents);
        self.work.change_fed(commit, Some(MESSAGE.as_bytes()), "COMMIT").map_err(|error| {
            Error::refused("git makes no commit")
                .because(error.full_message())
                .hint("if it does not know who you are: git config --global user.name and user.email")
        })
    }

    /// Pushes a commit to a branch of a remote. The remote takes it only if it follows what is there.
    pub(super) fn push(&self, remote: &str, commit: &str, branch: &str) -> Result<()> {
        let options = [
            "push",
            "--quiet",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--no-recurse-submodules",
            // Left to the repository, it could be any program here.
            "--receive-pack=git-receive-pack",
            "--",
            remote,
            &format!("{commit}:{branch}"),
        ];
        self.work.change(self.network().args(options), "").map(drop)
    }

    /// Returns the paths that differ between two commits, or between one and each of its parents.
    fn paths(&self, commits: &[&str]) -> Result<Vec<String>> {
        let options = ["diff-tree", "-r", "-m", "--root", "--no-renames", "--name-only", "--no-commit-id", "-z"];
        let said = self.look().args(options).args(["--no-ext-diff", "--no-textconv"]).args(commits).stdout()?;
        Ok(said.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // Nobody else knows of it.
        let _ = std::fs::remove_file(&self.index);
    }
}
