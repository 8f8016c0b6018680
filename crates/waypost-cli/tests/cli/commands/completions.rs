//! `way completions`, and the version.

use crate::support::sandbox;

#[test]
fn version_and_completions() {
    let sandbox = sandbox();
    let run = sandbox.way(&sandbox.path(""), ["--version"]).ok();
    assert_eq!(run.stdout, format!("way {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let run = sandbox.way(&sandbox.path(""), ["completions", shell]).ok();
        assert!(run.stdout.contains("worktree"), "{shell}");
    }
    let script = sandbox.way(&sandbox.path(""), ["completions", "bash"]).stdout;
    sandbox.write("way.bash", script);
    let ask = "source way.bash; COMP_WORDS=(way workt); COMP_CWORD=1; _way way workt way; echo \"${COMPREPLY[@]}\"";
    let output = sandbox.command("bash", &sandbox.path("")).args(["-c", ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "worktree", "{output:?}");
}
