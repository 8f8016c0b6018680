//! The command line: what was typed, and who answers it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use waypost_core::{Error, Kind, Result};

use crate::environment::Variables;
use crate::place::{Place, Request, Scope};
use crate::session::Session;

mod commands;
mod escape;
mod issues;
mod ui;

use ui::{Color, Ui};

/// The durable, shared memory of coding agents at work
///
/// Works in any repository at once, with nothing to set up: every command finds the same state from every
/// worktree. Start with: way status
#[derive(Parser)]
#[command(
    name = "way",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "Examples:
  way add 'Fix the login'     write down an issue
  way ready                   what can be worked on now
  way status                  what is there, across all worktrees
  way where                   where everything lives, and why
  way worktree add topic      a worktree for a branch, sharing all state
  way doctor                  check everything

Exit codes:
  0 done              1 internal error    2 invalid input
  3 not found         4 conflict          5 lease lost
  6 nothing to do     7 refused           8 store unavailable
  9 damaged data")]
struct Args {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// Use this store: a path or a URL
    #[arg(long, global = true, value_name = "PATH|URL", conflicts_with_all = ["global", "scope"])]
    db: Option<OsString>,
    /// Use the store of all your repositories; the same as --scope global
    #[arg(long, global = true, conflicts_with = "scope")]
    global: bool,
    /// Choose who shares the store: repo, worktree or global
    #[arg(long, global = true, value_name = "SCOPE")]
    scope: Option<Scope>,
    /// Show only what belongs to this worktree: an id, a name, a branch or a path
    #[arg(long, global = true, value_name = "WORKTREE")]
    worktree: Option<String>,
    /// Act as if started in this directory
    #[arg(short = 'C', global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The author of what is written
    #[arg(long, global = true, value_name = "NAME")]
    actor: Option<String>,
    /// Set a configuration value for this command
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// When to use colour: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    color: Color,
    /// Print nothing but answers and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say on stderr which commands are run
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(visible_aliases = ["create", "new"])]
    Add(commands::add::Args),
    Ready(commands::ready::Args),
    List(commands::list::Args),
    Show(commands::show::Args),
    Update(commands::update::Args),
    Claim(commands::claim::Args),
    Release(commands::release::Args),
    Close(commands::close::Args),
    Reopen(commands::reopen::Args),
    Delete(commands::delete::Args),
    Comment(commands::comment::Args),
    Label(commands::label::Args),
    Assign(commands::assign::Args),
    Dep(commands::dep::Args),
    Blocked(commands::blocked::Args),
    Search(commands::search::Args),
    Stale(commands::stale::Args),
    Stats(commands::stats::Args),
    Init(commands::init::Args),
    Status(commands::status::Args),
    Where(commands::r#where::Args),
    Worktree(commands::worktree::Args),
    Config(commands::config::Args),
    Db(commands::db::Args),
    Doctor(commands::doctor::Args),
    Completions(commands::completions::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let raw: Vec<OsString> = std::env::args_os().collect();
    let args = match Args::try_parse_from(&raw) {
        Ok(args) => args,
        Err(error) => return usage(&error, &raw),
    };
    let GlobalArgs { json, quiet, color, verbose, .. } = args.global;
    if verbose {
        log_to_stderr();
    }
    let variables = Variables::of_process();
    let ui = Ui::new(json, quiet, color, &variables);
    let mut cx = Cx { ui, variables, global: args.global, place: None };
    match run(&mut cx, args.command) {
        Ok(code) => code,
        Err(error) => {
            let store = cx.place.as_ref().and_then(|place| place.store().ok());
            let store = store.map(|choice| (choice.location.to_string(), choice.source.to_string()));
            cx.ui.error(&error, store.as_ref().map(|(path, because)| (path.as_str(), because.as_str())));
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Returns the definition of the command line, from which its documentation is made.
pub fn command() -> clap::Command {
    Args::command()
}

fn run(cx: &mut Cx, command: Command) -> Result<ExitCode> {
    let filters = match &command {
        Command::Status(_) => true,
        Command::Worktree(args) => args.is_list(),
        _ => false,
    };
    if cx.global.worktree.is_some() && !filters {
        return Err(Error::invalid("--worktree has no meaning for this command")
            .hint("it filters way status and way worktree list"));
    }
    match command {
        Command::Add(args) => commands::add::run(cx, &args),
        Command::Ready(args) => commands::ready::run(cx, &args),
        Command::List(args) => commands::list::run(cx, &args),
        Command::Show(args) => commands::show::run(cx, &args),
        Command::Update(args) => commands::update::run(cx, &args),
        Command::Claim(args) => commands::claim::run(cx, &args),
        Command::Release(args) => commands::release::run(cx, &args),
        Command::Close(args) => commands::close::run(cx, &args),
        Command::Reopen(args) => commands::reopen::run(cx, &args),
        Command::Delete(args) => commands::delete::run(cx, &args),
        Command::Comment(args) => commands::comment::run(cx, &args),
        Command::Label(args) => commands::label::run(cx, &args),
        Command::Assign(args) => commands::assign::run(cx, &args),
        Command::Dep(args) => commands::dep::run(cx, &args),
        Command::Blocked(args) => commands::blocked::run(cx, &args),
        Command::Search(args) => commands::search::run(cx, &args),
        Command::Stale(args) => commands::stale::run(cx, &args),
        Command::Stats(args) => commands::stats::run(cx, &args),
        Command::Init(args) => commands::init::run(cx, &args),
        Command::Status(args) => commands::status::run(cx, &args),
        Command::Where(args) => commands::r#where::run(cx, &args),
        Command::Worktree(args) => commands::worktree::run(cx, args),
        Command::Config(args) => commands::config::run(cx, args),
        Command::Db(args) => commands::db::run(cx, args),
        Command::Doctor(args) => commands::doctor::run(cx, &args),
        Command::Completions(args) => commands::completions::run(&args),
    }
}

/// What a command works with.
struct Cx {
    ui: Ui,
    variables: Variables,
    global: GlobalArgs,
    /// Kept for errors, which say which store they are about.
    place: Option<Place>,
}

impl Cx {
    /// Finds out where everything lives. Warnings about it are said once.
    fn place(&mut self) -> Result<Place> {
        let cwd = std::env::current_dir()
            .map_err(|error| Error::unavailable("the current directory cannot be found").because(error))?;
        let cwd = match &self.global.directory {
            Some(dir) => std::fs::canonicalize(cwd.join(dir))
                .map_err(|error| Error::invalid(format!("cannot go to {}", dir.display())).because(error))?,
            None => cwd,
        };
        let scope = match (self.global.global, self.global.scope) {
            (true, _) => Some((Scope::Global, "--global")),
            (false, Some(scope)) => Some((scope, "--scope")),
            (false, None) => None,
        };
        let place = Place::resolve(Request {
            cwd,
            variables: self.variables.clone(),
            db: self.global.db.clone(),
            scope,
            config: self.global.config.clone(),
            actor: self.global.actor.clone(),
        })?;
        for warning in &place.warnings {
            self.ui.warn(warning);
        }
        self.place = Some(place.clone());
        Ok(place)
    }

    /// Opens the store.
    fn session(&mut self) -> Result<Session> {
        let place = self.place()?;
        let said = place.warnings.len();
        let session = Session::open(place)?;
        for warning in &session.place.warnings[said..] {
            self.ui.warn(warning);
        }
        Ok(session)
    }
}

/// Answers a command line that could not be understood, or that asked for help.
fn usage(error: &clap::Error, raw: &[OsString]) -> ExitCode {
    let is_error = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_error && raw.iter().any(|arg| arg == OsStr::new("--json")) {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let mut ours = Error::invalid(message);
        for line in lines.filter(|line| !line.starts_with("Usage:")) {
            ours = ours.hint(line.trim_start_matches("tip: "));
        }
        Ui::new(true, false, Color::Never, &Variables::default()).error(&ours, None);
    } else {
        // Clap knows which stream and which colours. A closed stream is not worth a second complaint.
        let _ = error.print();
    }
    ExitCode::from(if is_error { Kind::Invalid.exit_code() } else { 0 })
}

fn log_to_stderr() {
    struct Stderr;

    impl log::Log for Stderr {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "way: {}", escape::escape(&record.args().to_string()));
        }

        fn flush(&self) {}
    }

    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}
