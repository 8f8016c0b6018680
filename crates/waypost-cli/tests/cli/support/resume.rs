//! A team with a plan.

use crate::support::work::Team;

pub(crate) const PLAN: &str = "build: Compile\npublish: Out\n  needs: build\n";

pub(crate) fn team() -> Team {
    let team = Team::new();
    team.sandbox.write("repo/plan.txt", PLAN);
    team
}
