# Functions that the walks share. Every walk runs with bash, in an empty directory with its own home. A line `#> COMMAND` in a
# walk is a command of its document. The same command of ours follows, or a comment that says why another one does.

# Prints a headline, so that the output of a failed walk shows how far it came.
step() {
    echo "== $*"
}

# Fails unless standard input contains each text.
says() {
    output=$(cat)
    for text in "$@"; do
        case $output in
            *"$text"*) ;;
            *) echo "expected: $text"; echo "$output"; exit 1 ;;
        esac
    done
}

# Fails if standard input contains one of the texts.
omits() {
    output=$(cat)
    for text in "$@"; do
        case $output in
            *"$text"*) echo "unexpected: $text"; echo "$output"; exit 1 ;;
        esac
    done
}

# Fails unless the command ends with this exit code.
exits_with() {
    expected=$1
    shift
    code=0
    "$@" > "$HOME/output" 2>&1 || code=$?
    if [ "$code" != "$expected" ]; then
        echo "exit code $code instead of $expected: $*"
        cat "$HOME/output"
        exit 1
    fi
}

# Creates a git repository with one commit.
repository() {
    git init -q -b main "$1"
    git -C "$1" commit -q --allow-empty -m first
}

# Prints the id of the issue that `way add` added.
id() {
    sed 's/^Added \([^ ]*\).*/\1/'
}

# Fails if there is standard input.
is_empty() {
    output=$(cat)
    [ -z "$output" ] || { echo "not empty: $output"; exit 1; }
}
