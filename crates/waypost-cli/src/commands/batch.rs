//! `way batch`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Command, FromArgMatches};
use serde_json::{Value, json};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;
use crate::commands::{add, assign, claim, close, comment, delete, dep, label, release, reopen, update};
use crate::issues::file_or_stdin;
use waypost::issues::ledger::Change;
use waypost::ops::issue::batch::decode_line;

/// Apply many changes atomically: all or none
///
/// Each line of the file is one change: a command without the leading way, or a JSON object. The file may also be a single
/// JSON list of objects. Empty lines and lines that begin with # are skipped.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way batch plan.txt
  printf 'add \"Lay the base\" --as base\\nadd \"Build on it\" --blocked-by $base\\n' | way batch -
  echo '[{\"op\":\"close\",\"id\":\"way-1a2b\",\"reason\":\"done\"}]' | way batch -

Commands: add, update, claim, release, close, reopen, delete, comment, label, assign, dep.
JSON: op is add, update, claim, release, close, reopen, delete, comment, depend or undepend; the other keys are its
fields: id, title, description, type, priority, labels, parent, blocked_by, as, reason, text, on and so on.")]
pub(crate) struct Args {
    /// File with the changes; - for standard input
    file: PathBuf,
    /// Check all changes without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let text = file_or_stdin(&args.file)?;
    let ledger_cx = cx.open_ledgers_to_change_with(&[], args.dry_run)?;
    let changes = read(&text, ledger_cx.now)?;
    if changes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "the file contains no changes"));
    }
    let placed: Vec<(&str, &Change)> = changes.iter().map(|(place, change)| (place.as_str(), change)).collect();
    let records = cx.apply_placed(&ledger_cx, &placed, args.dry_run)?.records;
    let verb = |change: &Change| change.verb();
    let data: Vec<Value> = changes
        .iter()
        .zip(&records)
        .map(|((_, change), (record, _))| json!({ "op": verb(change), "id": record.text("id") }))
        .collect();
    cx.ui.answer(&json!({ "changes": data, "written": !args.dry_run }), |text| {
        for ((_, change), (record, _)) in changes.iter().zip(&records) {
            let field = |key| record.text(key).unwrap_or_default();
            text.line(format!("{:<8} {}  {}", verb(change), field("id"), field("title")));
        }
    })?;
    if args.dry_run {
        cx.ui.note("nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the changes of a file, each with its position for error messages.
fn read(text: &str, now: Timestamp) -> Result<Vec<(String, Change)>> {
    if text.trim_start().starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(text)
            .map_err(|error| Error::invalid("the file is not a valid JSON list of changes").because(error))?;
        let change = |(number, value)| {
            let place = format!("change {}", number + 1);
            decode_line(value).map(|change| (place.clone(), change)).map_err(|error| error.within(place))
        };
        return list.into_iter().enumerate().map(change).collect();
    }
    let mut changes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("line {}", number + 1);
        let read =
            if line.starts_with('{') { from_json(line).map(|change| vec![change]) } else { from_words(line, now) };
        let read = read.map_err(|error| error.within(&place))?;
        changes.extend(read.into_iter().map(|change| (place.clone(), change)));
    }
    Ok(changes)
}

fn from_json(line: &str) -> Result<Change> {
    let value = serde_json::from_str(line).map_err(|error| Error::invalid("not valid JSON").because(error))?;
    decode_line(value)
}

/// A command that a batch may contain.
struct Verb {
    name: &'static str,
    define: fn(Command) -> Command,
    /// Returns its changes; relative times count from the timestamp.
    changes: fn(&ArgMatches, Timestamp) -> Result<Vec<Change>>,
}

