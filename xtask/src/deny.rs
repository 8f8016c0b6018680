//! Checks the dependencies against deny.toml, without installing cargo-deny, which takes minutes to build.
//!
//! If cargo-deny is installed, it runs too, and also checks the advisories that it downloads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::data::{self, Data as _};
use crate::graph::{Graph, Package, resolved};
use crate::tidy::{find_files, read};
use crate::{Result, cargo, run};

const RULES: &str = "deny.toml";
/// The prefix of sources in `cargo metadata` that are registries.
const REGISTRY: &str = "registry+";

/// Checks licences, duplicates, forbidden crates, sources, and advisories if there is a database of them.
pub(crate) fn check(root: &Path, advisories: Option<PathBuf>) -> Result {
    let rules = data::toml(&read(&root.join(RULES))?).map_err(|error| format!("{RULES}: {error}"))?;
    let targets = rules["graph"].texts_of("targets");
    let graph = Graph::read(&targets)?;
    let used = resolved(&["--workspace", "--edges", "normal,build,dev"], &targets)?;
    let packages: Vec<&Package> = graph.packages.values().filter(|package| used.contains(&package.key())).collect();
    let mut complaints = complaints(&rules, &packages);
    let has_cargo_deny = is_installed();
    match advisories {
        Some(dir) => complaints.extend(check_advisories(&dir, &rules, &packages)?),
        None if has_cargo_deny => {}
        None => println!(
            "skipped: no advisories were checked; give the directory of a RustSec database, or install cargo-deny"
        ),
    }
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    println!("{} dependencies follow {RULES}", packages.len());
    if !has_cargo_deny {
        return Ok(());
    }
    run(&mut cargo(["deny", "check", "licenses", "bans", "sources"]))?;
    match run(&mut cargo(["deny", "fetch", "db"])) {
        Ok(()) => run(&mut cargo(["deny", "check", "--disable-fetch", "advisories"])),
        Err(error) => {
            println!("skipped: cargo-deny checked no advisories: {error}");
            Ok(())
        }
    }
}

