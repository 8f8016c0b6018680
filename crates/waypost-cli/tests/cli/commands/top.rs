//! `way top`: real sessions in tmux, and the refusals without a terminal.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, tmux};

use crate::support::{sandbox, text};

/// How long the screen may take to change.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A shell in a terminal of tmux.
struct Terminal<'a> {
    sandbox: &'a Sandbox,
    dir: PathBuf,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    fn open(sandbox: &'a Sandbox, dir: &Path, columns: u16, lines: u16) -> Terminal<'a> {
        let terminal = Terminal { sandbox, dir: dir.to_owned(), socket: sandbox.path("tmux") };
        let size = [columns.to_string(), lines.to_string()];
        let _ = terminal.tmux(&["new-session", "-d", "-x", &size[0], "-y", &size[1], "PS1='ready> ' exec sh"]);
        terminal.shows("ready>");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.sandbox.command(tmux(), &self.dir);
        let output = command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).args(args).output().unwrap();
        let run = Run::of(&output);
        assert_eq!(run.code, 0, "{args:?}: {run:#?}");
        run.stdout
    }

    /// Presses keys, as tmux names them.
    fn press(&self, keys: &[&str]) {
        let _ = self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a text.
    fn types(&self, typed: &str) {
        let _ = self.tmux(&["send-keys", "-l", "--", typed]);
    }

    /// Runs `way` with arguments in the shell.
    fn runs(&self, args: &str) {
        self.types(&format!("{} {args}", env!("CARGO_BIN_EXE_way")));
        self.press(&["Enter"]);
    }

    /// Returns the text on the screen.
    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen satisfies a condition, and returns its text.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(Instant::now() < end, "the screen never {what}:\n{text}");
        }
    }

    /// Waits until the screen has this text.
    #[track_caller]
    fn shows(&self, wanted: &str) -> String {
        self.until(&format!("shows {wanted:?}"), |text| text.contains(wanted))
    }

    /// Waits until the shell has its screen back, in the usual mode: it echoes what is typed.
    #[track_caller]
    fn is_restored(&self, mark: &str) {
        let has_prompt = |text: &str| text.trim_end().lines().last().is_some_and(|line| line.trim_end() == "ready>");
        let text = self.until("is the shell's", has_prompt);
        assert!(!text.contains("Needs you"), "{text}");
        self.types(&format!("echo {mark}\"done\" $?"));
        self.press(&["Enter"]);
        let text = self.shows(&format!("\n{mark}done 0\n"));
        assert!(text.contains(&format!("ready> echo {mark}\"done\" $?\n")), "the terminal does not echo: {text}");
        let flags = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{pane_current_command}"]);
        assert_eq!(flags.trim(), "0 1 sh", "alternate screen, cursor, program");
    }

    /// Returns the process of `way top`.
    fn process(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        std::fs::read_to_string(children).unwrap().trim().to_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut command = self.sandbox.command(tmux(), &self.dir);
        let _ = command.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// A repository with one task in every group of the status.
fn prepared(sandbox: &Sandbox) -> PathBuf {
    let repo = sandbox.git_repo("shop");
    sandbox.write(
        "shop/plan.json",
        r#"{"tasks":[{"name":"build","description":"Build it","max_attempts":1},
            {"name":"ship","description":"Ship it","depends_on":["build"]},
            {"name":"name it","description":"Choose a name"},
            {"name":"draw","description":"Draw it"},
            {"name":"plan","description":"Plan it"},
            {"name":"test","description":"Test it"}]}"#,
    );
    for args in [
        &["workflow", "create", "w", "--plan", "plan.json", "--start"][..],
        &["task", "claim", "build", "--agent", "ann"],
        &["task", "fail", "build", "--agent", "ann", "--error", "the disk is full"],
        &["task", "claim", "name it", "--agent", "bob"],
        &["task", "ask", "name it", "--agent", "bob", "--question", "Which name?"],
        &["task", "claim", "draw", "--agent", "cid"],
        &["task", "claim", "plan", "--agent", "dan"],
        &["task", "done", "plan", "--agent", "dan", "--outcome", "It is planned"],
    ] {
        let _ = sandbox.way(&repo, args).ok();
    }
    repo
}

fn task(sandbox: &Sandbox, repo: &Path, name: &str) -> Value {
    sandbox.way(repo, ["task", "show", name, "--json"]).data()
}

