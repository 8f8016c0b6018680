//! Builds what users download: the program with its documents, checksums, and a list of everything that is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::graph::{Graph, Package, checksums, resolved};
use crate::{Result, cargo, packages, root, run, target};

/// The package of the program.
const PROGRAM_PACKAGE: &str = "waypost-cli";
const PROGRAM: &str = "way";
/// The shells whose completions are in the archive.
const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];
/// The documents in the archive.
const DOCUMENTS: [&str; 5] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "SECURITY.md"];

/// Builds the program, and writes `target/packages/`: an archive, packages for Debian, npm and PyPI, the SBOM, and their
/// checksums.
pub(crate) fn build() -> Result {
    let host = host()?;
    let graph = Graph::read(&[&host])?;
    let program = graph.own(PROGRAM_PACKAGE)?;
    let contained = contained(&graph, program, &host)?;
    run(&mut cargo(["build", "--profile", "dist", "--locked", "--package", PROGRAM_PACKAGE, "--bin", PROGRAM]))?;

    let version = &graph.packages[program].version;
    let name = format!("{PROGRAM}-{version}-{host}");
    let packages = target().join("packages");
    let content = packages.join(&name);
    stage_contents(&target().join("dist").join(PROGRAM), &license_texts(&graph, &contained)?, &content)?;
    let sbom = format!("{name}.cdx.json");
    let sbom_text = sbom_of(&graph, program, &contained, &checksums(&root())?)?;
    write(&packages.join(&sbom), format!("{sbom_text:#}\n").as_bytes())?;

    let archive = format!("{name}.tar.gz");
    // Sorted, without owners and with one time: the same content makes the same archive.
    let sorted = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=go-w"];
    let compressed = ["--use-compress-program=gzip -n", "-cf", &archive, &name];
    run(Command::new("tar").args(sorted).args(compressed).current_dir(&packages))?;
    let contents = packages::Contents { dir: &content, version, target: &host };
    let mut files = vec![archive, sbom];
    files.extend(packages::write_all(&contents, &packages)?);
    let sums = Command::new("sha256sum").args(&files).current_dir(&packages).output();
    let sums = sums.map_err(|error| format!("cannot run sha256sum: {error}"))?;
    write(&packages.join("SHA256SUMS"), &sums.stdout)?;
    println!("Wrote to {}, with {} crates in the program: {}", packages.display(), contained.len(), files.join(", "));
    Ok(())
}

/// Puts the program with its documents, completions and manual pages into a directory.
pub(crate) fn stage_contents(binary: &Path, licenses: &str, content: &Path) -> Result {
    create_dir(&content.join("completions"))?;
    copy(binary, &content.join(PROGRAM))?;
    for document in DOCUMENTS {
        copy(&root().join(document), &content.join(document))?;
    }
    for shell in SHELLS {
        let completions = Command::new(binary).args(["completions", shell]).output();
        let completions = completions.map_err(|error| error.to_string())?;
        if !completions.status.success() {
            return Err(format!("{PROGRAM} completions {shell} failed"));
        }
        write(&content.join("completions").join(format!("{PROGRAM}.{shell}")), &completions.stdout)?;
    }
    run(Command::new(binary).args(["help", "--man"]).arg(content.join("man")))?;
    write(&content.join("LICENSES-OF-DEPENDENCIES.txt"), licenses.as_bytes())
}

/// Returns the name of the target that this machine builds for.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its target".to_owned())
}

/// Returns the ids of the packages that the program is built from, with the features that it uses.
fn contained<'a>(graph: &'a Graph, program: &'a str, target: &str) -> Result<BTreeSet<&'a str>> {
    let named = resolved(&["--package", PROGRAM_PACKAGE, "--edges", "normal,build"], &[target])?;
    let is_named = |id: &&str| named.contains(&graph.packages[*id].key());
    let found: BTreeSet<&str> = graph.needed_by(program).into_iter().filter(is_named).collect();
    if found.len() == named.len() {
        Ok(found)
    } else {
        Err(format!("cargo tree names {} packages, and cargo metadata {} of them", named.len(), found.len()))
    }
}

