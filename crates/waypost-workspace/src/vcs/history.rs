//! The committed versions of a file, newest first.
//!
//! Nothing is checked out, fetched or written. One git process lists the commits that touched the file, another one
//! reads the versions that the caller asks for; letting git search all of them for a text takes six times as long.
//! Mercurial and Sapling do both in one process.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::checkout::Checkout;
use super::git_layout;
use super::probe::is_same_place;
use super::run::{Conversation, Git, Tool, hg, is_not_installed, jj, sl};

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its full id.
    pub id: String,
    /// The author's name.
    pub author: String,
    /// The commit time.
    pub time: Timestamp,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// Returns the id shortened for display.
    pub fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// A reference to a version's content. [`History::read`] reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content(Source);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// A git object.
    Object(String),
    /// A path in a Mercurial revision, which may not exist there.
    Path { revision: String, path: String },
}

/// A commit that changed the file, with the content before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The commit.
    pub commit: Commit,
    /// The file's content in each parent. A missing file has none.
    pub before: Vec<Vec<Content>>,
    /// The file's content in this commit.
    pub after: Vec<Content>,
}

/// The history of a file.
pub struct History {
    /// The file's content in each commit that the worktree is based on; empty before the first commit.
    pub base: Vec<Vec<Content>>,
    /// The commits that changed the file, each after its children.
    pub versions: Vec<Version>,
    /// Whether this clone lacks older commits.
    pub is_shallow: bool,
    reader: Reader,
}

enum Reader {
    /// For an empty history.
    None,
    Git(Conversation),
    Mercurial(CommandServer),
}

impl History {
    /// The history of a file that was never committed.
    fn unknown(git_dir: &Path) -> History {
        let is_shallow = git_dir.join("shallow").exists();
        History { base: Vec::new(), versions: Vec::new(), is_shallow, reader: Reader::None }
    }

    /// Fills the history from the output of `git log`. The first path is the file's current one.
    fn read_git(&mut self, git: &Git, output: &[u8], heads: &[String], paths: &[&str]) -> Result<()> {
        self.versions = versions_of(output, paths[0])?;
        if self.versions.is_empty() {
            return Ok(());
        }
        for head in heads {
            self.base.push(contents_in(git, head, paths)?);
        }
        self.reader = Reader::Git(offline(git).args(["cat-file", "--batch"]).converse()?);
        Ok(())
    }

    /// Lists the versions of a file, by its path in a worktree. None without version control.
    ///
    /// `former` are earlier paths of the file. They count in commits before the one that moved it to its current path.
    /// Mercurial ignores them.
    pub fn of(checkout: &Checkout, root: &Path, path: &str, former: &[&str]) -> Result<Option<History>> {
        match checkout.vcs {
            Vcs::Git | Vcs::Jj => of_git(checkout, root, path, former),
            Vcs::Hg => of_mercurial(hg(root), "parents()", path).map(Some),
            Vcs::Sl => of_mercurial(sl(root)?, "parents()", path).map(Some),
            Vcs::None => Ok(None),
        }
    }

    /// Lists the versions of a file on a branch, by the branch's full name. None if there is no such branch.
    pub fn of_branch(checkout: &Checkout, branch: &str, path: &str) -> Result<Option<History>> {
        let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
        let git = Git::of_repository(git_dir)?;
        if !has_commit(&git, branch)? {
            return Ok(None);
        }
        let mut history = History::unknown(git_dir);
        let heads = [branch.to_owned()];
        let output = log(&git, &["-c"], &heads, &[path])?;
        history.read_git(&git, &output, &heads, &[path])?;
        Ok(Some(history))
    }

    /// Reads a version's content. None if the file does not exist in it.
    pub fn read(&mut self, content: &Content) -> Result<Option<Vec<u8>>> {
        match (&mut self.reader, &content.0) {
            (Reader::Git(git), Source::Object(object)) => read_object(git, object).map(Some),
            (Reader::Mercurial(server), Source::Path { revision, path }) => {
                let path = format!("path:{path}");
                let result = server.run(&["cat", "--rev", revision, &path])?;
                // 1 means that no file matched; other codes are failures.
                if result.code == 1 { Ok(None) } else { result.checked().map(Some) }
            }
            _ => Err(Error::internal("the content belongs to another repository")),
        }
    }
}

