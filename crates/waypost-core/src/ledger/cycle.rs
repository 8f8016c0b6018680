//! Waiting in a circle: it is refused, and shown.

use std::collections::BTreeMap;

/// Returns the circle that would close if `waiting` waited for `blocker`: from `waiting` back to itself.
///
/// `blockers` answers what an issue waits for already. It is asked at most once about each.
pub fn closed_by(waiting: &str, blocker: &str, blockers: impl Fn(&str) -> Vec<String>) -> Option<Vec<String>> {
    if waiting == blocker {
        return Some(vec![waiting.to_owned(), waiting.to_owned()]);
    }
    // Breadth first, so that the circle shown is a shortest one.
    let mut reached_from: BTreeMap<String, String> = BTreeMap::new();
    let mut queue = vec![blocker.to_owned()];
    let mut next = 0;
    while next < queue.len() {
        let current = queue[next].clone();
        next += 1;
        for further in blockers(&current) {
            if further == waiting {
                let mut circle = vec![waiting.to_owned()];
                let mut back = vec![current.clone()];
                while let Some(before) = reached_from.get(&back[back.len() - 1]) {
                    back.push(before.clone());
                }
                circle.extend(back.into_iter().rev());
                circle.push(waiting.to_owned());
                return Some(circle);
            }
            if further != blocker && !reached_from.contains_key(&further) {
                reached_from.insert(further.clone(), current.clone());
                queue.push(further);
            }
        }
    }
    None
}

/// How many issues of a circle are shown from its beginning, and from its end.
const SHOWN: usize = 10;

/// Returns a circle in words. Of a long one the middle is left out.
pub fn shown<S: AsRef<str>>(circle: &[S]) -> String {
    let joined = |ids: &[S]| ids.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(" → ");
    match circle.len().checked_sub(2 * SHOWN).filter(|left_out| *left_out > 1) {
        Some(left_out) => {
            let (first, last) = (joined(&circle[..SHOWN]), joined(&circle[circle.len() - SHOWN..]));
            format!("{first} → ({left_out} more) → {last}")
        }
        None => joined(circle),
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
    fn circles_are_found_and_shown_in_order() {
        let edges = [("b", "c"), ("c", "d"), ("d", "e"), ("c", "a")];
        assert_eq!(closed_by("a", "b", among(&edges)).unwrap(), ["a", "b", "c", "a"]);
        assert_eq!(closed_by("a", "d", among(&edges)), None);
        assert_eq!(closed_by("a", "a", among(&[])).unwrap(), ["a", "a"]);
        // A circle that is there already, and that the new edge is not part of, does not make it hang.
        assert_eq!(closed_by("x", "p", among(&[("p", "q"), ("q", "p")])), None);
    }

    #[test]
    fn the_middle_of_a_long_circle_is_left_out() {
        let circle = |length: usize| (0..length).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&circle(3)), "0 → 1 → 2");
        assert!(!shown(&circle(21)).contains("more"));
        let long = shown(&circle(50_000));
        assert!(long.contains(" → 9 → (49980 more) → 49990 → "), "{long}");
    }

    proptest! {
        #[test]
        fn edges_that_pass_keep_the_graph_without_circles(wanted in proptest::collection::vec((0_u8..8, 0_u8..8), 0..40)) {
            let name = |number: u8| number.to_string();
            let mut edges: Vec<(String, String)> = Vec::new();
            for (waiting, blocker) in wanted {
                let (waiting, blocker) = (name(waiting), name(blocker));
                let borrowed: Vec<(&str, &str)> = edges.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                if let Some(circle) = closed_by(&waiting, &blocker, among(&borrowed)) {
                    // Every step of it but the first, which is the new one, is an edge that exists.
                    for step in circle.windows(2).skip(1) {
                        prop_assert!(edges.contains(&(step[0].clone(), step[1].clone())));
                    }
                } else {
                    edges.push((waiting, blocker));
                }
            }
            // Taking away what waits for nothing, again and again, takes everything away.
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
