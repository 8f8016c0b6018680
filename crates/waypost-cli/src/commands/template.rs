//! `way template`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use waypost_core::model::Variable;
use waypost_core::op::{ApplyTemplate, ListTemplates, SaveTemplate, ShowTemplate, TemplateContent};
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;
use crate::issues::file_or_stdin;
use crate::ui::{BOLD, DIM, cell, header, number, prose, styled};
use crate::work::ReachArgs;
use waypost::work::templates::{self, Content, Found};

/// Create workflows from plans with variables
///
/// A plan names a variable as {{name}}. A template is a file in .waypost/templates of the repository, a file in ~/.waypost/templates, or saved in the store;
/// if two have the same name, the first of these places takes precedence. A file contains a plan in JSON, YAML or the
/// short form, or JSON or YAML with description, variables and plan. Files are only data; way runs nothing in them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way template list
  way template apply release --var version=1.2 --name release-1.2 --start
  way template save release --plan release.json --var-default branch=main
  way template save release --from release-1.2      the plan of a finished workflow")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List templates and their origin
    #[command(visible_alias = "ls")]
    List,
    /// Show a template, its variables and its plan
    Show {
        /// Name of the template
        name: String,
    },
    Apply(ApplyArgs),
    Save(SaveArgs),
}

/// Create a workflow from a template
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way template apply bugfix --var issue=way-1a2b --start
  way template apply release --var version=1.2 --var branch=main --name release-1.2")]
struct ApplyArgs {
    /// Name of the template
    #[arg(value_name = "TEMPLATE")]
    template: String,
    /// Value of a variable; may be given repeatedly
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = pair)]
    values: Vec<(String, String)>,
    /// Name of the workflow [default: the template's name]
    #[arg(long, value_name = "WORKFLOW")]
    name: Option<String>,
    /// Start the workflow at once
    #[arg(long)]
    start: bool,
    #[command(flatten)]
    reach: ReachArgs,
    /// Idempotency key: a repeated command with the same key returns the first result
    #[arg(long)]
    key: Option<String>,
}

/// Save a template in the store, as a new version if it exists
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way template save bugfix --plan bugfix.json --description 'Reproduce, fix, test'
  way template save bugfix --plan - --var-default reviewer=lead < bugfix.txt
  way template save release --from release-1.2")]
struct SaveArgs {
    /// Name of the template
    name: String,
    /// Plan: a file, or - for standard input
    #[arg(long, value_name = "FILE|-", required_unless_present = "from", conflicts_with = "from")]
    plan: Option<PathBuf>,
    /// Workflow whose plan to save
    #[arg(long, value_name = "WORKFLOW")]
    from: Option<String>,
    /// Description of the template
    #[arg(long)]
    description: Option<String>,
    /// Default value of a variable; may be given repeatedly
    #[arg(long = "var-default", value_name = "NAME=VALUE", value_parser = pair)]
    defaults: Vec<(String, String)>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List => list(cx),
        Command::Show { name } => show(cx, name),
        Command::Apply(args) => apply(cx, args),
        Command::Save(args) => save(cx, args),
    }
}

