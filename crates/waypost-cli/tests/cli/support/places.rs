//! Where state is stored.

use waypost_testkit::Run;

pub(crate) fn store_path(run: Run) -> String {
    run.data()["store"]["path"].as_str().unwrap().to_owned()
}
