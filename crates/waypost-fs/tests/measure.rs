//! The measured disk usage of a tree equals the output of `du`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use waypost_fs::measure_tree;

#[test]
fn p15_the_usage_of_a_tree_equals_the_output_of_du() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    for number in 0..50 {
        waypost_fs::replace(&tree.join(format!("a/{number}")), &vec![1; number * 1000], 0o600).unwrap();
    }
    fs::hard_link(tree.join("a/49"), tree.join("a/b/again")).unwrap();
    symlink("/", tree.join("a/b/root")).unwrap();
    fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let usage = measure_tree(&tree).unwrap();
    let du = Command::new("du").args(["-s", "-B1", "--"]).arg(&tree).output().unwrap();
    let du = String::from_utf8(du.stdout).unwrap();
    assert_eq!(Some(usage.bytes.to_string().as_str()), du.split('\t').next());
    assert_eq!((usage.entries, usage.hard_links), (56, 2));
    symlink(&tree, dir.path().join("link")).unwrap();
    measure_tree(&dir.path().join("link")).unwrap_err();
}
