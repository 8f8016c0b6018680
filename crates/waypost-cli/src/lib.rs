//! The command line: parses the arguments and dispatches to the command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches};
use waypost_core::{Error, Kind, Result};
use waypost_workspace::surroundings::{self, Stream, Surroundings};

use waypost::app::session::Session;
use waypost::machine::place::{Place, Request, Scope};
use waypost::machine::{Variables, explain_denied};

mod busy;
mod commands;
mod complete;
mod draw;
mod escape;
mod filter;
mod graph;
mod help;
mod issues;
mod man;
mod pages;
mod places;
mod setup;
mod spans;
mod table;
mod top;
mod ui;
mod work;

use ui::{Color, Ui};

const ABOUT: &str = "The durable, shared memory of coding agents at work

Works in any repository without setup: every command finds the same state from every worktree. \
Start with: way status";

const EXAMPLES: &str = "Examples:
  way add 'Fix the login'      add an issue
  way ready                    list the issues that can be worked on now
  way workflow create release --plan plan.yaml --start
  way job start -- make test   run a command in its own workspace
  way setup claude-code        configure a coding agent

way help COMMAND explains a command. Topics: plan, batch, filters, exit-codes.";

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag")]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Store to use: a path or a URL
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH|URL", conflicts_with_all = ["global", "scope"])]
    db: Option<OsString>,
    /// Use the store that all your repositories share; same as --scope global
    #[arg(long, global = true, hide_short_help = true, conflicts_with = "scope")]
    global: bool,
    /// Scope of the store: repo, worktree or global
    #[arg(long, global = true, hide_short_help = true, value_name = "SCOPE", value_parser = |text: &str| text.parse::<Scope>().map_err(in_one_line))]
    scope: Option<Scope>,
    /// Show or take only work of this worktree: an id, name, branch or path
    #[arg(long, global = true, hide_short_help = true, value_name = "WORKTREE")]
    worktree: Option<String>,
    /// Only issues of this repository: a path, or the name of a configured one. For tasks, workflows, jobs, workspaces and
    /// agents of a shared store: a path, name or id, or all
    #[arg(long, global = true, hide_short_help = true, value_name = "REPO")]
    repo: Option<String>,
    /// Your role in this repository: maintainer or contributor
    #[arg(long, global = true, hide_short_help = true, value_name = "ROLE")]
    role: Option<String>,
    /// Run as if started in this directory
    #[arg(short = 'C', global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Author to record for changes
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    actor: Option<String>,
    /// Agent that claims work and sends messages; registered on first use
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    agent: Option<String>,
    /// Set a configuration value for this command
    #[arg(long, global = true, hide_short_help = true, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// When to use colour: auto, always or never
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    color: Color,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Log to stderr which commands are run
    #[arg(short, long, global = true, hide_short_help = true)]
    verbose: bool,
}

impl GlobalArgs {
    /// Returns what decides the place: the directory, the environment and the options.
    fn request(&self, cwd: PathBuf, variables: Variables) -> Request {
        let scope = match (self.global, self.scope) {
            (true, _) => Some((Scope::Global, "--global")),
            (false, Some(scope)) => Some((scope, "--scope")),
            (false, None) => None,
        };
        let role = self.role.iter().map(|role| format!("role={role}"));
        Request {
            cwd,
            variables,
            db: self.db.clone(),
            scope,
            config: role.chain(self.config.clone()).collect(),
            actor: self.actor.clone(),
            agent: self.agent.clone(),
        }
    }

    /// Returns the options that decide the place and the author, for another command of the same user.
    fn arguments(&self) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: Option<&str>| {
            arguments.extend(value.map(|value| format!("--{name}={value}")));
        };
        let not_text = || Error::invalid("--db is not valid UTF-8");
        add("db", self.db.as_ref().map(|db| db.to_str().ok_or_else(not_text)).transpose()?);
        let scope = if self.global { Some(Scope::Global) } else { self.scope };
        add("scope", scope.map(|scope| scope.to_string()).as_deref());
        add("repo", self.repo.as_deref());
        add("role", self.role.as_deref());
        add("actor", self.actor.as_deref());
        add("agent", self.agent.as_deref());
        for setting in &self.config {
            add("config", Some(setting));
        }
        Ok(arguments)
    }
}

/// A command: its group in the help, its name, its arguments and the function that runs it.
struct CommandEntry {
    group: &'static str,
    name: &'static str,
    aliases: &'static [&'static str],
    define: fn(Command) -> Command,
    run: fn(&mut CommandContext, &ArgMatches) -> Result<ExitCode>,
}

