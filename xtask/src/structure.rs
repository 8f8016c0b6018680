//! Checks the structure that ARCHITECTURE.md promises: crates depend downwards only, and no two modules import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::Result;
use crate::tidy::{find_files, read};

/// Each crate with those of ours that it may use. A crate that is not listed here is an error.
const MAY_USE: &[(&str, &[&str])] = &[
    ("waypost-core", &[]),
    ("waypost-fs", &["waypost-core"]),
    ("waypost-import", &["waypost-core"]),
    ("waypost-store", &["waypost-core", "waypost-fs"]),
    ("waypost-ledger", &["waypost-core", "waypost-fs"]),
    ("waypost-workspace", &["waypost-core", "waypost-fs"]),
    (
        "waypost",
        &["waypost-core", "waypost-fs", "waypost-import", "waypost-ledger", "waypost-store", "waypost-workspace"],
    ),
    ("waypost-server", &["waypost", "waypost-core", "waypost-fs"]),
    (
        "waypost-cli",
        &[
            "waypost",
            "waypost-core",
            "waypost-fs",
            "waypost-import",
            "waypost-ledger",
            "waypost-server",
            "waypost-store",
            "waypost-workspace",
        ],
    ),
    (
        "waypost-bench",
        &["waypost", "waypost-core", "waypost-fs", "waypost-store", "waypost-testkit", "waypost-workspace"],
    ),
    ("waypost-testkit", &["waypost-core"]),
];

/// Dependencies that the library must not have: people embed it.
const NOT_IN_LIBRARY: &[&str] = &["axum", "clap", "rmcp"];

pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result {
    for entry in std::fs::read_dir(root.join("crates")).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        check_direction(&path, complaints)?;
        for circle in circles(&path.join("src"))? {
            complaints.push(format!("modules of {} import each other: {}", path.display(), circle.join(", ")));
        }
    }
    Ok(())
}

fn check_direction(path: &Path, complaints: &mut Vec<String>) -> Result {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
        complaints.push(format!("xtask/src/structure.rs does not say which crates {name} may use"));
        return Ok(());
    };
    let manifest = read(&path.join("Cargo.toml"))?;
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    for line in section.lines().skip(1) {
        let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if dependency.starts_with("waypost") && !allowed.contains(&dependency) {
            complaints.push(format!("{name} must not depend on {dependency}"));
        }
        if name == "waypost" && NOT_IN_LIBRARY.contains(&dependency) {
            complaints.push(format!("the library must not depend on {dependency}"));
        }
    }
    Ok(())
}

/// The path of a module inside its crate, without `crate`.
type Module = Vec<String>;

/// Returns the groups of modules that import each other, directly or through others. A parent and its children may.
fn circles(src: &Path) -> Result<Vec<Vec<String>>> {
    let mut files = Vec::new();
    find_files(src, "rs", &mut files)?;
    let modules: BTreeMap<Module, PathBuf> = files.into_iter().map(|file| (module_of(src, &file), file)).collect();
    let mut imports: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, file) in &modules {
        let text = read(file)?;
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for path in paths(product, module) {
            let target = (0..=path.len()).rev().find_map(|end| modules.get_key_value(&path[..end]));
            if let Some((target, _)) = target
                && !target.starts_with(module)
                && !module.starts_with(target)
            {
                imports.entry(module).or_default().insert(target);
            }
        }
    }
    let reachable = |from| {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Module> = vec![from];
        while let Some(module) = open.pop() {
            open.extend(imports.get(module).into_iter().flatten().filter(|next| found.insert(**next)));
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.keys().map(|module| (module, reachable(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, others) in &reached {
        if others.contains(module) {
            let mutual = others.iter().filter(|other| reached[**other].contains(module));
            circles.insert(mutual.map(|other| other.join("::")).collect());
        }
    }
    Ok(circles.into_iter().collect())
}

fn module_of(src: &Path, file: &Path) -> Module {
    let relative = file.strip_prefix(src).unwrap_or(file).with_extension("");
    let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Returns the paths that a text names with `crate::` or `super::`, seen from a module.
fn paths(text: &str, module: &[String]) -> Vec<Module> {
    let mut paths = Vec::new();
    for statement in statements(text) {
        for start in ["crate::", "super::"] {
            for (at, _) in statement.match_indices(start) {
                let before = statement[..at].chars().next_back();
                if before.is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != ':') {
                    paths.extend(paths_at(&statement[at..], module));
                }
            }
        }
    }
    paths
}

/// Returns the lines of a text without comments, with imports that span several lines as one.
fn statements(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        match statements.last_mut() {
            Some(import) if is_open => import.push_str(line),
            _ => statements.push(line.to_owned()),
        }
        let is_import = is_open || line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
        is_open = is_import && !line.ends_with(';');
    }
    statements
}

/// Returns the paths of a text that begins with `crate::` or `super::`.
fn paths_at(text: &str, module: &[String]) -> Vec<Module> {
    let (mut base, mut rest): (Module, &str) = match text.strip_prefix("crate::") {
        Some(rest) => (Module::new(), rest),
        None => (module.to_vec(), text),
    };
    while let Some(after) = rest.strip_prefix("super::") {
        base.pop();
        rest = after;
    }
    let mut paths = Vec::new();
    expand(&base, rest, &mut paths);
    paths
}

/// Expands `a::{b, c::d}` to the paths in it.
fn expand(base: &[String], text: &str, paths: &mut Vec<Module>) {
    let end = text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = base.to_vec();
    if !name.is_empty() {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with('{') => {
            for part in top_level(&rest[1..]) {
                expand(&path, part.trim(), paths);
            }
        }
        Some(rest) => expand(&path, rest, paths),
        None if text.starts_with('{') => {
            for part in top_level(&text[1..]) {
                expand(base, part.trim(), paths);
            }
        }
        None => paths.push(path),
    }
}

/// Splits what stands between braces at its commas, without those in inner braces.
fn top_level(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&text[start..at]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_imports_and_in_code() {
        let module = ["a".to_owned(), "b".to_owned()];
        let found = |text: &str| paths(text, &module).iter().map(|path| path.join("::")).collect::<Vec<_>>();
        assert_eq!(found("use crate::x::{y, z::{W, V}};"), ["x::y", "x::z::W", "x::z::V"]);
        assert_eq!(found("use crate::x::{\n    y,\n    z,\n};\nfn f() {}"), ["x::y", "x::z", "x"]);
        assert_eq!(found("use super::c::D;"), ["a::c::D"]);
        assert_eq!(found("    let x = crate::e::f(super::super::g());"), ["e::f", "g"]);
        assert_eq!(found("// crate::no"), Vec::<String>::new());
        assert_eq!(found("my_crate::x"), Vec::<String>::new());
    }
}
