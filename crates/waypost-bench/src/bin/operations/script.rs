//! A claim as a script for pgbench: the statements that the server received for one claim, taken from its log.
//!
//! Values that differ between claims are variables of the script: task and agent have one number, which counts up, and
//! the workflow's number follows from it. pgbench sends the statements of one round trip together, too.

use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::{Bench, Result, caller, fill};

/// The prefix of every entry of the server's log.
pub(crate) const ENTRY: &str = "@@ ";

/// Claims once, and prints the statements as a script.
pub(crate) fn print(url: &str, server: &Path) -> Result {
    let (mut client, _) = fill::connect(url)?;
    let mut log = std::fs::File::open(server.join("log"))?;
    client.batch_execute("ALTER ROLE postgres SET log_statement TO 'all'")?;
    log.seek(SeekFrom::End(0))?;
    let number = fill::BEFORE + 1;
    let mut bench = Bench::open(url)?;
    bench.caller = caller(&format!("agent {number}"));
    let claimed = bench.claim();
    client.batch_execute("ALTER ROLE postgres RESET log_statement")?;
    if claimed?.task.task.name != format!("task {number}") {
        return Err("it was not the first task that was claimed".into());
    }
    let mut text = String::new();
    log.read_to_string(&mut text)?;
    println!("\\set k :k + 1\n\\set n {number} + :k * 10 + :client_id\n\\set w 5000000 + :n / 100");
    print!("{}", script(&text)?);
    Ok(())
}

/// A statement that was sent, with its parameters inserted.
struct Sent {
    text: String,
    /// Whether it was sent as text, maybe together with others, and not prepared.
    is_simple: bool,
}

fn script(log: &str) -> Result<String> {
    let sent = sent(log)?;
    let begin = sent.iter().position(|sent| sent.text.starts_with("BEGIN")).ok_or("nothing begins in the log")?;
    let mut script = String::new();
    for sent in &sent[begin..] {
        if !sent.is_simple {
            writeln!(script, "{};", sent.text)?;
            continue;
        }
        writeln!(script, "\\startpipeline")?;
        for statement in sent.text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            writeln!(script, "{statement};")?;
        }
        writeln!(script, "\\endpipeline")?;
        if sent.text.ends_with("COMMIT") {
            return Ok(script);
        }
    }
    Err("nothing ends in the log".into())
}

/// Reads the entries of a log.
fn sent(log: &str) -> Result<Vec<Sent>> {
    let mut all: Vec<Sent> = Vec::new();
    for entry in log.split(ENTRY) {
        // Further lines begin with a tab.
        let entry = entry.trim().replace("\n\t", " ");
        if let Some(text) = entry.strip_prefix("LOG:  statement: ") {
            all.push(Sent { text: text.to_owned(), is_simple: true });
        } else if let Some((_, text)) = entry.strip_prefix("LOG:  execute ").and_then(|entry| entry.split_once(": ")) {
            all.push(Sent { text: text.to_owned(), is_simple: false });
        } else if let Some(text) = entry.strip_prefix("DETAIL:  parameters: ") {
            let last = all.last_mut().ok_or("parameters of nothing")?;
            if last.text.trim_start().starts_with("INSERT INTO events") {
                // The sequence of an event counts up, too.
                last.text = last.text.replace("$1,", "1000000 + :n,");
            }
            last.text = with_parameters(&last.text, &parameters(text));
        }
    }
    Ok(all)
}

/// Reads `$1 = 'one', $2 = NULL`.
fn parameters(mut text: &str) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((_, rest)) = text.split_once(" = ") {
        let quoted = rest.strip_prefix('\'');
        let end = quoted.map_or_else(|| rest.find(',').unwrap_or(rest.len()), |quoted| 2 + end_of_quote(quoted));
        all.push(rest[..end].to_owned());
        text = &rest[end..];
    }
    all
}

/// Returns the end of a quoted text. Two quotes in a row are an escaped quote.
fn end_of_quote(text: &str) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].find('\'') {
        at += next;
        if !text[at + 1..].starts_with('\'') {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// Inserts parameters into a statement, the last one first: `$1` is a prefix of `$10`.
fn with_parameters(text: &str, parameters: &[String]) -> String {
    let mut text = text.to_owned();
    for (at, value) in parameters.iter().enumerate().rev() {
        text = text.replace(&format!("${}", at + 1), &varying(value));
    }
    text
}

/// Replaces values that differ between claims by variables, and escapes text that pgbench would take for variables.
fn varying(value: &str) -> String {
    // A number cannot be concatenated from texts.
    if value.trim_matches('\'').bytes().all(|byte| byte.is_ascii_digit()) {
        return value.to_owned();
    }
    let number = fill::BEFORE + 1;
    let workflow = 5_000_000 + number / 100;
    let mut text = String::new();
    for character in value.chars() {
        text.push(character);
        if character == ':' {
            text += "' || '";
        }
    }
    let text = match text.strip_prefix("'own-") {
        Some(key) if key.len() == 33 => format!("'own-{number}'"),
        _ => text,
    };
    let text = text.replace(&number.to_string(), "' || :n || '").replace(&workflow.to_string(), "' || :w || '");
    if text == value { text } else { format!("({text})") }
}