/// Returns the history of a file on one branch. Changes from other branches count at the merge that brought them.
pub(crate) fn on_branch(git: &Git, git_dir: &Path, branch: &str, path: &str) -> Result<History> {
    let mut history = History::unknown(git_dir);
    let heads = [branch.to_owned()];
    let output = log(git, &["--first-parent", "--diff-merges=first-parent"], &heads, &[path])?;
    history.read_git(git, &output, &heads, &[path])?;
    Ok(history)
}

fn of_git(checkout: &Checkout, root: &Path, path: &str, former: &[&str]) -> Result<Option<History>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    // The root may contain another git repository.
    let is_here =
        git_layout::open(root)?.and_then(|found| found.git_dir).is_some_and(|found| is_same_place(&found, git_dir));
    let (git, heads) = if is_here {
        (Git::in_worktree(root)?, vec!["HEAD".to_owned()])
    } else if checkout.vcs == Vcs::Jj {
        (Git::of_repository(git_dir)?, parents_in_jj(root)?)
    } else {
        (Git::of_repository(git_dir)?, vec!["HEAD".to_owned()])
    };
    let mut history = History::unknown(git_dir);
    if heads.is_empty() {
        return Ok(Some(history));
    }
    let paths: Vec<&str> = std::iter::once(path).chain(former.iter().copied().filter(|known| *known != path)).collect();
    let output = match log(&git, &["-c"], &heads, &paths) {
        Ok(output) => output,
        // There is no commit yet.
        Err(_) if !has_commit(&git, &heads[0])? => return Ok(Some(history)),
        Err(error) => return Err(error),
    };
    history.read_git(&git, &output, &heads, &paths)?;
    Ok(Some(history))
}

/// A git command that cannot use the network, so that reading history fetches nothing and starts no transport.
pub(crate) fn offline(git: &Git) -> Tool {
    git.command().env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none")
}

pub(crate) fn has_commit(git: &Git, revision: &str) -> Result<bool> {
    let commit = format!("{revision}^{{commit}}");
    offline(git).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).succeeds()
}

/// Lists the commits that touched any of the paths, with raw differences. `merges` are the options for merge commits.
fn log(git: &Git, merges: &[&str], heads: &[String], paths: &[&str]) -> Result<Vec<u8>> {
    // These options override all settings that could change the output or run a program.
    let options = [
        "log",
        "-z",
        "--format=%H%x00%an%x00%ct%x00%s",
        "--encoding=UTF-8",
        "--date-order",
        // Also finds versions that existed only on a merged side and were dropped by the merge.
        "--full-history",
        "--root",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--no-relative",
        "--no-color",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
    ];
    let paths = paths.iter().map(|path| format!(":(top,literal){path}"));
    let command = offline(git).args(options).args(merges).arg("--end-of-options");
    command.args(heads).arg("--").args(paths).bytes()
}

