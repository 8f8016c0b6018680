//! Files that version control tools and other persons leave in a directory.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;
use waypost::machine::config::{Config, Files, KEYS, Layer};
use waypost::machine::Variables;
use waypost_fs::PrivateDir;
use waypost_workspace::{Environment, detect, job_log as logs};

use crate::parts;

/// Memory, where it is a file system: the targets write thousands of files a second.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("waypost-fuzz-").tempdir_in(root).expect("a directory")
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).and_then(|()| fs::write(path, content)).expect("a file");
}

/// The files of a repository that decide what is found. The input has the content of each.
const LAYOUTS: [&[&str]; 4] = [
    &[".git/HEAD", ".git/config", ".git/packed-refs"],
    &[".git", "other/.git/HEAD", "other/.git/config"],
    &[".jj/repo", ".jj/working_copy/type", "other/.jj/repo/store/git_target"],
    &[".hg/requires", ".hg/sharedpath", ".hg/hgrc"],
];

/// Detection ends, and the repository that it finds contains the directory.
pub(crate) fn checkout(data: &[u8]) {
    let Some((layout, content)) = data.split_first() else { return };
    let root = scratch();
    let start = root.path().join("repo");
    fs::create_dir_all(start.join("a/b")).expect("a directory");
    let layout = LAYOUTS[usize::from(*layout) % LAYOUTS.len()];
    for (name, content) in layout.iter().zip(parts::<3>(content)) {
        write(&start.join(name), content);
    }
    if layout[0] == ".git/HEAD" {
        fs::create_dir_all(start.join(".git/objects")).expect("a directory");
        fs::create_dir_all(start.join(".git/refs")).expect("a directory");
    }
    let environment = Environment { ceilings: vec![root.path().to_owned()], ..Environment::default() };
    if let Ok(Some(found)) = detect(&start.join("a/b"), &environment) {
        // A bare repository has no worktree; a shared one may be anywhere, but not the directory that is used.
        if let Some(found_root) = found.root {
            assert!(start.join("a/b").starts_with(&found_root), "{}", found_root.display());
        }
        if let Some(url) = &found.remote_url {
            assert_eq!(&waypost_core::url_text::without_password(url), url);
        }
    }
}

/// A tracked configuration sets nothing personal, and without consent no path outside the repository.
pub(crate) fn config(data: &[u8]) {
    static ROOT: LazyLock<TempDir> = LazyLock::new(scratch);
    let file = ROOT.path().join(".waypost/config.toml");
    write(&file, data);
    let files = Files { user: None, shared: Some(file), private: None };
    let Ok(config) = Config::load(&files, &Variables::default(), &[]) else { return };
    for key in KEYS {
        let setting = config.get(key.name);
        assert!(!setting.is_some_and(|setting| setting.layer == Layer::Shared && key.personal), "{}", key.name);
    }
    for path in config.list("repos.additional") {
        let mut inside = PathBuf::from("/root");
        assert!(!path.starts_with('~') && !Path::new(&path).is_absolute(), "{path}");
        for component in Path::new(&path).components() {
            match component {
                Component::ParentDir => assert!(inside.pop() && inside.starts_with("/root"), "{path}"),
                Component::Normal(name) => inside.push(name),
                _ => {}
            }
        }
    }
}

/// No content of a private directory passes for a key that this user made.
pub(crate) fn private_dir(data: &[u8]) {
    static USER: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let dir = scratch();
        let user = dir.path().join("user");
        PrivateDir::from(dir.path().join("known")).with_user_dir(Some(user.clone())).create().expect("a directory");
        (dir, user)
    });
    let (dir, user) = &*USER;
    let known = fs::read(dir.path().join("known/key")).expect("its key");
    let foreign = dir.path().join("foreign");
    write(&foreign.join("state.db"), b"x");
    fs::write(foreign.join("key"), data).expect("a key");
    let checked = PrivateDir::from(foreign).with_user_dir(Some(user.clone())).check();
    assert!(checked.is_err() || data.trim_ascii() == known.trim_ascii(), "{data:?}");
}

/// Reading a log in pieces gives what reading it at once gives, whatever its index says.
pub(crate) fn job_log(data: &[u8]) {
    let [begins, older, current] = parts(data);
    let root = scratch();
    let log = root.path().join("output.log");
    fs::write(&log, current).and_then(|()| fs::write(logs::older(&log), older)).expect("logs");
    fs::write(root.path().join("output.log.begins"), begins).expect("an index");
    let whole = logs::read_from(&log, 0, u64::MAX);
    let end = logs::tail(&log, 16);
    assert!(end.bytes.len() <= 16 && whole.bytes.ends_with(&end.bytes));
    let mut from = whole.from;
    let mut pieces = Vec::new();
    while pieces.len() < whole.bytes.len() {
        let piece = logs::read_from(&log, from, 7);
        assert!(!piece.bytes.is_empty() && piece.bytes.len() <= 7);
        pieces.extend_from_slice(&piece.bytes);
        from = piece.next();
    }
    assert_eq!(pieces, whole.bytes);
}
