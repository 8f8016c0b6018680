# A workflow database per repository, instead of one global file.
set -eu -o pipefail
. "$SEEDS/lib.sh"

printf 'design: sketch the page\nbuild: write it\n  needs: design\n' > plan.txt
repository one
repository two

step "Zero configuration: it works in a repository without any setting"
cd one
way workflow create login --plan ../plan.txt --start
way task claim --agent ann | says "design"
way task checkpoint design --agent ann --summary "half of it is drawn"

step "The state is not part of the repository's content"
git status --porcelain | is_empty

step "Projects do not share their state"
cd ../two
way workflow list | omits "login"
way workflow create login --plan ../plan.txt --start
way checkpoint list design | omits "half of it is drawn"

step "A worktree sees the same workflow, and nothing collides"
cd ../one
git worktree add -q ../topic -b topic
(cd ../topic && way checkpoint list design | says "half of it is drawn")
(cd ../topic && exits_with 4 way task claim design --agent bob)

step "For a test, a worktree can have a store of its own"
(cd ../topic && way --scope worktree workflow create experiment --plan ../plan.txt --start)
way workflow list | omits "experiment"

step "The environment names another database"
#> AGENTOS_WORKFLOW_DB=./workflow.db poetry run python tools/run_issue_workflow.py --brief notes.md
# The program of the document has another variable, and one command that runs a workflow; here a plan makes one.
WAYPOST_DB=./workflow.db way workflow create elsewhere --plan ../plan.txt --start
export WAYPOST_DB=./workflow.db
way workflow list | says "elsewhere"
unset WAYPOST_DB
way workflow list | omits "elsewhere"

rm workflow.db*

step "--global uses the database that all repositories share"
way --global workflow create everywhere --plan ../plan.txt --start
(cd ../two && way --global workflow list | says "everywhere")
way workflow list | omits "everywhere"

step "A workflow in the global database can be continued by naming that database"
#> AGENTOS_WORKFLOW_DB=~/.agentos/issue_workflow.db
# The global database is in the user's directory of Waypost.
WAYPOST_DB=~/.waypost/state.db way workflow list | says "everywhere"

step "An active workflow moves from the global database to the repository"
way --global db move --to repo --workflow everywhere --dry-run | says "everywhere"
way --global db move --to repo --workflow everywhere
way workflow list | says "everywhere"

step "150 workflows start at the same time"
number=0
pids=
while [ "$number" -lt 150 ]; do
    number=$((number + 1))
    way --quiet workflow create "parallel-$number" > /dev/null &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid"
done
[ "$(way workflow list --limit 0 | grep -c parallel-)" = 150 ]
