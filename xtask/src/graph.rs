//! The packages that the workspace depends on, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::data::{self, Data as _};
use crate::tidy::read;
use crate::{Result, cargo};

/// A package of the graph.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: String,
    pub(crate) description: String,
    pub(crate) repository: String,
    /// The directory with its sources.
    pub(crate) dir: std::path::PathBuf,
    /// The registry or repository it comes from. None for packages of the workspace.
    pub(crate) source: Option<String>,
    /// The packages it depends on by id, and whether the program needs them: not only its tests.
    dependencies: Vec<(String, bool)>,
}

impl Package {
    /// Returns its name and version.
    pub(crate) fn key(&self) -> (String, String) {
        (self.name.clone(), self.version.clone())
    }
}

/// The packages by id.
pub(crate) struct Graph {
    pub(crate) packages: BTreeMap<String, Package>,
}

impl Graph {
    /// Asks cargo for the graph on the given targets.
    pub(crate) fn read(targets: &[&str]) -> Result<Graph> {
        let mut command = cargo(["metadata", "--locked", "--format-version", "1"]);
        for target in targets {
            command.args(["--filter-platform", target]);
        }
        let output = command.output().map_err(|error| format!("cannot run cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Graph::parse(&data::json(&String::from_utf8_lossy(&output.stdout))?)
    }

    fn parse(metadata: &Value) -> Result<Graph> {
        let mut packages = BTreeMap::new();
        let nodes: BTreeMap<&str, &Value> =
            metadata["resolve"].list_of("nodes").iter().map(|node| (node.text_of("id"), node)).collect();
        for package in metadata.list_of("packages") {
            let id = package.text_of("id");
            // Packages of other targets are listed, but not resolved.
            let Some(node) = nodes.get(id) else { continue };
            let is_needed = |kind: &Value| kind["kind"] != "dev";
            let dependencies = node.list_of("deps").iter().map(|dependency| {
                (dependency.text_of("pkg").to_owned(), dependency.list_of("dep_kinds").iter().any(is_needed))
            });
            let manifest = Path::new(package.text_of("manifest_path"));
            let package = Package {
                name: package.text_of("name").to_owned(),
                version: package.text_of("version").to_owned(),
                license: package.text_of("license").to_owned(),
                description: package.text_of("description").to_owned(),
                repository: package.text_of("repository").to_owned(),
                dir: manifest.parent().unwrap_or(manifest).to_owned(),
                source: package["source"].as_str().map(str::to_owned),
                dependencies: dependencies.collect(),
            };
            packages.insert(id.to_owned(), package);
        }
        if packages.is_empty() { Err("cargo metadata lists no packages".to_owned()) } else { Ok(Graph { packages }) }
    }

    /// Returns the id of a package of the workspace.
    pub(crate) fn own(&self, name: &str) -> Result<&str> {
        let mut own = self.packages.iter().filter(|(_, package)| package.source.is_none() && package.name == name);
        own.next().map(|(id, _)| id.as_str()).ok_or_else(|| format!("the workspace has no package {name}"))
    }

    /// Returns a package and everything that is compiled into it or while it is built, without its tests.
    pub(crate) fn needed_by<'a>(&'a self, root: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::from([root]);
        let mut rest = vec![root];
        while let Some(id) = rest.pop() {
            rest.extend(self.dependencies(id).filter(|id| found.insert(id)));
        }
        found
    }

    /// Returns the ids of the packages that a package needs, without those of its tests.
    pub(crate) fn dependencies(&self, id: &str) -> impl Iterator<Item = &str> {
        let dependencies = self.packages.get(id).map(|package| package.dependencies.as_slice()).unwrap_or_default();
        dependencies.iter().filter(|(_, is_needed)| *is_needed).map(|(id, _)| id.as_str())
    }
}

/// Asks cargo which packages a part of the workspace uses on the given targets. Returns their names and versions.
///
/// `cargo metadata` lists more: it unites the features of all members, and includes optional dependencies of which only a
/// feature is named.
pub(crate) fn resolved(options: &[&str], targets: &[&str]) -> Result<BTreeSet<(String, String)>> {
    let mut command = cargo(["tree", "--locked", "--prefix", "none", "--format", "{p}"]);
    command.args(options);
    for target in targets {
        command.args(["--target", target]);
    }
    let output = command.output().map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let key = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(key).collect())
}

/// Reads the checksums of the packages in Cargo.lock, by name and version.
pub(crate) fn checksums(root: &Path) -> Result<BTreeMap<(String, String), String>> {
    let lock = data::toml(&read(&root.join("Cargo.lock"))?)?;
    let packages = lock.list_of("package").iter().filter(|package| package["checksum"].is_string());
    let entry = |package: &Value| {
        let key = (package.text_of("name").to_owned(), package.text_of("version").to_owned());
        (key, package.text_of("checksum").to_owned())
    };
    Ok(packages.map(entry).collect())
}
