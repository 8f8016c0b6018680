# An isolated workspace for every job, kept, measured and cleaned safely.
set -eu -o pipefail
. "$SEEDS/lib.sh"

repository project
cd project
echo original > file
git add file
git commit -q -m file

step "Jobs that run at the same time do not touch each other's files, nor the repository"
way job start --detach --type builder -- sh -c 'echo one > file; while [ ! -e "$HOME/go" ]; do sleep 0.05; done' > ../first
way job start --detach --type builder -- sh -c 'echo two > file' > ../second
first=$(sed 's/^Started job \([^ ]*\).*/\1/' ../first)
second=$(sed 's/^Started job \([^ ]*\).*/\1/' ../second)
way job wait "$second"
touch "$HOME/go"
way job wait "$first"
[ "$(cat file)" = original ]
git status --porcelain | is_empty

step "The record of a job names its workspace, and the workspace is kept for debugging"
workspace=$(way job show "$first" --json | sed 's/.*"workspace_dir":"\([^"]*\)".*/\1/')
[ "$(cat "$workspace/file")" = one ]
way job show "$first" | says "$workspace" "builder"

step "The job knows its workspace before it starts"
way job start -- sh -c '[ "$PWD" = "$WAYPOST_WORKSPACE" ] && [ -d "$WAYPOST_CONTEXT_DIR" ]'

step "A failed job leaves its workspace and its log, too"
exits_with 3 way job start -- sh -c 'echo broken | tee file; exit 3'
failed=$(way job list --json --status failed | sed 's/.*"id":"\(jb_[^"]*\)".*/\1/')
way job logs "$failed" | says "broken"
[ "$(cat ~/.waypost/workspaces/"$failed"/workspace/file)" = broken ]

step "Disk usage is measured, limited and cleaned; unsaved work stays"
way ws du | says "total"
way ws gc --keep 0 --dry-run | says "would keep"
#> pedrocli cache clean
# Workspaces are no cache: what a job left unsaved stays.
way ws gc --keep 0
[ "$(cat "$workspace/file")" = one ]
exits_with 7 way ws rm "$first"

step "Saved work can be removed and restored"
snapshot=$(way ws snapshot "$first" | sed 's/^Saved workspace .* as //')
#> rm -rf ~/.pedrocli/worktrees/*
# The records learn of a removal by way ws rm, and one workspace can be named.
way ws rm "$first" --force
[ ! -e "$workspace" ]
way ws snapshots | says "$snapshot"
restored=$(way ws restore "$snapshot" | sed 's/^Restored .* at //')
[ "$(cat "$restored/file")" = one ]

step "On request, the workspace of a job is removed when the job completes"
removed=$(way job start --cleanup --json -- true | sed 's/.*"workspace_dir":"\([^"]*\)".*/\1/')
[ "${removed##*/}" = workspace ]
[ ! -e "$removed" ]