fn list(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let (mut all, unreadable) = templates::list(&session.place)?;
    for error in unreadable {
        cx.ui.warn(&error.full_message());
    }
    for stored in session.call(ListTemplates::all())?.templates {
        if !all.iter().any(|known| known.name == stored.name) {
            all.push(Found::from(stored));
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    cx.ui.answer(&all, |text| {
        let titles = header(["NAME", "FROM", "TASKS", "VARIABLES", "DESCRIPTION"]);
        let rows = all.iter().map(|template| {
            let names: Vec<_> = template.variables.iter().map(|variable| variable.name.as_str()).collect();
            vec![
                cell(&template.name),
                styled(DIM, from(template)),
                number(tasks(&template.body).len()),
                prose(if names.is_empty() { "-".to_owned() } else { names.join(",") }),
                prose(&template.description),
            ]
        });
        text.list(titles, rows);
    })?;
    if all.is_empty() {
        cx.ui.note("no templates yet; to create one: way template save NAME --plan FILE");
    }
    Ok(ExitCode::SUCCESS)
}

fn show(cx: &mut CommandContext, name: &str) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let found = match templates::find(&session.place, name)? {
        Some(found) => found,
        None => Found::from(session.call(ShowTemplate { name: name.to_owned() })?),
    };
    cx.ui.answer(&found, |text| {
        let field = |label: &str, value: String| vec![styled(BOLD, label), cell(value)];
        let mut rows = vec![field("template", found.name.clone()), field("from", from(&found))];
        rows.extend(found.path.clone().map(|path| field("file", path)));
        if !found.description.is_empty() {
            rows.push(field("description", found.description.clone()));
        }
        for Variable { name, description, default } in &found.variables {
            let default = default.as_ref().map_or_else(|| "required".to_owned(), |value| format!("default {value:?}"));
            let description = description.as_ref().map_or_else(String::new, |text| format!(": {text}"));
            rows.push(field("variable", format!("{name}, {default}{description}")));
        }
        text.table(&rows);
        text.gap();
        let steps: Vec<_> = tasks(&found.body)
            .iter()
            .map(|task| {
                let text_of = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
                let dependencies: Vec<_> = match &task["depends_on"] {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                    other => other.as_str().into_iter().collect(),
                };
                let needs = if dependencies.is_empty() { "-".to_owned() } else { dependencies.join(", ") };
                vec![cell(text_of("name")), styled(DIM, needs), prose(text_of("description"))]
            })
            .collect();
        text.list(header(["TASK", "NEEDS", "DESCRIPTION"]), steps);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn apply(cx: &mut CommandContext, args: &ApplyArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let content = templates::find(&session.place, &args.template)?.map(|found| TemplateContent {
        origin: format!("{} file {}", found.origin, found.path.unwrap_or_default()),
        body: found.body,
        variables: found.variables,
    });
    let operation = ApplyTemplate {
        template: args.template.clone(),
        content,
        name: args.name.clone(),
        values: args.values.iter().cloned().collect(),
        start: args.start,
        shared: args.reach.shared,
        only_here: args.reach.only_here,
    };
    let seen = session.call_once(args.key.as_deref(), operation).map_err(|error| match error.kind() {
        Kind::Conflict => error.hint("or choose another name: --name WORKFLOW"),
        _ => error,
    })?;
    cx.ui.answer(&seen, |text| {
        let workflow = &seen.workflow;
        let tasks = count(seen.total, "task");
        text.line(format!("Created workflow {} with {tasks}, {}: {}", workflow.name, workflow.status, workflow.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn save(cx: &mut CommandContext, args: &SaveArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let content = match &args.plan {
        None => None,
        Some(path) => {
            let named = if path.as_os_str() == "-" { path.clone() } else { session.place.cwd.join(path) };
            let content = templates::content(&file_or_stdin(&named)?, path);
            Some(content.map_err(|error| error.within(path.display()))?)
        }
    };
    let (description, mut variables, body) = match content {
        Some(Content { description, variables, body }) => (description, variables, Some(body)),
        None => (None, Vec::new(), None),
    };
    for (name, default) in &args.defaults {
        match variables.iter_mut().find(|variable| variable.name == *name) {
            Some(known) => known.default = Some(default.clone()),
            None => variables.push(Variable { name: name.clone(), description: None, default: Some(default.clone()) }),
        }
    }
    let operation = SaveTemplate {
        name: args.name.clone(),
        description: args.description.clone().or(description),
        body,
        from: args.from.clone(),
        variables,
    };
    let template = session.call(operation)?;
    if let Ok(Some(file)) = templates::find(&session.place, &args.name) {
        let path = file.path.unwrap_or_default();
        cx.ui.warn(&format!("{path} has the same name and takes precedence over the store"));
    }
    cx.ui.answer(&template, |text| text.line(format!("Saved {} as version {}", template.name, template.version)))?;
    Ok(ExitCode::SUCCESS)
}

fn from(template: &Found) -> String {
    match template.version {
        Some(version) => format!("{}, version {version}", template.origin),
        None => template.origin.to_string(),
    }
}

/// Returns the tasks of a plan: an array of tasks, or an object with the field `tasks`.
fn tasks(body: &Value) -> Vec<Value> {
    let list = if body.is_array() { body } else { &body["tasks"] };
    list.as_array().cloned().unwrap_or_default()
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err(crate::in_one_line(Error::invalid("expected NAME=VALUE"))),
    }
}
