#!/bin/sh
# The story of `way demo`. The program starts it in a new directory, which it removes at the end, with a home directory of its
# own and without the settings of the user. A command that fails ends the story.
set -u
demo=$PWD shop=$PWD/shop began=$(date +%s) gap= BOLD=${BOLD-} DIM=${DIM-} PLAIN=${PLAIN-}

# Standard input ends when the program does, even if it is killed, or when the user wants an end. Then everything ends.
exec 3<&0 < /dev/null
trap 'wait; exit 1' TERM
(read -r _ <&3; kill -TERM 0) &
guard=$!

# Prints a heading.
say() {
    printf '%s%s\n' "$gap" "$BOLD$1$PLAIN"
    gap='
'
}

# Prints a command, with what it printed into a file. Ends the story unless its exit code is the wanted one.
show() { # PROMPT COMMAND FILE CODE WANTED
    printf '%s  %s %s%s\n' "$DIM" "$1" "$2" "$PLAIN"
    sed "s|$demo|..|g; s/^./  &/" "$3"
    [ "$4" = "$5" ] || { echo "this command ended with exit code $4" >&2; exit 1; }
}

# Runs a command in a directory, and shows it.
run_in() { # DIRECTORY PROMPT COMMAND
    (cd "$1" && eval "$3") > output 2>&1
    show "$2" "$3" output $? 0
}
run() { run_in "$shop" '$' "$1"; }
upstream() { run_in upstream 'upstream$' "$1"; }

# Prints the id of the issue that the last command added.
added() { cut -d ' ' -f 2 output; }

# Prints an id in the newest job of a task.
newest_job() { # TASK PREFIX
    (cd "$shop" && way job list --task "$1" --limit 1 --json) | grep -o "$2_[a-z0-9]*" | head -n 1
}

# Starts a job of an agent. `finish` waits for it, and shows it.
start() { # AGENT OPTIONS
    line="way job start --quiet --agent $1 $2 -- ../agent.sh"
    (cd "$shop" && eval "exec $line") > "output.$1" 2>&1 &
    eval "line_$1=\$line process_$1=$!"
}
finish() { # AGENT [CODE]
    eval "line=\$line_$1 process=\$process_$1"
    wait "$process"
    show '$' "$line" "output.$1" $? "${2:-0}"
}

mkdir -p upstream/lib upstream/tests home/started
cat > home/.gitconfig <<'END'
[user]
    name = You
    email = you@localhost
[init]
    defaultBranch = main
END
cat > upstream/README.md <<'END'
# Shop

