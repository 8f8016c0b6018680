//! The external programs of tests. Missing ones are installed; a test fails without the one it needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Result, generators, run};

/// The version of jj for tests. It is built once and kept outside the checkout.
const JJ_VERSION: &str = "0.45.1";
/// The version of schemathesis for tests, from PyPI.
const SCHEMATHESIS_VERSION: &str = "4.32.5";
const PRE_COMMIT_VERSION: &str = "4.7.0";
const PYGIT2_VERSION: &str = "1.20.1";

/// The version of the official MCP client for Python for tests.
const MCP_CLIENT_VERSION: &str = "2.3.0";

/// The versions of the MCP conformance suite from npm: the published one, and the next one with the newest protocol. And the
/// version of Node for them, because that of the machine may be too old.
const MCP_CONFORMANCE_VERSION: &str = "0.1.16";
const MCP_CONFORMANCE_NEXT_VERSION: &str = "0.2.0-alpha.12";
const NODE_VERSION: &str = "22.23.3";

/// A program from npm for tests. Its package is installed without dependencies and without scripts: the packages of one
/// platform contain everything.
struct NpmProgram {
    /// The name of its directory in the cache.
    name: &'static str,
    /// The variable that passes its path to tests.
    variable: &'static str,
    /// Its package with the version. `{arch}` stands for the processor as npm names it.
    package: &'static str,
    version: &'static str,
    /// The program in the package. `{target}` stands for the processor as Rust names it.
    file: &'static str,
}

/// The coding agents of tests, the Node that runs those that are scripts, and the script that examines the dashboard.
const AGENTS: &[NpmProgram] = &[
    NpmProgram {
        name: "claude-code",
        variable: "WAYPOST_TEST_CLAUDE",
        package: "@anthropic-ai/claude-code-linux-{arch}@{version}",
        version: "2.1.325",
        file: "claude",
    },
    NpmProgram {
        name: "codex",
        variable: "WAYPOST_TEST_CODEX",
        package: "@openai/codex@{version}-linux-{arch}",
        version: "0.166.0",
        file: "vendor/{target}-unknown-linux-musl/bin/codex",
    },
    NpmProgram {
        name: "gemini-cli",
        variable: "WAYPOST_TEST_GEMINI",
        package: "@google/gemini-cli@{version}",
        version: "0.61.0",
        file: "bundle/gemini.js",
    },
    NpmProgram {
        name: "opencode",
        variable: "WAYPOST_TEST_OPENCODE",
        package: "opencode-linux-{arch}@{version}",
        version: "1.18.33",
        file: "bin/opencode",
    },
    NpmProgram {
        name: "copilot",
        variable: "WAYPOST_TEST_COPILOT",
        package: "@github/copilot-linux-{arch}@{version}",
        version: "1.0.102",
        file: "copilot",
    },
    NpmProgram {
        name: "qwen-code",
        variable: "WAYPOST_TEST_QWEN",
        package: "@qwen-code/qwen-code@{version}",
        version: "0.24.4",
        file: "cli.js",
    },
    NpmProgram {
        name: "axe-core",
        variable: "WAYPOST_TEST_AXE",
        package: "axe-core@{version}",
        version: "4.14.0",
        file: "axe.min.js",
    },
    NpmProgram {
        name: "node",
        variable: "WAYPOST_TEST_NODE",
        package: "node-linux-{arch}@{version}",
        version: NODE_VERSION,
        file: "bin/node",
    },
];

/// Debian packages, each with a program of it.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("git-lfs", "git-lfs"),
    ("git-crypt", "git-crypt"),
    ("jq", "jq"),
    ("mercurial", "hg"),
    ("bindfs", "bindfs"),
    ("bubblewrap", "bwrap"),
    ("strace", "strace"),
    ("bsdutils", "script"),
    ("tmux", "/usr/bin/tmux"),
    ("xfsprogs", "/usr/sbin/mkfs.xfs"),
    ("btrfs-progs", "/usr/bin/btrfs"),
    ("pgbouncer", "/usr/sbin/pgbouncer"),
    ("python3-venv", "python3"),
    ("fish", "fish"),
    ("zsh", "zsh"),
    ("groff-base", "groff"),
    ("mandoc", "/usr/bin/mandoc"),
    ("dpkg", "dpkg-deb"),
    ("chromium", "chromium"),
    ("chromium-driver", "chromedriver"),
];

