//! Builds what users download: the program with its documents, checksums, and a list of everything that is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::tidy::read;
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
    let contained = contained(&host)?;
    let (program, libraries) = split(&contained)?;
    let mut build = cargo(["build", "--profile", "dist", "--locked", "--package", PROGRAM_PACKAGE, "--bin", PROGRAM]);
    // Messages of panics name source files. Those of users' machines must not name the directories of this one.
    let remaps = own_directories().map(|(dir, shown)| format!("--remap-path-prefix={}={shown}", dir.display()));
    run(build.env("CARGO_ENCODED_RUSTFLAGS", remaps.collect::<Vec<_>>().join("\u{1f}")))?;

    let version = text(program, "version");
    let name = format!("{PROGRAM}-{version}-{host}");
    let packages = target().join("packages");
    let content = packages.join(&name);
    stage_contents(&target().join("dist").join(PROGRAM), &license_texts(&libraries)?, &content)?;
    let sbom = format!("{name}.cdx.json");
    check_content(&content)?;
    write(&packages.join(&sbom), format!("{:#}\n", sbom_of(program, &libraries, &checksums()?)?).as_bytes())?;

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

/// Returns the directories of this machine that hold sources, each with the name that the program has for it.
fn own_directories() -> impl Iterator<Item = (PathBuf, &'static str)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registry = home.map(|home| (home.join("registry"), "/cargo/registry"));
    registry.into_iter().chain([(root().join("crates"), "/waypost/crates")])
}

/// Fails if a file that users get names a directory of this machine.
fn check_content(dir: &Path) -> Result {
    for entry in fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_content(&path)?;
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let names = |dir: &Path| {
            let dir = dir.as_os_str().as_encoded_bytes();
            bytes.windows(dir.len()).any(|window| window == dir)
        };
        if let Some((dir, _)) = own_directories().find(|(dir, _)| names(dir)) {
            return Err(format!("{} names {}, a directory of this machine", path.display(), dir.display()));
        }
    }
    Ok(())
}

/// Returns the name of the target that this machine builds for.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its target".to_owned())
}

/// Returns the packages that the program is built from, as `cargo metadata` describes them.
///
/// It describes more: it unites the features of all members. `cargo tree` names those of the program.
fn contained(target: &str) -> Result<Vec<Value>> {
    let printed = |command: &mut Command| {
        let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    };
    let mut tree =
        cargo(["tree", "--locked", "--package", PROGRAM_PACKAGE, "--edges", "normal,build", "--prefix", "none"]);
    let tree = printed(tree.args(["--format", "{p}", "--target", target]))?;
    let metadata =
        printed(cargo(["metadata", "--locked", "--format-version", "1"]).args(["--filter-platform", target]))?;
    let mut metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let Value::Array(mut packages) = metadata["packages"].take() else { return Err("no packages".to_owned()) };
    let named = |package: &Value| format!("{} v{}", text(package, "name"), text(package, "version"));
    let is_in_tree = |name: &str| tree.lines().any(|line| line == name || line.starts_with(&format!("{name} ")));
    packages.retain(|package| is_in_tree(&named(package)));
    Ok(packages)
}

/// Returns the text of a key, or the empty one.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the package of the program, and the others.
fn split(contained: &[Value]) -> Result<(&Value, Vec<&Value>)> {
    let (program, libraries): (Vec<&Value>, Vec<&Value>) =
        contained.iter().partition(|package| text(package, "name") == PROGRAM_PACKAGE);
    Ok((program.first().copied().ok_or("cargo does not list the package of the program")?, libraries))
}

/// Reads the checksums of packages in Cargo.lock, by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock = read(&root().join("Cargo.lock"))?;
    let entry = |package: &str| {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    Ok(lock.split("[[package]]").filter_map(entry).collect())
}

/// Describes the program and its packages in the format of CycloneDX.
fn sbom_of(program: &Value, libraries: &[&Value], checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let component = |package: &Value, kind: &str| {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        let license = text(package, "license").replace('/', " OR ");
        let mut component = json!({ "type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "licenses": [{ "expression": license }], "description": text(package, "description").trim() });
        if !package["source"].is_null() {
            let checksum = checksums.get(&(name.to_owned(), version.to_owned()));
            let checksum = checksum.ok_or_else(|| format!("Cargo.lock has no checksum of {name}"))?;
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        if let Some(url) = package["repository"].as_str() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
        }
        Ok::<Value, String>(component)
    };
    let components: Vec<Value> =
        libraries.iter().map(|package| component(package, "library")).collect::<Result<_>>()?;
    let about = json!({ "component": component(program, "application")? });
    Ok(
        json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": components }),
    )
}

/// Collects the texts of the licences: most of them must accompany the program.
fn license_texts(libraries: &[&Value]) -> Result<String> {
    let mut texts = String::new();
    for package in libraries.iter().filter(|package| !package["source"].is_null()) {
        let [name, version, license] = ["name", "version", "license"].map(|key| text(package, key));
        texts.extend(["==== ", name, " ", version, ": ", license, "\n\n"]);
        for file in license_files(Path::new(text(package, "manifest_path")).parent().unwrap_or(Path::new(".")))? {
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_file_that_names_a_directory_of_this_machine_is_not_distributed() {
        let dir = target().join("tests/content");
        create_dir(&dir.join("man")).unwrap();
        let file = dir.join("man/way.1");
        let check = |content: &str| {
            write(&file, content.as_bytes()).unwrap();
            check_content(&dir).err().unwrap_or_default()
        };
        assert_eq!(check("/cargo/registry/x.rs"), "");
        for (own, _) in own_directories() {
            assert!(check(&format!("\0at {}/x.rs", own.display())).contains("a directory of this machine"));
        }
    }

    #[test]
    fn the_list_of_contents_has_every_package_of_the_program_with_its_checksum() {
        let contained = contained(&host().unwrap()).unwrap();
        let (program, libraries) = split(&contained).unwrap();
        let checksums = checksums().unwrap();
        let sbom = sbom_of(program, &libraries, &checksums).unwrap();
        assert_eq!((text(&sbom, "bomFormat"), text(&sbom, "specVersion")), ("CycloneDX", "1.5"));
        let components = sbom["components"].as_array().unwrap();
        let names: BTreeSet<&str> = components.iter().map(|component| text(component, "name")).collect();
        // Compiled into the program, needed to build it, and only for tests.
        assert!(names.contains("rusqlite") && names.contains("cc") && names.contains("waypost-core"), "{names:?}");
        assert!(!names.contains("proptest") && !names.contains("waypost-testkit") && !names.contains("xtask"));
        let mut references = BTreeSet::new();
        for component in components {
            let (name, version) = (text(component, "name"), text(component, "version"));
            assert_eq!(text(component, "purl").replace("%2B", "+"), format!("pkg:cargo/{name}@{version}"));
            assert!(references.insert(text(component, "bom-ref")), "{name} is there twice");
            assert!(!text(&component["licenses"][0], "expression").is_empty(), "{name}");
            let checksum = checksums.get(&(name.to_owned(), version.to_owned()));
            assert_eq!(component["hashes"][0]["content"].as_str(), checksum.map(String::as_str), "{name}");
            assert_eq!(checksum.is_none(), name.starts_with("waypost"), "{name}");
        }
        let texts = license_texts(&libraries).unwrap();
        assert!(texts.contains("==== rusqlite ") && texts.contains("Permission is hereby granted"));
    }
}
