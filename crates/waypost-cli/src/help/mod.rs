//! The help: commands in groups, topics, and words that are not commands.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::Command;
use clap::builder::Styles;
use waypost_core::{Error, Result};
use waypost_workspace::surroundings::stdout;

use crate::ui::{Ui, print};
use crate::{COMMANDS, CommandEntry};

/// Texts about formats that several commands share: name, summary, text.
pub(crate) static TOPICS: &[(&str, &str, &str)] = &[
    ("plan", "the format of a plan", include_str!("plan.txt")),
    ("batch", "the format of a batch of changes", include_str!("batch.txt")),
    ("filters", "filters of lists", include_str!("filters.txt")),
    ("exit-codes", "what the exit codes mean", include_str!("exit-codes.txt")),
];

/// Gives the program's help its groups of commands.
pub(crate) fn with_groups(way: Command) -> Command {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    let mut group = "";
    for entry in COMMANDS {
        let Some(command) = way.find_subcommand(entry.name).filter(|command| !command.is_hide_set()) else { continue };
        if entry.group != group {
            group = entry.group;
            let _ = write!(text, "\n{header}{group}:{header:#}\n");
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ =
            writeln!(text, "  {literal}{:<12}{literal:#} {}", entry.name, about.split("; ").next().unwrap_or_default());
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\n{header}Global options:{header:#}\n{{options}}{{after-help}}"
    );
    way.help_template(template)
}

/// Prints the help of a command, or a topic.
pub(crate) fn print_help(ui: &Ui, words: &[String]) -> Result<()> {
    if let [topic] = words
        && let Some((_, _, text)) = TOPICS.iter().find(|(name, ..)| name == topic)
    {
        return print(text);
    }
    let mut way = crate::command();
    way.build();
    let mut command = &mut way;
    for word in words {
        if command.find_subcommand(word).is_none() {
            let topics: Vec<&str> = TOPICS.iter().map(|(name, ..)| *name).collect();
            return Err(Error::not_found(format!("there is no help on {:?}", words.join(" ")))
                .hint(format!("way help lists the commands; topics: {}", topics.join(", "))));
        }
        command = command.find_subcommand_mut(word).ok_or_else(|| Error::internal("a command disappeared"))?;
    }
    ui.print_usage(&command.render_long_help(), stdout());
    Ok(())
}

/// Turns `way X help` into `way help X`, for a command and for a command of a command.
pub(crate) fn asked_at_the_end(raw: &[OsString]) -> Option<Vec<OsString>> {
    let (last, path) = raw.split_last().filter(|(last, _)| *last == "help")?;
    let [way, words @ ..] = path else { return None };
    let entry = words.first().and_then(|name| COMMANDS.iter().find(|entry| entry.is_called(name)))?;
    let is_command = match words {
        [_] => entry.name != "help",
        [_, inner] => inner.to_str().is_some_and(|inner| has_inner(entry, inner)),
        _ => false,
    };
    is_command.then(|| [way, last].into_iter().chain(words).cloned().collect())
}

fn has_inner(entry: &CommandEntry, name: &str) -> bool {
    (entry.define)(Command::new(entry.name)).find_subcommand(name).is_some()
}

/// What is meant by a word that is not a command.
enum Meaning {
    /// This command.
    Command(&'static [&'static str]),
    /// A noun whose commands are at the top level: `way issue list` is `way list`.
    Prefix(&'static str),
    /// The plural of a noun with commands: `way tasks` is `way task list`.
    Plural(&'static str),
    /// One of these, each with what it does.
    OneOf(&'static [(&'static str, &'static str)]),
}

/// Words that people and models try.
static WORDS: &[(&str, Meaning)] = &[
    ("issue", Meaning::Prefix("list")),
    ("issues", Meaning::Prefix("list")),
    ("bd", Meaning::Prefix("ready")),
    ("ls", Meaning::Command(&["list"])),
    ("rm", Meaning::Command(&["delete"])),
    ("remove", Meaning::Command(&["delete"])),
    ("find", Meaning::Command(&["search"])),
    ("view", Meaning::Command(&["show"])),
    ("history", Meaning::Command(&["log"])),
    ("work", Meaning::Command(&["claim"])),
    ("todo", Meaning::Command(&["ready"])),
    ("tasks", Meaning::Plural("task")),
    ("workflows", Meaning::Plural("workflow")),
    ("jobs", Meaning::Plural("job")),
    ("agents", Meaning::Plural("agent")),
    ("workspaces", Meaning::Plural("ws")),
    ("worktrees", Meaning::Plural("worktree")),
    ("templates", Meaning::Plural("template")),
    ("repos", Meaning::Plural("repo")),
    ("tokens", Meaning::Plural("token")),
    ("machines", Meaning::Plural("machine")),
    ("messages", Meaning::Command(&["msg", "inbox"])),
    ("inbox", Meaning::Command(&["msg", "inbox"])),
    ("logs", Meaning::Command(&["job", "logs"])),
    ("heartbeat", Meaning::Command(&["task", "heartbeat"])),
    (
        "start",
        Meaning::OneOf(&[
            ("way claim [ISSUE]", "begin an issue"),
            ("way workflow start WORKFLOW", "start a workflow"),
            ("way task claim --agent NAME", "take a task"),
            ("way job start -- COMMAND", "run a command in a workspace"),
        ]),
    ),
    (
        "run",
        Meaning::OneOf(&[
            ("way job start -- COMMAND", "run a command in a workspace"),
            ("way worker -- COMMAND", "run a command for every task"),
            ("way workflow start WORKFLOW", "start a workflow"),
        ]),
    ),
    (
        "done",
        Meaning::OneOf(&[
            ("way close ISSUE --reason TEXT", "close an issue"),
            ("way task done TASK --outcome TEXT", "finish a task"),
        ]),
    ),
    ("next", Meaning::OneOf(&[("way ready", "list ready issues"), ("way task next", "show the task that is next")])),
    (
        "open",
        Meaning::OneOf(&[
            ("way show ISSUE", "show an issue"),
            ("way reopen ISSUE", "reopen a closed issue"),
            ("way list --status open", "list open issues"),
        ]),
    ),
    (
        "cancel",
        Meaning::OneOf(&[
            ("way job cancel JOB", "end a job"),
            ("way task skip TASK", "skip a task"),
            ("way workflow cancel WORKFLOW", "cancel a workflow"),
        ]),
    ),
    (
        "block",
        Meaning::OneOf(&[
            ("way dep add ISSUE BLOCKER", "an issue waits for another one"),
            ("way blocked", "list blocked issues"),
        ]),
    ),
    (
        "plan",
        Meaning::OneOf(&[
            ("way workflow create NAME --plan FILE", "make a workflow from a plan"),
            ("way help plan", "read the format of a plan"),
        ]),
    ),
    ("send", Meaning::OneOf(&[("way msg send AGENT TEXT", "send a message to an agent")])),
];

/// The words for which several others mean the same.
static SYNONYMS: &[(&str, &str)] = &[
    ("finish", "done"),
    ("complete", "done"),
    ("resolve-issue", "done"),
    ("begin", "start"),
    ("exec", "run"),
    ("stop", "cancel"),
    ("kill", "cancel"),
];

/// Returns the arguments that were meant by a word that is not a command, or an error that names the possible ones.
pub(crate) fn meant(raw: &[OsString], word: &str) -> Option<Result<Vec<OsString>>> {
    let name = SYNONYMS.iter().find(|(synonym, _)| *synonym == word).map_or(word, |(_, name)| *name);
    let (_, meaning) = WORDS.iter().find(|(known, _)| *known == name)?;
    let place = raw.iter().position(|arg| arg == OsStr::new(word)).filter(|place| *place > 0)?;
    let is_alone = raw.get(place + 1).is_none_or(|next| next.as_encoded_bytes().starts_with(b"-"));
    let instead: Vec<&str> = match meaning {
        Meaning::Command(words) => words.to_vec(),
        Meaning::Prefix(default) if is_alone => vec![default],
        Meaning::Prefix(_) => vec![],
        Meaning::Plural(noun) if is_alone => vec![noun, "list"],
        Meaning::Plural(noun) => vec![noun],
        Meaning::OneOf(commands) => {
            let error = Error::invalid(format!("there is no command way {word}"));
            return Some(Err(commands
                .iter()
                .fold(error, |error, (line, does)| error.hint(format!("to {does}: {line}")))));
        }
    };
    let args = raw[..place].iter().cloned().chain(instead.into_iter().map(OsString::from));
    Some(Ok(args.chain(raw[place + 1..].iter().cloned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn words_that_are_no_commands_are_understood_or_explained() {
        for (line, word, means) in [
            ("way tasks", "tasks", "way task list"),
            ("way tasks --json", "tasks", "way task list --json"),
            ("way tasks show x", "tasks", "way task show x"),
            ("way issue list --all", "issue", "way list --all"),
            ("way --json issues", "issues", "way --json list"),
            ("way issue create Title", "issue", "way create Title"),
            ("way ls", "ls", "way list"),
        ] {
            assert_eq!(meant(&raw(line), word).unwrap().unwrap(), raw(means), "{line}");
        }
        let error = meant(&raw("way finish x"), "finish").unwrap().unwrap_err();
        assert_eq!(error.to_string(), "there is no command way finish");
        assert_eq!(
            error.hints(),
            ["to close an issue: way close ISSUE --reason TEXT", "to finish a task: way task done TASK --outcome TEXT"]
        );
        assert!(meant(&raw("way wombat"), "wombat").is_none());
    }

    #[test]
    fn no_word_hides_a_command_and_every_meaning_is_one() {
        let way = crate::command();
        for (word, meaning) in WORDS {
            assert!(!COMMANDS.iter().any(|entry| entry.is_called(OsStr::new(word))), "{word} is a command");
            let lines: Vec<Vec<&str>> = match meaning {
                Meaning::Command(words) => vec![words.to_vec()],
                Meaning::Prefix(command) => vec![vec![command]],
                Meaning::Plural(noun) => vec![vec![noun, "list"]],
                Meaning::OneOf(commands) => {
                    commands.iter().map(|(line, _)| line.split(' ').skip(1).collect()).collect()
                }
            };
            for line in lines {
                let mut command = &way;
                for word in line {
                    let Some(inner) = command.find_subcommand(word) else {
                        assert!(!command.has_subcommands(), "{word} in {:?}", command.get_name());
                        break;
                    };
                    command = inner;
                }
            }
        }
    }

    #[test]
    fn help_at_the_end_is_help_on_the_command_before_it() {
        assert_eq!(asked_at_the_end(&raw("way job help")), Some(raw("way help job")));
        assert_eq!(asked_at_the_end(&raw("way add help")), Some(raw("way help add")));
        assert_eq!(asked_at_the_end(&raw("way job start help")), Some(raw("way help job start")));
        for other in ["way help", "way wombat help", "way comment x help", "way add help me", "way help help"] {
            assert_eq!(asked_at_the_end(&raw(other)), None, "{other}");
        }
    }
}
