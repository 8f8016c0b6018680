//! Completes command lines for shells: `way __complete SHELL WORD...`, where the last word is the one at the cursor.
//!
//! The scripts call it; it is not a command of users. It prints a candidate per line, with a description after a tab. Lines
//! that begin with a colon ask the shell for names of its own: files, directories or programs. It writes nothing and never
//! fails: without candidates the shell shows none.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};
use waypost::candidates::{Candidate, Noun, candidates};
use waypost::environment::Variables;
use waypost::place::{Place, Request, Scope};
use waypost_core::escape::needs_escape;

use crate::escape::escape;
use crate::help::TOPICS;
use crate::ui::print;

/// The first argument with which scripts ask for candidates.
pub(crate) const ARGUMENT: &str = "__complete";

/// The scripts by shell.
pub(crate) static SCRIPTS: &[(clap_complete::Shell, &str)] = &[
    (clap_complete::Shell::Bash, include_str!("way.bash")),
    (clap_complete::Shell::Fish, include_str!("way.fish")),
    (clap_complete::Shell::Zsh, include_str!("way.zsh")),
];

/// Maximum time to look for names: a shell that waits longer feels broken.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a description, in characters.
const MAX_ABOUT_CHARS: usize = 60;

/// Prints the candidates for the words after [`ARGUMENT`]: the shell, then the words of the line without the program.
pub(crate) fn run(args: &[OsString]) {
    let Some((shell, words)) = args.split_first() else { return };
    let words: Option<Vec<String>> = words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return };
    let is_bash = shell == "bash";
    let words = if is_bash { joined(words) } else { words };
    let mut way = crate::command();
    way.build();
    let mut lines = String::new();
    for Candidate { value, about } in complete(&way, &words) {
        let value = match value.split_once('=') {
            // Bash replaces only the text after the equals sign.
            Some((option, value)) if is_bash && option.starts_with("--") => value,
            _ => &value,
        };
        // A shell cannot insert control characters, and a terminal would obey them.
        if value.is_empty() || value.chars().any(needs_escape) {
            continue;
        }
        let about: String = about.lines().next().unwrap_or_default().chars().take(MAX_ABOUT_CHARS).collect();
        lines.extend([value, "\t", &escape(&about), "\n"]);
    }
    // There is nowhere to report that the shell closed the pipe.
    let _ = print(&lines);
}

/// Joins options with their values again: bash splits words at equals signs.
fn joined(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last) if last.starts_with("--") && (word == "=" || last.ends_with('=')) => last.push_str(&word),
            _ => joined.push(word),
        }
    }
    joined
}

/// The words before the cursor, as far as they were understood.
struct Line<'a> {
    command: &'a Command,
    /// The names of the commands, without the program's.
    path: Vec<&'a str>,
    /// The option whose value is at the cursor.
    expects: Option<&'a Arg>,
    /// The number of positional arguments before the cursor.
    positionals: usize,
    /// Whether `--` ended the options.
    is_escaped: bool,
    /// The options before the cursor, with their values.
    given: Vec<(&'a Arg, Option<String>)>,
}

