//! Merges labels, dependencies and comments: lists that are sets.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::super::issue::parse_time;
use super::super::vocabulary::DependencyKind;
use super::meaning::of_value;
use super::order::skeleton;
use super::register::spelling;
use crate::time::Timestamp;

/// The fields that are sets.
pub(super) const SETS: &[&str] = &["labels", "dependencies", "comments"];

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Identifies the item across versions.
    pub(super) key: String,
    pub(super) raw: String,
    meaning: String,
    time: Option<Timestamp>,
}

impl Item {
    /// Reads an item of a field.
    pub(super) fn read(field: &str, raw: &str) -> Item {
        let meaning = of_value(raw);
        let value = || serde_json::from_str::<Value>(raw).unwrap_or_default();
        let mut time = None;
        let key = match field {
            "dependencies" => {
                let edge = value();
                let word = edge["type"].as_str().unwrap_or(DependencyKind::Blocks.as_str());
                let word = DependencyKind::read(word).map_or_else(|| word.to_owned(), |kind| kind.as_str().to_owned());
                edge["depends_on_id"].as_str().map_or_else(|| meaning.clone(), |on| format!("{on} {word}"))
            }
            // Some tools number their comments from one in every clone, so an id does not identify a comment. An edited
            // comment counts as a new one, so that neither of two edits is lost.
            "comments" => {
                time = value()["created_at"].as_str().and_then(parse_time);
                meaning.clone()
            }
            _ => meaning.clone(),
        };
        Item { key, raw: raw.to_owned(), meaning, time }
    }

    fn rank(&self) -> (Option<Timestamp>, &str) {
        (self.time, &self.key)
    }
}

/// Returns the items of a list; a missing list is empty. None if the value is not a list.
pub(super) fn items(field: &str, raw: Option<&str>) -> Option<Vec<Item>> {
    let Some(raw) = raw.filter(|raw| !["null", "\"\""].contains(raw)) else { return Some(Vec::new()) };
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.iter().map(|item| Item::read(field, item.get())).collect())
}

/// Returns the common ancestor of lists: each item as in the newest version that agrees with the copy, else as in the oldest.
/// The versions are sorted, the oldest first.
pub(super) fn ancestor<'a>(versions: &'a [Vec<Item>], copy: &'a [Item]) -> Vec<Item> {
    let mut seen: HashSet<&str> = HashSet::new();
    let keys: Vec<&str> =
        versions.iter().flatten().map(|item| item.key.as_str()).filter(|key| seen.insert(key)).collect();
    // Of items with the same key, the first counts.
    let by_key =
        |items: &'a [Item]| items.iter().rev().map(|item| (item.key.as_str(), item)).collect::<HashMap<_, _>>();
    let (versions, copy) = (versions.iter().map(|items| by_key(items)).collect::<Vec<_>>(), by_key(copy));
    let of_key = |key: &str| {
        let meaning = |item: Option<&'a Item>| item.map(|item| item.meaning.as_str());
        let known: Vec<Option<&'a Item>> = versions.iter().map(|items| items.get(key).copied()).collect();
        let found = meaning(copy.get(key).copied());
        let agreeing = known.iter().rev().find(|item| meaning(**item) == found);
        agreeing.or(known.first()).copied().flatten().cloned()
    };
    keys.into_iter().filter_map(of_key).collect()
}

/// Merges sets three-way: items that a side added are in, items that a side removed are not.
pub(super) fn union(base: Option<&[Item]>, left: &[Item], right: &[Item]) -> HashMap<String, Item> {
    let by_key = |items: &[Item]| {
        let mut known: HashMap<String, Item> = HashMap::new();
        for item in items {
            let place = known.entry(item.key.clone()).or_insert_with(|| item.clone());
            if (&item.meaning, &item.raw) > (&place.meaning, &place.raw) {
                *place = item.clone();
            }
        }
        known
    };
    let base = base.map(by_key).unwrap_or_default();
    let (mut left, right) = (by_key(left), by_key(right));
    let mut merged = HashMap::new();
    for (key, right) in right {
        match (base.get(&key), left.remove(&key)) {
            (Some(_), None) => {}
            (None, None) => drop(merged.insert(key, right)),
            (base, Some(left)) => drop(merged.insert(key, choose(base, left, right))),
        }
    }
    merged.extend(left.into_iter().filter(|(key, _)| !base.contains_key(key)));
    merged
}

/// Chooses between two items with the same key: the changed one, else the greater.
pub(super) fn choose(base: Option<&Item>, left: Item, right: Item) -> Item {
    let base_meaning = base.map(|base| &base.meaning);
    if left.meaning == right.meaning {
        let base = base.filter(|base| base.meaning == left.meaning).map(|base| &base.raw);
        let raw = spelling(base, Some(left.raw.clone()), Some(right.raw)).unwrap_or_default();
        return Item { raw, ..left };
    }
    if base_meaning == Some(&left.meaning) {
        return right;
    }
    if base_meaning == Some(&right.meaning) || left.meaning > right.meaning { left } else { right }
}

/// Sorts the kept items: existing ones in their order, then new ones by rank.
pub(super) fn arrange(
    base: Option<&[Item]>,
    left: &[Item],
    right: &[Item],
    mut kept: HashMap<String, Item>,
) -> Vec<Item> {
    let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
    let (base, left, right) = (base.map(keys), keys(left), keys(right));
    let mut order: Vec<Item> =
        skeleton(base.as_deref(), &left, &right).iter().filter_map(|key| kept.remove(key)).collect();
    let mut new: Vec<Item> = kept.into_values().collect();
    new.sort_by(|one, other| one.rank().cmp(&other.rank()));
    order.extend(new);
    order
}

/// Returns the spelling of a list: that of a side that has exactly these items, else a new one.
pub(super) fn spelled(
    items: &[Item],
    base: Option<&str>,
    left: (Option<&str>, &[Item]),
    right: (Option<&str>, &[Item]),
) -> Option<String> {
    let is_same =
        |side: &[Item]| side.len() == items.len() && side.iter().zip(items).all(|(one, other)| one.raw == other.raw);
    let as_in = |(raw, side): (Option<&str>, &[Item])| is_same(side).then(|| raw.map(str::to_owned));
    if let Some(found) = spelling(Some(&base.map(str::to_owned)), as_in(left), as_in(right)) {
        return found;
    }
    let items: Vec<&str> = items.iter().map(|item| item.raw.as_str()).collect();
    (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
}
