//! Makes commits of the ledger from git objects, without the user's index, branches and files.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use waypost_core::{Error, Kind, Result, url_text};

use super::{COMMIT_MESSAGE, Work, unreachable};
use crate::vcs::run::{Git, Tool, UPLOAD_PACK};
use crate::vcs::{git_layout, history};

/// The prefix of refs that store fetched commits during a sync.
const FETCHED_REFS: &str = "refs/waypost/sync/";

/// If there are more unpushed commits, they count as the user's without a check.
const MAX_LEDGER_COMMITS: usize = 50;

/// The objects of a git repository.
pub(super) struct Objects<'a> {
    git: Git,
    work: &'a Work<'a>,
    /// A temporary index. Deleted when dropped.
    index: PathBuf,
    /// The author of commits, if not git's default.
    author: Option<(String, String)>,
}

/// The remote branch that a local branch follows.
pub(super) struct Remote {
    pub(super) name: String,
    /// The full name of the branch there.
    pub(super) branch: String,
    /// The remote for pushes, if it is another one.
    pub(super) pushes_to: Option<String>,
}

impl Remote {
    /// Returns its name for messages.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", url_text::without_password(&self.name), self.bookmark())
    }

    /// Returns the short name of the branch.
    pub(super) fn bookmark(&self) -> &str {
        self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch)
    }
}

/// The record of a branch's last sync. It is valid as long as the branch contains that commit.
pub(super) struct Record {
    /// The local commit whose ledger was merged.
    pub(super) local: String,
    /// The remote commit with which it was merged.
    pub(super) upstream: String,
    /// Objects that sync staged, and that the index may still have.
    pub(super) staged: Vec<String>,
}

