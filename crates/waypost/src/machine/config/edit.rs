//! Changes one key of a configuration file and keeps everything else: comments, order, spacing.

use std::path::Path;
use std::time::Duration;

use toml_edit::{Array, DocumentMut, Item, Table, value};
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, create_durable_dir, create_private_dir, replace};

use super::keys::Key;
use super::layers::read;
use crate::machine::config::Value;

const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets a key.
pub fn set(file: &Path, lock: &Path, key: &Key, to: &Value) -> Result<()> {
    edit(file, lock, |document| {
        let new = match to {
            Value::Text(text) => value(text),
            Value::List(list) => value(list.iter().collect::<Array>()),
        };
        set_item(document, key, new)?;
        Ok(true)
    })
    .map(drop)
}

/// Removes a key. Returns whether it was set.
pub fn unset(file: &Path, lock: &Path, key: &Key) -> Result<bool> {
    edit(file, lock, |document| Ok(remove_key(document, key)))
}

/// Adds an item to a list. Returns whether it was new.
pub fn add_to_list(file: &Path, lock: &Path, key: &Key, item: &str, same: impl Fn(&str) -> bool) -> Result<bool> {
    edit(file, lock, |document| {
        let mut list = list(document, key);
        if list.iter().any(|known| known.as_str().is_some_and(&same)) {
            return Ok(false);
        }
        list.push(item);
        set_item(document, key, value(list))?;
        Ok(true)
    })
}

/// Removes items from a list. Returns whether there were any.
pub fn remove_from_list(file: &Path, lock: &Path, key: &Key, same: impl Fn(&str) -> bool) -> Result<bool> {
    edit(file, lock, |document| {
        let mut list = list(document, key);
        let before = list.len();
        list.retain(|known| !known.as_str().is_some_and(&same));
        if list.len() == before {
            return Ok(false);
        }
        if list.is_empty() {
            return Ok(remove_key(document, key));
        }
        set_item(document, key, value(list))?;
        Ok(true)
    })
}

fn edit(file: &Path, lock: &Path, change: impl FnOnce(&mut DocumentMut) -> Result<bool>) -> Result<bool> {
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    if let Some(dir) = lock.parent() {
        create_private_dir(dir).map_err(cannot)?;
    }
    let _lock = FileLock::acquire(lock, LOCK_TIMEOUT)?;
    let mut document = read(file)?.unwrap_or_default();
    let changed = change(&mut document)?;
    if changed {
        if let Some(dir) = file.parent() {
            create_durable_dir(dir).map_err(cannot)?;
        }
        replace(file, document.to_string().as_bytes(), 0o644).map_err(cannot)?;
    }
    Ok(changed)
}

fn remove_key(document: &mut DocumentMut, key: &Key) -> bool {
    let (parents, last) = split(key);
    let mut table = document.as_table_mut();
    for part in parents {
        match table.get_mut(part).and_then(Item::as_table_mut) {
            Some(inner) => table = inner,
            None => return false,
        }
    }
    table.remove(last).is_some()
}

fn list(document: &DocumentMut, key: &Key) -> Array {
    debug_assert!(key.kind.separator().is_some());
    let (parents, last) = split(key);
    let mut table = document.as_table();
    for part in parents {
        match table.get(part).and_then(Item::as_table) {
            Some(inner) => table = inner,
            None => return Array::new(),
        }
    }
    table.get(last).and_then(Item::as_array).cloned().unwrap_or_default()
}

fn set_item(document: &mut DocumentMut, key: &Key, new: Item) -> Result<()> {
    let (parents, last) = split(key);
    let mut table = document.as_table_mut();
    for part in parents {
        let inner = table.entry(part).or_insert_with(|| {
            let mut inner = Table::new();
            inner.set_implicit(true);
            Item::Table(inner)
        });
        table = inner.as_table_mut().ok_or_else(|| {
            Error::invalid(format!("{part} is not a table in this file, so {} cannot be set in it", key.name))
                .hint("rewrite it as a table by hand")
        })?;
    }
    match table.get_mut(last) {
        // Keep the comment after the old value.
        Some(Item::Value(old)) => {
            if let Item::Value(mut new) = new {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
        }
        _ => {
            table.insert(last, new);
        }
    }
    Ok(())
}

fn split(key: &Key) -> (Vec<&'static str>, &'static str) {
    let mut parts: Vec<&'static str> = key.name.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    (parts, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::config::key_named;

    fn check(before: &str, change: impl FnOnce(&Path, &Path), after: &str) {
        let dir = waypost_testkit::temp_dir();
        let (file, lock) = (dir.path().join("config.toml"), dir.path().join("lock"));
        replace(&file, before.as_bytes(), 0o600).unwrap();
        change(&file, &lock);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn setting_keeps_comments_order_and_unknown_keys() {
        check(
            "# mine\nscope = 'repo' # why\n\n[other]\nx = 1\n",
            |file, lock| set(file, lock, key_named("scope").unwrap(), &text("global")).unwrap(),
            "# mine\nscope = \"global\" # why\n\n[other]\nx = 1\n",
        );
    }

    #[test]
    fn setting_a_nested_key_creates_its_tables() {
        check(
            "",
            |file, lock| {
                set(file, lock, key_named("prefix").unwrap(), &text("way")).unwrap();
                set(file, lock, key_named("routing.auto.maintainer").unwrap(), &text(".")).unwrap();
            },
            "prefix = \"way\"\n\n[routing.auto]\nmaintainer = \".\"\n",
        );
    }

    #[test]
    fn unsetting_removes_one_line() {
        check(
            "scope = \"repo\"\nprefix = \"a\" # b\n",
            |file, lock| {
                assert!(unset(file, lock, key_named("scope").unwrap()).unwrap());
                assert!(!unset(file, lock, key_named("ledger.home").unwrap()).unwrap());
            },
            "prefix = \"a\" # b\n",
        );
    }

    #[test]
    fn list_items_are_added_and_removed() {
        let key = key_named("repos.additional").unwrap();
        check(
            "[repos]\nadditional = [\n  \"/a\", # the first\n]\n",
            |file, lock| {
                assert!(add_to_list(file, lock, key, "/b", |known| known == "/b").unwrap());
                assert!(!add_to_list(file, lock, key, "/b", |known| known == "/b").unwrap());
                assert!(remove_from_list(file, lock, key, |known| known == "/b").unwrap());
            },
            "[repos]\nadditional = [\n  \"/a\", # the first\n]\n",
        );
    }
}
