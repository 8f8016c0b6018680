# An issue ledger under version control, over many repositories, with private planning and proposals upstream.
. "$SEEDS/lib.sh"

step "A single repository works as before"
repository upstream
cd upstream
way init
theirs=$(added "Fix bug in parser")
git add -A
git commit -q -m "Initialize the ledger"
cd ..

step "Use case 1: a contributor plans privately"
git clone -q upstream project
(cd project && git remote add upstream https://example.org/team/project)
mkdir planning
(cd planning && git init -q -b main && way init && git add -A && git commit -q -m planning)
cd project
way config --add-repo ../planning --routing contributor
mine=$(added "Explore dark mode implementation")
secret=$(added "A thought that is not for others")
[ -z "$(git status --porcelain -- .waypost/issues.jsonl)" ]
grep -q "$mine" ../planning/.waypost/issues.jsonl
way list | says "$theirs" "$mine"
way update "$mine" --status in_progress
exits_with 7 way close "$theirs"

step "A proposal is the only thing that gets into the pull request"
way propose "$mine"
git add .waypost/issues.jsonl
git commit -q -m "Propose: add dark mode"
git show --format= HEAD | says "$mine" '"visibility":"proposed"'
git show --format= HEAD | omits "$secret"
git push -q origin HEAD:refs/heads/feature-branch

step "The maintainer accepts it, and the contributor's next sync learns of it"
(cd ../upstream && git merge -q feature-branch && way accept "$mine" && git add -A && git commit -q -m "Accept")
(cd ../upstream && way list | says "$mine")
git pull -q --no-rebase origin main
way sync --no-push
way show "$mine" --json | omits '"visibility":"proposed"'
cd ..

step "Use case 2: phases in repositories of their own, in one list"
for phase in architecture implementation; do
    mkdir -p "work/$phase"
    (cd "work/$phase" && git init -q -b main && way init && git add -A && git commit -q -m "$phase")
done
repository big
cd big
way init
way config --add-repo ../work/architecture
way config --add-repo ../work/implementation
design=$(added "Design authentication system" --repo ../work/architecture)
build=$(added "Implement JWT validation" --repo ../work/implementation)
way list --repo ../work/architecture | says "$design"
way list --repo ../work/architecture | omits "$build"
way list | says "$design" "$build" "architecture" "implementation"

step "Dependencies and children work across repositories"
way dep add "$build" "$design"
way ready | omits "$build"
part=$(added "Choose an algorithm" --parent "$design")
grep -q "$part" ../work/architecture/.waypost/issues.jsonl
way close "$part" "$design"
way ready | says "$build"

step "Use case 3: an existing user moves planning out of the project"
idea=$(added "Only an idea")
way config --add-repo ../planning
way migrate --move-to ../planning --filter "id=$idea"
grep -q "$idea" ../planning/.waypost/issues.jsonl
way show "$idea" | says "Only an idea"

step "Two clones that change the same ledger converge by sync, without a conflict"
git init -q --bare -b main ../shared.git
git add -A
git commit -q -m ledger
git remote add origin ../shared.git
git push -q -u origin main
git clone -q ../shared.git ../other
here=$(added "Written here")
there=$(cd ../other && added "Written there")
way sync
(cd ../other && way sync && way list | says "$here" "$there")
way sync
way list | says "$here" "$there"
