//! Finds and repairs mirrors that a power cut or a killed git left unusable.
//!
//! A file that was written shortly before a power cut may be empty afterwards, or full of zeros. Mirrors hold
//! snapshots, so a repair deletes nothing but locks that no git holds: it moves unusable files into the mirror's directory
//! `damaged`, writes `HEAD` and `config` anew, and keeps every ref whose objects are all there.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock, network_file_system, rename_new, replace, sync_file_system};

use super::mirror::{Mirror, fetch_local, write_settings};
use crate::vcs::config_file::ConfigFile;
use crate::vcs::git_processes::is_git_running;
use crate::vcs::run::{Git, set_config};

/// The maximum time to wait for a process that makes a workspace of the same repository.
const LOCK_TIMEOUT: Duration = Duration::from_mins(30);

/// The directory for unusable files, in the mirror itself.
const DAMAGED_DIR: &str = "damaged";

/// A damaged mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedMirror {
    /// The mirror.
    #[serde(with = "waypost_core::path_text::serde")]
    pub mirror: PathBuf,
    /// The files that cannot be what git wrote, relative to the mirror.
    pub files: Vec<String>,
}

/// Examines every mirror and returns the damaged ones.
pub fn damaged_mirrors(mirrors: &Path) -> Result<Vec<DamagedMirror>> {
    let mut found = Vec::new();
    for mirror in entries(mirrors)?.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "git")) {
        let mut files = damaged_files(&mirror)?;
        files.extend(empty_objects(&mirror)?);
        if !files.is_empty() {
            let files = files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            found.push(DamagedMirror { mirror, files });
        }
    }
    Ok(found)
}

/// Repairs a mirror, unless another process did meanwhile. Returns the refs that lack objects and could not be kept.
pub fn repair_mirror(mirror: &Path) -> Result<Vec<String>> {
    let _lock = FileLock::acquire(&mirror.with_extension("lock"), LOCK_TIMEOUT)?;
    // The configuration names the repository that the mirror is a clone of.
    let source = ConfigFile::read(&mirror.join("config")).get("remote.origin.url").map(PathBuf::from);
    repair(mirror, source.filter(|source| source.is_dir()).as_deref())
}

/// Repairs a mirror if it exists and is damaged. The caller does not hold its lock.
pub(super) fn ensure_usable(mirror: &Mirror) -> Result<()> {
    remove_abandoned_locks(mirror.path())?;
    if mirror.path().is_dir() && !damaged_files(mirror.path())?.is_empty() {
        repair_mirror(mirror.path())?;
    }
    Ok(())
}

/// Repairs a mirror if it is damaged. The caller holds its lock, and knows the repository that it mirrors.
pub(super) fn ensure_usable_locked(mirror: &Mirror, source: Option<&Path>) -> Result<()> {
    remove_abandoned_locks(mirror.path())?;
    if !damaged_files(mirror.path())?.is_empty() {
        repair(mirror.path(), source)?;
    }
    Ok(())
}

/// Removes locks of git that a killed git left in a repository of ours, and that would make every later git fail.
///
/// On a network file system they stay: a git of another machine may hold them.
pub(super) fn remove_abandoned_locks(repository: &Path) -> Result<()> {
    let mut files = entries(repository)?;
    for dir in ["refs", "reftable"] {
        files.extend(files_below(&repository.join(dir))?);
    }
    files.retain(|file| file.extension().is_some_and(|kind| kind == "lock"));
    // The number of a deleted file may be used again, but not with the same time.
    let version = |file: &Path| {
        let metadata = file.symlink_metadata().ok()?;
        Some((FileIdentity::of_entry(file).ok()?, metadata.modified().ok()?))
    };
    let locks: Vec<_> = files.into_iter().map(|file| (version(&file), file)).collect();
    let may_be_held = || {
        let is_shared = !matches!(network_file_system(repository), Ok(None));
        is_shared || is_git_running(&[repository.to_owned()])
    };
    if locks.is_empty() || may_be_held() {
        return Ok(());
    }
    for (seen, lock) in locks {
        // A git that was started meanwhile may have created another lock.
        if seen.is_some() && version(&lock) == seen {
            log::debug!("remove lock {} of a killed git", lock.display());
            let _ = fs::remove_file(&lock);
        }
    }
    Ok(())
}

