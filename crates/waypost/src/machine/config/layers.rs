//! Reads the layers: user, tracked, private, workspace, environment, flags. Later layers override earlier ones.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table};
use waypost_core::nearest::nearest;
use waypost_core::time::parse_duration_ms;
use waypost_core::{Error, Result};
use waypost_fs::{read_own_small_file, read_small_file};

use super::keys::{KEYS, Key, ValueKind, key_named};
use crate::machine::environment::Variables;

/// The beginning of the names of the environment variables that set a key.
const VARIABLE_PREFIX: &str = "WAYPOST_";

/// Maximum number of unknown keys that are named in warnings.
const MAX_NAMED_KEYS: usize = 10;
/// Maximum number of items of a list.
const MAX_ITEMS: usize = 1_000;

/// The key with the values of the tracked file that the user accepted.
pub const ACCEPTED: &str = "config.accepted";

/// Where a value can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// No layer sets it.
    Default,
    /// The user's file.
    User,
    /// The repository's tracked file.
    Shared,
    /// The file private to this clone.
    Private,
    /// The user's register of workspaces.
    Workspace,
    /// An environment variable.
    Environment,
    /// The command line.
    Flag,
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// The layer that set it.
    pub layer: Layer,
    /// The file, variable or flag; empty for a default.
    pub origin: String,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One value.
    Text(String),
    /// Several values.
    List(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::List(list) => f.write_str(&list.join(":")),
        }
    }
}

/// The files of the three layers that have one. Each may be missing.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Per user.
    pub user: Option<PathBuf>,
    /// Tracked with the repository.
    pub shared: Option<PathBuf>,
    /// Private to this clone.
    pub private: Option<PathBuf>,
}

/// All settings in force.
#[derive(Clone, Debug, Default)]
pub struct Config {
    settings: BTreeMap<&'static str, Setting>,
    /// Unknown or ignored keys.
    pub warnings: Vec<String>,
    /// Values of the tracked file that lead outside the repository and that the user has not accepted, as `key=value`.
    pub unaccepted: Vec<String>,
    consent: Option<Consent>,
}

/// What decides whether a value of the tracked file needs the user's consent.
#[derive(Clone, Debug)]
struct Consent {
    /// The accepted values, as `key=value`.
    accepted: Vec<String>,
    /// The root of the repository.
    root: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Config {
    /// Reads all layers outside of workspaces. `flags` are `key=value`.
    pub fn load(files: &Files, variables: &Variables, flags: &[String]) -> Result<Config> {
        Config::load_in_workspace(files, &[], "", variables, flags)
    }

    /// Reads all layers in a workspace that was created with these settings. `origin` names it.
    pub fn load_in_workspace(
        files: &Files,
        settings: &[(&str, &Value)],
        origin: &str,
        variables: &Variables,
        flags: &[String],
    ) -> Result<Config> {
        let mut config = Config::default();
        let read = |file: &Option<PathBuf>| file.as_deref().map(read).transpose().map(Option::flatten);
        let private = read(&files.private)?;
        if let Some(file) = &files.private
            && let Some(document) = &private
        {
            // First, because it holds what the user accepted of the tracked file.
            config.read_table(document.as_table(), "", Layer::Private, file)?;
        }
        let consent = Consent {
            accepted: config.list(ACCEPTED),
            root: files.shared.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_owned),
            home: variables.home(),
        };
        let mut config = Config { consent: Some(consent), ..Config::default() };
        // Others can change the tracked file. Nothing in it stops a command, which may be the one that repairs it.
        let shared = files.shared.as_deref().map_or(Ok(None), |file| parse(file, read_small_file(file)?));
        let shared = shared.unwrap_or_else(|error| {
            let why = error.full_message();
            config
                .warnings
                .push(format!("all tracked settings are ignored: {}", why.lines().next().unwrap_or_default()));
            None
        });
        for (layer, file, document) in [
            (Layer::User, &files.user, read(&files.user)?),
            (Layer::Shared, &files.shared, shared),
            (Layer::Private, &files.private, private),
        ] {
            if let (Some(file), Some(document)) = (file, document) {
                config.read_table(document.as_table(), "", layer, file)?;
            }
        }
        for (name, value) in settings {
            // The list of a workspace is complete: it includes the items of the files.
            config.settings.remove(*name);
            config.set(key_named(name)?, (*value).clone(), Layer::Workspace, origin.to_owned());
        }
        for (variable, text) in variables.starting_with(VARIABLE_PREFIX) {
            let (variable, text) = (variable.to_string_lossy(), text.to_string_lossy());
            if let Some(key) = KEYS.iter().find(|key| is_variable_of(key, &variable)) {
                let value = key.parse(&text).map_err(|error| error.hint(format!("it comes from {variable}")))?;
                config.set(key, value, Layer::Environment, variable.into_owned());
            }
        }
        for flag in flags {
            let Some((name, text)) = flag.split_once('=') else {
                return Err(Error::invalid(format!("--config {flag} has no value")).hint("write --config KEY=VALUE"));
            };
            let key = key_named(name)?;
            config.set(key, key.parse(text)?, Layer::Flag, "--config".to_owned());
        }
        Ok(config)
    }

