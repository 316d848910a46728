"""`grove completion`: scripts that let a shell complete commands, options and names."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from grove.cli.talk import emit


class Shell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# Each asks `grove __complete WORD...`, whose last word is the one to complete. It answers with a candidate on
# each line, a description behind a tab, and at last `:0` if files may be meant too or `:4` if not.
_BASH: Final = r"""
_grove() {
    local answer line value directive IFS=$'\n'
    COMPREPLY=()
    answer=$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    for line in $answer; do
        case $line in
            :*) directive=${line#:} ;;
            *) value=${line%%$'\t'*}; COMPREPLY+=("$value") ;;
        esac
    done
    if [[ $directive == 0 && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _grove grove
"""
_ZSH: Final = r"""
#compdef grove
_grove() {
    local -a candidates
    local line directive=4
    for line in "${(@f)$(${words[1]} __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :*) directive=${line#:} ;;
            ?*) candidates+=("${${line%%$'\t'*}//:/\\:}${line#${line%%$'\t'*}}") ;;
        esac
    done
    candidates=("${(@)candidates/$'\t'/:}")
    (( ${#candidates} )) && _describe grove candidates
    if (( ${#candidates} == 0 )) && [[ $directive == 0 ]]; then _files; fi
}
if [ "$funcstack[1]" = "_grove" ]; then _grove "$@"; else compdef _grove grove; fi
"""
_FISH: Final = r"""
function __grove_complete
    set -l words (commandline -opc)
    set -l answer ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    set -l candidates (string match -v -r '^:[0-9]+$' -- $answer)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else if test "$answer[-1]" = ":0"
        __fish_complete_path (commandline -ct)
    end
end
complete -c grove -f -a '(__grove_complete)'
"""
_SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion script of a shell.

    Completes commands, options and their values, and from the cluster the names of sets and namespaces.
    """
    emit(_SCRIPTS[shell].lstrip("\n"))
