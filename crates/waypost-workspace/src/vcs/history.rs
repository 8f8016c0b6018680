//! What version control remembers of a file: its versions, newest first.
//!
//! Nothing is checked out, fetched or written. Of git, the commits that touched the file are listed by one process and
//! whichever versions somebody looks at are read by another; letting git search for a text in all of them takes six times
//! as long. Mercurial and Sapling answer both in one process.

use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::checkout::Checkout;
use super::git_layout;
use super::probe::is_same_place;
use super::run::{Conversation, Git, Tool, hg, jj, sl};

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its whole id.
    pub id: String,
    /// Who wrote it.
    pub author: String,
    /// When it was made.
    pub time: Timestamp,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// Returns as much of the id as people need.
    pub fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// The content of a file at one time. [`History::read`] reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content(Source);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// An object of git.
    Object(String),
    /// What a path has in a revision of Mercurial, if anything.
    Path { revision: String, path: String },
}

/// A commit that changed the file, with the contents before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The commit.
    pub commit: Commit,
    /// For each of its parents what the file was. A file that is not there has no content.
    pub before: Vec<Vec<Content>>,
    /// What the file is then.
    pub after: Vec<Content>,
}

/// The history of a file.
pub struct History {
    /// For each commit that the worktree is based on what the file is there; none before the first commit.
    pub base: Vec<Vec<Content>>,
    /// The commits that changed the file, none before its children.
    pub versions: Vec<Version>,
    /// Whether older commits exist that this clone does not have.
    pub is_shallow: bool,
    reader: Reader,
}

enum Reader {
    /// There is nothing to read.
    Nobody,
    Git(Conversation),
    Mercurial(CommandServer),
}

impl History {
    /// The history of a file that was never committed.
    fn unknown(git_dir: &Path) -> History {
        let is_shallow = git_dir.join("shallow").exists();
        History { base: Vec::new(), versions: Vec::new(), is_shallow, reader: Reader::Nobody }
    }

    /// Takes what git said of some commits and those before them. The first path is the file's own.
    fn read_git(&mut self, git: &Git, said: &[u8], heads: &[String], paths: &[&str]) -> Result<()> {
        self.versions = versions_of(said, paths[0])?;
        if self.versions.is_empty() {
            return Ok(());
        }
        for head in heads {
            self.base.push(contents_in(git, head, paths)?);
        }
        self.reader = Reader::Git(offline(git).args(["cat-file", "--batch"]).talk()?);
        Ok(())
    }

    /// Finds the versions of a file, by its path in a worktree. None without version control.
    ///
    /// `former` are paths that the file may have had. They count in commits before the one that put it where it is;
    /// Mercurial is not asked for them.
    pub fn of(checkout: &Checkout, root: &Path, path: &str, former: &[&str]) -> Result<Option<History>> {
        match checkout.vcs {
            Vcs::Git | Vcs::Jj => of_git(checkout, root, path, former),
            Vcs::Hg => of_mercurial(hg(root), "parents()", path).map(Some),
            Vcs::Sl => of_mercurial(sl(root)?, "parents()", path).map(Some),
            Vcs::None => Ok(None),
        }
    }

    /// Reads a content. None if the file is not there.
    pub fn read(&mut self, content: &Content) -> Result<Option<Vec<u8>>> {
        match (&mut self.reader, &content.0) {
            (Reader::Git(git), Source::Object(object)) => read_object(git, object).map(Some),
            (Reader::Mercurial(server), Source::Path { revision, path }) => {
                let path = format!("path:{path}");
                let answer = server.ask(&["cat", "--rev", revision, &path])?;
                // It says so if nothing matched, and other numbers if something went wrong.
                if answer.code == 1 { Ok(None) } else { answer.checked().map(Some) }
            }
            _ => Err(Error::internal("a content of another repository")),
        }
    }
}

/// Returns the history of a file on one branch: what others did on theirs counts when it came here.
pub(crate) fn on_branch(git: &Git, git_dir: &Path, branch: &str, path: &str) -> Result<History> {
    let mut history = History::unknown(git_dir);
    let heads = [branch.to_owned()];
    let said = log(git, &["--first-parent", "--diff-merges=first-parent"], &heads, &[path])?;
    history.read_git(git, &said, &heads, &[path])?;
    Ok(history)
}

fn of_git(checkout: &Checkout, root: &Path, path: &str, former: &[&str]) -> Result<Option<History>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    // Other directories may have a git of their own in them.
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
    let said = match log(&git, &["-c"], &heads, &paths) {
        Ok(said) => said,
        // There is no first commit yet.
        Err(_) if !has_commit(&git, &heads[0])? => return Ok(Some(history)),
        Err(error) => return Err(error),
    };
    history.read_git(&git, &said, &heads, &paths)?;
    Ok(Some(history))
}

