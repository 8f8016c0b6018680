//! PostgreSQL servers that fail over.

use std::ffi::OsStr;
use std::path::PathBuf;

use waypost_testkit::{Postgres, Run, Sandbox};

use crate::support::sandbox;

pub(crate) const SCHEMA: &str = "waypost";

/// A machine that uses the server that a test names.
pub(crate) struct Machine {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        Machine { sandbox, repo }
    }

    pub(crate) fn way(&self, server: &Postgres, agent: &str, args: &[&str]) -> Run {
        let url = server.url_of(SCHEMA);
        let variables = [("WAYPOST_DB", OsStr::new(&url)), ("WAYPOST_AGENT", OsStr::new(agent))];
        self.sandbox.way_with(&self.repo, &variables, args)
    }

    pub(crate) fn claim(&self, server: &Postgres, agent: &str, task: &str) -> u64 {
        let claimed = self.way(server, agent, &["task", "claim", task, "--json"]).data();
        claimed["lease"]["epoch"].as_u64().unwrap_or_else(|| panic!("{claimed:#}"))
    }

    /// Makes a workflow of two tasks.
    pub(crate) fn plan(&self, server: &Postgres) {
        let plan = self.sandbox.path("plan.json");
        waypost_fs::replace(&plan, br#"{"tasks": [{"name": "one"}, {"name": "two"}]}"#, 0o600).unwrap();
        let create = ["workflow", "create", "w", "--start", "--plan", plan.to_str().unwrap()];
        let _ = self.way(server, "a", &create).ok();
    }

    /// Checks that every command refuses the server.
    pub(crate) fn check_refused(&self, server: &Postgres) {
        for args in [&["status"][..], &["task", "claim", "two"], &["task", "checkpoint", "one", "--summary", "here"]] {
            let refused = self.way(server, "a", args).fails(8).stderr;
            assert!(refused.contains("acknowledged writes may be missing"), "{refused}");
            assert!(refused.contains("way db accept-failover"), "{refused}");
        }
        let Run { code, stdout: found, .. } = self.way(server, "a", &["doctor"]);
        assert_eq!(code, 8, "{found}");
        assert!(found.contains("another server than before") && found.contains("way db accept-failover"), "{found}");
    }
}
