# Completes way in fish. `way __complete` knows the commands, their options and the live ids.
function __way_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' -- $HOME $words[1])
    for line in ($program __complete fish $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path "$current"
            case ':dirs*'
                __fish_complete_directories "$current"
            case ':commands*'
                complete -C "$current"
            case '*'
                echo -- $line
        end
    end
end
complete -c way -f -k -a '(__way_complete)'