/// Git without the network: looking at history fetches nothing, and runs nothing that a remote is said to need.
pub(crate) fn offline(git: &Git) -> Tool {
    git.command().env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none")
}

pub(crate) fn has_commit(git: &Git, revision: &str) -> Result<bool> {
    let commit = format!("{revision}^{{commit}}");
    offline(git).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).succeeds()
}

/// Lists the commits that touched any of the paths, with what they made of them. `merges` says what that means of merges.
fn log(git: &Git, merges: &[&str], heads: &[String], paths: &[&str]) -> Result<Vec<u8>> {
    // All that configuration could change about the answer is said, or it might run a program.
    let options = [
        "log",
        "-z",
        "--format=%H%x00%an%x00%ct%x00%s",
        "--encoding=UTF-8",
        "--date-order",
        // What was there only on a side that was merged and dropped is found as well.
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

/// Reads the list: for each commit four texts, then for each file a line of raw differences and its path.
fn versions_of(said: &[u8], own: &str) -> Result<Vec<Version>> {
    let mut tokens = said.split(|byte| *byte == 0).map(|token| String::from_utf8_lossy(token.trim_ascii_start()));
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
        let seconds: i64 = time.parse().map_err(|_| Error::internal(format!("git log says it was {time:?}")))?;
        let time = Timestamp::from_millis(seconds.saturating_mul(1000));
        listed.push((Commit { id: token.into_owned(), author, time, subject }, Vec::new()));
    }
    // Newer than the commit that put the file where it is, the former paths are other files.
    let is_own_appearing = |(raw, path): &(Raw, String)| path == own && raw.before.iter().all(Option::is_none);
    let appeared = listed.iter().rposition(|(_, files)| files.iter().any(is_own_appearing));
    let mut versions = Vec::new();
    for (number, (commit, mut files)) in listed.into_iter().enumerate() {
        if appeared.is_some_and(|appeared| number < appeared) {
            files.retain(|(_, path)| path == own);
        }
        // The path that counts comes first.
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

/// What a commit made of a file: its object in each parent, and now.
struct Raw {
    before: Vec<Option<String>>,
    after: Option<String>,
}

impl Raw {
    /// Reads `:100644 100644 OLD NEW M`, or the same with a colon, a mode and an object more for each further parent.
    fn read(line: &str) -> Result<Raw> {
        let parents = line.bytes().take_while(|byte| *byte == b':').count();
        let words: Vec<&str> = line[parents..].split(' ').collect();
        let (Some(modes), Some(objects)) = (words.get(..=parents), words.get(parents + 1..2 * parents + 2)) else {
            return Err(Error::internal(format!("git log says {line:?}")));
        };
        // Links, other repositories and nothing at all have no lines.
        let object = |(mode, object): (&&str, &&str)| mode.starts_with("100").then(|| (*object).to_owned());
        let mut files: Vec<Option<String>> = modes.iter().zip(objects).map(object).collect();
        let after = files.pop().flatten();
        Ok(Raw { before: files, after })
    }
}

/// Returns the contents of those paths that are files in a commit.
fn contents_in(git: &Git, revision: &str, paths: &[&str]) -> Result<Vec<Content>> {
    let said = offline(git).args(["ls-tree", "-z", "--full-tree", revision, "--"]).args(paths).bytes()?;
    let said = String::from_utf8_lossy(&said);
    let object_of = |path: &&str| {
        said.split('\0').find_map(|entry| {
            let (facts, found) = entry.split_once('\t')?;
            let object = facts.strip_prefix("100")?.rsplit(' ').next()?;
            (found == *path).then(|| Content(Source::Object(object.to_owned())))
        })
    };
    // Where the file is, the former paths do not count.
    Ok(paths.iter().find_map(object_of).into_iter().collect())
}

fn read_object(git: &mut Conversation, object: &str) -> Result<Vec<u8>> {
    git.say(format!("{object}\n").as_bytes())?;
    let answer = git.line()?;
    let Some(size) = answer.strip_prefix(object).and_then(|rest| rest.strip_prefix(" blob ")?.parse().ok()) else {
        return Err(Error::unavailable(format!("this clone does not have object {object}"))
            .because(answer)
            .hint("if it is a partial clone, git log --patch fetches what is missing"));
    };
    let mut bytes = git.bytes(size)?;
    // A newline follows.
    git.bytes(1)?;
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Returns the commits that a workspace of jj is based on. Its files are saved by nobody for that.
fn parents_in_jj(root: &Path) -> Result<Vec<String>> {
    let options = ["log", "--ignore-working-copy", "--no-graph", "--revisions=@- ~ root()"];
    let said = jj(root).args(options).arg(r#"--template=commit_id ++ "\n""#).stdout()?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Returns the history of a file up to some revisions.
pub(crate) fn of_mercurial(tool: Tool, heads: &str, path: &str) -> Result<History> {
    /// What ends each text of a commit, and stands in none of them.
    const TEMPLATE: &str = r"{node}\0{author|person}\0{date|hgdate}\0{desc|firstline}\0{p1node}\0{p2node}\0";
    let mut server = CommandServer::start(tool)?;
    let at = |revision: &str| vec![Content(Source::Path { revision: revision.to_owned(), path: path.to_owned() })];
    let is_null = |revision: &&str| revision.bytes().all(|byte| byte == b'0');
    let revisions = format!("reverse(::{heads} and file(\"path:{path}\"))");
    let said = server.ask(&["log", "--rev", &revisions, "--template", TEMPLATE])?.checked()?;
    let said = String::from_utf8_lossy(&said);
    let mut versions = Vec::new();
    let texts: Vec<&str> = said.split('\0').collect();
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
    let said = server.ask(&["log", "--rev", heads, "--template", r"{node}\0"])?.checked()?;
    let said = String::from_utf8_lossy(&said);
    let base = said.split('\0').filter(|revision| !revision.is_empty()).filter(|one| !is_null(one)).map(at).collect();
    Ok(History { base, versions, is_shallow: false, reader: Reader::Mercurial(server) })
}

/// Mercurial, answering one command after another: starting it takes longer than what is asked.
struct CommandServer(Conversation);

/// What a command said, and how it ended.
struct Answer {
    code: i32,
    output: Vec<u8>,
    complaints: Vec<u8>,
}

impl Answer {
    fn checked(self) -> Result<Vec<u8>> {
        if self.code == 0 {
            return Ok(self.output);
        }
        let complaints = String::from_utf8_lossy(&self.complaints);
        Err(Error::unavailable("the history cannot be read").because(complaints.trim().trim_start_matches("abort: ")))
    }
}

impl CommandServer {
    fn start(tool: Tool) -> Result<Self> {
        let mut server = CommandServer(tool.args(["serve", "--cmdserver", "pipe"]).talk()?);
        // It introduces itself.
        server.frame()?;
        Ok(server)
    }

    /// Runs a command: its words, after their length in four bytes. The answer comes in pieces, the result last.
    fn ask(&mut self, words: &[&str]) -> Result<Answer> {
        let words = words.join("\0");
        let length = u32::try_from(words.len()).map_err(|_| Error::invalid("more than Mercurial can be asked"))?;
        self.0.say(&[b"runcommand\n", length.to_be_bytes().as_slice(), words.as_bytes()].concat())?;
        let mut answer = Answer { code: 0, output: Vec::new(), complaints: Vec::new() };
        loop {
            let (channel, data) = self.frame()?;
            match channel {
                b'o' => answer.output.extend(data),
                b'e' => answer.complaints.extend(data),
                b'r' => {
                    answer.code = data.try_into().map_or(-1, i32::from_be_bytes);
                    return Ok(answer);
                }
                // It asks for input, and gets none.
                b'I' | b'L' => self.0.say(&[0; 4])?,
                _ => {}
            }
        }
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let head = self.0.bytes(5)?;
        let length = head[1..].try_into().map_or(0, u32::from_be_bytes);
        // A request for input says how much it would like, and no data follows.
        let size = if head[0].is_ascii_uppercase() { 0 } else { u64::from(length) };
        Ok((head[0], self.0.bytes(size)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000";

    /// Reads a list in which bars stand for what ends a text.
    fn versions(said: &str) -> Result<Vec<Version>> {
        versions_of(said.replace('|', "\0").as_bytes(), "own")
    }

    fn objects(contents: &[Content]) -> Vec<String> {
        let object = |content: &Content| match &content.0 {
            Source::Object(object) => object.clone(),
            Source::Path { path, .. } => path.clone(),
        };
        contents.iter().map(object).collect()
    }

    #[test]
    fn a_list_of_commits_is_read_over_merges_and_moves() {
        let said = [
            "c5|name|105|theirs, which is another file now|\n:100644 100644 o1 o9 M|old|".to_owned(),
            format!("c4|name|104|moved|\n:100644 000000 o3 {ZEROS} D|old|:000000 100644 {ZEROS} o4 A|own|"),
            "c3|name|103|merged||::100644 120000 100644 o1 o2 o3 MM|old|".to_owned(),
            "c2|name|102|a merge that took one side|".to_owned(),
            format!("c1|name|101||\n:000000 100644 {ZEROS} o1 A|old|"),
        ];
        let listed = versions(&said.concat()).unwrap();
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
    fn a_list_that_is_cut_or_odd_is_an_error_and_never_a_shorter_history() {
        for said in ["c1|name|101", "c1|name|soon|s|", ":100644 100644 a b M|own|", "c1|n|1|s|\n:1 2|own|"] {
            assert!(versions(said).is_err(), "{said:?}");
        }
        assert_eq!(versions("").unwrap(), []);
    }
}
