//! The words of the ledger: statuses, priorities and kinds of dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::nearest::nearest;

/// The meaning of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Open: may be ready.
    Active,
    /// In progress.
    Wip,
    /// Finished; blocks no other issue.
    Done,
    /// Neither ready nor finished, for example blocked or deferred.
    Frozen,
    /// Deleted; blocks no other issue.
    Deleted,
}

impl Category {
    /// Tells whether the issue is finished or deleted: it blocks no other issue and needs no work.
    pub fn is_over(self) -> bool {
        matches!(self, Category::Done | Category::Deleted)
    }
}

/// The built-in statuses and those that the configuration adds, with their meanings.
#[derive(Clone, Debug, Default)]
pub struct Statuses {
    custom: BTreeMap<String, Category>,
}

impl Statuses {
    /// The built-in statuses.
    pub const BUILT_IN: &[(&str, Category)] = &[
        ("open", Category::Active),
        ("in_progress", Category::Wip),
        ("hooked", Category::Wip),
        ("blocked", Category::Frozen),
        ("deferred", Category::Frozen),
        ("pinned", Category::Frozen),
        ("closed", Category::Done),
        ("tombstone", Category::Deleted),
        ("deleted", Category::Deleted),
    ];

    /// Adds custom statuses to the built-in ones.
    pub fn with_custom(custom: BTreeMap<String, Category>) -> Self {
        Statuses { custom }
    }

    /// Returns the meaning of a status. An undefined one is [`Category::Frozen`]: neither ready nor finished.
    pub fn category(&self, status: &str) -> Category {
        let built_in = Self::BUILT_IN.iter().find(|(known, _)| *known == status).map(|(_, category)| *category);
        built_in.or_else(|| self.custom.get(status).copied()).unwrap_or(Category::Frozen)
    }

    /// Returns a status as it is spelled in files: `in-progress` is `in_progress`. An undefined one stays as it is.
    pub fn spelled(&self, status: &str) -> String {
        let plain = status.trim().to_lowercase().replace(['-', ' '], "_");
        if !self.knows(status) && self.knows(&plain) { plain } else { status.to_owned() }
    }

    /// Returns the names of all statuses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        Self::BUILT_IN.iter().map(|(known, _)| *known).chain(self.custom.keys().map(String::as_str))
    }

    /// Tells whether a status is defined.
    pub fn knows(&self, status: &str) -> bool {
        Self::BUILT_IN.iter().any(|(known, _)| *known == status) || self.custom.contains_key(status)
    }
}

/// The part of a repository's configuration that concerns statuses and readiness.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The statuses.
    pub statuses: Statuses,
    /// Whether a blocker that is in no ledger counts as done.
    pub ignore_unresolved: bool,
    /// Issues that were closed before a ledger was pruned of them.
    pub pruned: Pruned,
}

/// The ids of issues that were closed, and are in no ledger any more. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct Pruned(Arc<RwLock<BTreeSet<String>>>);

impl Pruned {
    /// Returns the meaning of the last status of an issue, if it is one of these.
    pub fn category(&self, id: &str) -> Option<Category> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(id).then_some(Category::Done)
    }

    /// Adds issues. Returns whether one of them is new.
    pub fn add(&self, ids: impl IntoIterator<Item = String>) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.extend(ids);
        known.len() > before
    }
}

/// The types of issues that need no definition.
pub const TYPES: &[&str] = &["bug", "feature", "task", "epic", "chore"];

/// Returns the words of a list. A text may have several, separated by commas, or be a list in JSON: models and shells
/// write both.
pub fn words(texts: &[String]) -> Vec<String> {
    let of = |text: &String| match serde_json::from_str(text) {
        Ok(words) => words,
        Err(_) if text.contains(',') => {
            text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        }
        Err(_) => vec![text.clone()],
    };
    texts.iter().flat_map(of).collect()
}

/// Returns the name of a person or an agent: `me` is the caller.
pub fn name<'a>(text: &'a str, caller: &'a str) -> &'a str {
    if text == "me" { caller } else { text }
}

/// The priority of an issue that names none.
pub const DEFAULT_PRIORITY: u8 = 2;

/// Parses a priority: 0 to 4, P0 to P4, or a word.
pub fn priority(text: &str) -> Result<u8> {
    let word = text.trim().to_lowercase();
    match word.as_str() {
        "critical" | "urgent" | "highest" => return Ok(0),
        "high" => return Ok(1),
        "medium" | "normal" => return Ok(2),
        "low" => return Ok(3),
        "lowest" | "backlog" => return Ok(4),
        _ => {}
    }
    match word.strip_prefix('p').unwrap_or(&word).parse() {
        Ok(priority @ 0..=4) => Ok(priority),
        _ => Err(Error::invalid(format!("{text:?} is not a priority"))
            .hint("use 0 (highest) to 4, P0 to P4, or a word: critical, high, medium, low, backlog")),
    }
}

