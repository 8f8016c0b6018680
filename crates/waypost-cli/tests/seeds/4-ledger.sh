# An issue ledger under version control, over many repositories, with private planning and proposals upstream.
set -eu -o pipefail
. "$SEEDS/lib.sh"

step "A maintainer prepares the project's ledger"
mkdir -p ~/upstream
#> cd ~/team-project
# Here the project is where contributors clone it from.
cd ~/upstream
git init -q -b main
#> bd init
way init
#> git add .beads/ && git commit -m "Initialize beads"
(git add .waypost/ && git commit -m "Initialize beads")
#> bd add "Fix bug in parser"
parser=$(way add "Fix bug in parser" | id)
git add .waypost
git commit -q -m "Plan"

step "Use case 1: a contributor plans privately"
#> mkdir ~/.beads-planning
mkdir ~/.beads-planning
#> cd ~/.beads-planning
cd ~/.beads-planning
#> git init && bd init
(git init && way init)
# A person makes the first commit of a repository; way sync makes those that follow.
git add .waypost
git commit -q -m planning
mkdir ~/projects
git clone -q ~/upstream ~/projects/some-oss-project
#> cd ~/projects/some-oss-project
cd ~/projects/some-oss-project
git remote add upstream ~/upstream
#> bd config --add-repo ~/.beads-planning --routing contributor
way config --add-repo ~/.beads-planning --routing contributor
#> bd add "Explore dark mode implementation"
dark=$(way add "Explore dark mode implementation" | id)
secret=$(way add "A thought that is not for others" | id)
git status --porcelain | is_empty
grep -q "$dark" ~/.beads-planning/.waypost/issues.jsonl
#> bd show
way show | says "$parser" "$dark"
exits_with 7 way close "$parser"
#> bd work bd-a3f8e9
way work "$dark"
#> bd status bd-a3f8e9 in-progress
way status "$dark" in-progress
way show "$dark" --json | says '"status":"in_progress"'

step "A proposal is the only thing that gets into the pull request"
git switch -q -c feature-branch
#> bd propose bd-a3f8e9 --target upstream
way propose "$dark" --target upstream
grep "$dark" ~/.beads-planning/.waypost/issues.jsonl | says '"visibility":"proposed"'
#> git add .beads/beads.jsonl
git add .waypost/issues.jsonl
#> git commit -m "Propose: Add dark mode"
git commit -m "Propose: Add dark mode"
git show --format= HEAD | says "$dark" '"visibility":"proposed"'
git show --format= HEAD | omits "$secret"
#> git push origin feature-branch
git push origin feature-branch

step "A proposal can be withdrawn, and made again"
#> bd withdraw <issue-id>
way withdraw "$dark"
grep -q "$dark" ~/.beads-planning/.waypost/issues.jsonl
exits_with 1 grep -q "$dark" .waypost/issues.jsonl
#> bd propose <issue-id>
way propose "$dark"
git status --porcelain | is_empty

step "The maintainer accepts it, and the contributor's next sync learns of it"
cd ~/upstream
git merge -q feature-branch
#> bd accept <issue-id>
way accept "$dark"
git commit -q -a -m "Accept"
way list | says "$dark"
cd ~/projects/some-oss-project
#> bd sync
way sync --no-push
way list | says "$dark"
way show "$dark" --json | omits '"visibility":"proposed"'

step "Use case 2: phases in repositories of their own, in one list"
#> mkdir -p ~/.beads-work/{architecture,implementation,testing}
mkdir -p ~/.beads-work/{architecture,implementation,testing}
#> for dir in ~/.beads-work/*; do (cd $dir && git init && bd init); done
for dir in ~/.beads-work/*; do (cd $dir && git init && way init); done
for dir in ~/.beads-work/*; do (cd $dir && git add -A && git commit -q -m phase); done
repository ~/my-big-project
#> cd ~/my-big-project
cd ~/my-big-project
#> bd config --add-repo ~/.beads-work/architecture
way config --add-repo ~/.beads-work/architecture
#> bd config --add-repo ~/.beads-work/implementation
way config --add-repo ~/.beads-work/implementation
#> bd config --add-repo ~/.beads-work/testing
way config --add-repo ~/.beads-work/testing
#> bd config --list-repos
way config --list-repos | says architecture implementation testing
#> bd config --remove-repo <path>
way config --remove-repo ~/.beads-work/testing
way config --list-repos | omits testing
#> bd add "Design authentication system" --repo ~/.beads-work/architecture
design=$(way add "Design authentication system" --repo ~/.beads-work/architecture | id)
#> bd show --repo ~/.beads-work/architecture
way show --repo ~/.beads-work/architecture | says "$design"
#> bd add "Implement JWT validation" --repo ~/.beads-work/implementation
build=$(way add "Implement JWT validation" --repo ~/.beads-work/implementation | id)
way show --repo ~/.beads-work/architecture | omits "$build"
#> bd show
way show | says "$design" "$build" architecture implementation

step "Dependencies and children work across repositories"
#> bd dep add bd-a3f8e9 bd-b7c2d1
way dep add "$build" "$design"
#> bd ready
way ready | omits "$build"
part=$(way add "Choose an algorithm" --parent "$design" | id)
grep -q "$part" ~/.beads-work/architecture/.waypost/issues.jsonl
way close "$part" "$design"
way ready | says "$build"

step "Use case 3: a contributor's issue does not pollute the project"
git clone -q ~/upstream ~/project
#> cd ~/project
cd ~/project
git remote add upstream ~/upstream
way config --add-repo ~/.beads-planning --routing contributor
#> bd add "Explore performance optimization"
speed=$(way add "Explore performance optimization" | id)
git status --porcelain | is_empty
#> bd show
way show | says "$parser" "$speed"
#> bd propose bd-xyz
way propose "$speed"
git diff | says "$speed"

step "An existing user has nothing to change, and can move planning out of the project"
repository ~/my-project
#> cd ~/my-project
cd ~/my-project
#> bd add "Task"
task=$(way add "Task" | id)
grep -q "$task" .waypost/issues.jsonl
#> bd config --add-repo ~/.beads-planning
way config --add-repo ~/.beads-planning
#> bd config --routing auto
way config --routing auto
#> bd migrate --move-to ~/.beads-planning --filter "author=me"
way migrate --move-to ~/.beads-planning --filter "author=me"
grep -q "$task" ~/.beads-planning/.waypost/issues.jsonl
way show "$task" | says "Task"

step "Two clones that change the same ledger converge by sync, without a conflict"
cd ~/my-big-project
way init
way add "The first one"
git init -q --bare -b main ~/shared.git
git add -A
git commit -q -m ledger
git remote add origin ~/shared.git
git push -q -u origin main
git clone -q ~/shared.git ~/other
here=$(way add "Written here" | id)
there=$(cd ~/other && way add "Written there" | id)
#> bd sync
way sync
(cd ~/other && way sync && way list | says "$here" "$there")
way sync
way list | says "$here" "$there"