/// The tools that were found or installed.
pub(crate) struct Tools {
    jj: Option<PathBuf>,
    /// A Python with the MCP client.
    mcp_python: Option<PathBuf>,
    schemathesis: Option<PathBuf>,
    pre_commit: Option<PathBuf>,
    /// A Python with libgit2.
    pygit2: Option<PathBuf>,
    /// A directory with the conformance suite of MCP and a Node.
    mcp_conformance: Option<PathBuf>,
    /// The agents' programs, each with its variable.
    agents: Vec<(&'static str, PathBuf)>,
    /// A directory with generators of clients from OpenAPI.
    generators: Option<PathBuf>,
    /// What could not be installed.
    missing: Vec<&'static str>,
}

impl Tools {
    /// Sets the environment of tests: the paths of the tools.
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
        if let Some(pre_commit) = &self.pre_commit {
            command.env("WAYPOST_TEST_PRECOMMIT", pre_commit);
        }
        if let Some(python) = &self.pygit2 {
            command.env("WAYPOST_TEST_PYGIT2", python);
        }
        if let Some(suite) = &self.mcp_conformance {
            command.env("WAYPOST_TEST_MCP_CONFORMANCE", suite);
        }
        command.envs(self.agents.iter().map(|(variable, program)| (variable, program)));
        if let Some(generators) = &self.generators {
            command.env("WAYPOST_TEST_GENERATORS", generators);
        }
        command
    }

    /// Returns an error that names every tool that is missing.
    pub(crate) fn check_complete(&self) -> Result {
        if self.missing.is_empty() {
            return Ok(());
        }
        Err(format!("not installed, see the warnings above: {}", self.missing.join(", ")))
    }
}

/// Finds or installs every tool. Prints a warning for each tool that it cannot install; only tests that need it fail.
pub(crate) fn install() -> Tools {
    let packages = missing_packages();
    if !packages.is_empty() {
        install_packages(&packages);
    }
    let mut tools = Tools {
        jj: find_jj(),
        mcp_python: find_mcp_python(),
        schemathesis: find_schemathesis(),
        pre_commit: find_in_python("pre-commit", PRE_COMMIT_VERSION).map(|root| root.join("bin/pre-commit")),
        pygit2: find_in_python("pygit2", PYGIT2_VERSION).map(|root| root.join("bin/python")),
        mcp_conformance: find_mcp_conformance(),
        agents: Vec::new(),
        generators: cache_dir("openapi-clients", generators::VERSIONS).and_then(generators::find),
        missing: missing_packages(),
    };
    for agent in AGENTS {
        match find_npm_program(agent) {
            Some(program) => tools.agents.push((agent.variable, program)),
            None => tools.missing.push(agent.name),
        }
    }
    for (name, found) in [
        ("jj", &tools.jj),
        ("the MCP client for Python", &tools.mcp_python),
        ("schemathesis", &tools.schemathesis),
        ("pre-commit", &tools.pre_commit),
        ("pygit2", &tools.pygit2),
        ("the conformance suite of MCP", &tools.mcp_conformance),
        ("generators of clients", &tools.generators),
    ] {
        if found.is_none() {
            tools.missing.push(name);
        }
    }
    for name in &tools.missing {
        eprintln!("WARNING: {name} is not installed; tests that need it FAIL");
    }
    tools
}

/// Returns the packages that are not installed.
fn missing_packages() -> Vec<&'static str> {
    let missing = PACKAGES.iter().filter(|(_, program)| !is_installed(program)).map(|(package, _)| *package);
    let has_postgres = has_postgres() || std::env::var_os("WAYPOST_TEST_POSTGRES").is_some();
    missing.chain((!has_postgres).then_some("postgresql")).collect()
}

/// Installs those of these packages that are missing.
pub(crate) fn install_packages_for(wanted: &[&str]) {
    let packages: Vec<_> = missing_packages().into_iter().filter(|package| wanted.contains(package)).collect();
    if !packages.is_empty() {
        install_packages(&packages);
    }
}

pub(crate) fn install_packages(packages: &[&str]) {
    let steps: [Vec<&str>; 2] =
        [vec!["update", "-q"], [&["install", "-q", "-y", "--no-install-recommends"], packages].concat()];
    for step in steps {
        let mut command = Command::new("apt-get");
        if let Err(message) = download(command.args(step).env("DEBIAN_FRONTEND", "noninteractive")) {
            eprintln!("WARNING: {message}; install {} yourself", packages.join(", "));
            return;
        }
    }
}

