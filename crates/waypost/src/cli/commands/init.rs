//! `way init`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::is_same_place;

use crate::cli::Cx;
use crate::config::{self, Config, Files, Value, key_named};
use crate::environment::Variables;
use crate::ledger::default_prefix;
use crate::merging;
use crate::place::{DOT_DIR, Place};

/// What the tracked directory keeps to itself.
const GITIGNORE: &str =
    "# State of this machine. The ledger and the configuration beside it are tracked.\n/local/\n/state.db*\n/.*.tmp\n";

/// Prepare a repository for a team: tracked configuration, and the store
///
/// Nobody needs this to use Waypost. It writes .waypost/ for you to commit, so that everybody's issues begin
/// alike. With --scope, it sets that scope for this clone. Doing it again changes nothing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the ids of new issues begin with; by default the repository's name
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let prefix_key = key_named("prefix")?;
    if let Some(prefix) = &args.prefix {
        prefix_key.check(prefix)?;
    }
    let mut place = cx.place()?;
    if place.checkout.is_none() {
        make_repository_without_vcs(&place)?;
        place = cx.place()?;
    }
    let checkout = place.require_checkout()?.clone();
    let lock = checkout.private_dir.join("lock");
    let mut created: Vec<PathBuf> = Vec::new();

    // Only what the tracked file says counts for the team; a personal prefix is not written for others.
    let shared = Files { shared: place.files.shared.clone(), ..Files::default() };
    let mut prefix = Config::load(&shared, &Variables::default(), &[])?.text("prefix");
    if let Some(root) = &place.home_worktree {
        let dir = root.join(DOT_DIR);
        place.check_tracked("config.toml")?;
        place.check_tracked(".gitignore")?;
        let attributes = place.check_tracked(".gitattributes")?;
        std::fs::create_dir_all(&dir)
            .map_err(|error| Error::unavailable(format!("cannot make {}", dir.display())).because(error))?;
        let wanted =
            args.prefix.clone().or_else(|| prefix.is_none().then(|| default_prefix(&checkout.repository_name())));
        if let Some(wanted) = wanted.filter(|wanted| prefix.as_ref() != Some(wanted)) {
            let file = dir.join("config.toml");
            if !file.exists() {
                created.push(file.clone());
            }
            config::set(&file, &lock, prefix_key, &Value::Text(wanted.clone()))?;
            prefix = Some(wanted);
        }
        if matches!(checkout.vcs, Vcs::Git | Vcs::Jj | Vcs::None) && !dir.join(".gitignore").exists() {
            let file = dir.join(".gitignore");
            waypost_fs::replace(&file, GITIGNORE.as_bytes(), 0o644)
                .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
            created.push(file);
        }
        if matches!(checkout.vcs, Vcs::Git | Vcs::Jj) && !merging::asks_for_driver(&attributes) {
            // Whatever else stands in it stays.
            let mut content = std::fs::read(&attributes).unwrap_or_default();
            if !content.is_empty() && !content.ends_with(b"\n") {
                content.push(b'\n');
            }
            content.extend_from_slice(merging::attributes().as_bytes());
            waypost_fs::replace(&attributes, &content, 0o644)
                .map_err(|error| Error::unavailable(format!("cannot write {}", attributes.display())).because(error))?;
            created.push(attributes);
        }
        merging::ensure_driver(&place);
    } else if args.prefix.is_some() {
        return Err(Error::invalid("a bare repository has no worktree to keep its prefix in")
            .hint("make one first: way worktree add BRANCH"));
    }
    if let Some(scope) = cx.global.scope.or(cx.global.global.then_some(crate::place::Scope::Global)) {
        let file = checkout.private_dir.join("config.toml");
        config::set(&file, &lock, key_named("scope")?, &Value::Text(scope.to_string()))?;
    }
    let session = cx.session()?;
    let store = session.choice.location.to_string();
    let data = json!({
        "store": store,
        "scope": session.choice.scope,
        "prefix": prefix,
        "created": created.iter().map(|path| path_text::to_text(path)).collect::<Vec<_>>(),
    });
    cx.ui.answer(&data, |text| {
        for path in &created {
            text.line(format!("Made {}", path.display()));
        }
        text.line(format!("The store is {store}"));
        if !created.is_empty() && checkout.vcs != Vcs::None {
            text.line("Commit .waypost to share it with your team.");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn make_repository_without_vcs(place: &Place) -> Result<()> {
    let dir = place.cwd.join(DOT_DIR);
    let is_home = |home: &Path| {
        home.file_name() == dir.file_name() && home.parent().is_some_and(|parent| is_same_place(parent, &place.cwd))
    };
    if place.home.as_ref().is_some_and(|(home, _)| is_home(home)) {
        return Err(Error::refused(format!("{} is your own directory, not a repository's", dir.display()))
            .hint("go into a project first"));
    }
    std::fs::create_dir_all(&dir)
        .map_err(|error| Error::unavailable(format!("cannot make {}", dir.display())).because(error))
}
