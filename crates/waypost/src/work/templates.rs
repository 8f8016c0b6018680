//! Templates in files. A template of the repository takes precedence over one of the user.
//!
//! A file is only data; nothing in it is executed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::model::{Template, Variable};
use waypost_core::work::plan::Plan;
use waypost_core::work::template;
use waypost_core::{Error, Result, path_text};

use crate::machine::place::{DOT_DIR, Place};
use crate::work::plans;

/// The directory of templates below our directory.
const DIR: &str = "templates";
/// File name extensions in order of precedence.
const EXTENSIONS: [&str; 4] = ["json", "yaml", "yml", "txt"];
/// Maximum size of a template file.
const MAX_TEMPLATE_BYTES: u64 = 1024 * 1024;

/// The origin of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A file that is tracked with the repository.
    Repository,
    /// A file of the user.
    User,
    /// The store.
    Store,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Repository => "repository",
            Origin::User => "user",
            Origin::Store => "store",
        })
    }
}

/// A template and its origin.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Where it was found.
    pub origin: Origin,
    /// Its file, unless it is in the store.
    pub path: Option<String>,
    /// Its version, if it is in the store.
    pub version: Option<u32>,
    /// Its description.
    pub description: String,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// The plan.
    pub body: Value,
}

impl From<Template> for Found {
    fn from(template: Template) -> Found {
        let Template { name, version, description, body, variables, .. } = template;
        Found { name, origin: Origin::Store, path: None, version: Some(version), description, variables, body }
    }
}

/// The content of a template file.
#[derive(Clone, Debug)]
pub struct Content {
    /// Its description.
    pub description: Option<String>,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// The plan.
    pub body: Value,
}

/// Finds a template in the files by its name.
pub fn find(place: &Place, name: &str) -> Result<Option<Found>> {
    for (origin, dir) in dirs(place) {
        let candidates = EXTENSIONS.map(|extension| dir.join(format!("{name}.{extension}")));
        if !is_name(name) {
            continue;
        }
        if let Some(path) = candidates.into_iter().find(|path| path.symlink_metadata().is_ok()) {
            return read(place, origin, &path).map(Some);
        }
    }
    Ok(None)
}

/// Lists the templates in files by name, and the errors of unreadable ones.
pub fn list(place: &Place) -> Result<(Vec<Found>, Vec<Error>)> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (origin, dir) in dirs(place) {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
        };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| template_name(&entry.path())).collect();
        names.sort();
        names.dedup();
        for name in names {
            if found.contains_key(&name) {
                continue;
            }
            let candidates = EXTENSIONS.map(|extension| dir.join(format!("{name}.{extension}")));
            let Some(path) = candidates.into_iter().find(|path| path.symlink_metadata().is_ok()) else { continue };
            match read(place, origin, &path) {
                Ok(template) => {
                    found.insert(name, template);
                }
                Err(error) => unreadable.push(error),
            }
        }
    }
    Ok((found.into_values().collect(), unreadable))
}

/// Parses a template file: `{"description", "variables", "plan"}`, or a plan alone.
pub fn content(text: &str, path: &Path) -> Result<Content> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        variables: Vec<Variable>,
        plan: Value,
    }
    let value = plans::decode(text, path)?;
    let content = if value.get("plan").is_some() {
        let file: File = serde_json::from_value(value).map_err(|error| {
            Error::invalid("this is not a template").because(error).hint(
                r#"for example {"description": "...", "variables": [{"name": "what", "default": "all"}], "plan": {"tasks": [...]}}"#,
            )
        })?;
        let File { description, variables, plan } = file;
        Content { description, variables, body: plan }
    } else {
        Content { description: None, variables: Vec::new(), body: value }
    };
    // Rendered with any values, the template must be a plan.
    let names = template::names(&content.body);
    let filled = names.iter().map(|name| (name.clone(), name.clone())).collect();
    let variables = template::declared(&content.body, Vec::new());
    Plan::from_value(template::render(&content.body, &variables, &filled)?)?;
    Ok(content)
}

/// Returns the possible directories of templates in order of precedence.
fn dirs(place: &Place) -> Vec<(Origin, PathBuf)> {
    let repository = place.home_worktree.iter().map(|root| (Origin::Repository, root.join(DOT_DIR).join(DIR)));
    repository.chain(place.in_home(DIR).map(|(path, _)| (Origin::User, path))).collect()
}

fn read(place: &Place, origin: Origin, path: &Path) -> Result<Found> {
    let at = |error: Error| error.within(path_text::to_text(path));
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot read {}", path.display())).because(error);
    if origin == Origin::Repository {
        // The authors of the repository must not choose which other files of the user are read.
        let root = place.home_worktree.as_deref().unwrap_or(&place.cwd);
        if !std::fs::canonicalize(path).map_err(cannot)?.starts_with(std::fs::canonicalize(root).map_err(cannot)?) {
            return Err(Error::refused(format!("{} is a link that leads out of the repository", path.display())));
        }
    }
    let file = std::fs::File::open(path).map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(at(Error::invalid("it is not a file")));
    }
    let mut text = String::new();
    file.take(MAX_TEMPLATE_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > MAX_TEMPLATE_BYTES {
        return Err(at(Error::invalid(format!("a template may have at most {MAX_TEMPLATE_BYTES} bytes"))));
    }
    let Content { description, variables, body } = content(&text, path).map_err(at)?;
    Ok(Found {
        name: template_name(path).unwrap_or_default(),
        origin,
        path: Some(path_text::to_text(path)),
        version: None,
        description: description.or_else(|| body["summary"].as_str().map(str::to_owned)).unwrap_or_default(),
        variables: template::declared(&body, variables),
        body,
    })
}

/// Returns the template's name for a file, if the file is a template.
fn template_name(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    let name = path.file_stem()?.to_str()?;
    (EXTENSIONS.contains(&extension) && is_name(name)).then(|| name.to_owned())
}

/// Returns whether a name is valid: it stays in its directory and is not hidden.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_of(text: &str) -> Result<Content> {
        content(text, Path::new("plan"))
    }

    #[test]
    fn a_file_is_a_template_or_a_plan_in_any_form() {
        let whole = content_of(
            r#"{"description": "d", "variables": [{"name": "x", "default": "1"}], "plan": {"tasks": [{"name": "{{x}}"}]}}"#,
        )
        .unwrap();
        assert_eq!((whole.description.as_deref(), whole.variables.len()), (Some("d"), 1));
        assert_eq!(content_of(r#"[{"name": "a"}]"#).unwrap().body[0]["name"], "a");
        assert_eq!(content_of("a: first\nb: then\n    needs: a\n").unwrap().body["tasks"][1]["depends_on"][0], "a");
        let yaml = "description: d\nvariables:\n- name: x\nplan:\n  tasks:\n  - name: '{{x}}'\n";
        let read = content(yaml, Path::new("release.yaml")).unwrap();
        assert_eq!((read.description.as_deref(), &read.body["tasks"][0]["name"]), (Some("d"), &"{{x}}".into()));
        for bad in ["{", r#"{"plan": 3}"#, r#"{"plan": {"tasks": []}, "run": "rm"}"#, "  indented: first\n"] {
            content_of(bad).unwrap_err();
        }
    }
}
