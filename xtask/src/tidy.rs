//! Rules of this repository that no compiler checks.

use std::path::{Path, PathBuf};

use crate::{Result, dependencies, pages, requirements, sql, structure};

/// The files and directories that the root of the repository may contain.
const ROOT_ENTRIES: &[&str] = &[
    ".cargo",
    ".ci",
    ".git",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "fuzz",
    "packaging",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "target",
    "xtask",
];

/// The files that start programs: version control tools, and the commands of jobs.
const RUNNERS: &[&str] = &[
    "crates/waypost-workspace/src/vcs/run.rs",
    // Its tests compare it with git.
    "crates/waypost-workspace/src/vcs/git_config.rs",
    "crates/waypost-workspace/src/jobs.rs",
    "crates/waypost-workspace/src/surroundings.rs",
    "crates/waypost-workspace/src/sandbox/mod.rs",
    "crates/waypost-workspace/src/sandbox/enter.rs",
];

const MAX_ARCHITECTURE_LINES: usize = 300;
/// A newcomer reads the README whole.
const MAX_README_LINES: usize = 150;

pub(crate) fn check(root: &Path) -> Result {
    let mut complaints = Vec::new();
    dependencies::check(root, &mut complaints)?;
    check_root(root, &mut complaints)?;
    let mut files = Vec::new();
    for dir in ["crates", "xtask"] {
        find_files(&root.join(dir), "rs", &mut files)?;
    }
    for file in &files {
        let text = read(file)?;
        let name = file.strip_prefix(root).unwrap_or(file).display();
        if !text.starts_with("//! ") {
            complaints.push(format!("{name} does not start with a //! comment"));
        }
        // The words are concatenated, so that this file does not contain them.
        for (word, homes, why) in [
            (["process::", "{Command"].concat(), RUNNERS, "only vcs/run.rs, jobs.rs and sandbox/ start programs"),
            (
                ["process::", "{Child, Command"].concat(),
                RUNNERS,
                "only vcs/run.rs, jobs.rs and sandbox/ start programs",
            ),
            (["process::", "Command"].concat(), RUNNERS, "only vcs/run.rs, jobs.rs and sandbox/ start programs"),
            (
                ["env::", "var"].concat(),
                // The second one only if a defect is planted, and in no normal build.
                &[
                    "crates/waypost/src/machine/environment.rs",
                    "crates/waypost-core/src/seeded.rs",
                    "crates/waypost-workspace/src/surroundings.rs",
                ],
                "only environment.rs and surroundings.rs read the environment",
            ),
        ] {
            let is_product = file.components().any(|part| part.as_os_str() == "src") && !is_for_developers(file, root);
            if is_product && text.contains(&word) && !homes.iter().any(|home| file == &root.join(home)) {
                complaints.push(format!("{name} contains {word}: {why}"));
            }
        }
        for (bad, why) in [
            (["#[ig", "nore"].concat(), "every test must run"),
            (["thread::sl", "eep"].concat(), "wait for a condition instead"),
            (["#[al", "low("].concat(), "use #[expect(.., reason)]"),
        ] {
            if text.contains(&bad) {
                complaints.push(format!("{name} contains {bad}: {why}"));
            }
        }
    }
    let is_product =
        |file: &&Path| file.components().any(|part| part.as_os_str() == "src") && !is_for_developers(file, root);
    let product: Vec<&Path> = files.iter().map(PathBuf::as_path).filter(is_product).collect();
    sql::check(&product, root, &mut complaints)?;
    for dir in ["crates", "docs", "xtask"] {
        find_files(&root.join(dir), "md", &mut files)?;
    }
    files.extend(["ARCHITECTURE.md", "CHANGELOG.md", "README.md", "SECURITY.md"].map(|name| root.join(name)));
    for file in &files {
        check_characters(file, root, &mut complaints)?;
        check_words(file, root, &mut complaints)?;
    }
    check_architecture(root, &mut complaints)?;
    pages::check(root, &mut complaints)?;
    structure::check(root, &mut complaints)?;
    requirements::check(root, &mut complaints)?;
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Complains about control characters other than tabs and ends of lines: no reader sees them.
fn check_characters(file: &Path, root: &Path, complaints: &mut Vec<String>) -> Result {
    let text = read(file)?;
    let name = file.strip_prefix(root).unwrap_or(file).display();
    for (number, line) in text.split('\n').enumerate() {
        if let Some(found) = line.chars().find(|char| char.is_control() && *char != '\t') {
            complaints.push(format!("{name}:{}: write {found:?} as an escape", number + 1));
        }
    }
    Ok(())
}

/// Complains about words that hide the actor: a sentence names the caller, the agent, the server or the tool.
fn check_words(file: &Path, root: &Path, complaints: &mut Vec<String>) -> Result {
    let text = read(file)?;
    let name = file.strip_prefix(root).unwrap_or(file).display();
    // The words are concatenated, so that this file does not contain them.
    let vague =
        [["who", "ever"], ["no", "body"], ["some", "body"], ["any", "body"], ["every", "body"]].map(|w| w.concat());
    // Names of flags that users already type stay.
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.contains("alias = ")) {
        let words = line.split(|char: char| !char.is_alphabetic());
        for word in words.filter(|word| vague.iter().any(|vague| word.eq_ignore_ascii_case(vague))) {
            complaints.push(format!("{name}:{}: name the actor instead of {word:?}", number + 1));
        }
    }
    Ok(())
}

/// Returns whether a file is for developers and not part of the product.
fn is_for_developers(file: &Path, root: &Path) -> bool {
    ["xtask", "crates/waypost-bench", "crates/waypost-testkit"].iter().any(|dir| file.starts_with(root.join(dir)))
}

fn check_root(root: &Path, complaints: &mut Vec<String>) -> Result {
    for entry in std::fs::read_dir(root).map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        if !ROOT_ENTRIES.iter().any(|known| name == *known) {
            complaints.push(format!("{} does not belong in the root", name.display()));
        }
    }
    Ok(())
}

/// Checks that ARCHITECTURE.md mentions every crate, and only files that exist.
fn check_architecture(root: &Path, complaints: &mut Vec<String>) -> Result {
    let map = read(&root.join("ARCHITECTURE.md"))?;
    if map.lines().count() > MAX_ARCHITECTURE_LINES {
        complaints.push(format!("ARCHITECTURE.md has more than {MAX_ARCHITECTURE_LINES} lines"));
    }
    if read(&root.join("README.md"))?.lines().count() > MAX_README_LINES {
        complaints.push(format!("README.md has more than {MAX_README_LINES} lines: the guide has room"));
    }
    for entry in std::fs::read_dir(root.join("crates")).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !map.contains(&format!("`{name}`")) {
            complaints.push(format!("ARCHITECTURE.md does not mention {name}"));
        }
    }
    let mut sources = Vec::new();
    find_files(&root.join("crates"), "rs", &mut sources)?;
    for word in map.split('`').skip(1).step_by(2) {
        let is_known = match word {
            path if path.starts_with("crates/") => root.join(path).exists(),
            file if Path::new(file).extension().is_some_and(|found| found == "rs") => {
                sources.iter().any(|source| source.ends_with(file))
            }
            _ => true,
        };
        if !is_known {
            complaints.push(format!("ARCHITECTURE.md mentions {word}, which does not exist"));
        }
    }
    Ok(())
}

pub(crate) fn find_files(dir: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result {
    for entry in std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            find_files(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
