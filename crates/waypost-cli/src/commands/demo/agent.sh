#!/bin/sh
# Stands in for a coding agent. It gets what every job gets: a workspace, a task, and the context of the task. It reads the
# context, writes a part of the shop and its test, commits, and finishes the task.
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
        way task ask "$WAYPOST_TASK" --question 'Round half a cent up or down?'
        echo "$agent asks: Round half a cent up or down?"
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
        way task checkpoint "$WAYPOST_TASK" --type progress --summary 'lib/shipping.sh is written, its test is missing'
        echo "$agent recorded a checkpoint"
        echo $$ > "$HOME/crash"
        exec sleep 600
    fi
    echo "$agent goes on from the checkpoint: $(grep -o 'lib/shipping.sh is written, its test is missing' "$context" | head -n 1)"
    way add 'Parcels above 30 kg have no rate' --type bug
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
