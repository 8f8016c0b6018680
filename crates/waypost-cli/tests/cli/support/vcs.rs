//! Repositories of any kind.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::Sandbox;

pub(crate) fn place(sandbox: &Sandbox, dir: &Path) -> Value {
    sandbox.way(dir, ["where", "--json"]).data()
}