/// The kind of a dependency on another issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyKind {
    /// The other issue blocks this one.
    Blocks,
    /// The other issue is the parent.
    ParentChild,
    /// The issues are related.
    Related,
    /// This issue was discovered while working on the other.
    DiscoveredFrom,
    /// This issue duplicates the other.
    Duplicates,
    /// This issue supersedes the other.
    Supersedes,
}

impl DependencyKind {
    /// Every spelling and its meaning. Waypost writes the first spelling of each meaning.
    const SPELLINGS: &[(&str, DependencyKind)] = &[
        ("blocks", DependencyKind::Blocks),
        ("blocked-by", DependencyKind::Blocks),
        ("blocks-on", DependencyKind::Blocks),
        ("depends-on", DependencyKind::Blocks),
        ("parent-child", DependencyKind::ParentChild),
        ("parent", DependencyKind::ParentChild),
        ("child-of", DependencyKind::ParentChild),
        ("parent_child", DependencyKind::ParentChild),
        ("related", DependencyKind::Related),
        ("related-to", DependencyKind::Related),
        ("relates-to", DependencyKind::Related),
        ("discovered-from", DependencyKind::DiscoveredFrom),
        ("duplicates", DependencyKind::Duplicates),
        ("supersedes", DependencyKind::Supersedes),
    ];

    /// Returns the meaning of a spelling found in a file; none if it is unknown.
    pub fn read(text: &str) -> Option<DependencyKind> {
        Self::SPELLINGS.iter().find(|(known, _)| *known == text).map(|(_, kind)| *kind)
    }

    /// Parses user input; the error for an unknown word suggests the nearest one.
    pub fn parse(text: &str) -> Result<DependencyKind> {
        Self::read(text).ok_or_else(|| {
            let error = Error::invalid(format!("there is no dependency type {text:?}"));
            match nearest(text, Self::SPELLINGS.iter().map(|(known, _)| *known)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("use blocks, parent-child, related, discovered-from, duplicates or supersedes"),
            }
        })
    }

    /// Returns the spelling that Waypost writes.
    pub const fn as_str(self) -> &'static str {
        match self {
            DependencyKind::Blocks => "blocks",
            DependencyKind::ParentChild => "parent-child",
            DependencyKind::Related => "related",
            DependencyKind::DiscoveredFrom => "discovered-from",
            DependencyKind::Duplicates => "duplicates",
            DependencyKind::Supersedes => "supersedes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read_and_the_first_one_is_written() {
        for (spelling, kind) in DependencyKind::SPELLINGS {
            assert_eq!(DependencyKind::parse(spelling).unwrap(), *kind);
            assert_eq!(DependencyKind::read(kind.as_str()), Some(*kind));
        }
        assert_eq!(DependencyKind::parse("block").unwrap_err().hints(), ["did you mean blocks?"]);
        assert!(DependencyKind::parse("wombat").unwrap_err().hints()[0].starts_with("use blocks"));
    }

    #[test]
    fn a_priority_is_a_number_with_or_without_a_p() {
        assert_eq!((priority("0").unwrap(), priority("P4").unwrap(), priority("p1").unwrap()), (0, 4, 1));
        assert_eq!((priority("High").unwrap(), priority("critical").unwrap(), priority("low").unwrap()), (1, 0, 3));
        for bad in ["5", "-1", "", "hi", "P", "1.5"] {
            assert!(priority(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_is_separated_by_commas_or_is_json() {
        let words = |texts: &[&str]| words(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["a,b", "c", " d , ,e"]), ["a", "b", "c", "d", "e"]);
        assert_eq!(words(&[r#"["a","b c"]"#, "", "[x]"]), ["a", "b c", "", "[x]"]);
        assert_eq!((name("me", "ann"), name("bob", "ann")), ("ann", "bob"));
        let statuses = Statuses::default();
        assert_eq!(
            ["in-progress", "In Progress", "wombat"].map(|word| statuses.spelled(word)),
            ["in_progress", "in_progress", "wombat"]
        );
    }

    #[test]
    fn an_undefined_status_is_neither_ready_nor_finished() {
        let statuses = Statuses::with_custom([("review".to_owned(), Category::Wip)].into());
        assert_eq!(statuses.category("review"), Category::Wip);
        assert_eq!(statuses.category("undefined"), Category::Frozen);
        assert!(statuses.knows("open") && statuses.knows("review") && !statuses.knows("undefined"));
    }
}
