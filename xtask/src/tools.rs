//! The programs that tests run for real, installed where they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run;

/// The version of jj that tests are run with. Built once and kept outside the checkout.
const JJ: &str = "0.45.1";
/// The version of schemathesis that tests are run with, from PyPI, likewise.
const SCHEMATHESIS: &str = "4.32.5";

/// The version of the official MCP client for Python that tests are run with.
const MCP_CLIENT: &str = "2.3.0";

/// The versions of the published suite that tells whether a server speaks MCP, from npm: the one that counts, and the one to
/// come, which knows the newest protocol. And that of the Node they are run with: the machine's may be too old.
const MCP_CONFORMANCE: &str = "0.1.16";
const MCP_CONFORMANCE_NEXT: &str = "0.2.0-alpha.12";
const NODE: &str = "22.23.3";

/// Debian packages, each with the program it brings.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("mercurial", "hg"),
    ("bindfs", "bindfs"),
    ("strace", "strace"),
    ("bsdutils", "script"),
    ("faketime", "faketime"),
    ("xfsprogs", "/usr/sbin/mkfs.xfs"),
    ("btrfs-progs", "/usr/bin/btrfs"),
    ("pgbouncer", "/usr/sbin/pgbouncer"),
    ("python3-venv", "python3"),
];

/// What was found or installed.
pub(crate) struct Tools {
    jj: Option<PathBuf>,
    /// A Python with the MCP client.
    mcp_python: Option<PathBuf>,
    schemathesis: Option<PathBuf>,
    /// A directory with the conformance suite of MCP and a Node.
    mcp_conformance: Option<PathBuf>,
    complete: bool,
}

impl Tools {
    /// Tells the tests where the tools are, and whether a missing one is a failure.
    pub(crate) fn for_tests(&self, mut command: Command) -> Command {
        if let Some(jj) = &self.jj {
            command.env("WAYPOST_TEST_JJ", jj);
        }
        if let Some(python) = &self.mcp_python {
            command.env("WAYPOST_TEST_MCP_PYTHON", python);
        }
        if let Some(schemathesis) = &self.schemathesis {
            command.env("WAYPOST_TEST_SCHEMATHESIS", schemathesis);
        }
        if let Some(suite) = &self.mcp_conformance {
            command.env("WAYPOST_TEST_MCP_CONFORMANCE", suite);
        }
        if self.complete {
            command.env("WAYPOST_TEST_TOOLS", "1");
        }
        command
    }
}

/// Finds every tool, or installs it. What cannot be had is said loudly; tests that need it say so again.
pub(crate) fn install() -> Tools {
    let mut missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| *package).collect();
    if !has_postgres() {
        missing.push("postgresql");
    }
    if !missing.is_empty() {
        install_packages(&missing);
    }
    let (jj, mcp_python) = (find_jj(), find_mcp_python());
    let complete = jj.is_some() && mcp_python.is_some() && is_there("git") && is_there("hg");
    if !complete {
        eprintln!("WARNING: not every tool could be had; tests that need a missing one are SKIPPED");
    }
    if !has_postgres() {
        eprintln!("WARNING: there is no PostgreSQL; tests that need it FAIL, unless WAYPOST_TEST_POSTGRES has a URL");
    }
    Tools { jj, mcp_python, schemathesis: find_schemathesis(), mcp_conformance: find_mcp_conformance(), complete }
}

fn install_packages(packages: &[&str]) {
    let steps: [Vec<&str>; 2] =
        [vec!["update", "-q"], [&["install", "-q", "-y", "--no-install-recommends"], packages].concat()];
    for step in steps {
        let mut command = Command::new("apt-get");
        if let Err(message) = run(command.args(step).env("DEBIAN_FRONTEND", "noninteractive")) {
            eprintln!("WARNING: {message}; install {} yourself", packages.join(", "));
            return;
        }
    }
}

/// Where what we build or install ourselves is kept, outside the checkout.
fn kept(name: &str, version: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("waypost-tools").join(format!("{name}-{version}")))
}

/// Returns a Python with the MCP client of its own.
fn find_mcp_python() -> Option<PathBuf> {
    find_in_python("mcp", MCP_CLIENT).map(|root| root.join("bin/python"))
}

/// Returns schemathesis in a Python environment of its own.
fn find_schemathesis() -> Option<PathBuf> {
    find_in_python("schemathesis", SCHEMATHESIS).map(|root| root.join("bin/schemathesis"))
}

/// Returns the Python environment of a package, installing it on first use.
fn find_in_python(package: &str, version: &str) -> Option<PathBuf> {
    let root = kept(package, version)?;
    let whole = root.join("whole");
    if !whole.is_file() {
        println!("{package} for Python is installed once");
        let wanted = format!("{package}=={version}");
        let installed = run(Command::new("python3").args(["-m", "venv"]).arg(&root))
            .and_then(|()| run(Command::new(root.join("bin/python")).args(["-m", "pip", "install", "-q", &wanted])))
            // An installation that was interrupted is not taken for one.
            .and_then(|()| std::fs::File::create(&whole).map(drop).map_err(|error| error.to_string()));
        if let Err(message) = installed {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(root)
}

/// Returns the conformance suites of MCP with a Node of their own, installing them on first use.
fn find_mcp_conformance() -> Option<PathBuf> {
    let root = kept("mcp-conformance", &format!("{MCP_CONFORMANCE}-{MCP_CONFORMANCE_NEXT}"))?;
    let whole = root.join("whole");
    if !whole.is_file() {
        println!("the conformance suite of MCP is installed once");
        let package = "npm:@modelcontextprotocol/conformance";
        let wanted = [
            format!("conformance@{package}@{MCP_CONFORMANCE}"),
            format!("conformance-next@{package}@{MCP_CONFORMANCE_NEXT}"),
            format!("node@{NODE}"),
        ];
        let installed = std::fs::create_dir_all(&root).map_err(|error| error.to_string()).and_then(|()| {
            let mut command = Command::new("npm");
            command.args(["install", "--no-audit", "--no-fund", "--save-exact", "--prefix"]).arg(&root).args(wanted);
            run(&mut command)
        });
        // An installation that was interrupted is not taken for one.
        let installed =
            installed.and_then(|()| std::fs::File::create(&whole).map(drop).map_err(|error| error.to_string()));
        if let Err(message) = installed {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(root)
}

/// Returns our own build of jj, making it on first use.
fn find_jj() -> Option<PathBuf> {
    let root = kept("jj", JJ)?;
    let jj = root.join("bin/jj");
    if !jj.is_file() {
        println!("jj is built once, which takes some minutes");
        let mut command = Command::new("cargo");
        command.args(["install", "jj-cli", "--version", JJ, "--locked", "--debug", "--bin", "jj", "--root"]).arg(&root);
        if let Err(message) = run(&mut command) {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(jj)
}

/// Debian keeps the server's programs apart, by version.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    is_there("initdb") || versions.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.is_file())
}

fn is_there(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).is_file();
    }
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
