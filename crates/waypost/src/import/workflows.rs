//! Imports workflows, templates and settings of other programs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use waypost_core::model::{Repository, Vcs};
use waypost_core::op::{AddRepository, ListRepositories, ListTemplates, SaveTemplate, TakeWorkflow};
use waypost_core::{Kind, Result, path_text};
use waypost_import::Note;
use waypost_import::workflows::{ImportContext, Imported, ImportedTemplate, agentdb, caw, langgraph, pedrocli};
use waypost_workspace::repository_id as stored_id;

use super::program_sources::{self, Source};
use crate::app::session::Session;
use crate::issues::repos::Repo;
use crate::machine::config::{self, Layer, ValueKind, key_named};
use crate::machine::place::expand;
use crate::machine::system::SystemEntropy;
use crate::work::transfer::{self, Moved};

pub use super::program_sources::{Program, detect};

/// A request to import.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The program that wrote the source.
    pub program: Program,
    /// The source: a file or a directory; of PedroCLI also the URL of a PostgreSQL database.
    pub source: &'a Path,
    /// The threads of LangGraph to import; all if empty.
    pub threads: &'a [String],
    /// Whether imported settings replace existing ones.
    pub update: bool,
    /// Whether to write nothing and only report.
    pub dry_run: bool,
}

/// The outcome of an import or its dry run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// New workflows.
    pub added: Vec<Moved>,
    /// Workflows that the store has already.
    pub skipped: Vec<Moved>,
    /// Repositories that the store now has.
    pub repositories: Vec<Repository>,
    /// Templates.
    pub templates: Vec<TemplateTaken>,
    /// Settings.
    pub settings: Vec<SettingTaken>,
    /// Notes about content that could not be imported.
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Returns whether the source contained nothing.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.skipped.is_empty()
            && self.repositories.is_empty()
            && self.templates.is_empty()
            && self.settings.is_empty()
            && self.notes.is_empty()
    }
}

/// A template of another program.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateTaken {
    /// Its name.
    pub name: String,
    /// Whether it is new here. A template that exists is not changed.
    pub is_new: bool,
}

/// A setting of another program.
#[derive(Clone, Debug, Serialize)]
pub struct SettingTaken {
    /// The key here.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// Whether it is set. A key that was set before is not changed, unless the request says so.
    pub is_new: bool,
}

/// Imports a source, which is only read.
pub fn import(session: &mut Session, request: Request<'_>) -> Result<Outcome> {
    let mut context = ImportContext {
        repository: session.repository().clone(),
        worktree: session.worktree().clone(),
        repositories: BTreeMap::new(),
        is_shared: session.caller().is_shared,
        now: session.now()?,
    };
    let mut outcome = Outcome::default();
    let mut imported = Imported::default();
    for source in program_sources::read(session, request.program, request.source)? {
        let one = match source {
            Source::Caw(tables) => {
                context.repositories = repositories(session, &context, &tables, request.dry_run, &mut outcome)?;
                caw::read(&tables, &context)
            }
            Source::CawTemplate { name, definition } => {
                let mut one = Imported::default();
                let named = definition["name"].as_str().unwrap_or(&name);
                let description = definition["description"].as_str().map(str::to_owned);
                let template = caw::template(named, description, &definition, &mut one);
                one.templates.extend(template);
                one
            }
            Source::Langgraph(tables) => langgraph::read(&tables, &context, request.threads)?,
            Source::PedrocliJobs(jobs) => pedrocli::read(&jobs, &context),
            Source::PedrocliSettings { value, dir } => {
                let mut one = pedrocli::settings(&value);
                for (key, value) in &mut one.settings {
                    if key_named(key)?.kind == ValueKind::Path && !value.starts_with('~') {
                        *value = path_text::to_text(&expand(&value, &dir, &session.place.variables)?);
                    }
                }
                one
            }
            Source::Agentdb(tables) => agentdb::read(&tables, &context),
            Source::Note(note) => Imported { notes: vec![note], ..Imported::default() },
        };
        imported.workflows.extend(one.workflows);
        imported.templates.extend(one.templates);
        imported.settings.extend(one.settings);
        imported.notes.extend(one.notes);
    }
    outcome.notes.extend(imported.notes);
    save_templates(session, imported.templates, request.dry_run, &mut outcome)?;
    save_settings(session, imported.settings, request, &mut outcome)?;
    let from = format!("{} {}", request.program.name(), program_sources::shown(request.source));
    for mut dump in imported.workflows {
        let into = transfer::name(session);
        let mut taken = take(session, &dump, &from, &into, request.dry_run);
        if matches!(&taken, Err(error) if error.kind() == Kind::Conflict) {
            // Another live workflow has the same name.
            let tail: String = dump.workflow.id.as_str().chars().skip(3).take(6).collect();
            dump.workflow.name = format!("{} {tail}", dump.workflow.name);
            taken = take(session, &dump, &from, &into, request.dry_run);
        }
        let moved = Moved::of(&dump);
        if taken? {
            outcome.added.push(moved);
        } else {
            outcome.skipped.push(moved);
        }
    }
    Ok(outcome)
}

