//! Manual pages in roff, made from the same definition as the help.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};
use waypost_core::{Error, Result};

use crate::help::TOPICS;

/// Writes a page for every command, and one for every topic. Returns the names of the files.
pub(crate) fn write_pages(dir: &Path) -> Result<Vec<String>> {
    let cannot =
        |error: std::io::Error| Error::unavailable(format!("cannot write to {}", dir.display())).because(error);
    std::fs::create_dir_all(dir).map_err(cannot)?;
    let mut way = crate::command();
    way.build();
    let mut pages = Vec::new();
    collect(&way, "way", None, &mut pages);
    for (topic, about, text) in TOPICS {
        let mut page = head(&format!("way-{topic}"), 7, about);
        page.push_str(".SH DESCRIPTION\n");
        page.push_str(&literal(text));
        page.push_str(".SH SEE ALSO\n\\fBway\\fR(1)\n");
        pages.push((format!("way-{topic}.7"), page));
    }
    for (name, page) in &pages {
        waypost_fs::replace(&dir.join(name), page.as_bytes(), 0o644).map_err(cannot)?;
    }
    Ok(pages.into_iter().map(|(name, _)| name).collect())
}

fn collect(command: &Command, name: &str, parent: Option<&str>, pages: &mut Vec<(String, String)>) {
    pages.push((format!("{name}.1"), page(command, name, parent)));
    for inner in visible(command) {
        collect(inner, &format!("{name}-{}", inner.get_name()), Some(name), pages);
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn head(name: &str, section: u8, about: &str) -> String {
    let title = name.to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH \"{}\" \"{section}\" \"\" \"Waypost {version}\" \"Waypost\"\n.SH NAME\n{} \\- {}\n",
        text(&title),
        text(name),
        text(about)
    )
}

fn page(command: &Command, name: &str, parent: Option<&str>) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = head(name, 1, &about);
    page.push_str(".SH SYNOPSIS\n");
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    for (number, line) in usage.enumerate() {
        let _ = writeln!(page, "{}{}", if number == 0 { "" } else { ".br\n" }, text(line));
    }
    page.push_str(".SH DESCRIPTION\n");
    let long = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    page.push_str(&paragraphs(&long));
    let positionals: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_hide_set()).collect();
    section(&mut page, "ARGUMENTS", &positionals);
    let options = || command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let is_root = name == "way";
    section(&mut page, "OPTIONS", &options().filter(|arg| is_root || !arg.is_global_set()).collect::<Vec<_>>());
    let commands: Vec<&Command> = visible(command).collect();
    if !commands.is_empty() {
        page.push_str(".SH COMMANDS\n");
        for inner in &commands {
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let page_name = format!("{name}-{}", inner.get_name());
            let _ = write!(page, ".TP\n\\fB{}\\fR(1)\n{}\n", text(&page_name), text(&about));
        }
    }
    if let Some(examples) = command.get_after_long_help().or(command.get_after_help()) {
        let examples = examples.to_string();
        page.push_str(".SH EXAMPLES\n");
        page.push_str(&literal(examples.trim_start_matches("Examples:\n")));
    }
    page.push_str(".SH EXIT STATUS\n0 on success; \\fBway\\-exit\\-codes\\fR(7) lists the others.\n");
    page.push_str(".SH SEE ALSO\n");
    let see: Vec<String> = match parent {
        None => TOPICS.iter().map(|(topic, ..)| format!("\\fBway\\-{}\\fR(7)", text(topic))).collect(),
        Some("way") => vec!["\\fBway\\fR(1), which lists the global options".to_owned()],
        Some(parent) => {
            vec![format!("\\fB{}\\fR(1)", text(parent)), "\\fBway\\fR(1), which lists the global options".to_owned()]
        }
    };
    page.push_str(&see.join(",\n"));
    page.push('\n');
    page
}

fn section(page: &mut String, title: &str, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    let _ = writeln!(page, ".SH {title}");
    for arg in args {
        let values = arg.get_value_names().unwrap_or_default().iter().map(|name| format!("\\fI{}\\fR", text(name)));
        let is_flag = !arg.get_num_args().is_some_and(|number| number.takes_values());
        let values: Vec<String> = if is_flag { Vec::new() } else { values.collect() };
        let short = arg.get_short().map(|short| format!("\\fB\\-{short}\\fR"));
        let long = arg.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", text(long)));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        let words: Vec<String> =
            [names.join(", "), values.join(" ")].into_iter().filter(|word| !word.is_empty()).collect();
        let _ = write!(page, ".TP\n{}\n", words.join(" "));
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        page.push_str(&paragraphs_in(&help, ".IP\n"));
        let possible: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("\\fB{}\\fR", text(value.get_name())))
            .collect();
        if !possible.is_empty() && !arg.is_hide_possible_values_set() && !is_flag {
            let _ = write!(page, ".IP\nPossible values: {}\n", possible.join(", "));
        }
        let defaults: Vec<String> =
            arg.get_default_values().iter().map(|value| text(&value.to_string_lossy())).collect();
        if !defaults.is_empty() && !is_flag {
            let _ = write!(page, ".IP\nDefault: {}\n", defaults.join(" "));
        }
    }
}

/// Returns running text, which roff fills.
fn paragraphs(content: &str) -> String {
    paragraphs_in(content, ".PP\n")
}

fn paragraphs_in(content: &str, separator: &str) -> String {
    let paragraphs = content.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    let lines = paragraphs.map(|paragraph| paragraph.lines().map(text).collect::<Vec<_>>().join("\n") + "\n");
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "\\&\n".to_owned() } else { lines.join(separator) }
}

/// Returns text whose lines stay as they are.
fn literal(content: &str) -> String {
    let lines: Vec<String> = content.trim_end().lines().map(text).collect();
    format!(".nf\n{}\n.fi\n", lines.join("\n"))
}

/// Escapes a line for roff.
fn text(line: &str) -> String {
    let line = line.trim_end().replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq");
    let line = line.replace('`', "\\(ga").replace('^', "\\(ha").replace('~', "\\(ti");
    // A line that begins with a dot would be a request.
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}
