//! `way config`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value as Json, json};
use waypost_core::{Error, Result, path_text};

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, cell_keeping_end, header, styled};
use waypost::machine::config::{self, ACCEPTED, KEYS, Key, Layer, Setting, Value, ValueKind, key_named, leads_outside};
use waypost::machine::place::{Place, expand};

/// Read and change the configuration
///
/// Layers, in increasing precedence: your user file (--user), the repository's tracked file (--shared),
/// this clone's private file, environment variables (WAYPOST_SCOPE sets scope), --config flags.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  way config list --show-origin          list all settings and their origins
  way config set scope global            set a key for this clone
  way config set --shared prefix way     set a key for the whole team, in the tracked file
  way config --add-repo ~/planning       also read another repository's ledger")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Also read the ledger of this repository
    #[arg(long, value_name = "PATH", conflicts_with_all = ["remove_repo", "list_repos"])]
    add_repo: Option<PathBuf>,
    /// Stop reading the ledger of this repository
    #[arg(long, value_name = "PATH", conflicts_with_all = ["list_repos", "routing"])]
    remove_repo: Option<PathBuf>,
    /// List the repositories whose ledgers are read
    #[arg(long, conflicts_with = "routing")]
    list_repos: bool,
    /// How to choose the ledger of a new issue
    #[arg(long, value_name = "MODE")]
    routing: Option<Routing>,
    /// Write the tracked file, for the whole team
    #[arg(long)]
    shared: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the value of a key
    Get {
        /// Key, e.g. scope
        key: String,
    },
    /// Set a key
    Set {
        /// Key, e.g. scope
        key: String,
        /// Value; separate several paths with colons
        value: String,
        #[command(flatten)]
        file: FileArgs,
    },
    /// Remove a key from a file, so that lower layers apply
    Unset {
        /// Key, e.g. scope
        key: String,
        #[command(flatten)]
        file: FileArgs,
    },
    /// Accept the settings of the tracked file that lead out of this repository
    ///
    /// The tracked file comes with the project. Paths outside of the repository, and the store of all your repositories, are
    /// used only after you accepted them in this clone. A changed value must be accepted again.
    Accept,
    /// List settings
    List {
        /// Show the file, variable or flag that sets each key
        #[arg(long)]
        show_origin: bool,
        /// Show all keys, with their meaning
        #[arg(long)]
        all: bool,
    },
}

