//! Writes a git directory file by file, which is faster than starting git.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::read_small_file;

use super::mirror::Mirror;
use super::model::Plan;
use super::template::{INDEX_SETTINGS, Template};
use crate::vcs::config_file::ConfigFile;
use crate::vcs::git_layout;
use crate::vcs::run::Git;

/// Writes a git directory that borrows the objects of a mirror, with HEAD on the plan's branch.
pub(super) fn write(git_dir: &Path, mirror: &Path, plan: &Plan) -> Result<()> {
    let base = plan.base()?;
    let branch = plan.branch.as_deref().unwrap_or("main");
    let failed = |error: io::Error| Error::unavailable(format!("cannot write {}", git_dir.display())).because(error);
    let put = |name: &str, content: &str| -> io::Result<()> {
        let path = git_dir.join(name);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = fs::File::create_new(path)?;
        io::Write::write_all(&mut file, content.as_bytes())?;
        // An empty HEAD or configuration after a power cut would hide the job's commits.
        file.sync_all()
    };
    let written = (|| {
        for dir in ["objects/pack", "refs/heads", "refs/tags", "info"] {
            fs::create_dir_all(git_dir.join(dir))?;
        }
        use_mirror(git_dir, mirror)?;
        put(&format!("refs/heads/{branch}"), &format!("{base}\n"))?;
        if let Some((name, commit)) = &plan.upstream {
            put(&format!("refs/remotes/origin/{name}"), &format!("{commit}\n"))?;
            put("refs/remotes/origin/HEAD", &format!("ref: refs/remotes/origin/{name}\n"))?;
        }
        if let Some(source) = &plan.git_dir {
            // The user's ignore patterns for the repository also apply to its clones.
            if let Ok(Some(exclude)) = read_small_file(&source.join("info/exclude")) {
                put("info/exclude", &String::from_utf8_lossy(&exclude))?;
            }
        }
        put("config", &config(mirror, plan))?;
        // HEAD comes last: without it, git does not recognize the directory as a repository.
        put("HEAD", &format!("ref: refs/heads/{branch}\n"))
    })();
    written.map_err(failed)
}

/// Writes a git directory with the template's index.
pub(super) fn write_with_index(own: &Path, plan: &Plan, mirror: &Mirror, template: &Template) -> Result<()> {
    write(own, mirror.path(), plan)?;
    fs::copy(template.index(), own.join("index"))
        .map(drop)
        .map_err(|error| Error::unavailable(format!("cannot write {}", own.display())).because(error))
}

/// Updates the files to the plan's commit, if the template has another one.
pub(super) fn bring_to_base(plan: &Plan, template: &Template) -> Result<()> {
    let base = plan.base()?;
    if template.commit == base {
        return Ok(());
    }
    // Only Waypost has written the git directory so far, and all files are the template's. So git checks only the files
    // that differ.
    let git = Git::of_workspace(&plan.workspace)?;
    git.command().args(["read-tree", "-m", "-u", &template.commit, base]).stdout().map(drop)
}

/// Writes where objects are borrowed from, and where a shallow history ends.
fn use_mirror(git_dir: &Path, mirror: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut objects = mirror.join("objects").as_os_str().as_bytes().to_vec();
    objects.push(b'\n');
    fs::create_dir_all(git_dir.join("objects/info"))?;
    let mut file = fs::File::create_new(git_dir.join("objects/info/alternates"))?;
    io::Write::write_all(&mut file, &objects)?;
    file.sync_all()?;
    match fs::copy(mirror.join("shallow"), git_dir.join("shallow")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn config(mirror: &Path, plan: &Plan) -> String {
    let format = ConfigFile::read(&mirror.join("config")).get("extensions.objectformat").map(str::to_owned);
    let version = i32::from(format.is_some());
    let mut text =
        format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tlogAllRefUpdates = true\n");
    for (key, value) in INDEX_SETTINGS {
        let _ = writeln!(text, "\t{} = {value}", key.trim_start_matches("core."));
    }
    if let Some(format) = format {
        let _ = write!(text, "[extensions]\n\tobjectFormat = {}\n", quoted(&format));
    }
    if let Some(url) = &plan.origin {
        let url = quoted(url);
        let _ = write!(text, "[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n");
    }
    // Commits get the same author as in the source, and ledgers are merged by the same driver.
    let source = |key: &str| git_layout::setting(plan.git_dir.as_deref()?, None, key);
    if let (Some(name), Some(email)) = (source("user.name"), source("user.email")) {
        let _ = write!(text, "[user]\n\tname = {}\n\temail = {}\n", quoted(&name), quoted(&email));
    }
    if let (Some(name), Some(driver)) = (source("merge.waypost.name"), source("merge.waypost.driver")) {
        let _ = write!(text, "[merge \"waypost\"]\n\tname = {}\n\tdriver = {}\n", quoted(&name), quoted(&driver));
    }
    text
}

/// Quotes a value for git's configuration.
fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}
