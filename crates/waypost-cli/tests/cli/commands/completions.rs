//! `way completions` with the real shells, and the version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use waypost_testkit::Sandbox;

use crate::support::{NONE, sandbox};

#[test]
fn the_version_is_printed() {
    let sandbox = sandbox();
    let run = sandbox.way(&sandbox.path(""), ["--version"]).ok();
    assert_eq!(run.stdout, format!("way {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(sandbox.way(&sandbox.path(""), ["completions", shell]).ok().stdout.contains("way"), "{shell}");
    }
}

/// A repository with two issues, one of which blocks the other, a workflow and an agent; `way` is in the shells' PATH.
struct Fixture {
    sandbox: Sandbox,
    repo: PathBuf,
    ready: String,
    blocked: String,
    closed: String,
}

fn fixture() -> Fixture {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let add = |title: &str| -> String {
        let added = sandbox.way(&repo, ["add", title, "--json"]).data();
        added["id"].as_str().unwrap().to_owned()
    };
    let (blocked, ready, closed) = (add("Paint the door"), add("Build the door"), add("Buy wood"));
    let _ = sandbox.way(&repo, ["dep", "add", &blocked, &ready]).ok();
    let _ = sandbox.way(&repo, ["close", &closed]).ok();
    let _ = sandbox.way(&repo, ["label", "add", &ready, "wood", "$(touch pwned)", "`touch pwned`="]).ok();
    sandbox.write(repo.join("plan.yaml"), "tasks:\n  - name: saw\n  - name: glue\n    depends_on: [saw]\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "carpentry", "--plan", "plan.yaml", "--start"]).ok();
    let _ = sandbox.way(&repo, ["agent", "register", "ann"]).ok();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.way(&repo, ["completions", shell]).ok().stdout;
        sandbox.write(format!("way.{shell}"), script);
    }
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_way"), sandbox.path("bin/way")).unwrap();
    Fixture { sandbox, repo, ready, blocked, closed }
}

impl Fixture {
    /// Runs a shell with a script, and returns what it prints.
    fn shell(&self, program: &str, args: &[&str], script: &str) -> String {
        let mut command = self.sandbox.command(program, &self.repo);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.sandbox.path("bin").display())).env("TERM", "dumb");
        let output = command.args(args).args(["-c", script]).output().expect("the shell; cargo xtask test installs it");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{program}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses TAB at the end of a line in bash, which has the words given.
    fn bash(&self, words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let (last, before) = (words.len() - 1, words.len() - 2);
        let script = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={last}; _way way '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            self.sandbox.path("way.bash").display(),
            quoted.join(" "),
            words[last],
            words[before],
        );
        self.shell("bash", &["--norc"], &script).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn fish(&self, line: &str) -> Vec<String> {
        let script = format!("source '{}'; complete -C '{line}'", self.sandbox.path("way.fish").display());
        self.shell("fish", &["--no-config"], &script).lines().map(str::to_owned).collect()
    }

    /// Presses TAB in an interactive zsh on a pseudo-terminal, and returns the candidates that it lists.
    fn zsh(&self, line: &str) -> String {
        self.write_zsh_setup();
        let script = format!(
            "zmodload zsh/zpty; zpty shell zsh -f -i; zpty -w shell 'COLUMNS=200; source {}'\n\
             zpty -r shell seen '*<ready>*' >/dev/null\n\
             zpty -w -n shell '{line}'$'\\t'\n\
             zpty -w -n shell $'\\x15'\"print '<do''ne>'\"$'\\n'\n\
             zpty -r shell seen '*<done>*'; print -r -- $seen; zpty -d shell",
            self.sandbox.path("setup.zsh").display()
        );
        self.shell("zsh", &["-f"], &script)
    }

    fn write_zsh_setup(&self) {
        self.sandbox.write(
            "setup.zsh",
            format!(
                "PS1=; unsetopt zle_bracketed_paste prompt_cr list_ambiguous; LISTMAX=10000; fpath=({0} $fpath)\n\
                 autoload -U compinit; compinit -u -D; setopt auto_list no_list_beep no_always_to_end\n\
                 zstyle ':completion:*' list-colors ''; zstyle ':completion:*' menu no\n\
                 source {0}/way.zsh\n\
                 zle-line-init() {{ print -n '<ready>'; }}; zle -N zle-line-init\n",
                self.sandbox.path("").display()
            ),
        );
    }

    /// Returns all files of the sandbox with their content, except those of the shells.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    collect(&path, files);
                } else if !path.to_string_lossy().ends_with("-shm") {
                    files.insert(path.clone(), std::fs::read(&path).unwrap());
                }
            }
        }
        let mut files = BTreeMap::new();
        collect(&self.repo, &mut files);
        files
    }

    /// Asks the program itself, as the scripts do.
    fn asked(&self, words: &[&str]) -> Vec<String> {
        let args = ["__complete", "fish"].iter().chain(words);
        let lines = self.sandbox.way(&self.repo, args).ok().stdout;
        lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    }
}

