//! Configures coding agents for Waypost, in the files that each agent reads.
//!
//! Waypost owns a marked block in documents and certain keys in settings, and preserves every other byte. All files are
//! checked before the first one is written.

mod agents;
mod block;
mod files;
mod json_text;
mod part;
mod toml_text;

use serde::Serialize;
use waypost_core::Result;

pub(crate) use agents::{Agent, Extras, Scope, Surroundings, Target};
use files::Files;
use part::Part;

/// The state of one part of a setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Present and up to date.
    InOrder,
    /// Not present.
    Missing,
    /// Present, but not up to date.
    Outdated,
}

/// A part of a setup, with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PartStatus {
    /// The file, relative to the root of the worktree or to the home directory.
    pub(crate) path: String,
    /// The kind of part, such as "hooks".
    pub(crate) what: &'static str,
    /// Its state before any change.
    pub(crate) state: State,
}

/// A file of a setup, with the content that setup writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedPart {
    /// The file, relative to the root of the worktree or to the home directory.
    pub(crate) path: String,
    /// The kinds of parts, such as "hooks".
    pub(crate) what: String,
    /// The content of a new file.
    pub(crate) content: String,
}

/// The setup of an agent.
pub(crate) struct Setup<'a> {
    /// The agent.
    pub(crate) target: Target,
    /// The files that are meant.
    pub(crate) scope: Scope,
    /// The directories.
    pub(crate) around: &'a Surroundings,
    /// The requested parts.
    pub(crate) extras: Extras,
}

impl Setup<'_> {
    fn parts(&self) -> Result<Vec<Part>> {
        self.target.parts(self.scope, self.around, self.extras)
    }

    /// Returns the files that setup would write if none of them existed.
    pub(crate) fn planned_parts(&self) -> Result<Vec<PlannedPart>> {
        let mut planned: Vec<PlannedPart> = Vec::new();
        for part in self.parts()? {
            let what = part.content.what();
            if let Some(known) = planned.iter_mut().find(|known| known.path == part.file.shown) {
                known.content = part.with(Some(&known.content))?;
                if known.what != what {
                    known.what = format!("{}, {what}", known.what);
                }
            } else {
                let path = part.file.shown.clone();
                planned.push(PlannedPart { path, what: what.to_owned(), content: part.with(None)? });
            }
        }
        Ok(planned)
    }

    /// Returns the states of all parts.
    pub(crate) fn check(&self) -> Result<Vec<PartStatus>> {
        let mut files = Files::default();
        self.parts()?.iter().map(|part| part.status(files.read(&part.file)?.as_deref())).collect()
    }

    /// Writes missing and outdated parts, and returns their former states.
    pub(crate) fn set_up(&self) -> Result<Vec<PartStatus>> {
        let mut files = Files::default();
        let mut found = Vec::new();
        for part in self.parts()? {
            let text = files.read(&part.file)?;
            let was = part.status(text.as_deref())?;
            if was.state != State::InOrder {
                let with = part.with(text.as_deref()).map_err(|error| files::unreadable(&part.file, error))?;
                files.change(&part.file, Some(with));
            }
            found.push(was);
        }
        files.write()?;
        Ok(found)
    }

    /// Removes all parts, also those that were written on request. Returns their former states, and for instructions that
    /// stay the other agent that reads them.
    pub(crate) fn remove(&self) -> Result<Vec<(PartStatus, Option<Target>)>> {
        let requested = self.parts()?.len();
        let mut files = Files::default();
        let mut found = Vec::new();
        for (at, part) in self.target.parts(self.scope, self.around, Extras::ALL)?.iter().enumerate() {
            let text = files.read(&part.file)?;
            let was = part.status(text.as_deref())?;
            let reader = if was.state == State::Missing { None } else { self.other_reader(part) };
            if at < requested || was.state != State::Missing {
                found.push((was, reader));
            }
            if let Some(text) = text
                && reader.is_none()
                && let Some(rest) = part.without(&text).map_err(|error| error.within(&part.file.shown))?
            {
                let is_unused = part.is_empty(&rest);
                files.change(&part.file, (!is_unused).then_some(rest));
            }
        }
        files.write()?;
        Ok(found)
    }

    /// Returns another agent that is set up and reads the same instructions.
    fn other_reader(&self, part: &Part) -> Option<Target> {
        if !part.is_instructions() {
            return None;
        }
        let file = part.file.real_path().ok()?;
        let reads = |other: &Target| {
            let Ok(parts) = other.parts(self.scope, self.around, Extras::default()) else { return false };
            let is_read = |part: &Part| part.is_instructions() && part.file.real_path().is_ok_and(|path| path == file);
            let is_set_up = |part: &Part| {
                let text = Files::default().read(&part.file);
                let status = text.and_then(|text| part.status(text.as_deref()));
                part.is_server() && status.is_ok_and(|status| status.state != State::Missing)
            };
            parts.iter().any(is_read) && parts.iter().any(is_set_up)
        };
        Target::ALL.into_iter().filter(|other| *other != self.target).find(reads)
    }
}