/// Parses the output: for each commit four fields, then for each file a raw difference and its path.
fn versions_of(output: &[u8], own: &str) -> Result<Vec<Version>> {
    let mut tokens = output.split(|byte| *byte == 0).map(|token| String::from_utf8_lossy(token.trim_ascii_start()));
    let mut listed: Vec<(Commit, Vec<(Raw, String)>)> = Vec::new();
    while let Some(token) = tokens.next() {
        if token.is_empty() {
            continue;
        }
        let mut next = || tokens.next().ok_or_else(|| Error::internal("git log ended in the middle of a commit"));
        if token.starts_with(':') {
            let path = next()?.into_owned();
            let files = listed.last_mut().map(|(_, files)| files);
            let files = files.ok_or_else(|| Error::internal("git log names a file before any commit"))?;
            files.push((Raw::read(&token)?, path));
            continue;
        }
        let (author, time, subject) = (next()?.into_owned(), next()?, next()?.into_owned());
        let seconds: i64 = time.parse().map_err(|_| Error::internal(format!("git log prints the time {time:?}")))?;
        let time = Timestamp::from_millis(seconds.saturating_mul(1000));
        listed.push((Commit { id: token.into_owned(), author, time, subject }, Vec::new()));
    }
    // In commits after the one that created the current path, the former paths are other files.
    let creates_own_path = |(raw, path): &(Raw, String)| path == own && raw.before.iter().all(Option::is_none);
    let created_at = listed.iter().rposition(|(_, files)| files.iter().any(creates_own_path));
    let mut versions = Vec::new();
    for (number, (commit, mut files)) in listed.into_iter().enumerate() {
        if created_at.is_some_and(|created_at| number < created_at) {
            files.retain(|(_, path)| path == own);
        }
        // The current path takes precedence.
        files.sort_by_key(|(_, path)| path != own);
        let Some((first, _)) = files.first() else { continue };
        let content = |object: &Option<String>| object.clone().map(|object| Content(Source::Object(object)));
        let before = (0..first.before.len())
            .map(|parent| files.iter().filter_map(|(raw, _)| content(raw.before.get(parent)?)).collect())
            .collect();
        let after = files.iter().filter_map(|(raw, _)| content(&raw.after)).collect();
        versions.push(Version { commit, before, after });
    }
    Ok(versions)
}

/// A raw difference: the file's object in each parent and in the commit.
struct Raw {
    before: Vec<Option<String>>,
    after: Option<String>,
}

impl Raw {
    /// Parses `:100644 100644 OLD NEW M`. Each further parent adds a colon, a mode and an object.
    fn read(line: &str) -> Result<Raw> {
        let parents = line.bytes().take_while(|byte| *byte == b':').count();
        let words: Vec<&str> = line[parents..].split(' ').collect();
        let (Some(modes), Some(objects)) = (words.get(..=parents), words.get(parents + 1..2 * parents + 2)) else {
            return Err(Error::internal(format!("git log prints {line:?}")));
        };
        // Only regular files have content: no links, no submodules.
        let object = |(mode, object): (&&str, &&str)| mode.starts_with("100").then(|| (*object).to_owned());
        let mut files: Vec<Option<String>> = modes.iter().zip(objects).map(object).collect();
        let after = files.pop().flatten();
        Ok(Raw { before: files, after })
    }
}

/// Returns the content of the first of these paths that is a file in a commit.
fn contents_in(git: &Git, revision: &str, paths: &[&str]) -> Result<Vec<Content>> {
    let output = offline(git).args(["ls-tree", "-z", "--full-tree", revision, "--"]).args(paths).bytes()?;
    let output = String::from_utf8_lossy(&output);
    let object_of = |path: &&str| {
        output.split('\0').find_map(|entry| {
            let (facts, found) = entry.split_once('\t')?;
            let object = facts.strip_prefix("100")?.rsplit(' ').next()?;
            (found == *path).then(|| Content(Source::Object(object.to_owned())))
        })
    };
    // Former paths count only if the current path does not exist.
    Ok(paths.iter().find_map(object_of).into_iter().collect())
}

