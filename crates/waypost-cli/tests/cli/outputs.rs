//! Complete outputs, as text and as JSON. `UPDATE_EXPECT=1` rewrites them.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::fmt::Write as _;

use expect_test::{Expect, expect, expect_file};
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

fn check(sandbox: &Sandbox, run: &Run, expected: &Expect) {
    expected.assert_eq(&sandbox.normalized(&run.whole()));
}

/// A repository with a linked worktree, seen from the main one.
fn prepared() -> (Sandbox, std::path::PathBuf) {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    (sandbox, repo)
}

#[test]
fn place_of_a_fresh_repository() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    check(
        &sandbox,
        &sandbox.way(&repo, ["where"]),
        &expect![[r#"
            repository       /sandbox/repo                           repo, git
            worktree         /sandbox/repo                           main worktree, on main
            store            /sandbox/repo/.git/waypost/state.db     default: one store per repository, shared by its worktrees; does not exist yet
            index            /sandbox/repo/.git/waypost/index.db     default: private to this clone; does not exist yet
            ledger           /sandbox/repo/.waypost/issues.jsonl     default: the main worktree's; does not exist yet
            config, shared   /sandbox/repo/.waypost/config.toml      default: tracked with the repository; does not exist yet
            config, private  /sandbox/repo/.git/waypost/config.toml  default: private to this clone; does not exist yet
            config, user     /sandbox/home/.waypost/config.toml      default: your settings for all repositories; does not exist yet
            home             /sandbox/home/.waypost                  default: ~/.waypost; does not exist yet
            workspaces       /sandbox/home/.waypost/workspaces       default: ~/.waypost; does not exist yet
            mirrors          /sandbox/home/.waypost/mirrors          default: ~/.waypost; does not exist yet
            token            /sandbox/home/.waypost/token            default: ~/.waypost; does not exist yet
            role             maintainer                                         default: there is no remote
            new issues       /sandbox/repo                           the repository you are in
        "#]],
    );
}

#[test]
fn place_as_json() {
    let (sandbox, repo) = prepared();
    check(
        &sandbox,
        &sandbox.way(&repo, ["where", "--json"]),
        &expect![[r#"
            {"schema":"waypost/1","data":{"workspace":null,"repository":{"id":"rp_000000000001","name":"repo","vcs":"git","path":"/sandbox/repo","shared_dir":"/sandbox/repo/.git","private_dir":"/sandbox/repo/.git/waypost","remote_url":null,"default_branch":null},"worktree":{"id":"wt_000000000002","name":"repo","path":"/sandbox/repo","branch":"main","main":true},"store":{"path":"/sandbox/repo/.git/waypost/state.db","kind":"sqlite","scope":"repo","source":"default","because":"one store per repository, shared by its worktrees","exists":true},"index":{"path":"/sandbox/repo/.git/waypost/index.db","source":"default","because":"private to this clone","exists":false},"ledger":{"path":"/sandbox/repo/.waypost/issues.jsonl","source":"default","because":"the main worktree's","exists":false,"home":"main"},"config_shared":{"path":"/sandbox/repo/.waypost/config.toml","source":"default","because":"tracked with the repository","exists":false},"config_private":{"path":"/sandbox/repo/.git/waypost/config.toml","source":"default","because":"private to this clone","exists":false},"config_user":{"path":"/sandbox/home/.waypost/config.toml","source":"default","because":"your settings for all repositories","exists":false},"home":{"path":"/sandbox/home/.waypost","source":"default","because":"~/.waypost","exists":true},"workspaces":{"path":"/sandbox/home/.waypost/workspaces","source":"default","because":"~/.waypost","exists":false},"mirrors":{"path":"/sandbox/home/.waypost/mirrors","source":"default","because":"~/.waypost","exists":false},"token":{"path":"/sandbox/home/.waypost/token","source":"default","because":"~/.waypost","exists":false},"not_read":[],"role":{"role":"maintainer","source":"default","because":"there is no remote"},"repos":{"read":["/sandbox/repo"],"unreachable":[]},"route":{"path":"/sandbox/repo","because":"the repository you are in","primary_protected":false}},"warnings":[]}
        "#]],
    );
}

#[test]
fn status_of_a_repository_with_two_worktrees() {
    let (sandbox, repo) = prepared();
    check(
        &sandbox,
        &sandbox.way(&repo, ["status"]),
        &expect![[r#"
            There is nothing yet: no issues, workflows or agents.

            Worktrees
            * repo        main   here     now  /sandbox/repo
              repo-topic  topic  present  now  /sandbox/repo-topic

            Store
              /sandbox/repo/.git/waypost/state.db  3 events

            Latest
              3  worktree.registered    repo-topic  by tester in repo-topic  now
              2  worktree.registered    repo        by tester in repo        now
              1  repository.registered  repo        by tester in repo        now
        "#]],
    );
}

#[test]
fn status_as_json() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    check(
        &sandbox,
        &sandbox.way(&repo, ["status", "--json"]),
        &expect![[r#"
            {"schema":"waypost/1","data":{"groups":[{"group":"needs_you","total":0,"rows":[]},{"group":"stuck","total":0,"rows":[]},{"group":"working","total":0,"rows":[]},{"group":"queued","total":0,"rows":[]},{"group":"done","total":0,"rows":[]}],"questions":[],"dead":[],"messages":[],"stuck":[],"working":[],"ready":[],"waiting":[],"workflows":[],"agents":[],"issues_in_work":[],"totals":{"questions":0,"dead":0,"messages":0,"stuck":0,"working":0,"ready":0,"waiting":0,"workflows":0,"agents":0,"issues":0},"last":2,"jobs":[],"issues":null,"worktrees":[{"id":"wt_000000000001","name":"repo","path":"/sandbox/repo","branch":"main","repository":"repo","repository_id":"rp_000000000002","state":"here","last_seen":"2026-01-01T00:00:00.000Z"}],"store":{"path":"/sandbox/repo/.git/waypost/state.db","kind":"sqlite","scope":"repo","source":"default","because":"one store per repository, shared by its worktrees","events":2},"events":[{"sequence":2,"time":"2026-01-01T00:00:00.000Z","actor":"tester","worktree_id":"wt_000000000001","kind":"worktree.registered","subject":"wt_000000000001","data":{"after":{"id":"wt_000000000001","repository_id":"rp_000000000002","name":"repo","path":"/sandbox/repo","branch":"main","first_seen":"2026-01-01T00:00:00.000Z","last_seen":"2026-01-01T00:00:00.000Z","removed_at":null}}},{"sequence":1,"time":"2026-01-01T00:00:00.000Z","actor":"tester","worktree_id":"wt_000000000001","kind":"repository.registered","subject":"rp_000000000002","data":{"after":{"id":"rp_000000000002","name":"repo","path":"/sandbox/repo","vcs":"git","remote_url":null,"default_branch":null}}}]},"warnings":[]}
        "#]],
    );
}

#[test]
fn list_of_worktrees_in_every_state() {
    let (sandbox, repo) = prepared();
    let _ = sandbox.way(&repo, ["worktree", "add", "removed"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "rm", "repo-removed"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "add", "vanished"]).ok();
    sandbox.git(&repo, ["worktree", "remove", "../repo-vanished"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "--detach", "../unused"]);
    let variables = [("WAYPOST_TEST_CLOCK", "2026-01-03T12:00:00Z".as_ref())];
    check(
        &sandbox,
        &sandbox.way_with(&repo, &variables, ["worktree", "list"]),
        &expect![[r#"
          NAME           BRANCH    STATE    SEEN    ID               PATH
        * repo           main      here     2d ago  wt_000000000001  /sandbox/repo
          repo-removed   removed   removed  2d ago  wt_000000000002  /sandbox/repo-removed
          repo-topic     topic     present  2d ago  wt_000000000003  /sandbox/repo-topic
          repo-vanished  vanished  gone     2d ago  wt_000000000004  /sandbox/repo-vanished
          unused         -         new      -       -                /sandbox/unused
    "#]],
    );
}

#[test]
fn init_and_init_again() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    check(
        &sandbox,
        &sandbox.way(&repo, ["init"]),
        &expect![[r#"
            Created /sandbox/repo/.waypost/config.toml
            Created /sandbox/repo/.waypost/.gitignore
            Created /sandbox/repo/.waypost/.gitattributes
            Store: /sandbox/repo/.git/waypost/state.db
            Commit .waypost to share it with your team.
            Issues are tracked with your files; to keep them out of pull requests: way init --team
        "#]],
    );
    check(
        &sandbox,
        &sandbox.way(&repo, ["init"]),
        &expect![[r#"
            Store: /sandbox/repo/.git/waypost/state.db
            Issues are tracked with your files; to keep them out of pull requests: way init --team
        "#]],
    );
}

#[test]
fn doctor_of_a_healthy_repository() {
    let (sandbox, repo) = prepared();
    let run = sandbox.way(&repo, ["doctor"]);
    let version = sandbox.git(&repo, ["version"]).trim().replace("git version ", "");
    // The machine decides what can restrict jobs.
    let lines = run.stdout.split_inclusive('\n').filter(|line| !line.contains("  sandbox  "));
    let stdout = lines.collect::<String>().replace(&version, "[git version]");
    let run = Run { stdout, ..run };
    check(
        &sandbox,
        &run,
        &expect![[r#"
            STATE  CHECK        FINDING
            ok     git          [git version]
            ok     config       no unknown keys
            ok     permissions  state files are readable only by you
            ok     identity     known
            ok     store        /sandbox/repo/.git/waypost/state.db is intact
            ok     worktrees    2 on disk, 0 gone
        "#]],
    );
}

#[test]
fn store_facts() {
    let (sandbox, repo) = prepared();
    let run = sandbox.way(&repo, ["db", "info"]);
    let without = |line: &str| ["size", "log", "sqlite"].iter().any(|varying| line.starts_with(varying));
    let stdout = run.stdout.split_inclusive('\n').filter(|line| !without(line)).collect();
    check(
        &sandbox,
        &Run { stdout, ..run },
        &expect![[r#"
            path                   /sandbox/repo/.git/waypost/state.db
            chosen                 default: one store per repository, shared by its worktrees
            schema                 11
            journal_mode           wal
            synchronous            full
            foreign_keys           on
            trusted_schema         off
            agents                 0 rows
            answers                0 rows
            checkpoints            0 rows
            deferred_changes       0 rows
            dependencies           0 rows
            events                 3 rows
            job_logs               0 rows
            jobs                   0 rows
            leases                 0 rows
            machines               0 rows
            messages               0 rows
            notices                0 rows
            repositories           1 row
            summaries              0 rows
            tasks                  0 rows
            templates              0 rows
            workflow_repositories  0 rows
            workflows              0 rows
            workspaces             0 rows
            worktrees              2 rows
        "#]],
    );
}

#[test]
fn configuration_with_origins() {
    let (sandbox, repo) = prepared();
    let _ = sandbox.way(&repo, ["config", "set", "--shared", "prefix", "way"]).ok();
    let _ = sandbox.way(&repo, ["config", "set", "store.wait", "10s"]).ok();
    check(
        &sandbox,
        &sandbox.way(&repo, ["config", "list", "--show-origin"]),
        &expect![[r#"
            KEY         VALUE  ORIGIN
            prefix      way    /sandbox/repo/.waypost/config.toml
            store.wait  10s    /sandbox/repo/.git/waypost/config.toml
        "#]],
    );
    check(
        &sandbox,
        &sandbox.way(&repo, ["config", "list", "--all"]),
        &expect![[r#"
            KEY                             VALUE   MEANING
            config.accepted                 -       values of the tracked configuration that may lead out of the repository (way config accept)
            jobs.env                        -       further environment variables that jobs inherit
            jobs.grace                      3s      time between asking a job to end and killing it
            jobs.log_limit                  64MiB   maximum size of the kept output of a job
            jobs.memory_limit               -       maximum memory of the processes of a job together
            jobs.network                    on      whether jobs can use the network
            jobs.process_limit              -       maximum number of processes and threads of a job
            jobs.sandbox                    -       whether jobs can use only their own files [default: off, and on for jobs that come over HTTP]
            jobs.sandbox_read               -       further paths that jobs in a sandbox can read
            jobs.sandbox_write              -       further paths that jobs in a sandbox can change
            jobs.shared_log                 1MiB    size of a job's output that a store shared by machines keeps for the others
            jobs.timeout                    -       maximum run time of a job
            lease.max                       7d      time for which an agent may renew one claim of an issue, or of a task without a timeout; 0s means no limit
            lease.ttl                       -       time until an agent's claim expires without a renewal [default: 30m for issues, 10m for tasks]
            lease.ttl_human                 -       time until a person's claim expires without a renewal [default: it lasts until it is released]
            ledger.home                     main    where the ledger is: in the main worktree, in each worktree, or on a branch of its own (way migrate --home)
            prefix                          way     prefix of the ids of new issues [default: the ledger's, else the name of the remote, else of the directory]
            prune.auto                      off     whether a change to an issue prunes a large ledger
            ready.unresolved                block   whether a dependency that is in no ledger blocks an issue
            redact.env                      -       environment variables whose values are removed from logs, records and issues
            repos.additional                -       further repositories whose ledgers are read
            repos.primary                   .       the repository whose ledger comes first
            role                            -       your role in this repository [default: detected]
            routing.auto.contributor        -       repository for the new issues of a contributor
            routing.auto.maintainer         -       repository for the new issues of a maintainer
            routing.default                 -       repository for all other new issues
            routing.mode                    -       how Waypost chooses the ledger of a new issue: by your role, or explicit, only by --repo or routing.default
            scope                           repo    who shares a store: the worktrees of a repository, one worktree, or all repositories
            statuses.active                 -       further statuses of issues that can be ready
            statuses.done                   -       further statuses of issues that are finished
            statuses.frozen                 -       further statuses of issues that are deferred
            statuses.wip                    -       further statuses of issues in progress
            store.network                   refuse  whether a store may be on a network file system
            store.wait                      10s     maximum time to wait for other processes
            sync.push                       ledger  commits that way sync pushes: only those of the ledger, all of the branch, or none
            sync.timeout                    2m      maximum time to wait for a remote; 0s means no limit
            workspaces.cleanup_on_complete  false   whether to remove the workspace of an ended job, if no work would be lost
            workspaces.include              -       patterns of ignored files that are copied into workspaces
            workspaces.keep_count           -       number of workspaces that way ws gc keeps
            workspaces.keep_for             7d      age at which way ws gc removes workspaces
            workspaces.limit                -       maximum size of a workspace
            workspaces.path                 -       directory of workspaces
            workspaces.policy               stop    above workspaces.total: refuse new jobs, or remove the oldest workspaces that lose no work
            workspaces.pool                 0       number of workspaces that way ws warm creates in advance
            workspaces.setup                -       command that sets up a workspace; it runs only if you trust it
            workspaces.strategy             -       how workspaces are created [default: depends on the repository]
            workspaces.total                -       maximum size of all workspaces together
        "#]],
    );
}

#[test]
fn errors_as_text_and_as_json() {
    let sandbox = sandbox();
    let dir = sandbox.dir("nowhere");
    check(
        &sandbox,
        &sandbox.way(&dir, ["status"]),
        &expect![[r#"
            --- stderr
            error: /sandbox/nowhere is not in a repository
            hint: change into one, or create one here: way init
            hint: or name a store: --global, --db PATH, or WAYPOST_DB=PATH
            --- exit code 2
        "#]],
    );
    check(
        &sandbox,
        &sandbox.way(&dir, ["status", "--json"]),
        &expect![[r#"
            --- stderr
            {"schema":"waypost/1","error":{"code":"invalid","message":"/sandbox/nowhere is not in a repository","hints":["change into one, or create one here: way init","or name a store: --global, --db PATH, or WAYPOST_DB=PATH"]}}
            --- exit code 2
        "#]],
    );
    let repo = sandbox.git_repo("repo");
    check(
        &sandbox,
        &sandbox.way(&repo, ["worktree", "rm", "none"]),
        &expect![[r#"
        --- stderr
        error: there is no worktree "none"
        hint: way worktree list shows all
        store: /sandbox/repo/.git/waypost/state.db (default: one store per repository, shared by its worktrees)
        --- exit code 3
    "#]],
    );
    check(
        &sandbox,
        &sandbox.way(&repo, ["worktree", "add"]),
        &expect![[r#"
        --- stderr
        error: the following required arguments were not provided:
          <BRANCH>

        Usage: way worktree add <BRANCH> [PATH]

        For more information, try '--help'.
        --- exit code 2
    "#]],
    );
}

#[test]
fn refusing_to_remove_work() {
    let (sandbox, repo) = prepared();
    sandbox.write(sandbox.path("repo-topic/new"), "x");
    check(
        &sandbox,
        &sandbox.way(&repo, ["worktree", "rm", "repo-topic"]),
        &expect![[r#"
            --- stderr
            error: worktree repo-topic has work that would be lost: 1 file not under version control
            hint: commit and push it, or save and remove it with --force
            store: /sandbox/repo/.git/waypost/state.db (default: one store per repository, shared by its worktrees)
            --- exit code 7
        "#]],
    );
}

#[test]
fn colours_are_only_for_terminals_or_on_demand() {
    let (sandbox, repo) = prepared();
    assert!(!sandbox.way(&repo, ["status"]).stdout.contains('\x1b'));
    assert!(sandbox.way(&repo, ["status", "--color", "always"]).stdout.contains("\x1b[1mStore\x1b[0m"));
    assert!(!sandbox.way(&repo, ["status", "--color", "never"]).stdout.contains('\x1b'));
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    let sandbox = sandbox();
    let hostile = "evil\u{1b}[2J\u{202e}\u{7}\nx";
    let repo = sandbox.git_repo(hostile);
    let variables = [("WAYPOST_ACTOR", "act\u{1b}]52;c;x\u{7}or".as_ref())];
    let _ = sandbox.way_with(&repo, &variables, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    for command in [
        vec!["status"],
        vec!["where"],
        vec!["worktree", "list"],
        vec!["doctor"],
        vec!["db", "info"],
        vec!["worktree", "rm", hostile],
        vec!["worktree", "rm", "no\u{1b}ne"],
    ] {
        let run = sandbox.way(&repo, &command);
        let sent = format!("{}{}", run.stdout, run.stderr);
        let obeyed: Vec<char> =
            sent.chars().filter(|char| (char.is_control() && *char != '\n') || *char == '\u{202e}').collect();
        assert!(obeyed.is_empty(), "{command:?} sends {obeyed:?}: {sent}");
    }
    // JSON output contains the text unchanged.
    let list = sandbox.way(&repo, ["worktree", "list", "--json"]).data();
    assert_eq!(list[0]["name"], hostile);
}

#[test]
fn no_name_can_imitate_a_line_of_output() {
    let sandbox = sandbox();
    let run = sandbox.way(&sandbox.path(""), ["-C", "x\nhint: run evil", "status"]).fails(2);
    assert!(!run.stderr.lines().any(|line| line.starts_with("hint: run evil")), "{}", run.stderr);
}

#[test]
fn quiet_prints_only_the_answer_and_verbose_prints_the_programs_run() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way(&repo, ["db", "probe", "--writes", "3", "--quiet"]).ok();
    assert_eq!(run.stdout.lines().count(), 1);
    let run = sandbox.way(&repo, ["-v", "worktree", "add", "topic"]);
    assert!(run.stderr.contains("way: run git ") && run.stderr.contains(" worktree add "), "{}", run.stderr);
}

#[test]
fn the_reference_of_commands_is_up_to_date() {
    fn describe(command: &mut clap::Command, path: &str, page: &mut String) {
        // Global options are described once, with the program itself.
        let mut shown = command.clone().mut_args(|arg| {
            let hide = path != "way" && arg.is_global_set();
            if hide { arg.hide(true) } else { arg }
        });
        let help = shown.render_long_help().to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        write!(page, "\n## {path}\n\n```text\n{}\n```\n", help.join("\n")).unwrap();
        let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
        for name in names {
            let inner = command.find_subcommand_mut(&name).unwrap();
            describe(inner, &format!("{path} {name}"), page);
        }
    }
    let mut command = waypost_cli::command().term_width(100);
    command.build();
    let mut page = String::from(
        "# Commands\n\nMade from the program itself by `cargo xtask docs`. Every command takes the global options, too.\n",
    );
    describe(&mut command, "way", &mut page);
    expect_file!["../../../../docs/commands.md"].assert_eq(&page);
}
