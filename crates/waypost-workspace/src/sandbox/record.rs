//! What Waypost itself runs in the workspace of a job is restricted as the job is.
//!
//! A job decides what is in its workspace and in its git directory, also while a tool works there: a link in the place of an
//! index, a log or a message leads the tool to any file of the user, and no check before is in time. So before a job starts
//! in a sandbox, the supervisor records its restrictions beside the workspace, where no job writes. From then on every tool
//! that works in the workspace starts in these restrictions, and can do no more than the job. The record also tells where
//! the git directory of a worktree is: the file in the workspace is the job's.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::model::SandboxMode;
use waypost_core::{Error, Result, path_text};
use waypost_fs::{read_permitted_small_file, read_small_file, replace};

use super::{Access, BUBBLEWRAP, Confinement, HELPER_ARGUMENTS, Mechanism, Rule, Stage, bubblewrap, closed, mechanism};
use crate::surroundings;

/// The name of the record, in the directory of a workspace.
pub(crate) const RECORD: &str = "waypost-sandbox.json";

/// The maximum memory of a tool, in bytes: a job can make it read a file without an end.
const MAX_MEMORY: u64 = 8 << 30;

/// The restrictions of the jobs of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSandbox {
    /// The workspace.
    #[serde(with = "path_text::serde")]
    pub(crate) root: PathBuf,
    /// The git directory of a git worktree.
    #[serde(with = "path_text::optional", default)]
    pub(crate) git_dir: Option<PathBuf>,
    /// The git directory of the repository that a git worktree belongs to.
    #[serde(with = "path_text::optional", default)]
    pub(crate) common_dir: Option<PathBuf>,
    mode: SandboxMode,
    rules: Vec<Rule>,
}

/// Returns the git directory of a worktree: the recorded one, or the one that its file names if no job in a sandbox has
/// worked there yet.
pub fn git_dir_of_worktree(root: &Path) -> Result<Option<PathBuf>> {
    if let Some(known) = JobSandbox::of(root)? {
        return Ok(known.git_dir);
    }
    let link = read_small_file(&root.join(".git"))?.unwrap_or_default();
    Ok(link.trim_ascii_end().strip_prefix(b"gitdir: ").map(|path| root.join(path_of(path))))
}

/// Returns whether this user has made a file. In a directory of all users, such as `/tmp`, another one may have put a record.
fn is_own(file: &Path) -> bool {
    file.symlink_metadata().is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Records the restrictions of a job before it starts. `common_dir` is the repository that a git worktree belongs to.
pub fn record(root: &Path, common_dir: Option<&Path>, confinement: &Confinement) -> Result<()> {
    let Some(home) = root.parent().filter(|_| confinement.mode != SandboxMode::Off) else { return Ok(()) };
    let git_dir = common_dir.map(|_| git_dir_of_worktree(root)).transpose()?.flatten();
    let mut rules = confinement.rules.clone();
    // A link to an endless device is nothing that a tool should read in place of a file. Names of its own are random.
    let is_needed = |path: &Path| ["/dev/null", "/dev/random", "/dev/urandom"].iter().any(|known| path == *known);
    rules.retain(|rule| rule.access != Access::Device || is_needed(&rule.path));
    let (root, common_dir) = (root.to_owned(), common_dir.map(Path::to_owned));
    let recorded = JobSandbox { root, git_dir, common_dir, mode: confinement.mode, rules };
    let text = serde_json::to_vec(&recorded).map_err(|error| Error::internal(error.to_string()))?;
    replace(&home.join(RECORD), &text, 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write in {}", home.display())).because(error))
}

impl JobSandbox {
    /// Returns the restrictions of the jobs in whose workspace a path is. None if no job in a sandbox worked there, and in
    /// the sandbox itself, where the record cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Option<JobSandbox>> {
        let cannot = |error| Error::unavailable(format!("cannot read {}", path.display())).because(error);
        let named = std::path::absolute(surroundings::resolve(path)).map_err(cannot)?;
        // The path may lead through a link into a workspace, or through one of the job out of it.
        let real = named.canonicalize().unwrap_or_else(|_| named.clone());
        let mut found: Option<(JobSandbox, PathBuf)> = None;
        for dir in named.ancestors().chain(real.ancestors()) {
            let file = dir.join(RECORD);
            let Some(text) = read_permitted_small_file(&file)?.filter(|_| is_own(&file)) else { continue };
            let described: JobSandbox = serde_json::from_slice(&text)
                .map_err(|error| Error::damaged(format!("{} describes no sandbox", file.display())).because(error))?;
            match &found {
                Some((known, _)) if *known == described => {}
                // A job could put one into its workspace that restricts less.
                Some((_, other)) => {
                    let both = format!("{} and {} both describe a sandbox", other.display(), file.display());
                    return Err(
                        Error::refused(both).hint("one of them is the work of a job: delete the one in its workspace")
                    );
                }
                None => found = Some((described, file)),
            }
        }
        Ok(found.map(|(found, _)| found))
    }

    /// Returns the words that start a command in these restrictions. It may also write in `scratch`, and read the files of
    /// `holder`, which has the restrictions for the helper.
    pub(crate) fn words(
        &self,
        holder: &Path,
        scratch: &Path,
        put: impl FnOnce(&[u8]) -> Result<PathBuf>,
    ) -> Result<Vec<OsString>> {
        let mut found = mechanism(self.mode)?;
        // Landlock restricts the files in the same way, and is much faster.
        found.bubblewrap &= self.mode == SandboxMode::Bubblewrap || !found.landlock;
        let mut rules = self.rules.clone();
        for (path, access) in [(holder, Access::Read), (scratch, Access::Write)] {
            rules.push(Rule { path: path.to_owned(), access });
        }
        let Mechanism { bubblewrap: has_bubblewrap, landlock } = found;
        let stage = Stage {
            rules: landlock.then(|| {
                if has_bubblewrap {
                    rules.iter().filter(|rule| rule.access != Access::Closed).cloned().collect()
                } else {
                    closed::without_closed(&rules)
                }
            }),
            memory: Some(MAX_MEMORY),
            ..Stage::default()
        };
        let text = serde_json::to_vec(&stage).map_err(|error| Error::internal(error.to_string()))?;
        let file = put(&text)?;
        let helper = surroundings::own_program()
            .map_err(|error| Error::unavailable("cannot start the sandbox of the job").because(error))?;
        let mut words = if has_bubblewrap {
            let mut words = bubblewrap(&rules, true, !landlock, &self.root, &helper);
            words.insert(1, "--die-with-parent".into());
            words
        } else {
            let arguments = HELPER_ARGUMENTS.map(OsString::from);
            std::iter::once(helper.into_os_string()).chain(arguments).collect()
        };
        debug_assert!(!has_bubblewrap || words[0] == BUBBLEWRAP);
        words.extend([file.into_os_string(), "--".into()]);
        Ok(words)
    }
}
