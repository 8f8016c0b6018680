# Completes way in bash. `way __complete` knows the commands, their options and the live ids.
_way() {
    local line value
    local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        case $value in
            :files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2") ;;
            :dirs) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$2") ;;
            :commands) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$2") ;;
            *=) compopt -o nospace 2>/dev/null; COMPREPLY+=("$(printf %q "$value")") ;;
            *) COMPREPLY+=("$(printf %q "$value")") ;;
        esac
    done < <("${1/#\~/$HOME}" __complete bash "${words[@]}" 2>/dev/null)
}
complete -o nosort -F _way way 2>/dev/null || complete -F _way way