    /// Returns the setting of a key, or its default.
    pub fn get(&self, name: &str) -> Option<Setting> {
        self.settings.get(name).cloned().or_else(|| {
            let default = KEYS.iter().find(|key| key.name == name)?.default?;
            Some(Setting { value: Value::Text(default.to_owned()), layer: Layer::Default, origin: String::new() })
        })
    }

    /// Returns the text of a key, or its default.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|setting| setting.value.to_string())
    }

    /// Returns the duration of a key, or its default.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        parse_duration_ms(&self.text(name)?).ok().map(Duration::from_millis)
    }

    /// Returns the list of a key; empty if it is not set.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.get(name).map(|setting| setting.value) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    fn read_table(&mut self, table: &Table, prefix: &str, layer: Layer, file: &Path) -> Result<()> {
        let mut unknown = 0;
        for (part, item) in table {
            let name = if prefix.is_empty() { part.to_owned() } else { format!("{prefix}.{part}") };
            if let Some(key) = KEYS.iter().find(|key| key.name == name) {
                if key.personal && layer == Layer::Shared {
                    self.warnings.push(format!(
                        "{name} in {} is ignored: each user sets it with way config set",
                        file.display()
                    ));
                    continue;
                }
                let value = match value_of(key, item) {
                    Ok(value) => value,
                    Err(error) if layer == Layer::Shared => {
                        self.ignore_shared(&name, file, error.hints().first().map_or("", String::as_str));
                        continue;
                    }
                    Err(error) => return Err(error.hint(format!("it is set in {}", file.display()))),
                };
                let value = if layer == Layer::Shared { self.accepted(key, value, file) } else { Some(value) };
                if let Some(value) = value {
                    self.set(key, value, layer, file.display().to_string());
                }
            } else if let Some(inner) = as_table(item)
                && KEYS.iter().any(|key| key.name.starts_with(&format!("{name}.")))
            {
                self.read_table(&inner, &name, layer, file)?;
            } else if unknown == MAX_NAMED_KEYS {
                self.warnings.push(format!("{} has more unknown keys", file.display()));
                unknown += 1;
            } else if unknown < MAX_NAMED_KEYS {
                unknown += 1;
                let near = nearest(&name, KEYS.iter().map(|key| key.name));
                let advice = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                self.warnings.push(format!("unknown key {name} in {}{advice}", file.display()));
            }
        }
        Ok(())
    }

    /// Warns about a value of the tracked file that is not valid.
    fn ignore_shared(&mut self, name: &str, file: &Path, expected: &str) {
        self.warnings
            .push(format!("{name} in {} is ignored, because its value is not valid: {expected}", file.display()));
    }

    /// Returns the part of a value of the tracked file that stays inside the repository, or that the user accepted.
    fn accepted(&mut self, key: &Key, value: Value, file: &Path) -> Option<Value> {
        let Some(consent) = self.consent.clone() else { return Some(value) };
        let mut is_accepted = |text: &String| {
            let item = format!("{}={text}", key.name);
            let leaves = leads_outside(key, text, consent.root.as_deref(), consent.home.as_deref());
            if !leaves || consent.accepted.contains(&item) {
                return true;
            }
            self.warnings.push(format!(
                "{item} in {} leads out of this repository and is ignored; to accept it: way config accept",
                file.display()
            ));
            self.unaccepted.push(item);
            false
        };
        match value {
            Value::Text(text) => is_accepted(&text).then_some(Value::Text(text)),
            Value::List(mut list) => {
                list.retain(is_accepted);
                (!list.is_empty()).then_some(Value::List(list))
            }
        }
    }

    fn set(&mut self, key: &'static Key, value: Value, layer: Layer, origin: String) {
        let value = match (self.settings.get(key.name).map(|setting| &setting.value), value) {
            (Some(Value::List(earlier)), Value::List(more)) => {
                let mut all = earlier.clone();
                all.extend(more.into_iter().filter(|item| !earlier.contains(item)));
                Value::List(all)
            }
            (_, value) => value,
        };
        self.settings.insert(key.name, Setting { value, layer, origin });
    }
}

