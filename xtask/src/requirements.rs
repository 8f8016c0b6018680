//! Checks that docs/requirements.md names the tests that prove each requirement.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{find_files, read};
use crate::{FULL_SIZES, FULL_SIZES_PART, Result, bench};

const DOCUMENT: &str = "docs/requirements.md";
/// The page that names a test for each promise.
const GUARANTEES: &str = "docs/guarantees.md";

/// The script of CI, and its command. It leaves out the bars, for which a machine must be quiet.
const CI: (&str, &str) = (".ci/run", "cargo xtask ci --without bars");

/// The letter of every group of requirements, and the number of its last one. The first one is 1.
const GROUPS: [(char, u32); 8] =
    [('A', 21), ('B', 30), ('C', 12), ('F', 60), ('G', 27), ('I', 42), ('P', 34), ('T', 40)];

/// The names that a row may refer to.
#[derive(Default)]
struct Evidence {
    tests: BTreeSet<String>,
    /// The parts of the torture, which `cargo xtask ci` runs.
    torture: BTreeSet<String>,
    /// The benchmarks, whose bars `cargo xtask ci` enforces.
    benches: BTreeSet<String>,
}

/// One requirement of the document.
#[derive(Debug, Default)]
struct Row<'a> {
    tests: Vec<&'a str>,
    torture: Vec<&'a str>,
    benches: Vec<&'a str>,
    /// The reason why no test proves it, or a part of it.
    open: Option<&'a str>,
}

impl Row<'_> {
    /// Returns whether something proves it, or a part of it.
    fn has_evidence(&self) -> bool {
        !self.tests.is_empty() || !self.torture.is_empty() || !self.benches.is_empty()
    }
}

pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result {
    let document = read(&root.join(DOCUMENT))?;
    let (script, whole) = CI;
    if read(&root.join(script))?.trim() != whole {
        complaints.push(format!("{script} is not \"{whole}\": other tests that {DOCUMENT} names would never run"));
    }
    let mut files = Vec::new();
    for dir in ["crates", "xtask"] {
        find_files(&root.join(dir), "rs", &mut files)?;
    }
    let mut evidence = Evidence::default();
    evidence.benches.extend(bench::names().into_iter().map(str::to_owned));
    for file in &files {
        let text = read(file)?;
        evidence.tests.extend(tests_in(&text));
        if file.ends_with("examples/torture/main.rs") {
            evidence.torture.extend(torture_parts_in(&text));
        }
    }
    evidence.torture.insert(FULL_SIZES_PART.to_owned());
    let (rows, mut wrong) = parse(&document);
    let missing = FULL_SIZES.iter().filter(|(test, ..)| !evidence.tests.contains(*test));
    wrong.extend(missing.map(|(test, ..)| format!("the test {test}, which has a full size, does not exist")));
    wrong.extend(compare(&rows, &evidence));
    complaints.extend(unknown_tests(&read(&root.join(GUARANTEES))?, &evidence));
    complaints.extend(wrong.into_iter().map(|complaint| format!("{DOCUMENT}: {complaint}")));
    let open: Vec<&Row> = rows.values().filter(|row| row.open.is_some()).collect();
    let partly = open.iter().filter(|row| row.has_evidence()).count();
    println!("{DOCUMENT} has {} rows, {} of them open: {partly} in part", rows.len(), open.len());
    Ok(())
}

/// Returns complaints about the tests that the page of guarantees names and that do not exist, and about rows without a test.
fn unknown_tests(page: &str, evidence: &Evidence) -> Vec<String> {
    let mut complaints = Vec::new();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "));
    for (promise, tests) in rows.filter(|(_, tests)| *tests != "tests") {
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            complaints.push(format!("{GUARANTEES}: {promise:?} names no test"));
        }
        for name in names {
            let is_known = match name.strip_prefix("torture: ") {
                Some(part) => evidence.torture.contains(part),
                None => evidence.tests.contains(name),
            };
            if !is_known {
                complaints.push(format!("{GUARANTEES} names the test {name}, which does not exist"));
            }
        }
    }
    complaints
}

/// Reads the rows of all tables, by their codes. Returns complaints about malformed rows too.
fn parse(document: &str) -> (BTreeMap<&str, Row<'_>>, Vec<String>) {
    let (mut rows, mut complaints) = (BTreeMap::new(), Vec::new());
    for line in document.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let code = cells[0];
        if !is_code(&code.to_ascii_lowercase()) {
            continue;
        }
        let [_, _, proof] = cells[..] else {
            complaints.push(format!("the row of {code} does not have three cells"));
            continue;
        };
        let mut row = Row::default();
        let (names, open) = proof.split_once("open: ").map_or((proof, None), |(names, why)| (names, Some(why.trim())));
        row.open = open;
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
                Some(name) => match name.split_once(": ") {
                    Some(("torture", part)) => row.torture.push(part),
                    Some(("bench", name)) => row.benches.push(name),
                    _ => row.tests.push(name),
                },
                None => complaints.push(format!("{code}: {name:?} is neither a name in backquotes nor open")),
            }
        }
        if rows.insert(code, row).is_some() {
            complaints.push(format!("{code} has two rows"));
        }
    }
    (rows, complaints)
}

