//! Moving issues from one ledger to another.
//!
//! The target is written before the source is changed, so a crash between the two leaves an issue in both. Moving again
//! finds it there and takes it out of the source.

use waypost_core::ledger::issue::Issue;
use waypost_core::{Error, Result};

use crate::ledger::{Entry, Filter, Ledger, Sort};

/// Which issues are moved: all that fit every part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    parts: Vec<(String, String)>,
}

impl Which {
    const KEYS: &[&str] = &["author", "status", "label", "type", "priority", "assignee", "id"];

    /// Reads `key=value` parts with spaces between; `author=me` is whoever asks.
    pub fn parse(text: &str, actor: &str) -> Result<Which> {
        let mut parts = Vec::new();
        for part in text.split_whitespace() {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Error::invalid(format!("{part:?} is not key=value"))
                    .hint(format!("the keys are {}", Self::KEYS.join(", "))));
            };
            if !Self::KEYS.contains(&key) {
                let error = Error::invalid(format!("there is no key {key:?} to filter by"));
                return Err(match waypost_core::nearest::nearest(key, Self::KEYS.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("the keys are {}", Self::KEYS.join(", "))),
                });
            }
            let value = if key == "author" && value == "me" { actor } else { value };
            parts.push((key.to_owned(), value.to_owned()));
        }
        Ok(Which { parts })
    }

    fn fits(&self, issue: &Issue) -> bool {
        self.parts.iter().all(|(key, value)| match key.as_str() {
            "author" => issue.created_by.as_ref() == Some(value),
            "status" => issue.status == *value,
            "label" => issue.has_label(value),
            "type" => issue.issue_type == *value,
            "priority" => waypost_core::ledger::vocabulary::priority(value).is_ok_and(|value| value == issue.priority),
            "assignee" => issue.assignee.as_ref() == Some(value),
            _ => issue.id == *value,
        })
    }
}

/// Moves issues into a ledger from all others, or from one. Returns those that were moved, or would be.
pub fn migrate(ledger: &Ledger, from: Option<usize>, to: usize, which: &Which, rehearse: bool) -> Result<Vec<Entry>> {
    let sources: Vec<usize> =
        (0..ledger.repos().len()).filter(|number| *number != to && from.is_none_or(|from| from == *number)).collect();
    let mut moved = Vec::new();
    for source in sources {
        let all = Filter { closed: true, ..Filter::default() };
        let found: Vec<Entry> = ledger.look(|index| {
            let mut found = Vec::new();
            for summary in index.list(&all, Sort::Id, false, None)? {
                if let Some(entry) = index.in_ledger(&summary.id, source)?
                    && which.fits(&entry.issue)
                {
                    found.push(entry);
                }
            }
            Ok(found)
        })?;
        if found.is_empty() {
            continue;
        }
        if !ledger.may_write(source) {
            // It says why.
            ledger.transaction_in(source, |_| Ok(()))?;
        }
        ledger.transaction_in(to, |transaction| {
            if rehearse {
                transaction.discard();
            }
            for entry in &found {
                match transaction.copy_here(&entry.issue.id)? {
                    None => transaction.put(&entry.record)?,
                    // An earlier move that did not come to its end.
                    Some(there) if there.record == entry.record => {}
                    Some(_) => {
                        return Err(Error::conflict(format!(
                            "issue {} is in both ledgers, and not the same",
                            entry.issue.id
                        ))
                        .hint("make them the same, or leave it out with another --filter"));
                    }
                }
            }
            Ok(())
        })?;
        if !rehearse {
            ledger.transaction_in(source, |transaction| {
                found.iter().try_for_each(|entry| transaction.take_out(&entry.issue.id))
            })?;
        }
        moved.extend(found);
    }
    Ok(moved)
}
