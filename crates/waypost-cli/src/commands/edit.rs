//! `way edit`

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use waypost_core::ledger::issue::Issue;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::surroundings;

use crate::CommandContext;
use crate::issues::parse_priority;
use waypost::issues::ledger::{Change, Edit};

/// Edit an issue in your editor
///
/// Uses VISUAL or EDITOR, else vi. Writes only the fields you changed, so that concurrent changes of other users are kept.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way edit way-1a2b")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Change the status even if another agent holds the issue
    #[arg(long)]
    force: bool,
}

/// The multi-line fields, each under its own heading.
const SECTIONS: &[&str] = &["description", "design", "acceptance_criteria", "notes"];

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let issue = ledger_cx.with_index(|index| index.get_by_prefix(&args.issue))?.issue;
    let editor = match ledger_cx.place.variables.editor() {
        Some(editor) => editor,
        None if surroundings::stdin().is_terminal() => "vi".to_owned(),
        None => return Err(Error::invalid("no editor found").hint("set VISUAL or EDITOR, or use way update")),
    };
    let before = page(&issue)?;
    let file = write(&ledger_cx.place.require_checkout()?.private_dir, &before)?;
    let kept = |error: Error| error.hint(format!("your text is saved in {}", file.display()));
    let edited = waypost_workspace::run_editor(&editor, &file).and_then(|()| read(&file));
    if read(&file).is_ok_and(|now| now == before) {
        remove(&file);
    }
    let after = edited.map_err(|error| if file.exists() { kept(error) } else { error })?;
    let edit = change(&issue, &before, &after).map_err(kept)?;
    if edit == Edit::default() {
        remove(&file);
        return Err(Error::new(Kind::NothingToDo, "the issue was not changed"));
    }
    let records = cx.apply(&ledger_cx, &[Change::Update(issue.id, edit).forced(args.force)]).map_err(kept)?;
    remove(&file);
    cx.answer_changed(&ledger_cx, "Changed", &records)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the text that the editor shows for an issue.
fn page(issue: &Issue) -> Result<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut page = String::new();
    for (key, value) in [
        ("title", issue.title.clone()),
        ("status", issue.status.clone()),
        ("priority", issue.priority.to_string()),
        ("type", issue.issue_type.clone()),
        ("assignee", text(&issue.assignee)),
        ("labels", issue.labels.join(", ")),
        ("parent", text(&issue.parent_id)),
    ] {
        page.push_str(format!("{key}: {}", value.replace(['\n', '\r'], " ")).trim_end());
        page.push('\n');
    }
    for (section, body) in
        SECTIONS.iter().zip([&issue.description, &issue.design, &issue.acceptance_criteria, &issue.notes])
    {
        if body.lines().any(|line| section_of(line).is_some()) {
            return Err(Error::conflict(format!(
                "the {section} of issue {} contains a line that looks like a section heading",
                issue.id
            ))
            .hint("change it with way update"));
        }
        page.push_str(&heading(section));
        page.push('\n');
        page.push_str(body.trim_end());
        page.push('\n');
    }
    Ok(page)
}

fn heading(section: &str) -> String {
    format!("=== {section} ===")
}

fn section_of(line: &str) -> Option<&'static str> {
    SECTIONS.iter().copied().find(|section| line.trim() == heading(section))
}

/// A parsed page: its fields with their line numbers, and its sections.
#[derive(Default)]
struct Parts<'a> {
    fields: BTreeMap<&'a str, (usize, &'a str)>,
    sections: BTreeMap<&'static str, String>,
}

fn parts(page: &str) -> Result<Parts<'_>> {
    let mut parts = Parts::default();
    let mut sections: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if let Some(section) = section_of(line) {
            sections.push((section, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        } else if !line.trim().is_empty() {
            let wrong = || Error::invalid(format!("line {}: expected key: value", number + 1));
            let (key, value) = line.split_once(':').ok_or_else(wrong)?;
            parts.fields.insert(key.trim(), (number + 1, value.trim()));
        }
    }
    for (section, lines) in sections {
        parts.sections.insert(section, trimmed(&lines.join("\n")).to_owned());
    }
    Ok(parts)
}

/// Returns the differences between the pages as an edit. Unchanged fields are ignored, because the page may show less
/// than the issue contains.
fn change(issue: &Issue, before: &str, after: &str) -> Result<Edit> {
    let (before, after) = (parts(before)?, parts(after)?);
    let mut edit = Edit::default();
    for (key, (line, value)) in &after.fields {
        if before.fields.get(key).is_none_or(|(_, old)| old != value) {
            field(&mut edit, issue, key, value).map_err(|error| error.within(format!("line {line}")))?;
        }
    }
    for (section, text) in after.sections {
        if before.sections.get(section) != Some(&text) {
            let field = match section {
                "description" => &mut edit.description,
                "design" => &mut edit.design,
                "notes" => &mut edit.notes,
                _ => &mut edit.acceptance_criteria,
            };
            *field = Some(text);
        }
    }
    Ok(edit)
}

/// Trims empty lines around a text.
fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\n').trim_end()
}

fn field(edit: &mut Edit, issue: &Issue, key: &str, value: &str) -> Result<()> {
    let text = Some(value.to_owned());
    match key {
        "title" => edit.title = text,
        "status" => edit.status = text,
        "type" => edit.issue_type = text,
        "assignee" => edit.assignee = text,
        "parent" => edit.parent_id = text,
        "priority" => edit.priority = Some(parse_priority(value).map_err(Error::invalid)?),
        "labels" => {
            let labels: Vec<&str> = value.split(',').map(str::trim).filter(|label| !label.is_empty()).collect();
            edit.add_labels =
                labels.iter().filter(|label| !issue.has_label(label)).map(|label| (*label).to_owned()).collect();
            edit.remove_labels =
                issue.labels.iter().filter(|label| !labels.contains(&label.as_str())).cloned().collect();
        }
        other => return Err(Error::invalid(format!("unknown field {other:?}"))),
    }
    Ok(())
}

/// Writes a page to a new private file.
fn write(dir: &Path, text: &str) -> Result<PathBuf> {
    let cannot = |error| Error::unavailable(format!("cannot write into {}", dir.display())).because(error);
    waypost_fs::create_private_dir(dir).map_err(cannot)?;
    // An existing file belongs to another edit: kept after an error, or open in an editor.
    for number in 1..10_000 {
        let path = dir.join(format!("edit-{number}.md"));
        match waypost_fs::create_private_file(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(cannot)?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    Err(Error::unavailable(format!("too many unfinished edits in {}", dir.display()))
        .hint("delete the edit-*.md files in it"))
}

fn read(file: &Path) -> Result<String> {
    let cannot = || Error::invalid(format!("cannot read {}", file.display()));
    let text = waypost_fs::read_small_file(file)?.ok_or_else(|| cannot().hint("the editor deleted it"))?;
    String::from_utf8(text).map_err(|error| cannot().because(error))
}

fn remove(file: &Path) {
    // A private temporary file; failing to delete it does no harm.
    let _ = std::fs::remove_file(file);
}
