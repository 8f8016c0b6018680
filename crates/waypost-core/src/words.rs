//! Counts in words.

use std::fmt::Display;

/// Returns a number with its noun: `1 task`, `2 tasks`, `0 repositories`.
pub fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    if number == "1" { format!("1 {noun}") } else { format!("{number} {}", plural(noun)) }
}

/// Returns how often something happened: `once`, `3 times`.
pub fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { count(number, "time") }
}

/// Returns the plural of a regular English noun.
pub fn plural(noun: &str) -> String {
    let is_sibilant = ["s", "x", "z", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if is_sibilant => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_other_numbers_are_plural() {
        assert_eq!([0, 1, 2].map(|number| count(number, "task")), ["0 tasks", "1 task", "2 tasks"]);
        assert_eq!(
            [1_usize, 21].map(|number| count(number, "unread message")),
            ["1 unread message", "21 unread messages"]
        );
    }

    #[test]
    fn what_happened_one_time_happened_once() {
        assert_eq!([1, 2].map(times), ["once", "2 times"]);
    }

    #[test]
    fn plurals_follow_the_ending_of_the_noun() {
        for (noun, expected) in
            [("repository", "repositories"), ("key", "keys"), ("branch", "branches"), ("index", "indexes")]
        {
            assert_eq!(plural(noun), expected);
        }
    }
}