#[test]
fn bash_completes_commands_options_and_live_ids() {
    let fixture = fixture();
    assert_eq!(fixture.bash(&["way", "workt"]), ["worktree"]);
    assert_eq!(fixture.bash(&["way", "add", "--prio"]), ["--priority"]);
    assert_eq!(fixture.bash(&["way", "list", "--color", "=", "n"]), ["never"]);
    assert_eq!(fixture.bash(&["way", "close", ""]), [&*fixture.ready, &*fixture.blocked]);
    assert_eq!(fixture.bash(&["way", "show", &fixture.closed[..fixture.closed.len() - 1]]), [&*fixture.closed]);
    assert_eq!(fixture.bash(&["way", "workflow", "show", "c"]), ["carpentry"]);
    assert_eq!(fixture.bash(&["way", "batch", "pl"]), ["plan.yaml"]);
    assert!(fixture.bash(&["way", "job", "start", "--", "gi"]).contains(&"git".to_owned()));
    // A name with special characters is quoted: bash inserts it into the line as it is.
    assert_eq!(fixture.bash(&["way", "list", "--label", "$"]), [r"\$\(touch\ pwned\)"]);
    assert_eq!(fixture.bash(&["way", "list", "--label", "`"]), [r"\`touch\ pwned\`="]);
}

/// Labels that run a command in a line of a shell, if they are not quoted. Each begins with another letter.
const HOSTILE: [&str; 16] = [
    "a$(touch pwned)=",
    "b`touch pwned`=",
    "c;touch pwned;",
    "d|touch pwned",
    "e&touch pwned",
    "f'$(touch pwned)'",
    "g\"$(touch pwned)\"",
    "h>pwned",
    "ié$(touch pwned)",
    "j\\;touch pwned",
    "k!!;touch pwned",
    "l{touch..pwned}",
    "m*[a]?#",
    "n%(e:touch pwned:)%F{red}",
    "o^x^touch pwned",
    "p\u{a0}:~/$HOME=~",
];

impl Fixture {
    /// Types a line for each hostile label on a pseudo-terminal: the first letter, TAB and Enter.
    fn type_hostile(&self, shell: &str, setup: &str) {
        let labels = ["label", "add", &self.ready].into_iter().chain(HOSTILE);
        let _ = self.sandbox.way(&self.repo, labels).ok();
        let line = |label: &&str| format!("zpty -w -n shell 'way list --label {}'$'\\t'$'\\n'\n", &label[..1]);
        let script = format!(
            "zmodload zsh/zpty; zpty shell {shell}; zpty -w shell 'source {}'\n\
             zpty -w shell \"echo '<re''ady>'\"; zpty -r shell seen '*<ready>*' >/dev/null\n{}\
             zpty -w shell \"echo '<do''ne>'\"; zpty -r shell seen '*<done>*'; print -r -- $seen; zpty -d shell",
            self.sandbox.path(setup).display(),
            HOSTILE.iter().map(line).collect::<String>(),
        );
        let shown = self.shell("zsh", &["-f"], &script);
        assert!(!self.repo.join("pwned").exists(), "{shell} ran a command: {shown}");
        // Each line lists the issue: the label was completed, and the shell passed it on as it is.
        assert_eq!(shown.matches("Build the door").count(), HOSTILE.len(), "{shell}: {shown}");
    }
}

/// The names come from a repository, which others write.
#[test]
fn no_name_that_bash_completes_runs_a_command() {
    let fixture = fixture();
    // In the second locale, `printf %q` writes a name that is not ASCII in other quotes.
    for shell in ["bash --norc --noprofile -i", "env LC_ALL=C bash --norc --noprofile -i"] {
        fixture.type_hostile(shell, "way.bash");
    }
}

#[test]
fn no_name_that_zsh_completes_runs_a_command() {
    let fixture = fixture();
    fixture.write_zsh_setup();
    fixture.type_hostile("zsh -f -i", "setup.zsh");
}

#[test]
fn no_name_that_fish_completes_runs_a_command() {
    fixture().type_hostile("fish --no-config -i", "way.fish");
}

#[test]
fn fish_completes_live_ids_with_their_titles() {
    let fixture = fixture();
    let expected = [format!("{}\tBuild the door", fixture.ready), format!("{}\tPaint the door", fixture.blocked)];
    assert_eq!(fixture.fish("way claim "), expected);
    assert!(fixture.fish("way show ").contains(&format!("{}\tBuy wood", fixture.closed)));
    assert_eq!(fixture.fish("way workt").first().map(|line| line.split('\t').next().unwrap()), Some("worktree"));
    assert!(fixture.fish("way task show ").iter().any(|line| line.starts_with("saw\t")));
    assert!(fixture.fish("way batch pl").iter().any(|line| line.starts_with("plan.yaml")));
}