/// Compares the rows with the names that exist.
fn compare(rows: &BTreeMap<&str, Row>, evidence: &Evidence) -> Vec<String> {
    let known = codes();
    let mut complaints: Vec<String> = Vec::new();
    for code in known.iter().filter(|code| !rows.contains_key(code.as_str())) {
        complaints.push(format!("{code} has no row"));
    }
    for (code, row) in rows {
        if !known.contains(*code) {
            complaints.push(format!("{code} is not a known code"));
        }
        if !row.has_evidence() && row.open.is_none() {
            complaints.push(format!("{code} has no test; name one, or write open: and the reason"));
        }
        if row.open.is_some_and(str::is_empty) {
            complaints.push(format!("{code} is open without a reason"));
        }
        for name in row.tests.iter().filter(|name| !evidence.tests.contains(**name)) {
            complaints.push(format!("{code} names the test {name}, which does not exist"));
        }
        for part in row.torture.iter().filter(|part| !evidence.torture.contains(**part)) {
            complaints.push(format!("{code} names the torture part {part}, which does not exist"));
        }
        for name in row.benches.iter().filter(|name| !evidence.benches.contains(**name)) {
            complaints.push(format!("{code} names the benchmark {name}, whose bars are not enforced"));
        }
    }
    for test in &evidence.tests {
        for code in codes_of(test) {
            match rows.get(code.as_str()) {
                _ if !known.contains(&code) => {
                    complaints.push(format!("the test {test} names {code}, which is not a known code"));
                }
                Some(row) if !row.tests.contains(&test.as_str()) => {
                    complaints.push(format!("{code} does not list the test {test}, which is named after it"));
                }
                _ => {}
            }
        }
    }
    complaints
}

/// Returns every code.
fn codes() -> BTreeSet<String> {
    GROUPS.iter().flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}"))).collect()
}

/// Returns the codes that the name of a test starts with: `p1_p2_jobs_run` has P1 and P2.
fn codes_of(test: &str) -> Vec<String> {
    test.split('_').take_while(|word| is_code(word)).map(str::to_ascii_uppercase).collect()
}

/// Returns whether a word is a lower-case letter and digits.
fn is_code(word: &str) -> bool {
    let digits = word.strip_prefix(|letter: char| letter.is_ascii_lowercase()).unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit())
}

/// Returns the names of the tests in a source file, and of the cases in the list of a conformance suite.
fn tests_in(source: &str) -> Vec<String> {
    let (mut tests, mut is_test, mut is_suite) = (Vec::new(), false, false);
    for line in source.lines().map(str::trim) {
        if is_suite {
            is_suite = line != "}";
            let case = line.strip_suffix(',').and_then(|path| path.split_once("::"));
            tests.extend(case.map(|(_, case)| case.to_owned()));
        }
        is_suite |= line == "conformance! {";
        is_test |= line == "#[test]";
        if is_test
            && let Some((_, rest)) = line.split_once("fn ")
            && !line.starts_with("//")
        {
            is_test = false;
            let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
            // A macro has a variable instead of a name.
            tests.extend((end > 0).then(|| rest[..end].to_owned()));
        }
    }
    tests
}