#[derive(clap::Args, Clone, Copy)]
struct FileArgs {
    /// Write the tracked file, for the whole team
    #[arg(long, conflicts_with = "user")]
    shared: bool,
    /// Write your user file, for all your repositories
    #[arg(long)]
    user: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Routing {
    /// All issues go to the primary repository
    Single,
    /// By your detected role
    Auto,
    /// Only to the repository given with --repo, else to routing.default
    Explicit,
    /// By your role, set to maintainer
    Maintainer,
    /// By your role, set to contributor
    Contributor,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    let file = FileArgs { shared: args.shared, user: false };
    match (&args.command, &args.add_repo, &args.remove_repo, args.routing) {
        (Some(Command::Get { key }), ..) => get(cx, &place, key),
        (Some(Command::Set { key, value, file }), ..) => set(cx, &place, key, value, *file),
        (Some(Command::Unset { key, file }), ..) => unset(cx, &place, key, *file),
        (Some(Command::Accept), ..) => accept(cx, &place),
        (Some(Command::List { show_origin, all }), ..) => list(cx, &place, *show_origin, *all),
        (None, Some(path), _, routing) => add_repo(cx, &place, path, routing, file),
        (None, None, Some(path), _) => remove_repo(cx, &place, path, file),
        (None, None, None, Some(routing)) => change_routing(cx, &place, routing, file),
        (None, None, None, None) if args.list_repos => list_repos(cx, &place),
        (None, None, None, None) => Err(Error::invalid("no subcommand or option given").hint("run way config --help")),
    }
}

fn accept(cx: &mut CommandContext, place: &Place) -> Result<ExitCode> {
    for item in &place.config.unaccepted {
        remember_accepted(place, item)?;
    }
    let accepted = &place.config.unaccepted;
    cx.ui.answer(&json!({ "accepted": accepted }), |text| {
        if accepted.is_empty() {
            text.line("The tracked configuration does not lead out of this repository");
        }
        for item in accepted {
            text.line(format!("Accepted {item}"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Remembers that the user accepts a value of the tracked file, as `key=value`.
fn remember_accepted(place: &Place, item: &str) -> Result<()> {
    let key = key_named(ACCEPTED)?;
    let (file, lock) = target(place, key, FileArgs { shared: false, user: false })?;
    config::add_to_list(&file, &lock, key, item, |known| known == item).map(drop)
}

/// A user who writes a value into the tracked file accepts it, too.
fn accept_own(place: &Place, key: &Key, value: &Value) -> Result<()> {
    let items = match value {
        Value::Text(text) => std::slice::from_ref(text),
        Value::List(items) => items,
    };
    let home = place.variables.home();
    for text in items.iter().filter(|text| leads_outside(key, text, place.home_worktree.as_deref(), home.as_deref())) {
        remember_accepted(place, &format!("{}={text}", key.name))?;
    }
    Ok(())
}

fn get(cx: &mut CommandContext, place: &Place, name: &str) -> Result<ExitCode> {
    let key = key_named(name)?;
    let Some(setting) = place.config.get(key.name) else {
        return Err(Error::not_found(format!("{name} is not set and has no default")));
    };
    cx.ui.answer(&shown(key, &setting), |text| match &setting.value {
        Value::Text(value) => text.line(value),
        Value::List(values) => values.iter().for_each(|value| text.line(value)),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn set(cx: &mut CommandContext, place: &Place, name: &str, text: &str, file: FileArgs) -> Result<ExitCode> {
    let key = key_named(name)?;
    let value = key.parse(text)?;
    // In the tracked file a path is relative to the repository; elsewhere it is relative to the current directory.
    let value = if file.shared { value } else { absolute(place, key, value)? };
    let (path, lock) = target(place, key, file)?;
    config::set(&path, &lock, key, &value)?;
    if file.shared {
        accept_own(place, key, &value)?;
    }
    answer_changed(cx, key, &path, Some(&value))
}

fn unset(cx: &mut CommandContext, place: &Place, name: &str, file: FileArgs) -> Result<ExitCode> {
    let key = key_named(name)?;
    let (path, lock) = target(place, key, file)?;
    if !config::unset(&path, &lock, key)? {
        return Err(Error::not_found(format!("{name} is not set in {}", path.display()))
            .hint("way config list --show-origin shows where it is set"));
    }
    answer_changed(cx, key, &path, None)
}

fn answer_changed(cx: &mut CommandContext, key: &Key, path: &Path, value: Option<&Value>) -> Result<ExitCode> {
    // A higher layer may override the written value.
    let place = cx.place()?;
    if let (Some(value), Some(setting)) = (value, place.config.get(key.name))
        && matches!(value, Value::Text(_))
        && setting.value != *value
    {
        cx.ui.warn(&format!("{} is still {}, because {} overrides it", key.name, setting.value, setting.origin));
    }
    let data = json!({ "key": key.name, "value": value, "path": path_text::to_text(path) });
    cx.ui.answer(&data, |_| {})?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext, place: &Place, show_origin: bool, all: bool) -> Result<ExitCode> {
    let settings: Vec<(&Key, Option<Setting>)> = KEYS
        .iter()
        .map(|key| (key, place.config.get(key.name)))
        .filter(|(_, setting)| all || setting.as_ref().is_some_and(|setting| setting.layer != Layer::Default))
        .collect();
    let data: Vec<Json> = settings
        .iter()
        .map(|(key, setting)| match setting {
            Some(setting) => shown(key, setting),
            None => json!({ "key": key.name, "value": null, "layer": null, "origin": "", "help": key.help }),
        })
        .collect();
    cx.ui.answer(&data, |text| {
        let mut titles = header(["KEY", "VALUE"]);
        titles.extend(show_origin.then(|| styled(DIM, "ORIGIN")));
        titles.extend(all.then(|| styled(DIM, "MEANING")));
        let rows = settings.iter().map(|(key, setting)| {
            let value = setting.as_ref().map_or_else(|| "-".to_owned(), |setting| setting.value.to_string());
            let mut row = vec![styled(BOLD, key.name), cell(value)];
            if show_origin {
                row.push(styled(DIM, setting.as_ref().map_or("", origin)));
            }
            if all {
                row.push(styled(DIM, key.help).cuttable());
            }
            row
        });
        text.list(titles, rows);
    })?;
    if settings.is_empty() {
        cx.ui.note("nothing is set; way config list --all shows every key");
    }
    Ok(ExitCode::SUCCESS)
}

fn origin(setting: &Setting) -> &str {
    if setting.layer == Layer::Default { "default" } else { &setting.origin }
}

fn shown(key: &Key, setting: &Setting) -> Json {
    json!({
        "key": key.name,
        "value": setting.value,
        "layer": setting.layer,
        "origin": origin(setting),
        "help": key.help,
    })
}

fn add_repo(
    cx: &mut CommandContext,
    place: &Place,
    path: &Path,
    routing: Option<Routing>,
    file: FileArgs,
) -> Result<ExitCode> {
    let key = key_named("repos.additional")?;
    let (target, lock) = target(place, key, file)?;
    let repo_path = resolve_typed(place, path)?;
    if !repo_path.is_dir() {
        cx.ui.warn(&format!("{} does not exist yet", repo_path.display()));
    }
    let added = config::add_to_list(&target, &lock, key, &path_text::to_text(&repo_path), |known| {
        is_same(place, known, &repo_path)
    })?;
    if file.shared {
        accept_own(place, key, &Value::Text(path_text::to_text(&repo_path)))?;
    }
    if let Some(routing) = routing {
        set_routing(place, routing, file)?;
    }
    let data = json!({ "path": path_text::to_text(&repo_path), "added": added, "file": path_text::to_text(&target) });
    cx.ui.answer(&data, |text| {
        if !added {
            text.line(format!("{} is already on the list", repo_path.display()));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn remove_repo(cx: &mut CommandContext, place: &Place, path: &Path, file: FileArgs) -> Result<ExitCode> {
    let key = key_named("repos.additional")?;
    let (target, lock) = target(place, key, file)?;
    let repo_path = resolve_typed(place, path)?;
    if !config::remove_from_list(&target, &lock, key, |known| is_same(place, known, &repo_path))? {
        return Err(Error::not_found(format!("{} is not on the list in {}", repo_path.display(), target.display()))
            .hint("way config --list-repos shows the list; use --shared for the tracked file"));
    }
    let data = json!({ "path": path_text::to_text(&repo_path), "removed": true, "file": path_text::to_text(&target) });
    cx.ui.answer(&data, |_| {})?;
    Ok(ExitCode::SUCCESS)
}

fn list_repos(cx: &mut CommandContext, place: &Place) -> Result<ExitCode> {
    let mut repos: Vec<(&str, PathBuf, String)> = Vec::new();
    for (role, key) in [("primary", "repos.primary"), ("additional", "repos.additional")] {
        let Some(setting) = place.config.get(key) else { continue };
        let paths = match &setting.value {
            Value::Text(path) => std::slice::from_ref(path),
            Value::List(paths) => paths,
        };
        for path in paths {
            let path = resolve_configured(place, path)?;
            if !repos.iter().any(|(_, known, _)| *known == path) {
                repos.push((role, path, origin(&setting).to_owned()));
            }
        }
    }
    let data: Vec<Json> = repos
        .iter()
        .map(|(role, path, origin)| {
            json!({ "role": role, "path": path_text::to_text(path), "exists": path.is_dir(), "origin": origin })
        })
        .collect();
    cx.ui.answer(&data, |text| {
        let rows = repos.iter().map(|(role, path, origin)| {
            let state = if path.is_dir() { "there" } else { "missing" };
            vec![styled(BOLD, role), cell(state), cell_keeping_end(path.display()), styled(DIM, origin)]
        });
        text.list(header(["ROLE", "STATE", "PATH", "ORIGIN"]), rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn change_routing(cx: &mut CommandContext, place: &Place, routing: Routing, file: FileArgs) -> Result<ExitCode> {
    let (path, mode) = set_routing(place, routing, file)?;
    if routing == Routing::Single && place.config.text("role").as_deref() == Some("contributor") {
        // Who contributes keeps private issues out of the project until they say so by themselves.
        cx.ui.warn(
            "your role is still contributor, so new issues go to your planning repository; way config unset role ends that",
        );
    }
    answer_changed(cx, key_named("routing.mode")?, &path, mode.map(|mode| Value::Text(mode.to_owned())).as_ref())
}

/// Sets how the ledger of a new issue is chosen. Returns the changed file and the mode.
fn set_routing(place: &Place, routing: Routing, file: FileArgs) -> Result<(PathBuf, Option<&'static str>)> {
    let (mode, role) = match routing {
        Routing::Single => (None, None),
        Routing::Auto => (Some("auto"), None),
        Routing::Explicit => (Some("explicit"), None),
        Routing::Maintainer => (Some("auto"), Some("maintainer")),
        Routing::Contributor => (Some("auto"), Some("contributor")),
    };
    let key = key_named("routing.mode")?;
    if let Some(role) = role {
        let key = key_named("role")?;
        let (path, lock) = target(place, key, file)?;
        config::set(&path, &lock, key, &Value::Text(role.to_owned()))?;
    }
    let (path, lock) = target(place, key, file)?;
    if let Some(mode) = mode {
        config::set(&path, &lock, key, &Value::Text(mode.to_owned()))?;
    } else {
        config::unset(&path, &lock, key)?;
    }
    Ok((path, mode))
}

/// Returns the file to write and the lock that guards it.
fn target(place: &Place, key: &Key, file: FileArgs) -> Result<(PathBuf, PathBuf)> {
    if file.user {
        return match &place.home {
            Some((home, _)) => Ok((home.join("config.toml"), home.join("lock"))),
            None => Err(Error::invalid("no home directory for your user file").hint("set HOME or WAYPOST_HOME")),
        };
    }
    let checkout = place.require_checkout().map_err(|error| error.hint("or write your user file: --user"))?;
    checkout.private_dir.create()?;
    let lock = checkout.private_dir.join("lock");
    if !file.shared {
        return Ok((checkout.private_dir.join("config.toml"), lock));
    }
    if key.personal {
        return Err(Error::refused(format!("{} is a personal setting, so the tracked file cannot set it", key.name))
            .hint("leave out --shared, or use --user"));
    }
    Ok((place.check_tracked("config.toml")?, lock))
}

/// Makes relative paths of a value absolute.
fn absolute(place: &Place, key: &Key, value: Value) -> Result<Value> {
    let one = |path: &str| -> Result<String> {
        if path == "~" || path.starts_with("~/") {
            return Ok(path.to_owned());
        }
        Ok(path_text::to_text(&expand(path, &place.cwd, &place.variables)?))
    };
    match (key.kind, value) {
        (ValueKind::Path, Value::Text(path)) => Ok(Value::Text(one(&path)?)),
        (ValueKind::Paths, Value::List(paths)) => {
            Ok(Value::List(paths.iter().map(|path| one(path)).collect::<Result<_>>()?))
        }
        (_, value) => Ok(value),
    }
}

/// Returns the canonical form of a path from the command line, relative to the current directory.
fn resolve_typed(place: &Place, path: &Path) -> Result<PathBuf> {
    expand(path, &place.cwd, &place.variables).map(canonicalize)
}

/// Returns the canonical form of a path from a file, relative to the repository.
fn resolve_configured(place: &Place, path: &str) -> Result<PathBuf> {
    let root = place.home_worktree.as_deref().unwrap_or(&place.cwd);
    expand(path, root, &place.variables).map(canonicalize)
}

/// Resolves symlinks; a path that does not exist stays as it is.
fn canonicalize(path: PathBuf) -> PathBuf {
    std::fs::canonicalize(&path).unwrap_or(path)
}

fn is_same(place: &Place, known: &str, repo_path: &Path) -> bool {
    resolve_configured(place, known).is_ok_and(|known| known == repo_path)
}
