//! Merges several orders of overlapping items.
//!
//! Inside a record only an undisputed order counts, and all other items are sorted by their own rank: a compromise
//! between orders would make the result depend on the order of merges.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Returns every item of the lists once. The result keeps the order of each list; where the lists leave it open or
/// contradict each other, the rank decides.
pub(super) fn interleave<K, R>(lists: &[Vec<K>], rank: impl Fn(&K) -> R) -> Vec<K>
where
    K: Clone + Eq + Hash,
    R: Ord,
{
    let mut keys: Vec<&K> = Vec::new();
    let mut numbers: HashMap<&K, usize> = HashMap::new();
    for key in lists.iter().flatten() {
        numbers.entry(key).or_insert_with(|| {
            keys.push(key);
            keys.len() - 1
        });
    }
    let mut following: Vec<Vec<usize>> = vec![Vec::new(); keys.len()];
    let mut awaited: Vec<usize> = vec![0; keys.len()];
    for pair in lists.iter().flat_map(|list| list.windows(2)) {
        let (before, after) = (numbers[&pair[0]], numbers[&pair[1]]);
        if before != after && !following[before].contains(&after) {
            following[before].push(after);
            awaited[after] += 1;
        }
    }
    // By rank and not by number: the order of the lists must not matter.
    let ranked = |number: usize| (rank(keys[number]), number);
    let mut waiting: BTreeSet<(R, usize)> = (0..keys.len()).map(ranked).collect();
    let mut free: BTreeSet<(R, usize)> = (0..keys.len()).filter(|number| awaited[*number] == 0).map(ranked).collect();
    let mut order = Vec::with_capacity(keys.len());
    while let Some((_, next)) = free.pop_first().or_else(|| waiting.first().map(|(_, number)| ranked(*number))) {
        waiting.remove(&ranked(next));
        order.push(keys[next].clone());
        for after in std::mem::take(&mut following[next]) {
            awaited[after] = awaited[after].saturating_sub(1);
            if awaited[after] == 0 && waiting.contains(&ranked(after)) {
                free.insert(ranked(after));
            }
        }
    }
    order
}

/// Chooses the initial order: that of the side that changed it, else that of the base. Items that are not in it have no
/// place yet.
pub(super) fn skeleton<'a, K: Eq>(base: Option<&'a [K]>, left: &'a [K], right: &'a [K]) -> &'a [K] {
    if left == right || base == Some(right) {
        return left;
    }
    if base == Some(left) {
        return right;
    }
    base.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(lists: &[&str], expected: &str) {
        let mut lists: Vec<Vec<char>> = lists.iter().map(|list| list.chars().collect()).collect();
        for _ in 0..2 {
            assert_eq!(interleave(&lists, |key| *key).into_iter().collect::<String>(), expected);
            lists.reverse();
        }
    }

    #[test]
    fn the_order_of_each_list_is_kept_and_the_rank_decides_the_rest() {
        check(&["ac", "bd"], "abcd");
        check(&["zx", "za"], "zax");
        check(&["cb", "c"], "cb");
        check(&["", "b"], "b");
        check(&["xm", "mz", "a"], "axmz");
    }

    #[test]
    fn a_contradiction_is_decided_by_rank() {
        check(&["ab", "ba"], "ab");
        check(&["xab", "xba", "bz"], "xabz");
    }

    proptest! {
        #[test]
        fn every_item_appears_once(lists in proptest::collection::vec(proptest::collection::vec(0..12_u8, 0..8), 0..4)) {
            let order = interleave(&lists, |key| *key);
            let all: BTreeSet<u8> = lists.iter().flatten().copied().collect();
            prop_assert_eq!(order.len(), all.len());
            prop_assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), all);
        }

        #[test]
        fn sorted_lists_stay_sorted(one in proptest::collection::btree_set(0..99_u8, 0..20), other in proptest::collection::btree_set(0..99_u8, 0..20)) {
            let lists = [one.iter().copied().collect(), other.iter().copied().collect()];
            let all: Vec<u8> = one.union(&other).copied().collect();
            prop_assert_eq!(interleave(&lists, |key| *key), all);
        }
    }
}
