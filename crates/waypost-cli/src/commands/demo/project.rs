//! The project of the demo: a small shop in shell, its test, and the script that stands in for coding agents.

/// A part of the project that an agent writes.
pub(super) struct Part {
    /// The name of the part, of its file in `lib/`, and of its branch.
    pub(super) name: &'static str,
    /// The title of its issue.
    pub(super) title: &'static str,
}

/// The parts that agents write at once. The agents have the same order.
pub(super) const PARTS: [Part; 4] = [
    Part { name: "tax", title: "Compute the tax" },
    Part { name: "discount", title: "Give a discount" },
    Part { name: "shipping", title: "Charge for shipping" },
    Part { name: "receipt", title: "Print a receipt" },
];
/// The part that waits for the others.
pub(super) const LAST: Part = Part { name: "total", title: "Sum it all up" };
/// The agents.
pub(super) const AGENTS: [&str; 4] = ["ada", "bob", "cyd", "dan"];
/// The question of the second agent, and the answer of the demo.
pub(super) const QUESTION: &str = "Round half a cent up or down?";
pub(super) const ANSWER: &str = "up";
/// What the third agent records before it is killed.
pub(super) const CHECKPOINT: &str = "lib/shipping.sh is written, its test is missing";
/// The issue that the fourth agent finds.
pub(super) const FOUND: &str = "Parcels above 30 kg have no rate";

/// The files of the upstream repository.
pub(super) const UPSTREAM: [(&str, &str); 4] = [
    ("README.md", "# Shop\n\nA shop in shell. All amounts are in cents. `sh test.sh` runs the tests.\n"),
    ("lib/price.sh", "price() { case $1 in tea) echo 450 ;; cup) echo 1250 ;; esac; }\n"),
    ("tests/price.sh", ". ./lib/price.sh\ntest \"$(price tea)\" = 450\n"),
    ("test.sh", TEST),
];

/// The test of the project: every file in `tests/` has to succeed.
const TEST: &str = r#"#!/bin/sh
# Runs every test, and says how many passed.
passed=0
for file in tests/*.sh; do
    if sh -e "$file"; then passed=$((passed + 1)); else echo "$file failed"; exit 1; fi
done
echo "$passed passed"
"#;

/// Settings of git for everything in the demo. The user's own do not apply.
pub(super) const GITCONFIG: &str = "\
[user]
    name = You
    email = you@localhost
[init]
    defaultBranch = main
[advice]
    mergeConflict = false
";

/// Returns the script that stands in for a coding agent: it reads the context of its task, writes a part of the shop and
/// its test, commits, and finishes the task.
pub(super) fn agent() -> String {
    AGENT.replace("@QUESTION@", QUESTION).replace("@CHECKPOINT@", CHECKPOINT).replace("@FOUND@", FOUND)
}

const AGENT: &str = r#"#!/bin/sh
# Stands in for a coding agent. It gets what every job gets: a workspace, a task, and the context of the task.
set -e
context=$WAYPOST_CONTEXT_DIR/context.md
part=$(sed -n 's|.*lib/\([a-z]*\)\.sh.*|\1|p' "$context" | head -n 1)
agent=$WAYPOST_AGENT
way() { command way --quiet "$@" > /dev/null; }

# The first four agents begin at the same time.
: > "$HOME/started/$part"
tries=0
while [ "$(ls "$HOME/started" | wc -l)" -lt 4 ] && [ $tries -lt 600 ]; do
    sleep 0.05
    tries=$((tries + 1))
done

write_test() {
    printf '. ./lib/%s.sh\n%s\n' "$part" "$1" > "tests/$part.sh"
}

case $part in
tax)
    echo 'tax() { echo $(($1 * 20 / 100)); }' > lib/tax.sh
    write_test 'test "$(tax 10000)" = 2000'
    ;;
discount)
    answer=$(sed -n 's/^Answered: //p' "$context")
    if [ -z "$answer" ]; then
        way task ask "$WAYPOST_TASK" --question '@QUESTION@'
        echo "$agent asks: @QUESTION@"
        exit 0
    fi
    echo "$agent reads the answer: $answer"
    case $answer in up) half=50 ;; *) half=49 ;; esac
    echo "discount() { echo \$(((\$1 * \$2 + $half) / 100)); }" > lib/discount.sh
    write_test 'test "$(discount 1250 10)" = 125 && test "$(discount 45 10)" = 5'
    ;;
shipping)
    if ! [ -e lib/shipping.sh ]; then
        echo 'shipping() { if [ "$1" -ge 5000 ]; then echo 0; else echo 490; fi; }' > lib/shipping.sh
        way task checkpoint "$WAYPOST_TASK" --type progress --summary '@CHECKPOINT@'
        echo "$agent recorded a checkpoint"
        exec sleep 600
    fi
    echo "$agent goes on from the checkpoint: $(grep -o '@CHECKPOINT@' "$context" | head -n 1)"
    way add '@FOUND@' --type bug
    write_test 'test "$(shipping 4999)" = 490 && test "$(shipping 5000)" = 0'
    ;;
receipt)
    echo 'receipt() { printf "%d.%02d EUR\n" $(($1 / 100)) $(($1 % 100)); }' > lib/receipt.sh
    write_test 'test "$(receipt 125005)" = "1250.05 EUR"'
    ;;
total)
    echo "$agent starts from the work of the others:" $(cd lib && ls)
    cat > lib/total.sh <<'END'
for file in discount price receipt shipping tax; do . "./lib/$file.sh"; done
total() {
    net=$(($1 - $(discount "$1" 10)))
    receipt $((net + $(tax "$net") + $(shipping "$net")))
}
END
    write_test 'test "$(total "$(price cup)")" = "18.40 EUR"'
    ;;
esac

sh -e "tests/$part.sh"
git add lib tests
git -c user.name="$agent" -c user.email="$agent@localhost" commit --quiet -m "Add $part"
way task done "$WAYPOST_TASK" --outcome "lib/$part.sh is written and tested" --evidence "sh tests/$part.sh"
echo "$agent finished $part"
"#;

/// Stands in for a coding agent while people watch: reviews the project at a pace that people can follow.
pub(super) const REVIEWER: &str = r#"#!/bin/sh
# Stands in for a coding agent that reviews. It changes no file, and takes some seconds for each step.
set -e
pause=$1
context=$WAYPOST_CONTEXT_DIR/context.md
way() { command way --quiet "$@" > /dev/null; }
if grep -q '^Asked' "$context"; then
    echo "the answer is: $(sed -n 's/^Answered: //p' "$context")"
elif grep -q 'ask first' "$context"; then
    way task ask "$WAYPOST_TASK" --question 'Is this part needed in the next release?'
    echo 'waits for an answer'
    exit 0
fi
for file in tests/*.sh; do
    sleep "$pause"
    sh -e "$file"
    echo "$file passed"
    way task checkpoint "$WAYPOST_TASK" --type progress --summary "$file passed"
done
sleep "$pause"
way task done "$WAYPOST_TASK" --outcome "$(ls tests | wc -l) tests passed"
echo 'done'
"#;

/// The plan of a round of reviews.
pub(super) const REVIEW: &str = "\
summary: Review the shop once more
tasks:
- name: read
  description: Read the whole shop
- name: prices
  description: Review the prices
  depends_on: [read]
- name: taxes
  description: Review the taxes
  depends_on: [read]
- name: parcels
  description: Review the parcels; ask first
  depends_on: [read]
- name: receipts
  description: Review the receipts
  depends_on: [read]
- name: summary
  description: Sum the review up
  depends_on: [prices, taxes, parcels, receipts]
";
