//! Completes command lines for shells: `way __complete SHELL WORD...`, where the last word is the one at the cursor.
//!
//! clap's engine reads the line; the live names come from here. The scripts are ours, too: those of clap insert names into
//! a line of bash without quotes, so a name in a repository could become a command, and they may change with each version.
//!
//! It prints a candidate per line, with a description after a tab. Lines that begin with a colon ask the shell for names of
//! its own: files, directories or programs. It writes nothing and never fails: without candidates the shell shows none.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, FromArgMatches as _};
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate};
use waypost::app::candidates::{Candidate, Noun, candidates};
use waypost::machine::Variables;
use waypost::machine::place::{Place, Request};
use waypost_core::escape::needs_escape;

use crate::GlobalArgs;
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
pub(crate) fn run(args: &[OsString], variables: &Variables) {
    let Some((shell, words)) = args.split_first() else { return };
    let words: Option<Vec<String>> = words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let Some(words) = words else { return };
    let is_bash = shell == "bash";
    let words = if is_bash { joined(words) } else { words };
    let mut lines = String::new();
    for found in complete(&words, variables) {
        let Some(value) = found.get_value().to_str() else { continue };
        let value = match value.split_once('=') {
            // Bash replaces only the text after the equals sign.
            Some((option, value)) if is_bash && option.starts_with("--") => value,
            _ => value,
        };
        // A shell cannot insert control characters, and a terminal would obey them.
        if value.is_empty() || value.chars().any(needs_escape) {
            continue;
        }
        let about = found.get_help().map(ToString::to_string).unwrap_or_default();
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

/// Returns the candidates for the last word.
fn complete(words: &[String], variables: &Variables) -> Vec<CompletionCandidate> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let args = || std::iter::once("way".into()).chain(words.iter().map(OsString::from));
    let line = Arc::new(Line::read(args().take(1 + before.len()), variables));
    let mut way = with_names(crate::command(), &[], &line);
    let mut found = engine::complete(&mut way, args().collect(), words.len(), None).unwrap_or_default();
    // The engine offers options where a command or a name is expected, too.
    found.retain(|found| current.starts_with('-') || !found.get_value().as_encoded_bytes().starts_with(b"-"));
    found
}

/// The words before the cursor, as far as clap understands them.
struct Line {
    matches: Option<ArgMatches>,
    variables: Variables,
}

impl Line {
    fn read(args: impl Iterator<Item = OsString>, variables: &Variables) -> Line {
        let mut matches = crate::command().ignore_errors(true).try_get_matches_from(args).ok();
        while let Some((_, inner)) = matches.as_mut().and_then(ArgMatches::remove_subcommand) {
            matches = Some(inner);
        }
        Line { matches, variables: variables.clone() }
    }

    /// Returns the values of an argument before the cursor.
    fn values(&self, id: &str) -> impl Iterator<Item = &OsStr> {
        let values = self.matches.as_ref().and_then(|matches| matches.try_get_raw(id).ok().flatten());
        values.into_iter().flatten()
    }

    /// Returns the place that the options choose, as the command itself would.
    fn request(&self) -> Option<Request> {
        let global = GlobalArgs::from_arg_matches(self.matches.as_ref()?).ok()?;
        let mut cwd = waypost_workspace::surroundings::directory().ok()?;
        cwd.extend(&global.directory);
        Some(global.request(cwd, self.variables.clone()))
    }

    /// Looks for live names, for a limited time. Errors count as no names: a shell has no place for them.
    fn find(&self, nouns: &'static [Noun], prefix: &str) -> Vec<Candidate> {
        let Some(request) = self.request() else { return Vec::new() };
        let workflow = self.values("workflow").next().and_then(OsStr::to_str).map(str::to_owned);
        let prefix = prefix.to_owned();
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
}

/// Gives each argument of a command and its subcommands the source of its values.
fn with_names(command: Command, path: &[String], line: &Arc<Line>) -> Command {
    let add = |arg: Arg| {
        let Some(source) = source(path, &arg).filter(|_| arg.get_possible_values().is_empty()) else { return arg };
        let assigns = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains('=')));
        let (id, line) = (arg.get_id().clone(), Arc::clone(line));
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let is_first = line.values(id.as_str()).next().is_none();
            let found = source.values(&line, current.to_str().unwrap_or_default(), is_first).into_iter();
            let end = if assigns { "=" } else { "" };
            found.map(|Candidate { value, about }| candidate(value + end, about)).collect()
        }))
    };
    command.mut_args(add).mut_subcommands(|inner| {
        let path = [path, &[inner.get_name().to_owned()]].concat();
        with_names(inner, &path, line)
    })
}

fn candidate(value: String, about: String) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(about.into()))
}

/// Where the values of an argument come from.
enum Source {
    Files,
    Directories,
    Programs,
    Words(&'static [&'static str]),
    /// Commands and topics of the help.
    Help,
    Nouns(&'static [Noun]),
}

