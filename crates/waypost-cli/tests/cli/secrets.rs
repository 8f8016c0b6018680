//! Secrets in output, checkpoints, messages and issues: none is written.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::files;
use crate::support::jobs::Shop;

/// The value of a variable that the configuration names.
const VALUE: &str = "value-of-a-variable-canary";

/// Secrets, without the prefixes by which they are recognized.
fn canaries() -> Vec<(&'static str, String)> {
    let digits = "0123456789abcdef";
    vec![
        ("ghp_", format!("githubcanary{digits}{digits}")),
        ("sk-ant-", format!("anthropiccanary-{digits}")),
        ("wayt_", digits.repeat(4)),
        ("wpj_", format!("fedcba98{}", digits.repeat(3))),
        ("https://me:", "passwordcanary@example.org/".to_owned()),
        ("https://gho_", format!("usercanary{digits}{digits}:x-oauth-basic@example.org/")),
        ("-----BEGIN PRIVATE KEY-----\n", format!("keycanary{digits}\n-----END PRIVATE KEY-----")),
        ("", VALUE.to_owned()),
    ]
}

fn all() -> String {
    canaries().iter().fold(String::new(), |all, (prefix, secret)| all + &format!("x {prefix}{secret}\n"))
}

/// Returns the files below a directory that contain a secret.
fn leaks(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for file in files(dir) {
        let content = std::fs::read(&file).unwrap_or_default();
        for (_, secret) in canaries() {
            // The end of a key, and what follows a user or a password in a URL, are not secrets.
            let secret = secret.split([':', '@', '\n']).next().unwrap().to_owned();
            if content.windows(secret.len()).any(|part| part == secret.as_bytes()) {
                found.push((file.clone(), secret));
            }
        }
    }
    found
}

#[test]
fn t30_secrets_are_removed_from_logs_checkpoints_records_and_issues_as_they_are_written() {
    let shop = Shop::new();
    let _ = shop.way(["config", "set", "redact.env", "MY_SECRET"]).ok();
    let source = shop.sandbox.dir("source").join("secrets");
    shop.sandbox.write(&source, all());
    let run = |args: &[&str]| shop.sandbox.run(shop.command().env("MY_SECRET", VALUE).args(args), "");
    let text = all();
    let issue = run(&["add", "Title ghp_githubcanary0123456789abcdef0123456789abcdef", "-d", &text, "--json"]).data();
    let id = issue["id"].as_str().unwrap();
    let _ = run(&["comment", id, &text, "--json"]).data();
    let _ = run(&["close", id, "--reason", &text, "--json"]).data();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }] }));
    let _ = run(&["task", "claim", "a", "--agent", "ann", "--json"]).data();
    let detail = json!({ "nested": [text] }).to_string();
    let checkpoint = ["task", "checkpoint", "a", "--agent", "ann", "--epoch", "1", "--type", "progress"];
    let _ = run(&[&checkpoint[..], &["--summary", &text, "--detail", &detail, "--json"]].concat()).data();
    let _ = run(&["msg", "send", "ann", &text, "--agent", "ann", "--json"]).data();
    let _ = run(&["task", "done", "a", "--agent", "ann", "--epoch", "1", "--outcome", &text, "--json"]).data();
    // The job prints the secrets slowly, so that they arrive in parts.
    let script = format!(
        "while IFS= read -r line; do printf '%s' \"${{line%????}}\"; sleep 0.01; printf '%s\\n' \"${{line#${{line%????}}}}\"; done < {}; cat {0}",
        source.display()
    );
    let job = run(&["job", "start", "--json", "--", "sh", "-c", &script]);
    let job = serde_json::from_str::<serde_json::Value>(&job.stdout).unwrap()["data"].clone();
    assert_eq!(job["status"], "completed", "{job}");
    let log = run(&["job", "logs", job["id"].as_str().unwrap()]).stdout;
    for (prefix, _) in canaries().iter().filter(|(prefix, _)| !prefix.is_empty()) {
        let line = format!("x {}[redacted]", prefix.trim_end());
        assert!(log.matches(&line).count() >= 1, "{line}: {log}");
    }
    assert!(log.matches("x [redacted]\n").count() == 2, "{log}");
    let shown = run(&["show", id, "--json"]).data();
    assert!(shown["description"].as_str().unwrap().contains("ghp_[redacted]"), "{shown}");
    for dir in [&shop.repo, &shop.sandbox.path("home")] {
        assert_eq!(leaks(dir), [], "{}", dir.display());
    }
}

#[test]
fn t30_a_secret_of_the_environment_that_a_program_writes_is_found_when_a_test_ends() {
    let shop = Shop::new();
    let job = shop.job(&[], "env > variables; env; git add variables");
    let written = Path::new(job["workspace_dir"].as_str().unwrap()).join("variables");
    // A job gets no variable that it does not need.
    assert!(std::fs::read_to_string(&written).unwrap().contains("PATH="));
    assert_eq!(shop.sandbox.files_with_canary(), Vec::<PathBuf>::new());
    let leak = shop.sandbox.command("sh", &shop.repo).args(["-c", "env > leaked"]).status();
    assert!(leak.unwrap().success());
    assert_eq!(shop.sandbox.files_with_canary(), [shop.repo.join("leaked")]);
    std::fs::remove_file(shop.repo.join("leaked")).unwrap();
}
