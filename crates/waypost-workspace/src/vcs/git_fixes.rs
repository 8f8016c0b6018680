//! Versions of git with the fixes of vulnerabilities that a cloned repository can use.

/// The first release of each series with all fixes up to those of July 2025: programs that a clone runs through submodules and
/// links (CVE-2024-32002, CVE-2025-48384), through local clones (CVE-2024-32004, CVE-2024-32465), and files that a server
/// writes (CVE-2025-48385). Later series have them from the start.
const FIXED: [(u32, u32, u32); 8] =
    [(2, 43, 7), (2, 44, 4), (2, 45, 4), (2, 46, 4), (2, 47, 3), (2, 48, 2), (2, 49, 1), (2, 50, 1)];

/// Returns whether a version of git, as it prints it, has the fixes. None if it cannot be read.
///
/// Distributions add fixes to older versions without changing these numbers.
pub fn has_known_fixes(version: &str) -> Option<bool> {
    let mut numbers = version.split(['.', ' ', '-']).map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let found = (major, minor, numbers.next().unwrap_or(0));
    match FIXED.iter().find(|(of_major, of_minor, _)| (*of_major, *of_minor) == (major, minor)) {
        Some(fixed) => Some(found >= *fixed),
        None => FIXED.last().map(|last| found > *last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_git_without_the_fixes_are_known() {
        for (version, expected) in [
            ("2.47.3", Some(true)),
            ("2.47.2", Some(false)),
            ("2.50.0", Some(false)),
            ("2.50.1", Some(true)),
            ("2.51.0", Some(true)),
            ("3.0.0", Some(true)),
            ("2.39.5", Some(false)),
            ("1.8.3.1", Some(false)),
            ("2.50.1 (Apple Git-155)", Some(true)),
            ("2.46.0-rc1", Some(false)),
            ("2.53.0.windows.1", Some(true)),
            ("unknown", None),
        ] {
            assert_eq!(has_known_fixes(version), expected, "{version}");
        }
    }
}
