//! `way edit`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use waypost_core::ledger::issue::Issue;
use waypost_core::{Error, Kind, Result};

use crate::cli::Cx;
use crate::cli::issues::priority;
use crate::ledger::{Change, Edit};

/// Change an issue in your editor
///
/// The editor is what VISUAL or EDITOR says, else vi. Only what you change is written, so that what others change
/// meanwhile stays.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The issue: an id, or the beginning of one
    #[arg(value_name = "ISSUE")]
    issue: String,
}

/// The texts of several lines, each under a heading of its own.
const SECTIONS: &[&str] = &["description", "design", "acceptance_criteria", "notes"];

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let issue = cx.look(&desk, |index| index.entry_of(&args.issue))?.issue;
    let before = page(&issue)?;
    let dir = &desk.place.require_checkout()?.private_dir;
    waypost_fs::create_private_dir(dir)
        .map_err(|error| Error::unavailable(format!("cannot make {}", dir.display())).because(error))?;
    let file = dir.join(format!("edit-{}.md", std::process::id()));
    write(&file, &before)?;
    let edited = waypost_workspace::run_editor(&desk.place.variables.editor(), &file).and_then(|()| read(&file));
    let changed = edited.and_then(|after| if after == before { Ok(None) } else { change(&issue, &after).map(Some) });
    let edit = match changed {
        Ok(Some(edit)) if edit != Edit::default() => edit,
        Ok(_) => {
            remove(&file);
            return Err(Error::new(Kind::NothingToDo, "nothing was changed"));
        }
        Err(error) => return Err(error.hint(format!("what you wrote is in {}", file.display()))),
    };
    let records = desk.apply(&[Change::Update(issue.id, edit)]);
    let records = records.map_err(|error| error.hint(format!("what you wrote is in {}", file.display())))?;
    remove(&file);
    cx.answer_changed(&desk, "Changed", &records)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns an issue as it is edited.
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
            return Err(Error::conflict(format!("the {section} of issue {} looks like our headings", issue.id))
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

/// Reads what was edited: the fields that are different now.
fn change(issue: &Issue, page: &str) -> Result<Edit> {
    let mut edit = Edit::default();
    let mut sections: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if let Some(section) = section_of(line) {
            sections.push((section, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        } else if !line.trim().is_empty() {
            let wrong = |why: &str| Error::invalid(format!("line {}: {why}", number + 1));
            let (key, value) = line.split_once(':').ok_or_else(|| wrong("a field is key: value"))?;
            field(&mut edit, issue, key.trim(), value.trim())
                .map_err(|error| error.within(format!("line {}", number + 1)))?;
        }
    }
    for (section, lines) in sections {
        let text = lines.join("\n");
        let text = trimmed(&text);
        let (old, new) = match section {
            "description" => (&issue.description, &mut edit.description),
            "design" => (&issue.design, &mut edit.design),
            "notes" => (&issue.notes, &mut edit.notes),
            _ => (&issue.acceptance_criteria, &mut edit.acceptance_criteria),
        };
        if text != trimmed(old) {
            *new = Some(text.to_owned());
        }
    }
    Ok(edit)
}

/// A text without the empty lines around it.
fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\n').trim_end()
}

fn field(edit: &mut Edit, issue: &Issue, key: &str, value: &str) -> Result<()> {
    let differs = |old: &str| (value != old).then(|| value.to_owned());
    match key {
        "title" => edit.title = differs(&issue.title),
        "status" => edit.status = differs(&issue.status),
        "type" => edit.issue_type = differs(&issue.issue_type),
        "assignee" => edit.assignee = differs(issue.assignee.as_deref().unwrap_or_default()),
        "parent" => edit.parent_id = differs(issue.parent_id.as_deref().unwrap_or_default()),
        "priority" => {
            edit.priority = Some(priority(value).map_err(Error::invalid)?).filter(|new| *new != issue.priority);
        }
        "labels" => {
            let labels: Vec<&str> = value.split(',').map(str::trim).filter(|label| !label.is_empty()).collect();
            edit.add_labels =
                labels.iter().filter(|label| !issue.has_label(label)).map(|label| (*label).to_owned()).collect();
            edit.remove_labels =
                issue.labels.iter().filter(|label| !labels.contains(&label.as_str())).cloned().collect();
        }
        other => return Err(Error::invalid(format!("there is no field {other:?}"))),
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    // One that a dead process of the same number left is not worth keeping.
    remove(file);
    let mut file = waypost_fs::create_private_file(file).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file)
        .map_err(|error| Error::invalid(format!("cannot read {}", file.display())).because(error))
}

fn remove(file: &Path) {
    // It is ours, private, and of no use to anybody.
    let _ = std::fs::remove_file(file);
}
