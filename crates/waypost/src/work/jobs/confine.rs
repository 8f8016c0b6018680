//! The restrictions of a job: which files it may use, whether it has a network, and its limits.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use waypost_core::model::{SandboxMode, Strategy};
use waypost_core::{Error, Result};
use waypost_fs::PrivateDir;
use waypost_workspace::sandbox::{self, Access, Confinement, Rule};
use waypost_workspace::surroundings;
use waypost_workspace::workspaces::Plan;

use super::{Settings, default_settings};
use crate::app::session::Session;
use crate::machine::bytes;
use crate::machine::place::{DOT_DIR, expand};

/// The variable of the agent that holds the user's SSH keys.
pub(super) const SSH_AUTH_SOCK: &str = "SSH_AUTH_SOCK";

/// The directories of the system: programs, libraries, settings, and what the kernel tells.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/gnu",
    "/home/linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/lib/ca-certificates",
];

/// The devices that every program may use.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// Tool chains and settings in the home directory. None of them usually has secrets: those of the same tools, such as
/// `.cargo/credentials.toml` and `.config/git/credentials`, are beside them.
const HOME: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".config/jj/config.toml",
    ".deno/bin",
    ".gitconfig",
    ".hgrc",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".nix-profile",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go/bin",
    "go/pkg",
];

/// Refuses settings that cannot be applied on this machine.
pub(super) fn check(settings: &Settings) -> Result<()> {
    let mode = settings.sandbox.unwrap_or(SandboxMode::Off);
    if mode == SandboxMode::Off {
        return Ok(());
    }
    if settings.strategy == Some(Strategy::InPlace) {
        return Err(Error::refused("a job in the checkout itself cannot have a sandbox")
            .because("it could change the hooks and settings of the repository")
            .hint("choose another strategy, or --sandbox=off"));
    }
    sandbox::mechanism(mode).map(drop)
}

/// Returns the settings with the restrictions of this machine, if the job comes from a queue: it may be less strict.
pub(super) fn for_this_machine(session: &Session, settings: Settings) -> Settings {
    if settings.launcher.is_some() {
        return settings;
    }
    let own = default_settings(session);
    let is_restricted = |mode: &SandboxMode| *mode != SandboxMode::Off;
    let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    let processes = least(settings.process_limit.map(u64::from), own.process_limit.map(u64::from));
    Settings {
        sandbox: own.sandbox.filter(is_restricted).or(settings.sandbox),
        network: if own.network == Some(false) { Some(false) } else { settings.network },
        memory_limit: least(settings.memory_limit, own.memory_limit),
        process_limit: processes.and_then(|number| u32::try_from(number).ok()),
        ..settings
    }
}

/// The directories of a job that its restrictions depend on.
pub(super) struct Dirs<'a> {
    /// The plan of its workspace.
    pub(super) plan: Option<&'a Plan>,
    /// The directory that it works in.
    pub(super) dir: &'a Path,
    /// The directory of its context.
    pub(super) context: &'a Path,
    /// The directory of its temporary files.
    pub(super) temporary: &'a Path,
    /// The directory of the socket through which it reaches the store, if it has one.
    pub(super) socket: Option<&'a Path>,
}

/// Returns the restrictions of a job; none if it has none.
pub(super) fn confinement(
    session: &Session,
    settings: &Settings,
    dirs: &Dirs<'_>,
    command: &[String],
) -> Result<Option<Confinement>> {
    let mode = settings.sandbox.unwrap_or(SandboxMode::Off);
    check(settings)?;
    let rules = if mode == SandboxMode::Off { Vec::new() } else { rules(session, dirs, command)? };
    sandbox::mechanism(mode)?.check(&rules)?;
    let confinement = Confinement {
        mode,
        rules,
        network: settings.network != Some(false),
        memory: settings.memory_limit,
        processes: settings.process_limit,
    };
    Ok(Some(confinement).filter(Confinement::is_effective))
}

/// Describes restrictions in words.
pub(super) fn describe(confinement: &Confinement) -> Result<String> {
    let mut parts = Vec::new();
    if confinement.mode != SandboxMode::Off {
        parts.push(format!("files restricted by {}", sandbox::mechanism(confinement.mode)?));
    }
    if !confinement.network {
        parts.push("no network".to_owned());
    }
    parts.extend(confinement.memory.map(|limit| format!("at most {} of memory", bytes::humanize(limit))));
    parts.extend(confinement.processes.map(|limit| format!("at most {limit} processes")));
    Ok(parts.join(", "))
}