/// Lists the commands: first those that accept relative times, then the others.
macro_rules! verbs {
    ($($timed:ident),*; $($module:ident),*) => {
        &[$(Verb {
            name: stringify!($timed),
            define: <$timed::Args as clap::Args>::augment_args,
            changes: |matches, now| arguments::<$timed::Args>(matches)?.changes(now),
        },)*
        $(Verb {
            name: stringify!($module),
            define: <$module::Args as clap::Args>::augment_args,
            changes: |matches, _| arguments::<$module::Args>(matches)?.changes(),
        }),*]
    };
}

static VERBS: &[Verb] = verbs![add, update; claim, release, close, reopen, delete, comment, label, assign, dep];

fn arguments<A: FromArgMatches>(matches: &ArgMatches) -> Result<A> {
    A::from_arg_matches(matches).map_err(|error| Error::internal("cannot read the parsed arguments").because(error))
}

/// Parses a line that is a command without the leading `way`.
fn from_words(line: &str, now: Timestamp) -> Result<Vec<Change>> {
    let words = split(line)?;
    let Some(name) = words.first() else { return Ok(Vec::new()) };
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        let error = Error::invalid(format!("{name:?} is not a command that changes issues"));
        let names = VERBS.iter().map(|verb| verb.name);
        return Err(match waypost_core::nearest::nearest(name, names.clone()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("use one of {}", names.collect::<Vec<_>>().join(", "))),
        });
    };
    let command = (verb.define)(Command::new(verb.name).no_binary_name(true).disable_help_flag(true));
    let matches = command.try_get_matches_from(&words[1..]).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Error::invalid(first.trim_start_matches("error: ").to_owned())
    })?;
    let changes = (verb.changes)(&matches, now)?;
    if changes.is_empty() {
        return Err(Error::invalid("the command changes nothing"));
    }
    Ok(changes)
}

/// Splits a line into words as a shell does, with quotes and backslash escapes.
fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            (quoted, Some(open)) if quoted == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => match chars.next() {
                Some('n') if quote.is_some() => word.get_or_insert_default().push('\n'),
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(Error::invalid("the line ends with a backslash")),
            },
            (space, None) if space.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err(Error::invalid("a quote is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use waypost::ops::issue::batch::verbs;

    use super::*;

    #[test]
    fn lines_are_split_as_in_a_shell() {
        for (line, words) in [
            ("close a b", vec!["close", "a", "b"]),
            ("  add  'a \"b\" c'\t-p 1 ", vec!["add", "a \"b\" c", "-p", "1"]),
            (r#"add "it's \"so\"\nit is" ''"#, vec!["add", "it's \"so\"\nit is", ""]),
            (r"a\ b c'd'e", vec!["a b", "cde"]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for bad in ["add 'x", "add \"x", "add x\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_verb_is_a_command() {
        let command = crate::command();
        for verb in VERBS {
            assert!(command.find_subcommand(verb.name).is_some(), "{}", verb.name);
        }
    }

    #[test]
    fn the_help_lists_every_command_and_every_verb_with_fields_that_exist() {
        let help = <Args as clap::Args>::augment_args(Command::new("batch")).get_after_help().unwrap().to_string();
        let listed = |start: &str, end: &str| -> Vec<String> {
            let text = help.split_once(start).unwrap().1.split_once(end).unwrap().0;
            text.replace(" or ", ", ").replace(" and ", ", ").split(", ").map(str::to_owned).collect()
        };
        assert_eq!(listed("\nCommands: ", "."), VERBS.iter().map(|verb| verb.name).collect::<Vec<_>>());
        assert_eq!(listed("\nJSON: op is ", ";"), verbs().collect::<Vec<_>>());
        // A null field counts as absent, but its name must be known.
        let has_field = |verb: &str, field: &str| {
            let error = decode_line(json!({ "op": verb, field: null })).err();
            !error.is_some_and(|error| error.full_message().contains("has no field"))
        };
        for field in listed("\nfields: ", " and so on.") {
            assert!(verbs().any(|verb| has_field(verb, &field)), "no verb has the field {field}");
        }
    }
}
