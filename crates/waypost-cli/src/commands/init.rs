//! `way init`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use waypost_core::ledger::role::Role;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text, words};
use waypost_workspace::{is_same_place, surroundings};

use crate::CommandContext;
use waypost::issues::ledger::Ledger;
use waypost::issues::{
    Repo, asks_for_driver, change_home, driver_attributes, ensure_driver, primary, record_chosen_role, role,
    take_private,
};
use waypost::machine::config::{self, Config, Files, Value, key_named};
use waypost::machine::place::{DOT_DIR, LedgerHome, Place, expand};
use waypost::machine::{Variables, forget_store};

/// The contents of `.waypost/.gitignore`.
const GITIGNORE: &str =
    "# State of this machine. The ledger and the configuration beside it are tracked.\n/local/\n/state.db*\n/.*.tmp\n";

/// Prepare a repository for a team: tracked files and the store
///
/// Optional: Waypost works without it. Writes .waypost/ for you to commit, so that the whole team uses the same prefix for
/// issue ids and the same home of the ledger. With --scope, also sets the scope of this clone. Running it again changes nothing.
///
/// With --contributor it writes nothing into the project: your issues go to a separate planning repository.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way init                            track the issues with the files of the project
  way init --team                     keep the issues of a team on a branch of their own
  way init --contributor              keep your planning out of a project you contribute to
  way init --contributor --planning ~/plans")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub(crate) struct Args {
    /// Prefix of new issue ids [default: that of the existing issues, else the name of the remote, else of the directory]
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Set up as a contributor, with a separate planning repository
    #[arg(long, conflicts_with_all = ["maintainer", "team", "prefix"])]
    contributor: bool,
    /// Set up as a maintainer, regardless of the remotes
    #[arg(long, conflicts_with = "team")]
    maintainer: bool,
    /// Set up for a team without prompting: the issues get a branch of their own, waypost, out of pull requests
    #[arg(long)]
    team: bool,
    /// Planning repository of a contributor
    #[arg(long, value_name = "PATH", requires = "contributor", default_value = "~/.waypost-planning")]
    planning: String,
    /// Use the private directory that is here, although your way did not create it, for example from a backup
    ///
    /// Its settings, queued jobs and tokens are then yours. One that came with the files of the project is refused.
    #[arg(long)]
    adopt: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let prefix_key = key_named("prefix")?;
    if let Some(prefix) = &args.prefix {
        prefix_key.check(prefix)?;
    }
    if args.adopt {
        Place::adopt_private_dir(&cx.request()?)?;
    }
    let mut place = cx.place()?;
    let asks_for_more = args.contributor || args.maintainer || args.team || args.prefix.is_some();
    if args.adopt
        && !asks_for_more
        && let Some(checkout) = &place.checkout
    {
        let dir = path_text::to_text(checkout.private_dir.or_former());
        return cx
            .ui
            .answer(&json!({ "adopted": dir }), |text| text.line(format!("Adopted {dir}")))
            .map(|()| ExitCode::SUCCESS);
    }
    if place.checkout.is_none() {
        create_repository_without_vcs(&place)?;
        place = cx.place()?;
    }
    let planning = if args.contributor {
        Some(args.planning.clone())
    } else if args.maintainer || args.team || args.prefix.is_some() {
        None
    } else {
        ask_for_planning_path(cx, &place, &args.planning)?
    };
    if let Some(planning) = planning {
        return set_up_contributor(cx, &place, &planning);
    }
    let checkout = place.require_checkout()?.clone();
    checkout.private_dir.create()?;
    let lock = checkout.private_dir.join("lock");
    if args.maintainer {
        let role = Value::Text("maintainer".to_owned());
        config::set(&checkout.private_dir.join("config.toml"), &lock, key_named("role")?, &role)?;
    }
    let mut created: Vec<PathBuf> = Vec::new();
    if args.team || ask_for_separate_home(cx, &place, args)? {
        created.extend(choose_separate_home(cx, &place)?);
        place = cx.place()?;
    }

    let prefix = write_tracked_files(&place, args, &mut created)?;
    record_chosen_role(&place)?;
    if let Some(scope) = cx.global.scope.or(cx.global.global.then_some(waypost::machine::place::Scope::Global)) {
        let file = checkout.private_dir.join("config.toml");
        config::set(&file, &lock, key_named("scope")?, &Value::Text(scope.to_string()))?;
    }
    forget_store(&place)?;
    let session = cx.session_to_write()?;
    let store = session.choice.location.to_string();
    let data = json!({
        "store": store,
        "scope": session.choice.scope,
        "prefix": prefix,
        "ledger_home": place.ledger_home().0,
        "created": created.iter().map(|path| path_text::to_text(path)).collect::<Vec<_>>(),
    });
    cx.ui.answer(&data, |text| {
        for path in &created {
            text.line(format!("Created {}", path.display()));
        }
        text.line(format!("Store: {store}"));
        if !created.is_empty() && checkout.vcs != Vcs::None {
            text.line("Commit .waypost to share it with your team.");
        }
        match place.ledger_home().0 {
            LedgerHome::Separate => text.line("Issues are on the branch waypost; way sync shares them."),
            LedgerHome::Main if checkout.git_dir.is_some() => {
                text.line("Issues are tracked with your files; to keep them out of pull requests: way init --team");
            }
            LedgerHome::Main | LedgerHome::Branch => {}
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the tracked configuration, with a prefix unless it has one, and the files beside it. Adds the new files to
/// `created`, and returns the tracked prefix.
fn write_tracked_files(place: &Place, args: &Args, created: &mut Vec<PathBuf>) -> Result<Option<String>> {
    let checkout = place.require_checkout()?;
    let lock = checkout.private_dir.join("lock");
    let prefix_key = key_named("prefix")?;
    // Consider only the tracked file: a personal prefix must not become the team's.
    let shared = Files { shared: place.files.shared.clone(), ..Files::default() };
    let mut prefix = Config::load(&shared, &Variables::default(), &[])?.text("prefix");
    if let Some(root) = &place.home_worktree {
        let dir = root.join(DOT_DIR);
        place.check_tracked("config.toml")?;
        place.check_tracked(".gitignore")?;
        let attributes = place.check_tracked(".gitattributes")?;
        waypost_fs::create_durable_dir(&dir)
            .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))?;
        let new_prefix = match (&args.prefix, &prefix) {
            (None, None) => {
                let repo = primary(place)?;
                // A prefix that the configuration does not take is that of other tools' records, which decide it anyway.
                let derived = match repo.beads_prefix() {
                    Some(prefix) => prefix,
                    None => repo.recorded_prefix()?.unwrap_or_else(|| repo.default_prefix()),
                };
                Some(derived).filter(|derived| prefix_key.check(derived).is_ok())
            }
            (named, _) => named.clone(),
        };
        if let Some(new_prefix) = new_prefix.filter(|new_prefix| prefix.as_ref() != Some(new_prefix)) {
            let file = dir.join("config.toml");
            if !file.exists() {
                created.push(file.clone());
            }
            config::set(&file, &lock, prefix_key, &Value::Text(new_prefix.clone()))?;
            prefix = Some(new_prefix);
        }
        if matches!(checkout.vcs, Vcs::Git | Vcs::Jj | Vcs::None) && !dir.join(".gitignore").exists() {
            let file = dir.join(".gitignore");
            waypost_fs::replace(&file, GITIGNORE.as_bytes(), 0o644)
                .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
            created.push(file);
        }
        let is_separate = place.ledger_home().0 == LedgerHome::Separate;
        if matches!(checkout.vcs, Vcs::Git | Vcs::Jj) && !is_separate && !asks_for_driver(&attributes) {
            // Keep the existing contents.
            let mut content = waypost_fs::read_small_file(&attributes)?.unwrap_or_default();
            if !content.is_empty() && !content.ends_with(b"\n") {
                content.push(b'\n');
            }
            content.extend_from_slice(driver_attributes().as_bytes());
            waypost_fs::replace(&attributes, &content, 0o644)
                .map_err(|error| Error::unavailable(format!("cannot write {}", attributes.display())).because(error))?;
            created.push(attributes);
        }
        ensure_driver(place);
    } else if args.prefix.is_some() {
        return Err(Error::invalid("a bare repository has no worktree to store the prefix in")
            .hint("create one first: way worktree add BRANCH"));
    }
    Ok(prefix)
}

/// Asks, on a terminal, whether the issues get a branch of their own.
fn ask_for_separate_home(cx: &CommandContext, place: &Place, args: &Args) -> Result<bool> {
    let is_chosen = args.maintainer || args.prefix.is_some() || place.ledger_home().1.source != "default";
    let has_branches = place.checkout.as_ref().is_some_and(|checkout| checkout.git_dir.is_some());
    if is_chosen || !has_branches || place.ledger_home().0 == LedgerHome::Separate || !is_interactive(cx) {
        return Ok(false);
    }
    let answer = cx.ui.ask("Keep the issues on a branch of their own, out of pull requests? [y/N] ")?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Gives the ledger a branch of its own, unless the configuration says otherwise. Returns the files to commit.
fn choose_separate_home(cx: &mut CommandContext, place: &Place) -> Result<Vec<PathBuf>> {
    let checkout = place.require_checkout()?;
    let (home, source) = place.ledger_home();
    if checkout.git_dir.is_none() {
        cx.ui.warn("only git and jj can keep the issues on a branch of their own; they stay in the main worktree");
        return Ok(Vec::new());
    }
    if source.source != "default" {
        if home != LedgerHome::Separate {
            cx.ui.warn(&format!("ledger.home is {home}; to change it: way migrate --home separate"));
        }
        return Ok(Vec::new());
    }
    Ok(change_home(place, LedgerHome::Separate, false)?.to_commit)
}

fn is_interactive(cx: &CommandContext) -> bool {
    !cx.ui.json && surroundings::stdin().is_terminal() && surroundings::stderr().is_terminal()
}

/// Asks the user of a fork, on a terminal, whether to use a planning repository. Returns its path.
fn ask_for_planning_path(cx: &CommandContext, place: &Place, planning: &str) -> Result<Option<String>> {
    let (role, source) = role(place);
    let is_fork = role == Role::Contributor && source.source == "default" && source.because.contains("fork");
    if !is_fork || !is_interactive(cx) {
        return Ok(None);
    }
    cx.ui.note("this repository looks like a fork of another project");
    let answer = cx.ui.ask("Keep your planning in a separate repository? [Y/n] ")?;
    if matches!(answer.to_lowercase().as_str(), "n" | "no") {
        return Ok(None);
    }
    let answer = cx.ui.ask(&format!("Path of the planning repository? [{planning}] "))?;
    Ok(Some(if answer.is_empty() { planning.to_owned() } else { answer }))
}

/// Sets up a clone for a contributor, without writing into the project's worktree.
fn set_up_contributor(cx: &mut CommandContext, place: &Place, planning: &str) -> Result<ExitCode> {
    let checkout = place.require_checkout()?;
    let path = expand(planning, &place.cwd, &place.variables)?;
    let dir = path.join(DOT_DIR);
    let is_new = !dir.is_dir();
    waypost_fs::create_durable_dir(&dir)
        .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))?;
    let path = std::fs::canonicalize(&path)
        .map_err(|error| Error::unavailable(format!("cannot use {}", path.display())).because(error))?;
    if is_same_place(&path, checkout.repository_path()) {
        return Err(Error::invalid("the planning repository cannot be the project itself").hint("use --planning PATH"));
    }
    if Repo::open(&path, &place.variables)?.checkout.vcs == Vcs::None {
        // Version control keeps pruned issues and enables way sync.
        if let Err(error) = waypost_workspace::init_git(&path) {
            cx.ui.warn(&format!("the planning repository cannot be synced yet: {}", error.full_message()));
        }
    }
    checkout.private_dir.create()?;
    let (file, lock) = (checkout.private_dir.join("config.toml"), checkout.private_dir.join("lock"));
    let text = path_text::to_text(&path);
    for (key, value) in [("role", "contributor"), ("routing.mode", "auto"), ("routing.auto.contributor", text.as_str())]
    {
        config::set(&file, &lock, key_named(key)?, &Value::Text(value.to_owned()))?;
    }
    config::add_to_list(&file, &lock, key_named("repos.additional")?, &text, |known| known == text)?;
    // The settings above decide where the issues belong.
    let place = cx.place()?;
    let moved = take_private(&Ledger::of(&place)?)?;
    record_chosen_role(&place)?;
    let data = json!({ "role": "contributor", "planning": text, "created": is_new, "moved": moved });
    cx.ui.answer(&data, |out| {
        out.line(format!("{} {}", if is_new { "Created" } else { "Using" }, path.display()));
        if moved > 0 {
            out.line(format!("Moved {} there that no commit has", words::count(moved, "issue")));
        }
        out.line("New issues go there. To propose one to the project: way propose ID");
    })?;
    Ok(ExitCode::SUCCESS)
}

fn create_repository_without_vcs(place: &Place) -> Result<()> {
    let dir = place.cwd.join(DOT_DIR);
    let is_home = |home: &Path| {
        home.file_name() == dir.file_name() && home.parent().is_some_and(|parent| is_same_place(parent, &place.cwd))
    };
    if place.home.as_ref().is_some_and(|(home, _)| is_home(home)) {
        return Err(Error::refused(format!("{} is Waypost's user directory, not a repository's", dir.display()))
            .hint("change to a project directory first"));
    }
    waypost_fs::create_durable_dir(&dir)
        .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))
}