/// Lists the files that a job may use.
fn rules(session: &Session, dirs: &Dirs<'_>, command: &[String]) -> Result<Vec<Rule>> {
    let mut rules = Rules(Vec::new());
    let place = &session.place;
    rules.add(Access::Read, SYSTEM);
    rules.add(Access::List, ["/dev"]);
    rules.add(Access::Device, DEVICES);
    if let Some(home) = place.variables.home() {
        rules.add(Access::Read, HOME.iter().map(|path| home.join(path)));
        rules.add(Access::Read, programs(place.variables.get("PATH"), &home));
    }
    rules.add(Access::Read, surroundings::own_program());
    let program = command.first().map(Path::new).filter(|program| program.components().count() > 1);
    rules.add(Access::Read, program.map(|program| dirs.dir.join(program)));
    rules.add(Access::Write, [dirs.dir, dirs.context, dirs.temporary]);
    rules.add(Access::Read, dirs.socket);
    if let Some(plan) = dirs.plan {
        rules.add(Access::Read, &plan.mirror);
        // What Waypost does there compares the work with that of the source.
        rules.add(Access::Read, plan.git_dir.as_ref().map(|git| git.join("objects")));
        shared_repository(&mut rules, plan)?;
    }
    owners_files(&mut rules, session, dirs);
    for (key, access) in [("jobs.sandbox_read", Access::Read), ("jobs.sandbox_write", Access::Write)] {
        for path in place.config.list(key) {
            rules.add(access, [expand(&path, &place.cwd, &place.variables)?]);
        }
    }
    Ok(rules.0)
}

struct Rules(Vec<Rule>);

impl Rules {
    fn add<P: AsRef<Path>>(&mut self, access: Access, paths: impl IntoIterator<Item = P>) {
        self.0.extend(paths.into_iter().map(|path| Rule { path: path.as_ref().to_owned(), access }));
    }
}

/// Returns the directories of programs in `PATH`, except one that contains the home directory.
fn programs(path: Option<&OsStr>, home: &Path) -> Vec<PathBuf> {
    let dirs = path.map(std::env::split_paths).into_iter().flatten();
    dirs.filter(|dir| dir.is_absolute() && !home.starts_with(dir)).collect()
}

/// Allows a workspace to use the repository that it shares with its source, except settings and hooks. Nothing in it is
/// `Access::Write`: git, jj and hg also work there outside of the sandbox.
fn shared_repository(rules: &mut Rules, plan: &Plan) -> Result<()> {
    let Some(source) = &plan.source else { return Ok(()) };
    let git_dirs = |git: &Path| ["objects", "refs", "logs", "lfs"].map(|name| git.join(name));
    match plan.strategy {
        Strategy::Worktree => {
            if let Some(git) = &plan.git_dir {
                rules.add(Access::Read, [git]);
                rules.add(Access::Shared, git_dirs(git));
                // The part of the git directory that belongs to this worktree. Commands in others maintain it, too.
                rules.add(Access::Shared, sandbox::git_dir_of_worktree(&plan.workspace)?);
            }
            for dir in [".hg", ".sl"].map(|dir| source.join(dir)) {
                rules.add(Access::Read, [&dir]);
                rules.add(Access::Shared, ["store", "cache", "wcache"].map(|name| dir.join(name)));
            }
        }
        Strategy::Jj => {
            let repo = source.join(".jj/repo");
            rules.add(Access::Read, [source.join(".jj"), source.join(".git")]);
            let own = ["op_store", "op_heads", "index", "submodule_store", "store/extra"];
            rules.add(Access::Shared, own.map(|name| repo.join(name)));
            rules.add(Access::Shared, git_dirs(&source.join(".git")));
            rules.add(Access::Shared, git_dirs(&repo.join("store/git")));
        }
        Strategy::Clone | Strategy::Overlay | Strategy::Copy | Strategy::InPlace => {}
    }
    Ok(())
}

/// Allows `way` in the job to read the owner's repository and ledger, and closes what belongs to Waypost alone: every private
/// directory of the user, and the user's Waypost directory. The job's own directories may be in it.
fn owners_files(rules: &mut Rules, session: &Session, dirs: &Dirs<'_>) {
    let place = &session.place;
    let mut closed = Vec::new();
    if let Some((home, _)) = &place.home {
        closed.extend(PrivateDir::all_of(home));
        closed.push(home.clone());
    }
    if let Some(checkout) = &place.checkout {
        rules.add(Access::Read, [&checkout.shared_dir]);
        rules.add(Access::Read, &checkout.git_dir);
        for root in checkout.root.iter().chain(&checkout.main_root) {
            let own = [DOT_DIR, ".git", ".jj", ".hg", ".sl"].map(|name| root.join(name));
            rules.add(Access::Read, own);
        }
        closed.extend([checkout.private_dir.to_path_buf(), checkout.worktree_private_dir.clone()]);
    }
    let ledger = place.ledger().and_then(|(ledger, _)| ledger.parent().map(Path::to_owned));
    rules.add(Access::Read, ledger);
    closed.retain(|path| path.exists() && !path.starts_with(dirs.dir));
    rules.add(Access::Closed, closed);
}