pub(super) fn read_object(git: &mut Conversation, object: &str) -> Result<Vec<u8>> {
    git.write(format!("{object}\n").as_bytes())?;
    let answer = git.read_line()?;
    let Some(size) = answer.strip_prefix(object).and_then(|rest| rest.strip_prefix(" blob ")?.parse().ok()) else {
        return Err(Error::unavailable(format!("this clone does not have object {object}"))
            .because(answer)
            .hint("if it is a partial clone, git log --patch fetches missing objects"));
    };
    let mut bytes = git.read_bytes(size)?;
    // A newline follows.
    git.read_bytes(1)?;
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Returns the commits that a jj workspace is based on, without a snapshot of its files.
pub(crate) fn parents_in_jj(root: &Path) -> Result<Vec<String>> {
    let options = ["log", "--ignore-working-copy", "--no-graph", "--revisions=@- ~ root()"];
    let output = jj(root)?.args(options).arg(r#"--template=commit_id ++ "\n""#).stdout()?;
    Ok(output.lines().map(str::to_owned).collect())
}

/// Returns the history of a file in Mercurial or Sapling, up to the revisions `heads`.
pub(crate) fn of_mercurial(tool: Tool, heads: &str, path: &str) -> Result<History> {
    /// NUL ends each field: no field contains it.
    const TEMPLATE: &str = r"{node}\0{author|person}\0{date|hgdate}\0{desc|firstline}\0{p1node}\0{p2node}\0";
    let mut server = CommandServer::start(tool)?;
    let at = |revision: &str| vec![Content(Source::Path { revision: revision.to_owned(), path: path.to_owned() })];
    let is_null = |revision: &&str| revision.bytes().all(|byte| byte == b'0');
    let revisions = format!("reverse(::{heads} and file(\"path:{path}\"))");
    let output = server.run(&["log", "--rev", &revisions, "--template", TEMPLATE])?.checked()?;
    let output = String::from_utf8_lossy(&output);
    let mut versions = Vec::new();
    let texts: Vec<&str> = output.split('\0').collect();
    for commit in texts.chunks_exact(6) {
        let seconds = commit[2].split(' ').next().and_then(|seconds| seconds.parse::<i64>().ok()).unwrap_or_default();
        versions.push(Version {
            commit: Commit {
                id: commit[0].to_owned(),
                author: commit[1].to_owned(),
                time: Timestamp::from_millis(seconds.saturating_mul(1000)),
                subject: commit[3].to_owned(),
            },
            before: commit[4..].iter().filter(|parent| !is_null(parent)).map(|parent| at(parent)).collect(),
            after: at(commit[0]),
        });
    }
    let output = server.run(&["log", "--rev", heads, "--template", r"{node}\0"])?.checked()?;
    let output = String::from_utf8_lossy(&output);
    let base = output.split('\0').filter(|revision| !revision.is_empty()).filter(|one| !is_null(one)).map(at).collect();
    Ok(History { base, versions, is_shallow: false, reader: Reader::Mercurial(server) })
}

/// Mercurial's command server. Starting a process for each command would take longer than the commands.
struct CommandServer(Conversation);

/// The result of a command.
struct CommandResult {
    code: i32,
    output: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandResult {
    fn checked(self) -> Result<Vec<u8>> {
        if self.code == 0 {
            return Ok(self.output);
        }
        let stderr = String::from_utf8_lossy(&self.stderr);
        Err(Error::unavailable("cannot read the history").because(stderr.trim().trim_start_matches("abort: ")))
    }
}

impl CommandServer {
    fn start(tool: Tool) -> Result<Self> {
        let mut server = CommandServer(tool.args(["serve", "--cmdserver", "pipe"]).converse()?);
        // The server's greeting.
        server.read_frame()?;
        Ok(server)
    }

    /// Runs a command: sends the length of its arguments in four bytes, then the arguments. The reply arrives in
    /// frames; the last one has the exit code.
    fn run(&mut self, words: &[&str]) -> Result<CommandResult> {
        let words = words.join("\0");
        let length = u32::try_from(words.len()).map_err(|_| Error::invalid("the command is too long for Mercurial"))?;
        self.0.write(&[b"runcommand\n", length.to_be_bytes().as_slice(), words.as_bytes()].concat())?;
        let mut result = CommandResult { code: 0, output: Vec::new(), stderr: Vec::new() };
        loop {
            let (channel, data) = self.read_frame()?;
            match channel {
                b'o' => result.output.extend(data),
                b'e' => result.stderr.extend(data),
                b'r' => {
                    result.code = data.try_into().map_or(-1, i32::from_be_bytes);
                    return Ok(result);
                }
                // A request for input; send none.
                b'I' | b'L' => self.0.write(&[0; 4])?,
                _ => {}
            }
        }
    }

    fn read_frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let head = self.0.read_bytes(5)?;
        let length = head[1..].try_into().map_or(0, u32::from_be_bytes);
        // In a request for input, the length is the maximum to send, and no data follows.
        let size = if head[0].is_ascii_uppercase() { 0 } else { u64::from(length) };
        Ok((head[0], self.0.read_bytes(size)?))
    }
}

/// Returns the version control tool that tracks files in a directory, of any repository that contains the directory.
pub fn tracked_by(dir: &Path) -> Result<Option<Vcs>> {
    // No tool tracks its own directory, and jj none of git.
    let is_in = |path: &Path, names: &[&str]| names.iter().any(|name| path.iter().any(|part| part == OsStr::new(name)));
    for root in dir.ancestors().skip(1) {
        let Ok(path) = dir.strip_prefix(root) else { break };
        let git_dir = root.join(".git");
        // Git ignores a directory without HEAD. The sandboxes of coding agents make empty ones.
        let has_git = git_dir.is_file() || git_dir.join("HEAD").symlink_metadata().is_ok();
        if has_git && !is_in(path, &[".git"]) {
            // A file system may take another spelling for the same name.
            let mut spec = OsString::from(":(literal,icase)");
            spec.push(path);
            let list = Git::in_worktree(root)?.command().args(["ls-files", "-z", "--"]);
            if !list.arg(spec).bytes()?.is_empty() {
                return Ok(Some(Vcs::Git));
            }
        }
        // A tool that is not installed changes no file that it tracks.
        if root.join(".hg/dirstate").exists() && !is_in(path, &[".hg"]) {
            let list = hg(root).args(["files", "--print0"]).arg(path).stdout_or_none();
            if !or_not_installed(list.map(Option::unwrap_or_default))?.is_empty() {
                return Ok(Some(Vcs::Hg));
            }
        }
        if is_in(path, &[".git", ".jj"]) || !root.join(".jj/repo").exists() {
            continue;
        }
        let fileset = format!("root:{:?}", path.to_string_lossy());
        let list = jj(root)?.args(["file", "list", "--ignore-working-copy", "--revision", "@", "--", &fileset]);
        if !or_not_installed(list.stdout())?.is_empty() {
            return Ok(Some(Vcs::Jj));
        }
    }
    Ok(None)
}

/// Refuses to take files for absent that the checked-out commit has: only a part of it may be checked out. The paths are
/// in a worktree. Without jj, hg or sl, the files cannot be asked for and count as absent.
pub fn check_absent(vcs: Vcs, root: &Path, paths: &[&str]) -> Result<()> {
    match vcs {
        Vcs::Git => {
            let list = Git::in_worktree(root)?.command().args(["--literal-pathspecs", "ls-files", "-t", "-z", "--"]);
            let listed = list.args(paths).stdout()?;
            let Some((state, path)) = listed.split('\0').find_map(|entry| entry.split_once(' ')) else {
                return check_checked_out(root, paths);
            };
            let dir = path.rsplit_once('/').map_or(path, |(dir, _)| dir);
            Err(hidden(root, path).hint(match state {
                "S" => format!("git sparse-checkout add {dir}, or without a sparse checkout: git update-index --no-skip-worktree {path}, git restore {path}"),
                _ => format!("git restore {path}, or to begin a new one: git rm {path}"),
            }))
        }
        Vcs::Jj => {
            let files = paths.iter().map(|path| format!("root-file:{path:?}"));
            let list = jj(root)?.args(["file", "list", "--ignore-working-copy", "--revision", "@", "--"]).args(files);
            let listed = or_not_installed(list.stdout())?;
            listed.lines().next().map_or(Ok(()), |path| {
                Err(hidden(root, path).hint(format!("jj sparse set --add {path}, or: jj restore {path}")))
            })
        }
        Vcs::Hg | Vcs::Sl => {
            let tool = if vcs == Vcs::Sl { sl(root)? } else { hg(root) };
            let files = paths.iter().map(|path| format!("path:{path}"));
            let listed = tool.args(["files", "--rev", ".", "--"]).args(files).stdout_or_none();
            let listed = or_not_installed(listed.map(Option::unwrap_or_default))?;
            listed.lines().next().map_or(Ok(()), |path| {
                Err(hidden(root, path).hint(format!("hg revert {path}, or to begin a new one: hg forget {path}")))
            })
        }
        Vcs::None => Ok(()),
    }
}

/// Refuses files of the commit in a git worktree where nothing is checked out yet, as after `git clone --no-checkout`.
fn check_checked_out(root: &Path, paths: &[&str]) -> Result<()> {
    if root.join(".git/index").exists() {
        return Ok(());
    }
    let git = Git::in_worktree(root)?;
    if !has_commit(&git, "HEAD")? {
        return Ok(());
    }
    let tree =
        offline(&git).args(["ls-tree", "-z", "--name-only", "--full-tree", "HEAD", "--"]).args(paths).stdout()?;
    match tree.split('\0').find(|path| !path.is_empty()) {
        Some(path) if git.command().args(["ls-files", "-z"]).bytes()?.is_empty() => {
            Err(hidden(root, path).hint("nothing is checked out yet: git checkout"))
        }
        _ => Ok(()),
    }
}

/// Takes the list of a tool that is not installed for empty.
fn or_not_installed(listed: Result<String>) -> Result<String> {
    listed.or_else(|error| if is_not_installed(&error) { Ok(String::new()) } else { Err(error) })
}

fn hidden(root: &Path, path: &str) -> Error {
    Error::unavailable(format!("the ledger {} is not in the tree, but in the commit", root.join(path).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000";

    /// Parses a list in which `|` stands for NUL.
    fn versions(output: &str) -> Result<Vec<Version>> {
        versions_of(output.replace('|', "\0").as_bytes(), "own")
    }

    fn objects(contents: &[Content]) -> Vec<String> {
        let object = |content: &Content| match &content.0 {
            Source::Object(object) => object.clone(),
            Source::Path { path, .. } => path.clone(),
        };
        contents.iter().map(object).collect()
    }

    #[test]
    fn the_log_is_parsed_across_merges_and_moves() {
        let output = [
            "c5|name|105|another file at the former path|\n:100644 100644 o1 o9 M|old|".to_owned(),
            format!("c4|name|104|moved|\n:100644 000000 o3 {ZEROS} D|old|:000000 100644 {ZEROS} o4 A|own|"),
            "c3|name|103|merged||::100644 120000 100644 o1 o2 o3 MM|old|".to_owned(),
            "c2|name|102|a merge that took one side|".to_owned(),
            format!("c1|name|101||\n:000000 100644 {ZEROS} o1 A|old|"),
        ];
        let listed = versions(&output.concat()).unwrap();
        let seen: Vec<String> = listed
            .iter()
            .map(|Version { commit, before, after }| {
                let before: Vec<_> = before.iter().map(|contents| objects(contents)).collect();
                format!("{} {}: {before:?} to {:?}", commit.id, commit.time.as_millis(), objects(after))
            })
            .collect();
        assert_eq!(
            seen,
            [
                r#"c4 104000: [["o3"]] to ["o4"]"#,
                r#"c3 103000: [["o1"], []] to ["o3"]"#,
                r#"c1 101000: [[]] to ["o1"]"#,
            ]
        );
    }

    #[test]
    fn a_truncated_or_malformed_log_is_an_error() {
        for output in ["c1|name|101", "c1|name|soon|s|", ":100644 100644 a b M|own|", "c1|n|1|s|\n:1 2|own|"] {
            assert!(versions(output).is_err(), "{output:?}");
        }
        assert_eq!(versions("").unwrap(), []);
    }
}