A shop in shell. All amounts are in cents. `sh test.sh` runs the tests.
END
cat > upstream/lib/price.sh <<'END'
price() { case $1 in tea) echo 450 ;; cup) echo 1250 ;; esac; }
END
cat > upstream/tests/price.sh <<'END'
. ./lib/price.sh
test "$(price tea)" = 450
END
cat > upstream/test.sh <<'END'
#!/bin/sh
# Runs every test, and says how many passed.
passed=0
for file in tests/*.sh; do
    if sh -e "$file"; then passed=$((passed + 1)); else echo "$file failed"; exit 1; fi
done
echo "$passed passed"
END
cd upstream && git init --quiet && way init --maintainer --quiet > ../output || exit 1
git add . && git commit --quiet -m 'Open the shop' || exit 1
cd "$demo" || exit 1

say 'A small shop, cloned from its upstream. You plan in private, in a ledger of your own.'
run_in "$demo" '$' 'git clone --quiet upstream shop'
run 'way init --contributor --planning ../planning'
run 'sh test.sh'

say 'An epic, its parts, and what comes after them. The files of the project do not change.'
run "way add 'A checkout for the shop' --type epic"
epic=$(added)
run "way add 'Its parts' --type epic --parent $epic"
parts=$(added)
run "way add 'Compute the tax' -d 'Write lib/tax.sh' --parent $parts"
tax=$(added)
run "way add 'Give a discount' -d 'Write lib/discount.sh' --parent $parts"
discount=$(added)
run "way add 'Charge for shipping' -d 'Write lib/shipping.sh' --parent $parts"
shipping=$(added)
run "way add 'Print a receipt' -d 'Write lib/receipt.sh' --parent $parts"
receipt=$(added)
run "way add 'Sum it all up' -d 'Write lib/total.sh' --parent $epic --blocked-by $parts"
total=$(added)
run 'git status --short'

say 'The epic becomes a workflow. Its last task waits for the others.'
run "way workflow from-issue $epic --name checkout --start"
run 'way graph checkout'

say 'Four agents at once, each in its own workspace. One is killed (kill -9) in the middle of its work.'
start ada "--task $tax --branch tax"
start bob "--task $discount --branch discount"
start cyd "--task $shipping --branch shipping"
start dan "--task $receipt --branch receipt"
tries=0
until [ -s home/crash ] || [ $tries = 1200 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -9 "$(cat home/crash)"
finish ada
finish bob
finish cyd 137
finish dan

say 'cyd is gone, and bob has a question. Your checkout is as it was.'
run 'git status --short'
run 'way status --line'
run "way checkpoint list $shipping"
run "way task answer $discount 'up'"

say 'dan goes on from the checkpoint of cyd, with the files that cyd did not save.'
start dan "--task $shipping --workspace $(newest_job "$shipping" ws)"
start bob "--task $discount --branch discount"
finish dan
finish bob

say 'The last task starts from the work of the others.'
start ada "--task $total --branch total"
finish ada

say 'You merge what the agents did. The test of the project decides.'
jobs=
for task in "$tax" "$discount" "$shipping" "$receipt" "$total"; do
    jobs="$jobs $(newest_job "$task" jb)"
done
run "for job in$jobs; do way job deliver \$job --local; done"
run 'for branch in tax discount shipping receipt total; do git merge --quiet --no-ff -m "Merge $branch" $branch; done'
run 'sh test.sh'

say 'dan noted a bug on the way. You propose it with your change; upstream accepts it.'
bug=$(cd shop && way list --type bug | grep -o 'planning-[a-z0-9]*')
run "way propose $bug --quiet"
run "git add .waypost && git commit --quiet -m 'Add a checkout, report a bug'"
run 'git push --quiet origin HEAD:checkout'
upstream 'git merge --quiet checkout && sh test.sh'
upstream "way accept $bug"
upstream "git commit --quiet -a -m 'Accept the report'"
run 'git pull --quiet && way sync --quiet'
run 'way list --type bug'

if [ "${1-}" != --serve ]; then
    say "This took $(($(date +%s) - began))s. What next?"
    cat <<END
  way demo --serve         ${DIM}watch agents work, in a browser$PLAIN
  way demo --keep          ${DIM}keep the shop to look around$PLAIN
  way setup claude-code    ${DIM}connect your agent$PLAIN
  way add 'Fix the login'  ${DIM}in a repository of yours: no set-up needed$PLAIN
END
    kill "$guard"
    exit
fi

# Agents go on with reviews at a pace that people can follow. A question waits for the people who watch, and is answered then.
cd shop || exit 1
way serve --port 0 --open > ../served 2>&1 &
server=$!
until grep -q '^browser' ../served; do kill -0 "$server" && sleep 0.1 || exit 1; done
for agent in ada bob cyd dan; do
    way worker --agent "$agent" --patience 0s --cleanup -- ../reviewer.sh 2 > "../output.$agent" 2>&1 &
done
say 'The dashboard, for one browser:'
sed -n 's/^browser */  /p' ../served
echo '  ada, bob, cyd, dan go on working. Ctrl-C ends everything.'
review() { way workflow create "review-$1" --plan ../review.yaml --start > ../output || exit 1; }
review 1
round=1
while :; do
    review $((round + 1))
    until way workflow wait "review-$round" --timeout 20s > ../waited 2>&1; do
        # Without the directory, each step fails at once, and so would the next rounds.
        kill -0 "$server" && [ -e ../served ] || exit 1
        way task answer parcels --workflow "review-$round" 'yes, keep it' > ../answered 2>&1
    done
    round=$((round + 1))
done
