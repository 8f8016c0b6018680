//! Checks the crates that we depend on against `deny.toml`: their names, sources, licences and versions.
//!
//! These are the rules that need no other program. Where cargo-deny is installed, `cargo xtask test` runs it too: it also
//! knows the advisories, which come from a list on the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::read;
use crate::{Result, cargo};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the locked crates.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result {
    let rules = read(&root.join("deny.toml"))?;
    complaints.extend(wrong_crates(&read(&root.join("Cargo.lock"))?, &rules));
    let mut tree = cargo(["tree", "--workspace", "--locked", "--edges", "normal,build,dev", "--prefix", "none"]);
    for target in strings(list(&rules, "targets")) {
        tree.args(["--target", target]);
    }
    let output = tree.args(["--format", "{p}|{l}"]).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    complaints.extend(wrong_packages(&String::from_utf8_lossy(&output.stdout), &rules));
    Ok(())
}

/// Returns the text of a list in the rules.
fn list<'a>(rules: &'a str, name: &str) -> &'a str {
    let rest = rules.split(&format!("\n{name} = [")).nth(1).unwrap_or_default();
    rest.split_once("]\n").map_or(rest, |(list, _)| list)
}

/// Returns the texts in quotes.
fn strings(list: &str) -> impl Iterator<Item = &str> {
    list.split('"').skip(1).step_by(2)
}

/// Returns the crates that a list of the rules names.
fn crates<'a>(rules: &'a str, name: &str) -> BTreeSet<&'a str> {
    list(rules, name).split("crate = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns what is wrong with the names and the sources of locked crates.
fn wrong_crates(lock: &str, rules: &str) -> Vec<String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches([' ', '=', '"']).to_owned());
    let forbidden = crates(rules, "deny");
    let names = lock.lines().filter_map(|line| value(line, "name"));
    let denied = names.filter(|name| forbidden.contains(name.as_str()));
    let mut complaints: Vec<String> = denied.map(|name| format!("deny.toml forbids {name}")).collect();
    let sources = lock.lines().filter_map(|line| value(line, "source"));
    let foreign = sources.filter(|source| source != REGISTRY);
    complaints.extend(foreign.map(|source| format!("Cargo.lock has a crate from {source}")));
    complaints
}

/// Returns what is wrong with packages, one a line: `name v1.2.3 (path)|licence`. `(*)` marks one that is there twice.
fn wrong_packages(tree: &str, rules: &str) -> Vec<String> {
    let allowed: BTreeSet<&str> = strings(list(rules, "allow")).collect();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut complaints = BTreeSet::new();
    for line in tree.lines() {
        let Some((package, license)) = line.trim_end_matches(" (*)").split_once('|') else { continue };
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.trim_start_matches('v');
        versions.entry(name).or_default().insert(version);
        if !is_permitted(license, &allowed) {
            complaints.insert(format!("deny.toml does not allow the licence of {name} {version}: {license:?}"));
        }
    }
    let skipped = crates(rules, "skip");
    // The rule names the beginning of the version.
    let is_skipped = |name: &str, version: &str| {
        skipped.iter().any(|rule| {
            let rest = rule.strip_prefix(name).and_then(|rest| rest.strip_prefix('@'));
            rest.is_some_and(|start| version == start || version.starts_with(&format!("{start}.")))
        })
    };
    for (name, versions) in &versions {
        let counted: Vec<&str> = versions.iter().copied().filter(|version| !is_skipped(name, version)).collect();
        if counted.len() > 1 {
            complaints.insert(format!("{name} is there in several versions: {}", counted.join(", ")));
        }
    }
    let is_needed = |rule: &str| {
        let (name, _) = rule.split_once('@').unwrap_or((rule, ""));
        versions.get(name).is_some_and(|versions| versions.len() > 1)
    };
    let unneeded = skipped.into_iter().filter(|rule| !is_needed(rule));
    complaints.extend(unneeded.map(|rule| format!("deny.toml need not skip {rule}")));
    complaints.into_iter().collect()
}

/// Returns whether a licence expression can be met with the allowed licences. `/` is an older way to write OR.
fn is_permitted(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let is_met = any(&mut words, allowed);
    is_met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_met |= all(words, allowed);
    }
    is_met
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words, allowed);
    }
    is_met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    match words.next() {
        Some("(") => any(words, allowed) & (words.next() == Some(")")),
        // A licence with an exception is another one.
        Some(name) if words.next_if_eq(&"WITH").is_some() => {
            words.next().is_some_and(|exception| allowed.contains(&*format!("{name} WITH {exception}")))
        }
        Some(name) => allowed.contains(name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_crates_and_other_sources_are_named() {
        let rules =
            "\n[bans]\nskip = [\n    { crate = \"two\" },\n]\ndeny = [\n    { crate = \"bad\", reason = \"x\" },\n]\n";
        let lock = |name: &str, source: &str| format!("[[package]]\nname = \"{name}\"\nsource = \"{source}\"\n");
        assert_eq!(wrong_crates(&lock("two", REGISTRY), rules), [""; 0]);
        assert_eq!(wrong_crates(&lock("bad", REGISTRY), rules), ["deny.toml forbids bad"]);
        assert_eq!(wrong_crates(&lock("two", "git+https://x"), rules), ["Cargo.lock has a crate from git+https://x"]);
        let read = |name: &str| std::fs::read_to_string(crate::root().join(name)).unwrap();
        let own = format!("{}{}", read("Cargo.lock"), lock("fsqlite", REGISTRY));
        assert_eq!(wrong_crates(&own, &read("deny.toml")), ["deny.toml forbids fsqlite"], "the real files are read");
    }

    #[test]
    fn t40_licences_that_are_not_allowed_and_second_versions_are_named() {
        let rules = "\nallow = [\"MIT\", \"ISC\"]\nskip = [\n    { crate = \"old@1\", reason = \"x\" },\n]\n";
        let wrong = |tree: &str| wrong_packages(&format!("{tree}\nold v1.2.0|MIT\nold v2.0.0|MIT"), rules);
        assert_eq!(wrong("a v1.0.0|MIT\na v1.0.0|MIT (*)\nb v1.0.0 (/p)|MIT/Apache-2.0"), [""; 0]);
        assert_eq!(wrong("a v1.0.0|MIT\na v2.0.0|MIT"), ["a is there in several versions: 1.0.0, 2.0.0"]);
        assert_eq!(wrong("old v12.0.0|MIT"), ["old is there in several versions: 12.0.0, 2.0.0"]);
        assert_eq!(wrong_packages("old v1.0.0|MIT", rules), ["deny.toml need not skip old@1"]);
        for license in
            ["GPL-3.0", "", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND MPL-2.0", "MIT WITH x", "MIT GPL-3.0", "(MIT"]
        {
            let expected = format!("deny.toml does not allow the licence of a 1.0.0: {license:?}");
            assert_eq!(wrong(&format!("a v1.0.0|{license}")), [expected]);
        }
        for license in ["GPL-3.0 OR MIT", "(GPL-3.0 OR MIT) AND ISC", "MIT WITH x OR ISC", "GPL-3.0 AND ISC OR MIT"] {
            assert_eq!(wrong(&format!("a v1.0.0|{license}")), [""; 0], "{license}");
        }
    }
}