/// Lists files that git always writes completely and that are incomplete: `HEAD`, `config`, refs and packs.
///
/// Reads only the beginning of each, so that every command that uses a mirror can afford it.
fn damaged_files(mirror: &Path) -> Result<Vec<PathBuf>> {
    let has_tables = mirror.join("reftable").is_dir();
    let mut damaged = Vec::new();
    let head = beginning(&mirror.join("HEAD"))?;
    if !head.as_deref().is_some_and(is_ref) {
        damaged.push("HEAD".into());
    }
    let config = ConfigFile::read(&mirror.join("config"));
    if config.get("core.repositoryformatversion").is_none() || !config.is_true("core.bare") {
        damaged.push("config".into());
    }
    damaged.extend(["objects", "refs"].iter().filter(|dir| !mirror.join(dir).is_dir()).map(PathBuf::from));
    let is_packed_refs = |text: &[u8]| text.first().is_none_or(|byte| *byte == b'#' || byte.is_ascii_hexdigit());
    if beginning(&mirror.join("packed-refs"))?.is_some_and(|text| !is_packed_refs(&text)) {
        damaged.push("packed-refs".into());
    }
    if !has_tables {
        for file in files_below(&mirror.join("refs"))? {
            let is_lock = file.extension().is_some_and(|kind| kind == "lock");
            if !is_lock && beginning(&file)?.is_some_and(|text| !is_ref(&text)) {
                damaged.push(relative(mirror, &file));
            }
        }
    }
    for file in entries(&mirror.join("objects/pack"))? {
        let magic: &[u8] = match file.extension().and_then(|kind| kind.to_str()) {
            Some("pack") => b"PACK",
            Some("idx") => b"\xfftOc",
            Some("rev") => b"RIDX",
            _ => continue,
        };
        // An index of the first version has no magic number, but begins with small numbers.
        let is_old_index =
            |text: &[u8]| magic == b"\xfftOc" && text.starts_with(&[0, 0]) && text.iter().any(|byte| *byte != 0);
        if beginning(&file)?.is_some_and(|text| !text.starts_with(magic) && !is_old_index(&text)) {
            damaged.push(relative(mirror, &file));
        }
    }
    Ok(damaged)
}

/// Lists loose objects without content. Git would neither read nor replace them.
fn empty_objects(mirror: &Path) -> Result<Vec<PathBuf>> {
    let objects = mirror.join("objects");
    let mut empty = Vec::new();
    for dir in entries(&objects)? {
        let is_loose = dir.file_name().is_some_and(|name| name.len() == 2);
        if is_loose && dir.is_dir() {
            let files = entries(&dir)?.into_iter().filter(|file| file.metadata().is_ok_and(|found| found.len() == 0));
            empty.extend(files.map(|file| relative(mirror, &file)));
        }
    }
    Ok(empty)
}

/// Repairs a mirror whose lock the caller holds. Returns the refs that lack objects and could not be kept.
fn repair(mirror: &Path, source: Option<&Path>) -> Result<Vec<String>> {
    let cannot = |error: io::Error| Error::unavailable(format!("cannot repair {}", mirror.display())).because(error);
    let damaged = damaged_files(mirror)?;
    for file in damaged.iter().chain(&empty_objects(mirror)?) {
        log::warn!("{} of the mirror {} is damaged; moving it aside", file.display(), mirror.display());
        set_aside(mirror, file).map_err(cannot)?;
    }
    for dir in ["objects/pack", "refs/heads"] {
        if !mirror.join("reftable").is_dir() || dir.starts_with("objects") {
            fs::create_dir_all(mirror.join(dir)).map_err(cannot)?;
        }
    }
    let is_damaged = |name: &str| damaged.iter().any(|file| file == Path::new(name));
    if is_damaged("config") {
        replace(&mirror.join("config"), config(mirror)?.as_bytes(), 0o600).map_err(cannot)?;
    }
    if is_damaged("HEAD") {
        replace(&mirror.join("HEAD"), b"ref: refs/heads/main\n", 0o600).map_err(cannot)?;
    }
    if is_damaged("config") {
        write_settings(mirror, "")?;
        if let Some(source) = source {
            set_config(&mirror.join("config"), "remote.origin.url", source)?;
        }
    }
    index_packs(mirror)?;
    let lost = set_aside_unconnected(mirror, source)?;
    sync_file_system(mirror).map_err(cannot)?;
    Ok(lost)
}