#[test]
fn the_screen_has_the_groups_and_words_of_the_status_and_a_question_is_answered_on_it() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("--actor zoe top");
    let text = terminal.shows("Done 1");
    assert!(text.starts_with("way top  shop  2 need you  1 stuck  1 working  1 queued  1 done"), "{text}");
    let groups = sandbox.way(&repo, ["status", "--json"]).data()["groups"].clone();
    let rows = groups.as_array().unwrap().iter().flat_map(|group| group["rows"].as_array().unwrap());
    let mut at = 0;
    for row in rows {
        for field in ["chip", "name", "reason"] {
            let wanted = row[field].as_str().unwrap();
            at += text[at..].find(wanted).unwrap_or_else(|| panic!("{wanted:?} after {at} in\n{text}"));
        }
    }
    // Other processes change the store, and the screen shows it without a key. It reads the store every fifteen seconds
    // without any event, so three changes would take thirty.
    let begin = Instant::now();
    let _ = sandbox.way(&repo, ["task", "claim", "test", "--agent", "eve"]).ok();
    terminal.shows("2 working");
    let _ = sandbox.way(&repo, ["task", "done", "test", "--agent", "eve", "--outcome", "It is tested"]).ok();
    terminal.shows("2 done");
    let _ = sandbox.way(&repo, ["task", "ask", "draw", "--agent", "cid", "--question", "Which colour?"]).ok();
    terminal.shows("3 need you");
    assert!(begin.elapsed() < Duration::from_secs(25), "it took {:?}", begin.elapsed());
    terminal.press(&["/"]);
    terminal.types("colour");
    terminal.press(&["Enter", "a"]);
    terminal.types("--red, says 'Zoë'");
    terminal.shows("answer: --red, says 'Zoë'");
    terminal.press(&["Enter"]);
    terminal.shows("2 need you");
    let answered = task(&sandbox, &repo, "draw");
    assert_eq!((&answered["status"], &answered["answer"]), (&"pending".into(), &"--red, says 'Zoë'".into()));
    let events = sandbox.way(&repo, ["events", "--kind", "task.answered", "--json"]).data();
    assert_eq!(events[0]["actor"], "zoe", "actions have the global options of the screen: {events}");
    terminal.press(&["q"]);
    terminal.is_restored("quit");
}

#[test]
fn an_action_asks_first_where_work_could_be_lost_and_a_refusal_has_the_words_of_the_command() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("top");
    terminal.shows("> dead");
    terminal.types(":skip");
    terminal.press(&["Enter"]);
    let text = terminal.shows("Skip w/build? Tasks that wait for it go on without it.");
    assert!(text.contains("way task skip tk_"), "{text}");
    terminal.press(&["Enter"]);
    terminal.shows("skip: not done");
    assert_eq!(task(&sandbox, &repo, "build")["status"], "dead");
    // The task changes while the user decides.
    terminal.types(":skip");
    terminal.press(&["Enter"]);
    terminal.shows("Skip w/build?");
    let _ = sandbox.way(&repo, ["task", "skip", "build"]).ok();
    let refused = sandbox.way(&repo, ["task", "skip", "build"]).fails(4).stderr;
    let words: Vec<&str> = refused.lines().filter(|line| !line.starts_with("store: ")).collect();
    assert_eq!(words.len(), 2, "an error and a hint: {refused}");
    terminal.types("y");
    terminal.shows(&words.join("\n"));
    terminal.press(&["C-c"]);
    terminal.is_restored("interrupted");
}

#[test]
fn a_repository_restricts_the_list_of_workflows() {
    let sandbox = sandbox();
    let repos = ["one", "two"].map(|name| sandbox.git_repo(name));
    for (repo, name) in repos.iter().zip(["first", "second"]) {
        assert_eq!(sandbox.way(repo, ["--global", "workflow", "create", name]).code, 0);
    }
    let terminal = Terminal::open(&sandbox, &repos[0], 80, 24);
    terminal.runs("--global --repo two top");
    terminal.shows("way top");
    terminal.types(":workflows");
    terminal.press(&["Enter"]);
    let text = terminal.shows("second");
    assert!(!text.contains("first"), "{text}");
}

#[test]
fn the_output_of_a_running_job_is_followed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("shop");
    let go = sandbox.path("go");
    let script = format!("printf '\\033[32mfirst\\033[0m\\n'; until [ -e {} ]; do :; done; echo second", text(&go));
    let _ = sandbox.way(&repo, ["job", "start", "--detach", "--", "sh", "-c", &script]).ok();
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("top");
    terminal.shows("nothing to do");
    terminal.types("gj");
    terminal.shows("> running");
    terminal.press(&["Enter"]);
    let shown = terminal.until("follows the log", |text| text.contains("\nfirst\n") && text.contains("\nfollowing\n"));
    assert!(shown.contains("Jobs › log of jb_"), "{shown}");
    sandbox.write(&go, "");
    terminal.shows("\nfirst\nsecond\n");
    terminal.shows("the job is completed");
    terminal.press(&["Escape"]);
    terminal.shows("> completed");
    terminal.press(&["q"]);
    terminal.is_restored("quit");
}

