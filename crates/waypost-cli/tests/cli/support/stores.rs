//! Events of a store.

use std::path::Path;

use waypost_testkit::Sandbox;

pub(crate) fn events(sandbox: &Sandbox, dir: &Path) -> u64 {
    sandbox.way(dir, ["status", "--json"]).data()["store"]["events"].as_u64().unwrap()
}
