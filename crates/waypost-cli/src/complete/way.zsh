#compdef way
# Completes way in zsh. `way __complete` knows the commands, their options and the live ids.
_way() {
    local line value
    local -a described open
    for line in "${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        case $value in
            '') ;;
            :files) _files ;;
            :dirs) _files -/ ;;
            :commands) _command_names -e ;;
            *=) open+=("${${value//\\/\\\\}//:/\\:}:${line#*$'\t'}") ;;
            *) described+=("${${value//\\/\\\\}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( $#described )) && _describe -V way described
    (( $#open )) && _describe -V way open -S ''
    return 0
}
if [[ $funcstack[1] == _way ]]; then
    _way "$@"
else
    compdef _way way
fi