/// Returns whether a value makes commands in a repository use something outside of it: another directory, or the store that
/// all repositories share.
pub fn leads_outside(key: &Key, text: &str, root: Option<&Path>, home: Option<&Path>) -> bool {
    match key.kind {
        ValueKind::Path | ValueKind::Paths => {
            let Some(root) = root else { return true };
            let path = match (Path::new(text).strip_prefix("~"), home) {
                (Ok(rest), Some(home)) => home.join(rest),
                (Ok(_), None) => return true,
                (Err(_), _) => root.join(text),
            };
            // What does not exist is judged by its name, in which `..` could lead anywhere.
            let is_inside = |path: &Path, root: &Path| {
                path.starts_with(root) && !path.components().any(|part| part == Component::ParentDir)
            };
            match (std::fs::canonicalize(&path), std::fs::canonicalize(root)) {
                (Ok(path), Ok(root)) => !path.starts_with(root),
                _ => !is_inside(&path, root),
            }
        }
        _ => key.name == "scope" && text == "global",
    }
}

/// Reads a file of the user. Returns none if it is missing.
pub(super) fn read(file: &Path) -> Result<Option<DocumentMut>> {
    parse(file, read_own_small_file(file)?)
}

fn parse(file: &Path, content: Option<Vec<u8>>) -> Result<Option<DocumentMut>> {
    let Some(content) = content else { return Ok(None) };
    let text = String::from_utf8(content)
        .map_err(|error| Error::unavailable(format!("cannot read {}", file.display())).because(error))?;
    text.parse().map(Some).map_err(|error: toml_edit::TomlError| {
        Error::invalid(format!("{} is not TOML", file.display()))
            .because(error.to_string().trim_end())
            .hint("fix the file, or restore it from version control")
    })
}

/// Returns whether an environment variable sets a key: `WAYPOST_LEDGER_HOME` sets `ledger.home`.
fn is_variable_of(key: &Key, variable: &str) -> bool {
    let in_variable = |byte: u8| if byte == b'.' { b'_' } else { byte.to_ascii_uppercase() };
    variable.strip_prefix(VARIABLE_PREFIX).is_some_and(|name| name.bytes().eq(key.name.bytes().map(in_variable)))
}

fn as_table(item: &Item) -> Option<Table> {
    item.clone().into_table().ok()
}

fn value_of(key: &Key, item: &Item) -> Result<Value> {
    let wrong = || Error::invalid(format!("{} has a value of the wrong type", key.name));
    if key.kind.separator().is_some() {
        let items =
            item.as_array().and_then(|array| array.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        let of = if key.kind == ValueKind::Paths { "paths" } else { "words" };
        let items: Vec<String> = items.ok_or_else(|| wrong().hint(format!("it takes a list of {of}")))?;
        if items.len() > MAX_ITEMS {
            let (name, number) = (key.name, items.len());
            return Err(Error::invalid(format!("{name} has {number} entries, and at most {MAX_ITEMS} are allowed")));
        }
        return Ok(Value::List(items));
    }
    let text = item.as_str().ok_or_else(|| wrong().hint("it takes a string in quotes"))?;
    key.check(text)?;
    Ok(Value::Text(text.to_owned()))
}