#[test]
fn zsh_completes_live_ids_with_their_titles() {
    let fixture = fixture();
    let seen = fixture.zsh("way close ");
    assert!(seen.contains(&fixture.ready) && seen.contains("Build the door"), "{seen}");
    assert!(seen.contains(&fixture.blocked) && !seen.contains(&fixture.closed), "{seen}");
}

#[test]
fn every_kind_of_name_is_completed() {
    let fixture = fixture();
    assert_eq!(fixture.asked(&["reopen", ""]), [&*fixture.closed]);
    assert_eq!(fixture.asked(&["task", "done", ""]), ["saw", "glue"]);
    assert_eq!(fixture.asked(&["task", "list", "--workflow", ""]), ["carpentry"]);
    assert_eq!(fixture.asked(&["msg", "send", ""]), ["ann"]);
    assert_eq!(fixture.asked(&["task", "claim", "--agent", "a"]), ["ann"]);
    assert_eq!(fixture.asked(&["list", "--label=wo"]), ["--label=wood"]);
    assert_eq!(fixture.asked(&["--repo", ""]), ["repo"]);
    assert_eq!(fixture.asked(&["worktree", "rm", ""]).len(), 1);
    assert_eq!(fixture.asked(&["graph", "car"]), ["carpentry"]);
    assert_eq!(fixture.asked(&["config", "get", "store.w"]), ["store.wait"]);
    assert_eq!(fixture.asked(&["--config", "store.w"]), ["store.wait="]);
    assert_eq!(fixture.asked(&["add", "x", "--type", "fe"]), ["feature"]);
    let job = fixture.sandbox.way(&fixture.repo, ["job", "start", "--json", "--", "true"]).data();
    let id = job["id"].as_str().unwrap().to_owned();
    assert_eq!(fixture.asked(&["job", "logs", ""]), [id]);
    // From elsewhere, as the command itself would find it.
    let dir = fixture.repo.to_str().unwrap();
    let run = fixture.sandbox.way(&fixture.sandbox.path(""), ["__complete", "fish", "-C", dir, "close", ""]).ok();
    assert!(run.stdout.starts_with(&fixture.ready), "{}", run.stdout);
}

#[test]
fn completion_writes_nothing_and_creates_no_store() {
    let fixture = fixture();
    let lines: &[&[&str]] = &[&["show", ""], &["task", "show", ""], &["job", "logs", ""], &["list", "--label", ""]];
    let before = fixture.files();
    for line in lines {
        fixture.asked(line);
    }
    let after = fixture.files();
    let changed: Vec<_> = after.iter().filter(|(path, content)| before.get(*path) != Some(content)).collect();
    assert!(
        changed.is_empty() && after.len() == before.len(),
        "{:?}",
        changed.iter().map(|(path, _)| path).collect::<Vec<_>>()
    );
    let sandbox = sandbox();
    let empty = sandbox.git_repo("fresh");
    let listed = || sandbox.command("find", &sandbox.path("")).output().unwrap().stdout;
    let before = listed();
    for line in lines {
        let run = sandbox.way(&empty, ["__complete", "bash"].iter().chain(*line)).ok();
        assert_eq!(run.stdout, "");
        // Outside of a repository too.
        let _ = sandbox.way(&sandbox.path("home"), ["__complete", "bash"].iter().chain(*line)).ok();
    }
    assert_eq!(String::from_utf8(listed()), String::from_utf8(before));
}

#[test]
fn completion_is_silent_if_the_store_or_the_ledger_is_damaged_or_the_words_are_strange() {
    let fixture = fixture();
    fixture.sandbox.write(fixture.repo.join(".git/waypost/state.db"), "no database");
    fixture.sandbox.write(fixture.repo.join(".waypost/issues.jsonl"), "<<<<<<< no ledger\n");
    fixture.sandbox.write(fixture.repo.join(".waypost/config.toml"), "= broken");
    for line in [&["show", ""][..], &["task", "show", ""], &["--wombat=", ""], &["-", ""], &["é", "--"], &[]] {
        fixture.asked(line);
    }
    let _ = fixture.sandbox.way(&fixture.repo, ["__complete"]).ok();
    let hostile = fixture.sandbox.way_with(&fixture.repo, &[("WAYPOST_DB", "http://127.0.0.1:9".as_ref())], NONE);
    assert_ne!(hostile.code, 0);
    let args = ["__complete", "bash", "task", "show", ""];
    let _ = fixture.sandbox.way_with(&fixture.repo, &[("WAYPOST_DB", "http://127.0.0.1:9".as_ref())], args).ok();
}