impl Source {
    fn values(&self, line: &Line, prefix: &str, is_first: bool) -> Vec<Candidate> {
        let of_shell = |name: &str| vec![Candidate::new(name, "")];
        let matching = |all: Vec<Candidate>| all.into_iter().filter(|one| one.value.starts_with(prefix)).collect();
        match self {
            Source::Programs if is_first => of_shell(":commands"),
            Source::Files | Source::Programs => of_shell(":files"),
            Source::Directories => of_shell(":dirs"),
            Source::Words(words) => matching(words.iter().map(|word| Candidate::new(*word, "")).collect()),
            Source::Help if is_first => {
                let way = crate::command();
                let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
                let commands = way.get_subcommands().filter(|command| !command.is_hide_set());
                let commands = commands.map(|command| Candidate::new(command.get_name(), about(command)));
                matching(commands.chain(TOPICS.iter().map(|(name, about, _)| Candidate::new(*name, *about))).collect())
            }
            Source::Help => Vec::new(),
            Source::Nouns(nouns) => line.find(nouns, prefix),
        }
    }
}

/// The commands whose issues are open ones.
const ON_OPEN_ISSUES: [&str; 13] = [
    "accept", "add", "assign", "claim", "close", "dep", "edit", "propose", "reject", "release", "update", "withdraw",
    "workflow",
];

/// Decides by the name of the value, as the help shows it, and by the names of the commands.
fn source(path: &[String], arg: &Arg) -> Option<Source> {
    let name = arg.get_value_names().unwrap_or_default().first()?;
    let [first, last] = [path.first(), path.last()].map(|name| name.map_or("", String::as_str));
    let id = arg.get_id().as_str();
    Some(match (name.as_str(), first, last) {
        ("ISSUE", "reopen", _) => Source::Nouns(&[Noun::ClosedIssue]),
        ("ISSUE" | "ON", first, _) if ON_OPEN_ISSUES.contains(&first) => Source::Nouns(&[Noun::OpenIssue]),
        ("ISSUE", ..) => Source::Nouns(&[Noun::Issue]),
        ("WORKFLOW|ISSUE", ..) => Source::Nouns(&[Noun::Workflow, Noun::OpenIssue]),
        ("TASK" | "TASKS", ..) => Source::Nouns(&[Noun::Task]),
        ("WORKFLOW", "template", "apply") => return None,
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
        ("COMMAND|TOPIC", ..) => Source::Help,
        ("COMMAND", ..) => Source::Programs,
        ("DIR", ..) => Source::Directories,
        ("FILE" | "FILE|-" | "FILE|DIR|-" | "PATH" | "PATH|URL", ..) => Source::Files,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        complete(&words, &Variables::of_process())
            .into_iter()
            .map(|found| found.get_value().to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn commands_options_and_fixed_values_are_completed() {
        assert_eq!(found("workt"), ["worktree"]);
        assert_eq!(found("job ca"), ["cancel"]);
        assert!(found("").contains(&"add".to_owned()) && !found("").contains(&"merge-driver".to_owned()));
        assert_eq!(found("add --prio"), ["--priority"]);
        assert_eq!(found("add --label x --lab"), ["--label"]);
        assert_eq!(found("--color a"), ["auto", "always"]);
        assert_eq!(found("list --color=n"), ["--color=never"]);
        assert_eq!(found("--scope w"), ["worktree"]);
        assert_eq!(found("help exi"), ["exit-codes"]);
        assert_eq!(found("help com"), ["comment", "completions"]);
        assert_eq!(found("-C "), [":dirs"]);
        assert_eq!(found("batch "), [":files"]);
        assert_eq!(found("job start -- "), [":commands"]);
        assert_eq!(found("job start -- git "), [":files"]);
        assert_eq!(
            found("config get serv").first().map(String::as_str),
            found("config set serv").first().map(String::as_str)
        );
        assert_eq!(found("wombat x"), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_name_in_the_help_is_decided() {
        fn check(command: &Command, path: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
                let ids = ["ISSUE", "TASK", "WORKFLOW", "JOB", "WORKSPACE", "WORKTREE", "REPO", "LABEL", "TEMPLATE"];
                let is_new = path.ends_with(&["apply".to_owned()]);
                let is_decided = matches!(source(path, arg), Some(Source::Nouns(_)));
                assert!(is_decided || is_new || !ids.contains(&name), "{path:?} {name}");
            }
            for inner in command.get_subcommands() {
                path.push(inner.get_name().to_owned());
                check(inner, path);
                path.pop();
            }
        }
        check(&crate::command(), &mut Vec::new());
    }

    #[test]
    fn bash_splits_words_at_equals_signs() {
        let split = ["list", "--color", "=", "n"].map(str::to_owned).to_vec();
        assert_eq!(joined(split), ["list", "--color=n"]);
        let empty = ["list", "--color", "="].map(str::to_owned).to_vec();
        assert_eq!(joined(empty), ["list", "--color="]);
    }
}