macro_rules! commands {
    ($($group:literal { $($name:literal $([$($alias:literal),*])? => $module:ident;)* })*) => {
        /// All commands, in the order of the help.
        static COMMANDS: &[CommandEntry] = &[$($(CommandEntry {
            group: $group,
            name: $name,
            aliases: &[$($($alias),*)?],
            define: <commands::$module::Args as clap::Args>::augment_args,
            run: |cx, matches| {
                let args = <commands::$module::Args as FromArgMatches>::from_arg_matches(matches);
                let args = args.map_err(|error| Error::internal("cannot read the parsed arguments").because(error))?;
                commands::$module::run(cx, &args)
            },
        },)*)*];
    };
}

commands! {
    "Most used" {
        "status" => status;
        "add" ["create", "new"] => add;
        "ready" => ready;
        "claim" => claim;
        "close" => close;
        "show" => show;
        "workflow" => workflow;
        "task" => task;
        "job" => job;
        "setup" => setup;
    }
    "Issues" {
        "list" => list;
        "search" => search;
        "update" => update;
        "edit" => edit;
        "comment" => comment;
        "label" => label;
        "assign" => assign;
        "dep" => dep;
        "release" => release;
        "reopen" => reopen;
        "delete" => delete;
        "blocked" => blocked;
        "stale" => stale;
        "stats" => stats;
        "log" => log;
        "batch" => batch;
        "import" => import;
        "export" => export;
        "prune" => prune;
    }
    "Work" {
        "top" => top;
        "graph" => graph;
        "context" => context;
        "checkpoint" => checkpoint;
        "template" => template;
        "events" => events;
    }
    "Agents and messages" {
        "prime" => prime;
        "agent" => agent;
        "msg" ["message"] => msg;
    }
    "Workspaces and jobs" {
        "ws" ["workspace"] => ws;
        "worktree" => worktree;
        "worker" => worker;
        "machine" => machine;
    }
    "Repositories and sync" {
        "init" => init;
        "sync" => sync;
        "resolve" => resolve;
        "restore" => restore;
        "repo" => repo;
        "propose" => propose;
        "withdraw" => withdraw;
        "accept" => accept;
        "reject" => reject;
        "migrate" => migrate;
    }
    "Server and set-up" {
        "serve" => serve;
        "token" => token;
        "mcp" => mcp;
        "hook" => hook;
        "config" => config;
        "where" => r#where;
        "db" => db;
        "doctor" => doctor;
        "demo" => demo;
        "completions" => completions;
        "help" => help;
        "merge-driver" => merge_driver;
    }
}

impl CommandEntry {
    fn is_called(&self, name: &OsStr) -> bool {
        self.name == name || self.aliases.iter().any(|alias| *alias == name)
    }
}

/// One run of the program, with everything that it gets from its surroundings.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The arguments; the first one is the name of the program.
    pub args: Vec<OsString>,
    /// The environment.
    pub variables: Variables,
    /// The current directory; empty if it is that of the process.
    pub cwd: PathBuf,
    /// The file of the program, which starts itself for jobs and configures tools to start it.
    pub program: Option<PathBuf>,
    /// The standard input.
    pub stdin: Stream,
    /// The standard output.
    pub stdout: Stream,
    /// The standard error output.
    pub stderr: Stream,
}

impl Invocation {
    /// The invocation that this process is.
    pub fn of_process() -> Invocation {
        let [stdin, stdout, stderr] = Stream::of_process();
        Invocation {
            args: std::env::args_os().collect(),
            variables: Variables::of_process(),
            cwd: PathBuf::new(),
            program: None,
            stdin,
            stdout,
            stderr,
        }
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            directory: (self.cwd != Path::new("")).then(|| self.cwd.clone()),
            variables: self.variables.changes(),
            program: self.program.clone(),
            streams: [self.stdin.clone(), self.stdout.clone(), self.stderr.clone()],
            log_level: log::LevelFilter::Off,
        }
    }
}

/// Runs the program as this process.
pub fn main() -> ExitCode {
    run(Invocation::of_process())
}

/// Runs the program. Invocations in threads of one process do not see each other.
pub fn run(invocation: Invocation) -> ExitCode {
    let surroundings = invocation.surroundings();
    surroundings.enter(|| run_entered(invocation))
}