fn take(
    session: &mut Session,
    dump: &waypost_core::work::transfer::WorkflowDump,
    from: &str,
    into: &str,
    dry_run: bool,
) -> Result<bool> {
    let operation = TakeWorkflow { dump: dump.clone(), from: from.to_owned(), into: into.to_owned(), dry_run };
    session.write(operation).map(|taken| taken.is_new)
}

/// Finds the repositories of caw on this machine, and registers them in a shared store.
///
/// A repository that is not here keeps its record in a shared store. In the store of one repository, its workflows are
/// imported into that repository: it may have been moved.
fn repositories(
    session: &mut Session,
    context: &ImportContext,
    tables: &waypost_core::tables::Tables,
    dry_run: bool,
    outcome: &mut Outcome,
) -> Result<BTreeMap<String, Repository>> {
    let all = caw::repositories(tables);
    let known: Vec<Repository> = if all.is_empty() || !context.is_shared {
        Vec::new()
    } else {
        session.call(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository).collect()
    };
    let mut found = BTreeMap::new();
    for foreign in all {
        let path = Path::new(&foreign.path);
        let opened = path.is_absolute().then(|| Repo::open(path, &session.place.variables).ok()).flatten();
        let repository = match opened {
            Some(repo) if repo.path() == context.repository.path => context.repository.clone(),
            Some(repo) => {
                let id = match stored_id(&repo.checkout.private_dir)? {
                    Some(id) => id,
                    None if dry_run || !context.is_shared => foreign.own_id(),
                    None => repo.checkout.ensure_repository_id(&mut SystemEntropy)?,
                };
                let repository = repo.as_known(id);
                if context.is_shared && repository.id != context.repository.id {
                    if !dry_run {
                        session.call(AddRepository { repository: repository.clone() })?;
                    }
                    if !known.iter().any(|one| one.id == repository.id) {
                        outcome.repositories.push(repository.clone());
                    }
                }
                repository
            }
            None if context.is_shared => {
                known.iter().find(|one| one.path == path).cloned().unwrap_or_else(|| Repository {
                    id: foreign.own_id(),
                    name: foreign.name.clone(),
                    path: path.to_owned(),
                    vcs: Vcs::None,
                    remote_url: None,
                    default_branch: None,
                })
            }
            None => {
                if foreign.is_used {
                    let problem = "not a repository on this machine: its workflows are imported into this one";
                    outcome.notes.push(Note::new(&foreign.path, problem));
                }
                context.repository.clone()
            }
        };
        found.insert(foreign.id, repository);
    }
    Ok(found)
}

/// Saves the templates whose names are free. One that is not valid here is reported.
fn save_templates(
    session: &mut Session,
    templates: Vec<ImportedTemplate>,
    dry_run: bool,
    outcome: &mut Outcome,
) -> Result<()> {
    if templates.is_empty() {
        return Ok(());
    }
    let known = session.call(ListTemplates::all())?.templates;
    let mut names: Vec<String> = known.into_iter().map(|template| template.name).collect();
    for ImportedTemplate { name, description, body, variables } in templates {
        if names.contains(&name) {
            outcome.templates.push(TemplateTaken { name, is_new: false });
            continue;
        }
        if !dry_run {
            let save = SaveTemplate { name: name.clone(), description, body: Some(body), from: None, variables };
            match session.call(save) {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::Invalid => {
                    outcome.notes.push(Note::new(format!("template {name}"), error.full_message()));
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        names.push(name.clone());
        outcome.templates.push(TemplateTaken { name, is_new: true });
    }
    Ok(())
}

/// Writes settings to the configuration of this clone.
fn save_settings(
    session: &Session,
    settings: Vec<(&'static str, String)>,
    request: Request<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    for (name, value) in settings {
        let key = key_named(name)?;
        let parsed = match key.parse(&value) {
            Ok(parsed) => parsed,
            Err(error) => {
                outcome.notes.push(Note::new(name, error.full_message()));
                continue;
            }
        };
        let place = &session.place;
        let is_set = place.config.get(name).is_some_and(|setting| setting.layer != Layer::Default);
        let is_new = !is_set || request.update;
        if is_new && !request.dry_run {
            let checkout = place.require_checkout()?;
            let (file, lock) = (checkout.private_dir.join("config.toml"), checkout.private_dir.join("lock"));
            config::set(&file, &lock, key, &parsed)?;
        }
        outcome.settings.push(SettingTaken { key: key.name, value, is_new });
    }
    Ok(())
}
