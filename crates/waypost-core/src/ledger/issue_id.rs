//! Issue ids: unique in all clones without coordination; people may type a unique prefix.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::{Error, Result};
use crate::id::Entropy;
use crate::time::Timestamp;

/// Number of characters after the prefix; 36^8 is about 3 * 10^12.
const RANDOM_CHARS: usize = 8;

/// Generates an id from the title, the description, the time and four random bytes.
///
/// The caller generates another one if the id is in use.
pub fn generate(prefix: &str, title: &str, description: &str, now: Timestamp, entropy: &mut dyn Entropy) -> String {
    let mut random = [0; 4];
    entropy.fill(&mut random);
    let mut hasher = DefaultHasher::new();
    (title, description, now.as_millis(), random).hash(&mut hasher);
    let mut rest = hasher.finish();
    let mut id = prefix.to_owned();
    id.push('-');
    for _ in 0..RANDOM_CHARS {
        let digit = u32::try_from(rest % 36).unwrap_or_default();
        id.push(char::from_digit(digit, 36).unwrap_or('0'));
        rest /= 36;
    }
    id
}

/// Maximum length of a prefix.
const MAX_PREFIX_BYTES: usize = 32;

/// Returns the prefix of an id: `way` of `way-1x2y3z4w`, `bd` of `bd-a3f8.1`. None if the id has another form.
pub fn prefix_of(id: &str) -> Option<&str> {
    let (prefix, rest) = id.rsplit_once('-')?;
    let is_of = |text: &str, others: &str| {
        !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || others.contains(char))
    };
    let starts_with_letter = prefix.starts_with(|first: char| first.is_ascii_alphabetic());
    let fits = prefix.len() <= MAX_PREFIX_BYTES && starts_with_letter && is_of(prefix, "-_") && is_of(rest, ".");
    fits.then_some(prefix)
}

/// Returns the prefix that most of these ids have; of several, the first in the alphabet.
pub fn common_prefix<'a>(ids: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for prefix in ids.into_iter().filter_map(prefix_of) {
        *counts.entry(prefix).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(prefix, count)| (*count, Reverse(*prefix))).map(|(prefix, _)| prefix)
}

/// Resolves an id or a unique prefix of an id.
pub fn resolve<'a>(ids: impl IntoIterator<Item = &'a str>, input: &str) -> Result<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for id in ids {
        if id == input {
            return Ok(id);
        }
        if !input.is_empty() && id.starts_with(input) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Error::not_found(format!("there is no issue {input:?}"))),
        many => {
            let mut error = Error::ambiguous(format!("{input:?} is a prefix of {} issue ids", many.len()));
            for id in many.iter().take(10) {
                error = error.hint(*id);
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::error::Kind;

    struct Counter(u32);

    impl Entropy for Counter {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0 += 1;
            bytes.copy_from_slice(&self.0.to_le_bytes()[..bytes.len()]);
        }
    }

    #[test]
    fn b12_a_million_ids_of_one_title_at_one_moment_are_different() {
        let mut entropy = Counter(0);
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut seen = HashSet::new();
        // The ids are the same in every run. About one pair in 3 * 10^12 collides, and there are 5 * 10^11 pairs.
        for _ in 0..1_000_000 {
            let id = generate("way", "same", "same", now, &mut entropy);
            assert!(!seen.contains(&id), "{id}");
            seen.insert(id);
        }
        assert!(seen.iter().all(|id| id.len() == 12 && id.starts_with("way-")));
    }

    #[test]
    fn most_ids_of_a_ledger_decide_its_prefix() {
        for (id, prefix) in [
            ("way-1x2y3z4w", Some("way")),
            ("bd-a3f8.1.2", Some("bd")),
            ("my-project-12", Some("my-project")),
            ("BV_2-a", Some("BV_2")),
            ("12", None),
            ("1-2", None),
            ("-x", None),
            ("x-", None),
            ("a b-1", None),
        ] {
            assert_eq!(prefix_of(id), prefix, "{id}");
        }
        assert_eq!(prefix_of(&format!("{}-1", "x".repeat(33))), None);
        assert_eq!(common_prefix(["a-1", "b-1", "b-2", "7"]), Some("b"));
        assert_eq!(common_prefix(["b-1", "a-1"]), Some("a"), "the order of the records does not matter");
        assert_eq!(common_prefix(["7", "x"]), None);
    }

    #[test]
    fn a_unique_prefix_resolves_and_a_part_from_the_middle_does_not() {
        let ids = ["bd-a3f8", "bd-a3f8.1", "bd-b000", "x-1"];
        assert_eq!(resolve(ids, "bd-b").unwrap(), "bd-b000");
        assert_eq!(resolve(ids, "bd-a3f8").unwrap(), "bd-a3f8", "an exact match wins over longer ids");
        assert_eq!(resolve(ids, "bd-a").unwrap_err().kind(), Kind::Ambiguous);
        assert_eq!(resolve(ids, "bd-a").unwrap_err().hints(), ["bd-a3f8", "bd-a3f8.1"]);
        for bad in ["a3f8", "", "y", "bd-a3f8.12"] {
            assert_eq!(resolve(ids, bad).unwrap_err().kind(), Kind::NotFound, "{bad:?}");
        }
    }
}