fn run_entered(Invocation { args: mut raw, variables, .. }: Invocation) -> ExitCode {
    if let [_, argument, args @ ..] = raw.as_slice()
        && argument == complete::ARGUMENT
    {
        complete::run(args, &variables);
        return ExitCode::SUCCESS;
    }
    if let Some(asked) = help::asked_at_the_end(&raw) {
        raw = asked;
    }
    let matches = match parse(&raw) {
        Ok(matches) => matches,
        Err(error) => match parse_meant(error, &raw, &variables) {
            Ok(matches) => matches,
            Err(code) => return code,
        },
    };
    let global = match GlobalArgs::from_arg_matches(&matches) {
        Ok(global) => global,
        Err(error) => return print_usage(&error, &raw, &variables),
    };
    let mut surroundings = Surroundings::clone(&Surroundings::current());
    let log_level = log_level(&global);
    if log_level != log::LevelFilter::Off {
        log_to_stderr(log_level);
        surroundings.log_level = log_level;
    }
    let ui = Ui::new(global.json, global.quiet, global.color, &variables);
    let mut cx = CommandContext { ui, variables, global, place: None, uses_store: false };
    if let Some(dir) = &cx.global.directory {
        surroundings.directory = match directory_at(dir) {
            Ok(directory) => Some(directory),
            Err(error) => return cx.print_error(error),
        };
    }
    if surroundings.streams.iter().all(Stream::is_of_process) {
        // Then all threads of the process belong to this command.
        surroundings.clone().set_for_process();
    }
    surroundings.enter(|| finish(&mut cx, &matches))
}

/// Runs a command and prints its warnings and its error.
fn finish(cx: &mut CommandContext, matches: &ArgMatches) -> ExitCode {
    let result = run_command(cx, matches);
    cx.ui.print_pending_warnings();
    match result {
        Ok(code) => code,
        Err(error) => cx.print_error(error),
    }
}

/// Returns the definition of the command line; `cargo xtask docs` generates the documentation from it.
pub fn command() -> Command {
    help::with_groups(define(|_| true))
}

/// Returns the subcommand that clap did not recognise.
fn unknown_command(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    }
}

/// Reads the arguments.
///
/// Defining all commands takes longer than running most of them. The first attempt therefore defines only the commands
/// whose names appear in the arguments; help and errors need all of them, so a failed attempt defines everything.
fn parse(raw: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let is_named = |entry: &CommandEntry| raw.iter().any(|arg| entry.is_called(arg));
    match define(is_named).try_get_matches_from(raw) {
        Err(error) if error.kind() != ErrorKind::DisplayVersion => command().try_get_matches_from(raw),
        other => other,
    }
}

/// Reads arguments in which a word stands for a command. Prints the error if that fails.
fn parse_meant(mut error: clap::Error, raw: &[OsString], variables: &Variables) -> Result<ArgMatches, ExitCode> {
    let mut args = raw.to_vec();
    // One word may lead to another: way issue ls.
    for _ in 0..2 {
        match unknown_command(&error).and_then(|word| help::meant(&args, &word)) {
            None => break,
            Some(Err(error)) => return Err(print_usage_error(&error, raw, variables)),
            Some(Ok(meant)) => args = meant,
        }
        match parse(&args) {
            Ok(matches) => return Ok(matches),
            Err(next) => error = next,
        }
    }
    Err(print_usage(&error, raw, variables))
}

fn define(is_included: impl Fn(&CommandEntry) -> bool) -> Command {
    let way = Command::new("way")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT.lines().next())
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true);
    let entries = COMMANDS.iter().filter(|entry| is_included(entry));
    <GlobalArgs as clap::Args>::augment_args(way).subcommands(
        entries.map(|entry| (entry.define)(Command::new(entry.name).visible_aliases(entry.aliases.iter().copied()))),
    )
}

fn run_command(cx: &mut CommandContext, matches: &ArgMatches) -> Result<ExitCode> {
    let Some((name, matches)) = matches.subcommand() else {
        return Err(Error::invalid("no command given").hint("run way --help for a list of commands"));
    };
    let is_filtered = match (name, matches.subcommand_name()) {
        ("status" | "top" | "events" | "worker", _) | ("task", Some("claim" | "next")) => true,
        (name, Some("list")) => ["worktree", "workflow", "task", "job", "ws", "agent"].contains(&name),
        _ => false,
    };
    if cx.global.worktree.is_some() && !is_filtered {
        return Err(Error::invalid("--worktree does not apply to this command").hint(
            "it filters way status, way top, way events, and the lists of worktrees, workflows, tasks, jobs, workspaces and \
             agents, and chooses for way task claim, way task next and way worker",
        ));
    }
    if matches!(name, "agent" | "msg" | "token") {
        // For these commands --role is the role of an agent, not the role of the user in the repository.
        cx.global.role = None;
    }
    match COMMANDS.iter().find(|entry| entry.name == name) {
        Some(entry) => (entry.run)(cx, matches),
        None => Err(Error::internal(format!("the command {name} is not in the table"))),
    }
}

/// The state that every command receives.
struct CommandContext {
    ui: Ui,
    variables: Variables,
    global: GlobalArgs,
    /// Kept for error messages, which name the store.
    place: Option<Place>,
    /// Whether the command uses the store.
    uses_store: bool,
}

