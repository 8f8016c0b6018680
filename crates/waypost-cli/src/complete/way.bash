# Completes way in bash. `way __complete` knows the commands, their options and the live ids.

# Puts a backslash before each special character, byte by byte. Bash inserts names into the line as they are, even after an open
# quotation mark. There, printf %q is no help: it may write a name that is not ASCII as $'...', which that mark would end.
_way_quote() {
    local LC_ALL=C byte i
    REPLY=
    for ((i = 0; i < ${#1}; i++)); do
        byte=${1:i:1}
        case $byte in
            [a-zA-Z0-9_.:@%+,=/-] | [$'\x80'-$'\xff']) REPLY+=$byte ;;
            *) REPLY+=\\$byte ;;
        esac
    done
}

_way() {
    local line value REPLY
    local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        case $value in
            :files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2") ;;
            :dirs) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$2") ;;
            :commands) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$2") ;;
            *)
                [[ $value == *= ]] && compopt -o nospace 2>/dev/null
                _way_quote "$value"
                COMPREPLY+=("$REPLY")
                ;;
        esac
    done < <("${1/#\~/$HOME}" __complete bash "${words[@]}" 2>/dev/null)
}
complete -o nosort -F _way way 2>/dev/null || complete -F _way way
