//! The generators of clients from the OpenAPI description, which tests run: openapi-python-client with mypy, and
//! openapi-typescript with the TypeScript compiler and a Node that runs it.

use std::path::PathBuf;
use std::process::Command;

use crate::run;
use crate::tools::download;

/// The versions of the two generators.
pub(crate) const VERSIONS: &str = "0.29.1-7.13.0";

/// Packages from PyPI, the generator first.
const PYTHON: &[&str] = &["openapi-python-client==0.29.1", "mypy==2.4.1"];
/// Packages from npm, the generator first. The Node of the machine may be too old to run TypeScript.
const NPM: &[&str] =
    &["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@22.20.5", "node@22.23.3"];

/// Returns the directory of the generators, installing them there on first use.
pub(crate) fn find(root: PathBuf) -> Option<PathBuf> {
    let marker = root.join("whole");
    if !marker.is_file() {
        println!("installing generators of clients from OpenAPI, once");
        let python = root.join("python");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--save-exact", "--prefix"]).arg(&root).args(NPM);
        let installed = std::fs::create_dir_all(&root)
            .map_err(|error| error.to_string())
            .and_then(|()| run(Command::new("python3").args(["-m", "venv"]).arg(&python)))
            .and_then(|()| {
                download(Command::new(python.join("bin/python")).args(["-m", "pip", "install", "-q"]).args(PYTHON))
            })
            .and_then(|()| download(&mut npm))
            // The marker shows that the installation was not interrupted.
            .and_then(|()| std::fs::File::create(&marker).map(drop).map_err(|error| error.to_string()));
        if let Err(message) = installed {
            eprintln!("WARNING: {message}");
            return None;
        }
    }
    Some(root)
}
