//! "Did you mean": the candidate closest to a mistyped word.

/// Returns the candidate nearest to `word`, if one is near enough for a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the word may be wrong; a short word may have two errors, as in `scpoe`.
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_has_a_nearest_candidate_and_an_unrelated_one_has_none() {
        let known = ["scope", "prefix", "ledger.home"];
        assert_eq!(nearest("scpoe", known), Some("scope"));
        assert_eq!(nearest("ledger.hmoe", known), Some("ledger.home"));
        assert_eq!(nearest("prefixes", known), Some("prefix"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
    }
}
