"""Shell completion, made of the parser itself: what it takes and what `fans completion` prints are one thing."""

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fans.errors import choose

Parser = argparse.ArgumentParser

_APOSTROPHE = "\u2019"
"""The printed one, which ends no string of a shell."""


@dataclass(frozen=True)
class _Option:
    """An option of a command.

    Attributes:
        names: `--out`, say.
        about: its help.
        takes: how many values: 0, 1, or 2 for several.
        choices: what they may be; empty where anything may be.
    """

    names: tuple[str, ...]
    about: str
    takes: int
    choices: tuple[str, ...]


@dataclass(frozen=True)
class _Command:
    """A command, or `fans` itself.

    Attributes:
        name: "" of `fans` itself.
        about: its help.
        options: that it takes.
        words: what its arguments may be, where the parser knows.
        files: whether they are files or folders.
    """

    name: str
    about: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    files: bool


def script(parser: Parser, shell: str) -> str:
    """Return what makes a shell complete the commands and options of a parser: `"bash"`, `"zsh"` or `"fish"`.

    Example:
        >>> parser = argparse.ArgumentParser(prog="toy")
        >>> _ = parser.add_subparsers().add_parser("run", help="run it")
        >>> "complete -c toy -n __fish_use_subcommand -a run -d 'run it'" in script(parser, "fish")
        True
    """
    made = _SHELLS[choose("the shell", shell, _SHELLS)]
    return made(parser.prog, list(_commands(parser)))


def _commands(parser: Parser) -> Iterator[_Command]:
    """Yield `fans` itself and each of its commands."""
    yield _command("", "", parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {one.dest: one.help or "" for one in action._choices_actions}
            for name, inner in action.choices.items():
                yield _command(name, _plain(about.get(name, "")), inner)


def _command(name: str, about: str, parser: Parser) -> _Command:
    options, words, files = list[_Option](), list[str](), False
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        choices = tuple(map(str, action.choices or ()))
        if action.option_strings:
            takes = 0 if action.nargs == 0 else 1 if action.nargs in (None, "?", 1) else 2
            options.append(_Option(tuple(action.option_strings), _plain(action.help or ""), takes, choices))
        else:
            words += choices
            files = files or action.type is Path or not choices
    return _Command(name, about, tuple(options), tuple(words), files)


def _plain(text: str) -> str:
    """Return a help text without what a shell might read into it."""
    return re.sub(rf"[^\w .,;/()+{_APOSTROPHE}-]", "", text.replace(":", ",").replace("'", _APOSTROPHE)).strip()


# --- Shells ----------------------------------------------------------------------------------------------------------


def _bash(program: str, commands: list[_Command]) -> str:
    """One function, which looks for the command among the words so far."""
    valued, cases = list[str](), list[str]()
    for command in commands:
        for option in command.options:
            if option.takes:
                at = "|".join(f'"{command.name} {name}"' for name in option.names)
                words = (
                    f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$current"))' if option.choices else ":"
                )
                valued.append(f"        {at}) {words}; return ;;")
        options = " ".join(name for option in command.options for name in option.names)
        words = " ".join(command.words) or ("" if command.files else options)
        cases.append(f'        "{command.name}") words="{words}" options="{options}" ;;')
    return f"""# {program} in bash: source <({program} completion bash)
_{program}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="" word words="" options=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ "$word" != -* ]]; then command="$word"; break; fi
    done
    COMPREPLY=()
    case "$command $previous" in
{chr(10).join(valued)}
    esac
    case "$command" in
{chr(10).join(cases)}
    esac
    if [[ "$current" == -* ]]; then words="$options"; fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _{program} {program}
"""


def _zsh(program: str, commands: list[_Command]) -> str:
    """Commands with what they do, then the arguments of each."""
    told = "\n".join(f"                '{command.name}:{command.about}'" for command in commands[1:])
    cases = "\n".join(
        f"                ({command.name}) _arguments {' '.join(_zsh_arguments(command))} ;;"
        for command in commands[1:]
    )
    first = " ".join(spec for option in commands[0].options for spec in _zsh_option(option))
    return f"""#compdef {program}
# {program} in zsh: source <({program} completion zsh), or save it as _{program} in a folder of $fpath
_{program}() {{
    local context state line
    typeset -A opt_args
    _arguments -C {first} '1:command:->command' '*::argument:->argument'
    case $state in
        (command)
            local -a commands=(
{told}
            )
            _describe command commands ;;
        (argument)
            case $line[1] in
{cases}
            esac ;;
    esac
}}
if [[ $funcstack[1] == _{program} ]]; then _{program} "$@"; else compdef _{program} {program}; fi
"""


def _zsh_arguments(command: _Command) -> Iterator[str]:
    for option in command.options:
        yield from _zsh_option(option)
    if command.words:
        yield f"'*:argument:({' '.join(command.words)})'"
    elif command.files:
        yield "'*:file:_files'"


def _zsh_option(option: _Option) -> Iterator[str]:
    what = f"({' '.join(option.choices)})" if option.choices else "_files"
    for name in option.names:
        many = "*" if option.takes == 2 else ""
        yield f"'{many}{name}[{option.about}]{f':value:{what}' if option.takes else ''}'"


def _fish(program: str, commands: list[_Command]) -> str:
    """One line for each command and for each option."""
    lines = [f"# {program} in fish: {program} completion fish | source"]
    for command in commands:
        at = f"-n '__fish_seen_subcommand_from {command.name}'" if command.name else "-n __fish_use_subcommand"
        if command.name:
            lines.append(f"complete -c {program} -n __fish_use_subcommand -a {command.name} -d '{command.about}'")
        if not command.name or not command.files:
            lines.append(f"complete -c {program} {at} -f")
        if command.name and command.words:
            lines.append(f"complete -c {program} {at} -a '{' '.join(command.words)}'")
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            values = f"-f -a '{' '.join(option.choices)}'" if option.choices else "-F"
            takes = f" -r {values}" if option.takes else ""
            lines.append(f"complete -c {program} {at} {names} -d '{option.about}'{takes}")
    return "\n".join(lines) + "\n"


_SHELLS: dict[str, Callable[[str, list[_Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

SHELLS = tuple(_SHELLS)
"""Those that there is a completion for."""