/// Describes the program and its packages in the format of CycloneDX.
fn sbom_of(
    graph: &Graph,
    program: &str,
    contained: &BTreeSet<&str>,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in contained {
        let package = &graph.packages[*id];
        if *id != program {
            components.push(component(package, "library", checksums)?);
        }
        let needed = graph.dependencies(id).filter(|id| contained.contains(id));
        let needed: BTreeSet<String> = needed.map(|id| purl(&graph.packages[id])).collect();
        dependencies.push(json!({ "ref": purl(package), "dependsOn": needed }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&graph.packages[program], "application", checksums)? },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the address of a package, which is also its name inside the document.
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

fn component(package: &Package, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
        "licenses": [{ "expression": package.license.replace('/', " OR ") }],
    });
    if !package.description.is_empty() {
        component["description"] = package.description.trim().into();
    }
    if package.source.is_some() {
        let checksum =
            checksums.get(&package.key()).ok_or_else(|| format!("Cargo.lock has no checksum of {}", package.name))?;
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if !package.repository.is_empty() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": package.repository }]);
    }
    Ok(component)
}

/// Collects the texts of the licences: most of them must accompany the program.
fn license_texts(graph: &Graph, contained: &BTreeSet<&str>) -> Result<String> {
    let mut texts = String::new();
    for package in contained.iter().map(|id| &graph.packages[*id]).filter(|package| package.source.is_some()) {
        texts.extend(["==== ", &package.name, " ", &package.version, ": ", &package.license, "\n\n"]);
        for file in license_files(&package.dir)? {
            let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            texts.push_str(String::from_utf8_lossy(&text).trim());
            texts.push_str("\n\n");
        }
    }
    Ok(texts)
}

fn license_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let is_license = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let starts = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        path.is_file() && starts.iter().any(|start| name.starts_with(start))
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_license).collect();
    files.sort();
    Ok(files)
}

pub(crate) fn create_dir(path: &Path) -> Result {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result {
    fs::copy(from, to).map(drop).map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

pub(crate) fn write(path: &Path, content: &[u8]) -> Result {
    let written = fs::File::create(path).and_then(|mut file| std::io::Write::write_all(&mut file, content));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data as _;

    #[test]
    fn the_list_of_contents_has_every_package_of_the_program_with_its_checksum() {
        let host = host().unwrap();
        let graph = Graph::read(&[&host]).unwrap();
        let program = graph.own(PROGRAM_PACKAGE).unwrap();
        let contained = contained(&graph, program, &host).unwrap();
        let checksums = checksums(&root()).unwrap();
        let sbom = sbom_of(&graph, program, &contained, &checksums).unwrap();
        assert_eq!((sbom.text_of("bomFormat"), sbom.text_of("specVersion")), ("CycloneDX", "1.5"));
        let about = &sbom["metadata"]["component"];
        assert_eq!((about.text_of("type"), about.text_of("name")), ("application", PROGRAM_PACKAGE));
        let components = sbom.list_of("components");
        assert_eq!(components.len() + 1, contained.len());
        let names: BTreeSet<&str> = components.iter().map(|component| component.text_of("name")).collect();
        // Compiled into the program, needed to build it, and only for tests.
        assert!(names.contains("rusqlite") && names.contains("cc") && names.contains("waypost-core"), "{names:?}");
        assert!(!names.contains("proptest") && !names.contains("waypost-testkit") && !names.contains("xtask"));
        let mut references = BTreeSet::from([about.text_of("bom-ref")]);
        for component in components {
            let (name, version) = (component.text_of("name"), component.text_of("version"));
            assert_eq!(component.text_of("purl").replace("%2B", "+"), format!("pkg:cargo/{name}@{version}"));
            assert!(references.insert(component.text_of("bom-ref")), "{name} is there twice");
            assert!(!component.list_of("licenses")[0].text_of("expression").is_empty(), "{name}");
            let hashes = component.list_of("hashes");
            if name.starts_with("waypost") {
                assert!(hashes.is_empty());
                continue;
            }
            assert_eq!(hashes[0].text_of("alg"), "SHA-256");
            let expected = &checksums[&(name.to_owned(), version.to_owned())];
            assert!(hashes[0].text_of("content") == expected && expected.len() == 64, "{name}");
        }
        let mut described = BTreeSet::new();
        for entry in sbom.list_of("dependencies") {
            assert!(described.insert(entry.text_of("ref")));
            for needed in entry.list_of("dependsOn").iter().filter_map(Value::as_str) {
                assert!(references.contains(needed), "{needed} is not listed");
            }
        }
        assert_eq!(described, references);
        let texts = license_texts(&graph, &contained).unwrap();
        assert!(texts.contains("==== rusqlite ") && texts.contains("Permission is hereby granted"));
    }
}
