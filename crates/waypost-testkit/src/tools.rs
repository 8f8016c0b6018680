//! The external programs that tests run.
//!
//! `cargo xtask test` installs all of them; a plain `cargo test` finds them afterwards. A test never passes because a
//! program or a permission is missing: it fails, and the failure names the command that installs the program, or the
//! option that leaves the test out. The runner counts a test that was left out as filtered.

use std::path::PathBuf;

/// Returns jj.
#[track_caller]
pub fn jj() -> PathBuf {
    require(find_jj(), "jj")
}

/// Returns Mercurial.
#[track_caller]
pub fn hg() -> PathBuf {
    require(in_path("hg"), "hg")
}

/// Returns a Python with the official MCP client.
#[track_caller]
pub fn mcp_python() -> PathBuf {
    require(installed("WAYPOST_TEST_MCP_PYTHON", "mcp-", "bin/python"), "the official MCP client for Python")
}

/// Returns the pre-commit framework, which runs hooks of git.
#[track_caller]
pub fn pre_commit() -> PathBuf {
    require(installed("WAYPOST_TEST_PRECOMMIT", "pre-commit-", "bin/pre-commit"), "pre-commit")
}

/// Returns a Python with libgit2.
#[track_caller]
pub fn pygit2() -> PathBuf {
    require(installed("WAYPOST_TEST_PYGIT2", "pygit2-", "bin/python"), "pygit2")
}

/// Returns pgbouncer.
#[track_caller]
pub fn pgbouncer() -> PathBuf {
    // Debian installs it outside the PATH of users.
    let debian = Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|file| file.is_file());
    require(debian.or_else(|| in_path("pgbouncer")), "pgbouncer")
}

/// Returns Chromium, and its driver, which speaks WebDriver.
#[track_caller]
pub fn chromium() -> (PathBuf, PathBuf) {
    (require(in_path("chromium"), "chromium"), require(in_path("chromedriver"), "chromedriver"))
}

/// Returns tmux, a terminal whose screen a test can read.
#[track_caller]
pub fn tmux() -> PathBuf {
    require(in_path("tmux"), "tmux")
}

/// Returns axe-core, a script that finds defects in the accessibility of pages.
#[track_caller]
pub fn axe() -> PathBuf {
    npm_program("WAYPOST_TEST_AXE", "axe-core-", "axe.min.js", "axe-core")
}

/// Returns strace, which may trace processes here.
#[track_caller]
pub fn strace() -> PathBuf {
    match find_strace() {
        Ok(strace) => strace,
        Err(why) => unavailable(&why),
    }
}

/// Returns strace if it may trace processes here, or the reason why not.
pub fn find_strace() -> Result<PathBuf, String> {
    let strace = in_path("strace").ok_or("strace is not installed; `cargo xtask test` installs it")?;
    let tried = std::process::Command::new(&strace).args(["-o", "/dev/null", "true"]).output();
    match tried {
        Ok(tried) if tried.status.success() => Ok(strace),
        other => Err(format!("strace may not trace processes here: {other:?}")),
    }
}

/// Returns schemathesis, which tests a server against its OpenAPI description.
#[track_caller]
pub fn schemathesis() -> PathBuf {
    require(installed("WAYPOST_TEST_SCHEMATHESIS", "schemathesis-", "bin/schemathesis"), "schemathesis")
}

/// Returns Node, the published conformance suite of MCP and its next version.
#[track_caller]
pub fn mcp_conformance() -> [PathBuf; 3] {
    const NODE: &str = "node_modules/node/bin/node";
    let node = installed("WAYPOST_TEST_MCP_CONFORMANCE", "mcp-conformance-", NODE);
    let node = require(node, "the conformance suite of MCP");
    let modules = node.ancestors().nth(3).expect("the directory of modules").to_owned();
    let files = ["node/bin/node", "conformance/dist/index.js", "conformance-next/dist/index.js"];
    files.map(|file| modules.join(file))
}

/// Returns Claude Code.
#[track_caller]
pub fn claude() -> PathBuf {
    npm_program("WAYPOST_TEST_CLAUDE", "claude-code-", "claude", "Claude Code")
}

/// Returns Codex.
#[track_caller]
pub fn codex() -> PathBuf {
    let file = format!("vendor/{}-unknown-linux-musl/bin/codex", std::env::consts::ARCH);
    npm_program("WAYPOST_TEST_CODEX", "codex-", &file, "Codex")
}

/// Returns the Node that runs Gemini CLI, and its script.
#[track_caller]
pub fn gemini() -> [PathBuf; 2] {
    [
        npm_program("WAYPOST_TEST_NODE", "node-", "bin/node", "Node"),
        npm_program("WAYPOST_TEST_GEMINI", "gemini-cli-", "bundle/gemini.js", "Gemini CLI"),
    ]
}

/// Returns the Node that runs Qwen Code, and its script.
#[track_caller]
pub fn qwen() -> [PathBuf; 2] {
    [
        npm_program("WAYPOST_TEST_NODE", "node-", "bin/node", "Node"),
        npm_program("WAYPOST_TEST_QWEN", "qwen-code-", "cli.js", "Qwen Code"),
    ]
}

/// Returns opencode.
#[track_caller]
pub fn opencode() -> PathBuf {
    npm_program("WAYPOST_TEST_OPENCODE", "opencode-", "bin/opencode", "opencode")
}

/// Returns Copilot CLI.
#[track_caller]
pub fn copilot() -> PathBuf {
    npm_program("WAYPOST_TEST_COPILOT", "copilot-", "copilot", "Copilot CLI")
}

/// Returns a file of a package from npm.
#[track_caller]
fn npm_program(variable: &str, prefix: &str, file: &str, name: &str) -> PathBuf {
    require(installed(variable, prefix, &format!("node_modules/program/{file}")), name)
}

/// Returns the directory of generators of clients from OpenAPI: a Python in `python`, and Node with its modules.
#[track_caller]
pub fn generators() -> PathBuf {
    const NODE: &str = "node_modules/node/bin/node";
    let node = installed("WAYPOST_TEST_GENERATORS", "openapi-clients-", NODE);
    let node = require(node, "the generators of clients from OpenAPI");
    node.ancestors().nth(4).expect("the directory of the generators").to_owned()
}

/// Fails a test that this machine or user cannot run: a test that proved nothing is not a pass.
#[track_caller]
pub fn unavailable(why: &str) -> ! {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("NAME");
    panic!("this test cannot run here: {why}\nRun it where it can, or leave it out: cargo test -- --skip {test}");
}

#[track_caller]
fn require(found: Option<PathBuf>, program: &str) -> PathBuf {
    match found {
        Some(found) => found,
        None => unavailable(&format!("{program} is not installed; `cargo xtask test` installs it")),
    }
}

/// Returns jj, if it is installed.
pub(crate) fn find_jj() -> Option<PathBuf> {
    installed("WAYPOST_TEST_JJ", "jj-", "bin/jj").or_else(|| in_path("jj"))
}

/// Returns a file that `cargo xtask test` installed: a variable names it or its root, else it is in the newest directory
/// with this prefix in the cache of tools.
fn installed(variable: &str, prefix: &str, file: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable).map(PathBuf::from) {
        return [named.join(file), named].into_iter().find(|path| path.is_file());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let entries = std::fs::read_dir(cache.join("waypost-tools")).ok()?.flatten();
    let roots = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let files = roots.map(|root| root.path().join(file)).filter(|file| file.is_file());
    files.max_by_key(|file| std::fs::metadata(file).and_then(|data| data.modified()).ok())
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