/// Returns the names of the torture's parts.
fn torture_parts_in(source: &str) -> Vec<String> {
    let names = source.split("Part { name: \"").skip(1);
    names.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document in which each code has a row with the test `works`, except for the given ones.
    fn document(other: &[&str]) -> String {
        let is_other = |code: &String| other.iter().any(|row| row.starts_with(&format!("| {code} |")));
        let mut rows = vec!["| code | requirement | tests |".to_owned(), "|---|---|---|".to_owned()];
        rows.extend(codes().iter().filter(|code| !is_other(code)).map(|code| format!("| {code} | It. | `works` |")));
        rows.extend(other.iter().filter(|row| row.matches('|').count() > 2).map(|row| (*row).to_owned()));
        rows.join("\n")
    }

    fn complaints(other: &[&str], more_tests: &[&str]) -> Vec<String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let evidence = Evidence {
            tests: names(&[&["works"], more_tests].concat()),
            torture: names(&["storm"]),
            benches: names(&["store"]),
        };
        let document = document(other);
        let (rows, mut complaints) = parse(&document);
        complaints.extend(compare(&rows, &evidence));
        complaints
    }

    #[test]
    fn a_complete_document_is_accepted() {
        assert_eq!(complaints(&[], &[]), [""; 0]);
        let rows =
            ["| A1 | It. | `a1_b2_x`, `works`, `torture: storm` |", "| B2 | It. | `a1_b2_x`, open: half, no more |"];
        assert_eq!(complaints(&rows, &["a1_b2_x"]), [""; 0]);
        assert_eq!(complaints(&["| F60 | It. | open: not built |"], &[]), [""; 0]);
    }

    #[test]
    fn every_defect_of_the_document_is_reported() {
        for (row, more_tests, expected) in [
            ("| A1 |", &[][..], "A1 has no row"),
            ("| A1 | It. |  |", &[], "A1 has no test; name one, or write open: and the reason"),
            ("| A1 | It. | open:  |", &[], "A1 is open without a reason"),
            ("| A1 | It. | `gone` |", &[], "A1 names the test gone, which does not exist"),
            ("| A1 | It. | `torture: calm` |", &[], "A1 names the torture part calm, which does not exist"),
            ("| A1 | It. | works |", &[], "A1: \"works\" is neither a name in backquotes nor open"),
            ("| A1 | It. | or | `works` |", &[], "the row of A1 does not have three cells"),
            ("| A22 | It. | `works` |", &[], "A22 is not a known code"),
            ("", &["f61_x"], "the test f61_x names F61, which is not a known code"),
            ("", &["p1_z9_x"], "the test p1_z9_x names Z9, which is not a known code"),
            ("", &["t13_i5_x"], "I5 does not list the test t13_i5_x, which is named after it"),
        ] {
            let found = complaints(&[row], more_tests);
            assert!(found.iter().any(|complaint| complaint == expected), "{row} {more_tests:?}: {found:?}");
        }
        let twice = ["| A1 | It. | `works` |", "| A1 | It. | `works` |"];
        assert_eq!(complaints(&twice, &[]), ["A1 has two rows"]);
    }

    #[test]
    fn g18_g22_g27_the_limits_of_sessions_rows_file_systems_containers_and_windows_are_documented() {
        let limits = include_str!("../../docs/limits.md");
        for (topic, facts) in [
            ("**One machine, local disk.**", &["NFS", "refuses a store"][..]),
            ("**Many processes.**", &["150 processes"]),
            ("**Large stores.**", &["million rows", "way db gc"]),
            ("**Containers.**", &["same kernel", "virtual machine"]),
            ("**Windows**", &["not supported"]),
        ] {
            let part = limits.split("\n\n").find(|part| part.starts_with(topic)).unwrap_or_default();
            assert!(facts.iter().all(|fact| part.contains(fact)), "{topic} {part:?}");
        }
    }

    #[test]
    fn a_guarantee_names_a_test_that_exists() {
        let evidence =
            Evidence { tests: ["works".to_owned()].into(), torture: ["storm".to_owned()].into(), benches: [].into() };
        let page = "| promise | tests |\n|---|---|\n| A. | `works`, `torture: storm` |\n";
        assert_eq!(unknown_tests(page, &evidence), [""; 0]);
        let page = "| A. | `gone`, `torture: calm` |\n| B. | none |\n";
        assert_eq!(
            unknown_tests(page, &evidence),
            [
                "docs/guarantees.md names the test gone, which does not exist",
                "docs/guarantees.md names the test torture: calm, which does not exist",
                "docs/guarantees.md: \"B.\" names no test",
            ]
        );
    }

    #[test]
    fn codes_are_at_the_start_of_a_name() {
        assert_eq!(codes_of("p1_p22_a_job"), ["P1", "P22"]);
        assert_eq!(codes_of("a6_150_processes"), ["A6"]);
        assert_eq!(codes_of("a_store"), [""; 0]);
        assert_eq!(codes_of("twenty_p1"), [""; 0]);
    }

    #[test]
    fn tests_are_found_in_functions_macros_and_suites() {
        let source = "#[test]\nfn one() {}\nfn not() {}\n    #[test]\n    /// Calls fn two.\n    #[cfg(unix)]\n    fn two(x in any()) {\n\
                      #[test]\nfn $case() {\nconformance! {\n    all: [\n        verbs::three,\n    ]\n}\nother::four,\n";
        assert_eq!(tests_in(source), ["one", "two", "three"]);
        assert_eq!(torture_parts_in("[Part { name: \"a\", x }, Part { name: \"b\" }]"), ["a", "b"]);
    }
}