fn is_installed() -> bool {
    let mut command = Command::new("cargo-deny");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn complaints(rules: &Value, packages: &[&Package]) -> Vec<String> {
    let mut complaints = check_licenses(rules, packages);
    complaints.extend(check_bans(rules, packages));
    let allowed: Vec<String> =
        rules["sources"].texts_of("allow-registry").iter().map(|url| format!("{REGISTRY}{url}")).collect();
    for package in packages {
        if let Some(source) = package.source.as_ref().filter(|source| !allowed.contains(source)) {
            complaints.push(format!("{} comes from {source}, which {RULES} does not allow", shown(package)));
        }
    }
    complaints
}

fn shown(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

fn check_licenses(rules: &Value, packages: &[&Package]) -> Vec<String> {
    let allowed = rules["licenses"].texts_of("allow");
    let mut used = BTreeSet::new();
    let mut complaints = Vec::new();
    for package in packages {
        match License::parse(&package.license) {
            Some(license) if license.is_allowed(&allowed, &mut used) => {}
            _ => complaints.push(format!(
                "{} has the licence {:?}, which {RULES} does not allow",
                shown(package),
                package.license
            )),
        }
    }
    let unused = allowed.iter().filter(|license| !used.contains(**license));
    complaints.extend(unused.map(|license| format!("{RULES} allows the licence {license}, which no crate has")));
    complaints
}

fn check_bans(rules: &Value, packages: &[&Package]) -> Vec<String> {
    let bans = &rules["bans"];
    let specs = |key: &str| -> Vec<String> {
        bans.list_of(key).iter().map(|entry| entry.text_of("crate").to_owned()).collect()
    };
    let (denied, skipped) = (specs("deny"), specs("skip"));
    let is_named = |specs: &[String], package: &Package| specs.iter().any(|spec| matches_spec(spec, package));
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        if is_named(&denied, package) {
            complaints.push(format!("{} is forbidden by {RULES}", shown(package)));
        }
        if !is_named(&skipped, package) {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        if package.source.is_none() {
            let any = package.requirements.iter().filter(|(_, requirement)| requirement == "*");
            complaints.extend(any.map(|(name, _)| format!("{} takes any version of {name}", package.name)));
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let versions: Vec<&str> = versions.iter().copied().collect();
        complaints.push(format!("{name} is there in several versions: {}", versions.join(", ")));
    }
    let unused = skipped.iter().filter(|spec| !packages.iter().any(|package| matches_spec(spec, package)));
    complaints.extend(unused.map(|spec| format!("{RULES} permits {spec} as a duplicate, which is not used")));
    complaints
}

/// Returns whether a package is meant: `name`, or `name@` and the start of a version.
fn matches_spec(spec: &str, package: &Package) -> bool {
    let (name, version) = spec.split_once('@').unwrap_or((spec, ""));
    let rest = package.version.strip_prefix(version);
    name == package.name && (version.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// An SPDX expression.
#[derive(Debug, PartialEq)]
enum License {
    /// One licence, with its exception if it has one.
    One(String),
    All(Vec<License>),
    Any(Vec<License>),
}

impl License {
    fn parse(text: &str) -> Option<License> {
        // An earlier notation of crates separates alternatives with a slash.
        let text = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut rest = words.as_slice();
        let license = License::any(&mut rest)?;
        rest.is_empty().then_some(license)
    }

    fn any(rest: &mut &[&str]) -> Option<License> {
        let mut parts = vec![License::all(rest)?];
        while let Some(after) = rest.strip_prefix(&["OR"]) {
            *rest = after;
            parts.push(License::all(rest)?);
        }
        Some(License::Any(parts))
    }

    fn all(rest: &mut &[&str]) -> Option<License> {
        let mut parts = vec![License::one(rest)?];
        while let Some(after) = rest.strip_prefix(&["AND"]) {
            *rest = after;
            parts.push(License::one(rest)?);
        }
        Some(License::All(parts))
    }

    fn one(rest: &mut &[&str]) -> Option<License> {
        let (first, after) = rest.split_first()?;
        *rest = after;
        if *first == "(" {
            let inner = License::any(rest)?;
            *rest = rest.strip_prefix(&[")"])?;
            return Some(inner);
        }
        let name = match rest {
            ["WITH", exception, after @ ..] => {
                *rest = after;
                format!("{first} WITH {exception}")
            }
            _ => (*first).to_owned(),
        };
        Some(License::One(name))
    }

    /// Returns whether the allowed licences are enough, and notes those that are used.
    fn is_allowed<'a>(&self, allowed: &[&'a str], used: &mut BTreeSet<&'a str>) -> bool {
        match self {
            License::One(name) => allowed.iter().find(|one| *one == name).map(|one| used.insert(one)).is_some(),
            // Every part is looked at, so that each licence that could be chosen counts as used.
            License::All(parts) => parts.iter().filter(|part| !part.is_allowed(allowed, used)).count() == 0,
            License::Any(parts) => parts.iter().filter(|part| part.is_allowed(allowed, used)).count() > 0,
        }
    }
}

/// Compares the packages with a RustSec database: a directory with `crates/NAME/ID.md`.
fn check_advisories(dir: &Path, rules: &Value, packages: &[&Package]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    find_files(&dir.join("crates"), "md", &mut files)?;
    let entries = rules["advisories"].list_of("ignore");
    let ignored: Vec<&str> = entries.iter().map(|entry| entry.as_str().unwrap_or(entry.text_of("id"))).collect();
    let mut complaints = Vec::new();
    for file in &files {
        let text = read(file)?;
        let block = text.split_once("```toml").and_then(|(_, rest)| rest.split_once("```"));
        let Some((block, prose)) = block else { return Err(format!("{} is no advisory", file.display())) };
        let advisory = data::toml(block).map_err(|error| format!("{}: {error}", file.display()))?;
        let (about, versions) = (&advisory["advisory"], &advisory["versions"]);
        let (id, name) = (about.text_of("id"), about.text_of("package"));
        if about["withdrawn"].is_string() || ignored.contains(&id) {
            continue;
        }
        let fixed = [versions.texts_of("patched"), versions.texts_of("unaffected")].concat();
        let is_affected = |version: &str| !fixed.iter().any(|requirement| satisfies(version, requirement));
        let is_from_registry = |package: &&&Package| package.source.is_some() && package.name == name;
        for package in packages.iter().filter(is_from_registry).filter(|package| is_affected(&package.version)) {
            let title = prose.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
            let line = format!("{}: {id}: {title}", shown(package));
            if about.text_of("informational") == "unmaintained" {
                println!("note: {line}");
            } else {
                complaints.push(line);
            }
        }
    }
    println!("{} advisories were compared", files.len());
    Ok(complaints)
}

/// Returns whether a version satisfies a requirement like `>= 1.2, < 2`.
fn satisfies(version: &str, requirement: &str) -> bool {
    let version = parse_version(version).1;
    requirement.split(',').all(|part| {
        let part = part.trim();
        let digits = part.find(|char: char| char.is_ascii_digit()).unwrap_or(part.len());
        let (operator, wanted) = part.split_at(digits);
        let (parts, wanted) = parse_version(wanted);
        match operator.trim() {
            ">=" => version >= wanted,
            ">" => version > wanted,
            "<=" => version <= wanted,
            "<" => version < wanted,
            "=" => version == wanted,
            "~" => version >= wanted && version < next(wanted, parts.min(2) - 1),
            // A caret, also if it is left out: the first part that is not zero stays.
            "^" | "" if parts > 0 => {
                let first = [wanted.0, wanted.1, wanted.2].iter().position(|part| *part > 0).unwrap_or(parts - 1);
                version >= wanted && version < next(wanted, first.min(parts - 1))
            }
            _ => false,
        }
    })
}

/// A version; a release comes after its candidates.
type Version = (u64, u64, u64, bool);

/// Reads a version. Returns also how many parts were given.
fn parse_version(text: &str) -> (usize, Version) {
    let text = text.split('+').next().unwrap_or_default();
    let (numbers, candidate) = text.split_once('-').unwrap_or((text, ""));
    let numbers: Vec<u64> = numbers.split('.').map_while(|part| part.trim().parse().ok()).collect();
    let part = |index: usize| numbers.get(index).copied().unwrap_or(0);
    (numbers.len(), (part(0), part(1), part(2), candidate.is_empty()))
}

/// Returns the first version with a higher part at an index.
fn next(version: Version, index: usize) -> Version {
    match index {
        0 => (version.0 + 1, 0, 0, false),
        1 => (version.0, version.1 + 1, 0, false),
        _ => (version.0, version.1, version.2 + 1, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Package {
        Package::for_test(name, version, license, source)
    }

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn rules() -> Value {
        data::toml(&read(&crate::root().join(RULES)).unwrap()).unwrap()
    }

    #[test]
    fn forbidden_licences_crates_sources_and_duplicates_are_named() {
        for (packages, expected) in [
            (vec![package("a", "1.0.0", "GPL-3.0", Some(CRATES_IO))], "a 1.0.0 has the licence \"GPL-3.0\""),
            (vec![package("a", "1.0.0", "", Some(CRATES_IO))], "a 1.0.0 has the licence \"\""),
            (vec![package("a", "1.0.0", "MIT AND GPL-3.0", Some(CRATES_IO))], "which deny.toml does not allow"),
            (vec![package("fsqlite", "1.0.0", "MIT", Some(CRATES_IO))], "fsqlite 1.0.0 is forbidden"),
            (vec![package("a", "1.0.0", "MIT", Some("git+https://example.org/a"))], "a 1.0.0 comes from git+https"),
            (
                vec![package("a", "1.0.0", "MIT", Some(CRATES_IO)), package("a", "2.0.0", "MIT", Some(CRATES_IO))],
                "a is there in several versions: 1.0.0, 2.0.0",
            ),
        ] {
            let found = complaints(&rules(), &packages.iter().collect::<Vec<_>>());
            assert!(found.iter().any(|complaint| complaint.contains(expected)), "{expected}: {found:?}");
        }
        let unused = complaints(&rules(), &[]);
        assert!(unused.iter().any(|complaint| complaint == "deny.toml allows the licence MIT, which no crate has"));
        assert!(unused.iter().any(|complaint| complaint.contains("permits syn@2 as a duplicate")), "{unused:?}");
    }

    #[test]
    fn expressions_of_licences_are_evaluated() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for (text, expected) in [
            ("MIT", true),
            ("MIT/GPL-2.0", true),
            ("GPL-2.0 OR (MIT AND Unicode-3.0)", true),
            ("(MIT OR GPL-2.0) AND Unicode-3.0", true),
            ("MIT AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("MITx", false),
        ] {
            let license = License::parse(text).unwrap();
            assert_eq!(license.is_allowed(&allowed, &mut BTreeSet::new()), expected, "{text}");
        }
        for wrong in ["", "(MIT", "MIT OR", "MIT Apache-2.0"] {
            assert_eq!(License::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn versions_are_compared_with_the_requirements_of_advisories() {
        for (version, requirement, expected) in [
            ("0.23.0", ">= 0.23.0", true),
            ("0.22.9", ">= 0.23.0", false),
            ("1.10.0", ">= 1.9", true),
            ("1.0.0", "< 0.4", false),
            ("1.5.0", ">= 1.0, < 2.0", true),
            ("2.0.0", ">= 1.0, < 2.0", false),
            ("2.0.0-beta.1", ">= 2.0.0", false),
            ("0.3.9", "^0.3.2", true),
            ("0.4.0", "^0.3.2", false),
            ("1.9.0", "1.2", true),
            ("2.0.0", "1.2", false),
            ("1.2.9", "~1.2.3", true),
            ("1.3.0", "~1.2.3", false),
            ("1.2.3", "= 1.2.3", true),
            ("1.2.3", "nonsense", false),
        ] {
            assert_eq!(satisfies(version, requirement), expected, "{version} {requirement}");
        }
    }

    #[test]
    fn an_advisory_is_reported_for_affected_versions_only() {
        let dir = std::env::temp_dir().join(format!("waypost-advisories-{}", std::process::id()));
        let crates = dir.join("crates/a");
        std::fs::create_dir_all(&crates).unwrap();
        let text = "```toml\n[advisory]\nid = \"RUSTSEC-2026-0001\"\npackage = \"a\"\n[versions]\n\
            patched = [\">= 1.2.0\"]\nunaffected = [\"< 0.5\"]\n```\n\n# It is broken\n";
        std::io::Write::write_all(&mut std::fs::File::create(crates.join("x.md")).unwrap(), text.as_bytes()).unwrap();
        for (version, affected) in [("1.2.0", 0), ("1.1.0", 1), ("0.4.0", 0)] {
            let package = package("a", version, "MIT", Some(CRATES_IO));
            let found = check_advisories(&dir, &rules(), &[&package]).unwrap();
            assert_eq!(found.len(), affected, "{version}: {found:?}");
        }
        let ignored = data::toml("[advisories]\nignore = [{ id = \"RUSTSEC-2026-0001\" }]").unwrap();
        let package = package("a", "1.1.0", "MIT", Some(CRATES_IO));
        assert_eq!(check_advisories(&dir, &ignored, &[&package]).unwrap(), Vec::<String>::new());
        std::fs::remove_file(crates.join("x.md")).unwrap();
        std::fs::remove_dir(&crates).and_then(|()| std::fs::remove_dir(dir.join("crates"))).unwrap();
        std::fs::remove_dir(&dir).unwrap();
    }
}
