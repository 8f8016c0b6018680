//! Imports workflows of other programs into the store.

use std::path::Path;

use waypost_core::op::TakeWorkflow;
use waypost_core::{Kind, Result, path_text};
use waypost_import::Note;
use waypost_import::workflows::{ImportContext, Imported, caw, langgraph};
use waypost_store::foreign;

use crate::session::Session;
use crate::transfer::{self, Moved};

/// The program that wrote a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// caw.
    Caw,
    /// LangGraph, with its `SqliteSaver`.
    Langgraph,
}

impl Program {
    /// Parses its name.
    pub fn parse(name: &str) -> Option<Program> {
        [Program::Caw, Program::Langgraph].into_iter().find(|program| program.name() == name)
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Caw => "caw",
            Program::Langgraph => "langgraph",
        }
    }
}

/// The outcome of an import or its dry run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// New workflows.
    pub added: Vec<Moved>,
    /// Workflows that the store has already.
    pub skipped: Vec<Moved>,
    /// Notes about content that could not be imported.
    pub notes: Vec<Note>,
}

/// Imports the workflows of a database, which is only read.
pub fn import(session: &mut Session, program: Program, path: &Path, dry_run: bool) -> Result<Outcome> {
    let context = ImportContext {
        repository: session.repository().clone(),
        worktree: session.worktree().clone(),
        now: session.now()?,
    };
    let scratch = match (&session.place.checkout, &session.place.home) {
        (Some(checkout), _) => checkout.private_dir.clone(),
        (None, Some((home, _))) => home.clone(),
        (None, None) => session.place.cwd.clone(),
    };
    let Imported { workflows, notes } = match program {
        Program::Caw => caw::read(&foreign::read(path, &scratch, caw::TABLES)?, &context),
        Program::Langgraph => langgraph::read(&foreign::read(path, &scratch, langgraph::TABLES)?, &context),
    };
    let mut outcome = Outcome { notes, ..Outcome::default() };
    let from = format!("{} {}", program.name(), path_text::to_text(path));
    for mut dump in workflows {
        let into = transfer::name(session);
        let mut taken = take(session, &dump, &from, &into, dry_run);
        if matches!(&taken, Err(error) if error.kind() == Kind::Conflict) {
            // Another live workflow has the same name.
            let tail: String = dump.workflow.id.as_str().chars().skip(3).take(6).collect();
            dump.workflow.name = format!("{} {tail}", dump.workflow.name);
            taken = take(session, &dump, &from, &into, dry_run);
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