impl<'a> Line<'a> {
    fn read(way: &'a Command, words: &[String]) -> Line<'a> {
        let (path, expects, given) = (Vec::new(), None, Vec::new());
        let mut line = Line { command: way, path, expects, positionals: 0, is_escaped: false, given };
        for word in words {
            line.take(word);
        }
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(option) = self.expects.take() {
            self.given.push((option, Some(word.to_owned())));
        } else if self.is_escaped {
            self.positionals += 1;
        } else if word == "--" {
            self.is_escaped = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if let Some(option) = self.long(name) {
                self.take_option(option, value);
            }
        } else if let Some(shorts) = word.strip_prefix('-').filter(|shorts| !shorts.is_empty()) {
            for (place, short) in shorts.char_indices() {
                let Some(option) = self.command.get_arguments().find(|arg| arg.get_short() == Some(short)) else {
                    break;
                };
                let rest = &shorts[place + short.len_utf8()..];
                self.take_option(option, Some(rest).filter(|rest| !rest.is_empty()));
                if takes_value(option) {
                    break;
                }
            }
        } else if self.positionals == 0
            && let Some(command) = self.command.find_subcommand(word)
        {
            self.command = command;
            self.path.push(command.get_name());
        } else {
            self.positionals += 1;
        }
    }

    fn take_option(&mut self, option: &'a Arg, value: Option<&str>) {
        match value {
            None if takes_value(option) => self.expects = Some(option),
            value => self.given.push((option, value.map(str::to_owned))),
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let has_name = |arg: &&Arg| arg.get_long_and_visible_aliases().is_some_and(|longs| longs.contains(&name));
        self.command.get_arguments().find(has_name)
    }

    /// Returns the value of an option before the cursor.
    fn value(&self, id: &str) -> Option<&str> {
        self.given.iter().rev().find(|(arg, _)| arg.get_id() == id).and_then(|(_, value)| value.as_deref())
    }

    /// Returns the positional argument at the cursor.
    fn positional(&self) -> Option<&'a Arg> {
        let mut positionals = self.command.get_positionals();
        let is_many = |arg: &&Arg| arg.get_num_args().is_some_and(|number| number.max_values() > 1);
        positionals.nth(self.positionals).or_else(|| self.command.get_positionals().last().filter(is_many))
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|number| number.takes_values())
}

/// Returns the candidates for the last word.
fn complete(way: &Command, words: &[String]) -> Vec<Candidate> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let line = Line::read(way, before);
    if let Some(option) = line.expects {
        return values(way, &line, option, current);
    }
    if !line.is_escaped && current.starts_with('-') {
        return match current.strip_prefix("--").and_then(|long| long.split_once('=')) {
            Some((name, value)) => {
                let Some(option) = line.long(name) else { return Vec::new() };
                let found = values(way, &line, option, value).into_iter();
                found.map(|found| Candidate::new(format!("--{name}={}", found.value), found.about)).collect()
            }
            None => options(&line, current),
        };
    }
    let mut found = Vec::new();
    if line.positionals == 0 && !line.is_escaped {
        found.extend(commands(line.command, current));
    }
    if let Some(positional) = line.positional() {
        found.extend(values(way, &line, positional, current));
    }
    found
}

fn commands(command: &Command, prefix: &str) -> Vec<Candidate> {
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let named = commands.filter(|command| command.get_name().starts_with(prefix));
    named
        .map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            Candidate::new(command.get_name(), about)
        })
        .collect()
}

/// Returns the options that the line does not have yet: those of the command first, then the global ones.
fn options(line: &Line<'_>, prefix: &str) -> Vec<Candidate> {
    let is_left = |arg: &&Arg| {
        let repeats = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
        !arg.is_hide_set() && (repeats || line.given.iter().all(|(given, _)| given.get_id() != arg.get_id()))
    };
    let mut left: Vec<&Arg> = line.command.get_arguments().filter(is_left).collect();
    left.sort_by_key(|arg| arg.is_global_set());
    let named = left.into_iter().filter_map(|arg| Some((arg, format!("--{}", arg.get_long()?))));
    named
        .filter(|(_, name)| name.starts_with(prefix))
        .map(|(arg, name)| Candidate::new(name, arg.get_help().map(ToString::to_string).unwrap_or_default()))
        .collect()
}

/// Returns the candidates for the value of an argument.
fn values(way: &Command, line: &Line<'_>, arg: &Arg, prefix: &str) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let visible = possible.iter().filter(|value| !value.is_hide_set() && value.get_name().starts_with(prefix));
        return visible
            .map(|value| {
                Candidate::new(value.get_name(), value.get_help().map(ToString::to_string).unwrap_or_default())
            })
            .collect();
    }
    let of_shell = |name: &str| vec![Candidate::new(name, "")];
    match source(line, arg) {
        Source::Nothing => Vec::new(),
        Source::Files => of_shell(":files"),
        Source::Directories => of_shell(":dirs"),
        Source::Programs if line.positionals > 0 => of_shell(":files"),
        Source::Programs => of_shell(":commands"),
        Source::Words(words) => {
            words.iter().filter(|word| word.starts_with(prefix)).map(|word| Candidate::new(*word, "")).collect()
        }
        Source::Help => {
            let topics = TOPICS.iter().filter(|(name, ..)| name.starts_with(prefix));
            commands(way, prefix)
                .into_iter()
                .chain(topics.map(|(name, about, _)| Candidate::new(*name, *about)))
                .collect()
        }
        Source::Nouns(nouns) => {
            // A list of names is completed at its last one.
            let (start, prefix) = match arg.get_value_delimiter() {
                Some(delimiter) => prefix
                    .rsplit_once(delimiter)
                    .map_or(("", prefix), |(start, last)| (&prefix[..start.len() + delimiter.len_utf8()], last)),
                None => ("", prefix),
            };
            let found = live(line, nouns, prefix).into_iter();
            let assigns = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains('=')));
            let end = if assigns { "=" } else { "" };
            found.map(|found| Candidate::new(format!("{start}{}{end}", found.value), found.about)).collect()
        }
    }
}