/// Runs a command that downloads, up to three times: a registry that refuses one connection must not fail the tests.
pub(crate) fn download(command: &mut Command) -> Result {
    run(command).or_else(|_| run(command)).or_else(|_| run(command))
}

/// Returns the cache directory of a tool, outside the checkout.
fn cache_dir(name: &str, version: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("waypost-tools").join(format!("{name}-{version}")))
}

/// Returns the Python of an environment with the MCP client.
fn find_mcp_python() -> Option<PathBuf> {
    find_in_python("mcp", MCP_CLIENT_VERSION).map(|root| root.join("bin/python"))
}

/// Returns schemathesis in its own Python environment.
fn find_schemathesis() -> Option<PathBuf> {
    find_in_python("schemathesis", SCHEMATHESIS_VERSION).map(|root| root.join("bin/schemathesis"))
}

/// Returns the Python environment of a package, installing it on first use.
fn find_in_python(package: &str, version: &str) -> Option<PathBuf> {
    let root = cache_dir(package, version)?;
    let marker = root.join("whole");
    if !marker.is_file() {
        println!("installing {package} for Python, once");
        let requirement = format!("{package}=={version}");
        let installed = run(Command::new("python3").args(["-m", "venv"]).arg(&root))
            .and_then(|()| {
                download(Command::new(root.join("bin/python")).args(["-m", "pip", "install", "-q", &requirement]))
            })
            // The marker shows that the installation was not interrupted.
            .and_then(|()| std::fs::File::create(&marker).map(drop).map_err(|error| error.to_string()));
        if let Err(message) = installed {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(root)
}

/// Returns the directory of the MCP conformance suites and their Node, installing them on first use.
fn find_mcp_conformance() -> Option<PathBuf> {
    let root = cache_dir("mcp-conformance", &format!("{MCP_CONFORMANCE_VERSION}-{MCP_CONFORMANCE_NEXT_VERSION}"))?;
    let package = "npm:@modelcontextprotocol/conformance";
    let requirements = [
        format!("conformance@{package}@{MCP_CONFORMANCE_VERSION}"),
        format!("conformance-next@{package}@{MCP_CONFORMANCE_NEXT_VERSION}"),
        format!("node@{NODE_VERSION}"),
    ];
    install_from_npm("the conformance suite of MCP", &root, &[], &requirements)
}

/// Returns a program from npm, installing it on first use.
fn find_npm_program(program: &NpmProgram) -> Option<PathBuf> {
    let root = cache_dir(program.name, program.version)?;
    let target = std::env::consts::ARCH;
    let arch = match target {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = program.package.replace("{arch}", arch).replace("{version}", program.version);
    let options = ["--omit=optional", "--ignore-scripts"];
    let root = install_from_npm(program.name, &root, &options, &[format!("program@npm:{package}")])?;
    Some(root.join("node_modules/program").join(program.file.replace("{target}", target)))
}

/// Returns a directory with packages from npm, installing them on first use.
fn install_from_npm(name: &str, root: &Path, options: &[&str], requirements: &[String]) -> Option<PathBuf> {
    let marker = root.join("whole");
    if !marker.is_file() {
        println!("installing {name}, once");
        let installed = std::fs::create_dir_all(root).map_err(|error| error.to_string()).and_then(|()| {
            let mut command = Command::new("npm");
            command
                .args(["install", "--no-audit", "--no-fund", "--save-exact"])
                .args(options)
                .arg("--prefix")
                .arg(root);
            download(command.args(requirements))
        });
        // The marker shows that the installation was not interrupted.
        let installed =
            installed.and_then(|()| std::fs::File::create(&marker).map(drop).map_err(|error| error.to_string()));
        if let Err(message) = installed {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(root.to_owned())
}

/// Returns jj, building it on first use.
fn find_jj() -> Option<PathBuf> {
    let root = cache_dir("jj", JJ_VERSION)?;
    let jj = root.join("bin/jj");
    if !jj.is_file() {
        println!("building jj, once; this takes some minutes");
        let mut command = Command::new("cargo");
        command
            .args(["install", "jj-cli", "--version", JJ_VERSION, "--locked", "--debug", "--bin", "jj", "--root"])
            .arg(&root)
            // No test looks into it.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        if let Err(message) = download(&mut command) {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(jj)
}

/// Returns whether PostgreSQL is installed. Debian has its programs in a directory per version.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    is_installed("initdb") || versions.map(|version| version.path().join("bin/initdb")).any(|initdb| initdb.is_file())
}

pub(crate) fn is_installed(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).is_file();
    }
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
