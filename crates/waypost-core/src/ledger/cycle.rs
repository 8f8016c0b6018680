//! Dependency cycles: found before they are made, and described for the error message.

use std::collections::BTreeMap;

/// Returns the cycle that a dependency of `waiting` on `blocker` would close: from `waiting` back to itself.
///
/// `blockers` returns the issues that an issue already waits for. It is called at most once per issue.
pub fn closed_by(waiting: &str, blocker: &str, blockers: impl Fn(&str) -> Vec<String>) -> Option<Vec<String>> {
    if waiting == blocker {
        return Some(vec![waiting.to_owned(), waiting.to_owned()]);
    }
    // Breadth first, so that the returned cycle is a shortest one.
    let mut reached_from: BTreeMap<String, String> = BTreeMap::new();
    let mut queue = vec![blocker.to_owned()];
    let mut next = 0;
    while next < queue.len() {
        let current = queue[next].clone();
        next += 1;
        for further in blockers(&current) {
            if further == waiting {
                let mut cycle = vec![waiting.to_owned()];
                let mut back = vec![current.clone()];
                while let Some(before) = reached_from.get(&back[back.len() - 1]) {
                    back.push(before.clone());
                }
                cycle.extend(back.into_iter().rev());
                cycle.push(waiting.to_owned());
                return Some(cycle);
            }
            if further != blocker && !reached_from.contains_key(&further) {
                reached_from.insert(further.clone(), current.clone());
                queue.push(further);
            }
        }
    }
    None
}

/// Number of issues that a description shows from each end of a long cycle.
const MAX_SHOWN_PER_END: usize = 10;

/// Describes a cycle as `a → b → a`. The middle of a long cycle is left out.
pub fn describe<S: AsRef<str>>(cycle: &[S]) -> String {
    let joined = |ids: &[S]| ids.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(" → ");
    match cycle.len().checked_sub(2 * MAX_SHOWN_PER_END).filter(|left_out| *left_out > 1) {
        Some(left_out) => {
            let (first, last) =
                (joined(&cycle[..MAX_SHOWN_PER_END]), joined(&cycle[cycle.len() - MAX_SHOWN_PER_END..]));
            format!("{first} → ({left_out} more) → {last}")
        }
        None => joined(cycle),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn among(edges: &[(&str, &str)]) -> impl Fn(&str) -> Vec<String> {
        move |id| edges.iter().filter(|(waiting, _)| *waiting == id).map(|(_, blocker)| (*blocker).to_owned()).collect()
    }

    #[test]
    fn a_cycle_is_found_and_listed_in_order() {
        let edges = [("b", "c"), ("c", "d"), ("d", "e"), ("c", "a")];
        assert_eq!(closed_by("a", "b", among(&edges)).unwrap(), ["a", "b", "c", "a"]);
        assert_eq!(closed_by("a", "d", among(&edges)), None);
        assert_eq!(closed_by("a", "a", among(&[])).unwrap(), ["a", "a"]);
        // An existing cycle that the new edge is not part of does not make the search hang.
        assert_eq!(closed_by("x", "p", among(&[("p", "q"), ("q", "p")])), None);
    }

    #[test]
    fn the_middle_of_a_long_cycle_is_left_out() {
        let cycle = |length: usize| (0..length).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(describe(&cycle(3)), "0 → 1 → 2");
        assert!(!describe(&cycle(21)).contains("more"));
        let long = describe(&cycle(50_000));
        assert!(long.contains(" → 9 → (49980 more) → 49990 → "), "{long}");
    }

    proptest! {
        #[test]
        fn accepted_edges_keep_the_graph_acyclic(proposed in proptest::collection::vec((0_u8..8, 0_u8..8), 0..40)) {
            let name = |number: u8| number.to_string();
            let mut edges: Vec<(String, String)> = Vec::new();
            for (waiting, blocker) in proposed {
                let (waiting, blocker) = (name(waiting), name(blocker));
                let borrowed: Vec<(&str, &str)> = edges.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                if let Some(cycle) = closed_by(&waiting, &blocker, among(&borrowed)) {
                    // Every step but the first, which is the new edge, is an existing edge.
                    for step in cycle.windows(2).skip(1) {
                        prop_assert!(edges.contains(&(step[0].clone(), step[1].clone())));
                    }
                } else {
                    edges.push((waiting, blocker));
                }
            }
            // A graph is acyclic if removing edges to issues that wait for nothing, repeatedly, removes every edge.
            let mut left = edges;
            loop {
                let before = left.len();
                let waiting: Vec<String> = left.iter().map(|(waiting, _)| waiting.clone()).collect();
                left.retain(|(_, blocker)| waiting.contains(blocker));
                if left.len() == before {
                    break;
                }
            }
            prop_assert!(left.is_empty());
        }
    }
}