/// Where the values of an argument come from.
enum Source {
    Nothing,
    Files,
    Directories,
    Programs,
    Words(&'static [&'static str]),
    /// Commands and topics of the help.
    Help,
    Nouns(&'static [Noun]),
}

/// The commands whose issues are open ones.
const ON_OPEN_ISSUES: [&str; 13] = [
    "accept", "add", "assign", "claim", "close", "dep", "edit", "propose", "reject", "release", "update", "withdraw",
    "workflow",
];

/// Decides by the name of the value, as the help shows it, and by the command.
fn source(line: &Line<'_>, arg: &Arg) -> Source {
    let names = arg.get_value_names().unwrap_or_default();
    let Some(name) = names.first() else { return Source::Nothing };
    let (first, last) = (line.path.first().copied().unwrap_or_default(), line.path.last().copied().unwrap_or_default());
    let id = arg.get_id().as_str();
    match (name.as_str(), first, last) {
        ("ISSUE", "reopen", _) => Source::Nouns(&[Noun::ClosedIssue]),
        ("ISSUE" | "ON", first, _) if ON_OPEN_ISSUES.contains(&first) => Source::Nouns(&[Noun::OpenIssue]),
        ("ISSUE", ..) => Source::Nouns(&[Noun::Issue]),
        ("WORKFLOW|ISSUE", ..) => Source::Nouns(&[Noun::Workflow, Noun::OpenIssue]),
        ("TASK" | "TASKS", ..) => Source::Nouns(&[Noun::Task]),
        ("WORKFLOW", "template", "apply") => Source::Nothing,
        ("WORKFLOW", ..) => Source::Nouns(&[Noun::Workflow]),
        ("JOB", ..) => Source::Nouns(&[Noun::Job]),
        ("WORKSPACE", ..) => Source::Nouns(&[Noun::Workspace]),
        ("AGENT", ..) | ("NAME", "assign", _) => Source::Nouns(&[Noun::Agent]),
        ("NAME", ..) if matches!(id, "agent" | "assignee" | "owner") => Source::Nouns(&[Noun::Agent]),
        ("NAME", "template", "show" | "save") | ("TEMPLATE", ..) => Source::Nouns(&[Noun::Template]),
        ("WORKTREE", ..) => Source::Nouns(&[Noun::Worktree]),
        ("REPO" | "REPOSITORY", ..) => Source::Nouns(&[Noun::Repository]),
        ("MACHINE", ..) => Source::Nouns(&[Noun::Machine]),
        ("LABEL", ..) => Source::Nouns(&[Noun::Label]),
        ("KEY", "config", _) | ("KEY=VALUE", ..) => Source::Nouns(&[Noun::ConfigKey]),
        ("STATUS", "add" | "update" | "list" | "export", _) => Source::Nouns(&[Noun::IssueStatus]),
        ("TYPE", "add" | "update" | "list" | "export" | "ready", _) => Source::Nouns(&[Noun::IssueType]),
        ("SCOPE", ..) => Source::Words(&["repo", "worktree", "global"]),
        ("ROLE", ..) if id == "role" && !matches!(first, "agent" | "msg" | "token") => {
            Source::Words(&["maintainer", "contributor"])
        }
        ("COMMAND|TOPIC", ..) if line.positionals == 0 => Source::Help,
        ("COMMAND", ..) => Source::Programs,
        ("DIR", ..) => Source::Directories,
        ("FILE" | "FILE|-" | "FILE|DIR|-" | "PATH" | "PATH|URL", ..) => Source::Files,
        _ => Source::Nothing,
    }
}

