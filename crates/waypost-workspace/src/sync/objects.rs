//! Commits of the ledger alone, made of git's objects. No index, no branch and no file of anybody is used for it.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use waypost_core::{Error, Kind, Result, url_text};

use super::{MESSAGE, Work, unreachable};
use crate::vcs::git_layout;
use crate::vcs::run::{Git, Tool, UPLOAD_PACK};

/// Where the commits that were fetched are kept while they are needed.
const MARKS: &str = "refs/waypost/sync/";

/// Unpushed commits beyond this are taken for the user's, unseen.
const MANY: usize = 50;

/// The objects of a repository of git.
pub(super) struct Objects<'a> {
    git: Git,
    work: &'a Work<'a>,
    /// An index of our own. Deleted when dropped.
    index: PathBuf,
    /// Who makes commits, if not whom git knows.
    author: Option<(String, String)>,
}

/// Where a branch is pushed to.
pub(super) struct Remote {
    pub(super) name: String,
    /// The branch there, by its whole name.
    pub(super) branch: String,
    /// Whether the user said so, or it is only usual.
    pub(super) is_configured: bool,
    /// The remote that pushes go to, if that is another one.
    pub(super) pushes_to: Option<String>,
}

impl Remote {
    /// Returns what people call it.
    pub(super) fn shown(&self) -> String {
        let branch = self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch);
        format!("{}/{branch}", url_text::without_password(&self.name))
    }
}

/// What is remembered of the last time a branch was synced. It counts as long as the branch has that commit.
pub(super) struct Record {
    /// The commit here, whose ledger was merged.
    pub(super) local: String,
    /// The commit there, with which it was.
    pub(super) upstream: String,
    /// The contents that we staged, and that the index may still have.
    pub(super) staged: Vec<String>,
}

/// What a commit has at the ledger's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: String,
    pub(super) blob: String,
}

impl<'a> Objects<'a> {
    pub(super) fn new(git: Git, work: &'a Work<'a>) -> Self {
        let index = work.request.checkout.private_dir.join(format!("sync-{}.index", std::process::id()));
        Objects { git, work, index, author: None }
    }

