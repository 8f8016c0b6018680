#!/bin/sh
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
