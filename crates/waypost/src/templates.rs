//! Templates that are kept in files: the repository's before the user's.
//!
//! A file is only data. Nothing that stands in it is run.

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

use crate::place::{DOT_DIR, Place};
use crate::plans;

/// The directory of templates, in ours.
const DIR: &str = "templates";
/// The ends of names, in the order in which they are looked for.
const ENDS: [&str; 4] = ["json", "yaml", "yml", "txt"];
/// A larger file is no template.
const LARGEST: u64 = 1024 * 1024;

/// Where a template is kept.
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

/// A template, and where it is from.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// What it is called.
    pub name: String,
    /// Where it is kept.
    pub origin: Origin,
    /// The file it is kept in.
    pub path: Option<String>,
    /// Its version, in the store.
    pub version: Option<u32>,
    /// What it is good for.
    pub description: String,
    /// What can be filled in.
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

/// What a file of a template says.
#[derive(Clone, Debug)]
pub struct Content {
    /// What it is good for.
    pub description: Option<String>,
    /// What can be filled in.
    pub variables: Vec<Variable>,
    /// The plan.
    pub body: Value,
}

/// Finds the template of a name in the files. The repository's counts before the user's.
pub fn find(place: &Place, name: &str) -> Result<Option<Found>> {
    for (origin, dir) in dirs(place) {
        let known = ENDS.map(|end| dir.join(format!("{name}.{end}")));
        if !is_name(name) {
            continue;
        }
        if let Some(path) = known.into_iter().find(|path| path.symlink_metadata().is_ok()) {
            return read(place, origin, &path).map(Some);
        }
    }
    Ok(None)
}

/// Lists the templates of the files, by name, and those that cannot be read with why.
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
            let known = ENDS.map(|end| dir.join(format!("{name}.{end}")));
            let Some(path) = known.into_iter().find(|path| path.symlink_metadata().is_ok()) else { continue };
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

/// Reads what a file of a template says: `{"description", "variables", "plan"}`, or a plan alone.
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
    let value = plans::value(text, path)?;
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
    // What it says must be a plan, whatever is filled in.
    let names = template::names(&content.body);
    let filled = names.iter().map(|name| (name.clone(), name.clone())).collect();
    let variables = template::declared(&content.body, Vec::new());
    Plan::from_value(template::render(&content.body, &variables, &filled)?)?;
    Ok(content)
}

/// The directories of templates that there may be, in the order in which they count.
fn dirs(place: &Place) -> Vec<(Origin, PathBuf)> {
    let repository = place.home_worktree.iter().map(|root| (Origin::Repository, root.join(DOT_DIR).join(DIR)));
    repository.chain(place.in_home(DIR).map(|(path, _)| (Origin::User, path))).collect()
}

fn read(place: &Place, origin: Origin, path: &Path) -> Result<Found> {
    let at = |error: Error| error.within(path_text::to_text(path));
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot read {}", path.display())).because(error);
    if origin == Origin::Repository {
        // Who writes the repository does not choose which files of ours are read.
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
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > LARGEST {
        return Err(at(Error::invalid(format!("a template of more than {LARGEST} bytes is too large"))));
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

/// Returns the name of the template that a file is, if it is one.
fn template_name(path: &Path) -> Option<String> {
    let end = path.extension()?.to_str()?;
    let name = path.file_stem()?.to_str()?;
    (ENDS.contains(&end) && is_name(name)).then(|| name.to_owned())
}

/// Tells whether a file can be called so: it stays in its directory, and is not hidden.
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