/// Returns a configuration that makes git recognize the directory as a bare repository.
fn config(mirror: &Path) -> Result<String> {
    let names = entries(&mirror.join("objects/pack"))?;
    let names = names.iter().filter_map(|path| path.file_name()?.to_str()?.strip_prefix("pack-")?.split('.').next());
    let refs = files_below(&mirror.join("refs"))?;
    let refs = refs.iter().filter_map(|file| fs::read_to_string(file).ok());
    let is_sha256 = names.map(str::to_owned).chain(refs).any(|name| name.trim_end().len() == 64);
    let has_tables = mirror.join("reftable").is_dir();
    let mut text = format!(
        "[core]\n\trepositoryformatversion = {}\n\tfilemode = true\n\tbare = true\n",
        i32::from(is_sha256 || has_tables)
    );
    if is_sha256 {
        text += "[extensions]\n\tobjectFormat = sha256\n";
    }
    if has_tables {
        text += "[extensions]\n\trefStorage = reftable\n";
    }
    Ok(text)
}

/// Makes an index for every pack that has none. Moves packs that git cannot read aside.
fn index_packs(mirror: &Path) -> Result<()> {
    let cannot = |error: io::Error| Error::unavailable(format!("cannot repair {}", mirror.display())).because(error);
    for file in entries(&mirror.join("objects/pack"))? {
        let kind = file.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let is_alone = match kind {
            "pack" => !file.with_extension("idx").exists(),
            "idx" | "rev" => !file.with_extension("pack").exists(),
            _ => false,
        };
        if is_alone
            && kind == "pack"
            && Git::of_repository(mirror)?.command().arg("index-pack").arg(&file).succeeds()?
        {
            continue;
        }
        if is_alone {
            set_aside(mirror, &relative(mirror, &file)).map_err(cannot)?;
        }
    }
    Ok(())
}

/// Moves refs aside that lead to missing objects, because every git command would fail on them. Returns their names.
///
/// A ref is restored if a fetch from the mirrored repository brings its objects back.
fn set_aside_unconnected(mirror: &Path, source: Option<&Path>) -> Result<Vec<String>> {
    let git = Mirror::at(mirror).git()?;
    let broken = unconnected(mirror, &git)?;
    for (name, object) in &broken {
        log::warn!("{name} of the mirror {} lacks objects; moving it aside", mirror.display());
        record_aside(mirror, name, object)?;
        remove_ref(mirror, &git, name)?;
    }
    let Some(source) = source.filter(|_| !broken.is_empty()) else { return Ok(names_of(broken)) };
    let fetch = fetch_local(&git, source, &["--refetch"])?.arg("+refs/heads/*:refs/heads/*");
    if let Err(error) = fetch.stdout() {
        log::warn!("cannot fetch the missing objects of {}: {}", mirror.display(), error.full_message());
    }
    let mut lost = Vec::new();
    for (name, object) in broken {
        let is_back = is_connected(&git, &object)? && git.command().args(["update-ref", &name, &object]).succeeds()?;
        if !is_back {
            lost.push((name, object));
        }
    }
    Ok(names_of(lost))
}

fn names_of(refs: Vec<(String, String)>) -> Vec<String> {
    refs.into_iter().map(|(name, _)| name).collect()
}

/// Records the object of a ref before the ref is removed.
fn record_aside(mirror: &Path, name: &str, object: &str) -> Result<()> {
    let path = free_place(&mirror.join(DAMAGED_DIR).join(name));
    let cannot = |error: io::Error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
    fs::create_dir_all(path.parent().unwrap_or(mirror)).map_err(cannot)?;
    replace(&path, format!("{object}\n").as_bytes(), 0o600).map_err(cannot)
}

