"""Writes completions for bash, zsh and fish. They contain all words as fixed text, so that no Python program runs
during completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lbdns_packaging.command_descriptions import CommandDescription

#: An option whose value is such a word completes the names of files
_FILES: Final = ("FILE", "PATH", "DIR", "DIRECTORY")


def bash_completion(program: CommandDescription) -> str:
    """Return a bash script that completes a program's commands and options, and file names."""
    function = f"_{program.name.replace('-', '_')}"
    cases = "".join(
        f"        {_bash_case(command)})\n            words='{_words(command)}' ;;\n" for command in _all(program)
    )
    return f"""\
# Completion of {program.name} for bash
{function}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" path={program.name} word words
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{_bash_paths(program)}        esac
    done
    case "$path" in
{cases}    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ ${{#COMPREPLY[@]}} -eq 0 ]; then mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi
}}
complete -o filenames -F {function} {program.name}
"""


def _bash_paths(program: CommandDescription) -> str:
    names = [command.name for command in _all(program) if command is not program]
    return "".join(f"            '{name}') path='{name}' ;;\n" for name in names)


def _bash_case(command: CommandDescription) -> str:
    return f"'{command.name}'"


def zsh_completion(program: CommandDescription) -> str:
    """Return a zsh script that completes a program's command lines."""
    parts = "".join(_zsh_function(command) for command in _all(program))
    return f'#compdef {program.name}\n# Completion of {program.name} for zsh\n{parts}\n{_zsh_name(program)} "$@"\n'


def _zsh_function(command: CommandDescription) -> str:
    specs = []
    for option in command.options:
        value = f":{_quoted_zsh(option.value)}:{'_files' if _takes_file(option.value) else ' '}" if option.value else ""
        specs += [f"'{name}[{_quoted_zsh(_first_sentence(option.help))}]{value}'" for name in option.names]
    name = _zsh_name(command)
    if not command.subcommands:
        return f"\n{name}() {{\n    _arguments -s {' '.join(specs)} '*:argument:_files'\n}}\n"
    described = " ".join(f"'{child.word}:{_quoted_zsh(child.summary)}'" for child in command.subcommands)
    cases = "".join(f"        {child.word}) {_zsh_name(child)} ;;\n" for child in command.subcommands)
    return f"""
{name}() {{
    local line state
    _arguments -s -C {" ".join(specs)} '1:command:->command' '*::argument:->rest'
    case $state in
    command)
        local -a commands=({described})
        _describe command commands ;;
    rest)
        case $line[1] in
{cases}        *) _files ;;
        esac ;;
    esac
}}
"""


def _zsh_name(command: CommandDescription) -> str:
    return f"_{command.name.replace(' ', '__')}"


def fish_completion(program: CommandDescription) -> str:
    """Return a fish script that completes a program's command lines."""
    lines = [f"# Completion of {program.name} for fish"]
    top = " ".join(child.word for child in program.subcommands)
    for child in program.subcommands:
        condition = f"not __fish_seen_subcommand_from {top}"
        lines.append(
            f"complete -c {program.name} -f -n '{condition}' -a {child.word} -d '{_quoted_fish(child.summary)}'"
        )
    for command in (program, *program.subcommands):
        words = command.name.split()[1:]
        condition = f"__fish_seen_subcommand_from {words[-1]}" if words else f"not __fish_seen_subcommand_from {top}"
        needed = f" -n '{condition}'" if top else ""
        for option in command.options:
            names = " ".join(f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names)
            value = "" if not option.value else (" -r -F" if _takes_file(option.value) else " -x")
            text = _quoted_fish(_first_sentence(option.help))
            lines.append(f"complete -c {program.name}{needed} {names}{value} -d '{text}'")
    return "\n".join(lines) + "\n"


#: Shell -> the function that writes a completion, and the name of its file ({} stands for the program)
SHELLS: Final[dict[str, tuple[Callable[[CommandDescription], str], str]]] = {
    "bash": (bash_completion, "{}"),
    "zsh": (zsh_completion, "_{}"),
    "fish": (fish_completion, "{}.fish"),
}


def _all(command: CommandDescription) -> Iterator[CommandDescription]:
    yield command
    for child in command.subcommands:
        yield from _all(child)


def _words(command: CommandDescription) -> str:
    words = [child.word for child in command.subcommands]
    return " ".join([*words, *(name for option in command.options for name in option.names)])


def _takes_file(value: str) -> bool:
    return any(word in value.upper() for word in _FILES)


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".")


def _quoted_zsh(text: str) -> str:
    """Return ``text`` escaped for a single-quoted description in zsh, where brackets and colons have a special
    meaning."""
    escaped = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    return escaped.replace("'", "'\\''")


def _quoted_fish(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
