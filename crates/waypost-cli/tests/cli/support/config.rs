//! Values of the configuration.

use std::path::Path;

use waypost_testkit::Sandbox;

pub(crate) fn get(sandbox: &Sandbox, dir: &Path, key: &str) -> (String, String) {
    let data = sandbox.way(dir, ["config", "get", key, "--json"]).data();
    (data["value"].as_str().unwrap().to_owned(), data["layer"].as_str().unwrap().to_owned())
}