/// Returns whether an object and all objects reachable from it exist.
fn is_connected(git: &Git, object: &str) -> Result<bool> {
    git.command().args(["rev-list", "--quiet", "--objects", object]).succeeds()
}

/// Lists the refs that lead to missing objects, each with its object.
fn unconnected(mirror: &Path, git: &Git) -> Result<Vec<(String, String)>> {
    let refs = refs(mirror, git)?;
    let lines: Vec<u8> = refs.iter().flat_map(|(_, object)| format!("{object}\n").into_bytes()).collect();
    if refs.is_empty()
        || git.command().args(["rev-list", "--quiet", "--objects", "--stdin"]).stdout_with_input(&lines).is_ok()
    {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (name, object) in refs {
        if !is_connected(git, &object)? {
            found.push((name, object));
        }
    }
    Ok(found)
}

/// Lists all refs. Git omits those whose objects are missing, so loose refs are read from their files.
fn refs(mirror: &Path, git: &Git) -> Result<Vec<(String, String)>> {
    let listed = git.command().args(["for-each-ref", "--format=%(refname) %(objectname)"]).stdout()?;
    let listed = listed.lines().filter_map(|line| line.split_once(' '));
    let mut found: Vec<(String, String)> = listed.map(|(name, object)| (name.to_owned(), object.to_owned())).collect();
    if mirror.join("reftable").is_dir() {
        return Ok(found);
    }
    for file in files_below(&mirror.join("refs"))? {
        let name = relative(mirror, &file).to_string_lossy().into_owned();
        let object = fs::read_to_string(&file).unwrap_or_default().trim_end().to_owned();
        let is_object = !object.is_empty() && object.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_object && !found.iter().any(|(known, _)| *known == name) {
            found.push((name, object));
        }
    }
    Ok(found)
}

/// Removes a ref whose name and object the caller has recorded.
fn remove_ref(mirror: &Path, git: &Git, name: &str) -> Result<()> {
    git.command().args(["update-ref", "--no-deref", "-d", name]).succeeds()?;
    match fs::remove_file(mirror.join(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::unavailable(format!("cannot remove {name} of {}", mirror.display())).because(error))
        }
        _ => Ok(()),
    }
}

/// Moves a file into the mirror's directory of damaged files. A missing file is not an error.
fn set_aside(mirror: &Path, file: &Path) -> io::Result<()> {
    let from = mirror.join(file);
    if from.symlink_metadata().is_err() {
        return Ok(());
    }
    let to = free_place(&mirror.join(DAMAGED_DIR).join(file));
    fs::create_dir_all(to.parent().unwrap_or(mirror))?;
    rename_new(&from, &to)
}

/// Returns an unused path: this one, or the first with a number.
fn free_place(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (1..).map(|number| path.with_file_name(format!("{name}.{number}")));
    let mut places = std::iter::once(path.to_owned()).chain(numbered);
    places.find(|place| place.symlink_metadata().is_err()).unwrap_or_else(|| path.to_owned())
}

/// Returns whether a file is a valid ref: the id of an object, or the name of another ref.
fn is_ref(text: &[u8]) -> bool {
    let object = text.trim_ascii_end();
    text.starts_with(b"ref: refs/") || (object.len() >= 40 && object.iter().all(u8::is_ascii_hexdigit))
}

/// Reads the first bytes of a file. None if it does not exist.
fn beginning(file: &Path) -> Result<Option<Vec<u8>>> {
    let cannot = |error: io::Error| Error::unavailable(format!("cannot read {}", file.display())).because(error);
    let opened = match fs::File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let mut text = Vec::new();
    opened.take(1024).read_to_end(&mut text).map_err(cannot)?;
    Ok(Some(text))
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for path in entries(&dir)? {
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) { dirs.push(path) } else { found.push(path) }
        }
    }
    Ok(found)
}

/// Lists the entries of a directory. A missing one has none.
pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    }
}

fn relative(mirror: &Path, file: &Path) -> PathBuf {
    file.strip_prefix(mirror).unwrap_or(file).to_owned()
}