/// The ledger's entry in a tree.
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

    /// Sets the author of commits.
    pub(super) fn with_author(mut self, name: String, address: String) -> Self {
        self.author = Some((name, address));
        self
    }

    /// A git command that cannot use the network.
    pub(super) fn offline(&self) -> Tool {
        history::offline(&self.git)
    }

    /// A git command that cannot use the network, for content of the ledger. It fails if the ledger needs a filter that
    /// does not run.
    fn filtered(&self) -> Tool {
        history::offline(&self.git.for_commits())
    }

    /// Returns whether this filter does not run.
    pub(super) fn is_off(&self, filter: &str) -> bool {
        self.git.is_filter_off(filter)
    }

    /// A git command that may use the network.
    pub(super) fn network(&self) -> Tool {
        self.git.network(self.work.request.network)
    }

    /// Returns the commit that a name points to.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>> {
        let commit = format!("{name}^{{commit}}");
        let found =
            self.offline().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).stdout_or_none()?;
        // Git treats an unreadable ref as a missing one.
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

    /// Finds the remote branch that a branch follows.
    pub(super) fn find_remote(&self, branch: &str) -> Result<Option<Remote>> {
        let name = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        // Read all settings with one command: if git cannot read a file, it must not hide only some of them.
        let pattern = r"^(branch\..*\.(remote|merge|pushremote)|remote\.(origin\.url|pushdefault))$";
        let settings =
            self.offline().args(["config", "-z", "--get-regexp", pattern]).stdout_or_none()?.unwrap_or_default();
        let setting = |key: &str| -> Option<String> {
            let values = settings.split('\0').filter_map(|setting| setting.split_once('\n'));
            let value = values.rev().find(|(known, _)| *known == key);
            value.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
        };
        let configured = setting(&format!("branch.{name}.remote")).zip(setting(&format!("branch.{name}.merge")));
        let found = match configured {
            None => setting("remote.origin.url").map(|_| ("origin".to_owned(), branch.to_owned())),
            configured => configured,
        };
        // Git treats an unreadable file as an empty one.
        if found.is_none() && git_layout::names_remote(self.common_dir(), name)? {
            return Err(Error::unavailable("git cannot read the configuration of the repository")
                .because("it does not see the remote that is named there")
                .hint("try again: way sync"));
        }
        // A branch may follow another branch of the same repository; then there is no remote.
        let Some((remote, followed)) = found.filter(|(remote, _)| remote != ".") else {
            self.work.note("there is no remote, so there is nothing to push to".to_owned());
            return Ok(None);
        };
        let is_sound = !remote.starts_with('-') && !remote.chars().any(char::is_control);
        if !is_sound || !self.offline().args(["check-ref-format", &followed]).succeeds()? {
            return Err(Error::refused(format!("branch {name} follows {followed:?} of the remote {remote:?}"))
                .because("the name of the remote or the branch is not valid")
                .hint("git branch --set-upstream-to REMOTE/BRANCH"));
        }
        let pushes_to = setting(&format!("branch.{name}.pushremote")).or_else(|| setting("remote.pushdefault"));
        let pushes_to = pushes_to.filter(|other| *other != remote);
        Ok(Some(Remote { name: remote, branch: followed, pushes_to }))
    }

    /// Returns whether an object exists.
    pub(super) fn has(&self, object: &str) -> Result<bool> {
        self.offline().args(["cat-file", "-e", object]).succeeds()
    }

    /// Returns the ledger's entry in a commit.
    pub(super) fn entry(&self, commit: &str) -> Result<Option<TreeEntry>> {
        let path = self.work.request.path;
        let output = self.offline().args(["ls-tree", "-z", "--full-tree", commit, "--", path]).stdout()?;
        let Some((facts, _)) = output.trim_end_matches('\0').split_once('\t') else { return Ok(None) };
        let words: Vec<&str> = facts.split(' ').collect();
        match words.as_slice() {
            [mode @ ("100644" | "100755"), "blob", blob] => {
                Ok(Some(TreeEntry { mode: (*mode).to_owned(), blob: (*blob).to_owned() }))
            }
            _ => Err(Error::refused(format!("in commit {commit} {path} is not a file"))),
        }
    }

    /// Returns the content of an entry, as git would check it out.
    pub(super) fn content(&self, entry: &TreeEntry) -> Result<Vec<u8>> {
        let path = format!("--path={}", self.work.request.path);
        self.filtered().args(["cat-file", "--filters", &path, &entry.blob]).bytes()
    }

    /// Returns the object id of a content of the ledger.
    pub(super) fn name_of(&self, content: &[u8]) -> Result<String> {
        let path = format!("--path={}", self.work.request.path);
        self.filtered().args(["hash-object", "--stdin", &path]).stdout_with_input(content)
    }

    /// Stores a content of the ledger as an object, and returns its id.
    pub(super) fn store(&self, content: &[u8]) -> Result<String> {
        let path = format!("--path={}", self.work.request.path);
        let name = self.name_of(content)?;
        if self.has(&name)? {
            return Ok(name);
        }
        self.work.change_with_input(self.filtered().args(["hash-object", "-w", "--stdin", &path]), Some(content), &name)
    }

    /// Returns whether one commit is the other or an ancestor of it.
    pub(super) fn is_ancestor(&self, one: &str, other: &str) -> Result<bool> {
        Ok(one == other || self.offline().args(["merge-base", "--is-ancestor", one, other]).stdout_or_none()?.is_some())
    }

    /// Returns the merge base of the upstream and these commits.
    pub(super) fn merge_base(&self, upstream: &str, ours: &[&str]) -> Result<Option<String>> {
        self.offline().args(["merge-base", upstream]).args(ours).stdout_or_none()
    }

    /// Returns whether two commits differ only in the ledger.
    pub(super) fn is_same_but_for_ledger(&self, one: &str, other: &str) -> Result<bool> {
        Ok(self.paths(&[one, other])?.iter().all(|path| path == self.work.request.path))
    }

    /// Returns whether all commits in a range change only the ledger.
    pub(super) fn are_of_ledger(&self, from: &str, to: &str) -> Result<bool> {
        let range = format!("{from}..{to}");
        let commits =
            self.offline().args(["rev-list", "--max-count", &(MAX_LEDGER_COMMITS + 1).to_string(), &range]).stdout()?;
        if commits.lines().count() > MAX_LEDGER_COMMITS {
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

    /// Makes a commit that differs from a tree only in the ledger.
    pub(super) fn commit(&self, tree_of: Option<&str>, parents: &[&str], ledger: &TreeEntry) -> Result<String> {
        let index = |tool: Tool| tool.env("GIT_INDEX_FILE", &self.index);
        let _ = std::fs::remove_file(&self.index);
        let read = index(self.offline()).arg("read-tree").arg(tree_of.unwrap_or("--empty"));
        self.work.change(read, "")?;
        let entry = format!("{},{},{}", ledger.mode, ledger.blob, self.work.request.path);
        self.work.change(index(self.offline()).args(["update-index", "--add", "--cacheinfo", &entry]), "")?;
        // A partial clone does not have all objects.
        let tree = self.work.change(index(self.offline()).args(["write-tree", "--missing-ok"]), "TREE")?;
        if let (Some(before), false) = (tree_of, self.work.request.dry_run) {
            let paths = self.paths(&[before, &tree])?;
            if paths.iter().any(|path| path != self.work.request.path) {
                return Err(Error::internal(format!("a commit of the ledger would change {paths:?}")));
            }
        }
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let mut commit = self.offline();
        for (role, (name, address)) in ["AUTHOR", "COMMITTER"].into_iter().zip(self.author.iter().cycle()) {
            commit = commit.env(&format!("GIT_{role}_NAME"), name).env(&format!("GIT_{role}_EMAIL"), address);
        }
        let commit = commit.args(["commit-tree", "--no-gpg-sign", &tree, "-F", "-"]).args(parents);
        self.work.change_with_input(commit, Some(COMMIT_MESSAGE.as_bytes()), "COMMIT").map_err(|error| {
            if error.kind() == Kind::Unavailable {
                // Git was killed or took too long, which says nothing about the user.
                return error.within("git cannot make a commit");
            }
            Error::refused("git cannot make a commit")
                .because(error.full_message())
                .hint("if your identity is missing: git config --global user.name and user.email")
        })
    }

    /// Returns the ref for a fetched commit. It is Waypost's own, so that the user's refs stay unchanged.
    pub(super) fn fetched_ref() -> String {
        format!("{FETCHED_REFS}{}", std::process::id())
    }

    /// Fetches a branch into a ref. Returns its commit; none if there is no such branch.
    pub(super) fn fetch(&self, remote: &Remote, fetched_ref: &str) -> Result<Option<String>> {
        let refspec = format!("+{}:{fetched_ref}", remote.branch);
        let fetch = self.git.fetch(self.work.request.network, &remote.name, &refspec);
        let error = match self.work.change(fetch, "") {
            Ok(_) if self.work.request.dry_run => return Ok(None),
            Ok(_) => return self.resolve(fetched_ref),
            Err(error) => error,
        };
        // The fetch also fails if the branch does not exist yet.
        let branches = ["ls-remote", "--exit-code", "--quiet", UPLOAD_PACK, "--", &remote.name, &remote.branch];
        if error.kind() != Kind::Unavailable && self.network().args(branches).code()? == Some(2) {
            return Ok(None);
        }
        Err(unreachable(&format!("cannot fetch {}", remote.shown()), &error))
    }

    /// Fetches the upstream branch, and returns its commit. A dry run returns the commit that is known already.
    pub(super) fn fetch_upstream(&self, remote: &Remote) -> Result<Option<String>> {
        let known = format!("refs/remotes/{}/{}", remote.name, remote.bookmark());
        let is_dry_run = self.work.request.dry_run;
        let known = if is_dry_run { self.resolve(&known)? } else { None };
        self.work.say(&format!("Fetching {}", remote.shown()));
        let fetched = self.fetch(remote, &Objects::fetched_ref())?;
        Ok(if is_dry_run { known } else { fetched })
    }

    /// Returns the merge base's ledger of a branch and its upstream.
    pub(super) fn base(&self, branch: &str, head: Option<&str>, upstream: Option<&str>) -> Result<Option<TreeEntry>> {
        let (Some(head), Some(upstream)) = (head, upstream) else { return Ok(None) };
        let mut ours = vec![head];
        let record = self.read_record(branch);
        if let Some(record) = &record
            && self.has(&record.local)?
            && self.has(&record.upstream)?
            && self.is_ancestor(&record.local, head)?
        {
            // The last synced upstream commit may not be an ancestor of the branch, but its ledger was merged into it.
            ours.push(&record.upstream);
        }
        match self.merge_base(upstream, &ours)? {
            Some(base) => self.entry(&base),
            None => Ok(None),
        }
    }

    /// Reads the record of a branch.
    pub(super) fn read_record(&self, branch: &str) -> Option<Record> {
        let text = std::fs::read_to_string(self.record_file(branch)).ok()?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let is_object = |word: &String| word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let local = words.next().filter(is_object)?;
        let upstream = words.next().filter(is_object)?;
        Some(Record { local, upstream, staged: words.collect() })
    }

    /// Writes the record of a branch.
    pub(super) fn write_record(&self, branch: &str, record: &Record) -> Result<()> {
        if self.work.request.dry_run {
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

    /// Removes files that a killed sync left behind. The caller holds the sync lock.
    pub(super) fn sweep(&self, common_dir: &Path) {
        let is_index = |file: &Path| {
            let is_ours = file.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("sync-"));
            is_ours && ["index", "lock"].iter().any(|extension| file.extension() == Some(OsStr::new(extension)))
        };
        remove_files(&self.work.request.checkout.private_dir, is_index);
        // Only sync makes refs with this prefix.
        remove_files(&common_dir.join(FETCHED_REFS), |file| file.extension() == Some(OsStr::new("lock")));
    }

    /// Deletes the refs of fetched commits, including those of interrupted syncs.
    fn delete_fetched_refs(&self) -> Result<()> {
        let fetched_refs = self.offline().args(["for-each-ref", "--format=%(refname)", FETCHED_REFS]).stdout()?;
        for fetched_ref in fetched_refs.lines() {
            self.offline().args(["update-ref", "-d", "--", fetched_ref]).stdout()?;
        }
        Ok(())
    }

    /// Pushes a commit to a branch of a remote, without force.
    pub(super) fn push(&self, remote: &str, commit: &str, branch: &str) -> Result<()> {
        let options = [
            "push",
            "--quiet",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--no-recurse-submodules",
            // The repository's configuration could name any program here.
            "--receive-pack=git-receive-pack",
            "--",
            remote,
            &format!("{commit}:{branch}"),
        ];
        self.work.change(self.network().args(options), "").map(drop)
    }

    /// Returns the paths that differ between two commits, or between one commit and each of its parents.
    fn paths(&self, commits: &[&str]) -> Result<Vec<String>> {
        let options = ["diff-tree", "-r", "-m", "--root", "--no-renames", "--name-only", "--no-commit-id", "-z"];
        let output = self.offline().args(options).args(["--no-ext-diff", "--no-textconv"]).args(commits).stdout()?;
        Ok(output.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }
}

/// Removes the matching files of a directory, as far as possible.
fn remove_files(dir: &Path, fits: impl Fn(&Path) -> bool) {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    for file in files.filter(|file| fits(file)) {
        let _ = std::fs::remove_file(file);
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // No other process uses it.
        let _ = std::fs::remove_file(&self.index);
        if !self.work.request.dry_run {
            // If they stay, the next sync deletes them.
            let _ = self.delete_fetched_refs();
        }
    }
}
