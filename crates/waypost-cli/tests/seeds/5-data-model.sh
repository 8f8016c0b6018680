# Workflows, tasks, dependencies, checkpoints, agents, messages and templates, over one or many repositories.
set -eu -o pipefail
. "$SEEDS/lib.sh"

repository app
repository library
cd app

step "A workflow has tasks with dependencies; a task has checkpoints"
cat > ../plan.txt <<'PLAN'
schema: design the tables
api: write the handlers
  needs: schema
PLAN
way workflow create shop --plan ../plan.txt --start
exits_with 4 way task claim api --agent ann
way task claim schema --agent ann | says "design the tables"
way task checkpoint schema --agent ann --summary "three tables"
way task done schema --agent ann --outcome "tables are there"
way task claim --agent ann | says "write the handlers" "tables are there"

step "Agents register with a name, a role and capabilities, and go offline without a heartbeat"
way agent register builder --role worker --capability rust --timeout 1h
way agent register lead --role coordinator
way agent heartbeat --agent builder
way agent list | says "builder" "rust" "lead" "coordinator"

step "A task is assigned to one agent, or claimed from the pool"
way task release api --agent ann
way task assign api builder
exits_with 4 way task claim api --agent ann
way task claim api --agent builder | says "write the handlers"

step "Agents send each other messages, which wait in an inbox"
way msg send builder "Use the new tables" --agent lead
way msg inbox --agent builder | says "Use the new tables"
way msg broadcast "Release at noon" --agent lead
way msg inbox --agent builder | says "Release at noon"

step "A template makes a workflow"
printf 'check: look at {{topic}}\n' > ../template.txt
way template save review --plan ../template.txt
way template apply review --var topic=login --name review-login --start
way task show review-login/check | says "look at login"

step "Ids have the documented form"
way workflow list --json | grep -q '"id":"wf_[0-9a-z]\{12\}"'
way task list --json | grep -q '"id":"tk_[0-9a-z]\{12\}"'
way checkpoint list schema --json | grep -q '"id":"cp_[0-9a-z]\{12\}"'
way agent list --json | grep -q '"id":"ag_[0-9a-z]\{12\}"'

step "In the global database one workflow spans several repositories"
export WAYPOST_SCOPE=global
way repo add .
way repo add ../library
cat > ../plan.txt <<'PLAN'
parser: change the grammar
  repository: library
caller: use it
  repository: app
  needs: parser
PLAN
way workflow create grammar --plan ../plan.txt --repo-of app --repo-of library --start
way workflow repos grammar | says "app" "library"
way task show grammar/parser | says "library"
exits_with 3 way workflow create alone --repo-of nowhere
unset WAYPOST_SCOPE

step "In a repository's own database a workflow stays in that repository"
exits_with 7 way workflow create across --repo-of ../library