    /// Says who makes commits: a name and an address.
    pub(super) fn with_author(mut self, name: String, address: String) -> Self {
        self.author = Some((name, address));
        self
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
        let found =
            self.look().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).stdout_or_none()?;
        // Git says of a file that it cannot read that there is none.
        if found.is_none() && git_layout::has_loose_ref(self.common_dir(), name)? {
            return Err(Error::unavailable(format!("git cannot read {name}")).hint("try again: way sync"));
        }
        Ok(found)
    }

    /// Returns the git directory that all worktrees share.
    pub(super) fn common_dir(&self) -> &Path {
        let checkout = self.work.request.checkout;
        checkout.git_dir.as_deref().unwrap_or(&checkout.shared_dir)
    }

    /// Returns whether there is an object of this name.
    pub(super) fn has(&self, object: &str) -> Result<bool> {
        self.look().args(["cat-file", "-e", object]).succeeds()
    }

    /// Returns what a commit has at the ledger's path.
    pub(super) fn entry(&self, commit: &str) -> Result<Option<TreeEntry>> {
        let path = self.work.request.path;
        let said = self.look().args(["ls-tree", "-z", "--full-tree", commit, "--", path]).stdout()?;
        let Some((facts, _)) = said.trim_end_matches('\0').split_once('\t') else { return Ok(None) };
        let words: Vec<&str> = facts.split(' ').collect();
        match words.as_slice() {
            [mode @ ("100644" | "100755"), "blob", blob] => {
                Ok(Some(TreeEntry { mode: (*mode).to_owned(), blob: (*blob).to_owned() }))
            }
            _ => Err(Error::refused(format!("in commit {commit} {path} is not a file"))),
        }
    }

    /// Returns what a file with this entry says.
    pub(super) fn content(&self, entry: &TreeEntry) -> Result<Vec<u8>> {
        let path = format!("--path={}", self.work.request.path);
        self.look().args(["cat-file", "--filters", &path, &entry.blob]).bytes()
    }

    /// Returns the name of a content of the ledger.
    pub(super) fn name_of(&self, content: &[u8]) -> Result<String> {
        let path = format!("--path={}", self.work.request.path);
        self.look().args(["hash-object", "--stdin", &path]).stdout_with_input(content)
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

    /// Returns whether one commit is the other, or comes before it.
    pub(super) fn is_ancestor(&self, one: &str, other: &str) -> Result<bool> {
        Ok(one == other || self.look().args(["merge-base", "--is-ancestor", one, other]).stdout_or_none()?.is_some())
    }

    /// Returns the last commit that the upstream and all of these come from.
    pub(super) fn merge_base(&self, upstream: &str, ours: &[&str]) -> Result<Option<String>> {
        self.look().args(["merge-base", upstream]).args(ours).stdout_or_none()
    }

    /// Returns whether two commits differ in nothing but the ledger.
    pub(super) fn is_same_but_for_ledger(&self, one: &str, other: &str) -> Result<bool> {
        Ok(self.paths(&[one, other])?.iter().all(|path| path == self.work.request.path))
    }

    /// Returns whether all commits from one to the other touch nothing but the ledger.
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
    pub(super) fn commit(&self, tree_of: Option<&str>, parents: &[&str], ledger: &TreeEntry) -> Result<String> {
        let index = |tool: Tool| tool.env("GIT_INDEX_FILE", &self.index);
        let _ = std::fs::remove_file(&self.index);
        let read = index(self.look()).arg("read-tree").arg(tree_of.unwrap_or("--empty"));
        self.work.change(read, "")?;
        let entry = format!("{},{},{}", ledger.mode, ledger.blob, self.work.request.path);
        self.work.change(index(self.look()).args(["update-index", "--add", "--cacheinfo", &entry]), "")?;
        // A partial clone does not have all files.
        let tree = self.work.change(index(self.look()).args(["write-tree", "--missing-ok"]), "TREE")?;
        if let (Some(before), false) = (tree_of, self.work.request.is_rehearsal) {
            let paths = self.paths(&[before, &tree])?;
            if paths.iter().any(|path| path != self.work.request.path) {
                return Err(Error::internal(format!("a commit of the ledger would change {paths:?}")));
            }
        }
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let mut commit = self.look();
        for (role, (name, address)) in ["AUTHOR", "COMMITTER"].into_iter().zip(self.author.iter().cycle()) {
            commit = commit.env(&format!("GIT_{role}_NAME"), name).env(&format!("GIT_{role}_EMAIL"), address);
        }
        let commit = commit.args(["commit-tree", "--no-gpg-sign", &tree, "-F", "-"]).args(parents);
        self.work.change_fed(commit, Some(MESSAGE.as_bytes()), "COMMIT").map_err(|error| {
            Error::refused("git makes no commit")
                .because(error.full_message())
                .hint("if it does not know who you are: git config --global user.name and user.email")
        })
    }

    /// Names what is fetched. A name of our own: what the user's refs are called, the user decides.
    pub(super) fn mark() -> String {
        format!("{MARKS}{}", std::process::id())
    }

    /// Fetches a branch under another name. Returns its commit; none if there is no such branch.
    pub(super) fn fetch(&self, remote: &Remote, mark: &str) -> Result<Option<String>> {
        let refspec = format!("+{}:{mark}", remote.branch);
        let fetch = self.git.fetch(self.work.request.own, &remote.name, &refspec);
        let error = match self.work.change(fetch, "") {
            Ok(_) if self.work.request.is_rehearsal => return Ok(None),
            Ok(_) => return self.resolve(mark),
            Err(error) => error,
        };
        // Fetching fails as well if there is no such branch yet.
        let branches = ["ls-remote", "--exit-code", "--quiet", UPLOAD_PACK, "--", &remote.name, &remote.branch];
        if error.kind() != Kind::Unavailable && self.network().args(branches).code()? == Some(2) {
            return Ok(None);
        }
        Err(unreachable(&format!("cannot fetch {}", remote.shown()), &error))
    }

    /// Returns the ledger that a branch and its upstream came from.
    pub(super) fn base(&self, branch: &str, head: Option<&str>, upstream: Option<&str>) -> Result<Option<TreeEntry>> {
        let (Some(head), Some(upstream)) = (head, upstream) else { return Ok(None) };
        let mut ours = vec![head];
        let record = self.record(branch);
        if let Some(record) = &record
            && self.has(&record.local)?
            && self.has(&record.upstream)?
            && self.is_ancestor(&record.local, head)?
        {
            // What was synced with it while its files were others is not its ancestor, but its ledger was merged.
            ours.push(&record.upstream);
        }
        match self.merge_base(upstream, &ours)? {
            Some(base) => self.entry(&base),
            None => Ok(None),
        }
    }

    /// Returns what is remembered of a branch.
    pub(super) fn record(&self, branch: &str) -> Option<Record> {
        let text = std::fs::read_to_string(self.record_file(branch)).ok()?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let is_object = |word: &String| word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let local = words.next().filter(is_object)?;
        let upstream = words.next().filter(is_object)?;
        Some(Record { local, upstream, staged: words.collect() })
    }

    /// Remembers something of a branch.
    pub(super) fn remember(&self, branch: &str, record: &Record) -> Result<()> {
        if self.work.request.is_rehearsal {
            return Ok(());
        }
        let file = self.record_file(branch);
        let text = format!("{} {} {}\n", record.local, record.upstream, record.staged.join(" "));
        waypost_fs::replace(&file, text.as_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))
    }

    fn record_file(&self, branch: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        branch.hash(&mut hasher);
        self.work.request.checkout.private_dir.join(format!("sync-{:016x}", hasher.finish()))
    }

    /// Removes what a sync left behind that was killed. The caller holds the lock that lets one sync run at a time.
    pub(super) fn sweep(&self, common_dir: &Path) {
        let is_index = |file: &Path| {
            let is_ours = file.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("sync-"));
            is_ours && ["index", "lock"].iter().any(|extension| file.extension() == Some(OsStr::new(extension)))
        };
        remove_files(&self.work.request.checkout.private_dir, is_index);
        // Nobody else makes refs in there.
        remove_files(&common_dir.join(MARKS), |file| file.extension() == Some(OsStr::new("lock")));
    }

    /// Deletes what we call the commits that were fetched, also that of those that did not come to their end.
    fn forget_marks(&self) -> Result<()> {
        let marks = self.look().args(["for-each-ref", "--format=%(refname)", MARKS]).stdout()?;
        for mark in marks.lines() {
            self.look().args(["update-ref", "-d", "--", mark]).stdout()?;
        }
        Ok(())
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

/// Removes the files of a directory whose names fit. What cannot be removed stays.
fn remove_files(dir: &Path, fits: impl Fn(&Path) -> bool) {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    for file in files.filter(|file| fits(file)) {
        let _ = std::fs::remove_file(file);
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // Nobody else knows of it.
        let _ = std::fs::remove_file(&self.index);
        if !self.work.request.is_rehearsal {
            // If they stay, the next one deletes them.
            let _ = self.forget_marks();
        }
    }
}
