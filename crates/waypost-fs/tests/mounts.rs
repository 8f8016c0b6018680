//! Deleting a tree that contains a mount point or an immutable file.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use waypost_core::Kind;
use waypost_fs::{FileIdentity, remove_tree};
use waypost_testkit::{temp_dir, unavailable};

/// A bind mount of a directory, unmounted when dropped.
struct Bound<'a>(&'a Path);

impl<'a> Bound<'a> {
    fn new(from: &Path, to: &'a Path) -> Self {
        let mount = Command::new("mount").arg("--bind").arg(from).arg(to).output().unwrap();
        if !mount.status.success() {
            unavailable(&format!("this user may not mount: {}", String::from_utf8_lossy(&mount.stderr)));
        }
        Bound(to)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_mount_point_inside_a_tree_is_not_entered() {
    let dir = temp_dir();
    let (tree, canary) = (dir.path().join("tree"), dir.path().join("canary"));
    let inner = tree.join("a/inner");
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(&canary).unwrap();
    fs::File::create(canary.join("precious")).unwrap();
    // Both sides are on the same device, so comparing devices would not detect the mount.
    let bound = Bound::new(&canary, &inner);
    assert!(inner.join("precious").exists());
    let error = remove_tree(&tree, FileIdentity::of(&tree).unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{}", error.full_message());
    assert!(error.full_message().contains("mounted"), "{}", error.full_message());
    assert!(canary.join("precious").exists());
    drop(bound);
    remove_tree(&tree, FileIdentity::of(&tree).unwrap()).unwrap();
    assert!(!tree.exists() && canary.join("precious").exists());
}

#[test]
fn f51_an_immutable_file_is_named_and_deleted_once_it_is_not_any_more() {
    let dir = temp_dir();
    let (tree, file) = (dir.path().join("tree"), dir.path().join("tree/inner/fixed"));
    fs::create_dir_all(tree.join("inner")).unwrap();
    fs::File::create(&file).unwrap();
    let chattr = |flag: &str| {
        let set = Command::new("chattr").arg(flag).arg(&file).output().unwrap();
        if !set.status.success() {
            unavailable(&format!("files cannot be made immutable: {}", String::from_utf8_lossy(&set.stderr)));
        }
    };
    let remove = || remove_tree(&tree, FileIdentity::of(&tree).unwrap());
    chattr("+i");
    let error = remove();
    chattr("-i");
    let error = error.unwrap_err().full_message();
    assert!(error.contains("fixed"), "{error}");
    remove().unwrap();
    assert!(!tree.exists());
}