#[test]
fn the_terminal_is_restored_after_a_signal_and_the_screen_after_a_stop_and_a_new_size() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("top");
    terminal.shows("Done 1");
    terminal.press(&["C-z"]);
    terminal.until("is the shell's", |text| text.contains("Stopped") && text.trim_end().ends_with("ready>"));
    terminal.types("fg");
    terminal.press(&["Enter"]);
    terminal.shows("Done 1");
    let _ = terminal.tmux(&["resize-window", "-x", "130", "-y", "30"]);
    terminal.shows("│");
    for signal in ["TERM", "INT", "HUP"] {
        let process = terminal.process();
        let _ = sandbox.command("kill", &repo).args(["-s", signal, &process]).status().unwrap();
        terminal.is_restored(signal);
        if signal != "HUP" {
            terminal.runs("top");
            terminal.shows("Done 1");
        }
    }
}

#[test]
fn a_store_that_cannot_be_read_leaves_the_data_and_its_age_on_the_screen() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let store = repo.join(".git/waypost/state.db");
    assert!(store.is_file());
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("top");
    terminal.shows(" live");
    let away = repo.join(".git/away");
    std::fs::rename(repo.join(".git/waypost"), &away).unwrap();
    let text = terminal.shows("cannot read: there is no store ");
    assert!(text.contains("Which name?"), "the former data stays: {text}");
    assert!(text.lines().next().unwrap().ends_with("s old"), "{text}");
    assert!(!repo.join(".git/waypost").exists(), "nothing took its place");
    std::fs::rename(&away, repo.join(".git/waypost")).unwrap();
    let text = terminal.shows(" live");
    assert!(!text.contains("cannot read"), "{text}");
    terminal.press(&["q"]);
    terminal.is_restored("quit");
}

#[test]
fn a_screen_without_colour_has_none_and_titles_cannot_control_the_terminal() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let question = "evil\u{1b}[2J\u{1b}[31m漢字";
    let _ = sandbox.way(&repo, ["task", "ask", "draw", "--agent", "cid", "--question", question]).ok();
    let terminal = Terminal::open(&sandbox, &repo, 100, 30);
    terminal.runs("--color never top --read-only");
    let text = terminal.shows("evil\\u{1b}[2J\\u{1b}[31m漢字");
    assert!(text.contains("read-only") && text.contains("Needs you"), "{text}");
    let styled = terminal.tmux(&["capture-pane", "-p", "-e"]);
    let has_color = |text: &str| {
        let codes = text.split("\u{1b}[").filter_map(|part| part.split_once('m'));
        codes.flat_map(|(codes, _)| codes.split(';')).any(|code| matches!(code.parse::<u8>(), Ok(30..=38)))
    };
    assert!(!has_color(&styled), "{styled:?}");
    terminal.press(&["Space"]);
    terminal.shows("this screen only reads");
    terminal.press(&["q"]);
    terminal.is_restored("plain");
    terminal.runs("top");
    terminal.shows("Done 1");
    assert!(has_color(&terminal.tmux(&["capture-pane", "-p", "-e"])));
}

#[test]
fn without_a_terminal_it_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("shop");
    let run = sandbox.way(&repo, ["top"]).fails(2);
    assert!(run.stderr.contains("way top needs a terminal, but standard output is not one"), "{}", run.stderr);
    assert!(run.stderr.contains("way status prints the same as text"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["top", "--json"]).fails(2);
    assert!(run.error()["message"].as_str().unwrap().contains("way top has no JSON output"), "{run:#?}");
    let typed = format!("{} top < /dev/null", env!("CARGO_BIN_EXE_way"));
    let run = Run::of(&sandbox.command("script", &repo).args(["-qec", &typed, "/dev/null"]).output().unwrap());
    assert!(run.stdout.contains("standard input is not one"), "{run:#?}");
    assert!(!run.stdout.contains("\u{1b}[?"), "nothing is drawn: {run:#?}");
}

#[test]
fn an_idle_screen_costs_almost_nothing() {
    let sandbox = sandbox();
    let repo = prepared(&sandbox);
    let terminal = Terminal::open(&sandbox, &repo, 80, 24);
    terminal.runs("top");
    terminal.shows(" live");
    let process = terminal.process();
    // Fields 14 and 15 are the ticks that the process used: a hundred are a second.
    let used = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = used();
    let _ = sandbox.command("sleep", &repo).arg("8").status().unwrap();
    let ticks = used() - before;
    assert!(ticks < 80, "{ticks} ticks of processor time in 8 seconds, in a program that is not optimized");
    terminal.press(&["q"]);
    terminal.is_restored("quit");
}