impl CommandContext {
    /// Prints the error that ends the command, and returns its exit code.
    fn print_error(&self, error: Error) -> ExitCode {
        let error = match &self.place {
            Some(place) => explain_denied(error, place),
            None => error,
        };
        let store = self.place.as_ref().filter(|_| self.uses_store).and_then(|place| place.store().ok());
        let store = store.map(|choice| (choice.location.to_string(), choice.source.to_string()));
        self.ui.error(&error, store.as_ref().map(|(path, because)| (path.as_str(), because.as_str())));
        ExitCode::from(error.kind().exit_code())
    }

    /// Returns what decides the place: the directory, the environment and the global options.
    fn request(&self) -> Result<Request> {
        let cwd = surroundings::directory()
            .map_err(|error| Error::unavailable("cannot determine the current directory").because(error))?;
        Ok(self.global.request(cwd, self.variables.clone()))
    }

    /// Resolves the repository, the store and the configuration. Prints each warning once.
    fn place(&mut self) -> Result<Place> {
        let place = Place::resolve(self.request()?)?;
        for warning in &place.warnings {
            self.ui.warn(warning);
        }
        self.place = Some(place.clone());
        Ok(place)
    }

    /// Opens the store.
    fn session(&mut self) -> Result<Session> {
        self.session_by(Session::open)
    }

    /// Opens the store, and creates it if it does not exist, for a command that reads it before it writes.
    fn session_to_write(&mut self) -> Result<Session> {
        self.session_by(Session::create)
    }

    /// Opens the store, if there is one here. There is none outside of a repository, and none in a workspace whose store is
    /// gone.
    fn session_if_any(&mut self) -> Result<(Place, Option<Session>)> {
        let place = self.place()?;
        if place.is_without_store() {
            return Ok((place, None));
        }
        Ok((place, Some(self.session()?)))
    }

    fn session_by(&mut self, open: fn(Place) -> Result<Session>) -> Result<Session> {
        self.uses_store = true;
        let place = self.place()?;
        let shown = place.warnings.len();
        let mut session = open(place)?;
        session.collect_warnings_in(self.ui.pending.clone());
        for warning in &session.place.warnings[shown..] {
            self.ui.warn(warning);
        }
        Ok(session)
    }
}

/// Returns the directory named by `-C`.
fn directory_at(named: &Path) -> Result<PathBuf> {
    let found = surroundings::resolve(named).canonicalize().and_then(|found| {
        // Only a directory that the user may enter has an entry of this name.
        found.join(".").metadata().map(|_| found)
    });
    found.map_err(|error| Error::invalid(format!("cannot change to directory {}", named.display())).because(error))
}

/// Returns what a command logs to stderr.
fn log_level(global: &GlobalArgs) -> log::LevelFilter {
    if global.verbose {
        log::LevelFilter::Debug
    } else if !global.quiet && surroundings::stderr().is_terminal() {
        log::LevelFilter::Warn
    } else {
        log::LevelFilter::Off
    }
}

/// Returns the message and its hints in one line, because clap prints only one line for an invalid value.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn in_one_line(error: Error) -> String {
    std::iter::once(error.full_message()).chain(error.hints().iter().cloned()).collect::<Vec<_>>().join("; ")
}

/// Prints help, the version or a usage error, and returns the exit code.
fn print_usage(error: &clap::Error, raw: &[OsString], variables: &Variables) -> ExitCode {
    let is_error = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_error && raw.iter().any(|arg| arg == OsStr::new("--json")) {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let mut converted = Error::invalid(message);
        for line in lines.filter(|line| !line.starts_with("Usage:")) {
            converted = converted.hint(line.trim_start_matches("tip: "));
        }
        return print_usage_error(&converted, raw, variables);
    }
    let stream = if error.use_stderr() { surroundings::stderr() } else { surroundings::stdout() };
    Ui::new(false, false, Color::Auto, variables).print_usage(&error.render(), stream);
    ExitCode::from(if is_error { Kind::Invalid.exit_code() } else { 0 })
}

/// Prints an error about the arguments before they are parsed.
fn print_usage_error(error: &Error, raw: &[OsString], variables: &Variables) -> ExitCode {
    let is_json = raw.iter().any(|arg| arg == OsStr::new("--json"));
    Ui::new(is_json, false, Color::Auto, variables).error(error, None);
    ExitCode::from(error.kind().exit_code())
}

/// Makes the log of commands with this level possible. Each command logs to its own stderr.
fn log_to_stderr(level: log::LevelFilter) {
    struct Stderr;

    impl log::Log for Stderr {
        fn enabled(&self, about: &log::Metadata<'_>) -> bool {
            about.level() <= Surroundings::current().log_level
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                ui::print_error(&format!("way: {}", escape::escape(&record.args().to_string())));
            }
        }

        fn flush(&self) {}
    }

    let _ = log::set_logger(&Stderr);
    if log::max_level() < level {
        log::set_max_level(level);
    }
}