/// Looks for live names, for a limited time. Errors count as no names: a shell has no place for them.
fn live(line: &Line<'_>, nouns: &'static [Noun], prefix: &str) -> Vec<Candidate> {
    let Some(request) = request(line) else { return Vec::new() };
    let (prefix, workflow) = (prefix.to_owned(), line.value("workflow").map(str::to_owned));
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the process, even if a server or a file system hangs.
    std::thread::spawn(move || {
        let place = Place::resolve(request);
        let find = |noun: &Noun| match &place {
            Ok(place) => candidates(place, *noun, &prefix, workflow.as_deref()).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let _ = sender.send(nouns.iter().flat_map(find).collect());
    });
    receiver.recv_timeout(TIMEOUT).unwrap_or_default()
}

/// Returns the place that the line's options choose, as the command itself would.
fn request(line: &Line<'_>) -> Option<Request> {
    let mut cwd = waypost_workspace::surroundings::directory().ok()?;
    if let Some(dir) = line.value("directory") {
        cwd.push(PathBuf::from(dir));
    }
    let is_global = line.given.iter().any(|(arg, _)| arg.get_id() == "global");
    let scope = match line.value("scope").and_then(|scope| scope.parse::<Scope>().ok()) {
        _ if is_global => Some((Scope::Global, "--global")),
        scope => scope.map(|scope| (scope, "--scope")),
    };
    let given = line.given.iter().filter(|(arg, _)| arg.get_id() == "config");
    Some(Request {
        cwd,
        variables: Variables::of_process(),
        db: line.value("db").map(OsString::from),
        scope,
        config: given.filter_map(|(_, value)| value.clone()).collect(),
        actor: None,
        agent: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let mut way = crate::command();
        way.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        complete(&way, &words).into_iter().map(|found| found.value).collect()
    }

    #[test]
    fn commands_options_and_fixed_values_are_completed() {
        assert_eq!(found("workt"), ["worktree"]);
        assert_eq!(found("job ca"), ["cancel"]);
        assert!(found("").contains(&"add".to_owned()) && !found("").contains(&"merge-driver".to_owned()));
        assert_eq!(found("add --prio"), ["--priority"]);
        assert_eq!(found("add --json --js"), Vec::<String>::new());
        assert_eq!(found("add --label x --lab"), ["--label"]);
        assert_eq!(found("--color a"), ["auto", "always"]);
        assert_eq!(found("list --color=n"), ["--color=never"]);
        assert_eq!(found("--scope w"), ["worktree"]);
        assert_eq!(found("help exi"), ["exit-codes"]);
        assert_eq!(found("help com"), ["comment", "completions"]);
        assert_eq!(found("-C "), [":dirs"]);
        assert_eq!(found("batch "), [":files"]);
        assert_eq!(found("job start -- "), [":commands"]);
        assert_eq!(
            found("config get serv").first().map(String::as_str),
            found("config set serv").first().map(String::as_str)
        );
        assert_eq!(found("wombat x"), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_name_in_the_help_is_decided() {
        fn check(command: &Command, path: &mut Vec<String>) {
            for arg in command.get_arguments().filter(|arg| takes_value(arg)) {
                let names = arg.get_value_names().unwrap_or_default();
                let ids = ["ISSUE", "TASK", "WORKFLOW", "JOB", "WORKSPACE", "WORKTREE", "REPO", "LABEL", "TEMPLATE"];
                if !names.first().is_some_and(|name| ids.contains(&name.as_str()))
                    || path.ends_with(&["apply".to_owned()])
                {
                    continue;
                }
                let line = Line {
                    command,
                    path: path.iter().map(String::as_str).collect(),
                    expects: None,
                    positionals: 0,
                    is_escaped: false,
                    given: Vec::new(),
                };
                assert!(matches!(source(&line, arg), Source::Nouns(_)), "{path:?} {names:?}");
            }
            for inner in command.get_subcommands() {
                path.push(inner.get_name().to_owned());
                check(inner, path);
                path.pop();
            }
        }
        let mut way = crate::command();
        way.build();
        check(&way, &mut Vec::new());
    }

    #[test]
    fn bash_splits_words_at_equals_signs() {
        let split = ["list", "--color", "=", "n"].map(str::to_owned).to_vec();
        assert_eq!(joined(split), ["list", "--color=n"]);
        let empty = ["list", "--color", "="].map(str::to_owned).to_vec();
        assert_eq!(joined(empty), ["list", "--color="]);
    }
}
