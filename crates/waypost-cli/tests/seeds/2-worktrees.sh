# One view of the state of all worktrees, each record naming its worktree.
set -eu -o pipefail
. "$SEEDS/lib.sh"

printf 'fix: repair it\n' > plan.txt
repository main
cd main

step "A new worktree uses the main repository's database, without any setup"
way worktree add feature ../feature
state="$PWD/.git/waypost/state.db"
(cd ../feature && way where | says "$state")

step "A worktree reads and writes the shared database"
(cd ../feature && way workflow create repair --plan ../plan.txt --start)
(cd ../feature && way task claim --agent ann | says "fix")
way task show repair/fix | says "ann"

step "Every session sees the state of all worktrees, and where each record comes from"
way status | says "fix" "feature"
way worktree list | says "main" "feature"
way events | says "feature"

step "The state can be filtered by worktree"
way status --worktree feature | says "fix"
way status --worktree main | omits "repair/fix"

step "A worktree reached through a symbolic link is the same worktree"
ln -s feature ../link
(cd ../link && way task show repair/fix | says "ann")
[ "$(way worktree list | grep -c feature)" = 1 ]

step "A worktree that git itself made is known after its first command"
git worktree add -q ../plain -b plain
(cd ../plain && way status | says "fix")
way worktree list | says "plain"
